//! The one task that ends connections past their limit.
//!
//! A request must not pay for a timer: it costs a few stores of a coarse clock (`watch`), and a sweep every `TICK`
//! compares them with the limits. The clock stands still while the process itself is stalled, so that a slow
//! server never blames its clients. Bodies are the exception (`exchange::RequestBody`): several may be on their way
//! over one HTTP/2 connection, and waiting for one is rare enough for a timer.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Limits;
use super::watch::{Order, Watch};

/// Between two sweeps. A limit is enforced at most two of these late and never early.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// What the connections of one listener share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    now_ms: AtomicU64,
    stopping: AtomicBool,
    crowded: AtomicBool,
    watches: Mutex<Vec<Arc<Watch>>>,
    arrived: Notify,
}

impl Shared {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            now_ms: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            watches: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    /// Begins to watch a connection that has just been accepted.
    pub(super) fn watch(self: &Arc<Self>) -> Arc<Watch> {
        let watch = Arc::new(Watch::new(Arc::clone(self)));
        let mut watches = lock(&self.watches);
        if watches.is_empty() {
            self.arrived.notify_one();
        }
        watches.push(Arc::clone(&watch));
        watch
    }

    /// Milliseconds of which this process had the use.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    /// Whether a connection waits to be let in.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded.load(Relaxed)
    }

    /// Says whether a connection waits to be let in.
    pub(super) fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Relaxed);
    }

    /// Whether every answer ends its connection.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// From now on every answer ends its connection.
    pub(super) fn set_stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Ends what is past its limit, for ever.
    pub(super) async fn sweep(self: Arc<Self>) {
        let mut last = Instant::now();
        loop {
            if lock(&self.watches).is_empty() {
                self.arrived.notified().await;
                last = Instant::now();
            }
            sleep(TICK).await;
            let passed = mem::replace(&mut last, Instant::now()).elapsed().min(2 * TICK);
            let now = self.now_ms() + millis(passed);
            self.now_ms.store(now, Relaxed);
            self.judge(|watch| watch.verdict(now));
        }
    }

    /// One round of a graceful stop that began `since` ago.
    pub(super) fn wind_down(&self, since: Duration) {
        let now = self.now_ms();
        self.judge(|watch| watch.last_orders(now, since));
    }

    /// Cuts every connection and tells how many there were.
    pub(super) fn cut_all(&self) -> usize {
        self.judge(|_| Some(Order::Cut))
    }

    fn judge(&self, verdict: impl Fn(&Watch) -> Option<Order>) -> usize {
        let mut watches = lock(&self.watches);
        watches.retain(|watch| !watch.is_gone());
        for watch in watches.iter() {
            if let Some(order) = verdict(watch) {
                watch.give(order);
            }
        }
        // A wave of connections must not hold its memory for ever.
        if watches.capacity() > 1024 && watches.len() < watches.capacity() / 4 {
            watches.shrink_to_fit();
        }
        watches.len()
    }
}

/// A length of time on the clock of [`Shared`].
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Nothing panics while it holds one of these locks, so a poisoned one is as good as new.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
