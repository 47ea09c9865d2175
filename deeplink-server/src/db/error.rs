//! What can go wrong with the database, sorted by what the caller may conclude from it.

use std::borrow::Cow;

/// A failure of the database. Every one but [`DbError::Unknown`] and [`DbError::Query`] means: nothing was applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// Too much work waits.
    #[error("too many writes wait")]
    Overloaded,
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The database cannot be reached, or another process holds it.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// COMMIT did not return: the change may be there or not.
    #[error("the outcome of a commit is unknown: {0}")]
    Unknown(String),
    /// A deadlock or a serialization failure.
    #[error("a transaction lost against another: {0}")]
    Deadlock(String),
    /// A stored value is not what it must be.
    #[error("corrupt row: {table}.{column} of {id}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        id: String,
    },
    /// The job panicked; nothing of it stays.
    #[error("a write panicked")]
    Panicked,
    /// A statement failed for another reason.
    #[error("a statement failed: {0}")]
    Query(#[source] sqlx::Error),
}

impl DbError {
    /// A stored value that cannot be read.
    pub(crate) fn corrupt(table: &'static str, column: &'static str, id: impl Into<String>) -> Self {
        Self::Corrupt { table, column, id: id.into() }
    }

    /// The failure to get a connection or to begin: whatever the reason, nothing was applied.
    pub(crate) fn before_work(error: sqlx::Error) -> Self {
        match Self::from(error) {
            Self::Query(error) => Self::Unavailable(error.to_string()),
            known => known,
        }
    }

    /// The failure of a COMMIT: a full disk and a lock are known not to be applied, all else is unknown.
    pub(crate) fn commit(error: sqlx::Error) -> Self {
        match Self::from(error) {
            known @ (Self::Full | Self::Deadlock(_)) => known,
            other => Self::Unknown(other.to_string()),
        }
    }

    /// The failure to store a row under a position of its own: when two nodes drew the same one, the write begins again and
    /// draws another.
    pub(crate) fn drawn(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(database) if database.is_unique_violation() => Self::Deadlock("a position was drawn twice".into()),
            _ => error.into(),
        }
    }

    /// Whether the same work may succeed when it runs again.
    pub(crate) fn is_deadlock(&self) -> bool {
        matches!(self, Self::Deadlock(_))
    }
}

/// SQLite's primary result codes; the driver gives extended ones, whose low byte is the primary.
mod sqlite {
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const INTERRUPT: u32 = 9;
    pub(super) const IOERR: u32 = 10;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANTOPEN: u32 = 14;

    /// What stands above the primary code in those that concern only the shared index of the log (SHMOPEN to SHMMAP).
    pub(super) const SHARED_INDEX: std::ops::RangeInclusive<u32> = 18..=21;
    /// The same in those of writing and syncing a file (WRITE to TRUNCATE).
    pub(super) const WRITING: std::ops::RangeInclusive<u32> = 3..=6;
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let text = error.to_string();
        match &error {
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => {
                Self::Unavailable(text)
            }
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or(Cow::Borrowed(""));
                match sqlite_primary(&code, database.as_ref()) {
                    Some(sqlite::FULL) => return Self::Full,
                    // The statement took longer than it may.
                    Some(sqlite::INTERRUPT) => return Self::Overloaded,
                    Some(sqlite::BUSY | sqlite::LOCKED | sqlite::IOERR | sqlite::CANTOPEN) => {
                        return Self::Unavailable(text);
                    }
                    Some(_) => return Self::Query(error),
                    None => {}
                }
                match &*code {
                    // deadlock_detected, serialization_failure
                    "40P01" | "40001" => Self::Deadlock(text),
                    // disk_full
                    "53100" => Self::Full,
                    // lock_not_available: the row is held for longer than lock_timeout
                    "55P03" => Self::Overloaded,
                    // connection failures, shutdowns, too many connections, read-only and hot-standby servers,
                    // statement_timeout
                    code if code.starts_with("08")
                        || code.starts_with("57")
                        || matches!(code, "53300" | "25006" | "53200" | "25P03") =>
                    {
                        Self::Unavailable(text)
                    }
                    _ => Self::Query(error),
                }
            }
            _ => Self::Query(error),
        }
    }
}

fn sqlite_primary(code: &str, database: &dyn sqlx::error::DatabaseError) -> Option<u32> {
    database.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

/// Whether SQLite says that the file is in use by somebody else.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    primary(error).is_some_and(|code| matches!(code, sqlite::BUSY | sqlite::LOCKED))
}

/// Whether SQLite could not read, write or sync the file. A full disk is not among them, and neither is an index of the
/// log that cannot grow, as on a full disk: it holds nothing that the log does not.
pub(super) fn is_io(error: &sqlx::Error) -> bool {
    let is_about_index = || extended(error).is_some_and(|code| sqlite::SHARED_INDEX.contains(&(code >> 8)));
    primary(error) == Some(sqlite::IOERR) && !is_about_index()
}

/// Whether SQLite could not write or sync the file, in a statement that is its own COMMIT: one that could not read may be
/// tried again.
pub(super) fn is_unwritten(error: &sqlx::Error) -> bool {
    is_io(error) && extended(error).is_some_and(|code| sqlite::WRITING.contains(&(code >> 8)))
}

fn primary(error: &sqlx::Error) -> Option<u32> {
    let database = error.as_database_error()?;
    sqlite_primary(&database.code()?, database)
}

fn extended(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}
