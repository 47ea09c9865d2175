//! One webhook's deliveries, as far as they are in memory.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::time::Timestamp;
use deeplink_core::webhook::MAX_PENDING;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::Sending;
use super::places::Doubt;
use super::target::Target;
use crate::db::DbError;
use crate::db::deliveries::{self, Due, Stored};
use crate::vault::Vault;

/// Deliveries that are read at once: few at first, and more for one who takes them quickly.
const PAGES: std::ops::RangeInclusive<usize> = 32..=256;
/// Which page is used up quickly.
const QUICK: Duration = Duration::from_millis(200);
/// Attempts whose results are not stored yet; when there are so many, no more are begun.
const MOST_UNSETTLED: usize = 512;
/// How long it takes at least until a webhook's waiting deliveries are counted again.
const COUNT: Duration = Duration::from_secs(2);
/// How many more may wait after a second.
const PER_SECOND: i64 = 5_000;

/// When so many wait behind a failure, it is judged at once whether the webhook has failed for too long.
const MANY: usize = 8;

pub(super) struct Lane {
    pub(super) target: Arc<Target>,
    /// Attempts under way.
    pub(super) in_flight: usize,
    /// When the next delivery is due of those that are not due yet.
    pub(super) next_due: Option<Timestamp>,
    /// Read, and not begun.
    waits: VecDeque<Due>,
    /// Read, and what became of them is not stored.
    known: HashSet<String>,
    /// Whether some may be due that are not read.
    more: bool,
    page: usize,
    read_at: Instant,
    /// Whether newer ones are dropped, because so many wait.
    is_full: bool,
    count_at: Instant,
    /// Nothing more is begun: the webhook was switched off or deleted, and what was begun has not ended.
    is_off: bool,
    /// Whether it answers, as far as is known.
    pub(super) doubt: Doubt,
}

impl Lane {
    /// What is known of the webhook beside its row is `doubt`.
    pub(super) fn new(stored: Stored, vault: &Vault, doubt: Doubt) -> Self {
        let now = Instant::now();
        Self {
            is_full: stored.is_full,
            doubt: if stored.fails { doubt.or(Doubt::SOME) } else { doubt },
            target: Arc::new(Target::open(stored, vault)),
            in_flight: 0,
            next_due: None,
            waits: VecDeque::new(),
            known: HashSet::new(),
            more: true,
            page: *PAGES.start(),
            read_at: now,
            count_at: now,
            is_off: false,
        }
    }

    /// Takes over what may have changed of the webhook.
    pub(super) fn renew(&mut self, stored: Stored, vault: &Vault) {
        self.is_full = stored.is_full;
        if !std::mem::take(&mut self.is_off) && self.target.is_still(&stored) {
            return;
        }
        self.target.end();
        if stored.url != self.target.url() {
            self.doubt = self.doubt.elsewhere();
        }
        self.target = Arc::new(Target::open(stored, vault));
        // It may be that what is read is not to be sent any more.
        self.put_back();
        self.more = true;
    }

    /// Begins nothing more. What is under way is heard of, so that it is known if the webhook is switched on meanwhile.
    pub(super) fn switch_off(&mut self) {
        self.target.end();
        self.put_back();
        (self.is_off, self.is_full, self.more, self.next_due) = (true, false, false, None);
    }

    /// Forgets what was read and not begun.
    fn put_back(&mut self) {
        for due in self.waits.drain(..) {
            self.known.remove(&due.id);
        }
    }

    /// Whether attempts may begin.
    pub(super) fn is_on(&self) -> bool {
        !self.is_off
    }

    /// Whether there is nothing whose end is to be heard of.
    pub(super) fn is_spent(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether the webhook is judged after each failure, be it a delivery's last or not: where much waits, the last attempt
    /// at anything may be days away.
    pub(super) fn is_behind(&self) -> bool {
        self.waits.len() >= MANY
    }

    /// Some may be due that are not read.
    pub(super) fn look(&mut self) {
        self.more = !self.is_off;
    }

    /// Whether there are some that have not been begun.
    pub(super) fn has_more(&self) -> bool {
        self.more || !self.waits.is_empty()
    }

    /// Whether nothing is under way and nothing waits, now or later.
    pub(super) fn is_empty(&self) -> bool {
        !self.more && self.known.is_empty() && self.next_due.is_none() && !self.is_full
    }

    /// How many are in memory.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The next one to begin, unless too many results wait to be stored.
    pub(super) fn next(&mut self) -> Option<Due> {
        let unsettled = self.known.len() - self.waits.len();
        if unsettled >= MOST_UNSETTLED { None } else { self.waits.pop_front() }
    }

    /// What became of one is stored, or it is to be read again.
    pub(super) fn forget(&mut self, delivery: &str) {
        self.known.remove(delivery);
    }

    /// Whether it is time to read what is due: there may be some, and few are left of what was read before.
    pub(super) fn is_to_read(&mut self, now: Timestamp) -> bool {
        if self.next_due.is_some_and(|due| due <= now) {
            self.next_due = None;
            self.more = true;
        }
        self.more && self.waits.len() <= self.page / 4
    }

    /// Reads what is due, if it is time to.
    pub(super) async fn read(&mut self, sending: &Sending, now: Timestamp) -> Result<(), DbError> {
        if self.is_to_read(now) {
            self.read_page(sending, now).await?;
        }
        if (self.more || self.is_full) && self.count_at <= Instant::now() {
            self.count(sending).await?;
        }
        Ok(())
    }

    async fn read_page(&mut self, sending: &Sending, now: Timestamp) -> Result<(), DbError> {
        let _place = sending.reads.acquire().await;
        let mut reader = sending.app.db.read().await?;
        // Those that are known stand among those that wait longest.
        let count = i64::try_from(self.page + self.known.len()).unwrap_or(i64::MAX);
        let id = self.target.id();
        let rows = deliveries::due(&mut reader.conn(), id, now, count).await?;
        self.more = i64::try_from(rows.len()) == Ok(count);
        if !self.more {
            self.next_due = deliveries::next_due(&mut reader.conn(), id, now).await?;
        }
        for mut row in rows {
            if self.known.insert(row.id.clone()) {
                if self.target.has_given_up(row.turn) {
                    row.body = None;
                    // What is given up does not count among what waits.
                    self.count_at = Instant::now() + COUNT;
                }
                self.waits.push_back(row);
            }
        }
        let page = if self.more && self.read_at.elapsed() < QUICK { self.page * 2 } else { self.page / 2 };
        self.page = page.clamp(*PAGES.start(), *PAGES.end());
        self.read_at = Instant::now();
        Ok(())
    }

    /// Counts what waits, and sets or takes away the flag that drops newer ones.
    async fn count(&mut self, sending: &Sending) -> Result<(), DbError> {
        let id = self.target.id().clone();
        let waiting = deliveries::count_waiting(&mut sending.app.db.read().await?.conn(), &id).await?;
        let seconds = u64::try_from((MAX_PENDING - waiting) / PER_SECOND).unwrap_or(0);
        self.count_at = Instant::now() + COUNT + Duration::from_secs(if self.is_full { 0 } else { seconds });
        let is_full = if self.is_full { waiting >= deliveries::FULL_NO_MORE } else { waiting >= MAX_PENDING };
        if is_full != self.is_full {
            let set = sending.app.db.write(move |mut tx| {
                let id = id.clone();
                async move { deliveries::set_full(&mut tx, &id, is_full).await }.boxed()
            });
            set.await?;
            self.is_full = is_full;
            tracing::warn!(webhook = %self.target.id(), is_full, waiting, "deliveries pile up, or do no longer");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::tests::{stored, vault};
    use super::*;

    fn due(id: &str) -> Due {
        let (event_id, log) = ("evt".into(), "[]".into());
        Due { id: id.into(), event_id, tries: 0, log, turn: 0, body: Some("{}".into()), is_test: false }
    }

    fn with(lane: &mut Lane, ids: &[&str]) {
        for id in ids {
            lane.known.insert((*id).to_owned());
            lane.waits.push_back(due(id));
        }
    }

    /// A webhook that is switched off keeps what is under way until its end is known, so that nothing is begun twice when
    /// it is switched on meanwhile.
    #[test]
    fn what_is_under_way_outlives_switching_off_and_on() {
        let vault = vault();
        let mut lane = Lane::new(stored(&vault), &vault, Doubt::default());
        with(&mut lane, &["one", "two"]);
        let begun = lane.next().expect("one to begin");
        lane.in_flight = 1;
        let before = Arc::clone(&lane.target);
        lane.switch_off();
        lane.look();
        assert!(before.is_over() && !lane.is_spent() && !lane.has_more() && lane.next().is_none());
        lane.renew(stored(&vault), &vault);
        assert!(before.is_over() && !lane.target.is_over() && lane.has_more());
        assert_eq!((lane.in_flight, lane.known.len()), (1, 1), "what was read is read again, what was begun is not");
        lane.forget(&begun.id);
        assert!(lane.is_spent());
    }

    /// Switching a webhook off and on tells nothing of whether it answers. At another address one answer does.
    #[test]
    fn doubt_outlives_switching_off_and_on() {
        let vault = vault();
        let fails = Stored { fails: true, ..stored(&vault) };
        let mut lane = Lane::new(fails, &vault, Doubt::default());
        assert!(lane.doubt.is_silent());
        lane.switch_off();
        lane.renew(stored(&vault), &vault);
        assert!(lane.doubt.is_silent());
        for _ in 0..100 {
            lane.doubt.note(false, 10_000);
        }
        lane.renew(Stored { url: "https://hooks.example.com/elsewhere".into(), ..stored(&vault) }, &vault);
        assert!(lane.doubt.is_silent());
        lane.doubt.note(true, 90);
        assert!(!lane.doubt.is_silent());
        assert!(Lane::new(stored(&vault), &vault, Doubt::SOME).doubt.is_silent());
        assert!(!Lane::new(stored(&vault), &vault, Doubt::default()).doubt.is_silent());
    }
}
