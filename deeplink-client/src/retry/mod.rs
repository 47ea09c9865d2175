//! When a failed attempt is retried: the table, the backoff, and the budget that keeps retries from overloading a failing
//! service. Everything here is a pure decision; `send` executes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deeplink_core::secret::Random;
use http::Method;

use crate::transport::Failure;

mod after;
#[cfg(feature = "doctor")]
pub(crate) use after::http_date;
pub(crate) use after::retry_after;

/// How many times a call is repeated, and after what wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    attempts: u32,
    base: Duration,
    cap: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, base: Duration::from_millis(250), cap: Duration::from_secs(8) }
    }
}

impl Retry {
    /// One attempt, no repeat.
    pub fn none() -> Self {
        Self::attempts(1)
    }

    /// At most this many attempts, including the first; at least one is made.
    pub fn attempts(attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..Self::default() }
    }

    /// Sets the waits: random up to `base` before the second attempt, doubling before each further one, up to `cap`.
    pub fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.base = base;
        self.cap = cap;
        self
    }

    pub(crate) fn allows_another(&self, made: u32) -> bool {
        made < self.attempts
    }

    /// The wait after `made` attempts; at least what `Retry-After` requires.
    pub(crate) fn delay(&self, made: u32, asked: Option<Duration>, random: &mut Random) -> Duration {
        let factor = 1_u32.checked_shl(made.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = self.base.saturating_mul(factor).min(self.cap);
        let chosen = random.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX).saturating_add(1));
        Duration::from_micros(chosen).max(asked.unwrap_or_default())
    }
}

/// Longest `Retry-After` that a call waits for.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(1);

/// The effect of repeating a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A read, or an idempotent write.
    Safe,
    /// A POST made idempotent by its key.
    Keyed,
    /// A POST that would be applied again.
    Once,
}

impl Repeat {
    pub(crate) fn of(method: &Method, keyed: bool) -> Self {
        match *method {
            Method::POST if keyed => Self::Keyed,
            Method::GET | Method::HEAD | Method::PUT | Method::PATCH | Method::DELETE | Method::OPTIONS => Self::Safe,
            _ if keyed => Self::Keyed,
            _ => Self::Once,
        }
    }
}

/// How an attempt ended, as far as retries are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// No response.
    Failed(Failure),
    /// A response that is not a success.
    Refused {
        status: u16,
        /// Its body is the service's own error object, not a proxy's page.
        own: bool,
        /// A "not configured" code: asking again cannot help.
        not_configured: bool,
        /// The key was used for another request.
        key_conflict: bool,
        /// Its payment is being settled, for an earlier attempt.
        payment_in_progress: bool,
        asked_to_wait: bool,
    },
}

impl Ending {
    /// The retry table.
    pub(crate) fn may_repeat(self, repeat: Repeat) -> bool {
        let known_harmless = repeat != Repeat::Once;
        match self {
            Self::Failed(Failure::Connect) => true,
            Self::Failed(Failure::Timeout | Failure::Broken) => known_harmless,
            Self::Refused { not_configured: true, .. } => false,
            Self::Refused { status: 429, .. } | Self::Refused { status: 503, asked_to_wait: true, .. } => true,
            _ if self.is_in_progress() => true,
            Self::Refused { status: 408 | 500 | 502 | 503 | 504, .. } => known_harmless,
            Self::Refused { .. } => false,
        }
    }

    /// Whether an earlier attempt is still running, and this one only asked for its result.
    pub(crate) fn is_in_progress(self) -> bool {
        matches!(self, Self::Refused { payment_in_progress: true, asked_to_wait: true, .. })
    }

    /// Whether a write that ended like this may have taken effect. The service's own 503 says that it did not; a write
    /// that waits for a payment may take effect once that is settled.
    pub(crate) fn is_ambiguous(self) -> bool {
        match self {
            Self::Failed(failure) => failure != Failure::Connect,
            Self::Refused { payment_in_progress: true, .. } => true,
            Self::Refused { key_conflict, .. } if key_conflict => false,
            Self::Refused { status: 503, own, .. } => !own,
            Self::Refused { status, .. } => status >= 500,
        }
    }

    /// Whether this ending leaves open what an earlier, ambiguous attempt did.
    pub(crate) fn leaves_earlier_open(self) -> bool {
        match self {
            Self::Failed(_) => true,
            Self::Refused { status, key_conflict, asked_to_wait, .. } => {
                key_conflict || asked_to_wait || matches!(status, 401 | 403 | 408 | 429) || status >= 500
            }
        }
    }
}

/// A token budget for retries, shared by all clones of a client, so that many calls failing at once do not multiply the
/// load on a failing service.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<AtomicU32>);

impl Budget {
    const FULL: u32 = 500;

    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU32::new(Self::FULL)))
    }

    /// Takes tokens for a retry; `false` when there are too few.
    pub(crate) fn pay(&self, after: Ending) -> bool {
        let price = if after == Ending::Failed(Failure::Timeout) { 10 } else { 5 };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(price)).is_ok()
    }

    /// A success returns one token.
    pub(crate) fn earn(&self) {
        let grow = |left: u32| (left < Self::FULL).then_some(left + 1);
        // The budget is already full.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
    }
}
