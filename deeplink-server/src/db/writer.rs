//! The SQLite writer: one connection, one task, group commit.
//!
//! It takes what is queued, opens one `BEGIN IMMEDIATE`, runs each job in a savepoint of its own, commits at
//! `synchronous=FULL`, and only then answers. While one batch is synced the next gathers, so durability costs one sync
//! per batch. Clicks come through a lane of their own; a batch of nothing but clicks may commit without waiting for
//! the disk, because the next full commit or checkpoint, at most a second later, syncs it.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, PgPool, Postgres, SqliteConnection, Transaction};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::checkpoint::{self, Log};
use super::error::{is_busy, is_io, is_unwritten};
use super::{Conn, DbError, WriteError};

/// Writes that may wait.
const QUEUE: usize = 4_096;
/// Writes of one transaction.
const BATCH: usize = 64;
/// How long a batch of clicks alone gathers.
const GATHER: Duration = Duration::from_millis(1);
/// How long one attempt to get the file's lock takes; between attempts overdue writes are refused.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// What became of a job inside its transaction.
pub(crate) enum Ran {
    /// It stays.
    Keep,
    /// It is rolled back; the others go on.
    Undo,
    /// It is rolled back because the database failed; if it took the transaction with it, this is why.
    Failed(DbError),
}

/// The writer's connection, and what goes wrong there, as the driver says it.
pub(crate) type SqliteConn = SqliteConnection;
pub(crate) type DriverError = sqlx::Error;

/// Work in one statement.
pub(crate) type Statement<'a> = BoxFuture<'a, Result<bool, DriverError>>;

/// Work for the writer, without its types.
pub(crate) trait Job: Send {
    /// Does the work on the connection. Panics are caught by the writer.
    fn run<'a>(&'a mut self, conn: Conn<'a>) -> BoxFuture<'a, Ran>;
    /// Does the work by one statement, which is its own transaction, if it can. `false`: nothing was to be done.
    fn run_by_statement<'a>(&'a mut self, conn: &'a mut SqliteConn) -> Option<Statement<'a>> {
        let _ = conn;
        None
    }
    /// Answers whoever waits, after COMMIT or instead of it.
    fn answer(self: Box<Self>, outcome: Result<(), DbError>);
}

/// A place where relaxed work gathers: the clicks.
pub(crate) trait Lane: Send + Sync {
    /// Resolves when something waits.
    fn ready(&self) -> BoxFuture<'_, ()>;
    /// Takes what has gathered, as one job.
    fn take(&self) -> Option<Box<dyn Job>>;
    /// Whether waiting a moment is likely to gather more.
    fn may_grow(&self) -> bool;
}

struct Queued {
    job: Box<dyn Job>,
    deadline: Instant,
}

pub(super) struct Writer {
    /// How long a write may wait before it is refused unexecuted.
    patience: Duration,
    queue: std::sync::Mutex<Option<mpsc::Sender<Queued>>>,
    lane: Arc<OnceLock<Arc<dyn Lane>>>,
    attached: Arc<Notify>,
    failed: watch::Receiver<bool>,
    foreign: watch::Receiver<Foreign>,
    ended: watch::Receiver<bool>,
}

impl Writer {
    pub(super) async fn start(options: SqliteConnectOptions, patience: Duration) -> Result<Self, sqlx::Error> {
        let options = options.busy_timeout(LOCK_WAIT);
        let conn = SqliteConnection::connect_with(&options).await?;
        let keeper = SqliteConnection::connect_with(&options).await?;
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (failed_tx, failed) = watch::channel(false);
        let (foreign_tx, foreign) = watch::channel(Foreign::default());
        let (ended_tx, ended) = watch::channel(false);
        let lane = Arc::new(OnceLock::new());
        let attached = Arc::new(Notify::new());
        let log = Arc::new(Log::of(options.get_filename()));
        tokio::spawn(checkpoint::keep(keeper, Arc::clone(&log), ended.clone()));
        let task = Task {
            conn,
            waiting,
            lane: Arc::clone(&lane),
            attached: Arc::clone(&attached),
            held: VecDeque::new(),
            relaxed: false,
            log,
            failed: failed_tx,
            foreign: foreign_tx,
            data_version: None,
            status_changes: None,
            beginnings: 0,
        };
        tokio::spawn(async move {
            task.run().await;
            ended_tx.send_replace(true);
        });
        Ok(Self { patience, queue: std::sync::Mutex::new(Some(queue)), lane, attached, failed, foreign, ended })
    }

    pub(super) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: WriteError,
        F: for<'c> Fn(Conn<'c>) -> BoxFuture<'c, Result<T, E>> + Send + Sync + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Typed { work, result: None, reply });
        let queued = Queued { job, deadline: Instant::now() + self.patience };
        let sent = match &*self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(queue) => queue.try_send(queued).map_err(|_| DbError::Overloaded),
            None => Err(DbError::Unavailable("the server is stopping".into())),
        };
        sent?;
        answer.await.unwrap_or_else(|_| Err(DbError::Unknown("the writer ended".into()).into()))
    }

    pub(super) fn attach(&self, lane: Arc<dyn Lane>) {
        if self.lane.set(lane).is_ok() {
            self.attached.notify_one();
        }
    }

    pub(super) async fn failed(&self) {
        let mut failed = self.failed.clone();
        if failed.wait_for(|failed| *failed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn foreign_commits(&self) -> watch::Receiver<Foreign> {
        self.foreign.clone()
    }

    pub(super) async fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        let mut ended = self.ended.clone();
        // An error means that the task is gone already.
        drop(ended.wait_for(|ended| *ended).await);
    }
}

struct Typed<T, E, F> {
    work: F,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Job for Typed<T, E, F>
where
    T: Send + 'static,
    E: WriteError,
    F: for<'c> Fn(Conn<'c>) -> BoxFuture<'c, Result<T, E>> + Send + Sync + 'static,
{
    fn run<'a>(&'a mut self, conn: Conn<'a>) -> BoxFuture<'a, Ran> {
        let work = AssertUnwindSafe(|| (self.work)(conn));
        let future = std::panic::catch_unwind(work);
        async move {
            let result = match future {
                Ok(future) => AssertUnwindSafe(future).catch_unwind().await,
                Err(panic) => Err(panic),
            };
            let result = result.unwrap_or_else(|_| Err(DbError::Panicked.into()));
            let ran = match &result {
                Ok(_) => Ran::Keep,
                Err(refusal) => refusal.database().map_or(Ran::Undo, |error| Ran::Failed(copy(error))),
            };
            self.result = Some(result);
            ran
        }
        .boxed()
    }

    fn answer(self: Box<Self>, outcome: Result<(), DbError>) {
        let result = match (outcome, self.result) {
            // A refusal stands whatever became of the batch: nothing of it was to stay.
            (_, Some(Err(refusal))) => Err(refusal),
            (Ok(()), Some(Ok(value))) => Ok(value),
            (Ok(()), None) => Err(DbError::Unknown("the job did not run".into()).into()),
            (Err(error), _) => Err(error.into()),
        };
        // The caller may have gone; the work is done all the same.
        drop(self.reply.send(result));
    }
}

struct Task {
    conn: SqliteConnection,
    waiting: mpsc::Receiver<Queued>,
    lane: Arc<OnceLock<Arc<dyn Lane>>>,
    attached: Arc<Notify>,
    held: VecDeque<Queued>,
    /// Whether the connection is at `synchronous=NORMAL` now.
    relaxed: bool,
    log: Arc<Log>,
    failed: watch::Sender<bool>,
    foreign: watch::Sender<Foreign>,
    data_version: Option<i64>,
    status_changes: Option<i64>,
    beginnings: u64,
}

enum Wake {
    Job,
    Clicks,
    Tick,
    Closed,
}

impl Task {
    async fn run(mut self) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let wake = self.wait(&mut tick).await;
            match wake {
                Wake::Tick => self.look_for_foreign_commits().await,
                Wake::Job | Wake::Clicks => {
                    let clicks = self.gather(matches!(wake, Wake::Clicks)).await;
                    self.batch(clicks).await;
                }
                Wake::Closed => {
                    while let Some(clicks) = self.lane.get().and_then(|lane| lane.take()) {
                        self.batch(Some(clicks)).await;
                    }
                    break;
                }
            }
        }
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "the writer's connection did not close cleanly");
        }
    }

    async fn wait(&mut self, tick: &mut tokio::time::Interval) -> Wake {
        if !self.held.is_empty() {
            return Wake::Job;
        }
        let lane = self.lane.get().cloned();
        let clicks = async {
            match &lane {
                Some(lane) => lane.ready().await,
                None => {
                    self.attached.notified().await;
                }
            }
        };
        tokio::select! {
            biased;
            job = self.waiting.recv() => match job {
                Some(job) => {
                    self.held.push_back(job);
                    Wake::Job
                }
                None => Wake::Closed,
            },
            () = clicks => Wake::Clicks,
            _ = tick.tick() => Wake::Tick,
        }
    }

    /// Takes what is queued without waiting for more; where many clicks come, they may wait a millisecond, since fewer,
    /// larger batches cost less. A lone click goes at once.
    async fn gather(&mut self, clicks_alone: bool) -> Option<Box<dyn Job>> {
        let lane = self.lane.get().cloned();
        if clicks_alone && lane.as_ref().is_some_and(|lane| lane.may_grow()) {
            tokio::select! {
                biased;
                job = self.waiting.recv() => self.held.extend(job),
                () = tokio::time::sleep(GATHER) => {}
            }
        }
        while self.held.len() < BATCH {
            let Ok(job) = self.waiting.try_recv() else { break };
            self.held.push_back(job);
        }
        lane.and_then(|lane| lane.take())
    }

    async fn batch(&mut self, mut clicks: Option<Box<dyn Job>>) {
        if self.log.is_full() {
            self.refuse(clicks, || DbError::Full).await;
            return;
        }
        let log = Arc::clone(&self.log);
        let _turn = log.turn().await;
        let relaxed = self.held.is_empty();
        if relaxed && let Some(outcome) = self.by_statement(&mut clicks).await {
            if let Some(job) = clicks {
                job.answer(outcome);
            }
            return;
        }
        if let Err(error) = self.begin(relaxed, &mut clicks).await {
            if matches!(error, DbError::Full) {
                log.found_no_room();
            }
            self.refuse(clicks, || copy(&error)).await;
            return;
        }
        // Writes may have joined, or been refused as overdue, while the lock was waited for.
        let relaxed = relaxed && self.held.is_empty();
        let mut done: Vec<Box<dyn Job>> = Vec::with_capacity(self.held.len() + 1);
        let jobs = self.held.drain(..BATCH.min(self.held.len())).map(|queued| queued.job).chain(clicks);
        let (mut broken, mut undone) = (None, false);
        for mut job in jobs {
            if broken.is_none() {
                // A batch of clicks is one job, so the transaction itself is its savepoint.
                broken = if relaxed {
                    run_alone(&mut self.conn, job.as_mut(), &mut undone).await.err()
                } else {
                    run_in_savepoint(&mut self.conn, job.as_mut()).await.err()
                };
            }
            done.push(job);
        }
        let outcome = match broken {
            Some(error) => {
                // Some errors end the transaction by themselves, so the rollback may find none.
                drop(sqlx::query("ROLLBACK").execute(&mut self.conn).await);
                Err(error)
            }
            None if undone => sqlx::query("ROLLBACK").execute(&mut self.conn).await.map(|_| ()).map_err(DbError::from),
            None => self.commit().await,
        };
        if matches!(outcome, Err(DbError::Full)) {
            log.found_no_room();
        }
        for job in done {
            job.answer(match &outcome {
                Ok(()) => Ok(()),
                Err(error) => Err(copy(error)),
            });
        }
    }

    /// Stores clicks by their one statement: BEGIN and COMMIT around it would be two more ways to the database's thread and
    /// back. `None` where they need a transaction.
    async fn by_statement(&mut self, clicks: &mut Option<Box<dyn Job>>) -> Option<Result<(), DbError>> {
        if let Err(error) = self.relax(true).await {
            return Some(Err(error));
        }
        let running = clicks.as_mut()?.run_by_statement(&mut self.conn)?;
        let Ok(outcome) = AssertUnwindSafe(running).catch_unwind().await else {
            return Some(Err(DbError::Panicked));
        };
        Some(match outcome {
            Ok(stored) => {
                if stored {
                    self.log.has_grown();
                }
                Ok(())
            }
            Err(error) => {
                if is_unwritten(&error) {
                    self.fail(&error);
                }
                let error = DbError::from(error);
                if matches!(error, DbError::Full) {
                    self.log.found_no_room();
                }
                Err(error)
            }
        })
    }

    async fn relax(&mut self, relaxed: bool) -> Result<(), DbError> {
        if relaxed != self.relaxed {
            // Legal only between transactions.
            let mode = if relaxed { "PRAGMA synchronous=NORMAL" } else { "PRAGMA synchronous=FULL" };
            sqlx::query(mode).execute(&mut self.conn).await?;
            self.relaxed = relaxed;
        }
        Ok(())
    }

    async fn begin(&mut self, relaxed: bool, clicks: &mut Option<Box<dyn Job>>) -> Result<(), DbError> {
        self.relax(relaxed).await?;
        loop {
            match sqlx::query("BEGIN IMMEDIATE").execute(&mut self.conn).await {
                Ok(_) => return Ok(()),
                Err(error) if is_busy(&error) => {
                    self.refuse_overdue();
                    // What came meanwhile gets its deadline watched too.
                    while self.held.len() < QUEUE {
                        let Ok(job) = self.waiting.try_recv() else { break };
                        self.held.push_back(job);
                    }
                    if !self.held.is_empty() && self.relaxed {
                        // A write joined a batch that began as clicks alone: its commit must wait for the disk.
                        sqlx::query("PRAGMA synchronous=FULL").execute(&mut self.conn).await?;
                        self.relaxed = false;
                    }
                    if self.waiting.is_closed() && self.held.is_empty() && clicks.is_none() {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn refuse_overdue(&mut self) {
        let now = Instant::now();
        while self.held.front().is_some_and(|queued| queued.deadline <= now) {
            if let Some(queued) = self.held.pop_front() {
                queued.job.answer(Err(DbError::Overloaded));
            }
        }
    }

    async fn refuse(&mut self, clicks: Option<Box<dyn Job>>, error: impl Fn() -> DbError) {
        for job in self.held.drain(..).map(|queued| queued.job).chain(clicks) {
            job.answer(Err(error()));
        }
        // A disk that is full or gone stays so for a while; asking it again at once would only spin.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    async fn commit(&mut self) -> Result<(), DbError> {
        match sqlx::query("COMMIT").execute(&mut self.conn).await {
            Ok(_) => {
                self.log.has_grown();
                Ok(())
            }
            Err(error) => {
                drop(sqlx::query("ROLLBACK").execute(&mut self.conn).await);
                if is_io(&error) {
                    self.fail(&error);
                }
                Err(DbError::commit(error))
            }
        }
    }

    /// After a failed sync the kernel may have dropped the pages: a second sync would report success for data that is gone.
    /// The node stops.
    fn fail(&self, error: &sqlx::Error) {
        tracing::error!(%error, "the database could not be synced; the process ends");
        self.failed.send_replace(true);
    }

    /// `data_version` changes when another connection commits. Read on the writer's own connection it ignores our
    /// writes; but it changes as well when the log begins anew. Then the number of status changes tells whether a
    /// cached link can have changed, so that a busy server need not read all of them again.
    async fn look_for_foreign_commits(&mut self) {
        let beginnings = self.log.beginnings();
        let version: Result<i64, _> = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut self.conn).await;
        let Ok(version) = version else { return };
        let began_anew = std::mem::replace(&mut self.beginnings, beginnings) != beginnings;
        if self.data_version.replace(version) == Some(version) {
            return;
        }
        let changes: Result<i64, _> =
            sqlx::query_scalar("SELECT COUNT(*) FROM link_status_changes").fetch_one(&mut self.conn).await;
        let changes = changes.ok();
        let links = !began_anew || changes.is_none() || changes != self.status_changes;
        self.status_changes = changes;
        self.foreign.send_modify(|foreign| {
            foreign.commits += 1;
            foreign.links += u64::from(links);
        });
    }
}

/// What other processes have done to the file, as far as it can be told; both only grow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Foreign {
    /// Commits, or what looks like one.
    commits: u64,
    /// Those that may have changed a link.
    pub(crate) links: u64,
}

/// The only job of a transaction: what it undoes is the transaction. After an error that must be rolled back too.
async fn run_alone(conn: &mut SqliteConnection, job: &mut dyn Job, undone: &mut bool) -> Result<(), DbError> {
    match AssertUnwindSafe(job.run(Conn::Sqlite(conn))).catch_unwind().await {
        Ok(Ran::Keep) => Ok(()),
        Ok(Ran::Undo) => {
            *undone = true;
            Ok(())
        }
        Ok(Ran::Failed(error)) => Err(error),
        Err(_) => Err(DbError::Panicked),
    }
}

/// An error means that the transaction is gone, and everything in it.
async fn run_in_savepoint(conn: &mut SqliteConnection, job: &mut dyn Job) -> Result<(), DbError> {
    sqlx::query("SAVEPOINT job").execute(&mut *conn).await?;
    let cause = match AssertUnwindSafe(job.run(Conn::Sqlite(conn))).catch_unwind().await {
        Ok(Ran::Keep) => {
            sqlx::query("RELEASE job").execute(&mut *conn).await?;
            return Ok(());
        }
        Ok(Ran::Undo) => None,
        Ok(Ran::Failed(error)) => Some(error),
        // The others of the batch do not know of it, so they are told what this one is.
        Err(_) => return Err(DbError::Panicked),
    };
    for statement in ["ROLLBACK TO job", "RELEASE job"] {
        if let Err(error) = sqlx::query(statement).execute(&mut *conn).await {
            return Err(match cause {
                Some(full @ DbError::Full) => full,
                _ => DbError::Unavailable(error.to_string()),
            });
        }
    }
    Ok(())
}

/// The same failure for each job of a batch.
fn copy(error: &DbError) -> DbError {
    match error {
        DbError::Overloaded => DbError::Overloaded,
        DbError::Full => DbError::Full,
        DbError::Unavailable(text) => DbError::Unavailable(text.clone()),
        DbError::Deadlock(text) => DbError::Deadlock(text.clone()),
        other => DbError::Unknown(other.to_string()),
    }
}

/// Opens a transaction on PostgreSQL. Call it only from a task that nobody cancels.
#[expect(clippy::disallowed_methods, reason = "this is the one door to a transaction")]
pub(super) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, DbError> {
    pool.begin().await.map_err(DbError::before_work)
}

/// One click batch on PostgreSQL: the commit does not wait for the disk, which may cost the last second of clicks at a
/// power failure and nothing at a crash of this process.
pub(super) async fn run_on_postgres(pool: PgPool, mut job: Box<dyn Job>) {
    let outcome = async {
        let mut tx = begin(&pool).await?;
        sqlx::query("SET LOCAL synchronous_commit = off").execute(&mut *tx).await?;
        match AssertUnwindSafe(job.run(Conn::Postgres(&mut tx))).catch_unwind().await {
            Ok(Ran::Keep) => tx.commit().await.map_err(DbError::commit),
            Ok(Ran::Undo) => Ok(tx.rollback().await?),
            Ok(Ran::Failed(error)) => {
                // The connection may be what failed; the pool drops it then.
                drop(tx.rollback().await);
                Err(error)
            }
            Err(_) => Err(DbError::Panicked),
        }
    };
    let outcome = outcome.await;
    job.answer(outcome);
}
