//! Results: of each row, as counts, and why a run ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deeplink_core::error::ErrorCode;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::error::{Error, Kind};

/// The result of one row.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RowOutcome {
    /// The row's line, as the source gave it.
    pub line: u64,
    /// The source's own marker for the row.
    pub at: u64,
    /// The ID in the row, or the one generated for it.
    pub id: Option<String>,
    /// The batch it was sent in; 0 for a row that was never sent.
    pub batch: u64,
    /// What happened.
    pub result: RowResult,
}

/// What happened to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowResult {
    /// The link was created.
    Created {
        /// The short link.
        url: String,
    },
    /// The link already existed with the same content.
    Existed {
        /// The short link.
        url: String,
    },
    /// The link already existed and was updated to the row's content.
    Updated {
        /// The short link.
        url: String,
    },
    /// The ID is in use, and such rows are skipped.
    Skipped,
    /// The row was rejected; nothing was created.
    Rejected {
        /// The reason, as a code.
        code: ErrorCode,
        /// The reason, as a message.
        message: String,
    },
    /// The result is unknown: the service did not respond. Running the import again settles it.
    Unknown {
        /// The last failure.
        message: String,
    },
}

impl RowResult {
    /// One word: `created`, `existed`, `updated`, `skipped`, `rejected`, `unknown`.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::Existed { .. } => "existed",
            Self::Updated { .. } => "updated",
            Self::Skipped => "skipped",
            Self::Rejected { .. } => "rejected",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// The link's URL, if there is a link.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Created { url } | Self::Existed { url } | Self::Updated { url } => Some(url),
            _ => None,
        }
    }
}

/// Counts of a run. They add up to `rows` once the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// All rows of the source.
    pub rows: u64,
    /// Links created.
    pub created: u64,
    /// Links that already existed with the same content.
    pub existed: u64,
    /// Links that were changed.
    pub updated: u64,
    /// Rows skipped because their ID was in use.
    pub skipped: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Rows with an unknown result.
    pub unknown: u64,
    /// Rows that were not sent.
    pub unsent: u64,
    /// Requests that created or changed links.
    pub requests: u64,
    /// Requests that were retried.
    pub retries: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, result: &RowResult) {
        let count = match result {
            RowResult::Created { .. } => &mut self.created,
            RowResult::Existed { .. } => &mut self.existed,
            RowResult::Updated { .. } => &mut self.updated,
            RowResult::Skipped => &mut self.skipped,
            RowResult::Rejected { .. } => &mut self.rejected,
            RowResult::Unknown { .. } => &mut self.unknown,
        };
        *count += 1;
    }

    pub(crate) fn of(&mut self, settled: super::Settled) -> &mut u64 {
        match settled {
            super::Settled::Created => &mut self.created,
            super::Settled::Existed => &mut self.existed,
            super::Settled::Updated => &mut self.updated,
            super::Settled::Skipped => &mut self.skipped,
        }
    }

    /// Rows with a known result.
    pub fn settled(&self) -> u64 {
        self.created + self.existed + self.updated + self.skipped + self.rejected + self.unknown
    }
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// The counts so far.
    pub counts: Counts,
    /// Requests in flight.
    pub in_flight: u32,
    /// Maximum concurrent requests at present.
    pub concurrency: u32,
    /// The remaining wait, if the service asked to wait.
    pub paused: Option<Duration>,
}

/// The progress of a run, with the end of the pause as an instant.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    pub(crate) counts: Counts,
    pub(crate) in_flight: u32,
    pub(crate) concurrency: u32,
    pub(crate) paused_until: Option<Instant>,
}

/// Watches the [`Progress`] of a run from elsewhere.
#[derive(Debug, Clone)]
pub struct ProgressWatch(pub(crate) watch::Receiver<Position>);

impl ProgressWatch {
    /// The progress of the run.
    pub fn get(&self) -> Progress {
        let position = *self.0.borrow();
        let paused = position.paused_until.map(|until| until.saturating_duration_since(Instant::now()));
        Progress {
            counts: position.counts,
            in_flight: position.in_flight,
            concurrency: position.concurrency,
            paused: paused.filter(|left| !left.is_zero()),
        }
    }

    /// Waits for a change; `false` once the run has ended.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// How a run ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Summary {
    /// The run's name in the journal.
    pub run: String,
    /// The counts.
    pub counts: Counts,
    /// How long it took.
    pub elapsed: Duration,
    /// Why it ended before all rows were sent, if it did.
    pub stopped: Option<Stopped>,
}

/// Why a run ended early.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Stopped {
    /// [`crate::bulk::BulkRun::stop`] was called.
    Asked,
    /// A row was rejected, and the run's policy is to stop there.
    RowRejected,
    /// The service rejected the run as a whole: the credential, the plan, or its configuration.
    Refused(Arc<Error>),
    /// The service rate-limited the run for too long.
    RateLimited(Arc<Error>),
    /// The service failed repeatedly.
    Unavailable(Arc<Error>),
    /// The source returned different rows than in the first pass, or could not be read again.
    Source(Arc<super::SourceError>),
    /// The journal cannot be written; nothing is sent without being journaled.
    Journal(Arc<super::JournalError>),
}

impl Stopped {
    /// The service's error, if there was one.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Refused(error) | Self::RateLimited(error) | Self::Unavailable(error) => Some(error),
            _ => None,
        }
    }

    /// The kind of that error.
    pub fn kind(&self) -> Option<Kind> {
        self.error().map(Error::kind)
    }
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asked => f.write_str("stopped on request"),
            Self::RowRejected => f.write_str("a row was rejected"),
            Self::Refused(error) | Self::RateLimited(error) | Self::Unavailable(error) => error.fmt(f),
            Self::Source(error) => error.fmt(f),
            Self::Journal(error) => error.fmt(f),
        }
    }
}
