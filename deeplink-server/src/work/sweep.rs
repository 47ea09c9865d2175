//! Takes away what is over: kept replies, tokens, sessions and codes whose time has passed, clicks past their retention.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;

use crate::clicks::Retention;
use crate::db::{DbError, expired};
use crate::state::App;

/// How long a stop may go unnoticed.
const LOOK: Duration = Duration::from_secs(5);
/// Looks between two sweeps of replies and tokens: a minute.
const SMALL: u32 = 12;
/// Looks between two sweeps of the click log: an hour.
const LARGE: u32 = 720;

pub(super) async fn run(app: Weak<App>) {
    // The first ones soon after the start, but not in its way.
    let mut looks = SMALL - 1;
    loop {
        tokio::time::sleep(LOOK).await;
        looks = looks.wrapping_add(1);
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        if looks.is_multiple_of(SMALL) {
            for statement in expired::STATEMENTS {
                report(all(&app, statement).await);
            }
        }
        if looks % LARGE == SMALL {
            report(clicks(&app).await);
        }
    }
}

fn report(outcome: Result<(), DbError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "what is over could not be taken away; it is tried again");
    }
}

/// Runs one kind of sweep to its end, in batches so that no write waits long behind it.
async fn all(app: &App, statement: &'static str) -> Result<(), DbError> {
    let now = app.clock.now();
    while app.db.write(move |mut tx| async move { expired::sweep(&mut tx, statement, now).await }.boxed()).await? {}
    Ok(())
}

/// Where plans limit, the log is kept as long as each account's plan says; else as the operator says.
async fn clicks(app: &App) -> Result<(), DbError> {
    let plans = app.config.enforce_quotas;
    app.clicks.sweep(if plans { Retention::Plans } else { Retention::Days(app.config.retention_days) }).await
}
