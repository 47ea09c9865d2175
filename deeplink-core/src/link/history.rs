//! The history of a link: what it was before each change, and restoring it.

use serde::{Deserialize, Serialize};

use super::{AgentContext, Alias, LinkPatch, NewLink, SocialPreview};
use crate::audit::AuditActor;
use crate::destinations::{Destinations, of};
use crate::id::AffiliateId;
use crate::metadata::Metadata;
use crate::patch::Patch;
use crate::qr::QrOptions;
use crate::tag::{Tag, set_of};
use crate::time::Timestamp;
use crate::words::{paged, reply, words};

/// Number of versions kept for each link; each further change removes the oldest.
pub const MAX_VERSIONS: i64 = 100;
/// Days after which a deleted link can no longer be restored.
pub const DELETED_DAYS: i64 = 30;

words! {
    /// What was done to a link.
    LinkChange {
        /// Fields were changed.
        Updated = "updated",
        /// The link was enabled, with no other change, or the operator reversed its flagging or disabling.
        Enabled = "enabled",
        /// The link was disabled, with no other change.
        Disabled = "disabled",
        /// The operator marked it as unsafe.
        Flagged = "flagged",
        /// It was deleted.
        Deleted = "deleted",
        /// An earlier version of the link, or the deleted link, was restored.
        Restored = "restored",
    }
}

/// The fields of a link that its owner sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
// Versions that were stored before a field was added have none.
#[serde(default)]
#[non_exhaustive]
pub struct LinkContent {
    /// Deep link that opens the iOS app.
    pub ios_deep_link: Option<String>,
    /// The App Store page.
    pub ios_store_url: Option<String>,
    /// Deep link that opens the Android app.
    pub android_deep_link: Option<String>,
    /// The Google Play page.
    pub android_store_url: Option<String>,
    /// The web page.
    pub web_url: Option<String>,
    /// Any JSON object that the link's creator attached.
    pub metadata: Option<Metadata>,
    /// What the link is for, according to its creator.
    pub agent_context: Option<AgentContext>,
    /// How the link looks when it is shared.
    pub social_preview: Option<SocialPreview>,
    /// The affiliate that the link is attributed to.
    pub affiliate_id: Option<AffiliateId>,
    /// Name that the owner gave the link.
    pub name: Option<String>,
    /// Whether the owner has enabled the link.
    pub enabled: bool,
    /// The expiry set by the owner.
    pub expires_at: Option<Timestamp>,
    /// URL that visitors are redirected to after the link has expired.
    pub expired_url: Option<String>,
    /// The owner's tags for the link, in alphabetical order.
    pub tags: Vec<String>,
    /// Aliases: additional IDs and paths that lead to the link, in alphabetical order.
    pub aliases: Vec<String>,
    /// Design of its QR codes.
    pub qr: Option<QrOptions>,
    /// Clicks that a previous service counted.
    pub imported_clicks: Option<i64>,
}

impl From<NewLink> for LinkContent {
    fn from(link: NewLink) -> Self {
        let to = link.destinations;
        Self {
            ios_deep_link: to.ios_deep_link,
            ios_store_url: to.ios_store_url,
            android_deep_link: to.android_deep_link,
            android_store_url: to.android_store_url,
            web_url: to.web_url,
            metadata: link.metadata,
            agent_context: link.agent_context,
            social_preview: link.social_preview,
            affiliate_id: link.affiliate_id,
            name: link.name,
            enabled: !link.is_disabled,
            expires_at: link.expires_at,
            expired_url: link.expired_url,
            tags: link.tags.into_iter().map(Tag::into_text).collect(),
            aliases: link.aliases.into_iter().map(Alias::into_text).collect(),
            qr: link.qr,
            imported_clicks: link.imported_clicks,
        }
    }
}

impl Default for LinkContent {
    fn default() -> Self {
        NewLink::default().into()
    }
}

impl LinkContent {
    /// The URLs by field.
    pub fn destinations(&self) -> Destinations<&Option<String>> {
        of!(&self)
    }

    /// The link as it was stored.
    pub fn into_stored(self) -> NewLink {
        let tags = set_of(self.tags.into_iter().map(Tag::of_stored));
        let mut link = NewLink { is_disabled: !self.enabled, tags, ..NewLink::default() };
        link.destinations = Destinations {
            ios_deep_link: self.ios_deep_link,
            ios_store_url: self.ios_store_url,
            android_deep_link: self.android_deep_link,
            android_store_url: self.android_store_url,
            web_url: self.web_url,
        };
        (link.metadata, link.agent_context, link.social_preview) =
            (self.metadata, self.agent_context, self.social_preview);
        (link.affiliate_id, link.name, link.imported_clicks) = (self.affiliate_id, self.name, self.imported_clicks);
        link.aliases = self.aliases.into_iter().map(Alias::of_stored).collect();
        (link.expires_at, link.expired_url, link.qr) = (self.expires_at, self.expired_url, self.qr);
        link
    }
}

impl LinkPatch {
    /// The patch that restores this stored content to a link; it leaves the affiliate unchanged.
    pub fn to(stored: NewLink) -> Self {
        fn set<T>(value: Option<T>) -> Patch<T> {
            value.map_or(Patch::Clear, Patch::Set)
        }
        Self {
            destinations: stored.destinations.map(set),
            metadata: set(stored.metadata),
            agent_context: set(stored.agent_context),
            social_preview: set(stored.social_preview),
            name: set(stored.name),
            enabled: Some(!stored.is_disabled),
            expires_at: set(stored.expires_at),
            expired_url: set(stored.expired_url),
            tags: Some(stored.tags),
            aliases: Some(stored.aliases),
            qr: set(stored.qr),
            imported_clicks: set(stored.imported_clicks),
        }
    }

    /// What it does to a link.
    pub fn change(&self) -> LinkChange {
        let only_switch = Self { enabled: self.enabled, ..Self::default() };
        match self.enabled {
            Some(enabled) if *self == only_switch => {
                if enabled {
                    LinkChange::Enabled
                } else {
                    LinkChange::Disabled
                }
            }
            _ => LinkChange::Updated,
        }
    }
}

reply! {
    /// A version of a link: the link as it was before a change, and details of that change.
    LinkVersion {
        /// Number of the version; version 1 is the link before its first recorded change.
        version: u64,
        /// Kind of change.
        change: LinkChange,
        /// Time of the change.
        changed_at: Timestamp,
        /// Type of the actor.
        actor_type: AuditActor,
        /// Who changed it: a key prefix, a team member's email address, or a wallet address; `null` for the operator and the
        /// service.
        actor: Option<String>,
        /// Whether the change was made by a bulk request.
        bulk: bool,
        /// The link before the change.
        content: LinkContent,
    }
}

paged! {
    /// The versions of a link, newest first.
    LinkHistory {
        /// The versions.
        versions: LinkVersion,
    }
}

/// The request body of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"version": 1}))))]
#[non_exhaustive]
pub struct RestoreLink {
    /// Number of the version to restore; by default, the last change is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub version: Option<u64>,
}

impl RestoreLink {
    /// Restores the newest version.
    pub fn new() -> Self {
        Self::default()
    }

    crate::words::setters! {
        /// Restores this version.
        version: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{CreateLink, UpdateLink};

    #[test]
    fn content_is_stored_and_read_without_loss() {
        let full = r##"{"ios_deep_link":"app://a","web_url":"https://example.com/a","metadata":{"b":1,"a":[]},
            "agent_context":{"cta":"Buy"},"social_preview":{"title":"A"},"affiliate_id":"aff_0123456789abcdef01234567",
            "name":"Spring","enabled":false,"expires_at":"2099-01-01T00:00:00Z","expired_url":"https://example.com/over",
            "imported_clicks":1234,"tags":["b","A"],"aliases":["old-1","l/old"],"qr":{"size":300,"fgColor":"#0a7cff","logo":"name:acme"}}"##;
        for json in [full, "{}"] {
            let link: CreateLink = serde_json::from_str(json).expect("a request");
            let stored = link.check().expect("a valid link");
            let text = serde_json::to_string(&LinkContent::from(stored.clone())).expect("JSON");
            let read: LinkContent = serde_json::from_str(&text).expect("the same");
            assert_eq!(read.into_stored(), stored);
        }
        let old: LinkContent = serde_json::from_str(r#"{"web_url":"https://example.com/a"}"#).expect("fewer fields");
        assert_eq!((old.enabled, old.tags.len(), old.aliases.len()), (true, 0, 0));
    }

    #[test]
    fn a_switch_alone_is_named() {
        for (json, change) in [
            (r#"{"enabled":true}"#, LinkChange::Enabled),
            (r#"{"enabled":false}"#, LinkChange::Disabled),
            (r#"{"enabled":false,"name":null}"#, LinkChange::Updated),
            (r#"{"tags":[]}"#, LinkChange::Updated),
            (r#"{"enabled":true,"qr":{"level":"Q"}}"#, LinkChange::Updated),
        ] {
            let update: UpdateLink = serde_json::from_str(json).expect("a request");
            assert_eq!(update.check().expect("a valid update").change(), change, "{json}");
        }
    }
}
