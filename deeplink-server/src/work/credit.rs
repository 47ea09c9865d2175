//! Credits what reports left for later: conversions of a user whom touches came to, where there are more of them than one
//! write may do.
//!
//! How far it came stands in the database and is moved under the user's row, so nodes share the work and any start goes on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;

use crate::db::{DbError, credits};
use crate::state::App;

/// How often it is looked whether another node or an earlier process left anything.
const LOOK: Duration = Duration::from_secs(15);
/// Between two writes, so that others come first.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn run(app: Weak<App>) {
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = look(&app).await {
            tracing::warn!(%error, "conversions cannot be credited; it is tried again");
        }
        drop(tokio::time::timeout(LOOK, app.credit_waits.notified()).await);
    }
}

/// Goes on until nothing is left, with each user in turn.
async fn look(app: &App) -> Result<(), DbError> {
    loop {
        let users = credits::unfinished(&mut app.db.read().await?.conn()).await?;
        if users.is_empty() {
            return Ok(());
        }
        let mut failed = Ok(());
        for user in users {
            if app.stopping.load(Ordering::Relaxed) {
                return Ok(());
            }
            let telling = Arc::new(app.telling(app.clock.now()));
            let job = Arc::clone(&telling);
            let gone_on = app.db.write(move |mut tx| {
                let telling = Arc::clone(&job);
                async move { credits::resume(&mut tx, &telling, user.position).await }.boxed()
            });
            match gone_on.await {
                Ok(_) => app.told(&telling, &user.tenant),
                // One user's trouble holds up nobody else.
                Err(error) => failed = Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
        // What failed is looked at again, later.
        failed?;
    }
}
