//! Links: the requests, the checked forms that are stored, and the replies.
//!
//! [`CreateLink`] and [`UpdateLink`] are the wire; [`NewLink`] and [`LinkPatch`] can only be made by checking them, so
//! they may be stored.

mod description;
mod id;

use serde::{Deserialize, Serialize};

use crate::destinations::{Destinations, of};
use crate::error::{ErrorCode, Invalid};
use crate::id::AffiliateId;
use crate::metadata::Metadata;
use crate::page::Page;
use crate::patch::Patch;
use crate::time::Timestamp;
use crate::words::{reply, setters, shown_link, words};

pub use description::{
    Action, AgentContext, MAX_AGENT_DESCRIPTION, MAX_CTA, MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_TITLE, SocialPreview,
};
pub use id::{GENERATED_ID_LEN, RESERVED_WORDS, check_custom_id, generate_id, is_link_id};

words! {
    /// Whether a link works, and if not, why.
    LinkStatus {
        /// Visits are redirected.
        Active = "active",
        /// It has expired.
        Expired = "expired",
        /// The operator marked it as unsafe.
        Flagged = "flagged",
        /// The operator switched it off.
        Disabled = "disabled",
    }
}

impl LinkStatus {
    /// The status of a link: what the operator set, else expired once `expires_at` is reached, else active.
    pub fn at(set: Option<&Self>, expires_at: Option<Timestamp>, now: Timestamp) -> Self {
        match set {
            Some(Self::Disabled) => Self::Disabled,
            Some(Self::Flagged) => Self::Flagged,
            _ if expires_at.is_some_and(|end| end <= now) => Self::Expired,
            _ => Self::Active,
        }
    }
}

/// The body of a create: every field is optional, and `{}` is a valid link.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CreateLink {
    /// The id, 3 to 64 letters, digits and inner hyphens, case-sensitive; generated when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 3, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9]$")
    )]
    pub custom_id: Option<String>,
    /// Opens the iOS app: an absolute URI, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub ios_deep_link: Option<String>,
    /// The App Store page (apps.apple.com or itunes.apple.com).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub ios_store_url: Option<String>,
    /// Opens the Android app: an absolute URI, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub android_deep_link: Option<String>,
    /// The Play Store page (play.google.com).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub android_store_url: Option<String>,
    /// The web page for desktops and everything else: http or https, a public host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub web_url: Option<String>,
    /// Any JSON object of at most 4,096 bytes and 64 keys; it comes back as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// What the link is for, for agents.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub agent_context: Option<AgentContext>,
    /// How the link looks when it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub social_preview: Option<SocialPreview>,
    /// The affiliate the link counts for; a scoped credential sets its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affiliate_id: Option<String>,
}

impl CreateLink {
    /// A link without any field set.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Chooses the id.
        custom_id: impl Into<String>,
        /// Sets what opens the iOS app.
        ios_deep_link: impl Into<String>,
        /// Sets the App Store page.
        ios_store_url: impl Into<String>,
        /// Sets what opens the Android app.
        android_deep_link: impl Into<String>,
        /// Sets the Play Store page.
        android_store_url: impl Into<String>,
        /// Sets the web page.
        web_url: impl Into<String>,
        /// Sets the metadata.
        metadata: impl Into<Metadata>,
        /// Sets the agent context.
        agent_context: AgentContext,
        /// Sets how the link looks when shared.
        social_preview: SocialPreview,
        /// Sets the affiliate.
        affiliate_id: impl Into<String>,
    }

    /// The URLs by field.
    pub fn destinations(&self) -> Destinations<&Option<String>> {
        of!(&self)
    }

    /// The URLs by field, to be set.
    pub fn destinations_mut(&mut self) -> Destinations<&mut Option<String>> {
        of!(&mut self)
    }

    /// Runs every rule that needs no account: those of the service itself.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.check().map(drop)
    }

    /// Applies every rule and returns what may be stored. Fields are checked in the order of the interface's table.
    pub fn check(&self) -> Result<NewLink, Invalid> {
        if let Some(id) = &self.custom_id {
            check_custom_id(id)?;
        }
        let destinations =
            self.destinations().try_map(|field, url| url.as_deref().map(|text| field.check(text)).transpose())?;
        if let Some(metadata) = &self.metadata {
            metadata.check()?;
        }
        let agent_context = self.agent_context.as_ref().map_or(Ok(None), AgentContext::check)?;
        let social_preview = self.social_preview.as_ref().map(SocialPreview::check).transpose()?;
        let affiliate_id = self.affiliate_id.as_deref().map(|text| {
            text.parse::<AffiliateId>()
                .map_err(|_| Invalid::field(ErrorCode::AffiliateNotFound, "affiliate_id", "there is no such affiliate"))
        });
        Ok(NewLink {
            custom_id: self.custom_id.clone(),
            destinations,
            metadata: self.metadata.clone(),
            agent_context,
            social_preview,
            affiliate_id: affiliate_id.transpose()?,
        })
    }
}

/// A link that passed every rule and is not stored yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NewLink {
    /// The id the caller chose, if any.
    pub custom_id: Option<String>,
    /// Where it leads.
    pub destinations: Destinations,
    /// The tenant's own data.
    pub metadata: Option<Metadata>,
    /// What the link is for, for agents.
    pub agent_context: Option<AgentContext>,
    /// How it looks when shared.
    pub social_preview: Option<SocialPreview>,
    /// The affiliate it counts for.
    pub affiliate_id: Option<AffiliateId>,
}

/// The body of an update: an absent field keeps its value, `null` clears it, a value replaces the whole field.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct UpdateLink {
    /// Opens the iOS app.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub ios_deep_link: Patch<String>,
    /// The App Store page.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub ios_store_url: Patch<String>,
    /// Opens the Android app.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub android_deep_link: Patch<String>,
    /// The Play Store page.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub android_store_url: Patch<String>,
    /// The web page.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub web_url: Patch<String>,
    /// The tenant's own data, replaced as a whole.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Metadata>, required = false))]
    pub metadata: Patch<Metadata>,
    /// What the link is for, for agents; replaced as a whole.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "crate::object::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<AgentContext>, required = false))]
    pub agent_context: Patch<AgentContext>,
    /// How the link looks when shared, replaced as a whole.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "crate::object::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<SocialPreview>, required = false))]
    pub social_preview: Patch<SocialPreview>,
}

impl UpdateLink {
    /// An update that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no field is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The URLs by field.
    pub fn destinations(&self) -> Destinations<&Patch<String>> {
        of!(&self)
    }

    /// The URLs by field, to be set.
    pub fn destinations_mut(&mut self) -> Destinations<&mut Patch<String>> {
        of!(&mut self)
    }

    /// Runs every rule of the service.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.check().map(drop)
    }

    /// Applies every rule and returns what may be applied.
    pub fn check(&self) -> Result<LinkPatch, Invalid> {
        if self.is_empty() {
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, "name at least one field to change"));
        }
        Ok(LinkPatch {
            destinations: self.destinations().try_map(|field, url| url.as_ref().try_map(|text| field.check(text)))?,
            metadata: self.metadata.as_ref().try_map(|metadata| metadata.check().map(|()| metadata.clone()))?,
            agent_context: match self.agent_context.as_ref().try_map(AgentContext::check)? {
                Patch::Set(None) | Patch::Clear => Patch::Clear,
                Patch::Set(Some(context)) => Patch::Set(context),
                Patch::Keep => Patch::Keep,
            },
            social_preview: self.social_preview.as_ref().try_map(SocialPreview::check)?,
        })
    }
}

/// An update that passed every rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkPatch {
    /// Where it leads.
    pub destinations: Destinations<Patch<String>>,
    /// The tenant's own data.
    pub metadata: Patch<Metadata>,
    /// What the link is for, for agents.
    pub agent_context: Patch<AgentContext>,
    /// How the link looks when shared.
    pub social_preview: Patch<SocialPreview>,
}

reply! {
    /// The reply to a create.
    CreatedLink {
        /// The link's id: the last segment of its URL.
        link_id: String,
        /// The short link to share.
        url: String,
        /// When the link expires: 30 days after creation without a verified primary domain, else null.
        expires_at: Option<Timestamp>,
    }
}

shown_link! {
    /// A link as its owner sees it.
    LinkDetail {
        /// The short link to share.
        pub url: String,
    } {
        /// The affiliate it counts for.
        pub affiliate_id: Option<AffiliateId>,
        /// Whether the link is active, and if not, why.
        pub status: LinkStatus,
        /// When the link expires; null when it never does.
        pub expires_at: Option<Timestamp>,
        /// When it was created.
        pub created_at: Timestamp,
        /// When it was last changed.
        pub updated_at: Timestamp,
    }
}

impl LinkDetail {
    /// The URLs by field.
    pub fn destinations(&self) -> Destinations<&Option<String>> {
        of!(&self)
    }
}

/// One page of links, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkList {
    /// The links, at most `limit`.
    pub links: Vec<LinkDetail>,
    /// Where the next page starts; null on the last one.
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

/// Parameters of `GET /v1/links`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkFilter {
    /// Only this affiliate's links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affiliate_id: Option<String>,
    /// Only links of this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<LinkStatus>,
    /// Only links made after this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Timestamp>,
    /// Only links made before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Timestamp>,
    /// Only ids that start with this text, case-sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
}

impl LinkFilter {
    /// Every link.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Only this affiliate's links.
        affiliate_id: impl Into<String>,
        /// Only links of this status.
        status: LinkStatus,
        /// Only links made after this moment.
        created_after: Timestamp,
        /// Only links made before this moment.
        created_before: Timestamp,
        /// Only ids that start with this text.
        q: impl Into<String>,
    }
}

shown_link! {
    /// A link as it is resolved in JSON.
    ResolvedLink {} {
        /// The source of the contents, and whether the service verified it.
        #[serde(rename = "_service_meta")]
        pub service_meta: ServiceMeta,
    }
}

/// What the service itself says about a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceMeta {
    /// Always `tenant_asserted`: the link's creator supplied its contents, and no one verified them.
    pub source: String,
    /// Whether the link is active, and if not, why.
    pub status: LinkStatus,
    /// The creator's verified domain, if there is one.
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
        ];
        for (json, code, field) in cases {
            assert_eq!(refusal(&json), Some((code.into(), Some(field.into()))), "{json}");
        }
        for json in [
            "{}".to_owned(),
            r#"{"custom_id":null,"metadata":null,"agent_context":null,"social_preview":null,"unknown":1}"#.into(),
            format!(r#"{{"agent_context":{{"cta":"{}","description":"{}"}}}}"#, long(120), long(500)),
            r#"{"agent_context":{"description":"a\nb\tc"}}"#.into(),
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
