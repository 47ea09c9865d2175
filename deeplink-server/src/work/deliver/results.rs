//! Stores the results of attempts: one write for many, of all tenants.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::audit::AuditAction;
use deeplink_core::id::{AuditEntryId, WebhookId};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::db::audit::{By, NewEntry};
use crate::db::deliveries::{self, DeliveryState, DeliveryUpdate, Health, MAX_UPDATES};
use crate::db::{Conn, DbError};
use crate::shares::Share;
use crate::state::{App, Shared};
use crate::work::mail::{self, Mail};

/// Maximum results that wait to be stored; a tenant's task with another one waits until there is room.
pub(super) const MAX_WAITING: usize = 1_024;
/// How long results are collected for one write.
const BATCH_WINDOW: Duration = Duration::from_millis(5);
/// The wait before the next try when the database cannot write.
const DATABASE_RETRY_DELAY: Duration = Duration::from_millis(250);
/// Minimum time between two writes of a webhook's row while its health is unchanged.
const HEALTH_INTERVAL_MILLIS: u64 = 1_000;

/// The result of a delivery, after an attempt or in place of one.
pub(super) struct DeliveryResult {
    pub(super) webhook: WebhookId,
    pub(super) update: DeliveryUpdate,
    /// `None` if no attempt was made.
    pub(super) outcome: Option<AttemptOutcome>,
    /// Receives the delivery's id once the result is stored.
    pub(super) on_stored: mpsc::UnboundedSender<ResultStored>,
}

/// What an attempt says about its webhook.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptOutcome {
    /// When it ended.
    pub(super) at: Timestamp,
    pub(super) succeeded: bool,
    /// Whether the webhook is paused now if it has failed for too long.
    pub(super) may_pause: bool,
}

/// A delivery's result is stored.
#[derive(Debug)]
pub(super) struct ResultStored {
    pub(super) webhook: WebhookId,
    pub(super) delivery: String,
    /// Whether there will be another attempt.
    pub(super) is_pending: bool,
}

/// Stores results until every sender is dropped.
pub(super) async fn run(app: Shared, mut results: mpsc::Receiver<DeliveryResult>) {
    let mut recent = RecentHealth::default();
    let mut batch = Vec::with_capacity(MAX_UPDATES);
    while results.recv_many(&mut batch, MAX_UPDATES).await > 0 {
        if batch.len() < MAX_UPDATES && !app.ending.is_cancelled() {
            sleep(BATCH_WINDOW).await;
            while batch.len() < MAX_UPDATES
                && let Ok(result) = results.try_recv()
            {
                batch.push(result);
            }
        }
        store(&app, &mut recent, &mut batch).await;
    }
}

async fn store(app: &Shared, recent: &mut RecentHealth, batch: &mut Vec<DeliveryResult>) {
    let health: Arc<[(WebhookId, Health)]> = recent.changes(app.clock.monotonic_millis(), batch).into();
    batch.sort_by(|one, other| one.update.id.cmp(&other.update.id));
    let updates: Arc<[DeliveryUpdate]> = batch.iter().map(|result| result.update.clone()).collect();
    let mut tries = 0;
    loop {
        let job = (Shared::clone(app), Arc::clone(&updates), Arc::clone(&health));
        let written = if health.iter().any(|(_, health)| health.may_pause) {
            app.db
                .write(Share::Service, job, |tx, (app, updates, health)| store_all(app, tx, updates, health).boxed())
                .await
        } else {
            // A result that a power failure loses only means that the delivery is sent again, so it needs no fsync.
            app.db
                .write_relaxed(Share::Service, job, |tx, (app, updates, health)| {
                    store_all(app, tx, updates, health).boxed()
                })
                .await
        };
        match written {
            Ok(has_mail) => {
                if has_mail {
                    app.mail_waits.notify_one();
                }
                break;
            }
            // The next process repeats deliveries whose results are not stored.
            Err(error) if app.ending.is_cancelled() && tries > 2 => {
                tracing::warn!(%error, "delivery results could not be stored; the deliveries will be sent again");
                break;
            }
            Err(error) => tracing::warn!(%error, "delivery results could not be stored; will retry"),
        }
        tries += 1;
        sleep(DATABASE_RETRY_DELAY).await;
    }
    for DeliveryResult { webhook, update, on_stored, .. } in batch.drain(..) {
        let is_pending = update.state == DeliveryState::Pending;
        // The tenant's task may have ended.
        let _ = on_stored.send(ResultStored { webhook, delivery: update.id, is_pending });
    }
}

/// Stores results and the health of their webhooks; `true` when there is mail to send.
async fn store_all(
    app: &App,
    tx: &mut Conn<'_>,
    updates: &[DeliveryUpdate],
    health: &[(WebhookId, Health)],
) -> Result<bool, DbError> {
    deliveries::apply_updates(tx, updates).await?;
    let now = app.clock.now();
    let mut has_mail = false;
    for (webhook, health) in health {
        if let Some((tenant, url, since)) = deliveries::record_health(tx, webhook, health, now).await? {
            tracing::warn!(%webhook, %tenant, "webhook failed for three days; paused");
            let id = app.random(|random| AuditEntryId::new(now, random));
            let paused = NewEntry::new(id, tenant.clone(), By::Service, AuditAction::WebhookPaused);
            paused.of_url(webhook, &url).store(tx).await?;
            if mail::to_owners(app, tx, &tenant, true, |owner| Mail::webhook_paused(owner, &url, since)).await? {
                has_mail = true;
            } else {
                tracing::warn!(%tenant, "webhook paused, but email is not configured; its owners were not notified");
            }
        }
    }
    Ok(has_mail)
}

/// What this node has written of webhooks' health within the last second, so that a busy one's row is not written with
/// every batch.
#[derive(Default)]
struct RecentHealth(HashMap<WebhookId, WrittenHealth>);

struct WrittenHealth {
    at_millis: u64,
    is_failing: bool,
    may_pause: bool,
}

impl RecentHealth {
    /// The health that is worth a write: a change, or the first unchanged one within a second.
    fn changes(&mut self, now: u64, batch: &[DeliveryResult]) -> Vec<(WebhookId, Health)> {
        let mut all: BTreeMap<&WebhookId, Health> = BTreeMap::new();
        for result in batch {
            if let Some(AttemptOutcome { at, succeeded, may_pause }) = result.outcome {
                all.entry(&result.webhook).or_default().add(at, succeeded, may_pause);
            }
        }
        self.0.retain(|_, written| written.at_millis + HEALTH_INTERVAL_MILLIS > now);
        let mut changes = Vec::new();
        for (webhook, health) in all {
            let is_failing = health.first_failed_at.is_some();
            // Failures after a success start a new failing period, which is stored.
            let fails_again = is_failing && health.delivered_at.is_some();
            let is_written = |written: &WrittenHealth| {
                written.is_failing == is_failing && written.may_pause >= health.may_pause && !fails_again
            };
            if !self.0.get(webhook).is_some_and(is_written) {
                let written = WrittenHealth { at_millis: now, is_failing, may_pause: health.may_pause };
                self.0.insert(webhook.clone(), written);
                changes.push((webhook.clone(), health));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(succeeded: bool, at: i64, on_stored: &mpsc::UnboundedSender<ResultStored>) -> DeliveryResult {
        let update = DeliveryUpdate {
            id: format!("dlv_{at}"),
            expected_attempts: 0,
            tries: 1,
            state: DeliveryState::Delivered,
            due_at: at,
            log: "[]".to_owned(),
        };
        let webhook = "wh_000000000000000000000001".parse().expect("an id");
        let outcome = Some(AttemptOutcome { at: Timestamp::from_millis(at), succeeded, may_pause: false });
        DeliveryResult { webhook, update, outcome, on_stored: on_stored.clone() }
    }

    /// Unchanged health is written at most once a second; a success is never lost, even between failures.
    #[test]
    fn only_changes_of_health_are_written_within_a_second() {
        let (on_stored, _stored) = mpsc::unbounded_channel();
        let mut recent = RecentHealth::default();
        let mut at = 0;
        let mut written = |now, batch: &[bool]| {
            let batch = batch.iter().map(|&succeeded| {
                at += 1;
                result(succeeded, at, &on_stored)
            });
            let changes = recent.changes(now, &batch.collect::<Vec<_>>());
            changes.first().map(|(_, health)| (health.delivered_at.is_some(), health.first_failed_at.is_some()))
        };
        assert_eq!(written(0, &[false, false]), Some((false, true)));
        assert_eq!(written(10, &[false]), None);
        assert_eq!(written(20, &[true, false]), Some((true, true)));
        assert_eq!(written(30, &[false]), None);
        assert_eq!(written(40, &[false, true]), Some((true, false)));
        assert_eq!(written(50, &[true]), None);
        assert_eq!(written(40 + HEALTH_INTERVAL_MILLIS, &[true]), Some((true, false)));
    }
}
