//! Bulk import: any number of rows, checked before anything is sent, sent in batches, written down so that a run can be
//! stopped anywhere and resumed, with each row in the account once.

#[cfg(feature = "bulk-files")]
mod files;
mod journal;
mod memory;
mod outcome;
mod source;
mod wal;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

#[cfg(feature = "bulk-files")]
pub use files::{FileOptions, FileSource, Format, LinkWriter, RejectsWriter, ResultsWriter};
pub use journal::{Done, DoneRow, Entry, Form, Intent, Journal, JournalError, Opened, RunInfo, RunPlan, Settled};
pub use memory::MemorySource;
pub use outcome::{Counts, Progress, ProgressWatch, RowOutcome, RowResult, Stopped, Summary};
pub use source::{Row, RowFault, RowSource, Rows, SourceError, SourceRow};
pub use wal::FileJournal;

use crate::client::Client;
use crate::error::Error;

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
                max_wait: Duration::from_secs(15 * 60),
                salt: None,
                kept_faults: 100,
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
        Err(ImportError::Source(SourceError::new("in the making")))
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
}

impl Checked {
    /// What was found.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Reads the source again and gives every fault in line order. Blocks while it reads.
    pub fn each_fault(&self, each: impl FnMut(&RowFault)) -> Result<(), SourceError> {
        let _ = (each, &self.import.source);
        Ok(())
    }

    /// Begins or resumes sending. Fails with [`ImportError::Invalid`] if a row is invalid, unless such rows are to be
    /// left out ([`OnError::Continue`]).
    pub async fn start(self) -> Result<BulkRun, ImportError> {
        let _ = (&self.import.client, &self.import.journal, &self.import.settings);
        Err(ImportError::Source(SourceError::new("in the making")))
    }
}

/// An import under way: a stream of what becomes of each row, in the order in which it becomes known. Not polling it
/// stops dispatch; dropping it ends the run there, and the journal resumes it.
#[must_use = "streams do nothing unless polled"]
pub struct BulkRun {
    progress: ProgressWatch,
    summary: Summary,
}

impl BulkRun {
    /// The run's name in the journal.
    pub fn run(&self) -> &str {
        &self.summary.run
    }

    /// Whether this goes on with a run that was begun before.
    pub fn is_resumed(&self) -> bool {
        false
    }

    /// Follows counts and pauses.
    pub fn progress(&self) -> ProgressWatch {
        self.progress.clone()
    }

    /// Sends nothing more; the stream ends when what is under way has ended, in at most 10 s.
    pub fn stop(&self) {}

    /// How to stop the run while something else polls it.
    pub fn stopper(&self) -> Stopper {
        Stopper {}
    }

    /// How the run ended; before its end, how it stands.
    pub fn summary(&self) -> Summary {
        self.summary.clone()
    }
}

/// Stops a run from elsewhere, such as from a signal handler.
#[derive(Debug, Clone)]
pub struct Stopper {}

impl Stopper {
    /// As [`BulkRun::stop`].
    pub fn stop(&self) {}
}

impl Stream for BulkRun {
    type Item = RowOutcome;

    fn poll_next(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(None)
    }
}
