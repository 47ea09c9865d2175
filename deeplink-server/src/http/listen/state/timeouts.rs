//! How long a connection may take: the command that it gets from the sweep once it has taken longer, and the deadline of a
//! body. Limits are shorter while connections or memory are scarce.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use super::super::deadline::{TICK, lock, millis};
use super::{Command, ConnectionState, Phase};

/// Idle timeout while all or nearly all places are taken.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a request head while crowded, from its first byte or from when crowding began.
const CROWDED_HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout while connections or memory for requests are scarce: for the whole body of an unknown caller, or between two
/// reads of a known caller's.
pub(in crate::http::listen) const HURRIED_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a client that accepts nothing while the budget for unread answers is used up, or nearly so if its address has
/// much of it.
pub(in crate::http::listen) const PRESSING_WRITE_STALL: Duration = Duration::from_secs(2);
/// How long data that a client is still sending is read and discarded after our side was closed: closing at once would reset
/// the connection, and the client could lose the response.
pub(in crate::http::listen) const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// On a stop, a connection used within this time may have its next request in flight …
const RECENT_USE: Duration = Duration::from_secs(1);
/// … and gets this long for it. The response then has `Connection: close`.
const RECENT_USE_GRACE: Duration = Duration::from_millis(300);

impl ConnectionState {
    /// The deadline of a body that the application has been waiting for since `began`; its current read has been pending
    /// since `waiting`.
    pub(in crate::http::listen) fn body_deadline(&self, began: Instant, waiting: Instant) -> Instant {
        let limits = self.limits();
        let usual = (began + limits.body_total).min(waiting + limits.body_idle);
        // A wait that began earlier is measured from then, so no client is disconnected for time that it was allowed.
        self.shared.hurry_since().map_or(usual, |since| {
            let from = if self.is_anonymous() { began } else { waiting };
            usual.min(from.max(since) + HURRIED_TIMEOUT)
        })
    }

    /// The command of the sweep at this time, if any.
    pub(in crate::http::listen) fn overdue(&self, now: u64) -> Option<Command> {
        let limits = self.limits();
        // Stored times may be a tick old, so an extra tick keeps this from being early.
        let past = |since: u64, limit: Duration| now.saturating_sub(since) >= millis(limit + TICK);
        let has_much = self.share.unread.get() > limits.unread_budget().always;
        let visits = limits.visits_budget();
        // Answers that all clients share are not counted as unread, but their requests are.
        let is_pressing = self.all_unread().is_pressing(limits.unread, has_much)
            || (visits.is_nearly_used_up(&self.shared.visits) && self.share.visits.address.get() > visits.always);
        let blocked_since = self.blocked_since.load(Relaxed);
        let unsent = self.unsent.load(Relaxed);
        let is_pressing = is_pressing || (blocked_since > 0 || unsent > 0) && self.holder_has_much();
        let stall = if is_pressing { limits.write_stall.min(PRESSING_WRITE_STALL) } else { limits.write_stall };
        if blocked_since > 0 && past(blocked_since, stall) {
            return Some(Command::Close);
        }
        if unsent > 0 && past(self.sent_at.load(Relaxed), stall) {
            return Some(Command::Close);
        }
        let crowded_since = self.shared.crowded_since();
        let crowded = crowded_since.is_some();
        let shut_since = self.shut_since.load(Relaxed);
        if shut_since > 0 {
            return (crowded || past(shut_since, LINGER_TIMEOUT)).then_some(Command::Close);
        }
        if self.is_busy() || blocked_since > 0 {
            return None;
        }
        let idle = if crowded { limits.keep_alive_idle.min(CROWDED_IDLE_TIMEOUT) } else { limits.keep_alive_idle };
        let (phase, since) = self.phase();
        // What began earlier counts from when crowding began, so no client is disconnected for time that it was allowed.
        let head_past = |limit: Duration| {
            past(since, limit) || crowded_since.is_some_and(|crowded| past(since.max(crowded), CROWDED_HEAD_TIMEOUT))
        };
        match phase {
            Phase::Silent => head_past(limits.first_byte).then_some(Command::Close),
            Phase::Head => head_past(limits.head).then_some(Command::Close),
            // A client that ignores GOAWAY is disconnected once it has all its responses.
            Phase::Idle if self.command() == Command::Drain => {
                let since = since.max(self.draining_since.load(Relaxed));
                (unsent == 0 && past(since, TICK)).then_some(Command::Close)
            }
            Phase::Idle => past(since, idle).then_some(Command::Drain),
        }
    }

    /// The command during a graceful stop, if any.
    pub(in crate::http::listen) fn stop_command(&self, now: u64, since_stop: Duration) -> Option<Command> {
        let shut_since = self.shut_since.load(Relaxed);
        if shut_since > 0 {
            return (now.saturating_sub(shut_since) >= millis(RECENT_USE_GRACE)).then_some(Command::Close);
        }
        if self.speaks_http2() {
            // GOAWAY lets started requests finish and tells the client which to retry elsewhere.
            return Some(Command::Drain);
        }
        let (phase, since) = self.phase();
        if self.is_busy() || phase == Phase::Head {
            return None;
        }
        (now.saturating_sub(since) >= millis(RECENT_USE) || since_stop >= RECENT_USE_GRACE).then_some(Command::Drain)
    }

    /// Whether the holder of the last large response has used more than half of its unread budget. A proxy's connection
    /// carries the responses of many holders.
    fn holder_has_much(&self) -> bool {
        if self.share.is_trusted {
            return false;
        }
        let holder = lock(&self.holder);
        let most = self.limits().unread_budget().of_address();
        holder.as_ref().is_some_and(|holder| self.unread_of_holders().of(holder) > most / 2)
    }
}
