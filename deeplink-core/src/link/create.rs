//! What a create asks for, and its checked form.

use serde::{Deserialize, Serialize};

use super::{AgentContext, Alias, SocialPreview, alias, check_custom_id, owner};
use crate::destinations::{Destinations, of};
use crate::error::{ErrorCode, Invalid};
use crate::id::AffiliateId;
use crate::metadata::Metadata;
use crate::qr::QrOptions;
use crate::tag::{self, Tag};
use crate::time::Timestamp;
use crate::words::setters;

/// The request body to create a link: every field is optional, and `{}` is a valid link.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"web_url": "https://www.example.com/spring", "name": "Spring sale", "tags": ["spring"]}))))]
#[non_exhaustive]
pub struct CreateLink {
    /// The link's ID, 3 to 64 letters, digits and hyphens, with a letter or digit at each end, case-sensitive; generated if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 3, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9]$")
    )]
    pub custom_id: Option<String>,
    /// Deep link that opens the iOS app: an absolute URI, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub ios_deep_link: Option<String>,
    /// The App Store page (apps.apple.com or itunes.apple.com), at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub ios_store_url: Option<String>,
    /// Deep link that opens the Android app: an absolute URI, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub android_deep_link: Option<String>,
    /// The Google Play page (play.google.com), at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub android_store_url: Option<String>,
    /// The web page for desktops and all other visitors: an http or https URL with a public host, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub web_url: Option<String>,
    /// Any JSON object of at most 4,096 bytes and 64 keys; it is returned as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// What the link is for, for AI agents.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub agent_context: Option<AgentContext>,
    /// How the link looks when it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub social_preview: Option<SocialPreview>,
    /// The affiliate that the link is attributed to; an affiliate's credential always sets its own affiliate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affiliate_id: Option<String>,
    /// The owner's name for the link, at most 120 characters; visitors and affiliates do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 120))]
    pub name: Option<String>,
    /// Whether the link is enabled, true by default; if false, its status is `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When the link expires (RFC 3339 with an offset): must be in the future, within 100 years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: Option<String>,
    /// URL that visitors are redirected to after the link has expired, with the same rules as `web_url`, at most 2,048
    /// bytes; without it, they see a notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub expired_url: Option<String>,
    /// The owner's tags for the link: at most 20, each of 1 to 40 characters, without commas, case-insensitive.
    /// Visitors and affiliates do not see them.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "tag::optional")]
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub tags: Option<Vec<String>>,
    /// Aliases of the link, so that short links from a previous service continue to work: at most five IDs or paths of up to
    /// three segments, such as `spring_42` or `l/2024/spring`; case-sensitive. They work only on the account's verified
    /// domains, and require one with the role `primary`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "alias::optional")]
    #[cfg_attr(feature = "openapi", schema(max_items = 5))]
    pub aliases: Option<Vec<String>>,
    /// Design of the link's QR codes, used if a request has no options other than `size`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub qr: Option<QrOptions>,
    /// Clicks that a previous service counted, from 0 to 9,007,199,254,740,991: a starting count, shown separately
    /// from the clicks counted here and never added to them. Visitors and affiliates do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 9_007_199_254_740_991_i64))]
    pub imported_clicks: Option<i64>,
}

impl CreateLink {
    /// A link with no fields set.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the ID.
        custom_id: impl Into<String>,
        /// Sets the deep link that opens the iOS app.
        ios_deep_link: impl Into<String>,
        /// Sets the App Store page.
        ios_store_url: impl Into<String>,
        /// Sets the deep link that opens the Android app.
        android_deep_link: impl Into<String>,
        /// Sets the Google Play page.
        android_store_url: impl Into<String>,
        /// Sets the web page.
        web_url: impl Into<String>,
        /// Sets the metadata.
        metadata: impl Into<Metadata>,
        /// Sets the agent context.
        agent_context: AgentContext,
        /// Sets the social preview.
        social_preview: SocialPreview,
        /// Sets the affiliate.
        affiliate_id: impl Into<String>,
        /// Sets the owner's name for the link.
        name: impl Into<String>,
        /// Enables or disables the link.
        enabled: bool,
        /// Sets when it expires, as RFC 3339 with an offset.
        expires_at: impl Into<String>,
        /// Sets the URL that visitors are redirected to after the link has expired.
        expired_url: impl Into<String>,
        /// Sets the design of the link's QR codes.
        qr: QrOptions,
        /// Sets the clicks that a previous service counted.
        imported_clicks: i64,
    }

    /// Sets the tags.
    #[must_use]
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the aliases.
    #[must_use]
    pub fn aliases<T: Into<String>>(mut self, aliases: impl IntoIterator<Item = T>) -> Self {
        self.aliases = Some(aliases.into_iter().map(Into::into).collect());
        self
    }

    /// The URLs by field.
    pub fn destinations(&self) -> Destinations<&Option<String>> {
        of!(&self)
    }

    /// The URLs by field, to be set.
    pub fn destinations_mut(&mut self) -> Destinations<&mut Option<String>> {
        of!(&mut self)
    }

    /// Validates everything that can be validated without the account.
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
                .map_err(|_| Invalid::field(ErrorCode::AffiliateNotFound, "affiliate_id", "no affiliate with this ID"))
        });
        Ok(NewLink {
            custom_id: self.custom_id.clone(),
            destinations,
            metadata: self.metadata.clone(),
            agent_context,
            social_preview,
            affiliate_id: affiliate_id.transpose()?,
            name: owner::name(self.name.as_deref())?,
            is_disabled: self.enabled == Some(false),
            expires_at: self.expires_at.as_deref().map(owner::end).transpose()?,
            expired_url: self.expired_url.as_deref().map(|text| owner::EXPIRED_URL.check(text)).transpose()?,
            tags: tag::check(self.tags.as_deref().unwrap_or_default())?,
            aliases: alias::check(self.aliases.as_deref().unwrap_or_default(), self.custom_id.as_deref())?,
            qr: self.qr.as_ref().map_or(Ok(None), QrOptions::check_look)?,
            imported_clicks: self.imported_clicks.map(owner::imported_clicks).transpose()?,
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
    /// What the link is for, for AI agents.
    pub agent_context: Option<AgentContext>,
    /// How it looks when shared.
    pub social_preview: Option<SocialPreview>,
    /// The affiliate that the link is attributed to.
    pub affiliate_id: Option<AffiliateId>,
    /// The name that its owner gave it.
    pub name: Option<String>,
    /// Whether its owner has disabled it.
    pub is_disabled: bool,
    /// The expiry that its owner set. [`check_end`](super::check_end) compares it with the clock.
    pub expires_at: Option<Timestamp>,
    /// URL that visitors are redirected to after it has expired.
    pub expired_url: Option<String>,
    /// The owner's tags for the link: distinct and sorted.
    pub tags: Vec<Tag>,
    /// Aliases, additional IDs and paths that lead to it: distinct and sorted.
    pub aliases: Vec<Alias>,
    /// Design of its QR codes. [`QrOptions::check_reach`] checks where the logo is.
    pub qr: Option<QrOptions>,
    /// Clicks that a previous service counted.
    pub imported_clicks: Option<i64>,
}

impl NewLink {
    /// The URLs that people may be sent to, each with its field.
    pub fn urls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let expired = self.expired_url.as_deref().map(|url| (owner::EXPIRED_URL.name, url));
        let to = self.destinations.as_deref().each();
        to.filter_map(|(field, url)| Some((field, url?))).chain(expired)
    }
}
