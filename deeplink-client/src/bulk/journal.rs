//! The journal of a run, so that it can be resumed: intents before sending, and results.

use std::error::Error as StdError;
use std::fmt;

use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::outcome::Counts;
use crate::transport::BoxFuture;

/// Stores the intents and results of a run. [`super::FileJournal`] keeps them in a directory.
pub trait Journal: Send + Sync + 'static {
    /// Begins or resumes the run that `plan` describes. May block.
    fn open(&self, plan: &RunPlan) -> Result<Opened, JournalError>;

    /// Passes every entry of the run so far to `each`, oldest first. May block.
    fn replay(&self, each: &mut dyn FnMut(Entry)) -> Result<(), JournalError>;

    /// Appends an entry. It is accepted immediately, even if the future is dropped; the future resolves when the entry is
    /// durable.
    fn append(&self, entry: Entry) -> BoxFuture<'static, Result<(), JournalError>>;
}

/// The input and the destination of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunPlan {
    /// The source's name.
    pub source: String,
    /// SHA-256 in hex of the source's content, mapping and template, and of everything else that determines the rows'
    /// ids.
    pub digest: String,
    /// Scheme, host and port of the service.
    pub origin: String,
    /// Rows of the source.
    pub rows: u64,
}

/// A run that was started or resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// The run's name; it is part of each request's key.
    pub run: String,
    /// Whether the run was resumed.
    pub resumed: bool,
}

impl Opened {
    /// A run of this name.
    pub fn new(run: impl Into<String>, resumed: bool) -> Self {
        Self { run: run.into(), resumed }
    }
}

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entry {
    /// A request is about to be sent.
    Intent(Intent),
    /// A response has been received; rows that are not listed were not accepted.
    Done(Done),
    /// The run has ended.
    Finished(Finished),
}

/// A request that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Intent {
    /// The batch's number in the run.
    pub batch: u64,
    /// How many times rows of this batch were sent under another key before.
    #[serde(rename = "try")]
    pub attempt: u32,
    /// The form of the request.
    pub form: Form,
    /// The rows, as positions in the source.
    pub rows: RowSet,
    /// Their ids, in the same order.
    pub ids: Vec<String>,
    /// SHA-256 of the body, in hex.
    pub body: String,
    /// The request's `Idempotency-Key`.
    pub key: String,
    /// When it was journaled.
    pub at: Timestamp,
}

/// The form of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Form {
    /// One template under several ids.
    Template,
    /// Different links.
    Links,
    /// One link.
    Single,
}

/// Rows that are settled. The ids are those of the intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    /// The batch's number.
    pub batch: u64,
    /// Which of its tries.
    #[serde(rename = "try")]
    pub attempt: u32,
    /// The rows, by result.
    pub rows: Vec<(Settled, RowSet)>,
    /// The base of the links' URLs; the ID follows.
    pub base: String,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finished {
    /// The counts.
    pub counts: Counts,
    /// Whether the run is complete.
    pub complete: bool,
}

/// Positions in a source, as ranges of (first, count).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RowSet(Vec<(u64, u64)>);

impl RowSet {
    /// Every position, in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(|(first, number)| *first..first.saturating_add(*number))
    }

    /// The number of positions.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(_, number)| number).sum()
    }

    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<u64> for RowSet {
    fn from_iter<I: IntoIterator<Item = u64>>(rows: I) -> Self {
        let mut set = Self::default();
        for row in rows {
            match set.0.last_mut() {
                Some((first, number)) if *first + *number == row => *number += 1,
                _ => set.0.push((row, 1)),
            }
        }
        set
    }
}

/// The result of a settled row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Settled {
    /// Created.
    Created,
    /// Already existed.
    Existed,
    /// Updated.
    Updated,
    /// Skipped.
    Skipped,
}

/// A run as `imports list` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunInfo {
    /// The run's name.
    pub run: String,
    /// Where its journal is.
    pub dir: std::path::PathBuf,
    /// What it imports.
    pub plan: RunPlan,
    /// The command that started it.
    pub command: String,
    /// When it was started.
    pub started_at: Timestamp,
    /// Rows settled so far, according to the journal.
    pub counts: Counts,
    /// Whether the run is complete.
    pub finished: bool,
    /// Another process is working on it.
    pub locked: bool,
}

/// Why a journal cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum JournalError {
    /// A file or directory cannot be read or written.
    Io {
        /// The file or directory.
        path: std::path::PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// Another process is working on this run.
    Locked {
        /// The run.
        run: String,
    },
    /// The same command was started with different content or another service.
    Changed {
        /// The earlier run.
        run: String,
        /// `content` or `service`.
        what: &'static str,
    },
    /// A link that the run created does not exist: the credential belongs to a different account.
    OtherAccount {
        /// The run.
        run: String,
        /// The link.
        link_id: String,
    },
    /// A journal file is damaged.
    Corrupt {
        /// The file or directory.
        path: std::path::PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The journal was closed.
    Closed,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, .. } => write!(f, "the journal at {} cannot be used", path.display()),
            Self::Locked { run } => write!(f, "another process is working on import {run}"),
            Self::Changed { run, what } => {
                write!(f, "the {what} differs from that of the unfinished import {run}, which this command started")
            }
            Self::OtherAccount { run, link_id } => {
                write!(f, "link {link_id}, created by import {run}, does not exist: this is a different account")
            }
            Self::Corrupt { path, what } => write!(f, "{} is damaged: {what}", path.display()),
            Self::Closed => f.write_str("the journal is closed"),
        }
    }
}

impl StdError for JournalError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
