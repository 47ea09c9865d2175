//! Settles payments with an unknown outcome again. A settled one then waits for its payer to repeat the request. Also
//! asks the facilitator from time to time what it settles.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};

use crate::db::DbError;
use crate::db::payments;
use crate::http::x402::settle_again;
use crate::state::{App, Shared};

/// Interval between scans.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Payments that are settled at once.
const MAX_CONCURRENT: usize = 8;
/// Interval between counts of payments whose outcome remains unknown.
const COUNT_INTERVAL_MILLIS: u64 = 60_000;

pub(super) async fn run(app: Weak<App>) {
    let mut counted_at = None;
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let now = app.clock.monotonic_millis();
        // A facilitator that does not answer what it settles delays no payment.
        let ((), settled) = tokio::join!(ask(&app, now), settle_due(&app));
        let mut done = settled;
        if counted_at.is_none_or(|at| now.saturating_sub(at) >= COUNT_INTERVAL_MILLIS) {
            counted_at = Some(now);
            done = done.and(count(&app).await);
        }
        if let Err(error) = done {
            tracing::warn!(%error, "payments could not be checked; will retry");
        }
        drop(app);
        tokio::time::sleep(SCAN_INTERVAL).await;
    }
}

async fn ask(app: &Shared, now_millis: u64) {
    if let Some(facilitator) = &app.facilitator
        && facilitator.is_to_be_asked(now_millis)
    {
        facilitator.ask(now_millis).await;
    }
}

async fn settle_due(app: &Shared) -> Result<(), DbError> {
    let due = payments::due(&mut app.db.read().await?.conn(), app.clock.now()).await?;
    let settled = stream::iter(due).for_each_concurrent(MAX_CONCURRENT, |id| {
        let own = Arc::clone(app);
        // The outcome is stored even if this task ends first.
        let settling = app.payments.spawn(async move {
            if let Err(error) = settle_again(&own, id).await {
                tracing::warn!(%error, "retry of a payment settlement failed");
            }
        });
        settling.map(drop)
    });
    settled.await;
    Ok(())
}

async fn count(app: &Shared) -> Result<(), DbError> {
    let unresolved = payments::count_unresolved(&mut app.db.read().await?.conn(), app.clock.now()).await?;
    app.metrics.payments_unresolved.store(u64::try_from(unresolved).unwrap_or(0), Ordering::Relaxed);
    Ok(())
}
