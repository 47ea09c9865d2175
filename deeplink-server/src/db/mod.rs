//! The database: one set of SQL texts for SQLite and PostgreSQL, a pool of read connections and one entry point for writes.
//!
//! Nothing outside this folder names a driver. A query function takes `&mut Conn` and serves a read as well as a step
//! of a write. The invariant: every change goes through `Db::write`, which answers only after COMMIT returned.

mod checkpoint;
mod error;
mod jobs;
mod open;
mod queue;
mod readers;
mod report;
mod rows;
mod sets;
mod upsert;
mod writer;

pub(crate) mod account;
pub(crate) mod account_list;
pub(crate) mod accounts;
pub(crate) mod acme;
pub(crate) mod affiliates;
pub(crate) mod aliases;
pub(crate) mod apps;
pub(crate) mod audit;
pub(crate) mod billing;
pub(crate) mod certificates;
pub(crate) mod clicks;
pub(crate) mod conversions;
pub(crate) mod credits;
pub(crate) mod deliveries;
pub(crate) mod delivery_log;
pub(crate) mod domain_proofs;
pub(crate) mod domains;
pub(crate) mod erasure;
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
pub(crate) mod link_history;
pub(crate) mod link_list;
pub(crate) mod link_search;
pub(crate) mod link_status;
pub(crate) mod links;
pub(crate) mod mail_allowances;
pub(crate) mod mails;
pub(crate) mod notices;
pub(crate) mod oauth_states;
pub(crate) mod one_time_links;
pub(crate) mod pages;
pub(crate) mod payments;
pub(crate) mod people;
pub(crate) mod public_url;
pub(crate) mod publishable_keys;
pub(crate) mod qr_logos;
pub(crate) mod replies;
pub(crate) mod sealed;
pub(crate) mod sessions;
pub(crate) mod sign_ins;
pub(crate) mod sources;
pub(crate) mod suspensions;
pub(crate) mod tags;
pub(crate) mod takedowns;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod users;
pub(crate) mod vault_check;
pub(crate) mod visited;
pub(crate) mod wallets;
pub(crate) mod webhooks;
pub(crate) mod whoami;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deeplink_core::patch::Patch;
use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::shares::limit::ShareLimit;
use crate::shares::{Share, Turn};

pub use error::DbError;
use jobs::job;
pub use open::{Access, OpenError, backup, restore};
use readers::Readers;
pub(crate) use writer::ForeignCommits;

/// The log target of PostgreSQL's notices.
pub(crate) const NOTICES: &str = "sqlx::postgres::notice";

/// How long closing the connections to PostgreSQL may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Maximum pending writes of one share, for each kind: single rows or batches, its own or restricted ones.
const MAX_WAITING_WRITES: usize = 256;

/// The open database; cheap to clone.
#[derive(Clone)]
pub struct Db {
    kind: Arc<Kind>,
    /// The number of lookups for visits and credentials.
    lookups: Arc<AtomicU64>,
}

/// Which database is open; chosen once, by the URL's scheme.
enum Kind {
    Sqlite {
        readers: Readers<Sqlite>,
        /// For visits and credentials alone.
        lookups: Readers<Sqlite>,
        reports: Arc<Semaphore>,
        writer: writer::Writer,
        _lock: Option<open::Lock>,
    },
    Postgres {
        readers: Readers<Postgres>,
        /// For visits and credentials alone.
        lookups: Readers<Postgres>,
        reports: Arc<Semaphore>,
        writers: PgPool,
        /// The permits to use them: as many as there are connections.
        places: Arc<ShareLimit>,
        /// How long a write may take until its COMMIT; on SQLite the writer's queue has its own deadline.
        commit_timeout: Duration,
        /// Time after which a connection without an answer is considered lost.
        answer_timeout: Duration,
        url: String,
    },
}

/// A connection, as query functions take it.
pub enum Conn<'c> {
    /// An embedded database file.
    Sqlite(&'c mut SqliteConnection),
    /// A server shared by several nodes.
    Postgres(&'c mut PgConnection),
}

impl Conn<'_> {
    /// The same connection, borrowed for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Conn<'_> {
        match self {
            Self::Sqlite(conn) => Conn::Sqlite(conn),
            Self::Postgres(conn) => Conn::Postgres(conn),
        }
    }
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

/// Executes one statement, `execute!(db, SQL; first, second)`, and returns the number of rows changed.
macro_rules! execute {
    ($conn:expr, $sql:expr $(; $($value:expr),+)?) => {
        $crate::db::on!($conn, c => {
            sqlx::query($sql)$($(.bind($value))+)?.execute(c).await.map(|done| done.rows_affected())
        })
    };
}
pub(crate) use execute;

/// Whether an update sets a column, and to what, for `CASE WHEN $1 THEN $2 ELSE … END`.
fn assignment(patch: &Patch<String>) -> (bool, Option<&str>) {
    match patch {
        Patch::Keep => (false, None),
        Patch::Clear => (true, None),
        Patch::Set(value) => (true, Some(value)),
    }
}

/// An error of a write. Lets `Db::write` tell a deadlock, which it retries, from a refusal.
pub trait WriteError: From<DbError> + Send + 'static {
    /// The database error, if it is one.
    fn database(&self) -> Option<&DbError>;
}

impl WriteError for DbError {
    fn database(&self) -> Option<&DbError> {
        Some(self)
    }
}

/// The work of a write, with the bounds that its task needs.
pub(crate) trait WriteWork<C, T, E>:
    for<'c> Fn(&'c mut Conn<'c>, &'c C) -> BoxFuture<'c, Result<T, E>> + Send + Sync + 'static
{
}

impl<C, T, E, F> WriteWork<C, T, E> for F where
    F: for<'c> Fn(&'c mut Conn<'c>, &'c C) -> BoxFuture<'c, Result<T, E>> + Send + Sync + 'static
{
}

/// A pooled read-only connection.
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
    fn new(kind: Kind) -> Self {
        Self { kind: Arc::new(kind), lookups: Arc::default() }
    }

    /// A connection for reading. It refuses writes.
    pub(crate) async fn read(&self) -> Result<Reader, DbError> {
        match &*self.kind {
            Kind::Sqlite { readers, .. } => readers.acquire().await.map(Reader::Sqlite),
            Kind::Postgres { readers, .. } => readers.acquire().await.map(Reader::Postgres),
        }
    }

    /// Every connection for reading.
    pub(crate) async fn read_all(&self) -> Result<Vec<Reader>, DbError> {
        let most = match &*self.kind {
            Kind::Sqlite { readers, .. } => readers.most(),
            Kind::Postgres { readers, .. } => readers.most(),
        };
        let mut all = Vec::new();
        for _ in 0..most {
            all.push(self.read().await?);
        }
        Ok(all)
    }

    /// The same for a visit or a credential: one row by its key. Nothing else uses these connections, so other reads
    /// never block visits or authentication.
    pub(crate) async fn look_up(&self) -> Result<Reader, DbError> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        match &*self.kind {
            Kind::Sqlite { lookups, .. } => lookups.acquire().await.map(Reader::Sqlite),
            Kind::Postgres { lookups, .. } => lookups.acquire().await.map(Reader::Postgres),
        }
    }

    /// The number of lookups for visits and credentials.
    pub(crate) fn looked_up(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Runs `work` in a transaction and returns its result once that is committed. If `work` refuses, nothing is
    /// stored. A write that has begun completes even if the caller is gone. `work` runs only SQL: no network, no sleep, and
    /// never another `write`. On PostgreSQL it runs again after a deadlock: hence `Fn`, and a `context` that it
    /// borrows. A write that exceeds its share, or cannot begin in time, is refused and does not run.
    pub(crate) async fn write<C, T, E, F>(&self, turn: impl Into<Turn>, context: C, work: F) -> Result<T, E>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        E: WriteError,
        F: WriteWork<C, T, E>,
    {
        self.write_then(turn, context, work, |_, _| ()).await
    }

    /// The same, with a callback to run after COMMIT, such as dropping a cached row. The task that commits runs it
    /// before it answers, whether or not the caller still waits. It must be short: on SQLite other writes wait for it.
    pub(crate) async fn write_then<C, T, E, F, A>(
        &self,
        turn: impl Into<Turn>,
        context: C,
        work: F,
        committed: A,
    ) -> Result<T, E>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        E: WriteError,
        F: WriteWork<C, T, E>,
        A: FnOnce(&C, &T) + Send + 'static,
    {
        match &*self.kind {
            Kind::Sqlite { writer, .. } => writer.write(turn.into(), context, work, committed).await,
            Kind::Postgres { writers, places, commit_timeout, answer_timeout, .. } => {
                let (turn, limit) = (turn.into(), *answer_timeout);
                let share = turn.share.clone();
                let place = places.acquire(turn, MAX_WAITING_WRITES).ok_or_else(|| used_up(&share))?;
                let place = timeout(*commit_timeout, place).await.map_err(|_| overdue(places, &share))?;
                // The work has its own time, so that what has waited long is not begun in vain.
                let until = Instant::now() + *commit_timeout;
                let race = Arc::new(CommitRace::default());
                let (writers, task_race) = (writers.clone(), Arc::clone(&race));
                // Spawned, because a `begin()` or a job dropped midway would hand an open transaction to the next
                // borrower of the connection (launchbadge/sqlx: dropped begin futures).
                let mut running = tokio::spawn(async move {
                    let _place = place;
                    let value = write_postgres(&writers, &context, work, &task_race, limit).await?;
                    run_committed(committed, &context, &value)?;
                    Ok(value)
                });
                let ended = match timeout_at(until, &mut running).await {
                    // It still waits for a permit, a connection or a lock, and is rolled back.
                    Err(_) if race.take() => return Err(overdue(places, &share).into()),
                    Err(_) => running.await,
                    Ok(ended) => ended,
                };
                ended.unwrap_or_else(|_| Err(DbError::Panicked.into()))
            }
        }
    }

    /// Whether the database is SQLite.
    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(&*self.kind, Kind::Sqlite { .. })
    }

    /// The URL to open a connection outside the pool, for notifications.
    pub(crate) fn postgres_url(&self) -> Option<&str> {
        match &*self.kind {
            Kind::Sqlite { .. } => None,
            Kind::Postgres { url, .. } => Some(url),
        }
    }

    /// Runs `work` in a transaction of its own and returns its result once that is committed, if not yet on the disk: a power
    /// failure may undo it. For what can be done again: clicks from the journal, and results of deliveries.
    pub(crate) async fn write_relaxed<C, T, F>(&self, share: Share, context: C, work: F) -> Result<T, DbError>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        F: WriteWork<C, T, DbError>,
    {
        let (job, answer) = job(context, work, |_, _| ());
        match &*self.kind {
            Kind::Sqlite { writer, .. } => writer.push_relaxed(job),
            Kind::Postgres { writers, places, commit_timeout, answer_timeout, .. } => {
                let (until, limit) = (Instant::now() + *commit_timeout, *answer_timeout);
                let place = places.acquire(share.into(), MAX_WAITING_WRITES).ok_or(DbError::Overloaded)?;
                let writers = writers.clone();
                // Spawned for the reason given in `write_then`; the job reports its own outcome.
                tokio::spawn(async move {
                    match timeout_at(until, place).await {
                        Ok(_place) => jobs::run_on_postgres(writers, job, limit).await,
                        Err(_) => job.answer(Err(DbError::Overloaded)),
                    }
                });
            }
        }
        answer.await.unwrap_or_else(|_| Err(DbError::Unknown("the writer ended".into())))
    }

    /// Resolves when a sync failed: acknowledged writes may not be on disk, so the process must stop.
    pub(crate) async fn failed(&self) {
        match &*self.kind {
            Kind::Sqlite { writer, .. } => writer.failed().await,
            Kind::Postgres { .. } => std::future::pending().await,
        }
    }

    /// Counts commits by other processes on the SQLite file; a change means that caches are stale.
    pub(crate) fn foreign_commits(&self) -> Option<tokio::sync::watch::Receiver<ForeignCommits>> {
        match &*self.kind {
            Kind::Sqlite { writer, .. } => Some(writer.foreign_commits()),
            Kind::Postgres { .. } => None,
        }
    }

    /// Stops the writer after its queue and closes all connections. On PostgreSQL, connections that do not answer are left.
    pub async fn close(&self) {
        match &*self.kind {
            Kind::Sqlite { readers, lookups, writer, .. } => {
                writer.close().await;
                lookups.close().await;
                readers.close().await;
            }
            Kind::Postgres { readers, lookups, writers, .. } => {
                let closed = futures_util::future::join3(writers.close(), lookups.close(), readers.close());
                drop(timeout(CLOSE_LIMIT, closed).await);
            }
        }
    }
}

/// The refusal of a write whose share is used up.
fn used_up(share: &Share) -> DbError {
    if share.is_the_callers() { DbError::ShareUsedUp } else { DbError::Overloaded }
}

/// The refusal of a write that was not begun or did not end in time.
fn overdue(places: &ShareLimit, share: &Share) -> DbError {
    if places.is_used_up(share) { used_up(share) } else { DbError::Overloaded }
}

/// Runs the callback after a commit. A panic there undoes nothing.
fn run_committed<C, T>(committed: impl FnOnce(&C, &T), context: &C, value: &T) -> Result<(), DbError> {
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| committed(context, value)));
    ran.map_err(|_| DbError::Unknown("the callback after a commit panicked".into()))
}

/// Decides a race: either the transaction commits, or its caller times out and it is rolled back. The first to take it wins.
#[derive(Debug, Default)]
struct CommitRace(AtomicBool);

impl CommitRace {
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

async fn write_postgres<C, T, E, F>(
    writers: &PgPool,
    context: &C,
    work: F,
    race: &CommitRace,
    limit: Duration,
) -> Result<T, E>
where
    E: WriteError,
    F: WriteWork<C, T, E>,
{
    const TRIES: usize = 3;
    let mut tried = 0;
    loop {
        tried += 1;
        let mut conn = writers.acquire().await.map_err(DbError::before_work)?;
        let outcome = jobs::answered(&mut conn, limit, async |conn| attempt(conn, context, &work, race).await).await;
        match outcome {
            Err(refusal) if tried < TRIES && refusal.database().is_some_and(DbError::is_deadlock) => {}
            ended => return ended,
        }
    }
}

async fn attempt<C, T, E, F>(conn: &mut PgConnection, context: &C, work: &F, race: &CommitRace) -> Result<T, E>
where
    E: WriteError,
    F: WriteWork<C, T, E>,
{
    let mut tx = jobs::begin(conn).await?;
    match work(&mut Conn::Postgres(&mut tx), context).await {
        Ok(value) if race.take() => {
            tx.commit().await.map_err(DbError::commit)?;
            Ok(value)
        }
        Ok(_) => {
            drop(tx.rollback().await);
            Err(DbError::Overloaded.into())
        }
        Err(refusal) => {
            if let Err(error) = tx.rollback().await {
                tracing::warn!(%error, "rollback failed; connection dropped");
            }
            Err(refusal)
        }
    }
}

#[cfg(test)]
mod certifying;
#[cfg(test)]
mod cut_writes;
#[cfg(test)]
mod migrating;
#[cfg(test)]
mod panicking;
#[cfg(test)]
mod resealing;
#[cfg(test)]
mod sharing;
#[cfg(test)]
pub(crate) mod tests;
