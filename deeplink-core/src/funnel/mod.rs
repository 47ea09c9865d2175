//! The funnel: results of links, from clicks to installs, users and conversions.

mod query;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::visitor::UserAgent;
use crate::words::{reply, words};

pub use query::{FunnelQuery, FunnelScope, MAX_GROUPS, MAX_HOURLY_DAYS, MAX_LINKS};

words! {
    /// Which of the links that touched an install or a user is credited.
    Credit {
        /// The latest.
        LastTouch = "last_touch",
        /// The earliest.
        FirstTouch = "first_touch",
        /// Each of them.
        Touched = "touched",
    }
}

words! {
    /// What a report is grouped by.
    GroupBy {
        /// A group for each day, of UTC or another time zone; `key` is its date.
        Day = "day",
        /// A group for each hour, UTC; `key` is its start.
        Hour = "hour",
        /// A group for each link; `key` is its id. Of the whole account, those with the most clicks.
        Link = "link",
        /// Clicks by platform.
        Platform = "platform",
        /// Clicks by kind, including previews and crawlers.
        Kind = "kind",
        /// Clicks by the host of the referring page; `key` is empty if there was none.
        RefererHost = "referer_host",
        /// Clicks by the visitor's country, a two-letter ISO 3166-1 code or `unknown`; only if country data is configured.
        Country = "country",
        /// Clicks by the visitor's browser; `webview` is an app's web view.
        Browser = "browser",
        /// Clicks by operating system.
        Os = "os",
        /// Clicks by device type: `mobile`, `tablet`, `desktop` or `unknown`.
        Device = "device",
        /// Clicks by in-app browser; `none` is a regular browser.
        InApp = "in_app",
    }
}

words! {
    /// The order of a report's groups.
    GroupOrder {
        /// Most clicks first, then by key.
        Clicks = "clicks",
        /// By key, descending, such as the newest day first.
        KeyDescending = "-key",
    }
}

impl GroupBy {
    /// Whether the groups hold clicks only: installs and conversions have no platform or referer on record.
    pub const fn is_of_clicks(&self) -> bool {
        !matches!(self, Self::Day | Self::Hour | Self::Link)
    }

    /// The key of a click's group, for those that a user agent decides.
    pub fn of_user_agent(&self, agent: UserAgent) -> Option<&'static str> {
        match self {
            Self::Browser => Some(agent.browser.as_str()),
            Self::Os => Some(agent.os.as_str()),
            Self::Device => Some(agent.device.as_str()),
            Self::InApp => Some(agent.in_app.as_str()),
            _ => None,
        }
    }

    /// Width of a group in milliseconds, for those that are stretches of time.
    pub const fn millis(&self) -> Option<i64> {
        match self {
            Self::Day => Some(86_400_000),
            Self::Hour => Some(3_600_000),
            _ => None,
        }
    }
}

/// Results of a set of links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct FunnelReport {
    /// Start of the window, inclusive.
    pub from: Timestamp,
    /// End of the window, inclusive.
    pub to: Timestamp,
    /// The links, without duplicates, in the requested order; empty in a report on the whole account.
    pub link_ids: Vec<String>,
    /// The touch that is credited.
    pub credit: Credit,
    /// Totals of all links.
    pub funnel: Funnel,
    /// In a report on a single link: clicks that a previous service counted, as its owner imported them. They are not included
    /// in `funnel` and `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_clicks: Option<i64>,
    /// In a report on the whole account: conversions by known users with no earlier touch, by type. They are not
    /// included in `funnel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed: Option<BTreeMap<String, i64>>,
    /// The revenue of those conversions, by currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed_revenue: Option<Vec<Revenue>>,
    /// What the report is grouped by, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<GroupBy>,
    /// Time zone of the groups' days, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// The groups, in the requested order. By default, days and hours are oldest first and without gaps, links are
    /// in the requested order, and all others are sorted by clicks. Clicks without a group of their own are in the
    /// group `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<FunnelGroup>>,
}

impl FunnelReport {
    /// The report for these parameters.
    pub fn new(scope: FunnelScope, funnel: Funnel, groups: Option<Vec<FunnelGroup>>) -> Self {
        let FunnelScope { link_ids, from, to, credit, group_by, zone, .. } = scope;
        let link_ids = link_ids.unwrap_or_default();
        let tz = zone.map(|zone| zone.name().to_owned());
        Self {
            from,
            to,
            link_ids,
            credit,
            funnel,
            imported_clicks: None,
            unattributed: None,
            unattributed_revenue: None,
            group_by,
            tz,
            groups,
        }
    }

    /// Adds the clicks that a previous service counted.
    #[must_use]
    pub fn imported(mut self, clicks: Option<i64>) -> Self {
        self.imported_clicks = clicks;
        self
    }

    /// Adds the conversions that no link is credited with, and their revenue.
    #[must_use]
    pub fn unattributed(mut self, conversions: BTreeMap<String, i64>, revenue: Vec<Revenue>) -> Self {
        (self.unattributed, self.unattributed_revenue) = (Some(conversions), Some(revenue));
        self
    }
}

/// Counts from click to conversion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Funnel {
    /// Clicks by people and agents.
    pub clicks: i64,
    /// New installs.
    pub new_users: NewUsers,
    /// Returning installs.
    pub returning_users: ReturningUsers,
    /// Conversions by type.
    pub conversions: BTreeMap<String, i64>,
    /// Revenue of those conversions, by currency.
    #[serde(default)]
    pub revenue: Vec<Revenue>,
}

reply! {
    /// Revenue in one currency.
    Revenue {
        /// The currency, an ISO 4217 code.
        currency: String,
        /// The sum, in hundredths of the currency unit.
        amount_cents: i64,
    }
}

/// The amount with a point and its currency, such as `1,204.50 EUR`.
impl fmt::Display for Revenue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = self.amount_cents.unsigned_abs();
        let whole = (cents / 100).to_string();
        f.write_str(if self.amount_cents < 0 { "-" } else { "" })?;
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        write!(f, ".{:02} {}", cents % 100, self.currency)
    }
}

/// Distinct new installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewUsers {
    /// First opened from a link.
    pub installed: i64,
    /// Bound to a user who had no earlier install.
    pub identified: i64,
}

/// Distinct returning installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReturningUsers {
    /// Bound to a user with an earlier install on a device that is not known to be different.
    pub reinstalled: i64,
    /// Bound to a user whose earlier installs were all on other device models.
    pub new_device: i64,
    /// Opened again from a link.
    pub engaged: i64,
}

/// One group of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct FunnelGroup {
    /// What the group has in common: a date, the start of an hour, a link's ID, a platform, a kind, a country, a host, or one
    /// of the other values that `group_by` names.
    pub key: String,
    /// Clicks by people and agents; if grouped by kind, clicks of that kind.
    pub clicks: i64,
    /// New installs; absent if groups contain only clicks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_users: Option<NewUsers>,
    /// Returning installs; absent if groups contain only clicks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returning_users: Option<ReturningUsers>,
    /// Conversions by type; absent if groups contain only clicks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversions: Option<BTreeMap<String, i64>>,
    /// Revenue of those conversions, by currency; absent if groups contain only clicks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revenue: Option<Vec<Revenue>>,
}

impl FunnelGroup {
    /// A group that holds clicks only.
    pub fn of_clicks(key: impl Into<String>, clicks: i64) -> Self {
        Self { key: key.into(), clicks, new_users: None, returning_users: None, conversions: None, revenue: None }
    }

    /// A group that holds everything.
    pub fn whole(key: impl Into<String>, funnel: Funnel) -> Self {
        let Funnel { clicks, new_users, returning_users, conversions, revenue } = funnel;
        Self {
            key: key.into(),
            clicks,
            new_users: Some(new_users),
            returning_users: Some(returning_users),
            conversions: Some(conversions),
            revenue: Some(revenue),
        }
    }
}

/// Results of a single link, by last touch (legacy form of the report).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct LinkStats {
    /// The link.
    pub link_id: String,
    /// Clicks by people and agents.
    pub click_count: i64,
    /// Installs that were first opened from the link.
    pub install_count: i64,
    /// Installs that were bound to a user.
    pub identify_count: i64,
    /// Conversions.
    pub convert_count: i64,
    /// Conversions per click; 0 if there are no clicks.
    pub conversion_rate: f64,
    /// Conversions by type and currency.
    pub conversions: Vec<ConversionSum>,
    /// Clicks that a previous service counted, as the link's owner imported them; not included in `click_count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_clicks: Option<i64>,
}

impl LinkStats {
    /// Counts of a link; the sums and the rate follow from them.
    pub fn new(
        link_id: String,
        (click_count, install_count, identify_count): (i64, i64, i64),
        conversions: Vec<ConversionSum>,
    ) -> Self {
        let convert_count = conversions.iter().map(|sum| sum.count).sum();
        #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
        let conversion_rate = if click_count == 0 { 0.0 } else { convert_count as f64 / click_count as f64 };
        Self {
            link_id,
            click_count,
            install_count,
            identify_count,
            convert_count,
            conversion_rate,
            conversions,
            imported_clicks: None,
        }
    }

    /// Adds the clicks that a previous service counted.
    #[must_use]
    pub fn imported(mut self, clicks: Option<i64>) -> Self {
        self.imported_clicks = clicks;
        self
    }
}

reply! {
    /// Conversions of one type and currency.
    ConversionSum {
        /// Type of conversion.
        conversion_type: String,
        /// Number of conversions.
        count: i64,
        /// Revenue in hundredths of the currency unit; null if there are no amounts. A sum beyond 64 bits is clamped.
        sum_cents: Option<i64>,
        /// Currency of the revenue; null if there are no amounts.
        currency: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_need_clicks() {
        let sums = vec![ConversionSum::new("purchase".into(), 3, Some(30), Some("EUR".into()))];
        let rate = |clicks| LinkStats::new("a".into(), (clicks, 0, 0), sums.clone()).conversion_rate;
        assert!((rate(0)).abs() < f64::EPSILON && (rate(4) - 0.75).abs() < f64::EPSILON);
    }
}
