//! Lists of links: which links they contain, and in which order.

use serde::{Deserialize, Serialize};

use super::LinkStatus;
use crate::error::{ErrorCode, Invalid};
use crate::id::AffiliateId;
use crate::tag::check_filter;
use crate::time::Timestamp;
use crate::url;
use crate::words::{setters, words};

/// Maximum characters of `id_prefix`; no ID is longer.
const MAX_PREFIX_LEN: usize = 64;

words! {
    /// The order of a list of links.
    LinkSort {
        /// The link that was created last comes first.
        Newest = "newest",
        /// The link that was created first comes first.
        Oldest = "oldest",
    }
}

/// Parameters of `GET /v1/links`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkFilter {
    /// Only this affiliate's links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affiliate_id: Option<String>,
    /// Only links with this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<LinkStatus>,
    /// Only links that their owner has enabled or, if false, disabled, whatever their status. A page of such a list may
    /// be short or empty and still have a next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Only links whose `url` has this host, such as `go.example.com`, without a port. A page of such a list may be
    /// short or empty and still have a next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Only links created after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Timestamp>,
    /// Only links created before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Timestamp>,
    /// Only links whose ID starts with this text, at most 64 characters, case-sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    /// Only links that contain this text (at most 2,048 characters, case-insensitive) in the ID, aliases, name, tags,
    /// URLs, preview title or metadata. A page of such a list may be short or empty and still have a next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Only links that have all of these tags, at most 20.
    #[serde(rename = "tag", default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The order of the list; by default, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<LinkSort>,
}

impl LinkFilter {
    /// All links.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Only this affiliate's links.
        affiliate_id: impl Into<String>,
        /// Only links with this status.
        status: LinkStatus,
        /// Only links that their owner has enabled or, if false, disabled.
        enabled: bool,
        /// Only links whose `url` has this host.
        domain: impl Into<String>,
        /// Only links created after this time.
        created_after: Timestamp,
        /// Only links created before this time.
        created_before: Timestamp,
        /// Only links whose ID starts with this text.
        id_prefix: impl Into<String>,
        /// Only links that contain this text.
        q: impl Into<String>,
        /// Sets the order of the list.
        sort: LinkSort,
    }

    /// Only links that also have this tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Whether the link that was created first comes first.
    pub fn is_oldest_first(&self) -> bool {
        self.sort == Some(LinkSort::Oldest)
    }

    /// Checks the filter: 400 `bad_request` for an affiliate that is not an ID, an unknown status or order, a domain
    /// that is not a host, text that is too long, and invalid tags. Returns it in the form in which links are compared
    /// with it: not for another check, because the case-folded form of a tag may be longer than tags may be.
    pub fn check(&self) -> Result<Self, Invalid> {
        let wrong = |field: &'static str, message: &str| Err(Invalid::field(ErrorCode::BadRequest, field, message));
        let is_longer = |text: &Option<String>, most| text.as_ref().is_some_and(|text| text.chars().count() > most);
        if self.affiliate_id.as_deref().is_some_and(|id| id.parse::<AffiliateId>().is_err()) {
            return wrong("affiliate_id", "affiliate_id must be aff_ and 24 hex digits");
        }
        if let Some(LinkStatus::Unknown(_)) = &self.status {
            return wrong("status", "status must be active, expired, flagged, disabled or deleted");
        }
        if let Some(LinkSort::Unknown(_)) = &self.sort {
            return wrong("sort", "sort must be newest or oldest");
        }
        let domain = self.domain.as_deref().and_then(url::host);
        if domain.is_none() && self.domain.is_some() {
            return wrong("domain", "domain must be a host name such as go.example.com, without a scheme or port");
        }
        if is_longer(&self.id_prefix, MAX_PREFIX_LEN) {
            return wrong("id_prefix", "id_prefix must be at most 64 characters");
        }
        // A whole destination may be searched for.
        if is_longer(&self.q, url::MAX_LEN) {
            return wrong("q", "q must be at most 2,048 characters");
        }
        let tags = check_filter(&self.tags)?.iter().map(|tag| tag.key().to_owned()).collect();
        Ok(Self { domain, tags, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_match_no_link_is_refused_and_named() {
        let all = LinkFilter::new;
        for (filter, field) in [
            (all().status(LinkStatus::from("odd")), Some("status")),
            (all().sort(LinkSort::from("name")), Some("sort")),
            (all().domain("go.example.com:443"), Some("domain")),
            (all().domain(""), Some("domain")),
            (all().tag("a,b"), Some("tag")),
            (all().affiliate_id("aff_1"), Some("affiliate_id")),
            (all().affiliate_id("aff_0123456789abcdef01234567"), None),
            (all().id_prefix("ä".repeat(64)), None),
            (all().id_prefix("ä".repeat(65)), Some("id_prefix")),
            (all().q("ä".repeat(2_048)), None),
            (all().q("ä".repeat(2_049)), Some("q")),
            (all().status(LinkStatus::Deleted).sort(LinkSort::Oldest).domain("Go.Example.com").enabled(false), None),
        ] {
            let refused = filter.check().err().and_then(|invalid| invalid.field);
            assert_eq!(refused.as_deref(), field, "{filter:?}");
        }
    }
}
