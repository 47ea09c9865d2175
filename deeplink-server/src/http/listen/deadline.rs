//! One task ends all connections that exceed a time limit.
//!
//! Timers per request would be too expensive: a request stores a few times of a coarse clock (`state`), and a sweep every
//! `TICK` compares them with the limits. The clock stops while the process itself is stalled, so that clients are not
//! disconnected for a slow server. Bodies are the exception (`body::RequestBody`): one HTTP/2 connection can carry
//! several, and waiting for one is rare enough for a timer.

use std::cmp::Reverse;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Limits;
use super::share::Share;
use super::state::{Command, ConnectionState, InUse};
use super::unread::AllUnread;
use crate::shares::accounts::{Counts, Holder};
use crate::shares::budget::Used;

/// Interval of sweeps. A limit is enforced at most two of these late, and never early.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// A server is crowded while at most one place in this many is free.
const NEARLY_ALL: usize = 16;

/// Connections closed at once for others, because finding them means looking at all.
const CLOSED_AT_ONCE: usize = 16;

/// State shared by all connections of a listener.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    now_ms: AtomicU64,
    stopping: AtomicBool,
    /// A connection cannot be accepted, or waits for a place.
    waiting: AtomicBool,
    /// 0, or the time since which all or nearly all places are taken.
    crowded_since: AtomicU64,
    /// When body timeouts were shortened because connections or memory for requests became scarce; `None` if they are not.
    hurry_since: Mutex<Option<Instant>>,
    pub(super) unread: AllUnread,
    /// The same, by holder, if known.
    pub(super) unread_of_holders: Mutex<Counts<Holder>>,
    /// Bytes of requests in progress on all connections: of strangers without a body, and of all others.
    pub(super) visits: Used,
    pub(super) heads: Used,
    connections: Mutex<Vec<Arc<ConnectionState>>>,
    /// When no connection could be closed for a newcomer, and how many its address had.
    no_room: Mutex<(u64, usize)>,
    arrived: Notify,
}

impl Shared {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            now_ms: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            crowded_since: AtomicU64::new(0),
            hurry_since: Mutex::default(),
            unread: AllUnread::default(),
            unread_of_holders: Mutex::default(),
            visits: Used::default(),
            heads: Used::default(),
            connections: Mutex::default(),
            no_room: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    /// Adds a new connection of an address.
    pub(super) fn add(self: &Arc<Self>, share: Arc<Share>) -> Arc<ConnectionState> {
        let state = Arc::new(ConnectionState::new(Arc::clone(self), share));
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

    /// Whether slow clients must make way for others.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded_since().is_some()
    }

    /// Since when it is crowded.
    pub(super) fn crowded_since(&self) -> Option<u64> {
        Some(self.crowded_since.load(Relaxed)).filter(|since| *since > 0)
    }

    /// Sets whether a connection cannot be accepted, or waits for a place.
    pub(super) fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Relaxed);
        if waiting && !self.is_crowded() {
            self.crowded_since.store(self.now_ms(), Relaxed);
        }
    }

    /// Updates whether all or nearly all places are taken, with this many connections open.
    fn note_crowding(&self, open: usize) {
        let max = self.limits.connections;
        let is_crowded = self.waiting.load(Relaxed) || open + max / NEARLY_ALL >= max;
        if is_crowded != self.is_crowded() {
            self.crowded_since.store(if is_crowded { self.now_ms() } else { 0 }, Relaxed);
        }
    }

    /// When body timeouts were shortened, if they are.
    pub(super) fn hurry_since(&self) -> Option<Instant> {
        *lock(&self.hurry_since)
    }

    fn note_hurry(&self) {
        let must_hurry = self.is_crowded() || self.limits.heads_budget().is_nearly_used_up(&self.heads);
        let mut since = lock(&self.hurry_since);
        *since = must_hurry.then(|| since.unwrap_or_else(Instant::now));
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
            let open = self.send_commands(|state| state.overdue(now));
            self.close_partial();
            self.note_crowding(open);
            self.note_hurry();
        }
    }

    /// While incomplete request heads and TLS records take more memory than they may, closes connections with long ones: those
    /// that have sent theirs for longest.
    fn close_partial(&self) {
        let connections = lock(&self.connections);
        let partial = connections.iter().filter_map(|state| Some((state.partial()?, state)));
        let total: usize = partial.clone().map(|((bytes, _), _)| bytes).sum();
        let Some(mut excess) = total.checked_sub(self.limits.partial).filter(|excess| *excess > 0) else { return };
        let mut oldest: Vec<_> = partial.collect();
        oldest.sort_unstable_by_key(|((_, since), _)| *since);
        for ((bytes, _), state) in oldest {
            state.send(Command::Close);
            excess = excess.saturating_sub(bytes);
            if excess == 0 {
                return;
            }
        }
    }

    /// One round of a graceful stop that began `since` ago.
    pub(super) fn wind_down(&self, since: Duration) {
        let now = self.now_ms();
        self.send_commands(|state| state.stop_command(now, since));
    }

    /// Closes a few connections for one of `newcomer` that waits for a place: those that lose least, and of these those of the
    /// address that has most. Returns whether there were some.
    pub(super) fn make_room(&self, newcomer: &Share) -> bool {
        let (wants, now) = (newcomer.open(), self.now_ms());
        // Looking at all connections for each newcomer would cost more than refusing it.
        let (at, wanted) = *lock(&self.no_room);
        if at == now && wants >= wanted {
            return false;
        }
        let connections = lock(&self.connections);
        let candidates = || {
            connections.iter().filter(|state| !state.share.is_trusted).filter_map(|state| {
                let (in_use, since) = state.in_use()?;
                let has = state.share.open();
                let may_close = has >= wants.max(2)
                    && (in_use < InUse::Request || has > self.limits.connections_always() && has >= 2 * wants);
                may_close.then_some((in_use, Reverse(has), since, state))
            })
        };
        let first = candidates().min_by_key(|(in_use, has, since, _)| (*in_use, *has, *since));
        let Some((least, Reverse(has), _, first)) = first else {
            *lock(&self.no_room) = (now, wants);
            return false;
        };
        let alike = |(in_use, _, since, state): (InUse, _, u64, &Arc<ConnectionState>)| {
            (in_use == least && Arc::ptr_eq(&state.share, &first.share)).then(|| (since, Arc::clone(state)))
        };
        let mut found: Vec<_> = candidates().filter_map(alike).collect();
        found.sort_unstable_by_key(|(since, _)| *since);
        for (_, state) in found.iter().take(((has - wants) / 2).clamp(1, CLOSED_AT_ONCE)) {
            state.send(Command::Close);
        }
        true
    }

    /// Closes all connections and returns their number.
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
