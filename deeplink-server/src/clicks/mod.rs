//! The path of a click from the visit to the log.
//!
//! A visit appends its click to this node's journal and waits for nothing else, so that a killed process loses no click
//! whose visit was answered. One task stores what is in the journal. A visit never fails because of its click.
//!
//! | Module | Holds |
//! |---|---|
//! | `texts` | user agents and referers, interned |
//! | `record` | the format of the journal |
//! | `segment` | a part of the journal: a file, or memory while no file can be written |
//! | `journal` | appends to segments and keeps their order |
//! | `reading` | a segment being loaded: pieces for the log, and their counts |
//! | `load` | the task that stores them |
//! | `earlier` | clicks from versions without a journal |
//! | `retention` | deletes clicks and events past their retention |

mod earlier;
mod journal;
mod load;
mod reading;
mod record;
mod retention;
mod segment;
#[cfg(test)]
mod tests;
mod texts;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deeplink_core::secret::Random;
use deeplink_core::visitor::{OTHER, referer_host};
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use self::journal::{Journal, SEGMENT_AGE};
use crate::clock::Clock;
use crate::db::clicks::{self, AppendPosition, Group, Head, MAX_GAP, NewClick, NewText, position_at};
use crate::db::{Conn, Db, DbError};

pub(crate) use self::retention::Retention;
use self::texts::{Text, hash_of};
pub(crate) use self::texts::{TextRef, Texts};

/// The folder of the journal in the data directory.
const FOLDER: &str = "clicks";
/// How far the database may be behind before a warning is logged, and the interval between warnings.
const LATE: Duration = Duration::from_secs(10);
/// Time between two syncs of the journal, which take time themselves: a power failure loses at most the last second.
const SYNC_INTERVAL: Duration = Duration::from_millis(800);
/// How often writing to files is retried after it has failed.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How soon segments that could not be read are tried again; twice as long after each attempt, up to the maximum.
const LEFT_INTERVAL: Duration = Duration::from_mins(1);
const MAX_LEFT_INTERVAL: Duration = Duration::from_hours(1);
/// How long a report waits for earlier clicks to be counted.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// A visit that counts.
#[derive(Debug, Clone)]
pub(crate) struct Click {
    /// `links.position`.
    pub(crate) link: i64,
    /// Unix milliseconds.
    pub(crate) at: i64,
    pub(crate) kind: u8,
    pub(crate) platform: u8,
    /// [`UserAgent::code`](deeplink_core::visitor::UserAgent::code) for a person's click; 0 for an agent's.
    pub(crate) agent_code: u32,
    /// [`Country::code`](deeplink_core::visitor::Country::code).
    pub(crate) country: u16,
    pub(crate) agent: Option<TextRef>,
    pub(crate) referer: Option<TextRef>,
}

/// The state of storing the clicks of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    /// Clicks in the log.
    pub(crate) stored_total: u64,
    /// Clicks that could not be stored anywhere.
    pub(crate) dropped_total: u64,
    /// Bytes of the journal that are not in the log, and for how long it has been behind.
    pub(crate) behind_bytes: u64,
    pub(crate) behind_seconds: u64,
    pub(crate) segments: usize,
    /// Clicks in memory because no file could be written.
    pub(crate) in_memory: u64,
}

/// The clicks of this process.
pub(crate) struct Clicks {
    db: Db,
    intake: Arc<Intake>,
    tasks: Vec<AbortHandle>,
}

/// What visits and the tasks share.
struct Intake {
    data: PathBuf,
    clock: Clock,
    /// Whether each account's clicks per month are counted.
    months: bool,
    texts: Texts,
    journal: Journal,
    head: Arc<Head>,
    random: Mutex<Random>,
    stored: AtomicU64,
    /// Bytes of the oldest segment that are in the log.
    loaded_bytes: AtomicU64,
    /// When the log last had everything in the journal.
    caught_up: Mutex<Instant>,
    progress: Sender<Progress>,
    /// A report is waiting until the journal is counted.
    asked: AtomicBool,
    /// Whether the database accepts no clicks.
    is_failing: AtomicBool,
    /// Whether the loader waits for a click.
    is_idle: AtomicBool,
    wake: Notify,
    /// Notifies the readers of the log, if there are any, that clicks were stored.
    news: Sender<()>,
}

/// The progress of the loader.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// How many of the journal bytes accepted by this process are counted.
    counted: u64,
    /// Segments of earlier processes that are not counted yet.
    left_behind: usize,
}

impl Clicks {
    /// Opens the journal; with `months`, each account's clicks per month are counted. Segments left by earlier
    /// processes are loaded in the background.
    pub(crate) fn start(db: Db, clock: Clock, data: &Path, months: bool) -> io::Result<Arc<Self>> {
        let intake = Arc::new(Intake::open(clock, data, &data.join(FOLDER), months)?);
        let tasks = vec![
            tokio::spawn(load::run(Arc::clone(&intake), db.clone())).abort_handle(),
            tokio::spawn(sync(Arc::clone(&intake))).abort_handle(),
        ];
        Ok(Arc::new(Self { db, intake, tasks }))
    }

    /// Accepts a click: it will be stored even if this process is killed.
    pub(crate) fn record(&self, click: &Click) {
        self.intake.record(click);
    }

    /// The end of the log, for code that stores rows with a position in it.
    pub(crate) fn head(&self) -> Arc<Head> {
        Arc::clone(&self.intake.head)
    }

    /// Changes whenever this process stores clicks.
    pub(crate) fn news(&self) -> Receiver<()> {
        self.intake.news.subscribe()
    }

    /// The user agents and referers in memory.
    pub(crate) fn texts(&self) -> &Texts {
        &self.intake.texts
    }

    /// The state of storing clicks.
    pub(crate) fn status(&self) -> Status {
        let intake = &self.intake;
        let (waiting, behind_bytes) = (intake.journal.waiting(), intake.behind_bytes());
        Status {
            stored_total: intake.stored.load(Ordering::Relaxed),
            dropped_total: intake.journal.dropped(),
            behind_bytes,
            behind_seconds: match intake.journal.left_for() {
                Some(left) => left.max(intake.behind_for()).as_secs(),
                None if behind_bytes == 0 => 0,
                None => intake.behind_for().as_secs(),
            },
            segments: waiting.segments,
            in_memory: waiting.in_memory,
        }
    }

    /// Waits until all clicks accepted so far are counted, for at most two seconds. Does not wait while the database
    /// accepts no clicks.
    pub(crate) async fn counted(&self) {
        let intake = &self.intake;
        let goal = intake.journal.appended();
        let mut progress = intake.progress.subscribe();
        let is_done =
            |now: &Progress| now.left_behind == 0 && now.counted >= goal || intake.is_failing.load(Ordering::Relaxed);
        if is_done(&progress.borrow()) {
            return;
        }
        intake.asked.store(true, Ordering::SeqCst);
        intake.wake.notify_one();
        drop(timeout(COUNT_TIMEOUT, progress.wait_for(is_done)).await);
    }

    /// Stores a click and its counts in the caller's transaction; call [`Clicks::note_stored`] after the commit.
    pub(crate) async fn store(&self, tx: &mut Conn<'_>, click: &Click) -> Result<(), DbError> {
        let intake = &self.intake;
        let now = intake.clock.now().as_millis();
        let texts = [&click.agent, &click.referer].map(Option::as_deref);
        let beyond: Vec<_> = texts.into_iter().flatten().filter(|text| text.is_beyond()).map(Text::hash).collect();
        let known = clicks::known_texts(tx, &beyond).await?;
        let [agent, referer] = texts.map(|text| match text? {
            text if text.is_beyond() && !known.contains(&text.hash()) => {
                Some(NewText { hash: hash_of(OTHER), text: OTHER })
            }
            text => Some(NewText { hash: text.hash(), text: text.text() }),
        });
        let mut new: Vec<_> = [&agent, &referer].into_iter().flatten().cloned().collect();
        new.sort_unstable_by_key(|text| text.hash);
        new.dedup_by_key(|text| text.hash);
        clicks::insert_texts(tx, &new, now - now.rem_euclid(86_400_000)).await?;
        let row = NewClick {
            link: click.link,
            at: click.at,
            kind: click.kind,
            platform: click.platform,
            agent_code: click.agent_code,
            country: click.country,
            agent: agent.map(|text| text.hash),
            referer: referer.as_ref().map(|text| text.hash),
        };
        clicks::insert(tx, &intake.head, intake.append_position(&[row], now), &[row]).await?;
        let host = referer.map(|text| referer_host(text.text)).unwrap_or_default();
        clicks::add_counts(tx, &[Group::of_one(&row, host)], intake.months).await
    }

    /// Records that the transaction of [`Clicks::store`] was committed.
    pub(crate) fn note_stored(&self) {
        self.intake.note_stored(1);
    }

    /// Stores what is in the journal when the process ends. What cannot be stored `within` this time stays there for
    /// the next start.
    pub(crate) async fn drain(&self, within: Duration) {
        let intake = &self.intake;
        intake.journal.close(None);
        intake.asked.store(true, Ordering::SeqCst);
        intake.wake.notify_one();
        let mut progress = intake.progress.subscribe();
        drop(timeout(within, progress.wait_for(|_| intake.journal.first().is_none())).await);
        self.end_tasks();
        // A task that is running ends when it next waits.
        while !self.tasks.iter().all(AbortHandle::is_finished) {
            sleep(Duration::from_millis(1)).await;
        }
        let lost = intake.journal.end();
        if lost > 0 {
            tracing::error!(clicks = lost, "clicks were lost: neither the database nor the journal can be written");
        }
    }

    /// Removes clicks past their retention, and texts that no other click refers to. Counts are kept. Call it
    /// periodically.
    pub(crate) async fn sweep(&self, retention: Retention) -> Result<(), DbError> {
        retention::sweep(&self.db, self.intake.clock.now(), retention).await
    }

    fn end_tasks(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Clicks {
    fn drop(&mut self) {
        self.end_tasks();
        self.intake.journal.end();
    }
}

/// Why a journal could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("the click journal cannot be opened: {0}")]
    Journal(#[from] io::Error),
    #[error(transparent)]
    Database(#[from] DbError),
}

/// Stores the clicks in another node's journal, and returns their number.
pub(crate) async fn load_folder(db: &Db, clock: Clock, folder: &Path, months: bool) -> Result<u64, LoadError> {
    let intake = Arc::new(Intake::open(clock, folder, folder, months)?);
    let mut loader = load::Loader::new(Arc::clone(&intake), db.clone());
    while intake.journal.first().is_some() {
        loader.round(true).await?;
    }
    let left = segment::files(folder, segment::SUFFIX)?;
    if let Some(path) = left.first() {
        let text = format!("{} of the segments could not be read, such as {}", left.len(), path.display());
        return Err(io::Error::other(text).into());
    }
    Ok(intake.stored.load(Ordering::Relaxed))
}

impl Intake {
    /// Opens the journal in `folder`. `data` is where versions without a journal left their clicks.
    fn open(clock: Clock, data: &Path, folder: &Path, months: bool) -> io::Result<Self> {
        let journal = Journal::open(folder, clock.clone())?;
        // One more for the clicks from versions without a journal.
        let progress = Progress { counted: 0, left_behind: journal.left_behind() + 1 };
        Ok(Self {
            data: data.to_owned(),
            clock,
            months,
            texts: Texts::new(),
            journal,
            head: Arc::default(),
            random: Mutex::new(Random::system()),
            stored: AtomicU64::new(0),
            loaded_bytes: AtomicU64::new(0),
            caught_up: Mutex::new(Instant::now()),
            progress: Sender::new(progress),
            asked: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
            wake: Notify::new(),
            news: Sender::new(()),
        })
    }

    fn record(&self, click: &Click) {
        self.journal.append(click);
        // A load before the swap is cheaper: under load, the loader is never idle.
        if self.is_idle.load(Ordering::SeqCst) && self.is_idle.swap(false, Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// Where clicks stored now begin in the log: at or after the current time and the time of each of them.
    fn append_position(&self, clicks: &[NewClick], now: i64) -> AppendPosition {
        let latest = clicks.iter().map(|click| click.at).max().map_or(now, |at| at.max(now));
        let gap = i64::try_from(lock(&self.random).below(MAX_GAP)).unwrap_or(0);
        AppendPosition { after: position_at(latest), gap }
    }

    /// Notes that this many more clicks are in the log, and wakes readers of the log.
    fn note_stored(&self, clicks: u64) {
        self.stored.fetch_add(clicks, Ordering::Relaxed);
        // Without a webhook or stream that wants clicks, there is no receiver, and nothing but this check is done.
        if clicks > 0 && self.news.receiver_count() > 0 {
            self.news.send_replace(());
        }
    }

    /// Time since the log last held everything that was in the journal and could be read.
    fn behind_for(&self) -> Duration {
        lock(&self.caught_up).elapsed()
    }

    /// Bytes of the journal that are not in the log.
    fn behind_bytes(&self) -> u64 {
        self.journal.waiting().bytes.saturating_sub(self.loaded_bytes.load(Ordering::Relaxed))
    }

    fn note_left_behind(&self) {
        let left_behind = self.journal.left_behind();
        self.progress.send_modify(|progress| progress.left_behind = left_behind);
    }
}

/// Syncs the journal while it grows, and retries writing to files after it has failed.
async fn sync(intake: Arc<Intake>) {
    let (mut has_failed, mut warned_at, mut taken_back_at) = (false, Instant::now(), Instant::now());
    let mut left_interval = LEFT_INTERVAL;
    loop {
        let lacks_files = intake.journal.lacks_files();
        sleep(if lacks_files { RETRY_INTERVAL } else { SYNC_INTERVAL }).await;
        if intake.journal.close_old(SEGMENT_AGE) {
            intake.wake.notify_one();
        }
        let has_left = intake.journal.left_for().is_some();
        if !has_left || intake.journal.has_left_anew() {
            (left_interval, taken_back_at) = (LEFT_INTERVAL, Instant::now());
        }
        let is_due = has_left && taken_back_at.elapsed() >= left_interval;
        if is_due {
            (left_interval, taken_back_at) = ((left_interval * 2).min(MAX_LEFT_INTERVAL), Instant::now());
        }
        // Checked here, because the loader may be waiting for a write.
        let behind = intake.behind_for();
        let has_more = || intake.behind_bytes() > intake.journal.waiting().left_bytes;
        if behind >= LATE && warned_at.elapsed() >= LATE && has_more() {
            warned_at = Instant::now();
            tracing::warn!(seconds = behind.as_secs(), "the database is behind the click journal");
        }
        let shared = Arc::clone(&intake);
        let synced = spawn_blocking(move || {
            // A broken disk takes its time for each attempt.
            if is_due && shared.journal.take_back() {
                shared.wake.notify_one();
            }
            if shared.journal.lacks_files() {
                drop(shared.journal.leave_memory());
            }
            shared.journal.sync()
        });
        match synced.await {
            Ok(Err(error)) if !std::mem::replace(&mut has_failed, true) => {
                tracing::error!(%error, "the click journal cannot be synced");
            }
            Ok(Ok(())) => has_failed = false,
            _ => {}
        }
    }
}

/// Holders of this lock never leave a broken state behind when they panic, so poisoning can be ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
