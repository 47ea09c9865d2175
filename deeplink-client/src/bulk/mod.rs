//! Bulk import: any number of rows, checked before anything is sent, sent in batches, written down so that a run can be
//! stopped anywhere and resumed, with each row in the account once.

mod batch;
mod conflict;
mod drive;
#[cfg(feature = "bulk-files")]
mod files;
mod journal;
mod memory;
mod outcome;
mod pace;
mod past;
mod plan;
mod private;
mod react;
mod source;
mod survey;
mod template;
#[cfg(test)]
mod tests;
mod wal;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

#[cfg(feature = "bulk-files")]
pub use files::{FileOptions, FileSource, Format, LinkWriter, RejectsWriter, ResultsWriter};
pub use journal::{
    Done, Entry, Finished, Form, Intent, Journal, JournalError, Opened, RowSet, RunInfo, RunPlan, Settled,
};
pub use memory::MemorySource;
pub use outcome::{Counts, Progress, ProgressWatch, RowOutcome, RowResult, Stopped, Summary};
pub use source::{Row, RowFault, RowSource, Rows, SourceError, SourceRow};
pub use wal::FileJournal;

pub use crate::content::{Difference, differences};

use crate::client::Client;
use crate::error::{Error, Kind};
use drive::{Driver, Shared, Start};
use outcome::Position;
use pace::Times;
use past::Past;
use plan::Planner;
use survey::Survey;

/// What happens to a row whose id is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// The same content counts as existed, other content is rejected.
    #[default]
    Verify,
    /// It is rejected.
    Fail,
    /// It is skipped.
    Skip,
    /// The link gets the row's content.
    Update,
}

/// What a rejected row does to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnError {
    /// Nothing more is sent. An invalid row stops the run before it begins.
    #[default]
    Stop,
    /// The good rows go on.
    Continue,
}

/// How many requests are under way at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Concurrency {
    /// From 4, up to 16 while all goes well, down to 1 when it does not.
    #[default]
    Auto,
    /// So many.
    Fixed(u32),
}

/// An import that cannot begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The source cannot be read.
    Source(SourceError),
    /// Rows are invalid; nothing was sent.
    Invalid(Box<Report>),
    /// The journal cannot be used.
    Journal(JournalError),
    /// The service refused what had to be asked first.
    Service(Error),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Invalid(report) => {
                write!(f, "{} of {} rows are invalid, nothing was sent", report.invalid, report.rows)
            }
            Self::Journal(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(error) => error.source(),
            Self::Invalid(_) => None,
            Self::Journal(error) => error.source(),
            Self::Service(error) => error.source(),
        }
    }
}

/// What the first pass found. Nothing was sent for it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// All rows.
    pub rows: u64,
    /// Rows that cannot be sent.
    pub invalid: u64,
    /// The first of them, in line order; [`Checked::each_fault`] gives all.
    pub faults: Vec<RowFault>,
    /// Pairs of ids that differ only in case, as (first line, later line, later id); the first few.
    pub case_pairs: Vec<(u64, u64, String)>,
    /// How the valid rows would be sent.
    pub plan: Batches,
}

/// How rows would be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Batches {
    /// Groups of 10 and more rows that share a template.
    pub groups: u64,
    /// Rows in them.
    pub template_rows: u64,
    /// Requests for them.
    pub template_requests: u64,
    /// Rows of smaller groups, which go together; one by one where the service cannot take them so.
    pub other_rows: u64,
    /// Requests for them.
    pub other_requests: u64,
}

/// An import that is being set up; see [`Client::bulk_import`].
#[must_use]
pub struct BulkImport {
    client: Client,
    source: Arc<dyn RowSource>,
    settings: Settings,
    journal: Option<Arc<dyn Journal>>,
}

/// What the caller chose.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    on_conflict: OnConflict,
    on_error: OnError,
    concurrency: Concurrency,
    max_wait: Duration,
    salt: Option<String>,
    kept_faults: usize,
    times: Times,
}

impl Client {
    /// Imports rows; see [`crate::bulk`].
    pub fn bulk_import(&self, source: impl RowSource) -> BulkImport {
        BulkImport {
            client: self.clone(),
            source: Arc::new(source),
            settings: Settings {
                on_conflict: OnConflict::default(),
                on_error: OnError::default(),
                concurrency: Concurrency::default(),
                max_wait: Duration::from_mins(15),
                salt: None,
                kept_faults: 100,
                times: Times::default(),
            },
            journal: None,
        }
    }
}

impl BulkImport {
    /// Keeps a journal in a new directory below `dir`, and resumes the unfinished run of the same source from there.
    pub fn journal(self, dir: impl Into<PathBuf>) -> Self {
        self.journal_with(FileJournal::new(dir))
    }

    /// Keeps this journal. Without one, a run cannot be resumed, but can be repeated.
    pub fn journal_with(mut self, journal: impl Journal) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// What happens to a row whose id is in use.
    pub fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.settings.on_conflict = policy;
        self
    }

    /// What a rejected row does to the run.
    pub fn on_error(mut self, policy: OnError) -> Self {
        self.settings.on_error = policy;
        self
    }

    /// How many requests are under way at one time.
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// Longest time without a single success while the service asks to wait; 15 minutes unless set.
    pub fn max_wait(mut self, limit: Duration) -> Self {
        self.settings.max_wait = limit;
        self
    }

    /// Makes ids for rows without one, from this salt, the row's content and its position: the same in every run.
    pub fn generate_ids(mut self, salt: impl Into<String>) -> Self {
        self.settings.salt = Some(salt.into());
        self
    }

    /// How many faults the report keeps; 100 unless set.
    pub fn keep_faults(mut self, faults: usize) -> Self {
        self.settings.kept_faults = faults;
        self
    }

    /// Reads and judges every row. Nothing is sent.
    pub async fn check(self) -> Result<Checked, ImportError> {
        let (source, salt) = (Arc::clone(&self.source), self.settings.salt.clone());
        let kept = self.settings.kept_faults;
        let found = blocking(move || survey::survey(&*source, salt.as_deref(), kept)).await;
        let (report, survey) = found.map_err(ImportError::Source)?;
        Ok(Checked { import: self, report, survey })
    }

    /// [`BulkImport::check`], then [`Checked::start`].
    pub async fn start(self) -> Result<BulkRun, ImportError> {
        self.check().await?.start().await
    }
}

/// An import whose rows have been read and judged.
pub struct Checked {
    import: BulkImport,
    report: Report,
    survey: Survey,
}

impl Checked {
    /// What was found.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Reads the source again and gives every fault in line order. Blocks while it reads.
    pub fn each_fault(&self, mut each: impl FnMut(&RowFault)) -> Result<(), SourceError> {
        let salt = self.import.settings.salt.as_deref();
        survey::each_fault(&*self.import.source, salt, &self.survey, &mut each)
    }

    /// Begins or resumes sending. Fails with [`ImportError::Invalid`] if a row is invalid, unless such rows are to be
    /// left out ([`OnError::Continue`]).
    pub async fn start(self) -> Result<BulkRun, ImportError> {
        let Self { import, report, survey } = self;
        if report.invalid > 0 && import.settings.on_error == OnError::Stop {
            return Err(ImportError::Invalid(Box::new(report)));
        }
        let (opened, past) = import.open_journal(report.rows).await?;
        let numbers = Arc::new(AtomicU64::new(past.next_batch()));
        // What is planned and not yet written down; the driver holds as many again as may be sent at one time.
        let (planned_in, planned) = mpsc::channel(2);
        let planner = Planner {
            source: Arc::clone(&import.source),
            salt: import.settings.salt.clone(),
            survey,
            past,
            rows: report.rows,
            numbers: Arc::clone(&numbers),
        };
        tokio::task::spawn_blocking(move || planner.run(&planned_in));
        let (outcomes_in, outcomes) = mpsc::channel(4);
        let (stop_in, stop) = watch::channel(false);
        let counts = Counts { rows: report.rows, ..Counts::default() };
        let position = Position { counts, ..Position::default() };
        let summary = Summary { run: opened.run, counts, elapsed: Duration::ZERO, stopped: None };
        let shared = Arc::new(Shared { summary: Mutex::new(summary), progress: watch::Sender::new(position) });
        let driver = Driver::new(Start {
            client: import.client,
            settings: import.settings,
            journal: import.journal,
            numbers,
            planned,
            outcomes: outcomes_in,
            stop,
            shared: Arc::clone(&shared),
        });
        let task = Some(tokio::spawn(driver.run()));
        Ok(BulkRun {
            shared,
            stop: Arc::new(stop_in),
            outcomes,
            chunk: Vec::new().into_iter(),
            task,
            resumed: opened.resumed,
        })
    }
}

impl BulkImport {
    async fn open_journal(&self, rows: u64) -> Result<(Opened, Past), ImportError> {
        let Some(journal) = self.journal.clone() else {
            // The name is part of each request's key, so it must not repeat.
            let name = self.client.inner().shared.random(deeplink_core::link::generate_id);
            return Ok((Opened::new(format!("unkept-{name}"), false), Past::default()));
        };
        let (source, salt) = (Arc::clone(&self.source), self.settings.salt.clone());
        let origin = self.client.base_url().as_str().trim_end_matches('/').to_owned();
        let (opened, past) = blocking(move || {
            let mut digest = Sha256::new();
            digest.update(source.digest().map_err(ImportError::Source)?);
            digest.update(salt.as_deref().map_or_else(String::new, |salt| format!("ids:{salt}")));
            let digest = batch::hex(&digest.finalize());
            let plan = RunPlan { source: source.name(), digest, origin, rows };
            let opened = journal.open(&plan).map_err(ImportError::Journal)?;
            let past = if opened.resumed {
                Past::read(&*journal, salt.is_some()).map_err(ImportError::Journal)?
            } else {
                Past::default()
            };
            Ok((opened, past))
        })
        .await?;
        if let Some(link_id) = past.sample() {
            self.check_account(&opened.run, link_id).await?;
        }
        Ok((opened, past))
    }

    /// A link that this run has made must be there: else the credential is another account's.
    async fn check_account(&self, run: &str, link_id: &str) -> Result<(), ImportError> {
        match self.client.links().get(link_id).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Kind::NotFound => {
                let (run, link_id) = (run.to_owned(), link_id.to_owned());
                Err(ImportError::Journal(JournalError::OtherAccount { run, link_id }))
            }
            Err(error) => Err(ImportError::Service(error)),
        }
    }
}

/// Runs what blocks where it may; a panic goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

/// An import under way: a stream of what becomes of each row, in the order in which it becomes known. Not polling it
/// stops dispatch; dropping it ends the run there, and the journal resumes it.
#[must_use = "streams do nothing unless polled"]
pub struct BulkRun {
    shared: Arc<Shared>,
    stop: Arc<watch::Sender<bool>>,
    outcomes: mpsc::Receiver<Vec<RowOutcome>>,
    chunk: std::vec::IntoIter<RowOutcome>,
    task: Option<JoinHandle<()>>,
    resumed: bool,
}

impl BulkRun {
    /// The run's name in the journal.
    pub fn run(&self) -> String {
        self.summary().run
    }

    /// Whether this goes on with a run that was begun before.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Follows counts and pauses.
    pub fn progress(&self) -> ProgressWatch {
        ProgressWatch(self.shared.progress.subscribe())
    }

    /// Sends nothing more; the stream ends when what is under way has ended, in at most 10 s.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// How to stop the run while something else polls it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// How the run ended; before its end, how it stands.
    pub fn summary(&self) -> Summary {
        self.shared.summary.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for BulkRun {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl fmt::Debug for BulkRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkRun").field("summary", &self.summary()).finish_non_exhaustive()
    }
}

/// Stops a run from elsewhere, such as from a signal handler.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<watch::Sender<bool>>);

impl Stopper {
    /// As [`BulkRun::stop`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stream for BulkRun {
    type Item = RowOutcome;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(outcome) = this.chunk.next() {
                return Poll::Ready(Some(outcome));
            }
            match this.outcomes.poll_recv(context) {
                Poll::Ready(Some(chunk)) => this.chunk = chunk.into_iter(),
                Poll::Ready(None) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        // The summary is whole when the task has ended.
        let Some(task) = &mut this.task else { return Poll::Ready(None) };
        let Poll::Ready(ended) = Pin::new(task).poll(context) else { return Poll::Pending };
        this.task = None;
        match ended {
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            _ => Poll::Ready(None),
        }
    }
}
