//! How often somebody may do something: a burst at once, then one more every so often.
//!
//! Each limiter remembers, per key, the moment at which the key's allowance is whole again (GCRA), in a table that
//! never grows: a key whose moment has passed is as good as unknown, so its entry is free. When everything a key
//! could be stored in is taken, the entry nearest to its moment gives way, so that those who do most are remembered
//! longest. Whoever is forgotten has their burst again, no more. Limits that guard a secret live in the database.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Entries of one table, in sets of `WAYS`: 3 MiB of memory, of which the system gives only what is touched.
const SETS: usize = 12_288;
const WAYS: usize = 16;
/// Sets behind one lock; large enough for the allocator to ask the system for untouched pages.
const SHARD: usize = 768;

/// Counts uses per key. Takes the time as a parameter: milliseconds of a clock that never goes back.
pub(crate) struct Limiter {
    /// Nanoseconds until one use is earned back; 0 = no limit.
    interval: u64,
    /// How far ahead of the clock a key may be.
    ahead: u64,
    hasher: RandomState,
    shards: Vec<Mutex<Vec<Entry>>>,
}

/// A key's hash, and the nanosecond at which its allowance is whole; all zero while free.
type Entry = [u64; 2];

impl Limiter {
    /// `count` in every `period`, of which `burst` at once. A `count` of 0 limits nothing.
    pub(crate) fn new(count: u32, period: Duration, burst: u32) -> Self {
        let interval = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).checked_div(count.into()).unwrap_or(0);
        let shards = if interval == 0 { 0 } else { SETS / SHARD };
        Self {
            interval,
            ahead: interval.saturating_mul(burst.max(1).into()),
            hasher: RandomState::new(),
            // Zeroed memory that nobody has written to costs nothing yet.
            shards: (0..shards).map(|_| Mutex::new(vec![[0; 2]; SHARD * WAYS])).collect(),
        }
    }

    /// `count` a second, after a burst of `times` as many.
    pub(crate) fn per_second(count: u32, times: u32) -> Self {
        Self::new(count, Duration::from_secs(1), count.saturating_mul(times))
    }

    /// `count` a minute, all of them at once if need be.
    pub(crate) fn per_minute(count: u32) -> Self {
        Self::new(count, Duration::from_mins(1), count)
    }

    /// `count` an hour, all of them at once if need be.
    pub(crate) fn per_hour(count: u32) -> Self {
        Self::new(count, Duration::from_hours(1), count)
    }

    /// Uses one of the key's allowance, or says after how many seconds (at least 1) there is one again.
    pub(crate) fn check(&self, key: &impl Hash, now_millis: u64) -> Result<(), u64> {
        if self.interval == 0 {
            return Ok(());
        }
        let now = now_millis.saturating_mul(1_000_000);
        let hash = self.hasher.hash_one(key);
        let set = usize::try_from(hash >> 32).unwrap_or(0) % SETS;
        let mut shard = self.shards[set / SHARD].lock().unwrap_or_else(PoisonError::into_inner);
        let ways = &mut shard[set % SHARD * WAYS..][..WAYS];
        let index = ways.iter().position(|entry| entry[0] == hash).unwrap_or_else(|| {
            let index = nearest(ways);
            ways[index] = [hash, now];
            index
        });
        let whole = ways[index][1].max(now).saturating_add(self.interval);
        match whole.checked_sub(now.saturating_add(self.ahead)) {
            None | Some(0) => {
                ways[index][1] = whole;
                Ok(())
            }
            Some(over) => Err(over.div_ceil(1_000_000_000)),
        }
    }
}

/// The entry whose allowance is whole first; free ones come before all others.
fn nearest(ways: &[Entry]) -> usize {
    ways.iter().enumerate().min_by_key(|(_, entry)| entry[1]).map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_one_for_each_interval() {
        let limiter = Limiter::new(2, Duration::from_secs(10), 3);
        let allowed = |now| limiter.check(&"a", now).is_ok();
        assert_eq!([0, 0, 0, 0, 4_999].map(allowed), [true, true, true, false, false]);
        assert_eq!([5_000, 5_001, 9_999, 10_000].map(allowed), [true, false, false, true]);
        assert!(limiter.check(&"b", 0).is_ok(), "another key has its own burst");
    }

    /// X8: `Retry-After` is whole seconds, at least 1, and true.
    #[test]
    fn x8_what_is_said_to_be_allowed_later_is() {
        let limiter = Limiter::per_hour(5);
        for _ in 0..5 {
            assert_eq!(limiter.check(&1, 7), Ok(()));
        }
        assert_eq!(limiter.check(&1, 7), Err(720));
        assert_eq!(limiter.check(&1, 719_500), Err(1));
        assert_eq!(limiter.check(&1, 7 + 720_000), Ok(()));
    }

    #[test]
    fn zero_limits_nothing() {
        let limiter = Limiter::per_minute(0);
        assert!((0..10_000).all(|_| limiter.check(&1, 0).is_ok()));
    }

    /// X7: memory is bounded: at most 200,000 entries, idle ones give way, and a full table still limits.
    #[test]
    fn x7_two_million_keys_fit_in_the_table_and_the_busy_one_stays_denied() {
        const { assert!(SETS * WAYS <= 200_000 && SETS.is_multiple_of(SHARD)) };
        let limiter = Limiter::per_minute(600);
        let bytes = |limiter: &Limiter| -> usize {
            limiter.shards.iter().map(|shard| shard.lock().unwrap().capacity() * size_of::<Entry>()).sum()
        };
        let before = bytes(&limiter);
        while limiter.check(&"busy", 0).is_ok() {}
        for key in 0..2_000_000_u32 {
            assert!(limiter.check(&key, 0).is_ok());
        }
        assert!(limiter.check(&"busy", 0).is_err(), "those who do most are remembered longest");
        assert!(bytes(&limiter) == before && before <= 4 << 20, "the table never grows");
        assert!(limiter.check(&"busy", 60_000).is_ok(), "and are forgotten in time");
    }

    proptest! {
        /// In any stretch of time a key gets its burst and what it earned meanwhile, and never less than it is due.
        #[test]
        fn never_more_than_the_burst_and_the_rate(
            count in 1_u32..50,
            period in 1_u64..100_000,
            burst in 1_u32..50,
            waits in proptest::collection::vec(0_u64..3_000, 1..400),
        ) {
            let limiter = Limiter::new(count, Duration::from_millis(period), burst);
            let mut now = 0;
            let mut times = Vec::new();
            for wait in waits {
                now += wait;
                let known = times.len();
                match limiter.check(&"key", now) {
                    Ok(()) => times.push(now),
                    Err(secs) => {
                        prop_assert!(secs >= 1);
                        prop_assert!(known >= burst as usize, "refused before the burst was used");
                    }
                }
            }
            for (first, from) in times.iter().enumerate() {
                for (last, to) in times.iter().enumerate().skip(first) {
                    let earned = u128::from(to - from) * u128::from(count) / u128::from(period);
                    // One nanosecond of rounding per interval may earn a use a hair early.
                    prop_assert!((last - first + 1) as u128 <= u128::from(burst) + earned + 1);
                }
            }
        }
    }
}
