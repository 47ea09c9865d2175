//! Stores when keys were last used, all uses of a second in one write.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;

use crate::db::{DbError, keys};
use crate::shares::Share;
use crate::state::App;

/// Time between two writes.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(app: Weak<App>) {
    loop {
        let Some(uses) = app.upgrade().map(|app| Arc::clone(&app.uses)) else { return };
        uses.wait().await;
        tokio::time::sleep(WRITE_INTERVAL).await;
        let Some(app) = app.upgrade() else { return };
        if let Err(error) = store(&app).await {
            tracing::warn!(%error, "last-used times of keys could not be stored; they will be updated on next use");
        }
    }
}

async fn store(app: &App) -> Result<(), DbError> {
    let noted = app.uses.take();
    if noted.is_empty() {
        return Ok(());
    }
    app.db
        .write(Share::Service, noted, |tx, noted| {
            async move {
                for (key, at) in noted {
                    keys::used(tx, key, *at).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await
}
