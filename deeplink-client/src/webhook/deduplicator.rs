//! Deduplication of events.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deeplink_core::time::Timestamp;

use super::Clock;
use crate::clock;

/// Default limit of remembered ids.
const MAX_IDS: usize = 65_536;

/// Remembers the ids of processed events for as long as a replay of their request would be accepted: the counterpart of
/// [`Verifier::require_timestamp`](super::Verifier::require_timestamp). Cheap to clone; clones share their ids.
///
/// ```
/// use std::time::Duration;
/// use deeplink_client::webhook::{Duplicate, Deduplicator};
///
/// let seen = Deduplicator::new(Duration::from_secs(300));
/// let claim = seen.claim("evt_0123456789abcdef01234567")?;
/// // Store the event. If that fails, the claim is dropped and the service's next attempt is accepted.
/// claim.keep();
/// assert_eq!(seen.claim("evt_0123456789abcdef01234567").err(), Some(Duplicate::Processed));
/// # Ok::<(), deeplink_client::webhook::Duplicate>(())
/// ```
///
/// Claim only ids with a valid signature ([`Verified::id`](super::Verified::id)): anyone can send others. It remembers
/// the events of one process; receivers with several processes store ids with the events.
#[derive(Clone)]
pub struct Deduplicator(Arc<Shared>);

struct Shared {
    keep: Duration,
    most: usize,
    clock: Clock,
    ids: Mutex<Ids>,
}

#[derive(Default)]
struct Ids {
    /// Processed ids and ids in progress.
    known: HashMap<Arc<str>, Duplicate>,
    /// Processed ids with their time, oldest first.
    taken: VecDeque<(Timestamp, Arc<str>)>,
}

impl fmt::Debug for Deduplicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deduplicator").field("keep", &self.0.keep).field("most", &self.0.most).finish_non_exhaustive()
    }
}

/// Why an event must not be processed, and how to respond instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// It was processed already: acknowledge it (2xx), and do nothing.
    Processed,
    /// An earlier attempt is being processed and may still fail: reject this one (409 or 503), so that the service retries.
    /// If it were acknowledged, the event would be lost if the earlier attempt fails.
    InProgress,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processed => "the event has already been processed",
            Self::InProgress => "the event is being processed",
        })
    }
}

impl std::error::Error for Duplicate {}

/// An event being processed. If the claim is dropped, the next attempt of the event is accepted.
#[must_use = "dropping a claim releases the event; keep it when the event is stored"]
pub struct Claim {
    shared: Arc<Shared>,
    id: Arc<str>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.id).finish()
    }
}

impl Deduplicator {
    /// For a verifier with this tolerance.
    pub fn new(tolerance: Duration) -> Self {
        // A request that is early by the whole tolerance is accepted for twice as long.
        let keep = tolerance.saturating_mul(2);
        Self(Arc::new(Shared { keep, most: MAX_IDS, clock: Arc::new(clock::now), ids: Mutex::default() }))
    }

    /// Maximum number of ids to remember; beyond it the oldest are forgotten. 65,536 by default.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        self.edit(|shared| shared.most = most.max(1))
    }

    /// Uses this clock instead of the system's.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.edit(|shared| shared.clock = Arc::new(clock))
    }

    fn edit(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared =
            Shared { keep: self.0.keep, most: self.0.most, clock: Arc::clone(&self.0.clock), ids: Mutex::default() };
        change(&mut shared);
        Self(Arc::new(shared))
    }

    /// Claims an event, unless it was processed before or is being processed.
    pub fn claim(&self, id: &str) -> Result<Claim, Duplicate> {
        let oldest = self.0.oldest();
        let mut ids = self.0.lock();
        while let Some((_, id)) = ids.taken.pop_front_if(|(at, _)| *at < oldest) {
            ids.known.remove(&id);
        }
        if let Some(repeated) = ids.known.get(id) {
            return Err(*repeated);
        }
        let id: Arc<str> = id.into();
        ids.known.insert(Arc::clone(&id), Duplicate::InProgress);
        drop(ids);
        Ok(Claim { shared: Arc::clone(&self.0), id })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ids processed before this time may be forgotten.
    fn oldest(&self) -> Timestamp {
        let keep = i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX);
        (self.clock)().plus_millis(keep.saturating_neg())
    }
}

impl Claim {
    /// The event is stored: it is [`Duplicate::Processed`] from now on.
    pub fn keep(self) {
        let now = (self.shared.clock)();
        let mut ids = self.shared.lock();
        ids.known.insert(Arc::clone(&self.id), Duplicate::Processed);
        ids.taken.push_back((now, Arc::clone(&self.id)));
        if ids.taken.len() > self.shared.most
            && let Some((_, id)) = ids.taken.pop_front()
        {
            ids.known.remove(&id);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut ids = self.shared.lock();
        if ids.known.get(&self.id) == Some(&Duplicate::InProgress) {
            ids.known.remove(&self.id);
        }
    }
}
