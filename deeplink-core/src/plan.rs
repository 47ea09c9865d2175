//! Plans: what each tier includes, and which one applies to an account.

use crate::billing::SubscriptionStatus;
use crate::time::Timestamp;
use crate::webhook::MAX_WEBHOOKS;
use crate::words::words;
use serde::{Deserialize, Serialize};

/// Days that a plan lasts after a failed payment was first seen.
pub const PAST_DUE_DAYS: i64 = 7;

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

/// Limits of a plan; null means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limits {
    /// Links.
    pub max_links: Option<i64>,
    /// Clicks and conversions in a calendar month.
    pub max_events_per_month: Option<i64>,
    /// Custom domains.
    pub max_domains: Option<i64>,
    /// Team members.
    pub max_team_members: Option<i64>,
    /// Webhooks.
    pub max_webhooks: Option<i64>,
    /// Number of days that individual clicks and other events are kept.
    pub analytics_retention_days: Option<i64>,
}

impl Tier {
    /// Its rank among the plans; 0 for the free plan and unknown ones.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Free | Self::Unknown(_) => 0,
            Self::Pro => 1,
            Self::Business => 2,
            Self::Scale => 3,
        }
    }

    /// The plan's limits; an unknown plan has those of the free plan.
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
            max_webhooks: Some(MAX_WEBHOOKS),
            analytics_retention_days: Some(days),
        }
    }
}

/// The facts that decide which plan's limits apply to an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanBasis {
    /// The plan that the operator grants.
    pub comp: Option<Tier>,
    /// The plan of the subscription, until the subscription ends.
    pub subscribed: Tier,
    /// State of the subscription; `None` if there never was one.
    pub status: Option<SubscriptionStatus>,
    /// When a failed payment of the subscription was first seen.
    pub past_due_since: Option<Timestamp>,
}

impl PlanBasis {
    /// Whether the subscription grants its plan: it is paid, or the failure of a payment was seen less than seven days
    /// ago. A status that this build does not know grants nothing.
    pub fn grants(&self, now: Timestamp) -> bool {
        match &self.status {
            None | Some(SubscriptionStatus::Active) => true,
            Some(SubscriptionStatus::PastDue) => {
                self.past_due_since.is_some_and(|since| now < since.plus_days(PAST_DUE_DAYS))
            }
            Some(SubscriptionStatus::Canceled | SubscriptionStatus::Unknown(_)) => false,
        }
    }

    /// The plan whose limits apply: the higher of the operator's grant and the subscription's plan, otherwise the free
    /// plan.
    pub fn effective_tier(&self, now: Timestamp) -> Tier {
        let granted = self.grants(now).then_some(&self.subscribed);
        let all = [self.comp.as_ref(), granted].into_iter().flatten();
        all.max_by_key(|tier| tier.rank()).filter(|tier| tier.rank() > 0).cloned().unwrap_or(Tier::Free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    /// The highest of the operator's grant, the subscription's plan where it grants one, and free. A failed payment keeps
    /// the plan for seven days; what is unknown grants nothing.
    #[test]
    fn bl1_the_highest_plan_that_is_granted_holds() {
        let now = Timestamp::from_millis(1_795_167_000_000);
        let tier = |word: &str| Tier::from(word);
        for (comp, subscribed, status, since, effective) in [
            (None, "free", None, None, "free"),
            (None, "pro", Some("active"), None, "pro"),
            (None, "scale", Some("past_due"), Some(0), "scale"),
            (None, "scale", Some("past_due"), Some(7 * DAY - 1), "scale"),
            (None, "scale", Some("past_due"), Some(7 * DAY), "free"),
            (None, "scale", Some("past_due"), None, "free"),
            (None, "scale", Some("canceled"), None, "free"),
            (None, "scale", Some("on_the_moon"), None, "free"),
            (None, "platinum", Some("active"), None, "free"),
            (Some("pro"), "free", None, None, "pro"),
            (Some("pro"), "business", Some("active"), None, "business"),
            (Some("scale"), "business", Some("active"), None, "scale"),
            (Some("pro"), "business", Some("past_due"), Some(7 * DAY), "pro"),
            (Some("pro"), "business", Some("canceled"), None, "pro"),
            (Some("platinum"), "pro", Some("active"), None, "pro"),
            (Some("free"), "free", None, None, "free"),
        ] {
            let basis = PlanBasis {
                comp: comp.map(tier),
                subscribed: tier(subscribed),
                status: status.map(SubscriptionStatus::from),
                past_due_since: since.map(|ago| now.plus_millis(-ago)),
            };
            assert_eq!(basis.effective_tier(now), tier(effective), "{basis:?}");
        }
    }
}
