//! Logos in memory, the least recently used out first. Their pixels lie in one piece of memory, because nothing less is
//! given back to the system when it is freed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use deeplink_core::id::TenantId;

use super::Key;
use crate::qr::Logo;
use crate::qr::picture::MAPPED;

/// For how long a logo is kept.
const KEPT: Duration = Duration::from_mins(10);
/// Memory for logos that are kept, in bytes.
const ROOM: usize = 32 << 20;
/// Most logos, however small.
const ENTRIES: usize = 512;
/// What is left at most when memory is given back, in bytes.
const MOVED: usize = 8 << 20;
/// What an entry takes beside pixels and names.
const ENTRY: usize = 256;

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    entries: HashMap<Key, Entry>,
    /// By the time of their last use.
    uses: BTreeMap<u64, Key>,
    /// Of all entries, and of some that are gone.
    pixels: Vec<u8>,
    /// Without those that are gone.
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
    until: u64,
    used: u64,
}

impl Kept {
    /// A copy of the logo, which is used by that.
    pub(super) fn get(&mut self, key: &Key, now: u64) -> Option<Logo> {
        let entry = self.entries.get_mut(key)?;
        if entry.until <= now {
            self.drop_one(key);
            return None;
        }
        self.used += 1;
        self.uses.remove(&entry.used);
        self.uses.insert(self.used, key.clone());
        entry.used = self.used;
        let pixels = self.pixels.get(entry.pixels.clone())?;
        Logo::new(entry.width, entry.height, pixels.to_vec(), entry.digest)
    }

    /// Keeps a copy of a logo, and lets go what is over or does not fit beside it.
    pub(super) fn keep(&mut self, key: Key, logo: &Logo, now: u64) {
        self.drop_one(&key);
        let is_over = |(_, entry): &(&Key, &Entry)| entry.until <= now;
        let over: Vec<_> = self.entries.iter().filter(is_over).map(|(key, _)| key.clone()).collect();
        for key in &over {
            self.drop_one(key);
        }
        let length = logo.rgba().len();
        let bytes = bytes(&key, length);
        if bytes > ROOM {
            return;
        }
        self.shrink(ROOM - bytes, ENTRIES - 1);
        if self.pixels.len() + length > ROOM {
            // More than has to go, so that not each one that comes moves all the others.
            self.shrink((ROOM - ROOM / 4).saturating_sub(bytes), ENTRIES);
            self.close_up();
        }
        self.pixels.reserve_exact(MAPPED.saturating_sub(self.pixels.len()));
        let from = self.pixels.len();
        self.pixels.extend_from_slice(logo.rgba());
        self.used += 1;
        self.bytes += bytes;
        self.uses.insert(self.used, key.clone());
        let until = now + u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let (width, height, digest) = (logo.width(), logo.height(), *logo.digest());
        let pixels = from..from + length;
        self.entries.insert(key, Entry { width, height, digest, pixels, until, used: self.used });
    }

    /// Lets go what was used longest ago until the rest takes so many bytes, and gives the memory back. Those of the
    /// tenant who needs the room go first.
    pub(super) fn shrink_to(&mut self, room: usize, tenant: &TenantId) {
        self.shrink_for(room, tenant);
        if self.pixels.len() > room {
            // Little enough that both pieces fit. Pieces that became smaller, once freed, would teach the allocator to
            // keep others of their size.
            self.shrink_for(room.min(MOVED), tenant);
            self.close_up();
            let mut pixels = Vec::with_capacity(MAPPED);
            pixels.extend_from_slice(&self.pixels);
            self.pixels = pixels;
        }
    }

    fn shrink_for(&mut self, room: usize, tenant: &TenantId) {
        let own = self.uses.values().filter(|(whose, _)| whose == tenant);
        for key in own.cloned().collect::<Vec<_>>() {
            if self.bytes <= room {
                return;
            }
            self.drop_one(&key);
        }
        self.shrink(room, ENTRIES);
    }

    fn shrink(&mut self, room: usize, entries: usize) {
        while self.bytes > room || self.entries.len() > entries {
            let Some((_, key)) = self.uses.pop_first() else { break };
            self.drop_one(&key);
        }
    }

    /// Closes the gaps that those have left that are gone.
    fn close_up(&mut self) {
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

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    fn drop_one(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.uses.remove(&entry.used);
            self.bytes -= bytes(key, entry.pixels.len());
        }
    }
}

/// What a logo of so many bytes takes.
fn bytes((tenant, url): &Key, pixels: usize) -> usize {
    pixels + 2 * (url.len() + tenant.as_str().len()) + ENTRY
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

    /// Of one grey, and of as many KiB.
    fn logo(grey: usize, kib: u32) -> Logo {
        let pixels = vec![u8::try_from(grey % 256).expect("a grey"); kib as usize * 1_024];
        Logo::new(16, 16 * kib, pixels, [0; 32]).expect("a logo")
    }

    fn there(kept: &Kept) -> Vec<usize> {
        (0..8).filter(|number| kept.entries.contains_key(&key(*number))).collect()
    }

    #[test]
    fn the_least_recently_used_go_first() {
        // Eight of four MiB do not fit, with what they need beside their pixels.
        let mut kept = Kept::default();
        for number in 0..7 {
            kept.keep(key(number), &logo(number, 4_096), 0);
        }
        assert!(kept.get(&key(0), 0).is_some(), "the first is used once more");
        kept.keep(key(7), &logo(7, 4_096), 0);
        assert_eq!(there(&kept), [0, 2, 3, 4, 5, 6, 7]);
        assert!(kept.bytes <= ROOM && kept.pixels.len() <= ROOM);
        // There is no room behind the others: a quarter goes, so that there is some for the next ones.
        kept.keep(key(7), &logo(70, 4_096), 0);
        assert_eq!(there(&kept), [0, 4, 5, 6, 7]);
        assert_eq!((kept.bytes, kept.pixels.len()), (5 * bytes(&key(0), 4 << 20), 20 << 20), "once for each");
        kept.shrink_to(21 << 20, &tenant(1));
        assert_eq!(there(&kept).len(), 5, "they fit");
        kept.shrink_to(9 << 20, &tenant(1));
        assert_eq!((there(&kept), kept.pixels.len()), (vec![7], 4 << 20), "the one that was used last");
        let last = kept.get(&key(7), 0).expect("a logo");
        assert!(last.rgba().len() == 4 << 20 && last.rgba().iter().all(|part| *part == 70));
        for number in 0..8 {
            assert!(kept.get(&key(number), 600_000).is_none());
        }
        assert_eq!((kept.bytes, kept.count(), kept.uses.len()), (0, 0, 0), "what is over is gone");
    }

    /// Q4: who needs much room takes it from their own logos before others'.
    #[test]
    fn q4_a_tenant_makes_room_with_its_own_logos_first() {
        let mut kept = Kept::default();
        let of = |whose: u32, number: usize| (tenant(whose), key(number).1);
        (0..3).for_each(|number| kept.keep(of(1, number), &logo(number, 2_048), 0));
        (0..4).for_each(|number| kept.keep(of(2, number), &logo(number, 2_048), 0));
        let left = |kept: &Kept, whose: u32| kept.entries.keys().filter(|(of, _)| *of == tenant(whose)).count();
        kept.shrink_to(7 << 20, &tenant(2));
        assert_eq!((left(&kept, 1), left(&kept, 2)), (3, 0), "the other's are older, and stay");
        kept.shrink_to(5 << 20, &tenant(2));
        assert_eq!(left(&kept, 1), 2, "no more than must");
        kept.keep(of(2, 0), &logo(0, 1_024), 0);
        kept.shrink_to(4 << 20, &tenant(1));
        assert_eq!((left(&kept, 1), left(&kept, 2)), (1, 1));
    }

    /// However small they are: who lets go of many does not look at all of them for each.
    #[test]
    fn there_are_never_more_than_so_many() {
        let (mut kept, began) = (Kept::default(), Instant::now());
        for number in 0..20_000 {
            kept.keep(key(number), &logo(number, 1), 0);
            assert!(kept.count() <= ENTRIES && kept.uses.len() == kept.count());
        }
        assert_eq!(kept.count(), ENTRIES);
        let last = kept.get(&key(19_999), 0).expect("the last");
        assert!(last.rgba().iter().all(|part| usize::from(*part) == 19_999 % 256));
        kept.shrink_to(0, &tenant(1));
        assert_eq!((kept.bytes, kept.count(), kept.uses.len()), (0, 0, 0));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn what_is_over_goes_when_something_comes() {
        let mut kept = Kept::default();
        (0..100).for_each(|number| kept.keep(key(number), &logo(number, 1), 0));
        kept.keep(key(200), &logo(9, 1), 600_000);
        assert_eq!(kept.count(), 1);
    }
}
