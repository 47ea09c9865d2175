//! When keys were last used: recorded in memory, at most once a minute per key, and stored in the background. When the
//! process ends, unsaved uses are lost: less than a minute per key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use deeplink_core::id::SecretKeyId;
use deeplink_core::time::Timestamp;
use tokio::sync::Notify;

/// Uses within this time of the last recorded one are not recorded.
pub(crate) const USE_MILLIS: i64 = 60_000;

/// Uses not stored yet, at most one per key.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pending: Mutex<BTreeMap<SecretKeyId, Timestamp>>,
    added: Notify,
}

/// The last use of a key known to this node, in unix milliseconds.
#[derive(Debug)]
pub(crate) struct LastUse(AtomicI64);

impl LastUse {
    /// From the stored value.
    pub(crate) fn new(at: Option<Timestamp>) -> Self {
        Self(AtomicI64::new(at.map_or(i64::MIN, Timestamp::as_millis)))
    }

    /// Whether to record a use now; of several concurrent callers, one gets `true`.
    fn is_due(&self, now: Timestamp) -> bool {
        let (last, now) = (self.0.load(Ordering::Relaxed), now.as_millis());
        let is_due = last <= now.saturating_sub(USE_MILLIS);
        is_due && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Uses {
    /// Records a use of a key. Usually costs only a comparison.
    pub(crate) fn record(&self, key: &SecretKeyId, last: &LastUse, now: Timestamp) {
        if last.is_due(now) {
            self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), now);
            self.added.notify_one();
        }
    }

    /// Resolves when a use is recorded.
    pub(crate) async fn wait(&self) {
        self.added.notified().await;
    }

    /// Takes the pending uses, ordered by id, the order in which all writes lock rows.
    pub(crate) fn take(&self) -> BTreeMap<SecretKeyId, Timestamp> {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::secret::Random;

    use super::*;

    #[test]
    fn a_use_is_recorded_once_a_minute() {
        let begin = Timestamp::from_millis(1_795_167_000_000);
        let key = SecretKeyId::new(begin, &mut Random::seeded(1));
        for (stored, after, recorded) in [
            (None, 0, true),
            (Some(begin), 0, false),
            (Some(begin), 59_999, false),
            (Some(begin), 60_000, true),
            // A clock that was set back.
            (Some(begin), -1, false),
        ] {
            let (uses, last) = (Uses::default(), LastUse::new(stored));
            let now = begin.plus_millis(after);
            for _ in 0..3 {
                uses.record(&key, &last, now);
            }
            let taken = uses.take();
            assert_eq!(taken.get(&key), recorded.then_some(&now), "{stored:?} {after}");
            uses.record(&key, &last, now);
            assert!(uses.take().is_empty(), "{stored:?} {after}");
        }
    }
}
