//! Setting up an import: the caller's options, the first pass, and the start of the second.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};

use super::batch::hex;
use super::drive::{Driver, Shared, Start};
use super::journal::{Journal, JournalError, Opened, RunPlan};
use super::outcome::{Counts, Position, Summary};
use super::pace::Times;
use super::past::Past;
use super::plan::Planner;
use super::run::BulkRun;
use super::source::{RowFault, RowSource, SourceError};
use super::survey::{self, Survey};
use super::wal::FileJournal;
use super::{Concurrency, ImportError, OnConflict, OnError, Report};
use crate::client::Client;
use crate::error::Kind;

/// An import that is being set up; see [`Client::bulk_import`].
#[must_use]
pub struct BulkImport {
    client: Client,
    source: Arc<dyn RowSource>,
    pub(crate) settings: Settings,
    journal: Option<Arc<dyn Journal>>,
}

/// The caller's options.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) on_conflict: OnConflict,
    pub(crate) on_error: OnError,
    pub(crate) concurrency: Concurrency,
    pub(crate) max_wait: Duration,
    pub(crate) salt: Option<String>,
    pub(crate) kept_faults: usize,
    pub(crate) times: Times,
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

    /// What happens to a row whose ID is in use.
    pub fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.settings.on_conflict = policy;
        self
    }

    /// How a rejected row affects the run.
    pub fn on_error(mut self, policy: OnError) -> Self {
        self.settings.on_error = policy;
        self
    }

    /// Maximum concurrent requests.
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.settings.concurrency = concurrency;
        self
    }

    /// Gives up after being rate-limited for this long without a successful request; 15 minutes by default.
    pub fn max_wait(mut self, limit: Duration) -> Self {
        self.settings.max_wait = limit;
        self
    }

    /// Generates IDs for rows without one, from this salt and the row's [key](crate::bulk::Row::key), or else its
    /// content and its position: the same in every run.
    pub fn generate_ids(mut self, salt: impl Into<String>) -> Self {
        self.settings.salt = Some(salt.into());
        self
    }

    /// Maximum number of faults that the report contains; 100 by default.
    pub fn keep_faults(mut self, faults: usize) -> Self {
        self.settings.kept_faults = faults;
        self
    }

    /// Reads and validates every row. Nothing is sent.
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

/// An import whose rows have been read and validated.
pub struct Checked {
    pub(crate) import: BulkImport,
    report: Report,
    survey: Survey,
}

impl Checked {
    /// The findings.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Reads the source again and reports every fault in line order. Blocks while it reads.
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
        // Batches planned but not journaled; besides these, the driver holds as many as may be sent concurrently.
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
        let task = tokio::spawn(driver.run());
        Ok(BulkRun::new(shared, stop_in, outcomes, task, opened.resumed))
    }
}

impl BulkImport {
    async fn open_journal(&self, rows: u64) -> Result<(Opened, Past), ImportError> {
        let Some(journal) = self.journal.clone() else {
            // The name is part of each request's key, so it must not repeat.
            let name = self.client.0.inner().shared.random(deeplink_core::link::generate_id);
            return Ok((Opened::new(format!("unkept-{name}"), false), Past::default()));
        };
        let (source, salt) = (Arc::clone(&self.source), self.settings.salt.clone());
        let origin = self.client.base_url().as_str().trim_end_matches('/').to_owned();
        let (opened, past) = blocking(move || {
            let mut digest = Sha256::new();
            digest.update(source.digest().map_err(ImportError::Source)?);
            digest.update(salt.as_deref().map_or_else(String::new, |salt| format!("ids:{salt}")));
            let digest = hex(&digest.finalize());
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

    /// A link that this run has made must exist: otherwise the credential belongs to another account.
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

/// Runs blocking code on a blocking thread; a panic is propagated.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
