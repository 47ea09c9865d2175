//! Another process that has the database locked: nothing can be written, everything can be read.

use std::time::Duration;

use sqlx::{Executor, SqliteConnection};
use tokio::time::{Instant, sleep};

use crate::home::Database;
use crate::store::{self, Conn};
use deeplink_doubles::wait::PATIENCE;

/// Holds the lock until it is released.
pub(crate) struct Locker(Conn);

impl Locker {
    /// Waits for the lock and takes it.
    pub(crate) async fn lock(database: &Database) -> Self {
        let mut conn = store::connect(database).await;
        match &mut conn {
            Conn::Sqlite(conn) => lock_file(conn).await,
            Conn::Postgres(conn) => {
                conn.execute("BEGIN").await.expect("a transaction");
                conn.execute("LOCK TABLE tenants, links, clicks, click_marks IN EXCLUSIVE MODE").await.map(drop)
            }
        }
        .expect("the lock");
        Self(conn)
    }

    /// Releases the lock. Nothing was changed.
    pub(crate) async fn release(self) {
        let mut conn = self.0;
        match &mut conn {
            Conn::Sqlite(conn) => conn.execute("ROLLBACK").await.map(drop),
            Conn::Postgres(conn) => conn.execute("ROLLBACK").await.map(drop),
        }
        .expect("the lock is released");
        store::close(conn).await;
    }
}

/// A busy writer releases the lock for an instant only; SQLite's own waiting would poll too rarely to catch it.
async fn lock_file(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    conn.execute("PRAGMA busy_timeout = 0").await?;
    let began = Instant::now();
    loop {
        match conn.execute("BEGIN IMMEDIATE").await {
            Err(_) if began.elapsed() < PATIENCE => sleep(Duration::from_millis(1)).await,
            taken => return taken.map(drop),
        }
    }
}
