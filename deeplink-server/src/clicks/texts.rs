//! User agents and referers, each cleaned, hashed and classified once: a bounded table from the bytes of a header to
//! the result. Looking up a known one allocates nothing.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use deeplink_core::text::clean;
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::AgentTraits;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use sha2::{Digest, Sha256};

use super::lock;
use crate::db::clicks::Hash;
use crate::db::hosts::TenantBranding;

/// Maximum characters of a stored text.
const MAX_CHARS: usize = 512;
/// Longer headers are parsed every time: only unusual clients send them, and this bounds memory.
const MAX_CACHED_BYTES: usize = 1_024;
/// Parts of a table with separate locks.
const SHARDS: usize = 16;
/// Maximum user agents and referers in memory: 10,000 together.
const MAX_AGENTS: usize = 7_008;
const MAX_REFERERS: usize = 2_992;
/// Maximum new texts that one account's visitors can store in a day, user agents and referers together: visitors choose
/// them, and each is kept as long as its clicks. Texts that are already in the database are not limited.
const MAX_NEW: u32 = 100_000;
const DAY: i64 = 86_400_000;

/// A user agent or referer.
#[derive(Debug)]
pub(crate) struct Text {
    hash: Hash,
    clean: Box<str>,
    /// The header's bytes where they differ from that.
    raw: Option<Box<[u8]>>,
    traits: AgentTraits,
    /// Used again since the table was last pruned.
    seen: AtomicBool,
    /// The segment of the journal that contains it, and its number there.
    place: AtomicU64,
    /// Within the share of an account, so it may be stored.
    is_charged: AtomicBool,
    /// Beyond the share of the account that it is charged to: stored only if the database already has it.
    is_beyond: AtomicBool,
}

/// One text, shared by all clicks that refer to it.
pub(crate) type TextRef = Arc<Text>;

impl Text {
    fn new(raw: &[u8], traits: AgentTraits) -> Self {
        let clean = clean(&String::from_utf8_lossy(raw), MAX_CHARS).into_boxed_str();
        let hash = hash_of(&clean);
        let raw = (raw != clean.as_bytes()).then(|| raw.into());
        let [seen, is_charged, is_beyond] = [const { AtomicBool::new(false) }; 3];
        Self { hash, clean, raw, traits, seen, place: AtomicU64::new(0), is_charged, is_beyond }
    }

    fn raw(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.clean.as_bytes())
    }

    /// The hash that the text is stored under.
    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }

    /// Without control characters, and at most 512 characters.
    pub(crate) fn text(&self) -> &str {
        &self.clean
    }

    /// Whether it is stored only if the database already has it.
    pub(super) fn is_beyond(&self) -> bool {
        self.is_beyond.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn set_beyond(&self) {
        self.is_beyond.store(true, Ordering::Relaxed);
    }

    /// Its number in this process's `segment`-th segment, if it is in there.
    pub(super) fn number_in(&self, segment: u32) -> Option<u32> {
        let place = self.place.load(Ordering::Relaxed);
        if place >> 32 == u64::from(segment) { u32::try_from(place & u64::from(u32::MAX)).ok() } else { None }
    }

    /// Stores where its record is, unless it no longer agrees about whether the text is beyond a share.
    pub(super) fn set_number(&self, segment: u32, number: u32, is_beyond: bool) {
        self.place.store(u64::from(segment) << 32 | u64::from(number), Ordering::SeqCst);
        if self.is_beyond.load(Ordering::SeqCst) != is_beyond {
            self.forget_number();
        }
    }

    fn forget_number(&self) {
        self.place.store(0, Ordering::SeqCst);
    }
}

/// The hash that a text is stored under.
pub(super) fn hash_of(text: &str) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(&Sha256::digest(text)[..16]);
    hash
}

/// What a User-Agent header says.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    traits: AgentTraits,
    text: Option<TextRef>,
}

impl Agent {
    /// The kind of program it names.
    pub(crate) fn traits(&self) -> AgentTraits {
        self.traits
    }

    /// The text, if there was a header.
    pub(crate) fn text(self) -> Option<TextRef> {
        self.text
    }
}

/// The user agents and referers seen lately.
#[derive(Debug)]
pub(crate) struct Texts {
    agents: Table,
    referers: Table,
    /// The traits of an absent User-Agent; also those of a referer, which has none.
    absent: AgentTraits,
    new: Mutex<NewTexts>,
}

/// How many new texts each account has on one day, on this node.
#[derive(Debug, Default)]
struct NewTexts {
    /// Number of the day since 1970.
    day: i64,
    accounts: HashMap<String, u32>,
}

impl Texts {
    pub(super) fn new() -> Self {
        let absent = AgentTraits::of("");
        let (agents, referers) = (Table::new(MAX_AGENTS), Table::new(MAX_REFERERS));
        Self { agents, referers, absent, new: Mutex::default() }
    }

    /// Reads a User-Agent header.
    pub(crate) fn agent(&self, header: Option<&[u8]>) -> Agent {
        match header {
            None => Agent { traits: self.absent, text: None },
            Some(raw) => {
                let text = self.agents.get(raw, || AgentTraits::of(raw));
                Agent { traits: text.traits, text: Some(text) }
            }
        }
    }

    /// Reads a Referer header.
    pub(crate) fn referer(&self, header: Option<&[u8]>) -> Option<TextRef> {
        header.map(|raw| self.referers.get(raw, || self.absent))
    }

    /// Charges the text of a click to the link's account, unless it is already charged: a text counts against the first
    /// account that it reaches. Once the account's share of the day is used up, texts that the database does not have
    /// are stored as `other`.
    pub(crate) fn charge(&self, account: &TenantBranding, now: Timestamp, text: TextRef) -> TextRef {
        if text.is_charged.load(Ordering::Relaxed) {
            return text;
        }
        let day = now.as_millis().div_euclid(DAY);
        let mut new = lock(&self.new);
        // Another visit may have charged it in the meantime.
        if text.is_charged.load(Ordering::Relaxed) {
            return text;
        }
        if new.day != day {
            *new = NewTexts { day, ..NewTexts::default() };
        }
        let count = new.accounts.entry_ref(account.tenant.as_str()).or_default();
        let has_room = *count < MAX_NEW;
        *count += u32::from(has_room);
        text.is_charged.store(has_room, Ordering::Relaxed);
        if text.is_beyond.swap(!has_room, Ordering::SeqCst) == has_room {
            // Its record in the journal says the opposite.
            text.forget_number();
        }
        text
    }
}

#[derive(Debug)]
struct Table {
    hasher: DefaultHashBuilder,
    shards: [RwLock<HashTable<TextRef>>; SHARDS],
    /// Maximum texts of a shard.
    capacity: usize,
}

impl Table {
    fn new(capacity: usize) -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: std::array::from_fn(|_| RwLock::new(HashTable::new())),
            capacity: capacity / SHARDS,
        }
    }

    fn get(&self, raw: &[u8], traits: impl FnOnce() -> AgentTraits) -> TextRef {
        let hash = self.hasher.hash_one(raw);
        // The table itself uses the other bits of the hash.
        let shard = &self.shards[usize::try_from(hash >> 32).unwrap_or(0) % SHARDS];
        if let Some(text) = shard.read().unwrap_or_else(PoisonError::into_inner).find(hash, |text| text.raw() == raw) {
            // Loaded first, so that lookups of a popular text do not all write to it.
            if !text.seen.load(Ordering::Relaxed) {
                text.seen.store(true, Ordering::Relaxed);
            }
            return Arc::clone(text);
        }
        let new = Arc::new(Text::new(raw, traits()));
        if raw.len() > MAX_CACHED_BYTES {
            return new;
        }
        let mut table = shard.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = table.find(hash, |text| text.raw() == raw) {
            return Arc::clone(text);
        }
        if table.len() >= self.capacity {
            // Texts seen once are evicted first: a client that sends a new text each time evicts only its own.
            table.retain(|text| text.seen.swap(false, Ordering::Relaxed));
            if table.len() >= self.capacity {
                table.clear();
            }
        }
        table.insert_unique(hash, Arc::clone(&new), |text| self.hasher.hash_one(text.raw()));
        new
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_interned_once() {
        let texts = Texts::new();
        let agent = texts.agent(Some(b"curl/8.5.0"));
        let again = texts.agent(Some(b"curl/8.5.0"));
        assert_eq!(agent.traits(), AgentTraits::of("curl/8.5.0"));
        let (agent, again) = (agent.text().expect("a text"), again.text().expect("a text"));
        assert!(Arc::ptr_eq(&agent, &again));
        assert_eq!(agent.text(), "curl/8.5.0");
        assert_eq!(agent.hash(), Sha256::digest("curl/8.5.0")[..16]);
        assert!(texts.agent(None).text().is_none());
        assert_eq!(texts.agent(None).traits(), AgentTraits::of(""));
    }

    // L25: user agent and referer cut to 512 on a character boundary.
    #[test]
    fn texts_are_cleaned_and_then_cut() {
        let texts = Texts::new();
        let text = |raw: &[u8]| texts.referer(Some(raw)).expect("a text").text().to_owned();
        assert_eq!(text("👋".repeat(2_560).as_bytes()), "👋".repeat(512));
        assert_eq!(text(b"a\tb\x00c\x7fd\xc2\x85e"), "abcde");
        assert_eq!(text(b"x\xffy\xf0\x9f"), "x\u{fffd}y\u{fffd}");
        let padded = [b"\x01".repeat(600), b"end".to_vec()].concat();
        assert_eq!(text(&padded), "end");
        assert_eq!(text(b""), "");
    }

    #[test]
    fn a_flood_of_new_texts_stays_bounded_and_leaves_the_old() {
        let texts = Texts::new();
        let known = texts.agent(Some(b"known")).text().expect("a text");
        for n in 0..50_000 {
            texts.agent(Some(format!("agent {n}").as_bytes()));
            texts.referer(Some(format!("https://example.com/{n}").as_bytes()));
            if n % 100 == 0 {
                let again = texts.agent(Some(b"known")).text().expect("a text");
                assert!(Arc::ptr_eq(&known, &again), "pushed out after {n}");
            }
        }
        assert!(texts.agents.len() + texts.referers.len() <= 10_000);
        let long = vec![b'a'; 5_000];
        let before = texts.agents.len();
        let agent = texts.agent(Some(&long)).text().expect("a text");
        assert_eq!((agent.text().len(), texts.agents.len()), (512, before));
    }

    #[test]
    fn a_text_has_a_number_in_one_segment() {
        let texts = Texts::new();
        let text = texts.referer(Some(b"https://example.com/")).expect("a text");
        assert_eq!([1, 7].map(|segment| text.number_in(segment)), [None, None]);
        text.set_number(7, u32::MAX, false);
        assert_eq!([1, 7, 8].map(|segment| text.number_in(segment)), [None, Some(u32::MAX), None]);
        text.set_number(8, 1, true);
        assert_eq!(text.number_in(8), None, "a record that says otherwise is not named");
    }

    /// An account's visitors store at most 100,000 new texts a day; others have their own share.
    #[test]
    fn r8_new_texts_of_a_day_have_a_share() {
        let texts = Texts::new();
        let [a, b] = ["a", "b"].map(|tenant| TenantBranding { tenant: tenant.into(), ..TenantBranding::default() });
        let at = |day: i64| Timestamp::from_millis(1_795_132_800_000 + day * DAY);
        let agent = |name: &str| texts.agent(Some(name.as_bytes())).text().expect("a text");
        let charge = |account, day, text| texts.charge(account, at(day), text).is_beyond();
        assert!(!charge(&a, 0, agent("known")));
        for n in 1..MAX_NEW {
            let text = texts.referer(Some(format!("https://example.com/{n}").as_bytes())).expect("a text");
            assert!(!charge(&a, 0, text), "the {n}th");
            if n % 100 == 0 {
                agent("known");
            }
        }
        assert!(charge(&a, 0, agent("one more")));
        assert!(!charge(&b, 0, agent("of b")));
        assert!(!charge(&a, 0, agent("known")), "what is charged stays so");
        assert!(!charge(&a, 1, agent("one more")), "a day later there is room again");
    }
}
