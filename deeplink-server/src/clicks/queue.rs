//! Where clicks wait for the writer, and where visits wait for their clicks.
//!
//! Clicks that come together share one batch and one [`Completion`], so a click costs no allocation of its own. A click
//! leaves the queue once: with its batch to the writer, or to the spill.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::Click;

/// Clicks that the writer takes at once.
pub(super) const MAX_BATCH: usize = 1_024;

/// Size of a batch after which it pays to wait for more clicks.
const BUSY_BATCH: usize = 8;

/// Whether the clicks of a batch are settled, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Completion {
    completed: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Completion {
    /// The clicks are stored, or kept where they will be: the visits go on.
    pub(super) fn complete(&self) {
        let mut waiting = lock(&self.waiting);
        self.completed.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut *waiting);
        drop(waiting);
        for waker in wakers {
            waker.wake();
        }
    }

    fn is_complete(&self) -> bool {
        self.completed.load(Ordering::Acquire)
    }
}

/// Resolves once a click is settled. Dropping it changes nothing for the click.
#[derive(Debug)]
#[must_use = "the visit is answered after its click is settled"]
pub(crate) struct Recorded {
    completion: Option<Arc<Completion>>,
    /// The index of this visit's waker.
    waker: Option<usize>,
}

impl Recorded {
    /// For a click that is settled already.
    pub(super) fn now() -> Self {
        Self { completion: None, waker: None }
    }
}

impl Future for Recorded {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { completion, waker } = &mut *self;
        let Some(completion) = completion else { return Poll::Ready(()) };
        if completion.is_complete() {
            return Poll::Ready(());
        }
        let mut waiting = lock(&completion.waiting);
        if completion.is_complete() {
            return Poll::Ready(());
        }
        if let Some(waker) = waker.and_then(|waker| waiting.get_mut(waker)) {
            waker.clone_from(context.waker());
        } else {
            *waker = Some(waiting.len());
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// Clicks that will be stored together.
#[derive(Debug)]
pub(super) struct ClickBatch {
    pub(super) clicks: Vec<Click>,
    pub(super) completion: Arc<Completion>,
    /// When the first of them came.
    pub(super) since: Instant,
}

/// The clicks that wait for the writer.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    full: VecDeque<ClickBatch>,
    open: Option<ClickBatch>,
    /// Clicks of the batch that was taken last.
    last: usize,
}

impl Waiting {
    fn front(&self) -> Option<&ClickBatch> {
        self.full.front().or(self.open.as_ref())
    }
}

impl Queue {
    /// Adds a click. `true` when it is the first that waits.
    pub(super) fn push(&self, click: Click) -> (Recorded, bool) {
        let mut waiting = lock(&self.0);
        let first = waiting.front().is_none();
        let batch = waiting.open.get_or_insert_with(|| ClickBatch {
            clicks: Vec::with_capacity(64),
            completion: Arc::default(),
            since: Instant::now(),
        });
        batch.clicks.push(click);
        let completion = Arc::clone(&batch.completion);
        if batch.clicks.len() >= MAX_BATCH {
            let full = waiting.open.take();
            waiting.full.extend(full);
        }
        (Recorded { completion: Some(completion), waker: None }, first)
    }

    /// Takes the clicks of one batch.
    pub(super) fn take(&self) -> Option<ClickBatch> {
        let mut waiting = lock(&self.0);
        let taken = waiting.full.pop_front().or_else(|| waiting.open.take());
        waiting.last = taken.as_ref().map_or(0, |batch| batch.clicks.len());
        taken
    }

    /// Takes everything.
    pub(super) fn take_all(&self) -> impl Iterator<Item = ClickBatch> + use<> {
        let Waiting { full, open, .. } = std::mem::take(&mut *lock(&self.0));
        full.into_iter().chain(open)
    }

    /// Since when the first click waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        lock(&self.0).front().map(|batch| batch.since)
    }

    /// Whether waiting a moment is likely to gather more: the last batch shows that many come, and this one has room.
    pub(super) fn may_grow(&self) -> bool {
        let waiting = lock(&self.0);
        waiting.full.is_empty() && waiting.last >= BUSY_BATCH
    }

    pub(super) fn len(&self) -> usize {
        let waiting = lock(&self.0);
        waiting.full.iter().chain(&waiting.open).map(|batch| batch.clicks.len()).sum()
    }
}

/// A lock whose holder never panics with a broken state, so poison says nothing.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
