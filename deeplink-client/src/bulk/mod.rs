//! Bulk import: any number of rows, checked before anything is sent, sent in batches, and journaled so that a run can
//! be stopped at any point and resumed, with each row in the account exactly once.

mod batch;
mod conflict;
mod drive;
#[cfg(feature = "bulk-files")]
mod files;
mod import;
mod journal;
mod judge;
mod memory;
mod outcome;
mod pace;
mod past;
mod plan;
mod private;
mod react;
mod run;
mod source;
mod survey;
mod template;
#[cfg(test)]
mod tests;
mod wal;

use std::fmt;

#[cfg(feature = "bulk-files")]
pub use files::{
    FileOptions, FileSource, ForeignHost, ForeignNotes, Format, LinkWriter, MarkedRows, Provider, RejectsWriter,
    ResultsWriter,
};
pub use import::{BulkImport, Checked};
pub use journal::{
    Done, Entry, Finished, Form, Intent, Journal, JournalError, Opened, RowSet, RunInfo, RunPlan, Settled,
};
pub use memory::MemorySource;
pub use outcome::{Counts, Progress, ProgressWatch, RowOutcome, RowResult, Stopped, Summary};
pub use run::{BulkRun, Stopper};
pub use source::{Row, RowFault, RowSource, Rows, SourceError, SourceRow};
pub use wal::FileJournal;

pub use crate::content::{Difference, differences};

use crate::error::Error;
use import::Settings;

/// What happens to a row whose ID is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// Rows with the same content count as existed; others are rejected.
    #[default]
    Verify,
    /// It is rejected.
    Fail,
    /// It is skipped.
    Skip,
    /// The link gets the row's content.
    Update,
}

/// How a rejected row affects the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnError {
    /// Nothing more is sent. An invalid row stops the run before it begins.
    #[default]
    Stop,
    /// The valid rows are sent.
    Continue,
}

/// Maximum concurrent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Concurrency {
    /// Starts at 4, rises to 16 while requests succeed, and falls to 1 when they do not.
    #[default]
    Auto,
    /// This number.
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
    /// The service rejected the request that checks the account.
    Service(Error),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Invalid(report) => {
                write!(f, "{} of {} rows are invalid; nothing was sent", report.invalid, report.rows)
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

/// The findings of the first pass, which sends nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// All rows.
    pub rows: u64,
    /// Rows that cannot be sent.
    pub invalid: u64,
    /// The first of them, in line order; [`Checked::each_fault`] reports all.
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
    /// Rows of smaller groups, which are sent together, or one by one if the service does not support that.
    pub other_rows: u64,
    /// Requests for them.
    pub other_requests: u64,
}
