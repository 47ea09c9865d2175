//! Scans every second for pending deliveries that no notification announced: those of other nodes and of earlier
//! processes, and those whose webhook is disabled or deleted.

use std::time::Duration;

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::db::DbError;
use crate::db::deliveries::{self, PendingWebhook};
use crate::shares::Share;
use crate::state::{App, Shared};

/// Time between two scans.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Webhooks of one scan; the next one continues after them.
const SCAN_PAGE_SIZE: i64 = 1_000;
/// Time between two batches of cleanups, so that other writes come between.
const CLEANUP_INTERVAL: Duration = Duration::from_millis(25);

/// The progress of scans.
#[derive(Default)]
struct Progress {
    /// The webhook after which the next one begins.
    last: String,
    /// Webhooks with more deliveries to clean up.
    cleanups: Vec<(WebhookId, Cleanup)>,
}

/// What to do with pending deliveries that can never be sent as they are.
#[derive(Clone, Copy)]
enum Cleanup {
    /// Their webhook is disabled or deleted.
    CancelPending,
    /// They are due further ahead than is plausible.
    Reschedule(Timestamp),
}

pub(super) async fn run(app: Shared, holder: String, found: mpsc::Sender<TenantId>) {
    let mut progress = Progress::default();
    let mut scanned = None::<Instant>;
    loop {
        let now = app.clock.now();
        app.http.close_idle();
        // Cleanups do not delay the next scan.
        let (cleanups, last) = (std::mem::take(&mut progress.cleanups), progress.last.clone());
        let outcome = if cleanups.is_empty() || scanned.is_none_or(|scanned| scanned.elapsed() >= SCAN_INTERVAL) {
            scanned = Some(Instant::now());
            scan(&app, &holder, &last, now, &found).await
        } else {
            clean_up_all(&app, cleanups).await.map(|cleanups| Progress { last, cleanups })
        };
        match outcome {
            Ok(now) => progress = now,
            Err(error) => tracing::warn!(%error, "scan for pending deliveries failed; will retry"),
        }
        if found.is_closed() {
            return;
        }
        app.clock.pause(if progress.cleanups.is_empty() { SCAN_INTERVAL } else { CLEANUP_INTERVAL }, now).await;
    }
}

/// Scans some webhooks after `after`.
async fn scan(
    app: &App,
    holder: &str,
    after: &str,
    now: Timestamp,
    found: &mpsc::Sender<TenantId>,
) -> Result<Progress, DbError> {
    let mut reader = app.db.read().await?;
    let pending = deliveries::pending_webhooks(&mut reader.conn(), after, SCAN_PAGE_SIZE, holder, now).await?;
    drop(reader);
    let is_full_page = i64::try_from(pending.len()) == Ok(SCAN_PAGE_SIZE);
    let last = pending.last().filter(|_| is_full_page).map(|last| last.webhook.to_string()).unwrap_or_default();
    let may_be_sent =
        |one: &&PendingWebhook| one.is_active && one.due_at <= now && !one.is_leased_elsewhere && !one.is_suspended;
    for one in pending.iter().filter(may_be_sent) {
        // A closed channel means that the service stops.
        let _ = found.send(one.tenant.clone()).await;
    }
    let is_too_far = |one: &PendingWebhook| one.last_due_at.as_millis() > deliveries::latest_plausible(now);
    let cleanups = pending.iter().filter_map(|one| {
        let cleanup = if one.is_active { Cleanup::Reschedule(now) } else { Cleanup::CancelPending };
        (!one.is_active || is_too_far(one)).then(|| (one.webhook.clone(), cleanup))
    });
    let cleanups = clean_up_all(app, cleanups.collect()).await?;
    for one in pending.into_iter().filter(|one| one.is_active && is_too_far(one)) {
        let _ = found.send(one.tenant).await;
    }
    Ok(Progress { last, cleanups })
}

/// Cleans up some deliveries of each webhook, and returns those that may have more.
async fn clean_up_all(app: &App, cleanups: Vec<(WebhookId, Cleanup)>) -> Result<Vec<(WebhookId, Cleanup)>, DbError> {
    let mut unfinished = Vec::new();
    for (webhook, cleanup) in cleanups {
        if clean_up_some(app, &webhook, cleanup).await? {
            unfinished.push((webhook, cleanup));
        }
    }
    Ok(unfinished)
}

/// Cleans up some deliveries of a webhook. `true` if there may be more.
async fn clean_up_some(app: &App, webhook: &WebhookId, cleanup: Cleanup) -> Result<bool, DbError> {
    let write = app.db.write(Share::Service, webhook.clone(), move |tx, webhook| match cleanup {
        Cleanup::CancelPending => deliveries::cancel_pending(tx, webhook).boxed(),
        Cleanup::Reschedule(now) => deliveries::reschedule_too_far(tx, webhook, now).boxed(),
    });
    write.await
}
