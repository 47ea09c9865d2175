//! Which events were taken already.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deeplink_core::time::Timestamp;

use super::Clock;
use crate::clock;

/// Ids that are remembered unless more or fewer are asked for.
const MOST: usize = 65_536;

/// Ids of events that were taken, for as long as a repeat of their request would be believed: the other half of
/// [`Verifier::require_timestamp`](super::Verifier::require_timestamp). Cheap to clone; clones share what they remember.
///
/// ```
/// use std::time::Duration;
/// use deeplink_client::webhook::{Repeated, Seen};
///
/// let seen = Seen::new(Duration::from_secs(300));
/// let claim = seen.claim("evt_0123456789abcdef01234567")?;
/// // Store the event. If that fails, the claim is dropped and the service's next attempt is let in.
/// claim.keep();
/// assert_eq!(seen.claim("evt_0123456789abcdef01234567").err(), Some(Repeated::Taken));
/// # Ok::<(), deeplink_client::webhook::Repeated>(())
/// ```
///
/// Ask only about ids whose signature was found good ([`Verified::id`](super::Verified::id)): others are anybody's. It
/// remembers one process's events; receivers of several processes keep ids where they keep the events.
#[derive(Clone)]
pub struct Seen(Arc<Shared>);

struct Shared {
    keep: Duration,
    most: usize,
    clock: Clock,
    ids: Mutex<Ids>,
}

#[derive(Default)]
struct Ids {
    /// What was taken, and what somebody has in hand.
    known: HashMap<Arc<str>, Repeated>,
    /// What was taken, and when, oldest first.
    taken: VecDeque<(Timestamp, Arc<str>)>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("keep", &self.0.keep).field("most", &self.0.most).finish_non_exhaustive()
    }
}

/// Why an event is not to be taken, and what to answer instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated {
    /// It was taken already: acknowledge it (2xx), and do nothing.
    Taken,
    /// An earlier attempt at it is in hand just now, and may still fail: refuse this one (409 or 503), so that the service
    /// comes again. Acknowledged, the event would be lost if the earlier attempt comes to nothing.
    InHand,
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "the event was taken before",
            Self::InHand => "the event is in hand just now",
        })
    }
}

impl std::error::Error for Repeated {}

/// An event in hand. Dropped, it was not taken, and its next attempt is let in.
#[must_use = "dropping a claim gives the event up; keep it when the event is stored"]
pub struct Claim {
    shared: Arc<Shared>,
    id: Arc<str>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.id).finish()
    }
}

impl Seen {
    /// Remembers for requests whose time may differ by this from now.
    pub fn new(tolerance: Duration) -> Self {
        // A request that is early by the tolerance is believed for twice as long.
        let keep = tolerance.saturating_mul(2);
        Self(Arc::new(Shared { keep, most: MOST, clock: Arc::new(clock::now), ids: Mutex::default() }))
    }

    /// Remembers at most so many ids; beyond that the oldest are forgotten. 65,536 unless set.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        self.edit(|shared| shared.most = most.max(1))
    }

    /// Takes the time from here instead of the system's clock.
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

    /// Takes an event in hand, unless it was taken before or somebody has it in hand.
    pub fn claim(&self, id: &str) -> Result<Claim, Repeated> {
        let oldest = self.0.oldest();
        let mut ids = self.0.lock();
        while let Some((_, id)) = ids.taken.pop_front_if(|(at, _)| *at < oldest) {
            ids.known.remove(&id);
        }
        if let Some(repeated) = ids.known.get(id) {
            return Err(*repeated);
        }
        let id: Arc<str> = id.into();
        ids.known.insert(Arc::clone(&id), Repeated::InHand);
        drop(ids);
        Ok(Claim { shared: Arc::clone(&self.0), id })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was taken before this moment may be forgotten.
    fn oldest(&self) -> Timestamp {
        let keep = i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX);
        (self.clock)().plus_millis(keep.saturating_neg())
    }
}

impl Claim {
    /// The event is stored: it is [`Repeated::Taken`] from now on.
    pub fn keep(self) {
        let now = (self.shared.clock)();
        let mut ids = self.shared.lock();
        ids.known.insert(Arc::clone(&self.id), Repeated::Taken);
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
        if ids.known.get(&self.id) == Some(&Repeated::InHand) {
            ids.known.remove(&self.id);
        }
    }
}
