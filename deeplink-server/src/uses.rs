//! When keys were last used: noted in memory, at most once a minute for each key, and stored behind the replies. What is
//! noted when the process ends is lost, which is less than a minute of one key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use deeplink_core::id::SecretKeyId;
use deeplink_core::time::Timestamp;
use tokio::sync::Notify;

/// A use within so many milliseconds of the one before is not noted.
pub(crate) const USE_MILLIS: i64 = 60_000;

/// Uses that wait to be stored. There are at most as many as there are keys.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    noted: Mutex<BTreeMap<SecretKeyId, Timestamp>>,
    waits: Notify,
}

/// The last use of a key that is known here: unix milliseconds.
#[derive(Debug)]
pub(crate) struct LastUse(AtomicI64);

impl LastUse {
    /// From what is stored.
    pub(crate) fn new(at: Option<Timestamp>) -> Self {
        Self(AtomicI64::new(at.map_or(i64::MIN, Timestamp::as_millis)))
    }

    /// Whether a use now is worth a note; of several at one time, one is told so.
    fn is_due(&self, now: Timestamp) -> bool {
        let (last, now) = (self.0.load(Ordering::Relaxed), now.as_millis());
        let is_due = last <= now.saturating_sub(USE_MILLIS);
        is_due && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Uses {
    /// Notes that a key is used. Costs a comparison, but for once a minute.
    pub(crate) fn note(&self, key: &SecretKeyId, last: &LastUse, now: Timestamp) {
        if last.is_due(now) {
            self.noted.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), now);
            self.waits.notify_one();
        }
    }

    /// Resolves when something is noted.
    pub(crate) async fn wait(&self) {
        self.waits.notified().await;
    }

    /// Takes what is noted, in the order in which rows are locked everywhere.
    pub(crate) fn take(&self) -> BTreeMap<SecretKeyId, Timestamp> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::secret::Random;

    use super::*;

    #[test]
    fn a_key_is_noted_once_a_minute() {
        let begin = Timestamp::from_millis(1_795_167_000_000);
        let key = SecretKeyId::new(begin, &mut Random::seeded(1));
        for (stored, after, noted) in [
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
                uses.note(&key, &last, now);
            }
            let taken = uses.take();
            assert_eq!(taken.get(&key), noted.then_some(&now), "{stored:?} {after}");
            uses.note(&key, &last, now);
            assert!(uses.take().is_empty(), "{stored:?} {after}");
        }
    }
}
