//! Rate limits with bursts, by the generic cell rate algorithm (GCRA).
//!
//! For each key a limiter stores the time at which the full burst is available again, in a table of fixed size. An
//! entry whose time has passed is free. If all entries for a key are taken, the one with the earliest time is evicted,
//! so the busiest keys are kept longest; an evicted key only gains a new burst. Limits that protect a secret are in the
//! database instead.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Entries of one table, in sets of `WAYS`: 3 MiB of memory, committed by the system as pages are touched.
const SETS: usize = 12_288;
const WAYS: usize = 16;
/// Sets per lock; large enough for the allocator to get untouched pages from the system.
const SHARD: usize = 768;

/// How often the limit of one address all addresses of an IPv6 site have: it has 65,536 /64s.
const ADDRESSES_PER_SITE: u64 = 8;

/// Limits uses per key. The time is a parameter, in milliseconds of a monotonic clock.
pub(crate) struct Limiter {
    /// Nanoseconds per use; 0 = no limit.
    interval: u64,
    /// Nanoseconds by which an entry may be ahead of the clock.
    burst_nanos: u64,
    hasher: RandomState,
    shards: Vec<Mutex<Vec<Entry>>>,
}

/// A key's hash, and the nanosecond at which its full burst is available again; zeros while free.
type Entry = [u64; 2];

impl Limiter {
    /// `count` uses per `period`, with bursts of `burst`. A `count` of 0 means no limit.
    pub(crate) fn new(count: u32, period: Duration, burst: u32) -> Self {
        let interval = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).checked_div(count.into()).unwrap_or(0);
        let shards = if interval == 0 { 0 } else { SETS / SHARD };
        Self {
            interval,
            burst_nanos: interval.saturating_mul(burst.max(1).into()),
            hasher: RandomState::new(),
            // Zeroed pages take no memory until they are written to.
            shards: (0..shards).map(|_| Mutex::new(vec![[0; 2]; SHARD * WAYS])).collect(),
        }
    }

    /// `count` uses per second, with bursts of `factor` times that.
    pub(crate) fn per_second(count: u32, factor: u32) -> Self {
        Self::new(count, Duration::from_secs(1), count.saturating_mul(factor))
    }

    /// `count` uses per minute, with bursts of the same size.
    pub(crate) fn per_minute(count: u32) -> Self {
        Self::new(count, Duration::from_mins(1), count)
    }

    /// `count` uses per hour, with bursts of the same size.
    pub(crate) fn per_hour(count: u32) -> Self {
        Self::new(count, Duration::from_hours(1), count)
    }

    /// Counts a use, or returns the seconds (at least 1) after which the next one is allowed.
    pub(crate) fn check(&self, key: &impl Hash, now_millis: u64) -> Result<(), u64> {
        self.check_every(self.interval, key, now_millis)
    }

    /// The same for a client's address, with an IPv6 address cut to its /64, and its IPv6 site, which has a limit of its own.
    pub(crate) fn check_address(&self, address: IpAddr, now_millis: u64) -> Result<(), u64> {
        self.check_address_with("", address, now_millis)
    }

    /// The same for a client's uses of a key.
    pub(crate) fn check_address_with(&self, key: &str, address: IpAddr, now_millis: u64) -> Result<(), u64> {
        self.check(&(key, address), now_millis)?;
        let Some(site) = site_of(address) else { return Ok(()) };
        let checked = self.check_every(self.interval / ADDRESSES_PER_SITE, &(key, site), now_millis);
        checked.inspect_err(|_| self.give_back(&(key, address)))
    }

    /// Counts a use with this interval.
    fn check_every(&self, interval: u64, key: &impl Hash, now_millis: u64) -> Result<(), u64> {
        if interval == 0 {
            return Ok(());
        }
        let now = now_millis.saturating_mul(1_000_000);
        let hash = self.hasher.hash_one(key);
        let set = usize::try_from(hash >> 32).unwrap_or(0) % SETS;
        let mut shard = self.shards[set / SHARD].lock().unwrap_or_else(PoisonError::into_inner);
        let ways = &mut shard[set % SHARD * WAYS..][..WAYS];
        let index = ways.iter().position(|entry| entry[0] == hash).unwrap_or_else(|| {
            let index = earliest(ways);
            ways[index] = [hash, now];
            index
        });
        let full_at = ways[index][1].max(now).saturating_add(interval);
        match full_at.checked_sub(now.saturating_add(self.burst_nanos)) {
            None | Some(0) => {
                ways[index][1] = full_at;
                Ok(())
            }
            Some(excess) => Err(excess.div_ceil(1_000_000_000)),
        }
    }

    /// Gives back a use that [`Limiter::check_address`] counted.
    pub(crate) fn give_address_back(&self, address: IpAddr) {
        self.give_back(&("", address));
        if let Some(site) = site_of(address) {
            self.give_back_every(self.interval / ADDRESSES_PER_SITE, &("", site));
        }
    }

    /// Gives back a counted use. An entry evicted in the meantime has its whole burst anyway.
    pub(crate) fn give_back(&self, key: &impl Hash) {
        self.give_back_every(self.interval, key);
    }

    fn give_back_every(&self, interval: u64, key: &impl Hash) {
        if self.interval == 0 {
            return;
        }
        let hash = self.hasher.hash_one(key);
        let set = usize::try_from(hash >> 32).unwrap_or(0) % SETS;
        let mut shard = self.shards[set / SHARD].lock().unwrap_or_else(PoisonError::into_inner);
        let ways = &mut shard[set % SHARD * WAYS..][..WAYS];
        if let Some(entry) = ways.iter_mut().find(|entry| entry[0] == hash) {
            entry[1] = entry[1].saturating_sub(interval);
        }
    }
}

/// The key of an IPv6 address's site: its /48.
fn site_of(address: IpAddr) -> Option<(&'static str, u128)> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(("site", address.to_bits() >> 80)),
    }
}

/// The entry with the earliest time; free entries come first.
fn earliest(ways: &[Entry]) -> usize {
    ways.iter().enumerate().min_by_key(|(_, entry)| entry[1]).map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_one_use_per_interval() {
        let limiter = Limiter::new(2, Duration::from_secs(10), 3);
        let allowed = |now| limiter.check(&"a", now).is_ok();
        assert_eq!([0, 0, 0, 0, 4_999].map(allowed), [true, true, true, false, false]);
        assert_eq!([5_000, 5_001, 9_999, 10_000].map(allowed), [true, false, false, true]);
        assert!(limiter.check(&"b", 0).is_ok(), "another key has its own burst");
    }

    #[test]
    fn a_use_that_is_given_back_was_none() {
        let limiter = Limiter::per_minute(2);
        for _ in 0..10 {
            assert!(limiter.check(&"a", 0).is_ok());
            limiter.give_back(&"a");
        }
        assert_eq!([0, 0, 0].map(|now| limiter.check(&"a", now).is_ok()), [true, true, false]);
        limiter.give_back(&"unknown");
        limiter.give_back(&"a");
        assert_eq!([0, 0].map(|now| limiter.check(&"a", now).is_ok()), [true, false]);
    }

    /// X7: an IPv6 site has eight times the limit of an address, however many addresses it uses; another site and IPv4 are
    /// not affected. What is given back counts for neither.
    #[test]
    fn x7_a_site_has_eight_times_the_limit_of_an_address() {
        let limiter = Limiter::per_minute(2);
        let address = |site: u16, subnet: u16| IpAddr::from([0x2001, 0xdb8, site, subnet, 0, 0, 0, 0]);
        assert_eq!([0, 0, 0].map(|now| limiter.check_address(address(1, 0), now).is_ok()), [true, true, false]);
        let allowed = (1..=1_000).filter(|subnet| limiter.check_address(address(1, *subnet), 0).is_ok()).count();
        assert_eq!(allowed, 8 * 2 - 2);
        assert_eq!(limiter.check_address(address(1, 1_001), 0), Err(4));
        assert!(limiter.check_address(address(1, 1_001), 4_000).is_ok());
        for _ in 0..100 {
            assert!(limiter.check_address(address(2, 0), 0).is_ok());
            limiter.give_address_back(address(2, 0));
        }
        let ipv4 = (0..100_u8).filter(|last| limiter.check_address(IpAddr::from([192, 0, 2, *last]), 0).is_ok());
        assert_eq!(ipv4.count(), 100);
        let unlimited = Limiter::per_minute(0);
        assert!((0..100).all(|subnet| unlimited.check_address(address(3, subnet), 0).is_ok()));
    }

    /// X8: `Retry-After` is in whole seconds, at least 1, and sufficient.
    #[test]
    fn x8_a_use_after_retry_after_is_allowed() {
        let limiter = Limiter::per_hour(5);
        for _ in 0..5 {
            assert_eq!(limiter.check(&1, 7), Ok(()));
        }
        assert_eq!(limiter.check(&1, 7), Err(720));
        assert_eq!(limiter.check(&1, 719_500), Err(1));
        assert_eq!(limiter.check(&1, 7 + 720_000), Ok(()));
    }

    #[test]
    fn a_count_of_zero_means_no_limit() {
        let limiter = Limiter::per_minute(0);
        assert!((0..10_000).all(|_| limiter.check(&1, 0).is_ok()));
    }

    /// X7: memory is bounded: at most 200,000 entries, idle ones are evicted, and a full table still limits.
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
        assert!(limiter.check(&"busy", 0).is_err(), "the busiest keys are kept longest");
        assert!(bytes(&limiter) == before && before <= 4 << 20, "the table never grows");
        assert!(limiter.check(&"busy", 60_000).is_ok(), "but not forever");
    }

    proptest! {
        /// In any interval a key gets at most its burst and its rate, and never less than its burst.
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
                    // Rounding by a nanosecond per interval may allow one use slightly early.
                    prop_assert!((last - first + 1) as u128 <= u128::from(burst) + earned + 1);
                }
            }
        }
    }
}
