//! A pool of read connections that distinguishes overload from an unavailable database.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sqlx::pool::{Pool, PoolConnection};
use sqlx::{Database, Error};

use super::DbError;

pub(super) struct Readers<DB: Database> {
    pool: Pool<DB>,
    /// How many times a connection was acquired.
    given: AtomicU64,
}

impl<DB: Database> Readers<DB> {
    pub(super) fn new(pool: Pool<DB>) -> Self {
        Self { pool, given: AtomicU64::new(0) }
    }

    /// A connection. The pool's error is the same when all of its connections are taken and when none can be opened, but
    /// only in the first case do other callers get one in the meantime.
    pub(super) async fn acquire(&self) -> Result<PoolConnection<DB>, DbError> {
        let given = self.given.load(Relaxed);
        match self.pool.acquire().await {
            Ok(conn) => {
                self.given.fetch_add(1, Relaxed);
                Ok(conn)
            }
            Err(Error::PoolTimedOut) if self.given.load(Relaxed) != given => Err(DbError::Overloaded),
            Err(error) => Err(DbError::before_work(error)),
        }
    }

    /// Maximum connections.
    pub(super) fn most(&self) -> u32 {
        self.pool.options().get_max_connections()
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::super::sharing::stop_time;
    use super::super::tests::Scratch;
    use super::super::{Db, Kind};
    use crate::config::TEST_DATABASE_TIMEOUT;
    use crate::error::ApiError;

    /// A lookup that gets no connection while others do is rejected as overload, which is not logged for each
    /// request; if no lookup gets one, the database is unavailable.
    #[tokio::test]
    async fn lookups_behind_too_many_others_are_overloaded_and_not_a_database_that_is_away() {
        let scratch = Scratch::new().await;
        let db = &scratch.db;
        let mut held = Vec::new();
        let most = match &*db.kind {
            Kind::Sqlite { lookups, .. } => lookups.most(),
            Kind::Postgres { lookups, .. } => lookups.most(),
        };
        for _ in 0..most {
            held.push(Db::look_up(db).await.expect("a connection"));
        }
        let _time = stop_time();
        let late = || tokio::time::advance(TEST_DATABASE_TIMEOUT + Duration::from_secs(1));
        let [mut first, mut second] = [(); 2].map(|()| Box::pin(Db::look_up(db)));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        held.pop();
        held.push(first.await.expect("what was given back"));
        late().await;
        let refused = ApiError::from(second.await.err().expect("a refusal"));
        assert_eq!((refused.body().code.as_str(), refused.retry_after()), ("overloaded", Some(1)));

        let mut alone = Box::pin(Db::look_up(db));
        assert!((&mut alone).now_or_never().is_none());
        late().await;
        let refused = ApiError::from(alone.await.err().expect("a refusal"));
        assert_eq!(refused.body().code.as_str(), "database_unavailable");
    }
}
