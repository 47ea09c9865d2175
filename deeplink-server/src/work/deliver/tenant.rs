//! A tenant's task: reads due deliveries, makes the attempts, and hands their results on to be stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::DEFAULT_RETRY_SECS;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use super::concurrency::{MAX_IN_FLIGHT, ReceiverLimit};
use super::lease::Lease;
use super::queue::WebhookQueue;
use super::results::{AttemptOutcome, DeliveryResult, ResultStored};
use super::target::Target;
use super::{Context, Wakeup, attempt};
use crate::db::DbError;
use crate::db::deliveries::{self, AttemptRecord, DeliveryState, DueDelivery};

/// Maximum age of a webhook's state when an attempt begins.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// How long a task with nothing to do waits for more.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The wait before the next try when the database cannot be read.
const DATABASE_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Why a task ends early.
#[derive(Debug, thiserror::Error)]
enum TaskError {
    #[error(transparent)]
    Database(#[from] DbError),
    #[error("an attempt panicked")]
    Panicked,
}

/// An attempt that has ended, or was not made because its webhook changed meanwhile.
struct EndedAttempt {
    webhook: WebhookId,
    due: DueDelivery,
    record: Option<AttemptRecord>,
}

struct TenantTask {
    context: Arc<Context>,
    tenant: TenantId,
    wakeup: Arc<Wakeup>,
    queues: Vec<WebhookQueue>,
    /// Limits of removed webhooks, for when they are added again: disabling and re-enabling one does not reset it.
    limit: ReceiverLimit,
    attempts: JoinSet<EndedAttempt>,
    /// When the webhooks were last read.
    refreshed: Option<Instant>,
    lease: Lease,
    on_stored: mpsc::UnboundedSender<ResultStored>,
    stored: mpsc::UnboundedReceiver<ResultStored>,
    idle_since: Option<Instant>,
    /// What this task has added to the metric of queued deliveries.
    counted: usize,
}

/// Sends a tenant's deliveries until there are none for a while, or another node has the lease.
pub(super) async fn run(context: Arc<Context>, tenant: TenantId, wakeup: Arc<Wakeup>) {
    let (on_stored, stored) = mpsc::unbounded_channel();
    let lease = Lease::new(&context.app, &context.holder, &tenant);
    let mut task = TenantTask {
        context,
        tenant,
        wakeup,
        queues: Vec::new(),
        limit: ReceiverLimit::default(),
        attempts: JoinSet::new(),
        refreshed: None,
        lease,
        on_stored,
        stored,
        idle_since: None,
        counted: 0,
    };
    if let Err(error) = task.run_loop().await {
        tracing::warn!(tenant = %task.tenant, %error, "deliveries could not be sent; will retry");
        // Attempts in flight still complete, and the next scan finds everything else.
        tokio::time::sleep(DATABASE_RETRY_DELAY).await;
    }
    task.shut_down().await;
}

impl TenantTask {
    async fn run_loop(&mut self) -> Result<(), TaskError> {
        while !self.context.app.ending.is_cancelled() && self.lease.acquire().await? {
            let now = self.context.app.clock.now();
            if self.wakeup.take() {
                self.refreshed = None;
            }
            self.refresh_webhooks(now).await?;
            for queue in &mut self.queues {
                queue.fill(&self.context, now).await?;
            }
            self.start_attempts().await;
            self.update_metric();
            if self.is_idle() {
                return Ok(());
            }
            self.wait(now).await?;
        }
        Ok(())
    }

    /// Reads the webhooks again when needed: before deliveries are read, and then every half second, so that attempts
    /// begin only for unchanged webhooks.
    async fn refresh_webhooks(&mut self, now: Timestamp) -> Result<(), TaskError> {
        let wants_fill = self.queues.iter_mut().any(|queue| queue.wants_fill(now));
        let is_busy = !self.attempts.is_empty() || self.queues.iter().any(WebhookQueue::has_more);
        match self.refreshed {
            Some(at) if !wants_fill && (!is_busy || at.elapsed() < REFRESH_INTERVAL) => return Ok(()),
            Some(_) => {}
            None => self.queues.iter_mut().for_each(WebhookQueue::mark_more),
        }
        let app = &self.context.app;
        let mut webhooks = deliveries::active_webhooks(&mut app.db.read().await?.conn(), &self.tenant).await?;
        self.refreshed = Some(Instant::now());
        self.queues.retain_mut(|queue| match webhooks.iter().position(|webhook| webhook.id == *queue.target.id()) {
            Some(at) => {
                queue.update(webhooks.remove(at), &app.vault);
                true
            }
            None => {
                queue.disable();
                if queue.is_drained() {
                    self.limit = self.limit.max(queue.limit.of_removed());
                }
                !queue.is_drained()
            }
        });
        if !webhooks.is_empty() {
            let limit = std::mem::take(&mut self.limit);
            self.queues.extend(webhooks.into_iter().map(|webhook| WebhookQueue::new(webhook, &app.vault, limit)));
        }
        Ok(())
    }

    /// Starts as many attempts as may be in flight.
    async fn start_attempts(&mut self) {
        let active = self.queues.iter().filter(|queue| queue.is_enabled()).count();
        let share = (MAX_IN_FLIGHT / active.max(1)).max(1);
        let mut canceled = Vec::new();
        for queue in &mut self.queues {
            let max = if queue.limit.is_one_at_a_time() { 1 } else { share };
            while queue.in_flight < max && self.attempts.len() < MAX_IN_FLIGHT {
                let Some(mut due) = queue.next() else { break };
                let Some(body) = due.body.take() else {
                    canceled.push((queue.target.id().clone(), due));
                    continue;
                };
                queue.in_flight += 1;
                let (context, target) = (Arc::clone(&self.context), Arc::clone(&queue.target));
                let (tenant, is_slow) = (self.tenant.clone(), queue.limit.is_slow());
                self.attempts.spawn(attempt_when_permitted(context, tenant, target, due, body, is_slow));
            }
        }
        for (webhook, due) in canceled {
            let update = attempt::canceled_update(&due, self.context.app.clock.now().as_millis());
            self.store(webhook, update, None).await;
        }
    }

    /// Whether there has been nothing to do for a while.
    fn is_idle(&mut self) -> bool {
        if !self.attempts.is_empty() || !self.queues.iter().all(WebhookQueue::is_empty) {
            self.idle_since = None;
            return false;
        }
        self.idle_since.get_or_insert_with(Instant::now).elapsed() >= IDLE_TIMEOUT
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, now: Timestamp) -> Result<(), TaskError> {
        let next = self.queues.iter().filter_map(|queue| queue.next_due).min();
        let until = next.map(|next| u64::try_from(next.as_millis() - now.as_millis()).unwrap_or(0));
        let longest = if self.attempts.is_empty() { IDLE_TIMEOUT } else { REFRESH_INTERVAL };
        let length = until.map_or(longest, |millis| Duration::from_millis(millis).min(longest));
        tokio::select! {
            () = self.context.app.ending.cancelled() => {}
            Some(ended) = self.attempts.join_next() => self.finish_attempt(ended).await?,
            Some(stored) = self.stored.recv() => self.result_stored(&stored),
            () = self.wakeup.notify.notified() => {}
            () = self.context.app.clock.pause(length, now) => {}
        }
        while let Some(ended) = self.attempts.try_join_next() {
            self.finish_attempt(ended).await?;
        }
        while let Ok(stored) = self.stored.try_recv() {
            self.result_stored(&stored);
        }
        Ok(())
    }

    async fn finish_attempt(&mut self, ended: Result<EndedAttempt, JoinError>) -> Result<(), TaskError> {
        let EndedAttempt { webhook, mut due, record } = ended.map_err(|_| TaskError::Panicked)?;
        let queue = self.queues.iter_mut().find(|queue| *queue.target.id() == webhook);
        let Some(record) = record else {
            // It is read again, with the webhook's current state.
            if let Some(queue) = queue {
                queue.in_flight -= 1;
                queue.remove(&due.id);
                queue.mark_more();
            }
            return Ok(());
        };
        let (mut has_many_queued, mut retry_for) = (false, DEFAULT_RETRY_SECS);
        if let Some(queue) = queue {
            retry_for = queue.target.retry_for();
            queue.in_flight -= 1;
            queue.limit.record(record.status.is_some(), record.ms);
            has_many_queued = queue.has_many_queued();
        }
        due.body = None;
        let now = self.context.app.clock.now();
        let update = attempt::update(&due, &record, now.as_millis(), retry_for);
        let may_pause = has_many_queued || update.state == DeliveryState::Failed;
        let outcome = AttemptOutcome { at: now, succeeded: record.error.is_none(), may_pause };
        self.store(webhook, update, Some(outcome)).await;
        Ok(())
    }

    async fn store(&self, webhook: WebhookId, update: deliveries::DeliveryUpdate, outcome: Option<AttemptOutcome>) {
        let result = DeliveryResult { webhook, update, outcome, on_stored: self.on_stored.clone() };
        // The receiver outlives every tenant's task.
        let _ = self.context.results.send(result).await;
    }

    fn result_stored(&mut self, stored: &ResultStored) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| *queue.target.id() == stored.webhook) {
            queue.remove(&stored.delivery);
            if stored.is_pending {
                queue.mark_more();
            }
        }
    }

    /// Waits for attempts in flight to end, and releases the lease.
    async fn shut_down(&mut self) {
        for queue in &self.queues {
            queue.target.cancel();
        }
        while !self.attempts.is_empty() {
            match timeout(REFRESH_INTERVAL, self.attempts.join_next()).await {
                // An attempt that panicked is still due.
                Ok(Some(ended)) => drop(self.finish_attempt(ended).await),
                Ok(None) => break,
                // Otherwise another node would make the same attempts meanwhile.
                Err(_) => self.lease.renew().await,
            }
        }
        self.queues.clear();
        self.update_metric();
        self.lease.release().await;
    }

    /// Updates the metric of deliveries that this node has queued.
    fn update_metric(&mut self) {
        let now: usize = self.queues.iter().map(WebhookQueue::len).sum();
        let metric = &self.context.app.metrics.deliveries_queued;
        metric.fetch_add(now, Ordering::Relaxed);
        metric.fetch_sub(self.counted, Ordering::Relaxed);
        self.counted = now;
    }
}

impl Drop for TenantTask {
    fn drop(&mut self) {
        self.queues.clear();
        self.update_metric();
    }
}

/// Makes an attempt as soon as this node's limits permit, unless its webhook changes before.
async fn attempt_when_permitted(
    context: Arc<Context>,
    tenant: TenantId,
    target: Arc<Target>,
    due: DueDelivery,
    body: String,
    is_slow: bool,
) -> EndedAttempt {
    let webhook = target.id().clone();
    let app = &context.app;
    let permit = tokio::select! {
        biased;
        () = app.ending.cancelled() => None,
        () = target.cancelled() => None,
        permit = context.attempts.acquire(&tenant, is_slow) => Some(permit),
    };
    let record = match permit {
        Some(_permit) => Some(attempt::make(app, &target, &due, &body).await),
        None => None,
    };
    EndedAttempt { webhook, due, record }
}
