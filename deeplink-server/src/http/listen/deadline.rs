//! One task ends all connections that exceed a time limit.
//!
//! Timers per request would be too expensive: a request stores a few times of a coarse clock (`state`), and a sweep every
//! `TICK` compares them with the limits. The clock stops while the process itself is stalled, so that clients are not cut
//! for a slow server. Bodies are the exception (`exchange::RequestBody`): one HTTP/2 connection can carry several, and
//! waiting for one is rare enough for a timer.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Limits;
use super::state::{Command, ConnectionState};

/// Interval of sweeps. A limit is enforced at most two of these late, and never early.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// State shared by all connections of a listener.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    now_ms: AtomicU64,
    stopping: AtomicBool,
    crowded: AtomicBool,
    connections: Mutex<Vec<Arc<ConnectionState>>>,
    arrived: Notify,
}

impl Shared {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            now_ms: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            connections: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    /// Adds a new connection.
    pub(super) fn add(self: &Arc<Self>) -> Arc<ConnectionState> {
        let state = Arc::new(ConnectionState::new(Arc::clone(self)));
        let mut connections = lock(&self.connections);
        if connections.is_empty() {
            self.arrived.notify_one();
        }
        connections.push(Arc::clone(&state));
        state
    }

    /// Milliseconds since the start, without the time in which the process was stalled.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    /// Whether a connection is waiting because the maximum is reached.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded.load(Relaxed)
    }

    /// Sets whether a connection is waiting because the maximum is reached.
    pub(super) fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Relaxed);
    }

    /// Whether every response ends its connection.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// From now on every response ends its connection.
    pub(super) fn set_stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Ends connections that exceed a limit; never returns.
    pub(super) async fn sweep(self: Arc<Self>) {
        let mut last = Instant::now();
        loop {
            if lock(&self.connections).is_empty() {
                self.arrived.notified().await;
                last = Instant::now();
            }
            sleep(TICK).await;
            let passed = mem::replace(&mut last, Instant::now()).elapsed().min(2 * TICK);
            let now = self.now_ms() + millis(passed);
            self.now_ms.store(now, Relaxed);
            self.send_commands(|state| state.overdue(now));
        }
    }

    /// One round of a graceful stop that began `since` ago.
    pub(super) fn wind_down(&self, since: Duration) {
        let now = self.now_ms();
        self.send_commands(|state| state.stop_command(now, since));
    }

    /// Cuts all connections and returns their number.
    pub(super) fn cut_all(&self) -> usize {
        self.send_commands(|_| Some(Command::Close))
    }

    fn send_commands(&self, command_for: impl Fn(&ConnectionState) -> Option<Command>) -> usize {
        let mut connections = lock(&self.connections);
        connections.retain(|state| !state.is_gone());
        for state in connections.iter() {
            if let Some(command) = command_for(state) {
                state.send(command);
            }
        }
        // A peak of connections must not keep its memory forever.
        if connections.capacity() > 1024 && connections.len() < connections.capacity() / 4 {
            connections.shrink_to_fit();
        }
        connections.len()
    }
}

/// A duration in milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Nothing panics while holding these locks, so poisoning can be ignored.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
