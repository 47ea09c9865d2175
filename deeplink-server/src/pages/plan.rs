//! What the account's plan includes, and how much of it is used.

use deeplink_core::plan::Tier;

use crate::db::tenants::Usage;
use crate::state::App;

/// A plan as the overview shows it.
pub(super) struct Plan {
    pub(super) name: &'static str,
    /// Whether anything is limited here at all.
    pub(super) is_limited: bool,
    pub(super) parts: Vec<Part>,
}

/// How much of one thing is used.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) used: i64,
    /// `None`: any number.
    pub(super) limit: Option<i64>,
}

impl Part {
    /// Whether there is room for little more.
    pub(super) fn is_scarce(&self) -> bool {
        self.limit.is_some_and(|limit| self.used.saturating_mul(10) >= limit.saturating_mul(9))
    }
}

/// The plan of an account that uses this much.
pub(super) fn of(app: &App, usage: &Usage) -> Plan {
    let limits = usage.tier.limits();
    let part = |name, used, limit: Option<i64>| Part { name, used, limit: limit.filter(|_| app.config.enforce_quotas) };
    Plan {
        name: match usage.tier {
            Tier::Pro => "Pro",
            Tier::Business => "Business",
            Tier::Scale => "Scale",
            _ => "Free",
        },
        is_limited: app.config.enforce_quotas,
        parts: vec![
            part("Links", usage.links, limits.max_links),
            part("Domains", usage.domains, limits.max_domains),
            part("People", usage.people, limits.max_team_members),
        ],
    }
}
