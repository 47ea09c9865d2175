//! Deletes expired rows: stored replies, tokens, sessions and codes, and clicks and deliveries past their retention.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;

use crate::clicks::Retention;
use crate::db::{DbError, deliveries, expired};
use crate::shares::Share;
use crate::state::App;

/// Pause between two batches, so that other writes come first.
const BATCH_PAUSE: Duration = Duration::from_millis(5);
/// How often the task checks for a stop.
const TICK: Duration = Duration::from_secs(5);
/// Between two sweeps of replies and tokens: a minute.
const TICKS_PER_SMALL_SWEEP: u32 = 12;
/// Between two sweeps of the click log and of deliveries: an hour.
const TICKS_PER_LARGE_SWEEP: u32 = 720;

pub(super) async fn run(app: Weak<App>) {
    // The first sweeps run soon after the start, but do not slow it down.
    let mut ticks = TICKS_PER_SMALL_SWEEP - 1;
    loop {
        tokio::time::sleep(TICK).await;
        ticks = ticks.wrapping_add(1);
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        if ticks.is_multiple_of(TICKS_PER_SMALL_SWEEP) {
            for statement in expired::STATEMENTS {
                report(all(&app, statement).await);
            }
        }
        if ticks % TICKS_PER_LARGE_SWEEP == TICKS_PER_SMALL_SWEEP {
            report(clicks(&app).await);
            report(old_deliveries(&app).await);
        }
    }
}

fn report(outcome: Result<(), DbError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "expired rows could not be deleted; will retry");
    }
}

/// Runs one kind of sweep to completion, in batches so that no write waits long behind it.
async fn all(app: &App, statement: &'static str) -> Result<(), DbError> {
    let now = app.clock.now();
    while app.db.write(Share::Service, (), move |tx, ()| expired::sweep(tx, statement, now).boxed()).await? {}
    Ok(())
}

/// If plans are enforced, the log is kept as long as each account's plan says; else as the operator says.
async fn clicks(app: &App) -> Result<(), DbError> {
    let plans = app.config.enforce_quotas;
    app.clicks.sweep(if plans { Retention::Plans } else { Retention::Days(app.config.retention_days) }).await
}

/// Deliveries are kept for thirty days, or fewer if the operator says so; those of a deleted webhook are deleted.
async fn old_deliveries(app: &App) -> Result<(), DbError> {
    let before = app.clock.now().plus_days(-app.config.deliveries_kept_days());
    while app.db.write(Share::Service, (), move |tx, ()| deliveries::remove_old(tx, before).boxed()).await? {
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    let deleted = deliveries::deleted_webhooks_with_deliveries(&mut app.db.read().await?.conn()).await?;
    for webhook in deleted {
        while app
            .db
            .write(Share::Service, webhook.clone(), |tx, webhook| deliveries::remove_of(tx, webhook).boxed())
            .await?
        {
            tokio::time::sleep(BATCH_PAUSE).await;
        }
    }
    Ok(())
}
