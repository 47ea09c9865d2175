//! A cache of logos that evicts the least recently used. Their pixels share one buffer, because the allocator returns only
//! large blocks to the system.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use deeplink_core::id::TenantId;

use super::Key;
use crate::qr::Logo;
use crate::qr::picture::MMAP_BYTES;

/// How long a logo is cached.
const TTL: Duration = Duration::from_mins(10);
/// Memory of the cache, in bytes.
const MAX_BYTES: usize = 32 << 20;
/// Maximum number of logos.
const MAX_ENTRIES: usize = 512;
/// Maximum bytes copied when memory is returned.
const MAX_MOVED_BYTES: usize = 8 << 20;
/// Overhead of an entry besides pixels and key.
const ENTRY_BYTES: usize = 256;

/// The cache.
#[derive(Debug, Default)]
pub(super) struct LogoCache {
    entries: HashMap<Key, Entry>,
    /// Keys by the time of their last use.
    uses: BTreeMap<u64, Key>,
    /// Pixels of all entries, and of some that were removed.
    pixels: Vec<u8>,
    /// Bytes of the entries, without those that were removed.
    bytes: usize,
    /// Grows with each use.
    used: u64,
}

#[derive(Debug)]
struct Entry {
    width: u32,
    height: u32,
    digest: [u8; 32],
    pixels: Range<usize>,
    expires_at: u64,
    used: u64,
}

impl LogoCache {
    /// A copy of the logo; counts as a use.
    pub(super) fn get(&mut self, key: &Key, now: u64) -> Option<Logo> {
        let entry = self.entries.get_mut(key)?;
        if entry.expires_at <= now {
            self.remove_entry(key);
            return None;
        }
        self.used += 1;
        self.uses.remove(&entry.used);
        self.uses.insert(self.used, key.clone());
        entry.used = self.used;
        let pixels = self.pixels.get(entry.pixels.clone())?;
        Logo::new(entry.width, entry.height, pixels.to_vec(), entry.digest)
    }

    /// Inserts a copy of a logo, and evicts entries that have expired or do not fit beside it.
    pub(super) fn insert(&mut self, key: Key, logo: &Logo, now: u64) {
        self.remove_entry(&key);
        let has_expired = |(_, entry): &(&Key, &Entry)| entry.expires_at <= now;
        let expired: Vec<_> = self.entries.iter().filter(has_expired).map(|(key, _)| key.clone()).collect();
        for key in &expired {
            self.remove_entry(key);
        }
        let length = logo.rgba().len();
        let bytes = bytes(&key, length);
        if bytes > MAX_BYTES {
            return;
        }
        self.evict(MAX_BYTES - bytes, MAX_ENTRIES - 1);
        if self.pixels.len() + length > MAX_BYTES {
            // Evicts more than needed, so that not every insertion moves all the others.
            self.evict((MAX_BYTES - MAX_BYTES / 4).saturating_sub(bytes), MAX_ENTRIES);
            self.compact();
        }
        self.pixels.reserve_exact(MMAP_BYTES.saturating_sub(self.pixels.len()));
        let from = self.pixels.len();
        self.pixels.extend_from_slice(logo.rgba());
        self.used += 1;
        self.bytes += bytes;
        self.uses.insert(self.used, key.clone());
        let expires_at = now + u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX);
        let (width, height, digest) = (logo.width(), logo.height(), *logo.digest());
        let pixels = from..from + length;
        self.entries.insert(key, Entry { width, height, digest, pixels, expires_at, used: self.used });
    }

    /// Evicts the least recently used logos until the rest takes at most `max` bytes, and returns the memory. Those of the
    /// tenant that needs the memory are evicted first.
    pub(super) fn shrink_to(&mut self, max: usize, tenant: &TenantId) {
        self.evict_for(max, tenant);
        if self.pixels.len() > max {
            // Small enough that both buffers fit. Freeing a shrunken buffer would make the allocator keep later ones of
            // its size.
            self.evict_for(max.min(MAX_MOVED_BYTES), tenant);
            self.compact();
            let mut pixels = Vec::with_capacity(MMAP_BYTES);
            pixels.extend_from_slice(&self.pixels);
            self.pixels = pixels;
        }
    }

    fn evict_for(&mut self, max: usize, tenant: &TenantId) {
        let own = self.uses.values().filter(|(whose, _)| whose == tenant);
        for key in own.cloned().collect::<Vec<_>>() {
            if self.bytes <= max {
                return;
            }
            self.remove_entry(&key);
        }
        self.evict(max, MAX_ENTRIES);
    }

    fn evict(&mut self, max: usize, entries: usize) {
        while self.bytes > max || self.entries.len() > entries {
            let Some((_, key)) = self.uses.pop_first() else { break };
            self.remove_entry(&key);
        }
    }

    /// Closes the gaps of removed entries.
    fn compact(&mut self) {
        let mut entries: Vec<_> = self.entries.values_mut().collect();
        entries.sort_unstable_by_key(|entry| entry.pixels.start);
        let mut end = 0;
        for entry in entries {
            let length = entry.pixels.len();
            self.pixels.copy_within(entry.pixels.clone(), end);
            entry.pixels = end..end + length;
            end += length;
        }
        self.pixels.truncate(end);
    }

    /// Number of entries.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    fn remove_entry(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.uses.remove(&entry.used);
            self.bytes -= bytes(key, entry.pixels.len());
        }
    }
}

/// The accounted size of an entry.
fn bytes((tenant, url): &Key, pixels: usize) -> usize {
    pixels + 2 * (url.len() + tenant.as_str().len()) + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn tenant(number: u32) -> TenantId {
        format!("tnt_{number:024x}").parse().expect("an id")
    }

    fn key(number: usize) -> Key {
        (tenant(1), format!("https://example.com/{number}"))
    }

    /// A logo of one gray, with `kib` KiB of pixels.
    fn logo(grey: usize, kib: u32) -> Logo {
        let pixels = vec![u8::try_from(grey % 256).expect("a grey"); kib as usize * 1_024];
        Logo::new(16, 16 * kib, pixels, [0; 32]).expect("a logo")
    }

    fn present(cache: &LogoCache) -> Vec<usize> {
        (0..8).filter(|number| cache.entries.contains_key(&key(*number))).collect()
    }

    #[test]
    fn the_least_recently_used_are_evicted_first() {
        // Eight of four MiB do not fit, because of their overhead.
        let mut cache = LogoCache::default();
        for number in 0..7 {
            cache.insert(key(number), &logo(number, 4_096), 0);
        }
        assert!(cache.get(&key(0), 0).is_some(), "the first is used again");
        cache.insert(key(7), &logo(7, 4_096), 0);
        assert_eq!(present(&cache), [0, 2, 3, 4, 5, 6, 7]);
        assert!(cache.bytes <= MAX_BYTES && cache.pixels.len() <= MAX_BYTES);
        // The buffer is full: a quarter is evicted, so that the next ones fit.
        cache.insert(key(7), &logo(70, 4_096), 0);
        assert_eq!(present(&cache), [0, 4, 5, 6, 7]);
        assert_eq!((cache.bytes, cache.pixels.len()), (5 * bytes(&key(0), 4 << 20), 20 << 20), "once for each");
        cache.shrink_to(21 << 20, &tenant(1));
        assert_eq!(present(&cache).len(), 5, "they fit");
        cache.shrink_to(9 << 20, &tenant(1));
        assert_eq!((present(&cache), cache.pixels.len()), (vec![7], 4 << 20), "the one that was used last");
        let last = cache.get(&key(7), 0).expect("a logo");
        assert!(last.rgba().len() == 4 << 20 && last.rgba().iter().all(|part| *part == 70));
        for number in 0..8 {
            assert!(cache.get(&key(number), 600_000).is_none());
        }
        assert_eq!((cache.bytes, cache.count(), cache.uses.len()), (0, 0, 0), "what has expired is removed");
    }

    /// Q4: a tenant's own logos are evicted before others'.
    #[test]
    fn q4_a_tenants_own_logos_are_evicted_first() {
        let mut cache = LogoCache::default();
        let of = |whose: u32, number: usize| (tenant(whose), key(number).1);
        (0..3).for_each(|number| cache.insert(of(1, number), &logo(number, 2_048), 0));
        (0..4).for_each(|number| cache.insert(of(2, number), &logo(number, 2_048), 0));
        let left = |cache: &LogoCache, whose: u32| cache.entries.keys().filter(|(of, _)| *of == tenant(whose)).count();
        cache.shrink_to(7 << 20, &tenant(2));
        assert_eq!((left(&cache, 1), left(&cache, 2)), (3, 0), "the other's are older, and stay");
        cache.shrink_to(5 << 20, &tenant(2));
        assert_eq!(left(&cache, 1), 2, "only as many as needed");
        cache.insert(of(2, 0), &logo(0, 1_024), 0);
        cache.shrink_to(4 << 20, &tenant(1));
        assert_eq!((left(&cache, 1), left(&cache, 2)), (1, 1));
    }

    /// The limit applies however small they are; evicting many takes linear time.
    #[test]
    fn the_number_of_entries_is_limited() {
        let (mut cache, began) = (LogoCache::default(), Instant::now());
        for number in 0..20_000 {
            cache.insert(key(number), &logo(number, 1), 0);
            assert!(cache.count() <= MAX_ENTRIES && cache.uses.len() == cache.count());
        }
        assert_eq!(cache.count(), MAX_ENTRIES);
        let last = cache.get(&key(19_999), 0).expect("the last");
        assert!(last.rgba().iter().all(|part| usize::from(*part) == 19_999 % 256));
        cache.shrink_to(0, &tenant(1));
        assert_eq!((cache.bytes, cache.count(), cache.uses.len()), (0, 0, 0));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn an_insertion_removes_what_has_expired() {
        let mut cache = LogoCache::default();
        (0..100).for_each(|number| cache.insert(key(number), &logo(number, 1), 0));
        cache.insert(key(200), &logo(9, 1), 600_000);
        assert_eq!(cache.count(), 1);
    }
}
