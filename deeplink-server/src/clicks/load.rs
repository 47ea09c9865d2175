//! From the journal into the database: the one task that stores clicks.
//!
//! Rows of the log commit together with the offset in the segment up to which they are stored. Counts have their own
//! offset, because it is cheaper to count many clicks at once. Thus each click is stored and counted exactly once,
//! whenever the process dies. A segment is removed after a commit that waits for the disk.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};

use super::reading::{Chunk, Reading, SegmentText};
use super::record::HEADER;
use super::segment::Segment;
use super::{Intake, earlier, lock};
use crate::db::clicks::{self, AppendPosition, Claim, Group, Head, JournalState, NewClick, NewText};
use crate::db::{Conn, Db, DbError};
use crate::shares::Share;

/// Pause after a round that stored clicks, so that the next one stores more at once; shorter if they were few.
const PACE: Duration = Duration::from_millis(100);
const SHORT_PACE: Duration = Duration::from_millis(5);
/// Fewer clicks than this are followed by the short pause.
const FEW: u64 = 8;
/// Time between two attempts while the database accepts no clicks.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Attempts to read a segment before it is left for later: half a minute.
pub(super) const READ_ATTEMPTS: u32 = 150;
/// Time that a read may take: the connection may be lost without notice.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// Time between two counts while clicks arrive, so that other nodes show them too.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// The same on SQLite, which has no other nodes, while clicks are spread over many links: each link adds work.
const SPREAD_COUNT_INTERVAL: Duration = Duration::from_secs(10);
/// With more groups than this, clicks are spread over many links.
const SPREAD: usize = 8_192;
/// Maximum groups in memory, about 20 MB.
const MAX_GROUPS: usize = 1 << 17;

/// Loads the journal for as long as the service runs.
pub(super) async fn run(intake: Arc<Intake>, db: Db) {
    let mut loader = Loader::new(intake, db);
    loop {
        let pause = loader.go_on().await;
        let intake = Arc::clone(&loader.intake);
        let woken = intake.wake.notified();
        match pause {
            // Only a waiting report or a shutdown wakes it.
            Pause::For(pause) => drop(timeout(pause, woken).await),
            Pause::UntilClick(count) => {
                intake.is_idle.store(true, Ordering::SeqCst);
                // A click that arrived before this was stored did not wake it.
                if !loader.has_more() {
                    match count {
                        Some(count) => drop(timeout(count, woken).await),
                        None => woken.await,
                    }
                    // Until now, nothing was waiting.
                    *lock(&loader.intake.caught_up) = Instant::now();
                }
                intake.is_idle.store(false, Ordering::SeqCst);
            }
        }
    }
}

/// How long the loader waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    For(Duration),
    /// Until a click comes or counts are due.
    UntilClick(Option<Duration>),
}

pub(super) struct Loader {
    intake: Arc<Intake>,
    db: Db,
    pub(super) reading: Option<Reading>,
    /// When counts were last stored.
    counted_at: Instant,
    has_failed: bool,
    /// How often the segment could not be read.
    unread: u32,
    /// Whether the clicks that versions without a journal left behind are stored.
    has_taken_over: bool,
}

impl Loader {
    pub(super) fn new(intake: Arc<Intake>, db: Db) -> Self {
        let now = Instant::now();
        Self { intake, db, reading: None, counted_at: now, has_failed: false, unread: 0, has_taken_over: false }
    }

    /// Loads what is available, and returns how long to wait before the next round.
    async fn go_on(&mut self) -> Pause {
        let asked = self.intake.asked.swap(false, Ordering::SeqCst);
        let began = Instant::now();
        match self.round(asked).await {
            Ok(loaded) => {
                *lock(&self.intake.caught_up) = began;
                if std::mem::take(&mut self.has_failed) {
                    self.intake.is_failing.store(false, Ordering::Relaxed);
                    tracing::info!("database accepts clicks again");
                }
                match loaded {
                    _ if self.intake.asked.load(Ordering::SeqCst) => Pause::For(Duration::ZERO),
                    0 => {
                        let is_uncounted = self.reading.as_ref().is_some_and(Reading::is_uncounted);
                        Pause::UntilClick(is_uncounted.then(|| self.until_count()))
                    }
                    FEW.. => Pause::For(PACE),
                    _ => Pause::For(SHORT_PACE),
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(%error, "clicks cannot be stored in the database; they are kept in the journal");
                }
                // Reports must not wait for clicks that cannot be stored now.
                self.intake.is_failing.store(true, Ordering::Relaxed);
                self.intake.progress.send_modify(|_| ());
                Pause::For(RETRY_INTERVAL)
            }
        }
    }

    fn has_more(&self) -> bool {
        let first = self.intake.journal.first();
        match (&self.reading, first) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(reading), Some(_)) => {
                reading.segment.length() > reading.offset()
                    || reading.is_at_end()
                    || self.intake.asked.load(Ordering::SeqCst)
            }
        }
    }

    /// One round: stores what is in the journal at its start, and counts it if `asked` to or if that is due.
    pub(super) async fn round(&mut self, asked: bool) -> Result<u64, DbError> {
        if !self.has_taken_over {
            earlier::take_over(&self.intake, &self.db).await?;
            self.has_taken_over = true;
            self.intake.note_left_behind();
        }
        let goal = self.intake.journal.appended();
        let mut loaded = 0;
        loop {
            if !self.open_next().await? {
                return Ok(loaded);
            }
            let Some(reading) = &mut self.reading else { return Ok(loaded) };
            match reading.next_piece() {
                Ok(true) => {
                    self.unread = 0;
                    loaded += self.store_piece().await?;
                    self.count_if_due().await?;
                    // Clicks that arrived meanwhile are left to the next round, to keep transactions few.
                    if self.has_read(goal) {
                        break;
                    }
                }
                Ok(false) if reading.ends_a_part() => self.count().await?,
                Ok(false) if reading.is_at_end() => self.finish().await?,
                // Another program wrote into it.
                Ok(false) if reading.is_torn() => self.intake.journal.close(None),
                Ok(false) => break,
                Err(error) => self.unreadable(&error).await?,
            }
        }
        if asked {
            self.count().await?;
        }
        self.count_if_due().await?;
        self.close_memory().await?;
        Ok(loaded)
    }

    /// Opens the oldest segment, unless one is open. `false` if there is none.
    async fn open_next(&mut self) -> Result<bool, DbError> {
        if self.reading.is_some() {
            return Ok(true);
        }
        let Some(segment) = self.intake.journal.first() else { return Ok(false) };
        let state = read_in_time(async { clicks::journal_state(&mut self.db.read().await?.conn(), segment.id).await });
        let state = state.await?;
        (self.reading, self.unread) = (Some(Reading::new(segment, state)), 0);
        Ok(true)
    }

    /// Looks up which of the texts beyond an account's share are already in the database.
    async fn settle_texts(&mut self) -> Result<(), DbError> {
        let Some(reading) = &mut self.reading else { return Ok(()) };
        let beyond = reading.beyond();
        // Usually there are none, so no connection is needed.
        let known = if beyond.is_empty() {
            HashSet::new()
        } else {
            read_in_time(async { clicks::known_texts(&mut self.db.read().await?.conn(), &beyond).await }).await?
        };
        reading.settle(&known);
        Ok(())
    }

    async fn store_piece(&mut self) -> Result<u64, DbError> {
        self.settle_texts().await?;
        let Some(reading) = &mut self.reading else { return Ok(0) };
        let Some(piece) = reading.piece.clone() else { return Ok(0) };
        let now = self.intake.clock.now().as_millis();
        let day = now - now.rem_euclid(86_400_000);
        let (rows, new) = reading.rows(&piece, day);
        let texts = new.iter().filter_map(|number| reading.texts.get(*number as usize - 1)).cloned().collect();
        let segment = Arc::clone(&reading.segment);
        let load = Load {
            segment: segment.id,
            from: piece.from,
            to: piece.to,
            append: self.intake.append_position(&rows, now),
            rows,
            groups: segment.is_in_memory().then(|| reading.groups_of(&piece)),
            months: self.intake.months,
            texts,
            day,
            now,
            head: Arc::clone(&self.intake.head),
        };
        let is_counted = load.groups.is_some();
        let loaded = self.db.write_relaxed(Share::Clicks, load, |tx, load| load.store(tx).boxed()).await?;
        // `None`: the piece was stored now. The piece's end: an earlier attempt with an unknown outcome stored it. Any
        // other offset: the database was restored from a backup, so the segment is read again.
        if loaded.is_some_and(|loaded| loaded != piece.to) {
            self.reading = None;
            return Ok(0);
        }
        let clicks = reading.stored(&new, day, is_counted) as u64;
        if is_counted {
            self.note_counted();
        }
        self.note_loaded();
        self.intake.note_stored(clicks);
        Ok(clicks)
    }

    fn until_count(&self) -> Duration {
        let groups = self.reading.as_ref().map_or(0, Reading::groups);
        let interval = if groups > SPREAD && self.db.is_sqlite() { SPREAD_COUNT_INTERVAL } else { COUNT_INTERVAL };
        interval.saturating_sub(self.counted_at.elapsed())
    }

    async fn count_if_due(&mut self) -> Result<(), DbError> {
        let groups = self.reading.as_ref().map_or(0, Reading::groups);
        if groups >= MAX_GROUPS || self.until_count().is_zero() { self.count().await } else { Ok(()) }
    }

    /// Stores the counts of the clicks read so far.
    async fn count(&mut self) -> Result<(), DbError> {
        self.counted_at = Instant::now();
        self.settle_texts().await?;
        // In a loop, because clicks read after a failed count are not in its chunks.
        while let Some(reading) = self.reading.as_mut().filter(|reading| reading.is_uncounted()) {
            reading.begin_count();
            let Some(chunk) = reading.chunks.last().cloned() else { return Ok(()) };
            let job = (reading.segment.id, chunk, self.intake.months);
            let counted = self.db.write_relaxed(Share::Clicks, job, |tx, (segment, chunk, months)| {
                count_chunk(tx, *segment, chunk, *months).boxed()
            });
            if !counted.await? {
                // The database was restored from a backup, so the segment is read again.
                self.reading = None;
                return Ok(());
            }
            if let Some(reading) = &mut self.reading {
                reading.counted();
            }
        }
        self.note_counted();
        Ok(())
    }

    /// Whether the journal has been read up to this number of accepted bytes.
    fn has_read(&self, accepted: u64) -> bool {
        let own = self.reading.as_ref().filter(|reading| reading.segment.is_own);
        own.is_some_and(|reading| reading.segment.accepted_at(reading.offset()) >= accepted)
    }

    /// Publishes how many of the bytes accepted by this process are counted; segments are counted in order, except those
    /// that could once not be read.
    fn note_counted(&self) {
        let in_order = |reading: &&Reading| reading.segment.is_own && !reading.segment.was_left();
        if let Some(reading) = self.reading.as_ref().filter(in_order) {
            let counted = reading.segment.accepted_at(reading.state().counted);
            self.intake.progress.send_modify(|progress| progress.counted = counted);
        }
    }

    /// Records that the segment, which is closed, is no longer waiting: no more of it will be counted soon.
    fn note_gone(&self, segment: &Segment, was_left: bool) {
        if segment.is_own && !was_left {
            let counted = segment.accepted_at(segment.length());
            self.intake.progress.send_modify(|progress| progress.counted = counted);
        }
    }

    /// Removes a segment that was read to its end, once all of it is counted and durable.
    async fn finish(&mut self) -> Result<(), DbError> {
        self.count().await?;
        let Some(reading) = &self.reading else { return Ok(()) };
        let segment = Arc::clone(&reading.segment);
        let is_empty = reading.state() == JournalState::beginning(HEADER);
        if !segment.is_in_memory() && !is_empty {
            // This commit waits for the disk, which also syncs all commits before it.
            let (id, state) = (segment.id, reading.state());
            let has_all = self.db.write(Share::Clicks, (), move |tx, ()| clicks::finish_journal(tx, id, state).boxed());
            if !has_all.await? {
                // The database was restored from a backup, so the segment is read again.
                self.reading = None;
                return Ok(());
            }
        }
        let (journal, path) = (&self.intake.journal, segment.path());
        let removed = if reading.is_torn() {
            journal.set_aside(&segment).map(|aside| {
                let path = aside.clone().unwrap_or_default();
                let path = path.display();
                tracing::warn!(%path, "journal segment ends in a damaged record; loaded up to that record");
                aside.is_some()
            })
        } else {
            journal.remove(&segment)
        };
        self.reading = None;
        self.note_loaded();
        self.note_gone(&segment, segment.was_left());
        self.intake.note_left_behind();
        let (id, path) = (segment.id, path.unwrap_or_default());
        let had_file = match removed {
            Ok(had_file) => had_file,
            Err(error) => {
                // The next start finds it already loaded, and tries to remove it again.
                tracing::error!(path = %path.display(), %error, "loaded journal segment cannot be removed");
                return Ok(());
            }
        };
        if !segment.is_own || segment.was_left() {
            tracing::info!(path = %path.display(), "journal segment loaded into the database");
        }
        let ended = self.db.write_relaxed(Share::Clicks, (), move |tx, ()| {
            async move {
                if had_file { clicks::end_journal(tx, id).await } else { clicks::forget_journal(tx, id).await }
            }
            .boxed()
        });
        ended.await
    }

    /// Goes on without a segment that cannot be read, once that has been tried for a while or its file is gone.
    async fn unreadable(&mut self, error: &std::io::Error) -> Result<(), DbError> {
        let Some(segment) = self.reading.as_ref().map(|reading| Arc::clone(&reading.segment)) else { return Ok(()) };
        let path = segment.path().unwrap_or_default();
        let is_gone = error.kind() == ErrorKind::NotFound;
        self.unread += 1;
        let was_left = segment.was_left();
        if !is_gone && !was_left && self.unread < READ_ATTEMPTS {
            return Err(DbError::Unavailable(format!("{} cannot be read: {error}", path.display())));
        }
        self.count().await?;
        self.reading = None;
        if is_gone {
            tracing::error!(path = %path.display(), %error, "journal segment was removed by another program");
            self.intake.journal.forget(&segment);
        } else {
            if !was_left {
                let path = path.display();
                tracing::error!(%path, %error, "journal segment cannot be read; will retry later");
            }
            self.intake.journal.leave(&segment);
        }
        // Only now, because until it is closed a visit may append to it.
        self.note_gone(&segment, was_left);
        self.intake.note_left_behind();
        Ok(())
    }

    /// Frees a segment in memory as soon as its clicks are in the database.
    async fn close_memory(&mut self) -> Result<(), DbError> {
        let Some(reading) = self.reading.as_ref().filter(|reading| reading.segment.is_in_memory()) else {
            return Ok(());
        };
        self.intake.journal.close(Some((&reading.segment, reading.offset())));
        if reading.is_at_end() { self.finish().await } else { Ok(()) }
    }

    /// Bytes of the segment that are in the log.
    fn note_loaded(&self) {
        let bytes = self.reading.as_ref().map_or(0, |reading| reading.offset().saturating_sub(HEADER));
        self.intake.loaded_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// The result of a read of the database, unless it takes too long.
async fn read_in_time<T>(read: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
    let late = |_| Err(DbError::Unavailable("no response from the database".to_owned()));
    timeout(READ_LIMIT, read).await.unwrap_or_else(late)
}

/// Clicks being stored in the log.
struct Load {
    segment: i64,
    from: u64,
    to: u64,
    rows: Vec<NewClick>,
    /// Counts that are stored with them.
    groups: Option<Vec<Group>>,
    months: bool,
    texts: Vec<SegmentText>,
    day: i64,
    now: i64,
    append: AppendPosition,
    head: Arc<Head>,
}

impl Load {
    /// Stores them if the segment is loaded up to where they begin; otherwise returns the offset up to which it is.
    async fn store(&self, tx: &mut Conn<'_>) -> Result<Option<u64>, DbError> {
        let beginning = JournalState::beginning(HEADER);
        if let Some(loaded) = clicks::claim_piece(tx, self.segment, beginning, (self.from, self.to), self.now).await? {
            return Ok(Some(loaded));
        }
        let texts: Vec<_> = self.texts.iter().map(|text| NewText { hash: text.hash, text: &text.text }).collect();
        if !texts.is_empty() {
            clicks::insert_texts(tx, &texts, self.day).await?;
        }
        if !self.rows.is_empty() {
            clicks::insert(tx, &self.head, self.append, &self.rows).await?;
        }
        if let Some(groups) = &self.groups {
            clicks::note_counted(tx, self.segment, self.to).await?;
            clicks::add_counts(tx, groups, self.months).await?;
        }
        Ok(None)
    }
}

/// Stores counts. `false` if the segment is not counted up to where they begin.
async fn count_chunk(tx: &mut Conn<'_>, segment: i64, chunk: &Chunk, months: bool) -> Result<bool, DbError> {
    match clicks::claim_count(tx, segment, chunk.before, chunk.after).await? {
        Claim::Yours => clicks::add_counts(tx, &chunk.groups, months).await.map(|()| true),
        // An earlier attempt with an unknown outcome has stored it.
        Claim::Stored => Ok(true),
        Claim::Other => Ok(false),
    }
}
