//! The state of one connection for the sweep, and the commands it gets.
//!
//! The connection's task writes with relaxed stores, and the sweep reads. A reader may see one of two related stores, which
//! at worst delays a command by one sweep.

pub(super) mod timeouts;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::deadline::{Shared, lock};
use super::framing::Framing;
use super::share::Share;
use super::unread::{AllUnread, Counter};
use super::{Excess, Limits};
use crate::shares::accounts::{Counts, Holder};
use crate::shares::budget::{Used, UsedBy};

/// Maximum requests in progress on one HTTP/2 connection.
pub(super) const MAX_STREAMS: u32 = 128;
/// The same until one of them is authenticated. More requests wait, because the offered number cannot be raised later.
const MAX_ANONYMOUS_STREAMS: usize = 16;
/// Bytes of a request in progress without its headers; `deeplink-bench run unread` measures it.
const REQUEST_BYTES: usize = 16 << 10;
/// Bytes of one header line over HTTP/2. One that is in the client's compression table costs it one byte to send and some
/// 200 to hold, so bytes received do not bound the memory of request heads, as they do over HTTP/1.
const HEADER_BYTES: usize = 200;
/// Bytes of an HTTP/2 head whose first frame was decoded: few bytes can name many fields of the compression table.
pub(super) const OPEN_HEAD_BYTES: usize = 128 << 10;
/// Bytes of an incomplete request head that are not counted: most heads are shorter.
const MANY_PARTIAL: usize = 4 << 10;
/// Bytes over HTTP/2 that a client must accept within the limit for accepting none: more than one at a time.
pub(super) const PROGRESS_BYTES: u64 = 4 << 10;
/// Maximum requests that one HTTP/2 connection may abandon, beyond those it let finish.
pub(super) const MAX_ABANDONED: u32 = 256;

/// A command to a connection; a later command never weakens an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Command {
    /// Continue.
    Continue = 0,
    /// Finish requests in progress and close.
    Drain = 1,
    /// Close now.
    Close = 2,
}

/// The state of a connection without requests in progress; decides which limit applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Accepted, no byte received yet.
    Silent = 0,
    /// Part of a head has arrived.
    Head = 1,
    /// Between requests.
    Idle = 2,
}

/// Where a request is counted that is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool {
    /// Requests of unknown callers without a body, apart from the others so that unread responses to them do not cause
    /// sign-ins and creates to be refused.
    Visits,
    /// All others.
    Heads,
}

/// What would be lost if a connection were closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InUse {
    /// Nothing: no request is in progress.
    Not,
    /// An answer that the client is not reading.
    Unread,
    /// A request.
    Request,
}

/// The state of one connection. Written by the connection's own task, read by the sweep.
#[derive(Debug)]
pub(super) struct ConnectionState {
    shared: Arc<Shared>,
    pub(super) share: Arc<Share>,
    /// Bytes of answers that the client has not accepted yet.
    pub(super) unread: Counter,
    /// The phase in the low two bits, above it the millisecond in which it began.
    phase: AtomicU64,
    /// Requests in progress.
    exchanges: AtomicU32,
    /// HTTP/1: whether a request has begun since the socket was last read.
    begun_since_all_read: AtomicBool,
    half_head: AtomicBool,
    /// Bytes received of a request head, frame or TLS record that is not complete.
    partial: AtomicU32,
    /// The body of a request over HTTP/1 was dropped before its end.
    unread_body: AtomicBool,
    http2: AtomicBool,
    /// 0, or the time since which the socket accepts no bytes.
    blocked_since: AtomicU64,
    /// HTTP/2: requests that may begin now.
    streams: Semaphore,
    /// A request was authenticated.
    known: AtomicBool,
    /// HTTP/2: body chunks queued and not sent, the time of the last progress, and bytes sent since.
    unsent: AtomicU32,
    sent_at: AtomicU64,
    sent_since: AtomicU64,
    /// HTTP/2: requests dropped before their response, minus those that got one.
    abandoned: AtomicU32,
    framing: AtomicU8,
    slow: AtomicBool,
    /// 0, or the time since which our side is closed.
    shut_since: AtomicU64,
    command: AtomicU8,
    draining_since: AtomicU64,
    gone: AtomicBool,
    /// The holder that the last large response on this connection counts against.
    holder: Mutex<Option<Holder>>,
    waker: Mutex<Option<Waker>>,
}

impl ConnectionState {
    pub(super) fn new(shared: Arc<Shared>, share: Arc<Share>) -> Self {
        // A proxy's connection carries the requests of many clients.
        let streams = if share.is_trusted { MAX_STREAMS as usize } else { MAX_ANONYMOUS_STREAMS };
        let now = shared.now_ms();
        // A proxy's requests come from many clients.
        Self {
            shared,
            share,
            unread: Counter::default(),
            phase: AtomicU64::new(pack(Phase::Silent, now)),
            exchanges: AtomicU32::new(0),
            begun_since_all_read: AtomicBool::new(false),
            half_head: AtomicBool::new(false),
            partial: AtomicU32::new(0),
            unread_body: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            blocked_since: AtomicU64::new(0),
            streams: Semaphore::new(streams),
            known: AtomicBool::new(false),
            unsent: AtomicU32::new(0),
            sent_at: AtomicU64::new(0),
            sent_since: AtomicU64::new(0),
            abandoned: AtomicU32::new(0),
            framing: AtomicU8::new(Framing::Valid as u8),
            slow: AtomicBool::new(false),
            shut_since: AtomicU64::new(0),
            command: AtomicU8::new(Command::Continue as u8),
            draining_since: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            holder: Mutex::default(),
            waker: Mutex::default(),
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// The unread bytes of all connections.
    pub(super) fn all_unread(&self) -> &AllUnread {
        &self.shared.unread
    }

    /// The same, by holder.
    pub(super) fn unread_of_holders(&self) -> MutexGuard<'_, Counts<Holder>> {
        lock(&self.shared.unread_of_holders)
    }

    /// Stores the holder of the last large response.
    pub(super) fn set_holder(&self, holder: &Holder) {
        *lock(&self.holder) = Some(holder.clone());
    }

    // Reports of the socket.

    /// The scan has entered or left a head.
    pub(super) fn half_head(&self, half: bool) {
        self.half_head.store(half, Relaxed);
        if !self.is_busy() {
            // At the end of an HTTP/1 head its exchange begins, within the same poll.
            self.enter(if half { Phase::Head } else { Phase::Idle });
        }
    }

    /// Bytes were received that do not complete a request head, frame or TLS record.
    pub(super) fn received(&self, bytes: usize) {
        // Parts of a body may follow each other without a pause between frames; buffers hold no more than this.
        let all = usize::try_from(self.partial.load(Relaxed)).unwrap_or(usize::MAX).saturating_add(bytes);
        self.partial.store(u32::try_from(all.min(OPEN_HEAD_BYTES)).unwrap_or(u32::MAX), Relaxed);
    }

    /// It holds this much of an incomplete request head, frame or TLS record now; 0 if everything is complete.
    pub(super) fn holds(&self, rest: usize) {
        if self.partial.load(Relaxed) > 0 || rest > 0 {
            self.partial.store(u32::try_from(rest).unwrap_or(u32::MAX), Relaxed);
        }
    }

    /// How many bytes it holds of an incomplete request head, frame or TLS record, and since when, if they are many.
    pub(super) fn partial(&self) -> Option<(usize, u64)> {
        let bytes = usize::try_from(self.partial.load(Relaxed)).unwrap_or(usize::MAX);
        let is_waiting = !self.is_busy() || self.speaks_http2() && self.half_head.load(Relaxed);
        let is_many = bytes > MANY_PARTIAL && is_waiting && !self.share.is_trusted && !self.is_gone();
        is_many.then(|| (bytes, self.phase().1))
    }

    /// The TLS handshake is complete; no byte of a request was received yet.
    pub(super) fn secured(&self) {
        self.holds(0);
        self.half_head.store(false, Relaxed);
        self.enter(Phase::Silent);
    }

    /// The connection uses HTTP/2; its streams are the requests.
    pub(super) fn set_http2(&self) {
        self.http2.store(true, Relaxed);
        self.enter(Phase::Idle);
    }

    pub(super) fn speaks_http2(&self) -> bool {
        self.http2.load(Relaxed)
    }

    pub(super) fn set_framing(&self, framing: Framing) {
        self.framing.store(framing as u8, Relaxed);
    }

    pub(super) fn framing(&self) -> Framing {
        match self.framing.load(Relaxed) {
            0 => Framing::Valid,
            1 => Framing::Unscanned,
            _ => Framing::Ambiguous,
        }
    }

    /// The socket started or stopped refusing bytes.
    pub(super) fn blocked(&self, blocked: bool) {
        self.blocked_since.store(if blocked { self.now() } else { 0 }, Relaxed);
        // Over HTTP/1 a large answer is sent long after its exchange has ended.
        if !blocked && !self.is_busy() && self.phase().0 == Phase::Idle {
            self.enter(Phase::Idle);
        }
    }

    /// Our side is closed; further data is discarded.
    pub(super) fn shut(&self) {
        self.shut_since.store(self.now(), Relaxed);
    }

    /// Whether to wait for data that is still arriving.
    pub(super) fn may_linger(&self) -> bool {
        !self.slow.load(Relaxed) && !self.shared.is_crowded()
    }

    /// Whether to send 408 because a request head did not arrive in time.
    pub(super) fn timed_out_in_head(&self) -> bool {
        self.command() == Command::Close && self.phase().0 == Phase::Head && !self.is_busy() && !self.speaks_http2()
    }

    // Reports of the exchanges.

    /// Counts a request with this many headers, and returns where and its estimated size in bytes. Fails if its address, or
    /// all addresses, have too many in progress.
    pub(super) fn take_head(&self, headers: usize, has_body: bool) -> Result<(Pool, usize), Excess> {
        let bytes = REQUEST_BYTES + HEADER_BYTES * headers;
        let limits = self.limits();
        let (pool, budget) = match (self.is_anonymous(), has_body) {
            (true, false) => (Pool::Visits, limits.visits_budget()),
            (true, true) => (Pool::Heads, limits.heads_budget()),
            (false, _) => (Pool::Heads, limits.heads_budget().of_known()),
        };
        let (all, share) = self.used(pool);
        budget.take(bytes, all, share, self.share.is_trusted)?;
        Ok((pool, bytes))
    }

    pub(super) fn give_head_back(&self, pool: Pool, bytes: usize) {
        let (all, share) = self.used(pool);
        share.give_back(bytes);
        all.give_back(bytes);
    }

    fn used(&self, pool: Pool) -> (&Used, &UsedBy) {
        match pool {
            Pool::Visits => (&self.shared.visits, &self.share.visits),
            Pool::Heads => (&self.shared.heads, &self.share.heads),
        }
    }

    pub(super) fn begin_exchange(&self) {
        self.exchanges.fetch_add(1, Relaxed);
    }

    /// Everything that the client has sent was read.
    pub(super) fn has_read_all(&self) {
        self.begun_since_all_read.store(false, Relaxed);
    }

    /// Whether a request that begins now came with an earlier one, as its client pipelines them.
    pub(super) fn is_pipelined(&self) -> bool {
        !self.speaks_http2() && self.begun_since_all_read.swap(true, Relaxed)
    }

    pub(super) fn end_exchange(&self) {
        if self.exchanges.fetch_sub(1, Relaxed) == 1 {
            self.enter(if self.half_head.load(Relaxed) { Phase::Head } else { Phase::Idle });
        }
    }

    /// Waits until another HTTP/2 request may begin, and returns whether it may. The wait is short, because bodies of
    /// waiting requests can fill the window that the others' bodies need. `None`: it may begin now.
    pub(super) fn wait_for_stream(self: &Arc<Self>) -> Option<BoxFuture<'static, bool>> {
        if let Ok(permit) = self.streams.try_acquire() {
            permit.forget();
            return None;
        }
        let state = Arc::clone(self);
        let wait = async move {
            // The semaphore is never closed.
            let Ok(Ok(permit)) = timeout(state.limits().stream_wait, state.streams.acquire()).await else {
                return false;
            };
            permit.forget();
            true
        };
        Some(wait.boxed())
    }

    /// A request that had begun has ended.
    pub(super) fn end_stream(&self) {
        self.streams.add_permits(1);
    }

    /// Whether no request of the connection was authenticated yet.
    pub(super) fn is_anonymous(&self) -> bool {
        !self.known.load(Relaxed)
    }

    /// A request was authenticated: from now on the limits of the connection are those of a known caller.
    pub(super) fn set_known(&self) {
        if !self.share.is_trusted && !self.known.swap(true, Relaxed) {
            self.streams.add_permits(MAX_STREAMS as usize);
        }
    }

    /// A request got its response, or was dropped before.
    pub(super) fn answered(&self, answered: bool) {
        if !self.speaks_http2() {
            return;
        }
        let abandoned = self.abandoned.load(Relaxed);
        if answered {
            self.abandoned.store(abandoned.saturating_sub(1), Relaxed);
        } else if abandoned >= MAX_ABANDONED {
            self.send(Command::Close);
        } else {
            self.abandoned.store(abandoned + 1, Relaxed);
        }
    }

    /// A body did not arrive in time.
    pub(super) fn set_slow(&self) {
        self.slow.store(true, Relaxed);
    }

    /// Sets whether the body of a request over HTTP/1 was not read to its end.
    pub(super) fn set_unread_body(&self, is_unread: bool) {
        self.unread_body.store(is_unread, Relaxed);
    }

    pub(super) fn has_unread_body(&self) -> bool {
        self.unread_body.load(Relaxed)
    }

    /// Whether this response is the connection's last.
    pub(super) fn is_closing(&self) -> bool {
        self.shared.is_stopping()
    }

    pub(super) fn chunk_queued(&self) {
        if self.unsent.fetch_add(1, Relaxed) == 0 {
            self.sent_since.store(PROGRESS_BYTES, Relaxed);
            self.chunk_progress(0);
        }
    }

    /// Bytes of a chunk were sent. Few are no progress: a client could accept one now and then on any of its streams, and
    /// the server would hold the answers of all.
    pub(super) fn chunk_progress(&self, bytes: u64) {
        let sent = self.sent_since.load(Relaxed) + bytes;
        let is_progress = sent >= PROGRESS_BYTES;
        self.sent_since.store(if is_progress { 0 } else { sent }, Relaxed);
        if is_progress {
            self.sent_at.store(self.now(), Relaxed);
        }
    }

    pub(super) fn chunk_sent(&self) {
        self.unsent.fetch_sub(1, Relaxed);
    }

    // Commands.

    pub(super) fn command(&self) -> Command {
        match self.command.load(Relaxed) {
            0 => Command::Continue,
            1 => Command::Drain,
            _ => Command::Close,
        }
    }

    /// Registers the waker for commands.
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

    pub(super) fn send(&self, command: Command) {
        if command == Command::Drain && self.command() == Command::Continue {
            self.draining_since.store(self.now(), Relaxed);
        }
        // The lock synchronizes with a task that is registering its waker.
        if self.command.fetch_max(command as u8, Relaxed) < command as u8
            && let Some(waker) = &*lock(&self.waker)
        {
            waker.wake_by_ref();
        }
    }

    /// How little is lost if the connection is closed for another, the least first, and since when that is so; `None` if it is
    /// being closed.
    pub(super) fn in_use(&self) -> Option<(InUse, u64)> {
        if self.is_gone() || self.command() == Command::Close {
            return None;
        }
        let blocked_since = self.blocked_since.load(Relaxed);
        if blocked_since > 0 || self.unsent.load(Relaxed) > 0 {
            let since = if blocked_since > 0 { blocked_since } else { self.sent_at.load(Relaxed) };
            return Some((InUse::Unread, since));
        }
        let (_, since) = self.phase();
        Some((if self.is_busy() { InUse::Request } else { InUse::Not }, since))
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
