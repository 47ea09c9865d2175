//! Plans: what each tier includes.

use crate::words::words;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

words! {
    /// A plan.
    Tier {
        /// Costs nothing.
        Free = "free",
        /// For a product.
        Pro = "pro",
        /// For a business.
        Business = "business",
        /// For many products.
        Scale = "scale",
    }
}

/// What a plan includes; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limits {
    /// Links that exist at one time.
    pub max_links: Option<i64>,
    /// Clicks and conversions in a calendar month.
    pub max_events_per_month: Option<i64>,
    /// Custom domains.
    pub max_domains: Option<i64>,
    /// People.
    pub max_team_members: Option<i64>,
    /// Webhooks.
    pub max_webhooks: Option<i64>,
    /// Days for which single clicks are kept.
    pub analytics_retention_days: Option<i64>,
}

impl Tier {
    /// What the plan includes; an unknown plan includes what the free one does.
    pub fn limits(&self) -> Limits {
        let (links, events, domains, members, days) = match self {
            Self::Free | Self::Unknown(_) => (50, 10_000, Some(1), Some(1), 30),
            Self::Pro => (2_000, 100_000, Some(5), Some(5), 365),
            Self::Business => (20_000, 500_000, Some(20), None, 1_095),
            Self::Scale => (100_000, 2_000_000, None, None, 1_825),
        };
        Limits {
            max_links: Some(links),
            max_events_per_month: Some(events),
            max_domains: domains,
            max_team_members: members,
            max_webhooks: Some(2),
            analytics_retention_days: Some(days),
        }
    }
}
