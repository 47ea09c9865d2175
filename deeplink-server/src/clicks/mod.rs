//! Stores clicks: from a visit to the log.
//!
//! A visit records its click and waits until it is settled: in the database, or past 25 ms in the spill, so that a
//! killed process loses no click whose visit was answered. A visit never fails because of its click.
//!
//! | Module | Holds |
//! |---|---|
//! | `texts` | user agents and referers, interned |
//! | `queue` | clicks that wait for the writer, visits that wait for their clicks |
//! | `batch` | clicks on their way into the log |
//! | `watch` | the one timer: moves what took too long to the spill |
//! | `spill`, `record` | files and memory for what the database cannot take |
//! | `replay` | from the spill into the log |
//! | `fold` | from the log into counts |
//! | `gather` | clicks grouped on their way into the log, so that a fold need not read them again |
//! | `low_durability` | how folds, clicks from the spill, publishing clicks and delivery results reach the writer |
//! | `reported` | clicks that are reported, and stored before they are answered |
//!
//! The invariant: a click is in one place. It leaves the queue once, its batch ends in the log or in the spill, and
//! where both may be, the spill knows how to recognise the batch, and storing it from there looks first.

mod batch;
mod fold;
mod gather;
mod low_durability;
mod queue;
mod record;
mod replay;
mod reported;
mod spill;
#[cfg(test)]
mod tests;
mod texts;
mod watch;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deeplink_core::secret::Random;
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::batch::Running;
use self::gather::Gathered;
use self::low_durability::LowDurabilityWrites;
use self::queue::{Queue, lock};
use self::reported::Reports;
use self::spill::Spill;
use crate::clock::Clock;
use crate::db::clicks::{AppendPosition, Head, MAX_GAP, Mark, NewClick, position_at};
use crate::db::{Db, DbError, WriteWork};
use crate::private;

pub(crate) use self::fold::Retention;
pub(crate) use self::queue::Recorded;
pub(crate) use self::texts::{TextRef, Texts};

/// How long a visit waits for its click to be in the database.
const STORE_TIMEOUT: Duration = Duration::from_millis(25);

/// A visit that counts.
#[derive(Debug, Clone)]
pub(crate) struct Click {
    /// `links.position`.
    pub(crate) link: i64,
    /// Unix milliseconds.
    pub(crate) at: i64,
    pub(crate) kind: u8,
    pub(crate) platform: u8,
    pub(crate) agent: Option<TextRef>,
    pub(crate) referer: Option<TextRef>,
}

impl Click {
    fn row(&self) -> NewClick {
        NewClick {
            link: self.link,
            at: self.at,
            kind: self.kind,
            platform: self.platform,
            agent: self.agent.as_ref().map(|text| text.hash()),
            referer: self.referer.as_ref().map(|text| text.hash()),
        }
    }
}

/// What the clicks of this process have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    /// Wait for the writer.
    pub(crate) queued: usize,
    /// Wait in memory because no file could be written.
    pub(crate) in_memory: usize,
    /// Whether clicks go to the spill without waiting for the writer.
    pub(crate) spilling: bool,
    /// Reached the log.
    pub(crate) stored_total: u64,
    /// Went to the spill.
    pub(crate) spilled_total: u64,
    /// Could be kept nowhere.
    pub(crate) dropped_total: u64,
}

/// The clicks of this process.
pub(crate) struct Clicks {
    db: Db,
    intake: Arc<Intake>,
    reports: Reports,
    tasks: Vec<AbortHandle>,
}

/// What the writer, the visits and the tasks share. It does not know the database, which in turn knows it.
struct Intake {
    clock: Clock,
    /// How long a visit waits for its click to be in the database.
    store_timeout: Duration,
    /// Whether it is counted what each account has in a month.
    months: bool,
    texts: Texts,
    queue: Queue,
    /// Batches that the writer has and has not answered.
    running: Mutex<Vec<Arc<Running>>>,
    spill: Mutex<Spill>,
    low_durability: Mutex<LowDurabilityWrites>,
    /// Since the writer took too long, and until it answers: clicks go to the spill without waiting for it.
    spilling: AtomicBool,
    /// Whether the watch sleeps until a click comes.
    unwatched: AtomicBool,
    head: Arc<Head>,
    /// Only on SQLite, where nobody else appends.
    gathered: Option<Gathered>,
    /// How many groups a fold adds at one time.
    fold_groups: AtomicUsize,
    random: Mutex<Random>,
    stored: AtomicU64,
    spilled: AtomicU64,
    dropped: AtomicU64,
    /// Something waits in the queue.
    wake_writer: Notify,
    wake_watch: Notify,
    /// Something may wait in the spill, or a failed attempt to store it may be repeated.
    wake_replay: Notify,
    /// A spill file grew.
    wake_sync: Notify,
    /// Something was stored.
    wake_fold: Notify,
    /// The same for those who tell of clicks, while there are any.
    news: Sender<()>,
}

impl Clicks {
    /// Opens the way into the log, with `months` counting what each account has in a month. What an earlier process left
    /// in spill files is stored in the background.
    pub(crate) fn start(db: Db, clock: Clock, directory: &Path, months: bool) -> io::Result<Arc<Self>> {
        Self::start_with(db, clock, directory, months, STORE_TIMEOUT)
    }

    fn start_with(
        db: Db,
        clock: Clock,
        directory: &Path,
        months: bool,
        store_timeout: Duration,
    ) -> io::Result<Arc<Self>> {
        private::create_dir(directory)?;
        let mut intake = Intake::new(clock, directory, months, store_timeout);
        intake.gathered = db.is_sqlite().then(Gathered::default);
        let intake = Arc::new(intake);
        let mut tasks = vec![
            tokio::spawn(watch::run(Arc::clone(&intake))).abort_handle(),
            tokio::spawn(watch::sync(Arc::clone(&intake))).abort_handle(),
            tokio::spawn(replay::run(Arc::clone(&intake), db.clone())).abort_handle(),
            tokio::spawn(fold::run(Arc::clone(&intake), db.clone())).abort_handle(),
        ];
        if !db.attach_click_source(Arc::new(batch::Source(Arc::clone(&intake)))) {
            tasks.push(tokio::spawn(batch::pump(Arc::clone(&intake), db.clone())).abort_handle());
        }
        Ok(Arc::new(Self { db, intake, reports: Reports::default(), tasks }))
    }

    /// Takes a click. It is accounted for from now on, whether or not the result is awaited.
    pub(crate) fn record(&self, click: Click) -> Recorded {
        self.intake.record(click)
    }

    /// Where the log ends, for whoever stores what has a place in its order.
    pub(crate) fn head(&self) -> Arc<Head> {
        Arc::clone(&self.intake.head)
    }

    /// Changes whenever this process has stored clicks.
    pub(crate) fn news(&self) -> Receiver<()> {
        self.intake.news.subscribe()
    }

    /// Runs `work` in a transaction that goes the way of the clicks: committed when this returns, if not yet on the disk.
    /// For what can be done again from the log, and for what became of deliveries: an attempt that is forgotten is made again.
    pub(crate) async fn write<C, T, F>(&self, context: C, work: F) -> Result<T, DbError>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        F: WriteWork<C, T, DbError>,
    {
        self.intake.write(&self.db, context, work).await
    }

    /// The user agents and referers known.
    pub(crate) fn texts(&self) -> &Texts {
        &self.intake.texts
    }

    /// What the clicks have come to.
    pub(crate) fn status(&self) -> Status {
        let intake = &self.intake;
        Status {
            queued: intake.queue.len(),
            in_memory: lock(&intake.spill).in_memory(),
            spilling: intake.spilling.load(Ordering::Relaxed),
            stored_total: intake.stored.load(Ordering::Relaxed),
            spilled_total: intake.spilled.load(Ordering::Relaxed),
            dropped_total: intake.dropped.load(Ordering::Relaxed),
        }
    }

    /// Stores what waits, for the end of the process. What cannot be stored `within` this time goes to spill files,
    /// which the next start stores.
    pub(crate) async fn drain(&self, within: Duration) {
        let end = Instant::now() + within;
        self.intake.wake_replay.notify_one();
        while !self.intake.is_at_rest() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.intake.spilling.store(true, Ordering::Relaxed);
        self.end_tasks();
        self.intake.abandon_all();
        let lost = lock(&self.intake.spill).save();
        self.intake.count_dropped(lost as u64);
    }

    /// Removes clicks that are past their time, with the texts that only they named. Counts stay. To be called now and
    /// then.
    pub(crate) async fn sweep(&self, retention: Retention) -> Result<(), DbError> {
        fold::sweep(&self.db, self.intake.clock.now(), retention).await
    }

    fn end_tasks(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Clicks {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

impl Intake {
    fn new(clock: Clock, directory: &Path, months: bool, store_timeout: Duration) -> Self {
        Self {
            clock,
            store_timeout,
            months,
            texts: Texts::new(),
            queue: Queue::default(),
            running: Mutex::default(),
            spill: Mutex::new(Spill::new(directory)),
            low_durability: Mutex::default(),
            spilling: AtomicBool::new(false),
            unwatched: AtomicBool::new(false),
            head: Arc::default(),
            gathered: None,
            fold_groups: AtomicUsize::new(fold::INITIAL_GROUPS),
            random: Mutex::new(Random::system()),
            stored: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            wake_writer: Notify::new(),
            wake_watch: Notify::new(),
            wake_replay: Notify::new(),
            wake_sync: Notify::new(),
            wake_fold: Notify::new(),
            news: Sender::new(()),
        }
    }

    fn record(&self, click: Click) -> Recorded {
        if self.spilling.load(Ordering::Relaxed) {
            self.spill_clicks(std::slice::from_ref(&click), None);
            return Recorded::now();
        }
        let (recorded, first) = self.queue.push(click);
        if first {
            self.wake_writer.notify_one();
            if self.unwatched.load(Ordering::Relaxed) && self.unwatched.swap(false, Ordering::SeqCst) {
                self.wake_watch.notify_one();
            }
        }
        recorded
    }

    /// Gives clicks to the spill, which `batch` may store as well.
    fn spill_clicks(&self, clicks: &[Click], batch: Option<Mark>) {
        let outcome = lock(&self.spill).add(clicks, batch);
        self.spilled.fetch_add(outcome.spilled, Ordering::Relaxed);
        self.count_dropped(outcome.dropped);
        self.wake_sync.notify_one();
        self.wake_replay.notify_one();
    }

    fn count_dropped(&self, clicks: u64) {
        if clicks > 0 {
            self.dropped.fetch_add(clicks, Ordering::Relaxed);
            tracing::error!(clicks, "clicks lost: neither the database nor the spill file could be written");
        }
    }

    /// The writer does not answer: from now on clicks go to the spill at once.
    fn begin_spilling(&self) {
        if !self.spilling.swap(true, Ordering::Relaxed) {
            tracing::warn!("database too slow for clicks; writing spill files");
        }
    }

    /// The writer answers.
    fn end_spilling(&self) {
        if self.spilling.load(Ordering::Relaxed) && self.spilling.swap(false, Ordering::Relaxed) {
            tracing::info!("database accepts clicks again");
            self.wake_replay.notify_one();
        }
    }

    /// Gives everything that waits for the writer to the spill.
    fn abandon_all(&self) {
        for batch in self.queue.take_all() {
            self.spill_clicks(&batch.clicks, None);
            batch.completion.complete();
        }
        for running in std::mem::take(&mut *lock(&self.running)) {
            running.abandon(self);
        }
    }

    /// Where clicks go that are stored now: neither before the clock nor before any of them happened.
    fn append_position(&self, clicks: &[NewClick], now: i64) -> AppendPosition {
        let latest = clicks.iter().map(|click| click.at).max().map_or(now, |at| at.max(now));
        let gap = i64::try_from(lock(&self.random).below(MAX_GAP)).unwrap_or(0);
        AppendPosition { after: position_at(latest), gap }
    }

    /// So many clicks are in the log now.
    fn note_stored(&self, clicks: u64) {
        self.stored.fetch_add(clicks, Ordering::Relaxed);
        self.wake_fold.notify_one();
        // Nobody listens where nobody is told of clicks, and then this is one look.
        if self.news.receiver_count() > 0 {
            self.news.send_replace(());
        }
    }

    /// Whether every click is in the log.
    fn is_at_rest(&self) -> bool {
        self.queue.oldest().is_none() && lock(&self.running).is_empty() && !lock(&self.spill).is_pending()
    }
}
