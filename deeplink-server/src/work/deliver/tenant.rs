//! A tenant's deliveries: read, attempted, handed on to be stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use super::lane::Lane;
use super::lease::Lease;
use super::places::Doubt;
use super::settle::{self, Done, Stored};
use super::target::Target;
use super::{Sending, Told, attempt};
use crate::db::DbError;
use crate::db::deliveries::{self, Due, Tried};

/// Attempts at one time of one tenant; its webhooks have equal parts.
const AT_ONCE: usize = 8;
/// After how long it is looked again whether a webhook is still there before an attempt begins.
const CHECK: Duration = Duration::from_millis(500);
/// How long a task that has nothing to do waits for more.
const LINGER: Duration = Duration::from_secs(5);
/// The wait between two looks when the database cannot be read.
const AGAIN: Duration = Duration::from_millis(500);

/// Why a task ends before its time.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Database(#[from] DbError),
    #[error("an attempt panicked")]
    Panicked,
}

/// An attempt that has ended, or was not begun because its webhook changed meanwhile.
struct Ended {
    webhook: WebhookId,
    due: Due,
    tried: Option<Tried>,
}

struct Task {
    sending: Arc<Sending>,
    tenant: TenantId,
    told: Arc<Told>,
    lanes: Vec<Lane>,
    /// What was known of webhooks that have gone, for those that come: one is not trusted anew for being switched off and on.
    doubt: Doubt,
    attempts: JoinSet<Ended>,
    /// When the webhooks were looked at last.
    checked: Option<Instant>,
    lease: Lease,
    stored: mpsc::UnboundedSender<Stored>,
    hears: mpsc::UnboundedReceiver<Stored>,
    /// Since when there is nothing to do.
    idle: Option<Instant>,
    /// What the figures say of this task.
    counted: usize,
}

/// Sends a tenant's deliveries until there are none for a while, or another node has taken them over.
pub(super) async fn run(sending: Arc<Sending>, tenant: TenantId, told: Arc<Told>) {
    let (stored, hears) = mpsc::unbounded_channel();
    let lease = Lease::new(&sending.app, &sending.holder, &tenant);
    let mut task = Task {
        sending,
        tenant,
        told,
        lanes: Vec::new(),
        doubt: Doubt::default(),
        attempts: JoinSet::new(),
        checked: None,
        lease,
        stored,
        hears,
        idle: None,
        counted: 0,
    };
    if let Err(error) = task.go().await {
        tracing::warn!(tenant = %task.tenant, %error, "deliveries cannot be sent; it is tried again");
        // What has been begun is still attempted, and whatever else there is, the next look finds.
        tokio::time::sleep(AGAIN).await;
    }
    task.end().await;
}

impl Task {
    async fn go(&mut self) -> Result<(), Trouble> {
        while !self.sending.app.ending.is_cancelled() && self.lease.hold().await? {
            let now = self.sending.app.clock.now();
            if self.told.take() {
                self.checked = None;
            }
            self.check(now).await?;
            for lane in &mut self.lanes {
                lane.read(&self.sending, now).await?;
            }
            self.begin().await;
            self.count();
            if self.is_over() {
                return Ok(());
            }
            self.wait(now).await?;
        }
        Ok(())
    }

    /// Looks at the webhooks again, when it is time: before deliveries are read, and then every half second, so that attempts
    /// begin only where one is as it was.
    async fn check(&mut self, now: Timestamp) -> Result<(), Trouble> {
        let is_to_read = self.lanes.iter_mut().any(|lane| lane.is_to_read(now));
        let is_busy = !self.attempts.is_empty() || self.lanes.iter().any(Lane::has_more);
        match self.checked {
            Some(at) if !is_to_read && (!is_busy || at.elapsed() < CHECK) => return Ok(()),
            Some(_) => {}
            None => self.lanes.iter_mut().for_each(Lane::look),
        }
        let app = &self.sending.app;
        let mut stored = deliveries::targets(&mut app.db.read().await?.conn(), &self.tenant).await?;
        self.checked = Some(Instant::now());
        self.lanes.retain_mut(|lane| match stored.iter().position(|stored| stored.id == *lane.target.id()) {
            Some(at) => {
                lane.renew(stored.remove(at), &app.vault);
                true
            }
            None => {
                lane.switch_off();
                if lane.is_spent() {
                    self.doubt = self.doubt.or(lane.doubt.elsewhere());
                }
                !lane.is_spent()
            }
        });
        if !stored.is_empty() {
            let doubt = std::mem::take(&mut self.doubt);
            self.lanes.extend(stored.into_iter().map(|stored| Lane::new(stored, &app.vault, doubt)));
        }
        Ok(())
    }

    /// Begins as many attempts as may be under way.
    async fn begin(&mut self) {
        let active = self.lanes.iter().filter(|lane| lane.is_on()).count();
        let each = (AT_ONCE / active.max(1)).max(1);
        let mut void = Vec::new();
        for lane in &mut self.lanes {
            let most = if lane.doubt.is_silent() { 1 } else { each };
            while lane.in_flight < most && self.attempts.len() < AT_ONCE {
                let Some(mut due) = lane.next() else { break };
                let Some(body) = due.body.take() else {
                    void.push((lane.target.id().clone(), due));
                    continue;
                };
                lane.in_flight += 1;
                let (sending, target) = (Arc::clone(&self.sending), Arc::clone(&lane.target));
                self.attempts.spawn(one(sending, target, due, body, lane.doubt.is_late()));
            }
        }
        for (webhook, due) in void {
            let settled = attempt::void(&due, self.sending.app.clock.now().as_millis());
            self.hand_on(Done { webhook, settled, attempt: None, stored: self.stored.clone() }).await;
        }
    }

    /// Whether there has been nothing to do for a while.
    fn is_over(&mut self) -> bool {
        if !self.attempts.is_empty() || !self.lanes.iter().all(Lane::is_empty) {
            self.idle = None;
            return false;
        }
        self.idle.get_or_insert_with(Instant::now).elapsed() >= LINGER
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, now: Timestamp) -> Result<(), Trouble> {
        let next = self.lanes.iter().filter_map(|lane| lane.next_due).min();
        let until = next.map(|next| u64::try_from(next.as_millis() - now.as_millis()).unwrap_or(0));
        let longest = if self.attempts.is_empty() { LINGER } else { CHECK };
        let length = until.map_or(longest, |millis| Duration::from_millis(millis).min(longest));
        tokio::select! {
            () = self.sending.app.ending.cancelled() => {}
            Some(ended) = self.attempts.join_next() => self.take(ended).await?,
            Some(stored) = self.hears.recv() => self.hear(&stored),
            () = self.told.wakes.notified() => {}
            () = self.sending.app.clock.pause(length, now) => {}
        }
        while let Some(ended) = self.attempts.try_join_next() {
            self.take(ended).await?;
        }
        while let Ok(stored) = self.hears.try_recv() {
            self.hear(&stored);
        }
        Ok(())
    }

    async fn take(&mut self, ended: Result<Ended, JoinError>) -> Result<(), Trouble> {
        let Ended { webhook, mut due, tried } = ended.map_err(|_| Trouble::Panicked)?;
        let lane = self.lanes.iter_mut().find(|lane| *lane.target.id() == webhook);
        let Some(tried) = tried else {
            // It is read again, with whatever has changed.
            if let Some(lane) = lane {
                lane.in_flight -= 1;
                lane.forget(&due.id);
                lane.look();
            }
            return Ok(());
        };
        let mut judges = false;
        if let Some(lane) = lane {
            lane.in_flight -= 1;
            lane.doubt.note(tried.status.is_some(), tried.ms);
            judges = lane.is_behind();
        }
        due.body = None;
        let now = self.sending.app.clock.now();
        let settled = attempt::settled(&due, &tried, now.as_millis());
        let judges = judges || settled.state == 2;
        let ended = Some(settle::Attempt { at: now, arrived: tried.error.is_none(), judges });
        self.hand_on(Done { webhook, settled, attempt: ended, stored: self.stored.clone() }).await;
        Ok(())
    }

    async fn hand_on(&self, done: Done) {
        // Whoever stores outlives every task.
        let _ = self.sending.results.send(done).await;
    }

    fn hear(&mut self, stored: &Stored) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| *lane.target.id() == stored.webhook) {
            lane.forget(&stored.delivery);
            if stored.again {
                lane.look();
            }
        }
    }

    /// Lets what is under way end, and gives the lease back.
    async fn end(&mut self) {
        for lane in &self.lanes {
            lane.target.end();
        }
        while !self.attempts.is_empty() {
            match timeout(CHECK, self.attempts.join_next()).await {
                // One that panicked is still due.
                Ok(Some(ended)) => drop(self.take(ended).await),
                Ok(None) => break,
                // Or another node would make the same attempts beside these.
                Err(_) => self.lease.keep().await,
            }
        }
        self.lanes.clear();
        self.count();
        self.lease.give_back().await;
    }

    /// Keeps the figure of deliveries that this node has taken up.
    fn count(&mut self) {
        let now: usize = self.lanes.iter().map(Lane::len).sum();
        let figure = &self.sending.app.metrics.deliveries_queued;
        figure.fetch_add(now, Ordering::Relaxed);
        figure.fetch_sub(self.counted, Ordering::Relaxed);
        self.counted = now;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.lanes.clear();
        self.count();
    }
}

/// One attempt, as soon as there is a place for it on this node; none if its webhook changes before.
async fn one(sending: Arc<Sending>, target: Arc<Target>, due: Due, body: String, is_late: bool) -> Ended {
    let webhook = target.id().clone();
    let app = &sending.app;
    let place = tokio::select! {
        biased;
        () = app.ending.cancelled() => None,
        () = target.over() => None,
        place = sending.places.take(is_late) => place,
    };
    let tried = match place {
        Some(_place) => Some(attempt::attempt(app, &target, &due, &body).await),
        None => None,
    };
    Ended { webhook, due, tried }
}
