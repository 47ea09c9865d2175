//! Reports: long reads, limited so that they do not occupy the connections needed for short ones. Lists are reports too.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Conn, Db, DbError, Kind, Reader};

/// Maximum concurrent reports: half of the read connections, so that the rest is free for single rows.
pub(super) const SQLITE_REPORTS: usize = 2;
pub(super) const POSTGRES_REPORTS: usize = 4;

/// Timeout for ending a report on PostgreSQL.
const ENDING: Duration = Duration::from_secs(1);

/// SQLite virtual machine steps between two checks of the clock: about a millisecond.
const STEPS: i32 = 20_000;

/// Set when the caller of a report is gone.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Db {
    /// Maximum concurrent reports.
    pub(crate) fn max_reports(&self) -> usize {
        if self.is_sqlite() { SQLITE_REPORTS } else { POSTGRES_REPORTS }
    }

    /// Runs `work`, which only reads, in one snapshot. `limit` includes the wait for a permit and
    /// for a connection; when it is exceeded, the statement is canceled and the result is `Overloaded`. The same happens
    /// when the caller is gone.
    pub(crate) async fn report<T, E, F>(&self, limit: Duration, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let until = Instant::now() + limit;
        let permits = match &*self.kind {
            Kind::Sqlite { reports, .. } | Kind::Postgres { reports, .. } => Arc::clone(reports),
        };
        let late = |_| DbError::Overloaded;
        let permit = timeout_at(until, permits.acquire_owned()).await.map_err(late)?;
        let reader = timeout_at(until, self.read()).await.map_err(late)??;
        let gone = Arc::new(AtomicBool::new(false));
        let _waiting = Waiting(Arc::clone(&gone));
        // Spawned, because the connection must be reset before it is reused, however this ends.
        let running = tokio::spawn(async move {
            let _permit = permit;
            match reader {
                Reader::Sqlite(conn) => on_sqlite(conn, until, gone, work).await,
                Reader::Postgres(conn) => on_postgres(conn, until, work).await,
            }
        });
        match timeout_at(until, running).await {
            Ok(ended) => ended.unwrap_or_else(|_| Err(DbError::Panicked.into())),
            Err(_) => Err(DbError::Overloaded.into()),
        }
    }
}

async fn on_sqlite<T, E, F>(
    mut conn: PoolConnection<Sqlite>,
    until: Instant,
    gone: Arc<AtomicBool>,
    work: F,
) -> Result<T, E>
where
    E: From<DbError>,
    F: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<T, E>>,
{
    // Dropping the future does not stop the statement, so the statement has to check the clock itself.
    let may_continue = move || Instant::now() < until && !gone.load(Ordering::Relaxed);
    conn.lock_handle().await.map_err(DbError::from)?.set_progress_handler(STEPS, may_continue);
    let counted = async {
        sqlx::query("BEGIN").execute(&mut *conn).await.map_err(DbError::from)?;
        work(Conn::Sqlite(&mut conn)).await
    };
    let counted = AssertUnwindSafe(timeout_at(until, counted)).catch_unwind().await;
    let handle = conn.lock_handle().await.map(|mut handle| handle.remove_progress_handler());
    let ended = sqlx::query("ROLLBACK").execute(&mut *conn).await;
    if handle.is_err() || ended.is_err() {
        conn.close_on_drop();
    }
    result_of(counted)
}

async fn on_postgres<T, E, F>(mut conn: PoolConnection<Postgres>, until: Instant, work: F) -> Result<T, E>
where
    E: From<DbError>,
    F: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<T, E>>,
{
    let left = until.saturating_duration_since(Instant::now()).as_millis().max(1);
    let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {left}");
    let counted = async {
        sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *conn).await.map_err(DbError::from)?;
        work(Conn::Postgres(&mut conn)).await
    };
    let counted = AssertUnwindSafe(timeout_at(until, counted)).catch_unwind().await;
    // A server that is gone never responds, and the permit must be released.
    let ended = timeout(ENDING, sqlx::raw_sql("ROLLBACK").execute(&mut *conn)).await;
    if !matches!(ended, Ok(Ok(_))) {
        conn.close_on_drop();
    }
    result_of(counted)
}

type Counted<T, E> = std::thread::Result<Result<Result<T, E>, tokio::time::error::Elapsed>>;

fn result_of<T, E: From<DbError>>(counted: Counted<T, E>) -> Result<T, E> {
    match counted {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(DbError::Overloaded.into()),
        Err(_) => Err(DbError::Panicked.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::on;
    use crate::db::tests::Scratch;

    /// A statement that never ends.
    async fn count_for_ever(mut db: Conn<'_>) -> Result<i64, DbError> {
        const SQL: &str = "
            WITH RECURSIVE numbers (number) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT number + 1 FROM numbers)
            SELECT MAX(number) FROM numbers";
        Ok(on!(&mut db, c => sqlx::query_scalar(SQL).fetch_one(c).await)?)
    }

    async fn count_links(mut db: Conn<'_>) -> Result<i64, DbError> {
        Ok(on!(&mut db, c => sqlx::query_scalar("SELECT COUNT(*) FROM links").fetch_one(c).await)?)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_report_that_takes_too_long_is_refused_and_its_reader_is_free() {
        let scratch = Scratch::new().await;
        let db = &scratch.db;
        let limit = Duration::from_secs(2);
        let began = Instant::now();
        let long = (0..6).map(|_| db.report(limit, |conn| count_for_ever(conn).boxed()));
        let (ended, beside) = tokio::join!(futures_util::future::join_all(long), async {
            tokio::time::sleep(limit / 4).await;
            let mut readers = Vec::new();
            for _ in 0..2 {
                let mut reader = db.read().await.expect("a reader beside the reports");
                count_links(reader.conn()).await.expect("a count");
                readers.push(reader);
            }
            began.elapsed()
        });
        assert!(beside < limit, "others read meanwhile: {beside:?}");
        assert!(
            ended.iter().all(|ended| matches!(ended, Err(DbError::Overloaded | DbError::Unavailable(_)))),
            "{ended:?}"
        );
        assert!(began.elapsed() < limit * 3, "{:?}", began.elapsed());
        // All connections are reset: none is busy, interrupted or in a transaction.
        let began = Instant::now();
        for _ in 0..3 {
            let mut readers = Vec::new();
            for _ in 0..4 {
                readers.push(db.read().await.expect("a reader"));
            }
            for reader in &mut readers {
                count_links(reader.conn()).await.expect("a count");
            }
        }
        assert!(began.elapsed() < limit * 2, "{:?}", began.elapsed());
        let counted = db.report(Duration::from_mins(1), |conn| count_links(conn).boxed()).await;
        assert_eq!(counted.expect("a report"), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_report_that_nobody_waits_for_ends() {
        let scratch = Scratch::new().await;
        let db = scratch.db.clone();
        if !db.is_sqlite() {
            // PostgreSQL's statement timeout ends it.
            return;
        }
        for _ in 0..4 {
            let report = db.report(Duration::from_mins(1), |conn| count_for_ever(conn).boxed());
            drop(tokio::time::timeout(Duration::from_millis(50), report).await);
        }
        let counted = db.report(Duration::from_secs(30), |conn| count_links(conn).boxed()).await;
        assert_eq!(counted.expect("a permit"), 0);
    }
}
