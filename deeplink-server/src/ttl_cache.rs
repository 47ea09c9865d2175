//! A cache for data that may change on other nodes: callers, hosts, brandings, files, certificates.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quick_cache::sync::Cache;

/// How long an entry is fresh while changes on other nodes may go unnoticed.
pub(crate) const FRESH_MILLIS: u64 = 5_000;
/// How long an old entry may be used while the database is unavailable.
pub(crate) const STALE_MILLIS: u64 = 600_000;
/// Counters of drops by link name.
const NAMES: usize = 64;

/// Counts drops, so that a fill can tell whether it raced with one.
#[derive(Debug)]
pub(crate) struct Generations {
    hasher: RandomState,
    pub(crate) counts: Vec<AtomicU64>,
}

impl Generations {
    pub(crate) fn new(shards: usize) -> Self {
        Self { hasher: RandomState::new(), counts: (0..shards).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn shard(&self, key: &(impl Hash + ?Sized)) -> usize {
        usize::try_from(self.hasher.hash_one(key) % self.counts.len() as u64).unwrap_or(0)
    }

    pub(crate) fn of(&self, key: &(impl Hash + ?Sized)) -> &AtomicU64 {
        &self.counts[self.shard(key)]
    }
}

/// Which entries are fresh: since when, and whether this node is notified of changes on other nodes.
#[derive(Debug)]
pub(crate) struct Freshness {
    /// Entries read before this time must be read again.
    since: AtomicU64,
    /// Whether this node is notified of every change elsewhere.
    hears: AtomicBool,
}

impl Freshness {
    pub(crate) fn new(hears: bool) -> Self {
        Self { since: AtomicU64::new(0), hears: AtomicBool::new(hears) }
    }

    pub(crate) fn holds(&self, read_at: u64, now: u64) -> bool {
        read_at >= self.since.load(Ordering::Relaxed)
            && (self.hears.load(Ordering::Relaxed) || read_at + FRESH_MILLIS > now)
    }

    /// Changes may have been missed: everything must be read again.
    pub(crate) fn expire_all(&self, now: u64) {
        self.since.store(now + 1, Ordering::Relaxed);
    }

    /// Sets whether notices arrive from now on.
    pub(crate) fn set_hears(&self, hears: bool) {
        self.hears.store(hears, Ordering::Relaxed);
    }
}

/// A small cache whose entries are fresh for [`FRESH_MILLIS`] at most: callers by key hash, hosts by name, brandings by
/// tenant. A forgotten entry is stale, but may still be used while the database is unavailable.
#[derive(Debug)]
pub(crate) struct TtlCache<V> {
    slots: Cache<Box<str>, Read<V>>,
    names: Generations,
    everything: AtomicU64,
    freshness: Freshness,
}

/// A value and the counts it was read under.
#[derive(Debug, Clone)]
struct Read<V> {
    at: u64,
    since: Since,
    value: V,
}

/// How often a name, and the whole cache, had been forgotten before the database was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since(u64, u64);

impl<V: Clone> TtlCache<V> {
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            slots: Cache::new(entries),
            names: Generations::new(NAMES),
            everything: AtomicU64::new(0),
            freshness: Freshness::new(false),
        }
    }

    pub(crate) fn get(&self, name: &str, now: u64) -> Option<V> {
        self.get_read(name, now).map(|(_, value)| value)
    }

    /// The value, and when it was read.
    pub(crate) fn get_read(&self, name: &str, now: u64) -> Option<(u64, V)> {
        let read = self.slots.get(name)?;
        (self.freshness.holds(read.at, now) && read.since == self.since(name)).then_some((read.at, read.value))
    }

    /// A stale value, for use while the database is unavailable.
    pub(crate) fn old(&self, name: &str, now: u64) -> Option<V> {
        self.slots.get(name).filter(|read| read.at + STALE_MILLIS > now).map(|read| read.value)
    }

    /// The counts to pass to the fill that follows a read.
    pub(crate) fn since(&self, name: &str) -> Since {
        Since(self.names.of(name).load(Ordering::Acquire), self.everything.load(Ordering::Acquire))
    }

    /// Stores what the database returned; stale if it was forgotten since.
    pub(crate) fn fill(&self, name: &str, value: V, since: Since, now: u64) {
        self.slots.insert(name.into(), Read { at: now, since, value });
    }

    /// Makes a name stale: it must be read again.
    pub(crate) fn forget(&self, name: &str) {
        self.names.of(name).fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a name, including its stale value.
    pub(crate) fn remove(&self, name: &str) {
        self.slots.remove(name);
    }

    /// Makes everything stale: it must be read again.
    pub(crate) fn forget_all(&self) {
        self.everything.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_read_again_but_answers_while_nothing_can_be_read() {
        let cache = TtlCache::new(100);
        // Names that share a shard are forgotten together.
        let apart = |name: &&str| cache.names.shard(*name) != cache.names.shard("a");
        let other = ["b", "c", "d", "e", "f", "g"].into_iter().find(apart).expect("another shard");
        let before = cache.since("a");
        cache.fill("a", 1, before, 0);
        cache.fill(other, 2, cache.since(other), 0);
        assert_eq!((cache.get("a", 0), cache.get(other, 0)), (Some(1), Some(2)));
        cache.forget("a");
        assert_eq!((cache.get("a", 0), cache.get(other, 0)), (None, Some(2)), "the others stay");
        assert_eq!(cache.old("a", 0), Some(1));
        // Read before it was forgotten, kept after: it must not be used.
        cache.fill("a", 1, before, 0);
        assert_eq!(cache.get("a", 0), None);
        cache.fill("a", 3, cache.since("a"), 0);
        assert_eq!(cache.get_read("a", 4_999), Some((0, 3)));
        assert_eq!(cache.get("a", 5_000), None);
        cache.forget_all();
        assert_eq!((cache.get(other, 0), cache.old(other, 599_999), cache.old(other, 600_000)), (None, Some(2), None));
    }
}
