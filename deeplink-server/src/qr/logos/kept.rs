//! Logos in memory, the least recently used out first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Key;
use crate::qr::Logo;

/// For how long a logo is kept.
const KEPT: Duration = Duration::from_mins(10);
/// Memory for logos that are kept, in bytes. What was freed stays with the process, so this is not more than what a
/// decoder may take in the same place.
const ROOM: usize = 16 << 20;
/// Most logos, however small.
const ENTRIES: usize = 512;
/// What an entry takes beside pixels and names.
const ENTRY: usize = 256;

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    entries: HashMap<Key, Entry>,
    /// By the time of their last use.
    uses: BTreeMap<u64, Key>,
    bytes: usize,
    /// Grows with each use.
    used: u64,
}

#[derive(Debug)]
struct Entry {
    logo: Arc<Logo>,
    until: u64,
    used: u64,
}

impl Kept {
    /// The logo, which is used by that.
    pub(super) fn get(&mut self, key: &Key, now: u64) -> Option<Arc<Logo>> {
        let entry = self.entries.get_mut(key)?;
        if entry.until <= now {
            self.drop_one(key);
            return None;
        }
        self.used += 1;
        self.uses.remove(&entry.used);
        self.uses.insert(self.used, key.clone());
        entry.used = self.used;
        Some(Arc::clone(&entry.logo))
    }

    /// Keeps a logo, and lets go what is over or does not fit beside it.
    pub(super) fn keep(&mut self, key: Key, logo: Arc<Logo>, now: u64) {
        self.drop_one(&key);
        let over: Vec<_> =
            self.entries.iter().filter(|(_, entry)| entry.until <= now).map(|(key, _)| key.clone()).collect();
        for key in &over {
            self.drop_one(key);
        }
        self.used += 1;
        self.bytes += bytes(&key, &logo);
        let until = now + u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        self.uses.insert(self.used, key.clone());
        self.entries.insert(key, Entry { logo, until, used: self.used });
        self.shrink_to(ROOM);
    }

    /// Lets go what was used longest ago until the rest takes so many bytes.
    pub(super) fn shrink_to(&mut self, room: usize) {
        while self.bytes > room || self.entries.len() > ENTRIES {
            let Some((_, key)) = self.uses.pop_first() else { break };
            self.drop_one(&key);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    fn drop_one(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.uses.remove(&entry.used);
            self.bytes -= bytes(key, &entry.logo);
        }
    }
}

fn bytes((tenant, url): &Key, logo: &Logo) -> usize {
    logo.rgba().len() + 2 * (url.len() + tenant.as_str().len()) + ENTRY
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn key(number: usize) -> Key {
        (format!("tnt_{:024x}", 1).parse().expect("an id"), format!("https://example.com/{number}"))
    }

    /// Grey, of as many KiB.
    fn logo(kib: u32) -> Arc<Logo> {
        Arc::new(Logo::new(16, 16 * kib, vec![0; kib as usize * 1_024], [0; 32]).expect("a logo"))
    }

    fn there(kept: &Kept) -> Vec<usize> {
        (0..8).filter(|number| kept.entries.contains_key(&key(*number))).collect()
    }

    #[test]
    fn the_least_recently_used_go_first() {
        // Eight of two MiB do not fit, with what they need beside their pixels.
        let mut kept = Kept::default();
        for number in 0..7 {
            kept.keep(key(number), logo(2_048), 0);
        }
        assert!(kept.get(&key(0), 0).is_some(), "the first is used once more");
        kept.keep(key(7), logo(2_048), 0);
        assert_eq!(there(&kept), [0, 2, 3, 4, 5, 6, 7]);
        assert!(kept.bytes <= ROOM);
        kept.keep(key(7), logo(2_048), 0);
        assert_eq!(kept.bytes, 7 * bytes(&key(0), &logo(2_048)), "once for each");
        kept.shrink_to(5 << 20);
        assert_eq!(there(&kept), [0, 7], "the two that were used last");
        for number in 0..8 {
            assert!(kept.get(&key(number), 600_000).is_none());
        }
        assert_eq!((kept.bytes, kept.count(), kept.uses.len()), (0, 0, 0), "what is over is gone");
    }

    /// However small they are: who lets go of many does not look at all of them for each.
    #[test]
    fn there_are_never_more_than_so_many() {
        let (mut kept, began) = (Kept::default(), Instant::now());
        for number in 0..20_000 {
            kept.keep(key(number), logo(1), 0);
            assert!(kept.count() <= ENTRIES && kept.uses.len() == kept.count());
        }
        assert_eq!(kept.count(), ENTRIES);
        kept.shrink_to(0);
        assert_eq!((kept.bytes, kept.count(), kept.uses.len()), (0, 0, 0));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn what_is_over_goes_when_something_comes() {
        let mut kept = Kept::default();
        (0..100).for_each(|number| kept.keep(key(number), logo(1), 0));
        kept.keep(key(200), logo(1), 600_000);
        assert_eq!(kept.count(), 1);
    }
}
