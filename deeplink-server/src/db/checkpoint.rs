//! Keeping the log of a SQLite file short: its pages are moved into the database away from the writer, which would
//! otherwise stop for it.
//!
//! Under steady load a log never comes to its end by itself, because there is always a commit that is not moved yet.
//! So past a certain length the writer is held back for the moment that moving the rest takes, and the log begins anew
//! within its file. The invariant: the log does not take the room that moving it needs. When the disk was full, nothing
//! is written before the log has been moved.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use super::DbError;

/// How often pages are moved while there are new ones. This is also what syncs the commits of clicks.
const EVERY: Duration = Duration::from_millis(700);
/// Between two attempts on a full disk.
const AGAIN: Duration = Duration::from_millis(100);
/// After so many times without a commit the log is cut.
const IDLE: u32 = 10;
/// Pages of 4 KiB in the log, 16 MiB, from which on the writer is held back to begin it anew.
const BEGIN_ANEW_ABOVE: i64 = 4_096;
/// Pages, 64 MiB, from which on the file is cut too. Only a long read lets it come to this.
const CUT_ABOVE: i64 = 16_384;

/// The same as the length of the file. A log that begins anew is cut to this (`journal_size_limit`), so a longer file
/// is a longer log.
pub(super) const BEGIN_ANEW_ABOVE_BYTES: u64 = 16 << 20;

/// What the writer and the keeper of the log know of each other.
#[derive(Debug)]
pub(super) struct Log {
    file: PathBuf,
    turn: Mutex<()>,
    commits: AtomicU64,
    is_full: AtomicBool,
    /// A reader keeps the log from beginning anew. To try again at once would only hold the writer back.
    is_held: AtomicBool,
    /// Moves when the log begins anew, which SQLite reports like a commit of somebody else.
    beginnings: AtomicU64,
    wake: Notify,
}

impl Log {
    /// The log of a database file.
    pub(super) fn of(database: &Path) -> Self {
        let mut name = database.file_name().unwrap_or_default().to_owned();
        name.push("-wal");
        Self {
            file: database.with_file_name(name),
            turn: Mutex::default(),
            commits: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            beginnings: AtomicU64::new(0),
            wake: Notify::new(),
        }
    }

    /// How often the log has begun anew, roughly: a number that moves when it does.
    pub(super) fn beginnings(&self) -> u64 {
        self.beginnings.load(Ordering::Relaxed)
    }

    fn is_long(&self) -> bool {
        std::fs::metadata(&self.file).is_ok_and(|file| file.len() > BEGIN_ANEW_ABOVE_BYTES)
    }

    /// Waits until nobody is beginning the log anew, and keeps it from being begun anew.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Something was committed.
    pub(super) fn has_grown(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        if !self.is_held.load(Ordering::Relaxed) && self.is_long() {
            // Before its time: a fast disk takes far more than this in the meantime.
            self.wake.notify_one();
        }
    }

    /// Something could not be written for want of room.
    pub(super) fn found_no_room(&self) {
        self.is_full.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Whether there was no room a moment ago. What is free since then belongs to the database first: the log would
    /// take all of it and could not be moved any more.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

/// How a checkpoint goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Hinders nobody, and leaves what is in use.
    Passive,
    /// Moves everything, so that the next commit begins the log anew.
    Restart,
    /// The same, and cuts the file.
    Truncate,
}

impl Manner {
    fn pragma(self) -> &'static str {
        match self {
            Self::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Self::Restart => "PRAGMA wal_checkpoint(RESTART)",
            Self::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        }
    }
}

/// Looks after the log until the writer has ended. The connection's busy timeout bounds how long a reader can hold the
/// writer back.
pub(super) async fn keep(conn: SqliteConnection, log: Arc<Log>, mut ended: watch::Receiver<bool>) {
    let mut keeper = Keeper { conn, log, is_stuck: false };
    let (mut seen, mut idle) = (0, 0);
    loop {
        let pause = if keeper.is_stuck { AGAIN } else { EVERY };
        let end = tokio::select! {
            _ = ended.wait_for(|ended| *ended) => true,
            () = keeper.log.wake.notified() => false,
            () = tokio::time::sleep(pause) => false,
        };
        let commits = keeper.log.commits.load(Ordering::Relaxed);
        idle = if commits == seen { idle + 1 } else { 0 };
        seen = commits;
        if end || keeper.log.is_full() || idle == IDLE {
            keeper.begin_anew(Manner::Truncate).await;
        } else if idle == 0 {
            keeper.shorten().await;
        }
        if end {
            // Failing to close loses nothing: everything is in the log or the database.
            drop(keeper.conn.close().await);
            return;
        }
    }
}

/// What a checkpoint came to.
#[derive(Debug, Clone, Copy)]
struct Moved {
    /// Somebody was in the way.
    is_held: bool,
    /// How many pages the log holds, moved or not.
    pages: i64,
}

struct Keeper {
    conn: SqliteConnection,
    log: Arc<Log>,
    /// The last attempt found no room.
    is_stuck: bool,
}

impl Keeper {
    /// Moves what is in the log, and begins it anew when it has become long.
    async fn shorten(&mut self) {
        let moved = self.checkpoint(Manner::Passive).await;
        match moved {
            Ok(Moved { pages, .. }) if pages > CUT_ABOVE => self.begin_anew(Manner::Truncate).await,
            Ok(Moved { pages, .. }) if pages > BEGIN_ANEW_ABOVE => self.begin_anew(Manner::Restart).await,
            _ => self.note(&moved),
        }
    }

    /// Moves everything while the writer waits.
    async fn begin_anew(&mut self, manner: Manner) {
        let log = Arc::clone(&self.log);
        let _turn = log.turn().await;
        // Before and after, so that it has moved for whoever looks in between as well.
        log.beginnings.fetch_add(1, Ordering::Relaxed);
        let moved = self.checkpoint(manner).await;
        log.beginnings.fetch_add(1, Ordering::Relaxed);
        log.is_held.store(matches!(moved, Ok(Moved { is_held: true, .. })), Ordering::Relaxed);
        self.note(&moved);
    }

    async fn checkpoint(&mut self, manner: Manner) -> Result<Moved, DbError> {
        let (busy, pages, _): (i64, i64, i64) = sqlx::query_as(manner.pragma()).fetch_one(&mut self.conn).await?;
        Ok(Moved { is_held: busy != 0, pages })
    }

    /// Lets the writer go on, unless there was no room.
    fn note(&mut self, moved: &Result<Moved, DbError>) {
        let was_stuck = std::mem::replace(&mut self.is_stuck, matches!(moved, Err(DbError::Full)));
        self.log.is_full.store(self.is_stuck, Ordering::Relaxed);
        match moved {
            Ok(_) if was_stuck => tracing::info!("there is room on the disk again"),
            Ok(_) => {}
            Err(DbError::Full) if was_stuck => {}
            Err(error) => tracing::warn!(%error, "the log could not be moved into the database"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::{Access, Conn, Db, DbError};
    use super::BEGIN_ANEW_ABOVE_BYTES;
    use crate::config::BUSY_MACHINE;

    #[tokio::test]
    async fn the_log_stays_short_however_much_is_written() {
        const PIECE: u64 = 2 << 20;
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("test.db");
        let db =
            Db::open(&format!("sqlite://{}", path.display()), Access::Serve, BUSY_MACHINE).await.expect("a database");
        let mut longest = 0;
        for number in 0..40 {
            let stored: Result<(), DbError> = db
                .write(move |tx| {
                    async move {
                        let Conn::Sqlite(conn) = tx else { return Ok(()) };
                        let sql = "INSERT INTO service (name, value) VALUES ($1, hex(zeroblob($2)))";
                        let bytes = i64::try_from(PIECE / 2).expect("a size");
                        sqlx::query(sql).bind(number.to_string()).bind(bytes).execute(conn).await?;
                        Ok(())
                    }
                    .boxed()
                })
                .await;
            stored.expect("it is stored");
            longest = longest.max(std::fs::metadata(folder.path().join("test.db-wal")).expect("the log").len());
        }
        db.close().await;
        assert!(longest > PIECE && longest <= 3 * BEGIN_ANEW_ABOVE_BYTES, "{longest} bytes");
    }
}
