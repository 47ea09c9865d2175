//! The queue of pending writes of the SQLite writer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::jobs::Job;
use super::{DbError, MAX_WAITING_WRITES};
use crate::shares::{Turn, Turns};

/// If writes of the same share and kind with at least this cost were ahead of it, a write that is not started in time fails with
/// the error that the share is used up.
const MUCH: u64 = 16;

/// A write, and the deadline for starting it.
struct Queued {
    job: Box<dyn Job>,
    deadline: Instant,
    /// Whether much work of its share and kind was waiting before it.
    is_behind_much: bool,
}

impl Queued {
    fn refuse_overdue(self) {
        self.job.answer(Err(refusal(self.is_behind_much)));
    }
}

/// Why a write is refused.
fn refusal(is_behind_much: bool) -> DbError {
    if is_behind_much { DbError::ShareUsedUp } else { DbError::Overloaded }
}

/// The queue. No write starts after its deadline.
pub(super) struct Queue {
    state: Mutex<State>,
    news: Notify,
}

struct State {
    turns: Turns<Queued>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new() -> Self {
        let state = State { turns: Turns::new(), is_closed: false };
        Self { state: Mutex::new(state), news: Notify::new() }
    }

    /// Adds a write, unless its share of pending writes is used up.
    pub(super) fn push(&self, turn: Turn, job: Box<dyn Job>, deadline: Instant) -> Result<(), DbError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(DbError::Unavailable("the server is stopping".into()));
        }
        let is_behind_much = turn.share.is_the_callers() && state.turns.cost_before(&turn) >= MUCH;
        if !state.turns.push(turn, MAX_WAITING_WRITES, Queued { job, deadline, is_behind_much }) {
            return Err(refusal(is_behind_much));
        }
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    /// Resolves when a write is pending (`true`), or when none is and none will be.
    pub(super) async fn ready(&self) -> bool {
        loop {
            {
                let state = self.state();
                if state.turns.len() > 0 || state.is_closed {
                    return state.turns.len() > 0;
                }
            }
            self.news.notified().await;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.state().turns.len()
    }

    /// The next write in turn, with `is_small` only a small one. Overdue ones are refused instead.
    pub(super) fn next(&self, is_small: bool) -> Option<Box<dyn Job>> {
        loop {
            let next = self.state().turns.next(|_, is_large| !(is_small && is_large))?;
            if next.deadline > Instant::now() {
                return Some(next.job);
            }
            next.refuse_overdue();
        }
    }

    /// Refuses overdue writes.
    pub(super) fn refuse_overdue(&self) {
        let now = Instant::now();
        let overdue = self.state().turns.take_over(|queued| queued.deadline <= now);
        overdue.into_iter().for_each(Queued::refuse_overdue);
    }

    /// Refuses everything.
    pub(super) fn refuse_all(&self, error: impl Fn() -> DbError) {
        let all = self.state().turns.take_over(|_| true);
        for Queued { job, .. } in all {
            job.answer(Err(error()));
        }
    }

    /// Accepts no more writes. Pending ones still run.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.news.notify_one();
    }

    /// Whether the queue is empty and accepts no more writes.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.state();
        state.is_closed && state.turns.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
