//! Keeping the log of a SQLite file short: its pages are moved into the database away from the writer, which would
//! otherwise stop for it.
//!
//! Under steady load a log never comes to its end by itself, because there is always a commit that is not moved yet.
//! So past a certain length the writer is held back for the few milliseconds that the rest takes. The invariant: the
//! log never takes the room that moving it needs. When the disk is full, nothing is written before it has been moved.

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

/// What the writer and the keeper of the log know of each other.
#[derive(Debug, Default)]
pub(super) struct Log {
    turn: Mutex<()>,
    commits: AtomicU64,
    is_full: AtomicBool,
    wake: Notify,
}

impl Log {
    /// Waits until nobody is beginning the log anew, and keeps it from being begun anew.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Something was committed.
    pub(super) fn has_grown(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
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
            keeper.empty().await;
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
        let manner = match moved {
            Ok(pages) if pages > CUT_ABOVE => Manner::Truncate,
            Ok(pages) if pages > BEGIN_ANEW_ABOVE => Manner::Restart,
            _ => return self.note(moved),
        };
        let log = Arc::clone(&self.log);
        let _turn = log.turn().await;
        let moved = self.checkpoint(manner).await;
        self.note(moved);
    }

    /// Moves everything and cuts the file.
    async fn empty(&mut self) {
        let log = Arc::clone(&self.log);
        let _turn = log.turn().await;
        let moved = self.checkpoint(Manner::Truncate).await;
        self.note(moved);
    }

    /// Gives the number of pages in the log, moved or not. Somebody who is in the way is no error.
    async fn checkpoint(&mut self, manner: Manner) -> Result<i64, DbError> {
        let (_busy, pages, _moved): (i64, i64, i64) = sqlx::query_as(manner.pragma()).fetch_one(&mut self.conn).await?;
        Ok(pages)
    }

    /// Lets the writer go on, unless there was no room.
    fn note(&mut self, moved: Result<i64, DbError>) {
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
