//! The deliveries of one webhook that are in memory.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::time::Timestamp;
use deeplink_core::webhook::MAX_PENDING;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::Context;
use super::concurrency::ReceiverLimit;
use super::target::Target;
use crate::db::DbError;
use crate::db::deliveries::{self, ActiveWebhook, DueDelivery};
use crate::shares::Share;
use crate::vault::Vault;

/// Deliveries read at once: few at first, and more for a webhook that accepts them quickly.
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 32..=256;
/// A page that is used up within this time is followed by a larger one.
const QUICK_PAGE: Duration = Duration::from_millis(200);
/// Maximum attempts whose results are not stored yet; at this number no more are started.
const MAX_UNSTORED: usize = 512;
/// Minimum time between two counts of a webhook's pending deliveries.
const COUNT_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum growth of the pending deliveries in a second.
const MAX_GROWTH_PER_SECOND: i64 = 5_000;
/// With this many queued behind a failure, it is checked at once whether the webhook has failed for too long.
const MANY_QUEUED: usize = 8;

pub(super) struct WebhookQueue {
    pub(super) target: Arc<Target>,
    /// Attempts in flight.
    pub(super) in_flight: usize,
    /// When the next delivery that is not due yet becomes due.
    pub(super) next_due: Option<Timestamp>,
    pub(super) limit: ReceiverLimit,
    /// Due, and not started.
    queued: VecDeque<DueDelivery>,
    /// Ids of those that are queued, in flight, or have a result that is not stored yet.
    ids: HashSet<String>,
    /// Whether more may be due than are queued.
    may_have_more: bool,
    page_size: usize,
    read_at: Instant,
    /// Whether newer deliveries are dropped, because too many are pending.
    is_full: bool,
    /// When the pending ones are counted next.
    count_at: Instant,
    /// The webhook was disabled or deleted: nothing more is started, and the queue stays until attempts in flight end.
    is_disabled: bool,
}

impl WebhookQueue {
    /// `limit` is what is known besides the webhook's row.
    pub(super) fn new(webhook: ActiveWebhook, vault: &Vault, limit: ReceiverLimit) -> Self {
        let now = Instant::now();
        Self {
            is_full: webhook.is_full,
            limit: if webhook.is_healthy { limit } else { limit.max(ReceiverLimit::UNTIL_ANSWER) },
            target: Arc::new(Target::open(webhook, vault)),
            in_flight: 0,
            next_due: None,
            queued: VecDeque::new(),
            ids: HashSet::new(),
            may_have_more: true,
            page_size: *PAGE_SIZES.start(),
            read_at: now,
            count_at: now,
            is_disabled: false,
        }
    }

    /// Applies changes of the webhook.
    pub(super) fn update(&mut self, webhook: ActiveWebhook, vault: &Vault) {
        self.is_full = webhook.is_full;
        if !std::mem::take(&mut self.is_disabled) && self.target.is_unchanged(&webhook) {
            return;
        }
        self.target.cancel();
        if webhook.url != self.target.url() {
            // Nothing has answered there yet, however the previous one did.
            self.limit = ReceiverLimit::UNTIL_ANSWER;
        }
        self.target = Arc::new(Target::open(webhook, vault));
        // Queued deliveries may have been canceled since.
        self.clear_queued();
        self.may_have_more = true;
    }

    /// Starts nothing more. The ids of attempts in flight are kept, so that they are not repeated if the webhook is
    /// re-enabled meanwhile.
    pub(super) fn disable(&mut self) {
        self.target.cancel();
        self.clear_queued();
        (self.is_disabled, self.is_full, self.may_have_more, self.next_due) = (true, false, false, None);
    }

    fn clear_queued(&mut self) {
        for due in self.queued.drain(..) {
            self.ids.remove(&due.id);
        }
    }

    /// Whether attempts may be started.
    pub(super) fn is_enabled(&self) -> bool {
        !self.is_disabled
    }

    /// Whether nothing is queued or in flight, and every result is stored.
    pub(super) fn is_drained(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether enough are queued that the webhook may be paused after any failure, not only after a delivery's last
    /// one, which may be days away.
    pub(super) fn has_many_queued(&self) -> bool {
        self.queued.len() >= MANY_QUEUED
    }

    /// Notes that more may be due than are queued.
    pub(super) fn mark_more(&mut self) {
        self.may_have_more = !self.is_disabled;
    }

    /// Whether there are, or may be, deliveries that have not been started.
    pub(super) fn has_more(&self) -> bool {
        self.may_have_more || !self.queued.is_empty()
    }

    /// Whether there is nothing to do, now or later.
    pub(super) fn is_empty(&self) -> bool {
        !self.may_have_more && self.ids.is_empty() && self.next_due.is_none() && !self.is_full
    }

    /// How many are in memory.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The next one to start, unless too many results are not stored yet.
    pub(super) fn next(&mut self) -> Option<DueDelivery> {
        let unstored = self.ids.len() - self.queued.len();
        if unstored >= MAX_UNSTORED { None } else { self.queued.pop_front() }
    }

    /// Removes one whose result is stored, or which is to be read again.
    pub(super) fn remove(&mut self, delivery: &str) {
        self.ids.remove(delivery);
    }

    /// Whether to read due deliveries: more may be due, and few are left of the last page.
    pub(super) fn wants_fill(&mut self, now: Timestamp) -> bool {
        if self.next_due.is_some_and(|due| due <= now) {
            self.next_due = None;
            self.may_have_more = true;
        }
        self.may_have_more && self.queued.len() <= self.page_size / 4
    }

    /// Reads due deliveries, if it is time to.
    pub(super) async fn fill(&mut self, context: &Context, now: Timestamp) -> Result<(), DbError> {
        if self.wants_fill(now) {
            self.read_page(context, now).await?;
        }
        if (self.may_have_more || self.is_full) && self.count_at <= Instant::now() {
            self.count_pending(context).await?;
        }
        Ok(())
    }

    async fn read_page(&mut self, context: &Context, now: Timestamp) -> Result<(), DbError> {
        let _permit = context.reads.acquire().await;
        let mut reader = context.app.db.read().await?;
        // Those in memory are among the first that the query finds.
        let count = i64::try_from(self.page_size + self.ids.len()).unwrap_or(i64::MAX);
        let id = self.target.id();
        let rows = deliveries::due(&mut reader.conn(), id, now, count).await?;
        self.may_have_more = i64::try_from(rows.len()) == Ok(count);
        if !self.may_have_more {
            self.next_due = deliveries::next_due(&mut reader.conn(), id, now).await?;
        }
        for mut due in rows {
            if self.ids.insert(due.id.clone()) {
                if self.target.is_from_earlier_turn(due.turn) {
                    due.body = None;
                    // It is canceled soon, and then no longer pending.
                    self.count_at = Instant::now() + COUNT_INTERVAL;
                }
                self.queued.push_back(due);
            }
        }
        let is_quick = self.may_have_more && self.read_at.elapsed() < QUICK_PAGE;
        let size = if is_quick { self.page_size * 2 } else { self.page_size / 2 };
        self.page_size = size.clamp(*PAGE_SIZES.start(), *PAGE_SIZES.end());
        self.read_at = Instant::now();
        Ok(())
    }

    /// Counts the pending deliveries, and sets or clears the flag that drops newer ones.
    async fn count_pending(&mut self, context: &Context) -> Result<(), DbError> {
        let id = self.target.id().clone();
        let pending = deliveries::count_pending(&mut context.app.db.read().await?.conn(), &id).await?;
        let seconds = u64::try_from((MAX_PENDING - pending) / MAX_GROWTH_PER_SECOND).unwrap_or(0);
        self.count_at = Instant::now() + COUNT_INTERVAL + Duration::from_secs(if self.is_full { 0 } else { seconds });
        let is_full = pending >= if self.is_full { deliveries::LOW_WATER_MARK } else { MAX_PENDING };
        if is_full != self.is_full {
            let set =
                context.app.db.write(Share::Service, id, move |tx, id| deliveries::set_full(tx, id, is_full).boxed());
            set.await?;
            self.is_full = is_full;
            if is_full {
                tracing::warn!(webhook = %self.target.id(), pending, "webhook backlog full; dropping events");
            } else {
                tracing::info!(webhook = %self.target.id(), pending, "webhook backlog no longer full");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::tests::{active_webhook, vault};
    use super::*;

    fn due(id: &str) -> DueDelivery {
        let (event_id, log) = ("evt".into(), "[]".into());
        DueDelivery { id: id.into(), event_id, tries: 0, log, turn: 0, body: Some("{}".into()), is_test: false }
    }

    fn with(queue: &mut WebhookQueue, ids: &[&str]) {
        for id in ids {
            queue.ids.insert((*id).to_owned());
            queue.queued.push_back(due(id));
        }
    }

    /// A disabled webhook keeps attempts under way until their end is known, so that none is made twice if it is
    /// re-enabled meanwhile.
    #[test]
    fn what_is_under_way_outlives_switching_off_and_on() {
        let vault = vault();
        let mut queue = WebhookQueue::new(active_webhook(&vault), &vault, ReceiverLimit::default());
        with(&mut queue, &["one", "two"]);
        let begun = queue.next().expect("one to begin");
        queue.in_flight = 1;
        let before = Arc::clone(&queue.target);
        queue.disable();
        queue.mark_more();
        assert!(before.is_cancelled() && !queue.is_drained() && !queue.has_more() && queue.next().is_none());
        queue.update(active_webhook(&vault), &vault);
        assert!(before.is_cancelled() && !queue.target.is_cancelled() && queue.has_more());
        assert_eq!((queue.in_flight, queue.ids.len()), (1, 1), "what was read is read again, what was begun is not");
        queue.remove(&begun.id);
        assert!(queue.is_drained());
    }

    /// Disabling and re-enabling a webhook says nothing about whether it answers. At another address one answer does, and
    /// is needed.
    #[test]
    fn backoff_outlives_switching_off_and_on() {
        let vault = vault();
        let fails = ActiveWebhook { is_healthy: false, ..active_webhook(&vault) };
        let mut queue = WebhookQueue::new(fails, &vault, ReceiverLimit::default());
        assert!(queue.limit.is_one_at_a_time() && queue.limit.is_slow());
        queue.disable();
        queue.update(active_webhook(&vault), &vault);
        assert!(queue.limit.is_one_at_a_time());
        for _ in 0..100 {
            queue.limit.record(false, 10_000);
        }
        for path in ["elsewhere", "after-a-success"] {
            let url = format!("https://hooks.example.com/{path}");
            queue.update(ActiveWebhook { url, ..active_webhook(&vault) }, &vault);
            assert!(queue.limit.is_one_at_a_time() && queue.limit.is_slow(), "{path}");
            queue.limit.record(true, 90);
            assert!(!queue.limit.is_one_at_a_time() && !queue.limit.is_slow(), "{path}");
        }
        assert!(
            WebhookQueue::new(active_webhook(&vault), &vault, ReceiverLimit::UNTIL_ANSWER).limit.is_one_at_a_time()
        );
        assert!(!WebhookQueue::new(active_webhook(&vault), &vault, ReceiverLimit::default()).limit.is_one_at_a_time());
    }
}
