//! Takes away what is over: kept replies and tokens whose time has passed.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use deeplink_core::time::Timestamp;

use crate::db::{Conn, DbError, replies, tokens};
use crate::state::App;

const EVERY: Duration = Duration::from_secs(60);
/// How long a stop may go unnoticed.
const LOOK: Duration = Duration::from_secs(5);

/// One batch of one kind of rows; `true` when more may be left.
type Sweep = for<'c> fn(Conn<'c>, Timestamp) -> BoxFuture<'c, Result<bool, DbError>>;

const SWEEPS: [Sweep; 2] = [
    |mut tx, now| async move { replies::sweep(&mut tx, now).await }.boxed(),
    |mut tx, now| async move { tokens::sweep(&mut tx, now).await }.boxed(),
];

pub(super) async fn run(app: Weak<App>) {
    let mut waited = Duration::ZERO;
    loop {
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        if waited >= EVERY {
            waited = Duration::ZERO;
            for sweep in SWEEPS {
                if let Err(error) = all(&app, sweep).await {
                    tracing::warn!(%error, "what is over could not be taken away; it is tried again");
                }
            }
        }
    }
}

/// Runs one kind of sweep to its end, in batches so that no write waits long behind it.
async fn all(app: &App, sweep: Sweep) -> Result<(), DbError> {
    let now = app.clock.now();
    while app.db.write(move |tx| sweep(tx, now)).await? {}
    Ok(())
}
