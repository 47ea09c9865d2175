//! Work that goes the way of the clicks: folds, what comes back from the spill, clicks told to webhooks, and what became of
//! deliveries.
//!
//! Like clicks it may commit without waiting for the disk. Through the ordinary door each piece of it would hold up the
//! clicks behind it for a sync.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::Intake;
use super::queue::lock;
use crate::db::{Conn, Db, DbError, Job, Ran};

/// Work that waits for the SQLite writer.
#[derive(Default)]
pub(super) struct Aside {
    jobs: VecDeque<Box<dyn Job>>,
    /// Clicks and the rest take turns.
    clicks_next: bool,
}

impl Aside {
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
    pub(super) async fn write<T, F>(&self, db: &Db, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Work { work: Some(work), result: None, reply });
        if db.is_sqlite() {
            lock(&self.aside).jobs.push_back(job);
            self.wake_writer.notify_one();
        } else {
            db.write_relaxed(job).await;
        }
        answer.await.unwrap_or_else(|_| Err(DbError::Unknown("the writer ended".into())))
    }
}

struct Work<T, F> {
    work: Option<F>,
    /// What came of it, or why nothing stays.
    result: Option<Result<T, String>>,
    reply: oneshot::Sender<Result<T, DbError>>,
}

impl<T, F> Job for Work<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
{
    fn run<'a>(&'a mut self, conn: Conn<'a>) -> BoxFuture<'a, Ran> {
        async move {
            let Some(work) = self.work.take() else { return Ran::Undo };
            match AssertUnwindSafe(work(conn)).catch_unwind().await.unwrap_or(Err(DbError::Panicked)) {
                Ok(value) => {
                    self.result = Some(Ok(value));
                    Ran::Keep
                }
                Err(error) => {
                    self.result = Some(Err(error.to_string()));
                    Ran::Failed(error)
                }
            }
        }
        .boxed()
    }

    fn answer(self: Box<Self>, outcome: Result<(), DbError>) {
        let result = match (outcome, self.result) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(Ok(value))) => Ok(value),
            (Ok(()), Some(Err(failure))) => Err(DbError::Unavailable(failure)),
            (Ok(()), None) => Err(DbError::Unknown("the job did not run".into())),
        };
        // Whoever asked may have gone.
        drop(self.reply.send(result));
    }
}
