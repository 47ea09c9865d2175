//! One connection as the sweep sees it: what it is doing since when, and what it is told to do.
//!
//! The connection's own task writes, with plain stores, and the sweep reads. A reader may see one of two stores that
//! belong together, which at worst delays a verdict by one sweep.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use super::Limits;
use super::deadline::{Shared, TICK, lock, millis};
use super::framing::Trust;

/// While somebody waits for a place, an idle connection keeps its own only this long.
const CROWDED_IDLE: Duration = Duration::from_secs(5);
/// How long the rest of what a client is still sending is read and dropped after our side has been closed:
/// closing at once would reset the connection and could take the answer with it.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// On a stop, a connection used within this time probably has its next request under way …
const RECENT: Duration = Duration::from_secs(1);
/// … and is given this long for it. The answer then says `Connection: close`.
const GRACE: Duration = Duration::from_millis(300);
/// Requests that one HTTP/2 connection may abandon beyond those it let finish.
pub(super) const ABANDONED: u32 = 256;

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

/// What a connection is doing while no request is being answered, and thereby which limit applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Accepted; not one byte so far.
    Silent = 0,
    /// Part of a head has arrived.
    Head = 1,
    /// Between requests.
    Idle = 2,
}

/// One connection as the sweep sees it. Written by the connection's own task, read by the sweep.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    /// The phase in the low two bits, above it the millisecond in which it began.
    phase: AtomicU64,
    /// Requests that are being answered.
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
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let now = shared.now_ms();
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
        if !self.is_busy() {
            // The end of an HTTP/1 head is the beginning of its exchange, within the same poll.
            self.enter(if half { Phase::Head } else { Phase::Idle });
        }
    }

    /// TLS is agreed on: the client has not said anything so far that counts as a request.
    pub(super) fn secured(&self) {
        self.half_head.store(false, Relaxed);
        self.enter(Phase::Silent);
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
        !self.slow.load(Relaxed) && !self.shared.is_crowded()
    }

    /// Whether a client that has stopped sending should be told so.
    pub(super) fn timed_out_in_head(&self) -> bool {
        self.order() == Order::Cut && self.phase().0 == Phase::Head && !self.is_busy() && !self.speaks_http2()
    }

    // What the exchanges report.

    pub(super) fn begin_exchange(&self) {
        self.exchanges.fetch_add(1, Relaxed);
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
        self.shared.is_stopping()
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

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    pub(super) fn give(&self, order: Order) {
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

    /// What the sweep has to say at this millisecond.
    pub(super) fn verdict(&self, now: u64) -> Option<Order> {
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
        let crowded = self.shared.is_crowded();
        let shut_since = self.shut_since.load(Relaxed);
        if shut_since > 0 {
            return (crowded || past(shut_since, LINGER)).then_some(Order::Cut);
        }
        if self.is_busy() {
            return None;
        }
        let idle = if crowded { limits.keep_alive_idle.min(CROWDED_IDLE) } else { limits.keep_alive_idle };
        let (phase, since) = self.phase();
        match phase {
            Phase::Silent => past(since, limits.first_byte).then_some(Order::Cut),
            Phase::Head => past(since, limits.head).then_some(Order::Cut),
            // A client that does not answer the farewell of HTTP/2 is not waited for, once it has what it asked for.
            Phase::Idle if self.order() == Order::Retire => {
                let since = since.max(self.retiring_since.load(Relaxed));
                (unsent == 0 && past(since, TICK)).then_some(Order::Cut)
            }
            Phase::Idle => past(since, idle).then_some(Order::Retire),
        }
    }

    /// As [`Self::verdict`], while a graceful stop is under way.
    pub(super) fn last_orders(&self, now: u64, since_stop: Duration) -> Option<Order> {
        let shut_since = self.shut_since.load(Relaxed);
        if shut_since > 0 {
            return (now.saturating_sub(shut_since) >= millis(GRACE)).then_some(Order::Cut);
        }
        if self.speaks_http2() {
            // GOAWAY lets what has begun finish and tells the client what to repeat elsewhere.
            return Some(Order::Retire);
        }
        let (phase, since) = self.phase();
        if self.is_busy() || phase == Phase::Head {
            return None;
        }
        (now.saturating_sub(since) >= millis(RECENT) || since_stop >= GRACE).then_some(Order::Retire)
    }

    fn is_busy(&self) -> bool {
        self.exchanges.load(Relaxed) > 0
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(pack(phase, self.now()), Relaxed);
    }

    fn phase(&self) -> (Phase, u64) {
        let packed = self.phase.load(Relaxed);
        let phase = match packed & 3 {
            0 => Phase::Silent,
            1 => Phase::Head,
            _ => Phase::Idle,
        };
        (phase, packed >> 2)
    }

    fn now(&self) -> u64 {
        self.shared.now_ms()
    }
}

const fn pack(phase: Phase, since: u64) -> u64 {
    since << 2 | phase as u64
}
