//! Links: the requests, the checked forms that are stored, and the replies.
//!
//! [`CreateLink`] and [`UpdateLink`] are the wire; [`NewLink`] and [`LinkPatch`] can only be made by checking them, so
//! they may be stored.

mod alias;
mod changes;
mod create;
mod description;
mod filter;
mod history;
mod id;
mod owner;
pub mod row;
mod update;

use serde::{Deserialize, Serialize};

use crate::destinations::{Destinations, of};
use crate::id::AffiliateId;
use crate::metadata::Metadata;
use crate::page::Page;
use crate::qr::QrOptions;
use crate::time::Timestamp;
use crate::words::{reply, shown_link, words};

pub(crate) use alias::of_many as alias_of_many;
pub use alias::{
    Alias, MAX_ALIAS, MAX_ALIASES, canonical as canonical_path, check_not_own, decoded, field_of as alias_field,
    name_in_path, set_of as alias_set,
};
pub use create::{CreateLink, NewLink};
pub use description::{
    Action, AgentContext, MAX_AGENT_DESCRIPTION, MAX_CTA, MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_TITLE, SocialPreview,
};
pub use filter::{LinkFilter, LinkSort};
pub use history::{DELETED_DAYS, LinkChange, LinkContent, LinkHistory, LinkVersion, MAX_VERSIONS, RestoreLink};
pub use id::{GENERATED_ID_LEN, RESERVED_WORDS, check_custom_id, generate_id, is_link_id};
pub use owner::{MAX_EXPIRY_DAYS, MAX_IMPORTED_CLICKS, MAX_NAME, check_end};
pub use update::{LinkPatch, UpdateLink};

words! {
    /// Whether a link works, and if not, why.
    LinkStatus {
        /// Visits are redirected.
        Active = "active",
        /// It has expired.
        Expired = "expired",
        /// The operator marked it as unsafe.
        Flagged = "flagged",
        /// Its owner or the operator disabled it.
        Disabled = "disabled",
        /// Its owner deleted it, and can restore it. Only lists of deleted links contain such links.
        Deleted = "deleted",
    }
}

impl LinkStatus {
    /// The status of a link: what the operator or the owner set, else expired once `expires_at` is reached, else active.
    pub fn at(set: Option<&Self>, expires_at: Option<Timestamp>, now: Timestamp) -> Self {
        match set {
            Some(Self::Disabled) => Self::Disabled,
            Some(Self::Flagged) => Self::Flagged,
            Some(Self::Deleted) => Self::Deleted,
            _ if expires_at.is_some_and(|end| end <= now) => Self::Expired,
            _ => Self::Active,
        }
    }
}

reply! {
    /// The response to a create request.
    CreatedLink {
        /// The link's ID: the last segment of its URL.
        link_id: String,
        /// The short link to share.
        url: String,
        /// When the link expires: the expiry set in the request or, without a verified primary domain, 30 days after
        /// creation (the operator can change this), whichever is earlier; otherwise null.
        expires_at: Option<Timestamp>,
    }
}

shown_link! {
    /// A link, with all its settings.
    LinkDetail {
        /// The short link to share.
        pub url: String,
    } {
        /// The affiliate that the link is attributed to.
        pub affiliate_id: Option<AffiliateId>,
        /// Whether the link is active and, if not, why.
        pub status: LinkStatus,
        /// When the link expires; null if it never expires.
        pub expires_at: Option<Timestamp>,
        /// When it was created.
        pub created_at: Timestamp,
        /// When it was last changed; for a deleted link, when it was deleted.
        pub updated_at: Timestamp,
        /// Name that the owner gave the link; always null with an affiliate's credential.
        #[serde(default)]
        pub name: Option<String>,
        /// Whether the owner has enabled the link. The operator can disable it separately.
        #[serde(default = "enabled")]
        pub enabled: bool,
        /// The expiry set by the owner; `expires_at` may be earlier.
        #[serde(default)]
        pub owner_expires_at: Option<Timestamp>,
        /// URL that visitors are redirected to after the link has expired.
        #[serde(default)]
        pub expired_url: Option<String>,
        /// The owner's tags for the link, in alphabetical order; always empty with an affiliate's credential.
        #[serde(default)]
        pub tags: Vec<String>,
        /// Aliases: additional IDs and paths that lead to the link, in alphabetical order.
        #[serde(default)]
        pub aliases: Vec<String>,
        /// Design of the link's QR codes, used if a request has no options other than `size`; null for the
        /// default design.
        #[serde(default)]
        pub qr: Option<QrOptions>,
        /// Clicks that a previous service counted, as the owner imported them; not included in any report's clicks. Always
        /// null with an affiliate's credential.
        #[serde(default)]
        pub imported_clicks: Option<i64>,
    }
}

/// What a service that knows no switch of the owner says.
fn enabled() -> bool {
    true
}

impl LinkDetail {
    /// The URLs by field.
    pub fn destinations(&self) -> Destinations<&Option<String>> {
        of!(&self)
    }
}

/// One page of links, newest first unless `sort` is `oldest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkList {
    /// The links, at most `limit`.
    pub links: Vec<LinkDetail>,
    /// Cursor for the next page; null on the last page.
    pub next_cursor: Option<String>,
}

impl Page for LinkList {
    type Item = LinkDetail;

    fn next_cursor(&self) -> Option<&str> {
        self.next_cursor.as_deref()
    }

    fn into_items(self) -> Vec<LinkDetail> {
        self.links
    }
}

shown_link! {
    /// A link, resolved as JSON.
    ResolvedLink {} {
        /// The source of the contents, and whether the service verified it.
        #[serde(rename = "_service_meta")]
        pub service_meta: ServiceMeta,
    }
}

/// The service's own information about a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceMeta {
    /// Always `tenant_asserted`: the contents come from the link's creator and are not verified.
    pub source: String,
    /// Whether the link is active and, if not, why.
    pub status: LinkStatus,
    /// The creator's verified domain, if any.
    pub tenant_domain: Option<String>,
    /// Whether the creator has a verified domain.
    pub tenant_verified: bool,
}

impl ServiceMeta {
    /// The only value of `source`.
    pub const SOURCE: &'static str = "tenant_asserted";
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::error::ErrorCode;
    use crate::patch::Patch;

    fn refusal(json: &str) -> Option<(String, Option<String>)> {
        let link: CreateLink = serde_json::from_str(json).expect("a create request");
        let invalid = link.check().err()?;
        Some((invalid.code.as_str().to_owned(), invalid.field.map(Cow::into_owned)))
    }

    #[test]
    fn every_rule_names_its_code_and_field() {
        let long = |n: usize| "👋".repeat(n);
        let cases: Vec<(String, &str, &str)> = vec![
            (r#"{"custom_id":"a"}"#.into(), "invalid_custom_id", "custom_id"),
            (r#"{"web_url":"ftp://example.com"}"#.into(), "invalid_url", "web_url"),
            (r#"{"ios_deep_link":"javascript:1"}"#.into(), "invalid_url", "ios_deep_link"),
            (r#"{"ios_store_url":"https://example.com"}"#.into(), "invalid_url", "ios_store_url"),
            (r#"{"android_deep_link":""}"#.into(), "invalid_url", "android_deep_link"),
            (r#"{"android_store_url":"https://apps.apple.com/"}"#.into(), "invalid_url", "android_store_url"),
            (r#"{"metadata":[]}"#.into(), "invalid_metadata", "metadata"),
            (r#"{"agent_context":{"action":"PURCHASE"}}"#.into(), "invalid_agent_context", "agent_context.action"),
            (format!(r#"{{"agent_context":{{"cta":"{}"}}}}"#, long(121)), "invalid_agent_context", "agent_context.cta"),
            (r#"{"agent_context":{"cta":"a\nb"}}"#.into(), "invalid_agent_context", "agent_context.cta"),
            (
                format!(r#"{{"agent_context":{{"description":"{}"}}}}"#, long(501)),
                "invalid_agent_context",
                "agent_context.description",
            ),
            (r#"{"social_preview":{}}"#.into(), "invalid_social_preview", "social_preview"),
            (r#"{"social_preview":{"title":"  "}}"#.into(), "invalid_social_preview", "social_preview"),
            (
                format!(r#"{{"social_preview":{{"title":"{}"}}}}"#, long(121)),
                "invalid_social_preview",
                "social_preview.title",
            ),
            (
                format!(r#"{{"social_preview":{{"description":"{}"}}}}"#, long(301)),
                "invalid_social_preview",
                "social_preview.description",
            ),
            (r#"{"social_preview":{"image_url":"/x.png"}}"#.into(), "invalid_url", "social_preview.image_url"),
            (r#"{"affiliate_id":"aff_1"}"#.into(), "affiliate_not_found", "affiliate_id"),
            (format!(r#"{{"name":"{}"}}"#, long(121)), "invalid_name", "name"),
            (r#"{"name":"a\nb"}"#.into(), "invalid_name", "name"),
            (r#"{"expires_at":"tomorrow"}"#.into(), "invalid_expires_at", "expires_at"),
            (r#"{"expires_at":"2027-01-01"}"#.into(), "invalid_expires_at", "expires_at"),
            (r#"{"expires_at":"2027-01-01T00:00:00"}"#.into(), "invalid_expires_at", "expires_at"),
            (r#"{"expires_at":""}"#.into(), "invalid_expires_at", "expires_at"),
            (r#"{"expired_url":"myapp://x"}"#.into(), "invalid_url", "expired_url"),
            (r#"{"imported_clicks":-1}"#.into(), "bad_request", "imported_clicks"),
            (r#"{"imported_clicks":9007199254740992}"#.into(), "bad_request", "imported_clicks"),
            (r#"{"tags":["a","b,c"]}"#.into(), "invalid_tag", "tags"),
            (r#"{"qr":{"size":0}}"#.into(), "invalid_qr_options", "qr.size"),
            (format!(r#"{{"tags":[{}"x"]}}"#, "\"x\",".repeat(5_000)), "invalid_tag", "tags"),
            (r#"{"aliases":["old-1","a b"]}"#.into(), "invalid_alias", "aliases[1]"),
            (r#"{"custom_id":"new-1","aliases":["new-1"]}"#.into(), "invalid_alias", "aliases[0]"),
            (format!(r#"{{"aliases":[{}"x"]}}"#, "\"x\",".repeat(5_000)), "invalid_alias", "aliases"),
        ];
        for (json, code, field) in cases {
            assert_eq!(refusal(&json), Some((code.into(), Some(field.into()))), "{json}");
        }
        for json in [
            "{}".to_owned(),
            r#"{"custom_id":null,"metadata":null,"agent_context":null,"social_preview":null,"unknown":1}"#.into(),
            format!(r#"{{"agent_context":{{"cta":"{}","description":"{}"}}}}"#, long(120), long(500)),
            r#"{"agent_context":{"description":"a\nb\tc"}}"#.into(),
            format!(r#"{{"name":"{}","enabled":false,"expires_at":"2027-01-01T00:00:00+02:00"}}"#, long(120)),
            r#"{"name":" ","enabled":null,"expires_at":null,"expired_url":null,"tags":null}"#.into(),
            r#"{"tags":[]}"#.into(),
            r#"{"imported_clicks":null}"#.into(),
            r#"{"imported_clicks":0}"#.into(),
            r#"{"imported_clicks":9007199254740991}"#.into(),
            r#"{"custom_id":"new-1","aliases":["old-1","l/old_2","/l/old_2"]}"#.into(),
            r#"{"aliases":null}"#.into(),
            r#"{"qr":{"logo":"name:acme"}}"#.into(),
            r#"{"qr":{}}"#.into(),
        ] {
            assert_eq!(refusal(&json), None, "{json}");
        }
    }

    #[test]
    fn blank_agent_context_is_none() {
        let link: CreateLink = serde_json::from_str(r#"{"agent_context":{"cta":" ","description":""}}"#).expect("JSON");
        assert_eq!(link.check().expect("valid").agent_context, None);
        let update: UpdateLink = serde_json::from_str(r#"{"agent_context":{"cta":" "}}"#).expect("JSON");
        assert_eq!(update.check().expect("valid").agent_context, Patch::Clear);
    }

    #[test]
    fn an_update_without_a_known_field_is_empty() {
        for json in ["{}", r#"{"custom_id":"x","affiliate_id":"y","status":"active","nothing":1}"#] {
            let update: UpdateLink = serde_json::from_str(json).expect("JSON");
            assert_eq!(update.check().map_err(|e| e.code), Err(ErrorCode::EmptyUpdate), "{json}");
        }
    }

    #[test]
    fn the_operator_outranks_the_clock() {
        let (now, past) = (Timestamp::from_millis(10), Some(Timestamp::from_millis(10)));
        assert_eq!(LinkStatus::at(None, None, now), LinkStatus::Active);
        assert_eq!(LinkStatus::at(None, past, now), LinkStatus::Expired);
        assert_eq!(LinkStatus::at(Some(&LinkStatus::Flagged), past, now), LinkStatus::Flagged);
        assert_eq!(LinkStatus::at(Some(&LinkStatus::Disabled), past, now), LinkStatus::Disabled);
    }
}
