//! What a report is asked for: links, window, groups; their defaults and limits.

use serde::{Deserialize, Serialize};

use super::{Credit, GroupBy, GroupOrder};
use crate::error::{ErrorCode, Invalid};
use crate::stats::{DEFAULT_WINDOW_DAYS, MAX_WINDOW_DAYS};
use crate::time::Timestamp;
use crate::words::setters;
use crate::zone::Zone;

/// Maximum links of one report: counts of distinct installs cannot be added, so two reports cannot be combined.
pub const MAX_LINKS: usize = 100;
/// Longest window of a report by hour, in days.
pub const MAX_HOURLY_DAYS: i64 = 31;
/// Maximum groups of a report that is not grouped by hour or day.
pub const MAX_GROUPS: u32 = 100;
/// Default number of links listed in a report on the whole account.
const DEFAULT_LINKS: u32 = 25;

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
}
