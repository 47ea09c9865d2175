//! Clicks on their way into the log: one statement for up to 1,024 of them.
//!
//! Writer and watch decide by one compare-and-swap who has a batch. As long as its position is not decided, the watch
//! can take it back, and the writer undoes what it did. From then on it may be committed, and what the spill keeps
//! says how to recognise it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::queue::{ClickBatch, Completion, lock};
use super::texts::TextRef;
use super::{Click, Intake};
use crate::db::clicks::{self, Mark, NewText};
use crate::db::{self, Conn, Db, DbError, DriverError, Job, Ran, SqliteConn, Statement};
use crate::shares::Share;

/// The writer has the batch, and nothing of it can be committed yet.
const TAKEN: i64 = 0;
/// The batch is the spill's; the writer leaves nothing of it.
const ABANDONED: i64 = -1;

/// How long a batch waits for more clicks on PostgreSQL, where a task of its own stores them.
const BATCH_DELAY: Duration = Duration::from_millis(1);
/// How long a batch may take on PostgreSQL before the next is tried on another connection.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);

/// A batch that the writer has.
#[derive(Debug)]
pub(super) struct Running {
    clicks: Vec<Click>,
    completion: Arc<Completion>,
    pub(super) since: Instant,
    /// [`TAKEN`], [`ABANDONED`], or the position of the first click, which is about to be committed.
    position: AtomicI64,
    /// Whether the spill has the clicks.
    spilled: AtomicBool,
}

impl Running {
    fn new(batch: ClickBatch) -> Self {
        let ClickBatch { clicks, completion, since } = batch;
        Self { clicks, completion, since, position: AtomicI64::new(TAKEN), spilled: AtomicBool::new(false) }
    }

    /// Moves the batch on from [`TAKEN`], unless the other side did so first.
    fn decide(&self, position: i64) -> bool {
        self.position.compare_exchange(TAKEN, position, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_abandoned(&self) -> bool {
        self.position.load(Ordering::Acquire) == ABANDONED
    }

    /// How to recognise the batch in the log, if it may be there.
    fn mark(&self) -> Option<Mark> {
        let position = Some(self.position.load(Ordering::Acquire)).filter(|&position| position > TAKEN)?;
        self.clicks.first().map(|&Click { link, at, .. }| Mark { position, link, at })
    }

    /// Stops waiting for the writer: the clicks go to the spill as well, and the visits go on.
    pub(super) fn abandon(&self, intake: &Intake) {
        let batch = if self.decide(ABANDONED) { None } else { self.mark() };
        if !self.spilled.swap(true, Ordering::AcqRel) {
            intake.spill_clicks(&self.clicks, batch);
        }
        self.completion.complete();
    }
}

impl Intake {
    pub(super) fn take(self: &Arc<Self>) -> Option<Box<Store>> {
        // Under the lock, so that the watch sees the clicks in one place or the other.
        let mut batches = lock(&self.running);
        let running = Arc::new(Running::new(self.queue.take()?));
        batches.push(Arc::clone(&running));
        drop(batches);
        let now = self.clock.now().as_millis();
        let day = now - now.rem_euclid(86_400_000);
        let mark = self.texts.stored_mark(day);
        let new_texts = new_texts(&running.clicks, mark);
        let intake = Arc::clone(self);
        Some(Box::new(Store { intake, running, now, day, new_texts, mark, append: 0, failure: None }))
    }

    async fn ready(&self) {
        while self.queue.oldest().is_none() && lock(&self.low_durability).is_empty() {
            self.wake_writer.notified().await;
        }
    }
}

/// The end at which the SQLite writer takes clicks.
pub(super) struct Source(pub(super) Arc<Intake>);

impl db::ClickSource for Source {
    fn ready(&self) -> BoxFuture<'_, ()> {
        self.0.ready().boxed()
    }

    fn take(&self) -> Option<Box<dyn Job>> {
        let job = lock(&self.0.low_durability).take(self.0.queue.oldest().is_some());
        job.or_else(|| self.0.take().map(|store| store as Box<dyn Job>))
    }

    fn may_grow(&self) -> bool {
        self.0.queue.may_grow()
    }
}

/// The task that stores clicks on PostgreSQL.
pub(super) async fn pump(intake: Arc<Intake>, db: Db) {
    loop {
        intake.ready().await;
        if intake.queue.may_grow() {
            tokio::time::sleep(BATCH_DELAY).await;
        }
        if let Some(store) = intake.take() {
            // A batch that hangs goes on by itself. Its clicks are in the spill by then.
            drop(tokio::time::timeout(BATCH_TIMEOUT, db.write_low_durability(Share::Clicks, store)).await);
        }
    }
}

/// Stores one batch.
pub(super) struct Store {
    intake: Arc<Intake>,
    running: Arc<Running>,
    /// When the writer took it, and when that day began.
    now: i64,
    day: i64,
    /// Texts that are not known to be stored, to be marked once they are.
    new_texts: Vec<TextRef>,
    mark: u64,
    /// Which append to the log it is.
    append: u64,
    /// Why nothing of it stays.
    failure: Option<String>,
}

impl Store {
    /// Whether the batch is to be committed.
    async fn store(&mut self, mut db: Conn<'_>) -> Result<bool, DbError> {
        if self.running.is_abandoned() {
            return Ok(false);
        }
        if !self.new_texts.is_empty() {
            let texts: Vec<_> =
                self.new_texts.iter().map(|text| NewText { hash: text.hash(), text: text.text() }).collect();
            clicks::insert_texts(&mut db, &texts, self.day).await?;
        }
        let intake = &self.intake;
        let rows: Vec<_> = self.running.clicks.iter().map(Click::row).collect();
        let first = clicks::insert(&mut db, &intake.head, intake.append_position(&rows, self.now), &rows).await?;
        self.append = intake.head.draws();
        Ok(self.running.decide(first))
    }

    /// The same by one statement. It is decided before it, because it may be committed as soon as it runs.
    async fn store_by_statement(&mut self, c: &mut SqliteConn) -> Result<bool, DriverError> {
        if self.running.is_abandoned() {
            return Ok(false);
        }
        let (intake, running) = (&self.intake, &self.running);
        let rows: Vec<_> = running.clicks.iter().map(Click::row).collect();
        let to = intake.append_position(&rows, self.now);
        let stored = clicks::insert_by_statement(c, &intake.head, to, &rows, |first| running.decide(first)).await;
        self.append = intake.head.draws();
        stored
    }
}

/// Each text that is not known to be stored once, in the order of their hashes.
fn new_texts(clicks: &[Click], mark: u64) -> Vec<TextRef> {
    let texts = clicks.iter().flat_map(|click| [&click.agent, &click.referer]).flatten();
    let mut new: Vec<_> = texts.filter(|text| !text.is_stored(mark)).cloned().collect();
    new.sort_unstable_by_key(|text| text.hash());
    new.dedup_by_key(|text| text.hash());
    new
}

impl Job for Store {
    fn run_by_statement<'a>(&'a mut self, conn: &'a mut SqliteConn) -> Option<Statement<'a>> {
        let is_one = self.new_texts.is_empty() && clicks::fits_statement(self.running.clicks.len());
        is_one.then(|| self.store_by_statement(conn).boxed())
    }

    fn run<'a>(&'a mut self, conn: Conn<'a>) -> BoxFuture<'a, Ran> {
        async move {
            match self.store(conn).await {
                Ok(true) => Ran::Keep,
                Ok(false) => Ran::Undo,
                Err(error) => {
                    self.failure = Some(error.to_string());
                    Ran::Failed(error)
                }
            }
        }
        .boxed()
    }

    fn answer(self: Box<Self>, outcome: Result<(), DbError>) {
        let Self { intake, running, new_texts, mark, append, failure, .. } = *self;
        lock(&intake.running).retain(|other| !Arc::ptr_eq(other, &running));
        match failure.or(outcome.err().map(|error| error.to_string())) {
            None => {
                if !running.is_abandoned() {
                    for text in new_texts {
                        text.set_stored(mark);
                    }
                    running.completion.complete();
                    if let (Some(gathered), Some(first)) = (&intake.gathered, running.mark()) {
                        let most = intake.fold_groups.load(Ordering::Relaxed);
                        gathered.add(&running.clicks, first.position, append, most);
                    }
                    intake.note_stored(running.clicks.len() as u64);
                }
                intake.end_spilling();
            }
            Some(failure) => {
                tracing::warn!(
                    failure,
                    clicks = running.clicks.len(),
                    "clicks could not be stored in the database; writing them to a spill file"
                );
                intake.texts.invalidate_stored();
                intake.begin_spilling();
                running.abandon(&intake);
            }
        }
    }
}
