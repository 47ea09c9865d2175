//! Stores when keys were last used, a second's uses in one write.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;

use crate::db::{DbError, keys};
use crate::state::App;

/// How long uses gather.
const GATHER: Duration = Duration::from_secs(1);

pub(super) async fn run(app: Weak<App>) {
    loop {
        let Some(uses) = app.upgrade().map(|app| Arc::clone(&app.uses)) else { return };
        uses.wait().await;
        tokio::time::sleep(GATHER).await;
        let Some(app) = app.upgrade() else { return };
        if let Err(error) = store(&app).await {
            tracing::warn!(%error, "when keys were last used could not be stored; their next use is");
        }
    }
}

async fn store(app: &App) -> Result<(), DbError> {
    let noted = Arc::new(app.uses.take());
    if noted.is_empty() {
        return Ok(());
    }
    app.db
        .write(move |mut tx| {
            let noted = Arc::clone(&noted);
            async move {
                for (key, at) in &*noted {
                    keys::used(&mut tx, key, *at).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await
}
