//! Credits what reports left for later: conversions of a user whom touches came to, where there are more of them than one
//! write may do.
//!
//! How far it came stands in the database and is moved under the user's row, so nodes share the work and any start goes on.

use std::sync::Weak;
use std::sync::atomic::Ordering;
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
            let now = app.clock.now();
            let gone_on = app.db.write(move |mut tx| async move { credits::resume(&mut tx, user, now).await }.boxed());
            // One user's trouble holds up nobody else.
            if let Err(error) = gone_on.await {
                failed = Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
        // What failed is looked at again, later.
        failed?;
    }
}
