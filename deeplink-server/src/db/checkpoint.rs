//! Checkpoints of SQLite's write-ahead log (WAL) on a separate connection, so that the writer does not stop for them.
//!
//! Under steady load a passive checkpoint never completes, because there is always a newer commit. So above a certain size
//! the writer is paused while the rest is checkpointed, and the WAL restarts at the beginning of its file. The invariant:
//! the WAL never takes the disk space that its checkpoint needs. After the disk was full, nothing is written until the WAL
//! has been checkpointed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use super::DbError;

/// Interval of checkpoints while there are new commits. They also sync commits of clicks.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(700);
/// Interval of attempts while the disk is full.
const DISK_FULL_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Rounds without a commit after which the WAL file is truncated.
const IDLE_ROUNDS: u32 = 10;
/// Pages of 4 KiB (4 MiB in all) above which the writer is paused to restart the WAL. Under steady load that is when the
/// database file is synced: with 16 MiB, everybody's writes waited 60 ms longer.
const RESTART_ABOVE_PAGES: i64 = 1_024;
/// The same after a reader has prevented a restart.
const RETRY_ABOVE_PAGES: i64 = 4 * RESTART_ABOVE_PAGES;
/// Pages (64 MiB in all) above which the file is truncated too. Only a long read lets it grow so far.
const TRUNCATE_ABOVE_PAGES: i64 = 16_384;

/// The same as a file size. A restarted WAL file is truncated to this (`journal_size_limit`), so a larger file means a larger
/// WAL.
pub(super) const RESTART_ABOVE_BYTES: u64 = 4 << 20;

/// The state of the WAL, shared by the writer and the checkpointer.
#[derive(Debug)]
pub(super) struct Wal {
    file: PathBuf,
    restart: Mutex<()>,
    commits: AtomicU64,
    is_disk_full: AtomicBool,
    /// A reader prevented the last restart. Retrying at once would only pause the writer.
    is_blocked: AtomicBool,
    /// Changes when the WAL restarts, which SQLite reports like a commit of another process.
    restarts: AtomicU64,
    wake: Notify,
}

impl Wal {
    /// The WAL of a database file.
    pub(super) fn of(database: &Path) -> Self {
        let mut name = database.file_name().unwrap_or_default().to_owned();
        name.push("-wal");
        Self {
            file: database.with_file_name(name),
            restart: Mutex::default(),
            commits: AtomicU64::new(0),
            is_disk_full: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
            wake: Notify::new(),
        }
    }

    /// A counter that changes when the WAL restarts.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    fn is_long(&self) -> bool {
        std::fs::metadata(&self.file).is_ok_and(|file| file.len() > RESTART_ABOVE_BYTES)
    }

    /// Waits for a restart in progress, and prevents another one until the guard is dropped.
    pub(super) async fn block_restart(&self) -> MutexGuard<'_, ()> {
        self.restart.lock().await
    }

    /// To be called after each commit.
    pub(super) fn committed(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        if !self.is_blocked.load(Ordering::Relaxed) && self.is_long() {
            // Without waiting for the interval, in which a fast disk can write far more.
            self.wake.notify_one();
        }
    }

    /// To be called when a write failed because the disk is full.
    pub(super) fn set_disk_full(&self) {
        self.is_disk_full.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Whether the disk was full a moment ago. Freed space is needed for the checkpoint first; the WAL would take all
    /// of it.
    pub(super) fn is_disk_full(&self) -> bool {
        self.is_disk_full.load(Ordering::Relaxed)
    }
}

/// Checkpoint modes of SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Never blocks; skips pages in use.
    Passive,
    /// Checkpoints everything, so that the next commit restarts the WAL.
    Restart,
    /// The same, and truncates the file.
    Truncate,
}

impl Mode {
    fn pragma(self) -> &'static str {
        match self {
            Self::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Self::Restart => "PRAGMA wal_checkpoint(RESTART)",
            Self::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        }
    }
}

/// Checkpoints the WAL until the writer has ended. The connection's busy timeout limits how long a reader can delay the
/// writer.
pub(super) async fn run(conn: SqliteConnection, wal: Arc<Wal>, mut ended: watch::Receiver<bool>) {
    let mut checkpointer = Checkpointer { conn, wal, is_stuck: false };
    let (mut seen, mut idle) = (0, 0);
    loop {
        let pause = if checkpointer.is_stuck { DISK_FULL_RETRY_INTERVAL } else { CHECKPOINT_INTERVAL };
        let end = tokio::select! {
            _ = ended.wait_for(|ended| *ended) => true,
            () = checkpointer.wal.wake.notified() => false,
            () = tokio::time::sleep(pause) => false,
        };
        let commits = checkpointer.wal.commits.load(Ordering::Relaxed);
        idle = if commits == seen { idle + 1 } else { 0 };
        seen = commits;
        if end || checkpointer.wal.is_disk_full() || idle == IDLE_ROUNDS {
            checkpointer.restart(Mode::Truncate).await;
        } else if idle == 0 {
            checkpointer.shorten().await;
        }
        if end {
            // An error on close loses nothing: everything is in the WAL or the database.
            drop(checkpointer.conn.close().await);
            return;
        }
    }
}

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy)]
struct Checkpointed {
    /// A reader or the writer blocked it.
    is_blocked: bool,
    /// Pages in the WAL, checkpointed or not.
    pages: i64,
}

struct Checkpointer {
    conn: SqliteConnection,
    wal: Arc<Wal>,
    /// The last attempt failed because the disk is full.
    is_stuck: bool,
}

impl Checkpointer {
    /// Checkpoints the WAL, and restarts it if it has become long.
    async fn shorten(&mut self) {
        let result = self.checkpoint(Mode::Passive).await;
        match result {
            Ok(Checkpointed { pages, .. }) if pages > TRUNCATE_ABOVE_PAGES => self.restart(Mode::Truncate).await,
            Ok(Checkpointed { pages, .. }) if pages > self.restart_above() => self.restart(Mode::Restart).await,
            _ => self.finish(&result),
        }
    }

    /// A reader that prevented the last restart probably prevents the next one, and the writer waits for nothing.
    fn restart_above(&self) -> i64 {
        let is_blocked = self.wal.is_blocked.load(Ordering::Relaxed);
        if is_blocked { RETRY_ABOVE_PAGES } else { RESTART_ABOVE_PAGES }
    }

    /// Checkpoints everything while the writer waits.
    async fn restart(&mut self, mode: Mode) {
        let wal = Arc::clone(&self.wal);
        let _guard = wal.block_restart().await;
        // Before and after, so that a concurrent reader of the counter sees a change too.
        wal.restarts.fetch_add(1, Ordering::Relaxed);
        let result = self.checkpoint(mode).await;
        wal.restarts.fetch_add(1, Ordering::Relaxed);
        wal.is_blocked.store(matches!(result, Ok(Checkpointed { is_blocked: true, .. })), Ordering::Relaxed);
        self.finish(&result);
    }

    async fn checkpoint(&mut self, mode: Mode) -> Result<Checkpointed, DbError> {
        let (busy, pages, _): (i64, i64, i64) = sqlx::query_as(mode.pragma()).fetch_one(&mut self.conn).await?;
        Ok(Checkpointed { is_blocked: busy != 0, pages })
    }

    /// Lets the writer continue, unless the disk is full.
    fn finish(&mut self, result: &Result<Checkpointed, DbError>) {
        let was_stuck = std::mem::replace(&mut self.is_stuck, matches!(result, Err(DbError::Full)));
        self.wal.is_disk_full.store(self.is_stuck, Ordering::Relaxed);
        match result {
            Ok(_) if was_stuck => tracing::info!("disk space is available again"),
            Ok(_) => {}
            Err(DbError::Full) if was_stuck => {}
            Err(error) => tracing::warn!(%error, "write-ahead log could not be checkpointed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use deeplink_doubles::wait::eventually;
    use futures_util::FutureExt;

    use super::super::{Access, Conn, Db};
    use super::*;
    use crate::config::TEST_DATABASE_TIMEOUT;
    use crate::shares::Share;

    /// A commit that makes the WAL long wakes the checkpointer, unless a reader prevented the last restart.
    #[test]
    fn a_long_wal_is_checkpointed_without_waiting_for_the_interval() {
        let folder = deeplink_doubles::machine::directory();
        let wal = Wal::of(&folder.path().join("test.db"));
        let file = std::fs::File::create(&wal.file).expect("a file");
        for (bytes, is_blocked, wakes) in [
            (RESTART_ABOVE_BYTES, false, false),
            (RESTART_ABOVE_BYTES + 1, true, false),
            (RESTART_ABOVE_BYTES + 1, false, true),
        ] {
            file.set_len(bytes).expect("a size");
            wal.is_blocked.store(is_blocked, Ordering::Relaxed);
            wal.committed();
            assert_eq!(wal.wake.notified().now_or_never().is_some(), wakes, "{bytes} {is_blocked}");
        }
    }

    #[tokio::test]
    async fn the_wal_stays_small_however_much_is_written() {
        const PIECE: u64 = 512 << 10;
        let folder = deeplink_doubles::machine::directory();
        let path = folder.path().join("test.db");
        let db = Db::open(&format!("sqlite://{}", path.display()), Access::Serve, TEST_DATABASE_TIMEOUT)
            .await
            .expect("a database");
        let length = |path: &Path| std::fs::metadata(path).expect("a file").len();
        let mut longest = 0;
        for number in 0_u64..80 {
            let stored: Result<(), DbError> = db
                .write(Share::Service, (), move |tx, ()| {
                    async move {
                        let Conn::Sqlite(conn) = tx else { return Ok(()) };
                        let sql = "INSERT INTO service (name, value) VALUES ($1, hex(zeroblob($2)))";
                        let bytes = i64::try_from(PIECE / 2).expect("a size");
                        sqlx::query(sql).bind(number.to_string()).bind(bytes).execute(&mut **conn).await?;
                        Ok(())
                    }
                    .boxed()
                })
                .await;
            stored.expect("it is stored");
            let now = length(&folder.path().join("test.db-wal"));
            longest = longest.max(now);
            // A writer that never waits for a disk outruns the checkpointer on a busy machine.
            if now > 2 * RESTART_ABOVE_BYTES {
                let limit = Duration::from_secs(5);
                eventually("the WAL is checkpointed", limit, async || length(&path) >= (number + 1) * PIECE).await;
            }
        }
        db.close().await;
        assert!(longest > PIECE && longest <= 3 * RESTART_ABOVE_BYTES, "{longest} bytes");
    }
}
