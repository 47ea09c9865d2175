//! The funnel: results of links, from clicks to installs, users and conversions.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::stats::{DEFAULT_WINDOW_DAYS, MAX_WINDOW_DAYS};
use crate::time::Timestamp;
use crate::visitor::UserAgent;
use crate::words::{reply, setters, words};
use crate::zone::Zone;

/// Maximum links of one report: counts of distinct installs cannot be added, so two reports cannot be combined.
pub const MAX_LINKS: usize = 100;
/// Longest window of a report by hour, in days.
pub const MAX_HOURLY_DAYS: i64 = 31;
/// Maximum groups of a report that is not grouped by hour or day.
pub const MAX_GROUPS: u32 = 100;
/// Default number of links listed in a report on the whole account.
const DEFAULT_LINKS: u32 = 25;

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

/// Parameters of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FunnelQuery {
    /// 1 to 100 link IDs, separated by commas; by default, the whole account. Unknown IDs count as zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_ids: Option<String>,
    /// Start; by default, 30 days before `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// End; by default, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// The touch that is credited; the last touch if absent or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit: Option<Credit>,
    /// What the report is grouped by, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<GroupBy>,
    /// With `group_by=day`: time zone of the days, an IANA time zone name such as `Europe/Berlin`; by default, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// Maximum number of groups, 1 to 100, those with the most clicks; the clicks of the rest are in the last group, `other`.
    /// Default: 100 for hosts and countries, 25 for links of the whole account, otherwise unlimited. Not allowed with hours or days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Order of the groups. Default: hours and days oldest first, links in the order of `link_ids`, others by clicks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<GroupOrder>,
}

/// Parameters that passed every rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunnelScope {
    /// Each id once, in the order asked; `None`: the whole account.
    pub link_ids: Option<Vec<String>>,
    /// Start, included.
    pub from: Timestamp,
    /// End, included.
    pub to: Timestamp,
    /// The touch that is credited.
    pub credit: Credit,
    /// What the report is broken down by.
    pub group_by: Option<GroupBy>,
    /// Whose days the groups are, if they are not UTC's.
    pub zone: Option<Zone>,
    /// How many groups are named; `None`: all.
    pub limit: Option<usize>,
    /// The order of the groups, if it is not the usual one.
    pub order: Option<GroupOrder>,
}

impl FunnelQuery {
    /// The last 30 days of these links.
    pub fn new<I: AsRef<str>>(link_ids: impl IntoIterator<Item = I>) -> Self {
        let ids: Vec<String> = link_ids.into_iter().map(|id| id.as_ref().to_owned()).collect();
        Self { link_ids: Some(ids.join(",")), ..Self::default() }
    }

    /// The last 30 days of the whole account, including deleted links.
    pub fn account() -> Self {
        Self::default()
    }

    setters! {
        /// Sets which touch is credited.
        credit: Credit,
        /// Sets what the report is grouped by.
        group_by: GroupBy,
        /// Sets the time zone of the days.
        tz: impl Into<String>,
        /// Sets the maximum number of groups.
        limit: u32,
        /// Sets the order of the groups.
        order: GroupOrder,
    }

    /// Sets the window.
    #[must_use]
    pub fn window(mut self, from: Option<Timestamp>, to: Option<Timestamp>) -> Self {
        (self.from, self.to) = (from, to);
        self
    }

    /// Applies defaults and rules. An unknown credit is the last touch; blank ids between commas do not count.
    pub fn check(&self, now: Timestamp) -> Result<FunnelScope, Invalid> {
        let wrong = |field: &'static str, message: String| Err(Invalid::field(ErrorCode::BadRequest, field, message));
        let link_ids = self.link_ids.as_deref().map(distinct);
        match link_ids.as_ref().map(Vec::len) {
            Some(0) => return wrong("link_ids", "link_ids is empty".into()),
            Some(count) if count > MAX_LINKS => {
                return wrong("link_ids", format!("link_ids must contain at most {MAX_LINKS} IDs (currently {count})"));
            }
            _ => {}
        }
        let to = self.to.unwrap_or(now);
        let from = self.from.unwrap_or_else(|| to.plus_days(-DEFAULT_WINDOW_DAYS));
        if from > to {
            return wrong("from", "from must not be later than to".into());
        }
        let longest = match &self.group_by {
            Some(GroupBy::Unknown(_)) => {
                let words: Vec<&str> = GroupBy::ALL.iter().map(GroupBy::as_str).collect();
                let message = format!("group_by must be one of {}", words.join(", "));
                return Err(Invalid::field(ErrorCode::InvalidGroupBy, "group_by", message));
            }
            Some(GroupBy::Day) => Some(MAX_WINDOW_DAYS),
            Some(GroupBy::Hour) => Some(MAX_HOURLY_DAYS),
            _ => None,
        };
        if let Some(days) = longest.filter(|days| to > from.plus_days(*days)) {
            return wrong("from", format!("the window must be at most {days} days"));
        }
        let zone = match self.tz.as_deref() {
            None => None,
            Some(_) if self.group_by != Some(GroupBy::Day) => {
                return wrong("tz", "tz requires group_by=day".into());
            }
            Some(name) => match Zone::named(name) {
                None => return wrong("tz", "tz must be an IANA time zone name, such as Europe/Berlin".into()),
                zone => zone,
            },
        };
        let limit = match (self.limit, &self.group_by) {
            (Some(limit), _) if !(1..=MAX_GROUPS).contains(&limit) => {
                return wrong("limit", format!("limit must be a number from 1 to {MAX_GROUPS}"));
            }
            (Some(_), None | Some(GroupBy::Day | GroupBy::Hour)) => {
                return wrong("limit", "limit requires a group_by other than hour or day".into());
            }
            (None, Some(GroupBy::RefererHost | GroupBy::Country)) => Some(MAX_GROUPS),
            (None, Some(GroupBy::Link)) if link_ids.is_none() => Some(DEFAULT_LINKS),
            (limit, _) => limit,
        };
        match &self.order {
            Some(GroupOrder::Unknown(_)) => {
                let words: Vec<&str> = GroupOrder::ALL.iter().map(GroupOrder::as_str).collect();
                return wrong("order", format!("order must be one of {}", words.join(", ")));
            }
            Some(_) if self.group_by.is_none() => return wrong("order", "order requires group_by".into()),
            _ => {}
        }
        let (limit, order) = (limit.and_then(|limit| usize::try_from(limit).ok()), self.order.clone());
        let credit = match &self.credit {
            None | Some(Credit::Unknown(_)) => Credit::LastTouch,
            Some(known) => known.clone(),
        };
        Ok(FunnelScope { link_ids, from, to, credit, group_by: self.group_by.clone(), zone, limit, order })
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

/// The ids of a list joined by commas, each once.
fn distinct(list: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
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

    /// C7: at most 100 links, `from` not after `to`, windows of limited groups; an unknown credit is the last touch.
    #[test]
    fn c7_questions_have_defaults_and_limits() {
        let now = Timestamp::from_millis(1_795_167_000_000);
        let scope = FunnelQuery::new(["a", "b", "a", " ", ""]).check(now).expect("a question");
        assert_eq!(scope.link_ids, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(FunnelQuery::account().check(now).expect("a question").link_ids, None);
        assert_eq!((scope.from, scope.to, scope.credit), (now.plus_days(-30), now, Credit::LastTouch));
        let ids: Vec<String> = (0..101).map(|n| format!("link-{n}")).collect();
        assert!(FunnelQuery::new(&ids[..100]).check(now).is_ok());
        let one = || FunnelQuery::new(["a"]);
        let ago = |days: i64| Some(now.plus_days(-days));
        for (query, field) in [
            (FunnelQuery::new(&ids), "link_ids"),
            (FunnelQuery::new([" ", ","]), "link_ids"),
            (one().window(Some(now.plus_millis(1)), None), "from"),
            (one().window(ago(401), None).group_by(GroupBy::Day), "from"),
            (one().window(ago(32), None).group_by(GroupBy::Hour), "from"),
            (one().group_by(GroupBy::from("week")), "group_by"),
            (one().limit(5_u32), "limit"),
            (one().group_by(GroupBy::Day).limit(5_u32), "limit"),
            (one().group_by(GroupBy::Link).limit(0_u32), "limit"),
            (one().group_by(GroupBy::Link).limit(101_u32), "limit"),
            (one().order(GroupOrder::Clicks), "order"),
            (one().group_by(GroupBy::Day).order(GroupOrder::from("key")), "order"),
        ] {
            assert_eq!(query.check(now).map_err(|e| e.field), Err(Some(field.into())), "{query:?}");
        }
        let week = one().group_by(GroupBy::from("week")).check(now).map_err(|e| e.code);
        assert_eq!(week, Err(ErrorCode::InvalidGroupBy));
        assert!(one().window(ago(4_000), None).check(now).is_ok());
        let limit = |query: FunnelQuery| query.check(now).expect("a question").limit;
        assert_eq!(limit(FunnelQuery::account().group_by(GroupBy::Link)), Some(25));
        assert_eq!(limit(one().group_by(GroupBy::Link)), None);
        assert_eq!(limit(one().group_by(GroupBy::Link).limit(1_u32)), Some(1));
        assert_eq!(limit(one().group_by(GroupBy::RefererHost)), Some(100));
        let unknown = one().credit(Credit::from("linear")).check(now).expect("falls back");
        assert_eq!(unknown.credit, Credit::LastTouch);
    }

    #[test]
    fn rates_need_clicks() {
        let sums = vec![ConversionSum::new("purchase".into(), 3, Some(30), Some("EUR".into()))];
        let rate = |clicks| LinkStats::new("a".into(), (clicks, 0, 0), sums.clone()).conversion_rate;
        assert!((rate(0)).abs() < f64::EPSILON && (rate(4) - 0.75).abs() < f64::EPSILON);
    }
}
