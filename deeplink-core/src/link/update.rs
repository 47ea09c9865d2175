//! What an update asks for, and its checked form.

use serde::{Deserialize, Serialize};

use super::{AgentContext, Alias, SocialPreview, alias, owner};
use crate::destinations::{Destinations, of};
use crate::error::{ErrorCode, Invalid};
use crate::metadata::Metadata;
use crate::patch::Patch;
use crate::qr::QrOptions;
use crate::tag::{self, Tag};
use crate::time::Timestamp;

/// The request body of an update: absent fields keep their values, `null` clears a field, and a value replaces
/// the whole field.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"web_url": "https://www.example.com/summer"}))))]
#[non_exhaustive]
pub struct UpdateLink {
    /// Deep link that opens the iOS app, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub ios_deep_link: Patch<String>,
    /// The App Store page, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub ios_store_url: Patch<String>,
    /// Deep link that opens the Android app, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub android_deep_link: Patch<String>,
    /// The Google Play page, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub android_store_url: Patch<String>,
    /// The web page, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub web_url: Patch<String>,
    /// The account's own data, replaced as a whole.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Metadata>, required = false))]
    pub metadata: Patch<Metadata>,
    /// What the link is for, for AI agents; replaced as a whole.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "crate::object::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<AgentContext>, required = false))]
    pub agent_context: Patch<AgentContext>,
    /// How the link looks when it is shared; replaced as a whole.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "crate::object::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<SocialPreview>, required = false))]
    pub social_preview: Patch<SocialPreview>,
    /// The owner's name for the link, at most 120 characters.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 120))]
    pub name: Patch<String>,
    /// Whether the link is enabled. Cannot be null. `true` is rejected while the operator has disabled the link.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = bool, required = false))]
    pub enabled: Patch<bool>,
    /// When the link expires (RFC 3339 with an offset): must be in the future, within 100 years. Null removes this
    /// expiry, but not the one that applies to accounts without a verified primary domain.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, format = DateTime))]
    pub expires_at: Patch<String>,
    /// URL that visitors are redirected to after the link has expired, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required = false, max_length = 2048))]
    pub expired_url: Patch<String>,
    /// The owner's tags for the link, replaced as a whole: at most 20, each of 1 to 40 characters, without commas.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "tag::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, required = false, max_items = 20))]
    pub tags: Patch<Vec<String>>,
    /// Aliases: additional IDs and paths that lead to the link, replaced as a whole: at most five.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "alias::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, required = false, max_items = 5))]
    pub aliases: Patch<Vec<String>>,
    /// Design of the link's QR codes, used if a request has no options other than `size`; replaced as a whole.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "crate::object::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QrOptions>, required = false))]
    pub qr: Patch<QrOptions>,
    /// Clicks that a previous service counted: a starting count, shown separately from the clicks counted here.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<i64>, required = false, minimum = 0, maximum = 9_007_199_254_740_991_i64)
    )]
    pub imported_clicks: Patch<i64>,
}

impl UpdateLink {
    /// An update with no fields set.
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
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, "send at least one field to change"));
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
            // A blank name is none.
            name: match self.name.as_ref().try_map(|text| owner::name(Some(text)))? {
                Patch::Set(None) | Patch::Clear => Patch::Clear,
                Patch::Set(Some(name)) => Patch::Set(name),
                Patch::Keep => Patch::Keep,
            },
            enabled: self.enabled.clone().required("enabled")?,
            expires_at: self.expires_at.as_ref().try_map(|text| owner::end(text))?,
            expired_url: self.expired_url.as_ref().try_map(|text| owner::EXPIRED_URL.check(text))?,
            tags: match &self.tags {
                Patch::Keep => None,
                Patch::Clear => Some(Vec::new()),
                Patch::Set(tags) => Some(tag::check(tags)?),
            },
            aliases: match &self.aliases {
                Patch::Keep => None,
                Patch::Clear => Some(Vec::new()),
                Patch::Set(aliases) => Some(alias::check(aliases, None)?),
            },
            // A look without options is none.
            qr: match self.qr.as_ref().try_map(QrOptions::check_look)? {
                Patch::Set(None) | Patch::Clear => Patch::Clear,
                Patch::Set(Some(look)) => Patch::Set(look),
                Patch::Keep => Patch::Keep,
            },
            imported_clicks: self.imported_clicks.clone().try_map(owner::imported_clicks)?,
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
    /// What the link is for, for AI agents.
    pub agent_context: Patch<AgentContext>,
    /// How the link looks when shared.
    pub social_preview: Patch<SocialPreview>,
    /// The name that its owner gives it.
    pub name: Patch<String>,
    /// Whether the owner enables or disables it.
    pub enabled: Option<bool>,
    /// The expiry that its owner sets. [`check_end`](super::check_end) compares it with the clock.
    pub expires_at: Patch<Timestamp>,
    /// URL that visitors are redirected to after it has expired.
    pub expired_url: Patch<String>,
    /// All tags that it will have.
    pub tags: Option<Vec<Tag>>,
    /// All aliases that it will have.
    pub aliases: Option<Vec<Alias>>,
    /// Design of its QR codes. [`QrOptions::check_reach`] checks where the logo is.
    pub qr: Patch<QrOptions>,
    /// Clicks that a previous service counted.
    pub imported_clicks: Patch<i64>,
}

impl LinkPatch {
    /// The URLs that it sets, each with its field.
    pub fn urls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let expired = std::iter::once((owner::EXPIRED_URL.name, &self.expired_url));
        let set = self.destinations.as_ref().each().chain(expired);
        set.filter_map(|(field, url)| if let Patch::Set(url) = url { Some((field, url.as_str())) } else { None })
    }
}
