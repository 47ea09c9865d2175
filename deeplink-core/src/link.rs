//! Links: what a caller sends, what is stored, what is shown, and the rules between them.
//!
//! [`CreateLink`] and [`UpdateLink`] are the wire; [`NewLink`] and [`LinkPatch`] can only be made by checking them, so
//! whoever holds one holds something that may be stored.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::id::AffiliateId;
use crate::metadata::Metadata;
use crate::patch::Patch;
use crate::secret::Random;
use crate::text::find_control;
use crate::time::Timestamp;
use crate::url::{self, Refused};
use crate::words::{setters, words};

/// Most characters of a call to action.
pub const MAX_CTA: usize = 120;
/// Most characters of an agent context's description.
pub const MAX_AGENT_DESCRIPTION: usize = 500;
/// Most characters of a preview's title.
pub const MAX_PREVIEW_TITLE: usize = 120;
/// Most characters of a preview's description.
pub const MAX_PREVIEW_DESCRIPTION: usize = 300;
/// Characters of a generated link id, each one of `0-9A-Z`.
pub const GENERATED_ID_LEN: usize = 8;

const GENERATED_SYMBOLS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// First path segments that the service serves itself or may serve, and words that mislead: never a custom id.
pub const RESERVED_WORDS: &[&str] = &[
    "r",
    "v1",
    "in",
    "health",
    "ready",
    "openapi",
    "openapi-json",
    "docs",
    "llms",
    "robots",
    "security",
    "metrics",
    "account",
    "signin",
    "sdk",
    "mcp",
    "admin",
    "api",
    "app",
    "assets",
    "auth",
    "callback",
    "favicon",
    "login",
    "logout",
    "null",
    "oauth",
    "signup",
    "sitemap",
    "static",
    "undefined",
    "well-known",
    "bulk",
];

/// Whether a text can be the id of any link: 3 to 64 of `A-Z a-z 0-9 -`. Ids are case-sensitive.
pub fn is_link_id(text: &str) -> bool {
    (3..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Checks an id that a caller chose: a link id that neither starts nor ends with `-` and is no reserved word.
pub fn check_custom_id(text: &str) -> Result<(), Invalid> {
    let wrong = |message| Err(Invalid::field(ErrorCode::InvalidCustomId, "custom_id", message));
    if !is_link_id(text) {
        return wrong("3 to 64 letters, digits or '-'");
    }
    if text.starts_with('-') || text.ends_with('-') {
        return wrong("an id must not start or end with '-'");
    }
    if RESERVED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return wrong("this word is reserved");
    }
    Ok(())
}

/// A new id of 8 characters of `0-9A-Z`, each equally likely.
pub fn generate_id(random: &mut Random) -> String {
    (0..GENERATED_ID_LEN).map(|_| random.pick(GENERATED_SYMBOLS)).collect()
}

words! {
    /// What a link is for, as its creator says.
    Action {
        /// Buy something.
        Purchase = "purchase",
        /// Subscribe to something.
        Subscribe = "subscribe",
        /// Open an account.
        Signup = "signup",
        /// Download something.
        Download = "download",
        /// Read something.
        Read = "read",
        /// Reserve something.
        Book = "book",
        /// Open something.
        Open = "open",
    }
}

words! {
    /// Whether a link works, and if not, why.
    LinkStatus {
        /// It works.
        Active = "active",
        /// Its time is over.
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

/// Where a link leads on each platform, every URL in the parser's serialisation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Destinations {
    /// Opens the iOS app.
    pub ios_deep_link: Option<String>,
    /// The App Store page.
    pub ios_store_url: Option<String>,
    /// Opens the Android app.
    pub android_deep_link: Option<String>,
    /// The Play Store page.
    pub android_store_url: Option<String>,
    /// The web page for desktops and everything else.
    pub web_url: Option<String>,
}

/// What a link is for, in words that an agent can read. The service does not verify them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentContext {
    /// What the link is for.
    #[serde(default)]
    pub action: Option<Action>,
    /// Short call to action, at most 120 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 120))]
    pub cta: Option<String>,
    /// Free-form context, at most 500 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 500))]
    pub description: Option<String>,
}

impl AgentContext {
    /// Applies the rules; blank texts count as absent, and nothing at all gives `None`.
    pub fn check(self) -> Result<Option<Self>, Invalid> {
        let code = || ErrorCode::InvalidAgentContext;
        if let Some(Action::Unknown(word)) = &self.action {
            let known = Action::ALL.iter().map(Action::as_str).collect::<Vec<_>>().join(", ");
            let message = format!("unknown action \"{}\"; one of {known}", word.escape_debug());
            return Err(Invalid::field(code(), "agent_context.action", message));
        }
        let cta = line(self.cta, MAX_CTA, false, code(), "agent_context.cta")?;
        let description = line(self.description, MAX_AGENT_DESCRIPTION, true, code(), "agent_context.description")?;
        let checked = Self { action: self.action, cta, description };
        Ok((checked != Self::default()).then_some(checked))
    }
}

/// How a link looks when it is shared: title, text and image for Open Graph and Twitter cards.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SocialPreview {
    /// At most 120 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 120))]
    pub title: Option<String>,
    /// At most 300 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 300))]
    pub description: Option<String>,
    /// An http or https address of an image.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub image_url: Option<String>,
}

impl SocialPreview {
    /// Applies the rules; blank texts count as absent, and at least one member must be there.
    pub fn check(self) -> Result<Self, Invalid> {
        let code = || ErrorCode::InvalidSocialPreview;
        let title = line(self.title, MAX_PREVIEW_TITLE, false, code(), "social_preview.title")?;
        let description = line(self.description, MAX_PREVIEW_DESCRIPTION, true, code(), "social_preview.description")?;
        let image_url = match self.image_url.filter(|text| !text.trim().is_empty()) {
            Some(text) => Some(url_field(&text, "social_preview.image_url", url::web)?),
            None => None,
        };
        let checked = Self { title, description, image_url };
        if checked == Self::default() {
            return Err(Invalid::field(code(), "social_preview", "give a title, a description or an image_url"));
        }
        Ok(checked)
    }
}

fn line(
    text: Option<String>,
    max: usize,
    prose: bool,
    code: ErrorCode,
    field: &'static str,
) -> Result<Option<String>, Invalid> {
    let Some(text) = text else { return Ok(None) };
    if find_control(&text, prose).is_some() {
        return Err(Invalid::field(code, field, format!("{field} holds a control character")));
    }
    if text.trim().is_empty() {
        return Ok(None);
    }
    let count = text.chars().count();
    if count > max {
        return Err(Invalid::field(code, field, format!("{field} has {count} characters; {max} are allowed")));
    }
    Ok(Some(text))
}

fn url_field(
    text: &str,
    field: &'static str,
    check: impl Fn(&str) -> Result<String, Refused>,
) -> Result<String, Invalid> {
    check(text).map_err(|why| Invalid::field(ErrorCode::InvalidUrl, field, format!("{field}: {why}")))
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
        /// Sets what agents are told.
        agent_context: AgentContext,
        /// Sets how the link looks when shared.
        social_preview: SocialPreview,
        /// Sets the affiliate.
        affiliate_id: impl Into<String>,
    }

    /// Runs every rule that needs no account: those of the service itself.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(|_| ())
    }

    /// Applies every rule and gives what may be stored. Fields are judged in the order of the interface's table.
    pub fn check(self) -> Result<NewLink, Invalid> {
        if let Some(id) = &self.custom_id {
            check_custom_id(id)?;
        }
        let url = |text: Option<String>, field, check: fn(&str) -> Result<String, Refused>| {
            text.map(|text| url_field(&text, field, check)).transpose()
        };
        let destinations = Destinations {
            ios_deep_link: url(self.ios_deep_link, "ios_deep_link", url::deep_link)?,
            ios_store_url: url(self.ios_store_url, "ios_store_url", url::app_store)?,
            android_deep_link: url(self.android_deep_link, "android_deep_link", url::deep_link)?,
            android_store_url: url(self.android_store_url, "android_store_url", url::play_store)?,
            web_url: url(self.web_url, "web_url", url::web)?,
        };
        if let Some(metadata) = &self.metadata {
            metadata.check()?;
        }
        let agent_context = self.agent_context.map_or(Ok(None), AgentContext::check)?;
        let social_preview = self.social_preview.map(SocialPreview::check).transpose()?;
        let affiliate_id = self.affiliate_id.map(|text| {
            text.parse::<AffiliateId>()
                .map_err(|_| Invalid::field(ErrorCode::AffiliateNotFound, "affiliate_id", "there is no such affiliate"))
        });
        Ok(NewLink {
            custom_id: self.custom_id,
            destinations,
            metadata: self.metadata,
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
    /// What agents are told.
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
    /// What agents are told, replaced as a whole.
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

    /// Runs every rule of the service.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(|_| ())
    }

    /// Applies every rule and gives what may be carried out.
    pub fn check(self) -> Result<LinkPatch, Invalid> {
        if self.is_empty() {
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, "name at least one field to change"));
        }
        let url = |text: Patch<String>, field, check: fn(&str) -> Result<String, Refused>| {
            text.try_map(|text| url_field(&text, field, check))
        };
        Ok(LinkPatch {
            ios_deep_link: url(self.ios_deep_link, "ios_deep_link", url::deep_link)?,
            ios_store_url: url(self.ios_store_url, "ios_store_url", url::app_store)?,
            android_deep_link: url(self.android_deep_link, "android_deep_link", url::deep_link)?,
            android_store_url: url(self.android_store_url, "android_store_url", url::play_store)?,
            web_url: url(self.web_url, "web_url", url::web)?,
            metadata: self.metadata.try_map(|metadata| metadata.check().map(|()| metadata))?,
            agent_context: match self.agent_context.try_map(AgentContext::check)? {
                Patch::Set(None) | Patch::Clear => Patch::Clear,
                Patch::Set(Some(context)) => Patch::Set(context),
                Patch::Keep => Patch::Keep,
            },
            social_preview: self.social_preview.try_map(SocialPreview::check)?,
        })
    }
}

/// An update that passed every rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkPatch {
    /// Opens the iOS app.
    pub ios_deep_link: Patch<String>,
    /// The App Store page.
    pub ios_store_url: Patch<String>,
    /// Opens the Android app.
    pub android_deep_link: Patch<String>,
    /// The Play Store page.
    pub android_store_url: Patch<String>,
    /// The web page.
    pub web_url: Patch<String>,
    /// The tenant's own data.
    pub metadata: Patch<Metadata>,
    /// What agents are told.
    pub agent_context: Patch<AgentContext>,
    /// How the link looks when shared.
    pub social_preview: Patch<SocialPreview>,
}

/// The reply to a create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CreatedLink {
    /// The last segment of the URL.
    pub link_id: String,
    /// The address to share.
    pub url: String,
    /// When the link ends: 30 days after creation without a verified primary domain, else null.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
}

impl CreatedLink {
    /// A reply with all its fields.
    pub fn new(link_id: String, url: String, expires_at: Option<Timestamp>) -> Self {
        Self { link_id, url, expires_at }
    }
}

/// A link as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkDetail {
    /// The last segment of the URL.
    pub link_id: String,
    /// The address to share.
    pub url: String,
    /// Opens the iOS app.
    #[serde(default)]
    pub ios_deep_link: Option<String>,
    /// The App Store page.
    #[serde(default)]
    pub ios_store_url: Option<String>,
    /// Opens the Android app.
    #[serde(default)]
    pub android_deep_link: Option<String>,
    /// The Play Store page.
    #[serde(default)]
    pub android_store_url: Option<String>,
    /// The web page.
    #[serde(default)]
    pub web_url: Option<String>,
    /// The tenant's own data.
    #[serde(default)]
    pub metadata: Option<Metadata>,
    /// What agents are told.
    #[serde(default)]
    pub agent_context: Option<AgentContext>,
    /// How the link looks when shared.
    #[serde(default)]
    pub social_preview: Option<SocialPreview>,
    /// The affiliate it counts for.
    #[serde(default)]
    pub affiliate_id: Option<AffiliateId>,
    /// Whether it works, and if not, why.
    pub status: LinkStatus,
    /// When it ends, if it does.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// One page of links, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkList {
    /// At most as many as asked for.
    pub links: Vec<LinkDetail>,
    /// Where the next page starts; null on the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// What `GET /v1/links` can be asked.
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

/// What resolving a link says to a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResolvedLink {
    /// The last segment of the URL.
    pub link_id: String,
    /// Opens the iOS app.
    #[serde(default)]
    pub ios_deep_link: Option<String>,
    /// The App Store page.
    #[serde(default)]
    pub ios_store_url: Option<String>,
    /// Opens the Android app.
    #[serde(default)]
    pub android_deep_link: Option<String>,
    /// The Play Store page.
    #[serde(default)]
    pub android_store_url: Option<String>,
    /// The web page.
    #[serde(default)]
    pub web_url: Option<String>,
    /// The creator's own data.
    #[serde(default)]
    pub metadata: Option<Metadata>,
    /// What the link is for, as its creator says.
    #[serde(default)]
    pub agent_context: Option<AgentContext>,
    /// How the link looks when shared.
    #[serde(default)]
    pub social_preview: Option<SocialPreview>,
    /// Who says so, and whether the service verified it.
    #[serde(rename = "_service_meta")]
    pub service_meta: ServiceMeta,
}

/// What the service itself says about a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceMeta {
    /// Always `tenant_asserted`: the link's creator supplied its contents, and nobody verified them.
    pub source: String,
    /// Whether the link works, and if not, why.
    pub status: LinkStatus,
    /// The creator's verified domain, if there is one.
    #[serde(default)]
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
    use super::*;

    fn refusal(json: &str) -> Option<(String, Option<String>)> {
        let link: CreateLink = serde_json::from_str(json).expect("a create request");
        let invalid = link.check().err()?;
        Some((invalid.code.as_str().to_owned(), invalid.field.map(Cow::into_owned)))
    }

    /// L8: 3 to 64 ASCII letters, digits and inner hyphens.
    #[test]
    fn l8_charset_and_length_of_custom_ids() {
        for id in ["ａｂｃ", "pа1", "a_b", "-ab", "ab-", "ab", "", "a b", "a.b", "a/b", "a%62", &"a".repeat(65)] {
            assert!(check_custom_id(id).is_err(), "{id}");
        }
        for id in ["abc", "a-b", "A1B2", "123", &"a".repeat(64)] {
            assert!(check_custom_id(id).is_ok(), "{id}");
        }
    }

    /// L7: reserved words are refused whatever their case.
    #[test]
    fn l7_reserved_words_are_refused() {
        for word in RESERVED_WORDS {
            assert!(check_custom_id(word).is_err() && check_custom_id(&word.to_uppercase()).is_err(), "{word}");
        }
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

    /// X16: generated ids are uniform over `0-9A-Z`; a million of them show no preference for a symbol.
    #[test]
    fn x16_generated_ids_are_uniform() {
        let mut random = Random::system();
        let mut counts = [0_f64; 36];
        for _ in 0..1_000_000 {
            let id = generate_id(&mut random);
            assert_eq!(id.len(), GENERATED_ID_LEN);
            for byte in id.bytes() {
                counts[GENERATED_SYMBOLS.iter().position(|s| *s == byte).expect("a symbol")] += 1.0;
            }
        }
        // 66.6 is the 0.999 quantile of chi-square with 35 degrees of freedom; half as much again leaves no false alarm.
        assert!(crate::secret::tests::chi_square(&counts) < 100.0);
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
