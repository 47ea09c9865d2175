//! Writes that commit without fsync, as clicks do: folds, clicks from the spill, publishing clicks to webhooks, and delivery
//! results.
//!
//! As ordinary writes, each of them would delay the clicks behind it by an fsync.

use std::collections::VecDeque;

use super::Intake;
use super::queue::lock;
use crate::db::{Db, DbError, Job, WriteWork, job};
use crate::shares::Share;

/// Such writes that wait for the SQLite writer.
#[derive(Default)]
pub(super) struct LowDurabilityWrites {
    jobs: VecDeque<Box<dyn Job>>,
    /// Clicks and the rest take turns.
    clicks_next: bool,
}

impl LowDurabilityWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The next job, when it is its turn or nothing else waits.
    pub(super) fn take(&mut self, clicks_wait: bool) -> Option<Box<dyn Job>> {
        if self.jobs.is_empty() || (clicks_wait && std::mem::take(&mut self.clicks_next)) {
            return None;
        }
        self.clicks_next = true;
        self.jobs.pop_front()
    }
}

impl Intake {
    /// Runs `work` in a transaction of its own and gives its result once that is committed, if not yet on the disk.
    pub(super) async fn write<C, T, F>(&self, db: &Db, context: C, work: F) -> Result<T, DbError>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        F: WriteWork<C, T, DbError>,
    {
        let (job, answer) = job(context, work, |_, _| ());
        if db.is_sqlite() {
            lock(&self.low_durability).jobs.push_back(job);
            self.wake_writer.notify_one();
        } else {
            db.write_low_durability(Share::Service, job).await;
        }
        answer.await.unwrap_or_else(|_| Err(DbError::Unknown("the writer ended".into())))
    }
}
