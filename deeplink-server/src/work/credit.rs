//! Credits the conversions that a report left for later, because one write credits a limited number.
//!
//! Progress is stored in the database under the user's row lock, so nodes share the work and a restart continues it.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;

use crate::db::{DbError, credits};
use crate::shares::Share;
use crate::state::{App, Shared};

/// Interval between scans for work of other nodes or an earlier process.
const SCAN_INTERVAL: Duration = Duration::from_secs(15);
/// Pause between two writes, so that others come first.
const WRITE_PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn run(app: Weak<App>) {
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = scan(&app).await {
            tracing::warn!(%error, "conversions could not be credited; will retry");
        }
        drop(tokio::time::timeout(SCAN_INTERVAL, app.credit_waits.notified()).await);
    }
}

/// Continues until nothing is left, with each user in turn.
async fn scan(app: &Shared) -> Result<(), DbError> {
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
            let resumed = app.write(
                Share::Service,
                (app.publisher(app.clock.now()), user),
                |tx, (publisher, user)| credits::resume(tx, publisher, user.position).boxed(),
                |app, (publisher, user), _| app.announce(publisher, &user.tenant),
            );
            // One user's failure must not delay the others.
            if let Err(error) = resumed.await {
                failed = Err(error);
            }
            tokio::time::sleep(WRITE_PAUSE).await;
        }
        // Failed users are retried by the next scan.
        failed?;
    }
}
