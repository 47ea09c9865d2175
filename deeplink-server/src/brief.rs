//! What is remembered for seconds: callers, hosts, faces, files, certificates.

use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;

use crate::cache::{Belief, Generations, NAMES, STALE_MILLIS};

/// A small cache whose entries are believed for [`crate::cache::BELIEVED_MILLIS`] at most: callers by key hash, hosts by name, faces by
/// tenant. What is forgotten is no longer believed, but may still answer while the database does not.
#[derive(Debug)]
pub(crate) struct Brief<V> {
    slots: Cache<Box<str>, Read<V>>,
    names: Generations,
    everything: AtomicU64,
    belief: Belief,
}

/// A value and what it was read under.
#[derive(Debug, Clone)]
struct Read<V> {
    at: u64,
    since: Since,
    value: V,
}

/// How often a name, and everything, had been forgotten before the database was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since(u64, u64);

impl<V: Clone> Brief<V> {
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            slots: Cache::new(entries),
            names: Generations::new(NAMES),
            everything: AtomicU64::new(0),
            belief: Belief::new(false),
        }
    }

    pub(crate) fn get(&self, name: &str, now: u64) -> Option<V> {
        self.get_read(name, now).map(|(_, value)| value)
    }

    /// The value, and when it was read.
    pub(crate) fn get_read(&self, name: &str, now: u64) -> Option<(u64, V)> {
        let read = self.slots.get(name)?;
        (self.belief.holds(read.at, now) && read.since == self.since(name)).then_some((read.at, read.value))
    }

    /// What was believed a while ago, for as long as the database cannot say better.
    pub(crate) fn old(&self, name: &str, now: u64) -> Option<V> {
        self.slots.get(name).filter(|read| read.at + STALE_MILLIS > now).map(|read| read.value)
    }

    /// Goes with the fill that follows a read.
    pub(crate) fn since(&self, name: &str) -> Since {
        Since(self.names.of(name).load(Ordering::Acquire), self.everything.load(Ordering::Acquire))
    }

    /// Keeps what the database said. If it was forgotten since, nobody believes it.
    pub(crate) fn fill(&self, name: &str, value: V, since: Since, now: u64) {
        self.slots.insert(name.into(), Read { at: now, since, value });
    }

    /// A name must be read again.
    pub(crate) fn forget(&self, name: &str) {
        self.names.of(name).fetch_add(1, Ordering::AcqRel);
    }

    /// Everything must be read again.
    pub(crate) fn forget_all(&self) {
        self.everything.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_read_again_but_answers_while_nothing_can_be_read() {
        let cache = Brief::new(100);
        let before = cache.since("a");
        cache.fill("a", 1, before, 0);
        cache.fill("b", 2, cache.since("b"), 0);
        assert_eq!((cache.get("a", 0), cache.get("b", 0)), (Some(1), Some(2)));
        cache.forget("a");
        assert_eq!((cache.get("a", 0), cache.get("b", 0)), (None, Some(2)), "the others stay");
        assert_eq!(cache.old("a", 0), Some(1));
        // Read before it was forgotten, kept after: nobody may believe it.
        cache.fill("a", 1, before, 0);
        assert_eq!(cache.get("a", 0), None);
        cache.fill("a", 3, cache.since("a"), 0);
        assert_eq!(cache.get_read("a", 4_999), Some((0, 3)));
        assert_eq!(cache.get("a", 5_000), None);
        cache.forget_all();
        assert_eq!((cache.get("b", 0), cache.old("b", 599_999), cache.old("b", 600_000)), (None, Some(2), None));
    }
}
