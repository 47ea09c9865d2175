//! What is known of each connection's progress, and the one task that ends those past their limit.
//!
//! A request must not pay for a timer: it costs a few relaxed stores of a coarse clock, and a sweep every `TICK`
//! compares them with the limits. The clock stands still while the process itself is stalled, so that a slow
//! server never blames its clients. Bodies are the exception (`exchange::RequestBody`): several may be on their way
//! over one HTTP/2 connection, and waiting for one is rare enough for a timer.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Limits;
use super::framing::Trust;

/// Between two sweeps. A limit is enforced at most two of these late and never early.
const TICK: Duration = Duration::from_millis(250);
/// While somebody waits for a place, an idle connection keeps its own only this long.
const CROWDED_IDLE: Duration = Duration::from_secs(5);
/// How long the rest of what a client is still sending is read and dropped after our side has been closed:
/// closing at once would reset the connection and could take the answer with it.
const LINGER: Duration = Duration::from_secs(2);
/// On a stop, a connection used within this time probably has its next request under way …
const RECENT: Duration = Duration::from_secs(1);
/// … and is given this long for it. The answer then says `Connection: close`.
const GRACE: Duration = Duration::from_millis(300);
/// Requests that one HTTP/2 connection may abandon beyond those it let finish.
const ABANDONED: u32 = 256;

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

    /// Says whether a connection waits to be let in.
    pub(super) fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Relaxed);
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
            let now = self.now_ms.load(Relaxed) + millis(passed);
            self.now_ms.store(now, Relaxed);
            self.judge(|watch| watch.verdict(now));
        }
    }

    /// One round of a graceful stop that began `since` ago.
    pub(super) fn wind_down(&self, since: Duration) {
        let now = self.now_ms.load(Relaxed);
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

/// What a connection is told to do; a later order never weakens an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Go on.
    Serve = 0,
    /// Finish what has begun and close.
    Retire = 1,
    /// End now.
    Cut = 2,
}

/// What a connection is doing, and thereby which limit applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Accepted; not one byte so far.
    Silent = 0,
    /// Part of a head has arrived.
    Head = 1,
    /// At least one request is being answered.
    Busy = 2,
    /// Between requests.
    Idle = 3,
}

/// One connection as the sweep sees it. Written by the connection's own task, read by the sweep.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    /// The phase in the low two bits, above it the millisecond in which it began.
    phase: AtomicU64,
    exchanges: AtomicU32,
    half_head: AtomicBool,
    http2: AtomicBool,
    /// 0, or since when the socket takes no more bytes.
    blocked_since: AtomicU64,
    /// HTTP/2: body pieces handed over and not sent, and when one last moved.
    unsent: AtomicU32,
    sent_at: AtomicU64,
    /// HTTP/2: requests dropped before their answer, less those answered.
    abandoned: AtomicU32,
    trust: AtomicU8,
    slow: AtomicBool,
    /// 0, or since when our side is closed.
    shut_since: AtomicU64,
    order: AtomicU8,
    retiring_since: AtomicU64,
    gone: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Watch {
    fn new(shared: Arc<Shared>) -> Self {
        let now = shared.now_ms.load(Relaxed);
        Self {
            shared,
            phase: AtomicU64::new(pack(Phase::Silent, now)),
            exchanges: AtomicU32::new(0),
            half_head: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            blocked_since: AtomicU64::new(0),
            unsent: AtomicU32::new(0),
            sent_at: AtomicU64::new(0),
            abandoned: AtomicU32::new(0),
            trust: AtomicU8::new(Trust::Sure as u8),
            slow: AtomicBool::new(false),
            shut_since: AtomicU64::new(0),
            order: AtomicU8::new(Order::Serve as u8),
            retiring_since: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            waker: Mutex::default(),
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    // What the socket reports.

    /// The scan has entered or left a head.
    pub(super) fn half_head(&self, half: bool) {
        self.half_head.store(half, Relaxed);
        if self.exchanges.load(Relaxed) == 0 {
            // The end of an HTTP/1 head is the beginning of its exchange, within the same poll.
            self.enter(if half { Phase::Head } else { Phase::Idle });
        }
    }

    /// The connection speaks HTTP/2; its streams are requests, its own bytes are none.
    pub(super) fn is_http2(&self) {
        self.http2.store(true, Relaxed);
        self.enter(Phase::Idle);
    }

    pub(super) fn speaks_http2(&self) -> bool {
        self.http2.load(Relaxed)
    }

    pub(super) fn set_trust(&self, trust: Trust) {
        self.trust.store(trust as u8, Relaxed);
    }

    pub(super) fn trust(&self) -> Trust {
        match self.trust.load(Relaxed) {
            0 => Trust::Sure,
            1 => Trust::Unread,
            _ => Trust::Doubtful,
        }
    }

    /// The socket began or ceased to refuse bytes.
    pub(super) fn blocked(&self, blocked: bool) {
        self.blocked_since.store(if blocked { self.now() } else { 0 }, Relaxed);
    }

    /// Our side is closed; what still arrives is dropped.
    pub(super) fn shut(&self) {
        self.shut_since.store(self.now(), Relaxed);
    }

    /// Whether what still arrives deserves to be waited for.
    pub(super) fn may_linger(&self) -> bool {
        !self.slow.load(Relaxed) && !self.shared.crowded.load(Relaxed)
    }

    /// Whether a client that has stopped sending should be told so.
    pub(super) fn timed_out_in_head(&self) -> bool {
        self.order() == Order::Cut && self.phase().0 == Phase::Head && !self.speaks_http2()
    }

    // What the exchanges report.

    pub(super) fn begin_exchange(&self) {
        if self.exchanges.fetch_add(1, Relaxed) == 0 {
            self.enter(Phase::Busy);
        }
    }

    pub(super) fn end_exchange(&self) {
        if self.exchanges.fetch_sub(1, Relaxed) == 1 {
            self.enter(if self.half_head.load(Relaxed) { Phase::Head } else { Phase::Idle });
        }
    }

    /// A request was answered, or dropped before its answer.
    pub(super) fn answered(&self, answered: bool) {
        if !self.speaks_http2() {
            return;
        }
        let abandoned = self.abandoned.load(Relaxed);
        if answered {
            self.abandoned.store(abandoned.saturating_sub(1), Relaxed);
        } else if abandoned >= ABANDONED {
            self.give(Order::Cut);
        } else {
            self.abandoned.store(abandoned + 1, Relaxed);
        }
    }

    /// A body was not delivered in time.
    pub(super) fn is_slow(&self) {
        self.slow.store(true, Relaxed);
    }

    /// Whether this answer is the connection's last.
    pub(super) fn is_closing(&self) -> bool {
        self.shared.stopping.load(Relaxed)
    }

    pub(super) fn piece_made(&self) {
        if self.unsent.fetch_add(1, Relaxed) == 0 {
            self.piece_moved();
        }
    }

    pub(super) fn piece_moved(&self) {
        self.sent_at.store(self.now(), Relaxed);
    }

    pub(super) fn piece_sent(&self) {
        self.unsent.fetch_sub(1, Relaxed);
        self.piece_moved();
    }

    // Orders.

    pub(super) fn order(&self) -> Order {
        match self.order.load(Relaxed) {
            0 => Order::Serve,
            1 => Order::Retire,
            _ => Order::Cut,
        }
    }

    /// Whom to wake when there is an order.
    pub(super) fn wake_with(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }

    pub(super) fn leave(&self) {
        self.gone.store(true, Relaxed);
        *lock(&self.waker) = None;
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    fn give(&self, order: Order) {
        if order == Order::Retire && self.order() == Order::Serve {
            self.retiring_since.store(self.now(), Relaxed);
        }
        // The lock orders this with a task that is just registering its waker.
        if self.order.fetch_max(order as u8, Relaxed) < order as u8
            && let Some(waker) = &*lock(&self.waker)
        {
            waker.wake_by_ref();
        }
    }

    fn verdict(&self, now: u64) -> Option<Order> {
        let limits = self.limits();
        // Stamps may be a tick old already when they are made: the extra tick keeps this from being early.
        let past = |since: u64, limit: Duration| now.saturating_sub(since) >= millis(limit + TICK);
        let blocked_since = self.blocked_since.load(Relaxed);
        if blocked_since > 0 && past(blocked_since, limits.write_stall) {
            return Some(Order::Cut);
        }
        let unsent = self.unsent.load(Relaxed);
        if unsent > 0 && past(self.sent_at.load(Relaxed), limits.write_stall) {
            return Some(Order::Cut);
        }
        let crowded = self.shared.crowded.load(Relaxed);
        let shut_since = self.shut_since.load(Relaxed);
        if shut_since > 0 {
            return (crowded || past(shut_since, LINGER)).then_some(Order::Cut);
        }
        let idle = if crowded { limits.keep_alive_idle.min(CROWDED_IDLE) } else { limits.keep_alive_idle };
        let (phase, since) = self.phase();
        match phase {
            Phase::Silent => past(since, limits.first_byte).then_some(Order::Cut),
            Phase::Head => past(since, limits.head).then_some(Order::Cut),
            Phase::Busy => None,
            // A client that does not answer the farewell of HTTP/2 is not waited for, once it has what it asked for.
            Phase::Idle if self.order() == Order::Retire => {
                let since = since.max(self.retiring_since.load(Relaxed));
                (unsent == 0 && past(since, TICK)).then_some(Order::Cut)
            }
            Phase::Idle => past(since, idle).then_some(Order::Retire),
        }
    }

    fn last_orders(&self, now: u64, since_stop: Duration) -> Option<Order> {
        let shut_since = self.shut_since.load(Relaxed);
        if shut_since > 0 {
            return (now.saturating_sub(shut_since) >= millis(GRACE)).then_some(Order::Cut);
        }
        if self.speaks_http2() {
            // GOAWAY lets what has begun finish and tells the client what to repeat elsewhere.
            return Some(Order::Retire);
        }
        match self.phase() {
            (Phase::Silent | Phase::Idle, since) => {
                let unused = now.saturating_sub(since) >= millis(RECENT) || since_stop >= GRACE;
                unused.then_some(Order::Retire)
            }
            (Phase::Head | Phase::Busy, _) => None,
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(pack(phase, self.now()), Relaxed);
    }

    fn phase(&self) -> (Phase, u64) {
        let packed = self.phase.load(Relaxed);
        let phase = match packed & 3 {
            0 => Phase::Silent,
            1 => Phase::Head,
            2 => Phase::Busy,
            _ => Phase::Idle,
        };
        (phase, packed >> 2)
    }

    fn now(&self) -> u64 {
        self.shared.now_ms.load(Relaxed)
    }
}

const fn pack(phase: Phase, since: u64) -> u64 {
    since << 2 | phase as u64
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Nothing panics while it holds one of these locks, so a poisoned one is as good as new.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
