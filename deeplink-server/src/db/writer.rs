//! The SQLite writer: one connection, one task, group commit.
//!
//! It opens one `BEGIN IMMEDIATE`, takes the queued jobs in turn and runs each in its own savepoint, commits at
//! `synchronous=FULL`, and only then reports the outcomes. While one batch is synced the next one queues up, so
//! durability costs one sync per batch. A batch ends early when its work has taken long; the rest stays queued, so that
//! no write in it waits for more than that and a sync. Relaxed writes have a queue of their own; one that is alone commits
//! without waiting for the disk, because the next full commit or checkpoint, at most a second later, syncs it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::checkpoint::{self, Wal};
use super::error::{is_busy, is_io};
use super::jobs::{Job, copy, job, run_alone, run_in_savepoint};
use super::queue::Queue;
use super::{DbError, WriteError, WriteWork};
use crate::shares::Turn;

/// Maximum writes per transaction.
const MAX_BATCH: usize = 64;
/// How long the writes of a transaction may take before it accepts no more: longer than a large one takes, or small ones behind
/// it wait for the next large one, too.
const MAX_BATCH_WORK: Duration = Duration::from_millis(50);
/// How long they may take before it accepts only small ones: a large one takes long by itself.
const MAX_BEFORE_LARGE: Duration = Duration::from_millis(10);
/// Timeout of one attempt to lock the file; between attempts overdue writes are refused.
const LOCK_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(50);

pub(super) struct Writer {
    /// How long a write may wait before it is refused without being run.
    commit_timeout: Duration,
    queue: Arc<Queue>,
    relaxed: Arc<Relaxed>,
    failed: watch::Receiver<bool>,
    foreign: watch::Receiver<ForeignCommits>,
    ended: watch::Receiver<bool>,
}

impl Writer {
    pub(super) async fn start(options: SqliteConnectOptions, commit_timeout: Duration) -> Result<Self, sqlx::Error> {
        let options = options.busy_timeout(LOCK_ATTEMPT_TIMEOUT);
        let conn = SqliteConnection::connect_with(&options).await?;
        let checkpointer = SqliteConnection::connect_with(&options).await?;
        let queue = Arc::new(Queue::new());
        let (failed_tx, failed) = watch::channel(false);
        let (foreign_tx, foreign) = watch::channel(ForeignCommits::default());
        let (ended_tx, ended) = watch::channel(false);
        let relaxed = Arc::new(Relaxed::default());
        let wal = Arc::new(Wal::of(options.get_filename()));
        tokio::spawn(checkpoint::run(checkpointer, Arc::clone(&wal), ended.clone()));
        let task = Task {
            conn,
            queue: Arc::clone(&queue),
            relaxed: Arc::clone(&relaxed),
            is_relaxed: false,
            wal,
            failed: failed_tx,
            foreign: foreign_tx,
            data_version: None,
            status_changes: None,
            wal_restarts: 0,
        };
        let ending = Ending(Arc::clone(&queue), Arc::clone(&relaxed));
        tokio::spawn(async move {
            let _ending = ending;
            task.run().await;
            ended_tx.send_replace(true);
        });
        Ok(Self { commit_timeout, queue, relaxed, failed, foreign, ended })
    }

    pub(super) async fn write<C, T, E, F, A>(&self, turn: Turn, context: C, work: F, committed: A) -> Result<T, E>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        E: WriteError,
        F: WriteWork<C, T, E>,
        A: FnOnce(&C, &T) + Send + 'static,
    {
        let (job, answer) = job(context, work, committed);
        self.queue.push(turn, job, Instant::now() + self.commit_timeout)?;
        answer.await.unwrap_or_else(|_| Err(DbError::Unknown("the writer ended".into()).into()))
    }

    /// Adds a relaxed write.
    pub(super) fn push_relaxed(&self, job: Box<dyn Job>) {
        if let Err(job) = self.relaxed.push(job) {
            job.answer(Err(DbError::Unavailable("the server is stopping".into())));
        }
    }

    pub(super) async fn failed(&self) {
        let mut failed = self.failed.clone();
        if failed.wait_for(|failed| *failed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn foreign_commits(&self) -> watch::Receiver<ForeignCommits> {
        self.foreign.clone()
    }

    pub(super) async fn close(&self) {
        self.queue.close();
        let mut ended = self.ended.clone();
        // An error means that the task has ended already.
        drop(ended.wait_for(|ended| *ended).await);
    }
}

/// Answers pending writes when the task ends, also by a panic: nothing else would.
struct Ending(Arc<Queue>, Arc<Relaxed>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.close();
        self.0.refuse_all(|| DbError::Unavailable("the writer ended".into()));
        for job in self.1.close() {
            job.answer(Err(DbError::Unavailable("the writer ended".into())));
        }
    }
}

/// Relaxed writes that wait: few, because those who make them wait for one before the next.
#[derive(Default)]
struct Relaxed {
    state: Mutex<RelaxedState>,
    news: Notify,
}

#[derive(Default)]
struct RelaxedState {
    jobs: VecDeque<Box<dyn Job>>,
    is_closed: bool,
}

impl Relaxed {
    fn push(&self, job: Box<dyn Job>) -> Result<(), Box<dyn Job>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    fn take(&self) -> Option<Box<dyn Job>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).jobs.pop_front()
    }

    async fn ready(&self) {
        while self.state.lock().unwrap_or_else(PoisonError::into_inner).jobs.is_empty() {
            self.news.notified().await;
        }
    }

    fn close(&self) -> VecDeque<Box<dyn Job>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        std::mem::take(&mut state.jobs)
    }
}

struct Task {
    conn: SqliteConnection,
    queue: Arc<Queue>,
    relaxed: Arc<Relaxed>,
    /// Whether the connection is at `synchronous=NORMAL` now.
    is_relaxed: bool,
    wal: Arc<Wal>,
    failed: watch::Sender<bool>,
    foreign: watch::Sender<ForeignCommits>,
    data_version: Option<i64>,
    status_changes: Option<i64>,
    wal_restarts: u64,
}

enum Wake {
    Job,
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
                Wake::Tick => self.check_foreign_commits().await,
                Wake::Job => {
                    let relaxed = self.relaxed.take();
                    self.batch(relaxed).await;
                }
                Wake::Closed => {
                    while let Some(job) = self.relaxed.take() {
                        self.batch(Some(job)).await;
                    }
                    break;
                }
            }
        }
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "writer connection did not close cleanly");
        }
    }

    async fn wait(&mut self, tick: &mut tokio::time::Interval) -> Wake {
        tokio::select! {
            biased;
            has_jobs = self.queue.ready() => if has_jobs { Wake::Job } else { Wake::Closed },
            () = self.relaxed.ready() => Wake::Job,
            _ = tick.tick() => Wake::Tick,
        }
    }

    async fn batch(&mut self, relaxed: Option<Box<dyn Job>>) {
        if self.wal.is_disk_full() {
            self.refuse(relaxed, || DbError::Full).await;
            return;
        }
        let wal = Arc::clone(&self.wal);
        let _guard = wal.block_restart().await;
        // However long the queue is, overdue writes are refused soon after their deadline.
        self.queue.refuse_overdue();
        let is_relaxed = self.queue.len() == 0;
        if let Err(error) = self.begin(is_relaxed).await {
            if matches!(error, DbError::Full) {
                wal.set_disk_full();
            }
            self.refuse(relaxed, || copy(&error)).await;
            return;
        }
        let (mut done, mut broken, mut undone) = (Vec::new(), None, false);
        // Excludes writes queued from here on. A relaxed commit takes none, because it would not sync them.
        let most = if self.is_relaxed { 0 } else { self.queue.len().min(MAX_BATCH) };
        done.reserve_exact(most + 1);
        let began = Instant::now();
        while done.len() < most
            && broken.is_none()
            && began.elapsed() < MAX_BATCH_WORK
            && let Some(mut job) = self.queue.next(began.elapsed() >= MAX_BEFORE_LARGE)
        {
            broken = run_in_savepoint(&mut self.conn, job.as_mut()).await.err();
            done.push(job);
        }
        if let Some(mut job) = relaxed {
            if broken.is_none() {
                // It is the only job, so it needs no savepoint.
                broken = if self.is_relaxed {
                    run_alone(&mut self.conn, job.as_mut(), &mut undone).await.err()
                } else {
                    run_in_savepoint(&mut self.conn, job.as_mut()).await.err()
                };
            }
            done.push(job);
        }
        let outcome = match broken {
            Some(error) => {
                // Some errors have ended the transaction already, so this may fail.
                drop(sqlx::query("ROLLBACK").execute(&mut self.conn).await);
                Err(error)
            }
            None if undone => sqlx::query("ROLLBACK").execute(&mut self.conn).await.map(|_| ()).map_err(DbError::from),
            None => self.commit().await,
        };
        if matches!(outcome, Err(DbError::Full)) {
            wal.set_disk_full();
        }
        for job in done {
            job.answer(match &outcome {
                Ok(()) => Ok(()),
                Err(error) => Err(copy(error)),
            });
        }
    }

    async fn relax(&mut self, relaxed: bool) -> Result<(), DbError> {
        if relaxed != self.is_relaxed {
            // Allowed only between transactions.
            let mode = if relaxed { "PRAGMA synchronous=NORMAL" } else { "PRAGMA synchronous=FULL" };
            sqlx::query(mode).execute(&mut self.conn).await?;
            self.is_relaxed = relaxed;
        }
        Ok(())
    }

    async fn begin(&mut self, is_relaxed: bool) -> Result<(), DbError> {
        self.relax(is_relaxed).await?;
        loop {
            match sqlx::query("BEGIN IMMEDIATE").execute(&mut self.conn).await {
                Ok(_) => return Ok(()),
                Err(error) if is_busy(&error) => {
                    self.queue.refuse_overdue();
                    if self.queue.len() > 0 && self.is_relaxed {
                        // Another write joined it, so the commit must wait for the disk.
                        sqlx::query("PRAGMA synchronous=FULL").execute(&mut self.conn).await?;
                        self.is_relaxed = false;
                    }
                    if self.queue.has_ended() {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn refuse(&self, relaxed: Option<Box<dyn Job>>, error: impl Fn() -> DbError) {
        self.queue.refuse_all(&error);
        if let Some(job) = relaxed {
            job.answer(Err(error()));
        }
        // Avoids a busy loop: a disk that is full or gone stays so for a while.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    async fn commit(&mut self) -> Result<(), DbError> {
        match sqlx::query("COMMIT").execute(&mut self.conn).await {
            Ok(_) => {
                self.wal.committed();
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

    /// Stops the node. After a failed sync the kernel may have dropped the pages, so a second sync could report success for
    /// lost data.
    fn fail(&self, error: &sqlx::Error) {
        tracing::error!(%error, "database sync failed; shutting down");
        self.failed.send_replace(true);
    }

    /// `data_version` changes when another connection commits. Read on the writer's own connection it ignores our writes, but
    /// it also changes when the WAL restarts. Then the number of status changes tells whether a cached link can have
    /// changed, so that a busy server need not reload all of them.
    async fn check_foreign_commits(&mut self) {
        const STATUS_CHANGES: &str = "
            SELECT (SELECT COUNT(*) FROM link_status_changes) + (SELECT COUNT(*) FROM tenant_status_changes)";
        let wal_restarts = self.wal.restarts();
        let version: Result<i64, _> = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut self.conn).await;
        let Ok(version) = version else { return };
        let restarted = std::mem::replace(&mut self.wal_restarts, wal_restarts) != wal_restarts;
        if self.data_version.replace(version) == Some(version) {
            return;
        }
        let changes: Result<i64, _> = sqlx::query_scalar(STATUS_CHANGES).fetch_one(&mut self.conn).await;
        let changes = changes.ok();
        let links = !restarted || changes.is_none() || changes != self.status_changes;
        self.status_changes = changes;
        self.foreign.send_modify(|foreign| {
            foreign.commits += 1;
            foreign.links += u64::from(links);
        });
    }
}

/// Changes by other processes, as far as they can be detected; both counters only grow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ForeignCommits {
    /// Commits, and WAL restarts that cannot be told from one.
    commits: u64,
    /// Those that may have changed a link.
    pub(crate) links: u64,
}
