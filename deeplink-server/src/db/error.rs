//! Database errors, classified by what the caller can conclude from them.

use std::borrow::Cow;

/// A database error. All but [`DbError::Unknown`] and [`DbError::Query`] mean that nothing was applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// Too much pending work.
    #[error("too much pending work")]
    Overloaded,
    /// The caller's account has its maximum of pending writes.
    #[error("the account's share of pending writes is used up")]
    ShareUsedUp,
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The database cannot be reached, or another process has locked it.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// COMMIT did not return: the change may or may not be applied.
    #[error("the outcome of a commit is unknown: {0}")]
    Unknown(String),
    /// A deadlock or a serialization failure.
    #[error("deadlock or serialization failure: {0}")]
    Deadlock(String),
    /// A stored value is invalid.
    #[error("corrupt row: {table}.{column} of {id}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        id: String,
    },
    /// The job panicked and was rolled back.
    #[error("a write panicked")]
    Panicked,
    /// Another error of a statement.
    #[error("a statement failed: {0}")]
    Query(#[source] sqlx::Error),
}

impl DbError {
    /// An invalid stored value.
    pub(crate) fn corrupt(table: &'static str, column: &'static str, id: impl Into<String>) -> Self {
        Self::Corrupt { table, column, id: id.into() }
    }

    /// An error before the work began: whatever the reason, nothing was applied.
    pub(crate) fn before_work(error: sqlx::Error) -> Self {
        match Self::from(error) {
            Self::Query(error) => Self::Unavailable(error.to_string()),
            known => known,
        }
    }

    /// An error of COMMIT: after a full disk or a deadlock nothing was applied, otherwise the outcome is unknown.
    pub(crate) fn commit(error: sqlx::Error) -> Self {
        match Self::from(error) {
            known @ (Self::Full | Self::Deadlock(_)) => known,
            other => Self::Unknown(other.to_string()),
        }
    }

    /// An error on inserting a row with a random position: after a collision the write is retried with another one.
    pub(crate) fn drawn(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(database) if database.is_unique_violation() => Self::Deadlock("random position already taken".into()),
            _ => error.into(),
        }
    }

    /// Whether the work may succeed when retried.
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

    /// The upper bytes of I/O error codes that concern only the WAL index (SHMOPEN to SHMMAP).
    pub(super) const SHARED_INDEX: std::ops::RangeInclusive<u32> = 18..=21;
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
                    // The statement exceeded its time limit.
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

/// Whether the file is locked by another connection.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    primary(error).is_some_and(|code| matches!(code, sqlite::BUSY | sqlite::LOCKED))
}

/// Whether SQLite could not read, write or sync the file. Excludes a full disk, and a WAL index that cannot grow because of
/// one, since the index can be rebuilt from the WAL.
pub(super) fn is_io(error: &sqlx::Error) -> bool {
    let is_about_index = || extended(error).is_some_and(|code| sqlite::SHARED_INDEX.contains(&(code >> 8)));
    primary(error) == Some(sqlite::IOERR) && !is_about_index()
}

fn primary(error: &sqlx::Error) -> Option<u32> {
    let database = error.as_database_error()?;
    sqlite_primary(&database.code()?, database)
}

fn extended(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}
