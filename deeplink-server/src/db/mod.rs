//! The database: one set of SQL texts for SQLite and PostgreSQL, a pool of readers and one door for writes.
//!
//! Nothing outside this folder names a driver. A query function takes `&mut Conn` and serves a read as well as a step
//! of a write. The invariant: every change goes through `Db::write`, which answers only after COMMIT returned.

mod checkpoint;
mod error;
mod open;
mod report;
mod rows;
mod sets;
mod writer;

pub(crate) mod accounts;
pub(crate) mod acme;
pub(crate) mod affiliates;
pub(crate) mod apps;
pub(crate) mod certificates;
pub(crate) mod clicks;
pub(crate) mod conversions;
pub(crate) mod credits;
pub(crate) mod deliveries;
pub(crate) mod delivery_log;
pub(crate) mod domain_proofs;
pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod expired;
pub(crate) mod funnel;
pub(crate) mod hosts;
pub(crate) mod inspect;
pub(crate) mod installs;
pub(crate) mod key_requests;
pub(crate) mod keys;
pub(crate) mod leases;
pub(crate) mod link_expiry;
pub(crate) mod link_status;
pub(crate) mod links;
pub(crate) mod mail_allowances;
pub(crate) mod mails;
pub(crate) mod notices;
pub(crate) mod oauth_states;
pub(crate) mod people;
pub(crate) mod publishable_keys;
pub(crate) mod replies;
pub(crate) mod sessions;
pub(crate) mod sign_ins;
pub(crate) mod sources;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod users;
pub(crate) mod vault_check;
pub(crate) mod webhooks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::Semaphore;

pub use error::DbError;
pub use open::{Access, OpenError, backup, restore};
pub(crate) use writer::{DriverError, Foreign, Job, Lane, Ran, SqliteConn, Statement};

/// Writes that may wait for PostgreSQL at one time; on SQLite the writer's queue has its own bound.
const MAX_WAITING_WRITES: usize = 4_096;

/// The open database; cheap to clone.
#[derive(Clone)]
pub struct Db(Arc<Kind>);

/// Which database is open; chosen once, by the URL's scheme.
enum Kind {
    Sqlite {
        readers: SqlitePool,
        reports: Arc<Semaphore>,
        writer: writer::Writer,
        _lock: Option<open::Lock>,
    },
    Postgres {
        readers: PgPool,
        reports: Arc<Semaphore>,
        writers: PgPool,
        waiting: Semaphore,
        /// How long a write may take until its COMMIT; on SQLite the writer's queue has a deadline of its own.
        patience: Duration,
        url: String,
    },
}

/// One connection, as every query function sees it.
pub enum Conn<'c> {
    /// An embedded database file.
    Sqlite(&'c mut SqliteConnection),
    /// A server shared by several nodes.
    Postgres(&'c mut PgConnection),
}

/// Pastes one body into an arm per driver. Nothing outside `db/` names a driver.
macro_rules! on {
    ($conn:expr, $c:ident => $body:expr) => {
        match $conn {
            $crate::db::Conn::Sqlite($c) => {
                let $c = &mut **$c;
                $body
            }
            $crate::db::Conn::Postgres($c) => {
                let $c = &mut **$c;
                $body
            }
        }
    };
}
pub(crate) use on;

/// An error that a write can end with, so that the door can tell a deadlock, which it retries, from a refusal.
pub trait WriteError: From<DbError> + Send + 'static {
    /// The database's part in it, if it has one.
    fn database(&self) -> Option<&DbError>;
}

impl WriteError for DbError {
    fn database(&self) -> Option<&DbError> {
        Some(self)
    }
}

/// A pooled connection that only reads.
pub(crate) enum Reader {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Reader {
    /// The connection, for query functions.
    pub(crate) fn conn(&mut self) -> Conn<'_> {
        match self {
            Self::Sqlite(conn) => Conn::Sqlite(conn),
            Self::Postgres(conn) => Conn::Postgres(conn),
        }
    }
}

impl Db {
    /// A connection for reading. It refuses writes.
    pub(crate) async fn read(&self) -> Result<Reader, DbError> {
        Ok(match &*self.0 {
            Kind::Sqlite { readers, .. } => Reader::Sqlite(readers.acquire().await.map_err(DbError::before_work)?),
            Kind::Postgres { readers, .. } => Reader::Postgres(readers.acquire().await.map_err(DbError::before_work)?),
        })
    }

    /// Runs `work` in a transaction and gives its result once that is committed. When `work` refuses, nothing of it
    /// stays. An accepted write runs to its end even when the caller has gone. Inside there is only SQL: no network,
    /// no sleep, and never another `write`. On PostgreSQL `work` runs again after a deadlock, hence `Fn`.
    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: WriteError,
        F: for<'c> Fn(Conn<'c>) -> BoxFuture<'c, Result<T, E>> + Send + Sync + 'static,
    {
        match &*self.0 {
            Kind::Sqlite { writer, .. } => writer.write(work).await,
            Kind::Postgres { writers, waiting, patience, .. } => {
                let _place = waiting.try_acquire().map_err(|_| DbError::Overloaded)?;
                // Spawned, because a `begin()` or a job dropped midway would hand an open transaction to the next
                // borrower of the connection (launchbadge/sqlx: dropped begin futures).
                let last_word = Arc::new(LastWord::default());
                let mut running = tokio::spawn(write_postgres(writers.clone(), work, Arc::clone(&last_word)));
                let ended = match tokio::time::timeout(*patience, &mut running).await {
                    // It waits for a connection or a lock, and nothing of it stays.
                    Err(_) if last_word.take() => return Err(DbError::Overloaded.into()),
                    Err(_) => running.await,
                    Ok(ended) => ended,
                };
                ended.unwrap_or_else(|_| Err(DbError::Panicked.into()))
            }
        }
    }

    /// Whether the database is SQLite.
    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(&*self.0, Kind::Sqlite { .. })
    }

    /// The URL to open a connection outside the pool, for listening.
    pub(crate) fn postgres_url(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Sqlite { .. } => None,
            Kind::Postgres { url, .. } => Some(url),
        }
    }

    /// Hands the writer the place where clicks gather. On PostgreSQL the clicks have a task of their own.
    pub(crate) fn attach_lane(&self, lane: Arc<dyn Lane>) -> bool {
        match &*self.0 {
            Kind::Sqlite { writer, .. } => {
                writer.attach(lane);
                true
            }
            Kind::Postgres { .. } => false,
        }
    }

    /// Runs one click batch on PostgreSQL, where the commit need not wait for the disk.
    pub(crate) async fn write_relaxed(&self, job: Box<dyn Job>) {
        if let Kind::Postgres { writers, .. } = &*self.0 {
            let writers = writers.clone();
            // Spawned for the reason given in `write`; the batch answers its own clicks.
            drop(tokio::spawn(writer::run_on_postgres(writers, job)).await);
        }
    }

    /// Resolves when a sync failed: what was acknowledged may not be on disk, so the process must end.
    pub(crate) async fn failed(&self) {
        match &*self.0 {
            Kind::Sqlite { writer, .. } => writer.failed().await,
            Kind::Postgres { .. } => std::future::pending().await,
        }
    }

    /// Counts commits by other processes on the SQLite file; a change means that caches are stale.
    pub(crate) fn foreign_commits(&self) -> Option<tokio::sync::watch::Receiver<Foreign>> {
        match &*self.0 {
            Kind::Sqlite { writer, .. } => Some(writer.foreign_commits()),
            Kind::Postgres { .. } => None,
        }
    }

    /// Ends the writer after what is queued and closes every connection.
    pub async fn close(&self) {
        match &*self.0 {
            Kind::Sqlite { readers, writer, .. } => {
                writer.close().await;
                readers.close().await;
            }
            Kind::Postgres { readers, writers, .. } => {
                writers.close().await;
                readers.close().await;
            }
        }
    }
}

/// The last word on a write. The transaction that is about to commit and the caller that has waited enough both reach
/// for it, and one gets it.
#[derive(Debug, Default)]
struct LastWord(AtomicBool);

impl LastWord {
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

async fn write_postgres<T, E, F>(writers: PgPool, work: F, last_word: Arc<LastWord>) -> Result<T, E>
where
    T: Send + 'static,
    E: WriteError,
    F: for<'c> Fn(Conn<'c>) -> BoxFuture<'c, Result<T, E>> + Send + Sync + 'static,
{
    const TRIES: usize = 3;
    let mut tried = 0;
    loop {
        tried += 1;
        let mut tx = writer::begin(&writers).await?;
        match work(Conn::Postgres(&mut tx)).await {
            Ok(value) => {
                if !last_word.take() {
                    drop(tx.rollback().await);
                    return Err(DbError::Overloaded.into());
                }
                return match tx.commit().await {
                    Ok(()) => Ok(value),
                    Err(error) => Err(DbError::commit(error).into()),
                };
            }
            Err(refusal) => {
                let again = tried < TRIES && refusal.database().is_some_and(DbError::is_deadlock);
                if let Err(error) = tx.rollback().await {
                    tracing::warn!(%error, "a rollback failed; the connection is dropped");
                }
                if !again {
                    return Err(refusal);
                }
            }
        }
    }
}

#[cfg(test)]
mod certifying;
#[cfg(test)]
mod cut_writes;

#[cfg(test)]
mod panicking;
#[cfg(test)]
pub(crate) mod tests;
