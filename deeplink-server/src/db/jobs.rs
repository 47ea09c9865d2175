//! Jobs of the writer: what runs in a transaction and how its caller learns the outcome.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres, SqliteConnection, Transaction};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Conn, DbError, WriteError, WriteWork, run_committed};

/// The outcome of a job inside its transaction.
pub(crate) enum Ran {
    /// It succeeded.
    Keep,
    /// It is rolled back; the other jobs continue.
    Undo,
    /// It is rolled back because of a database error, which may have ended the whole transaction.
    Failed(DbError),
}

/// A type-erased job for the writer.
pub(crate) trait Job: Send {
    /// Runs on the connection. Panics are caught by the writer.
    fn run<'a>(&'a mut self, conn: Conn<'a>) -> BoxFuture<'a, Ran>;
    /// Reports the outcome to the caller, after COMMIT or a failure.
    fn answer(self: Box<Self>, outcome: Result<(), DbError>);
}

/// A write as a job, and the receiver of its result.
pub(crate) fn job<C, T, E, F, A>(context: C, work: F, committed: A) -> (Box<dyn Job>, oneshot::Receiver<Result<T, E>>)
where
    C: Send + Sync + 'static,
    T: Send + 'static,
    E: WriteError,
    F: WriteWork<C, T, E>,
    A: FnOnce(&C, &T) + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Typed { context, work, committed, result: None, reply }), answer)
}

struct Typed<C, T, E, F, A> {
    context: C,
    work: F,
    committed: A,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<C, T, E, F, A> Job for Typed<C, T, E, F, A>
where
    C: Send + Sync + 'static,
    T: Send + 'static,
    E: WriteError,
    F: WriteWork<C, T, E>,
    A: FnOnce(&C, &T) + Send + 'static,
{
    fn run<'a>(&'a mut self, conn: Conn<'a>) -> BoxFuture<'a, Ran> {
        async move {
            let mut conn = conn;
            let running = async { (self.work)(&mut conn, &self.context).await };
            let result = AssertUnwindSafe(running).catch_unwind().await;
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
        let Self { context, committed, result, reply, .. } = *self;
        let result = match (outcome, result) {
            // A refusal stands whatever the outcome of the batch, since it is rolled back anyway.
            (_, Some(Err(refusal))) => Err(refusal),
            (Ok(()), Some(Ok(value))) => match run_committed(committed, &context, &value) {
                Ok(()) => Ok(value),
                Err(error) => Err(error.into()),
            },
            (Ok(()), None) => Err(DbError::Unknown("the job did not run".into()).into()),
            (Err(error), _) => Err(error.into()),
        };
        // The caller may be gone; the write is committed all the same.
        drop(reply.send(result));
    }
}

/// Runs the only job of a transaction. `undone`: the transaction must be rolled back, as after an error.
pub(super) async fn run_alone(
    conn: &mut SqliteConnection,
    job: &mut dyn Job,
    undone: &mut bool,
) -> Result<(), DbError> {
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

/// Runs one job of several. An error means that the whole transaction has failed.
pub(super) async fn run_in_savepoint(conn: &mut SqliteConnection, job: &mut dyn Job) -> Result<(), DbError> {
    sqlx::query("SAVEPOINT job").execute(&mut *conn).await?;
    let cause = match AssertUnwindSafe(job.run(Conn::Sqlite(conn))).catch_unwind().await {
        Ok(Ran::Keep) => {
            sqlx::query("RELEASE job").execute(&mut *conn).await?;
            return Ok(());
        }
        Ok(Ran::Undo) => None,
        Ok(Ran::Failed(error)) => Some(error),
        // Fails the batch: the other jobs are not to blame, but the state of the transaction is unknown.
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

/// Copies an error for each job of a batch.
pub(super) fn copy(error: &DbError) -> DbError {
    match error {
        DbError::Overloaded => DbError::Overloaded,
        DbError::Full => DbError::Full,
        DbError::Unavailable(text) => DbError::Unavailable(text.clone()),
        DbError::Deadlock(text) => DbError::Deadlock(text.clone()),
        other => DbError::Unknown(other.to_string()),
    }
}

/// Opens a transaction on PostgreSQL. If this is canceled, its caller must close the connection: the next borrower would get
/// the open transaction.
#[expect(clippy::disallowed_methods, reason = "this is the one place that opens transactions")]
pub(super) async fn begin(conn: &mut PgConnection) -> Result<Transaction<'_, Postgres>, DbError> {
    conn.begin().await.map_err(DbError::before_work)
}

/// The outcome of work on a connection, which is closed if the database does not answer within `limit`. Without a limit, the
/// wait would never end if the database's machine vanished after it had received a statement: TCP notices that only when it
/// has something to send again.
pub(super) async fn answered<T, E: From<DbError>>(
    conn: &mut PoolConnection<Postgres>,
    limit: Duration,
    work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
) -> Result<T, E> {
    if let Ok(outcome) = timeout(limit, work(conn)).await {
        return outcome;
    }
    conn.close_on_drop();
    Err(DbError::Unknown(format!("no response from the database within {limit:?}")).into())
}

/// Runs a job on PostgreSQL. The commit does not wait for the disk: a power failure may lose the last second of such
/// commits, a crash of this process loses nothing. `limit` is that of `answered`.
pub(super) async fn run_on_postgres(pool: PgPool, mut job: Box<dyn Job>, limit: Duration) {
    let outcome = match pool.acquire().await {
        Ok(mut conn) => answered(&mut conn, limit, async |conn| run_relaxed(conn, &mut *job).await).await,
        Err(error) => Err(DbError::before_work(error)),
    };
    job.answer(outcome);
}

async fn run_relaxed(conn: &mut PgConnection, job: &mut dyn Job) -> Result<(), DbError> {
    let mut tx = begin(conn).await?;
    sqlx::query("SET LOCAL synchronous_commit = off").execute(&mut *tx).await?;
    match AssertUnwindSafe(job.run(Conn::Postgres(&mut tx))).catch_unwind().await {
        Ok(Ran::Keep) => tx.commit().await.map_err(DbError::commit),
        Ok(Ran::Undo) => Ok(tx.rollback().await?),
        Ok(Ran::Failed(error)) => {
            // If the connection failed, the pool drops it.
            drop(tx.rollback().await);
            Err(error)
        }
        Err(_) => Err(DbError::Panicked),
    }
}
