//! What is kept in memory about links, hosts and keys, and when it may be believed.
//!
//! A change on this node drops its entry before the change is acknowledged; a change elsewhere arrives as a notice, or
//! at the latest makes entries stale after [`BELIEVED_MILLIS`]. A fill that was overtaken by a drop is dropped itself.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deeplink_core::link::LinkStatus;
use deeplink_core::resolve::LinkView;
use deeplink_core::time::Timestamp;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::db::links::Link;

/// How long an entry is believed while changes on other nodes may go unnoticed.
pub(crate) const BELIEVED_MILLIS: u64 = 5_000;
/// How long "there is no such link" is believed.
const ABSENT_MILLIS: u64 = 5_000;
/// How long an old entry may answer while the database does not.
pub(crate) const STALE_MILLIS: u64 = 600_000;
/// What an entry costs beside its text: key, handle, table slot, counters.
const ENTRY_BYTES: usize = 192;
/// Counters of drops by link name.
pub(crate) const NAMES: usize = 64;
/// Counters of changes by tenant: so many that tenants seldom share one.
const TENANTS: usize = 4096;

/// Notices how many drops there were, so that a fill can tell whether it was overtaken.
#[derive(Debug)]
pub(crate) struct Generations {
    hasher: RandomState,
    counts: Vec<AtomicU64>,
}

impl Generations {
    pub(crate) fn new(shards: usize) -> Self {
        Self { hasher: RandomState::new(), counts: (0..shards).map(|_| AtomicU64::new(0)).collect() }
    }

    fn shard(&self, key: &(impl Hash + ?Sized)) -> usize {
        usize::try_from(self.hasher.hash_one(key) % self.counts.len() as u64).unwrap_or(0)
    }

    pub(crate) fn of(&self, key: &(impl Hash + ?Sized)) -> &AtomicU64 {
        &self.counts[self.shard(key)]
    }
}

/// Since when entries may be believed, and whether other nodes' changes are heard of.
#[derive(Debug)]
pub(crate) struct Belief {
    /// Entries read before this moment must be read again.
    since: AtomicU64,
    /// Whether every change elsewhere reaches this node.
    hears: AtomicBool,
}

impl Belief {
    pub(crate) fn new(hears: bool) -> Self {
        Self { since: AtomicU64::new(0), hears: AtomicBool::new(hears) }
    }

    pub(crate) fn holds(&self, read_at: u64, now: u64) -> bool {
        read_at >= self.since.load(Ordering::Relaxed)
            && (self.hears.load(Ordering::Relaxed) || read_at + BELIEVED_MILLIS > now)
    }

    /// Changes may have been missed: everything must be read again.
    pub(crate) fn doubt_all(&self, now: u64) {
        self.since.store(now + 1, Ordering::Relaxed);
    }

    /// Whether notices arrive from now on.
    pub(crate) fn set_hears(&self, hears: bool) {
        self.hears.store(hears, Ordering::Relaxed);
    }
}

/// What the service says of itself about a link's tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Face {
    /// Verified primary, else any verified domain.
    pub(crate) domain: Option<String>,
    /// The oldest verified domain of role `primary`: links live there.
    pub(crate) primary: Option<String>,
    /// The verified domain of role `alternate`.
    pub(crate) alternate: Option<String>,
    /// The oldest iOS app.
    pub(crate) ios: Option<FaceApp>,
    /// The oldest Android app.
    pub(crate) android: Option<FaceApp>,
    /// Whether the oldest app of all is the one for Android.
    pub(crate) android_is_oldest: bool,
    /// The package of the only Android app.
    pub(crate) only_android_package: Option<String>,
}

/// What a page shows of an app.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FaceApp {
    pub(crate) name: Option<String>,
    pub(crate) icon_url: Option<String>,
    pub(crate) theme_color: Option<String>,
}

impl FaceApp {
    /// What people call it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// Which state of its tenant an entry was packed under.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Under {
    shard: u16,
    generation: u32,
}

/// A link as a visit needs it: one allocation for all its texts.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) position: i64,
    expires_at: i64,
    status: Option<LinkStatus>,
    read_at: u64,
    under: Under,
    face: Arc<Face>,
    text: Box<str>,
    /// Where each part ends in `text`; a part that is absent ends where the one before it does.
    ends: [u16; PARTS],
    present: u16,
}

const PARTS: usize = 10;

/// The parts of [`Known::text`], in order.
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
enum Part {
    LinkId,
    Url,
    IosDeepLink,
    IosStoreUrl,
    AndroidDeepLink,
    AndroidStoreUrl,
    WebUrl,
    Metadata,
    AgentContext,
    SocialPreview,
}

impl Known {
    /// Packs a stored link. `url` is its shareable address.
    pub(crate) fn pack(link: &Link, url: &str, face: Arc<Face>, under: Under, read_at: u64) -> Self {
        let to = &link.content.destinations;
        let agent_context = link.content.agent_context.as_ref().and_then(|value| serde_json::to_string(value).ok());
        let social_preview = link.content.social_preview.as_ref().and_then(|value| serde_json::to_string(value).ok());
        let parts: [Option<&str>; PARTS] = [
            Some(&link.link_id),
            Some(url),
            to.ios_deep_link.as_deref(),
            to.ios_store_url.as_deref(),
            to.android_deep_link.as_deref(),
            to.android_store_url.as_deref(),
            to.web_url.as_deref(),
            link.content.metadata.as_ref().map(deeplink_core::metadata::Metadata::as_str),
            agent_context.as_deref(),
            social_preview.as_deref(),
        ];
        let mut text = String::with_capacity(parts.iter().flatten().map(|part| part.len()).sum());
        let (mut ends, mut present) = ([0; PARTS], 0);
        for (at, part) in parts.iter().enumerate() {
            if let Some(part) = part {
                text.push_str(part);
                present |= 1 << at;
            }
            // All limits of a link together stay far below 64 KiB.
            ends[at] = u16::try_from(text.len()).unwrap_or(u16::MAX);
        }
        Self {
            position: link.position,
            expires_at: link.expires_at.map_or(i64::MAX, Timestamp::as_millis),
            status: link.status.clone(),
            read_at,
            under,
            face,
            text: text.into(),
            ends,
            present,
        }
    }

    fn part(&self, part: Part) -> Option<&str> {
        let at = part as usize;
        if self.present & (1 << at) == 0 {
            return None;
        }
        let start = if at == 0 { 0 } else { usize::from(self.ends[at - 1]) };
        self.text.get(start..usize::from(self.ends[at]))
    }

    /// The status at a moment.
    pub(crate) fn status_at(&self, now: Timestamp) -> LinkStatus {
        let expires_at = (self.expires_at != i64::MAX).then(|| Timestamp::from_millis(self.expires_at));
        LinkStatus::at(self.status.as_ref(), expires_at, now)
    }

    /// The link as the decision wants to see it.
    pub(crate) fn view(&self, is_active: bool) -> LinkView<'_> {
        LinkView {
            link_id: self.part(Part::LinkId).unwrap_or_default(),
            url: self.part(Part::Url).unwrap_or_default(),
            ios_deep_link: self.part(Part::IosDeepLink),
            ios_store_url: self.part(Part::IosStoreUrl),
            android_deep_link: self.part(Part::AndroidDeepLink),
            android_store_url: self.part(Part::AndroidStoreUrl),
            web_url: self.part(Part::WebUrl),
            has_social_preview: self.part(Part::SocialPreview).is_some(),
            has_agent_context: self.part(Part::AgentContext).is_some(),
            is_active,
        }
    }

    /// Metadata as its JSON text.
    pub(crate) fn metadata(&self) -> Option<&str> {
        self.part(Part::Metadata)
    }

    /// Agent context as JSON.
    pub(crate) fn agent_context(&self) -> Option<&str> {
        self.part(Part::AgentContext)
    }

    /// Social preview as JSON.
    pub(crate) fn social_preview(&self) -> Option<&str> {
        self.part(Part::SocialPreview)
    }

    /// The tenant's face.
    pub(crate) fn face(&self) -> &Face {
        &self.face
    }
}

#[derive(Debug, Clone)]
enum Slot {
    Known(Arc<Known>),
    Absent { until: u64 },
}

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<Box<str>, Slot> for Bytes {
    fn weight(&self, key: &Box<str>, slot: &Slot) -> u64 {
        let text = match slot {
            Slot::Known(known) => known.text.len(),
            Slot::Absent { .. } => 0,
        };
        (ENTRY_BYTES + key.len() + text) as u64
    }
}

/// What the cache says about an id.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The link.
    Known(Arc<Known>),
    /// There was none a moment ago.
    Absent,
    /// The database must be asked. An old entry may answer if it cannot be; what was seen goes with the fill.
    Ask { old: Option<Arc<Known>>, seen: Seen },
}

/// How many drops there had been before the database was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Of the name.
    name: u64,
    /// Of whole tenants, any.
    tenants: u64,
}

/// Links by the name they are asked for: the id on the service's own host, `tenant/id` on a tenant's.
#[derive(Debug)]
pub(crate) struct LinkCache {
    slots: Cache<Box<str>, Slot, Bytes>,
    names: Generations,
    tenants: Generations,
    /// How often any tenant changed.
    tenant_changes: AtomicU64,
    pub(crate) belief: Belief,
}

impl LinkCache {
    /// A cache of at most `bytes` bytes. `hears` says whether every change elsewhere reaches this node.
    pub(crate) fn new(bytes: u64, hears: bool) -> Self {
        let entries = usize::try_from(bytes / 320).unwrap_or(1).max(16);
        Self {
            slots: Cache::with_weighter(entries, bytes, Bytes),
            names: Generations::new(NAMES),
            tenants: Generations::new(TENANTS),
            tenant_changes: AtomicU64::new(0),
            belief: Belief::new(hears),
        }
    }

    /// The state of a tenant, for entries that are packed now.
    pub(crate) fn under(&self, tenant: &str) -> Under {
        let shard = self.tenants.shard(tenant);
        Under { shard: u16::try_from(shard).unwrap_or(0), generation: self.generation(shard) }
    }

    /// Counts wrap: an entry that outlives four thousand million changes of its tenant does not exist.
    #[expect(clippy::cast_possible_truncation, reason = "only equality of late changes matters")]
    fn generation(&self, shard: usize) -> u32 {
        self.tenants.counts[shard].load(Ordering::Acquire) as u32
    }

    fn is_current(&self, known: &Known) -> bool {
        self.generation(usize::from(known.under.shard)) == known.under.generation
    }

    fn seen(&self, name: &str) -> Seen {
        Seen { name: self.names.of(name).load(Ordering::Acquire), tenants: self.tenant_changes.load(Ordering::Acquire) }
    }

    /// Something changed that all of a tenant's links show: each is read again before it answers.
    pub(crate) fn forget_tenant(&self, tenant: &str) {
        self.tenants.of(tenant).fetch_add(1, Ordering::AcqRel);
        self.tenant_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Looks a name up; `now` is monotonic.
    pub(crate) fn get(&self, name: &str, now: u64) -> Lookup {
        let old = match self.slots.get(name) {
            Some(Slot::Known(known)) if self.belief.holds(known.read_at, now) && self.is_current(&known) => {
                return Lookup::Known(known);
            }
            Some(Slot::Absent { until }) if until > now => return Lookup::Absent,
            Some(Slot::Known(known)) if known.read_at + STALE_MILLIS > now => Some(known),
            _ => None,
        };
        Lookup::Ask { old, seen: self.seen(name) }
    }

    /// Keeps what the database said, unless something was dropped since `seen`.
    pub(crate) fn fill(&self, name: &str, known: Option<Arc<Known>>, seen: Seen, now: u64) {
        if self.seen(name) != seen {
            return;
        }
        let slot = known.map_or(Slot::Absent { until: now + ABSENT_MILLIS }, Slot::Known);
        self.slots.insert(name.into(), slot);
        // And again after the insert: a drop that came in between shows here, one that comes later drops it.
        if self.seen(name) != seen {
            self.slots.remove(name);
        }
    }

    /// Drops what is known under every name of a link.
    pub(crate) fn drop_link(&self, tenant: &str, link_id: &str) {
        for name in [link_id, &format!("{tenant}/{link_id}")] {
            self.names.of(name).fetch_add(1, Ordering::AcqRel);
            self.slots.remove(name);
        }
    }

    /// Bytes that the entries are counted as, for metrics.
    pub(crate) fn bytes(&self) -> u64 {
        self.slots.weight()
    }

    /// Entries, for metrics.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deeplink_core::link::NewLink;

    fn link(id: &str) -> Link {
        let mut content = NewLink::default();
        content.destinations.web_url = Some("https://example.com/".into());
        Link {
            tenant: "tnt_0123456789abcdef01234567".parse().expect("an id"),
            link_id: id.into(),
            position: 7,
            claimed: true,
            made_under: None,
            content,
            status: None,
            expires_at: None,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        }
    }

    fn known(cache: &LinkCache, id: &str, now: u64) -> Arc<Known> {
        let under = cache.under("tnt_0123456789abcdef01234567");
        Arc::new(Known::pack(&link(id), "http://localhost/r/abc", Arc::default(), under, now))
    }

    fn seen(lookup: Lookup) -> Seen {
        match lookup {
            Lookup::Ask { seen, .. } => seen,
            other => panic!("expected to ask the database, got {other:?}"),
        }
    }

    #[test]
    fn parts_come_back_as_they_went_in() {
        let known = known(&LinkCache::new(1 << 20, true), "abc", 0);
        let view = known.view(true);
        assert_eq!((view.link_id, view.url), ("abc", "http://localhost/r/abc"));
        assert_eq!((view.web_url, view.ios_deep_link), (Some("https://example.com/"), None));
        assert_eq!((known.metadata(), known.agent_context(), known.social_preview()), (None, None, None));
    }

    #[test]
    fn a_fill_that_was_overtaken_by_a_drop_is_not_kept() {
        let cache = LinkCache::new(1 << 20, true);
        let seen = seen(cache.get("abc", 0));
        cache.drop_link("tnt_x", "abc");
        cache.fill("abc", Some(known(&cache, "abc", 0)), seen, 0);
        assert!(matches!(cache.get("abc", 0), Lookup::Ask { .. }));
    }

    #[test]
    fn a_changed_tenant_is_read_again_and_a_fill_from_before_is_not_kept() {
        const TENANT: &str = "tnt_0123456789abcdef01234567";
        let cache = LinkCache::new(1 << 20, true);
        let before = seen(cache.get("abc", 0));
        cache.fill("abc", Some(known(&cache, "abc", 0)), before, 0);
        assert!(matches!(cache.get("abc", 0), Lookup::Known(_)));
        cache.forget_tenant(TENANT);
        assert!(matches!(cache.get("abc", 0), Lookup::Ask { old: Some(_), .. }));
        // Read before the change, filled after it.
        let old = known(&cache, "xyz", 0);
        let before = seen(cache.get("xyz", 0));
        cache.forget_tenant(TENANT);
        cache.fill("xyz", Some(old), before, 0);
        assert!(matches!(cache.get("xyz", 0), Lookup::Ask { old: None, .. }));
    }

    #[test]
    fn without_notices_an_entry_is_believed_for_five_seconds_and_may_answer_for_ten_minutes() {
        let cache = LinkCache::new(1 << 20, true);
        let seen = seen(cache.get("abc", 0));
        cache.fill("abc", Some(known(&cache, "abc", 0)), seen, 0);
        assert!(matches!(cache.get("abc", 1_000_000), Lookup::Known(_)));
        cache.belief.set_hears(false);
        assert!(matches!(cache.get("abc", 4_999), Lookup::Known(_)));
        assert!(matches!(cache.get("abc", 5_000), Lookup::Ask { old: Some(_), .. }));
        assert!(matches!(cache.get("abc", 600_000), Lookup::Ask { old: None, .. }));
        cache.belief.set_hears(true);
        cache.belief.doubt_all(10);
        assert!(matches!(cache.get("abc", 11), Lookup::Ask { old: Some(_), .. }));
    }

    #[test]
    fn absence_is_believed_for_five_seconds_and_ends_with_a_create() {
        let cache = LinkCache::new(1 << 20, true);
        let seen = seen(cache.get("abc", 0));
        cache.fill("abc", None, seen, 0);
        assert!(matches!(cache.get("abc", 4_999), Lookup::Absent));
        assert!(matches!(cache.get("abc", 5_000), Lookup::Ask { .. }));
        cache.fill("abc", None, seen, 0);
        cache.drop_link("tnt_x", "abc");
        assert!(matches!(cache.get("abc", 0), Lookup::Ask { .. }));
    }

    #[test]
    fn the_cache_stays_within_its_bytes() {
        let cache = LinkCache::new(256 << 10, true);
        for n in 0..10_000 {
            let name = format!("link-{n}");
            let seen = seen(cache.get(&name, 0));
            cache.fill(&name, Some(known(&cache, &name, 0)), seen, 0);
        }
        assert!(cache.bytes() <= 256 << 10 && cache.len() > 500, "{} bytes, {} links", cache.bytes(), cache.len());
    }
}
