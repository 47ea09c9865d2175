//! The time that a page's numbers are about: a named range up to now, or whole days of one's own. Days are in UTC.

use deeplink_core::funnel::{FunnelQuery, GroupBy};
use deeplink_core::stats::{DEFAULT_WINDOW_DAYS, MAX_WINDOW_DAYS};
use deeplink_core::time::Timestamp;

use super::time::DisplayTime;
use crate::error::ApiError;
use crate::http::extract::Query;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// Above this number of days a chart has a bar for each week: a quarter by day still fits the page.
const MAX_DAILY: i64 = 92;

/// Named ranges: in the query, how many days they have, on their button, and above the numbers.
const NAMED: [(&str, i64, &str, &str); 5] = [
    ("today", 1, "Today", "Today"),
    ("7d", 7, "7 days", "Last 7 days"),
    (DEFAULT, DEFAULT_WINDOW_DAYS, "30 days", "Last 30 days"),
    ("90d", 90, "90 days", "Last 90 days"),
    // Whole weeks.
    ("12m", 364, "12 months", "Last 12 months"),
];
const DEFAULT: &str = "30d";

/// The width of a chart's bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Hour,
    Day,
    Week,
}

impl Unit {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// What counts are grouped by; weeks are sums of days.
    pub(super) fn group_by(self) -> GroupBy {
        if self == Self::Hour { GroupBy::Hour } else { GroupBy::Day }
    }

    /// How many groups make a bar.
    pub(super) fn groups(self) -> usize {
        if self == Self::Week { 7 } else { 1 }
    }
}

/// A range, and what its form shows.
#[derive(Debug, Clone)]
pub(super) struct Range {
    /// The path of the page.
    pub(super) path: String,
    /// As in the query; empty for dates of one's own.
    name: &'static str,
    from: Timestamp,
    to: Timestamp,
    /// Whether it ends now.
    pub(super) is_open: bool,
    days: i64,
    /// What was entered as dates, also when it is refused.
    pub(super) entered: [String; 2],
    /// Why the dates were refused; then the range is the default one.
    pub(super) error: Option<String>,
}

impl Range {
    /// The range that a page's query names; the last 30 days when it names none.
    pub(super) fn read(path: impl Into<String>, query: &Query, now: Timestamp) -> Result<Self, ApiError> {
        let [range, from, to] = ["range", "from", "to"].map(|name| query.one(name));
        let (range, from, to) = (range?.unwrap_or_default(), from?.unwrap_or_default(), to?.unwrap_or_default());
        let mut read = Self::named(path.into(), range, now);
        if from.is_empty() && to.is_empty() {
            return Ok(read);
        }
        read.entered = [from.to_owned(), to.to_owned()];
        match dates(from, to, now) {
            Ok((from, until)) => {
                read.name = "";
                (read.from, read.to) = (from, last(until, now));
                read.days = (until.as_millis() - from.as_millis()) / DAY;
                read.is_open = read.to == now;
            }
            Err(error) => read.error = Some(error),
        }
        Ok(read)
    }

    fn named(path: String, name: &str, now: Timestamp) -> Self {
        let known = NAMED.iter().find(|known| known.0 == name);
        let (name, days) = known.map_or((DEFAULT, DEFAULT_WINDOW_DAYS), |known| (known.0, known.1));
        let from = midnight(now).plus_days(1 - days);
        let date = |at: Timestamp| DisplayTime::from(at).date();
        Self { path, name, from, to: now, is_open: true, days, entered: [date(from), date(now)], error: None }
    }

    /// The buttons: the query's value, the text, and whether it is this range.
    pub(super) fn choices(&self) -> Vec<(&'static str, &'static str, bool)> {
        let is_this = |name| self.error.is_none() && self.name == name;
        NAMED.iter().map(|(name, _, label, _)| (*name, *label, is_this(*name))).collect()
    }

    /// Whether the dates are one's own.
    pub(super) fn is_own(&self) -> bool {
        self.name.is_empty() || self.error.is_some()
    }

    /// Above the numbers.
    pub(super) fn title(&self) -> String {
        match NAMED.iter().find(|known| known.0 == self.name) {
            Some((_, _, _, title)) => (*title).to_owned(),
            None if self.days == 1 => DisplayTime::from(self.from).to_string(),
            None => format!("{} to {}", DisplayTime::from(self.from), DisplayTime::from(self.to)),
        }
    }

    /// When it was that the numbers are compared with.
    pub(super) fn before(&self) -> String {
        match (self.is_open, self.days) {
            (true, 1) => "yesterday by this time".to_owned(),
            (false, 1) => "the day before".to_owned(),
            (_, days) => format!("in the {days} days before"),
        }
    }

    /// Whether neither a range nor dates were chosen.
    pub(super) fn is_default(&self) -> bool {
        self.name == DEFAULT && self.error.is_none()
    }

    /// The query that chooses it; empty for the default one.
    pub(super) fn query(&self) -> String {
        match self.name {
            DEFAULT => String::new(),
            "" => format!("?from={}&to={}", self.entered[0], self.entered[1]),
            name => format!("?range={name}"),
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self.days {
            1 => Unit::Hour,
            ..=MAX_DAILY => Unit::Day,
            _ => Unit::Week,
        }
    }

    /// Limits a query to the range, and to as many days before it until the same time.
    pub(super) fn limit(&self, query: &FunnelQuery) -> [FunnelQuery; 2] {
        let shifted = |days| query.clone().window(Some(self.from.plus_days(days)), Some(self.to.plus_days(days)));
        [shifted(0).group_by(self.unit().group_by()), shifted(-self.days)]
    }
}

fn midnight(at: Timestamp) -> Timestamp {
    at.plus_millis(-at.as_millis().rem_euclid(DAY))
}

/// The last millisecond before `until` that is not in the future.
fn last(until: Timestamp, now: Timestamp) -> Timestamp {
    until.plus_millis(-1).min(now)
}

/// The first day's beginning and the last day's end; without a last day, today's.
fn dates(from: &str, to: &str, now: Timestamp) -> Result<(Timestamp, Timestamp), String> {
    let date = |text: &str, name: &str| -> Result<Timestamp, String> {
        let wrong = || format!("“{name}” is not a date such as {}.", DisplayTime::from(now).date());
        if text.len() == 10 { format!("{text}T00:00:00Z").parse().map_err(|_| wrong()) } else { Err(wrong()) }
    };
    let first = date(from, "From")?;
    let end = if to.is_empty() { midnight(now) } else { date(to, "To")? };
    if first > end {
        return Err("“From” is after “To”.".to_owned());
    }
    if first > now {
        return Err("These dates are in the future.".to_owned());
    }
    let until = end.min(midnight(now)).plus_days(1);
    if until > first.plus_days(MAX_WINDOW_DAYS) {
        return Err(format!("These are more than {MAX_WINDOW_DAYS} days."));
    }
    Ok((first, until))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Range {
        let now = "2026-11-20T09:30:00Z".parse().expect("a moment");
        Range::read("/account", &Query::parse(query), now).expect("a range")
    }

    #[test]
    fn ranges_are_named_or_dates() {
        const NOW: &str = "2026-11-20T09:30:00.000Z";
        for (query, from, to, unit, title) in [
            ("", "2026-10-22", NOW, Unit::Day, "Last 30 days"),
            ("range=week", "2026-10-22", NOW, Unit::Day, "Last 30 days"),
            ("range=today", "2026-11-20", NOW, Unit::Hour, "Today"),
            ("range=7d", "2026-11-14", NOW, Unit::Day, "Last 7 days"),
            ("range=90d", "2026-08-23", NOW, Unit::Day, "Last 90 days"),
            ("range=12m", "2025-11-22", NOW, Unit::Week, "Last 12 months"),
            (
                "from=2026-11-01&to=2026-11-02",
                "2026-11-01",
                "2026-11-02T23:59:59.999Z",
                Unit::Day,
                "1 Nov 2026 to 2 Nov 2026",
            ),
            ("from=2026-11-01&to=2026-11-01", "2026-11-01", "2026-11-01T23:59:59.999Z", Unit::Hour, "1 Nov 2026"),
            ("from=2026-11-20", "2026-11-20", NOW, Unit::Hour, "20 Nov 2026"),
            ("from=2026-11-19&to=2027-01-01", "2026-11-19", NOW, Unit::Day, "19 Nov 2026 to 20 Nov 2026"),
            ("from=2025-10-17&to=2026-11-20", "2025-10-17", NOW, Unit::Week, "17 Oct 2025 to 20 Nov 2026"),
        ] {
            let range = read(query);
            let [own, before] = range.limit(&FunnelQuery::account());
            assert_eq!(own.from.map(|at| at.to_string()), Some(format!("{from}T00:00:00.000Z")), "{query}");
            assert_eq!(own.to.map(|at| at.to_string()).as_deref(), Some(to), "{query}");
            assert_eq!((range.unit(), &*range.title(), &range.error), (unit, title, &None), "{query}");
            let length = |of: &FunnelQuery| of.to.zip(of.from).map(|(to, from)| to.as_millis() - from.as_millis());
            assert_eq!(length(&own), length(&before), "{query}");
            assert!(before.to < own.from, "{query}");
            assert!(own.check(own.to.expect("an end")).is_ok(), "{query}");
        }
    }

    #[test]
    fn dates_are_refused_with_a_reason_and_stay_entered() {
        for (query, error) in [
            ("from=1.11.2026&to=2026-11-02", "“From” is not a date such as 2026-11-20."),
            ("from=2026-11-01&to=2026-02-30", "“To” is not a date such as 2026-11-20."),
            ("from=2026-11-02&to=2026-11-01", "“From” is after “To”."),
            ("from=&to=2026-11-01", "“From” is not a date such as 2026-11-20."),
            ("from=2026-11-21&to=2026-11-22", "These dates are in the future."),
            ("from=2025-10-16&to=2026-11-20", "These are more than 400 days."),
        ] {
            let range = read(query);
            assert_eq!((range.error.as_deref(), &*range.title()), (Some(error), "Last 30 days"), "{query}");
            assert!(range.is_own() && range.choices().iter().all(|choice| !choice.2), "{query}");
            assert!(query.contains(&range.entered[0]) && query.contains(&range.entered[1]), "{query}");
        }
    }
}
