//! In-memory cache of links, hosts and keys, and how long its entries are fresh.
//!
//! A change on this node drops its entry before the change is acknowledged; a change elsewhere arrives as a notice, or
//! at the latest makes entries stale after [`crate::ttl_cache::FRESH_MILLIS`]. A fill that races with a drop is
//! discarded.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use deeplink_core::destinations::Destinations;
use deeplink_core::id::TenantId;
use deeplink_core::link::LinkStatus;
use deeplink_core::metadata::Metadata;
use deeplink_core::resolve::LinkView;
use deeplink_core::time::Timestamp;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::db::hosts::TenantBranding;
use crate::db::links::Link;
use crate::ttl_cache::{Freshness, Generations, STALE_MILLIS};

/// How long the absence of a link is fresh.
const ABSENT_MILLIS: u64 = 5_000;
/// Memory of an entry besides its text: key, handle, table slot, counters.
const ENTRY_BYTES: usize = 192;
/// Number of change counters of tenants and of names, which share them by hash; large enough that collisions are rare.
const COUNTERS: usize = 4096;

/// A tenant's association files, ready to send.
#[derive(Debug, Default)]
pub(crate) struct AssociationFiles {
    pub(crate) apple: Option<TaggedFile>,
    pub(crate) google: Option<TaggedFile>,
}

/// One file and its tag.
#[derive(Debug, Clone)]
pub(crate) struct TaggedFile {
    pub(crate) body: Bytes,
    pub(crate) tag: String,
}

/// The state of its tenant that an entry was packed under.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Under {
    shard: u16,
    generation: u32,
}

/// A link with what a visit needs: one allocation for all its texts.
#[derive(Debug)]
pub(crate) struct CachedLink {
    pub(crate) position: i64,
    expires_at: i64,
    status: Option<LinkStatus>,
    is_deleted: bool,
    read_at: u64,
    under: Under,
    branding: Arc<TenantBranding>,
    text: Box<str>,
    /// Where each part ends in `text`; an absent part ends where the previous one does.
    ends: [u16; PARTS],
    present: u16,
}

/// The parts of [`CachedLink::text`] by their index.
const LINK_ID: usize = 0;
const URL: usize = 1;
const DESTINATIONS: usize = 2;
const METADATA: usize = 7;
const AGENT_CONTEXT: usize = 8;
const SOCIAL_PREVIEW: usize = 9;
const EXPIRED_URL: usize = 10;
const PARTS: usize = 11;

impl CachedLink {
    /// Packs a stored link. `url` is its shareable address.
    pub(crate) fn pack(link: &Link, url: &str, branding: Arc<TenantBranding>, under: Under, read_at: u64) -> Self {
        let agent_context = link.content.agent_context.as_ref().and_then(|value| serde_json::to_string(value).ok());
        let social_preview = link.content.social_preview.as_ref().and_then(|value| serde_json::to_string(value).ok());
        let metadata = link.content.metadata.as_ref().map(Metadata::as_str);
        let parts = [Some(&*link.link_id), Some(url)]
            .into_iter()
            .chain(link.content.destinations.as_deref().into_array())
            .chain([metadata, agent_context.as_deref(), social_preview.as_deref()])
            .chain([link.content.expired_url.as_deref()]);
        let mut text = String::with_capacity(parts.clone().flatten().map(str::len).sum());
        let (mut ends, mut present) = ([0; PARTS], 0);
        for (at, part) in parts.enumerate() {
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
            is_deleted: link.is_deleted,
            read_at,
            under,
            branding,
            text: text.into(),
            ends,
            present,
        }
    }

    fn part(&self, at: usize) -> Option<&str> {
        if self.present & (1 << at) == 0 {
            return None;
        }
        let start = if at == 0 { 0 } else { usize::from(self.ends[at - 1]) };
        self.text.get(start..usize::from(self.ends[at]))
    }

    /// The status that visitors see at a given time. A suspended account's links are disabled, except those with a
    /// warning.
    pub(crate) fn status_at(&self, now: Timestamp) -> LinkStatus {
        let status = if self.branding.is_suspended && self.status != Some(LinkStatus::Flagged) {
            Some(&LinkStatus::Disabled)
        } else {
            self.status.as_ref()
        };
        let expires_at = (self.expires_at != i64::MAX).then(|| Timestamp::from_millis(self.expires_at));
        LinkStatus::at(status, expires_at, now)
    }

    /// Whether its tenant deleted it and it is kept only for visitors, because it was taken down.
    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// The link's own ID.
    pub(crate) fn link_id(&self) -> &str {
        self.part(LINK_ID).unwrap_or_default()
    }

    /// The link as input to the decision.
    pub(crate) fn view(&self, is_active: bool) -> LinkView<'_> {
        LinkView {
            link_id: self.link_id(),
            url: self.part(URL).unwrap_or_default(),
            to: Destinations::from_array(std::array::from_fn(|at| self.part(DESTINATIONS + at))),
            has_social_preview: self.part(SOCIAL_PREVIEW).is_some(),
            has_agent_context: self.part(AGENT_CONTEXT).is_some(),
            is_active,
        }
    }

    /// Metadata as its JSON text.
    pub(crate) fn metadata(&self) -> Option<&str> {
        self.part(METADATA)
    }

    /// Agent context as JSON.
    pub(crate) fn agent_context(&self) -> Option<&str> {
        self.part(AGENT_CONTEXT)
    }

    /// Social preview as JSON.
    pub(crate) fn social_preview(&self) -> Option<&str> {
        self.part(SOCIAL_PREVIEW)
    }

    /// Where people are sent once it expired.
    pub(crate) fn expired_url(&self) -> Option<&str> {
        self.part(EXPIRED_URL)
    }

    /// The tenant's branding.
    pub(crate) fn branding(&self) -> &TenantBranding {
        &self.branding
    }
}

/// An alias and the link that it leads to. It holds as long as nothing is changed about that link or its tenant.
#[derive(Debug)]
pub(crate) struct CachedAlias {
    pub(crate) tenant: TenantId,
    pub(crate) link_id: String,
    read_at: u64,
    /// Drops of the link before the alias was packed.
    drops: u64,
    under: Under,
}

impl CachedAlias {
    /// The name of the link on its tenant's hosts.
    fn name(&self) -> String {
        format!("{}/{}", self.tenant, self.link_id)
    }
}

/// What a name leads to.
#[derive(Debug, Clone)]
pub(crate) enum Named {
    Link(Arc<CachedLink>),
    Alias(Arc<CachedAlias>),
}

impl Named {
    fn read_at(&self) -> u64 {
        match self {
            Self::Link(link) => link.read_at,
            Self::Alias(alias) => alias.read_at,
        }
    }
}

#[derive(Debug, Clone)]
enum Slot {
    Named(Named),
    Absent { until: u64 },
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Box<str>, Slot> for Weight {
    fn weight(&self, key: &Box<str>, slot: &Slot) -> u64 {
        let text = match slot {
            Slot::Named(Named::Link(known)) => known.text.len(),
            Slot::Named(Named::Alias(alias)) => alias.link_id.len(),
            Slot::Absent { .. } => 0,
        };
        (ENTRY_BYTES + key.len() + text) as u64
    }
}

/// The result of looking up an id in the cache.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The link, or the alias of one.
    Named(Named),
    /// There was none when the database was last asked.
    Absent,
    /// The database must be asked; `old` may answer if it is unavailable, and `drops` is passed to the fill.
    Ask { old: Option<Named>, drops: DropCounts },
}

/// Counts of drops before the database was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DropCounts {
    /// Of the name.
    name: u64,
    /// Of any whole tenant.
    tenants: u64,
    /// Of any link.
    links: u64,
}

impl DropCounts {
    /// Whether what is filled in may have been read before a drop since then. The link of an alias is known only once it is
    /// read, so any drop counts.
    fn are_before(self, now: Self, named: Option<&Named>) -> bool {
        let is_alias = matches!(named, Some(Named::Alias(_)));
        self.name != now.name || self.tenants != now.tenants || is_alias && self.links != now.links
    }
}

/// Links and aliases by the name in the request: the id on the service's own host, `tenant/id` on a tenant's.
#[derive(Debug)]
pub(crate) struct LinkCache {
    slots: Cache<Box<str>, Slot, Weight>,
    names: Generations,
    tenants: Generations,
    /// Number of changes of any tenant.
    tenant_changes: AtomicU64,
    /// Number of drops of any link.
    link_drops: AtomicU64,
    pub(crate) freshness: Freshness,
}

impl LinkCache {
    /// A cache of at most `bytes` bytes. `hears`: whether this node is notified of every change on other nodes.
    pub(crate) fn new(bytes: u64, hears: bool) -> Self {
        let entries = usize::try_from(bytes / 320).unwrap_or(1).max(16);
        Self {
            slots: Cache::with_weighter(entries, bytes, Weight),
            names: Generations::new(COUNTERS),
            tenants: Generations::new(COUNTERS),
            tenant_changes: AtomicU64::new(0),
            link_drops: AtomicU64::new(0),
            freshness: Freshness::new(hears),
        }
    }

    /// The current state of a tenant, for entries packed now.
    pub(crate) fn under(&self, tenant: &str) -> Under {
        let shard = self.tenants.shard(tenant);
        Under { shard: u16::try_from(shard).unwrap_or(0), generation: self.generation(shard) }
    }

    /// Counts wrap: no entry outlives four billion changes of its tenant.
    #[expect(clippy::cast_possible_truncation, reason = "only equality of late changes matters")]
    fn generation(&self, shard: usize) -> u32 {
        self.tenants.counts[shard].load(Ordering::Acquire) as u32
    }

    fn is_current(&self, known: &Named) -> bool {
        let (under, is_dropped) = match known {
            Named::Link(link) => (link.under, false),
            Named::Alias(alias) => (alias.under, self.drops_of(&alias.name()) != alias.drops),
        };
        !is_dropped && self.generation(usize::from(under.shard)) == under.generation
    }

    fn drops_of(&self, name: &str) -> u64 {
        self.names.of(name).load(Ordering::Acquire)
    }

    fn drops(&self, name: &str) -> DropCounts {
        DropCounts {
            name: self.drops_of(name),
            tenants: self.tenant_changes.load(Ordering::Acquire),
            links: self.link_drops.load(Ordering::Acquire),
        }
    }

    /// An alias that the database has just named.
    pub(crate) fn alias(&self, tenant: TenantId, link_id: String, read_at: u64) -> Arc<CachedAlias> {
        let under = self.under(tenant.as_str());
        let mut alias = CachedAlias { tenant, link_id, read_at, drops: 0, under };
        alias.drops = self.drops_of(&alias.name());
        Arc::new(alias)
    }

    /// Something changed that affects all of a tenant's links: each is read again before it is used.
    pub(crate) fn forget_tenant(&self, tenant: &str) {
        self.tenants.of(tenant).fetch_add(1, Ordering::AcqRel);
        self.tenant_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Looks a name up; `now` is monotonic.
    pub(crate) fn get(&self, name: &str, now: u64) -> Lookup {
        let old = match self.slots.get(name) {
            Some(Slot::Named(known)) if self.freshness.holds(known.read_at(), now) && self.is_current(&known) => {
                return Lookup::Named(known);
            }
            Some(Slot::Absent { until }) if until > now => return Lookup::Absent,
            Some(Slot::Named(known)) if known.read_at() + STALE_MILLIS > now => Some(known),
            _ => None,
        };
        Lookup::Ask { old, drops: self.drops(name) }
    }

    /// Stores what the database returned, unless something was dropped since `drops` was read.
    pub(crate) fn fill(&self, name: &str, known: Option<&Named>, drops: DropCounts, now: u64) {
        let is_late = || drops.are_before(self.drops(name), known);
        if is_late() {
            return;
        }
        let slot = known.cloned().map_or(Slot::Absent { until: now + ABSENT_MILLIS }, Slot::Named);
        self.slots.insert(name.into(), slot);
        // Check again after the insert: this sees a drop that came in between, and a later one removes the entry.
        if is_late() {
            self.slots.remove(name);
        }
    }

    /// Drops a link or an alias under both of its names. Aliases of a link that is dropped no longer hold.
    pub(crate) fn drop_link(&self, tenant: &str, link_id: &str) {
        self.link_drops.fetch_add(1, Ordering::AcqRel);
        for name in [link_id, &format!("{tenant}/{link_id}")] {
            self.names.of(name).fetch_add(1, Ordering::AcqRel);
            self.slots.remove(name);
        }
    }

    /// Accounted bytes of the entries, for metrics.
    pub(crate) fn bytes(&self) -> u64 {
        self.slots.weight()
    }

    /// Number of entries, for metrics.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}
