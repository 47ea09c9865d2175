//! Takes away what is over: kept replies, tokens, sessions and codes whose time has passed, clicks and deliveries past their
//! retention.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;

use crate::clicks::Retention;
use crate::db::{DbError, deliveries, expired};
use crate::state::App;

/// Between two batches of what there may be very many of, so that others come first.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a stop may go unnoticed.
const LOOK: Duration = Duration::from_secs(5);
/// Looks between two sweeps of replies and tokens: a minute.
const SMALL: u32 = 12;
/// Looks between two sweeps of the click log and of deliveries: an hour.
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
            report(old_deliveries(&app).await);
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

/// Deliveries are shown for thirty days, or for fewer where the operator says so; those of a webhook that is gone, to nobody.
async fn old_deliveries(app: &App) -> Result<(), DbError> {
    let before = app.clock.now().plus_days(-app.config.deliveries_kept_days());
    while app.db.write(move |mut tx| async move { deliveries::remove_old(&mut tx, before).await }.boxed()).await? {
        tokio::time::sleep(PAUSE).await;
    }
    let orphaned = deliveries::orphaned(&mut app.db.read().await?.conn()).await?;
    for webhook in orphaned {
        let some = || {
            let webhook = webhook.clone();
            app.db.write(move |mut tx| {
                let webhook = webhook.clone();
                async move { deliveries::remove_of(&mut tx, &webhook).await }.boxed()
            })
        };
        while some().await? {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
