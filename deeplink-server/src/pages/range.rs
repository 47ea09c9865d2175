//! The time range of a page's numbers: a named range up to now, or custom dates. Days are those of the account's time
//! zone.

use deeplink_core::funnel::{FunnelQuery, GroupBy};
use deeplink_core::stats::{DEFAULT_WINDOW_DAYS, MAX_WINDOW_DAYS};
use deeplink_core::time::Timestamp;
use deeplink_core::zone::{Day, Zone};

use super::time;
use crate::error::ApiError;
use crate::http::extract::Query;

const DAY_MILLIS: i64 = 86_400_000;
/// Charts of more days have a bar for each week: a quarter's days still fit the page.
const MAX_DAILY: i64 = 92;

/// A named range: the value in the query, the number of days, the label of the button, and the title above the numbers.
pub(super) type Named = (&'static str, i64, &'static str, &'static str);

pub(super) const NAMED: [Named; 5] = [
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
    /// As in the query; empty for custom dates.
    name: &'static str,
    /// The account's time zone.
    pub(super) zone: Zone,
    from: Timestamp,
    to: Timestamp,
    /// The same number of days before it: up to the same time of day if the range ends now, otherwise whole days.
    before: (Timestamp, Timestamp),
    /// Whether it ends now.
    pub(super) is_open: bool,
    days: i64,
    /// The dates as entered, even if they are refused.
    pub(super) entered: [String; 2],
    /// Why the dates were refused; the range is then the default one.
    pub(super) error: Option<String>,
}

impl Range {
    /// The range that a page's query selects; the last 30 days by default.
    pub(super) fn read(path: impl Into<String>, query: &Query, now: Timestamp, zone: &Zone) -> Result<Self, ApiError> {
        let [range, from, to] = ["range", "from", "to"].map(|name| query.one(name));
        let (range, from, to) = (range?.unwrap_or_default(), from?.unwrap_or_default(), to?.unwrap_or_default());
        let mut read = Self::named(path.into(), range, now, zone);
        if from.is_empty() && to.is_empty() {
            return Ok(read);
        }
        read.entered = [from.to_owned(), to.to_owned()];
        match dates(from, to, now, zone) {
            Ok(days) => {
                read.name = "";
                read.set(&days, now);
            }
            Err(error) => read.error = Some(error),
        }
        Ok(read)
    }

    fn named(path: String, name: &str, now: Timestamp, zone: &Zone) -> Self {
        let known = NAMED.iter().find(|known| known.0 == name);
        let (name, days) = known.map_or((DEFAULT, DEFAULT_WINDOW_DAYS), |known| (known.0, known.1));
        let mut range = Self {
            path,
            name,
            zone: zone.clone(),
            from: now,
            to: now,
            before: (now, now),
            is_open: true,
            days,
            entered: [String::new(), String::new()],
            error: None,
        };
        let days = last_days(zone, days, now);
        range.set(&days, now);
        range.entered = [&days[0], &days[days.len() - 1]].map(|day| day.date.clone());
        range
    }

    /// Sets the days, of which there is at least one.
    fn set(&mut self, days: &[Day], now: Timestamp) {
        let (first, last) = (&days[0], &days[days.len() - 1]);
        (self.from, self.to) = (first.start, last.end.plus_millis(-1).min(now));
        self.days = i64::try_from(days.len()).unwrap_or(i64::MAX);
        self.is_open = self.to == now;
        let before = last_days(&self.zone, self.days, first.start.plus_millis(-1));
        let end = first.start.plus_millis(-1);
        let until = if self.is_open {
            let time_of_day = self.zone.as_utc(now).as_millis().rem_euclid(DAY_MILLIS);
            let until = before[before.len() - 1].start.plus_millis(time_of_day);
            // The clocks may have changed on that day.
            let reached = self.zone.as_utc(until).as_millis().rem_euclid(DAY_MILLIS);
            until.plus_millis(time_of_day - reached).min(end)
        } else {
            end
        };
        self.before = (before[0].start, until);
    }

    /// The buttons: the value in the query, the label, and whether it is this range.
    pub(super) fn choices(&self) -> Vec<(&'static str, &'static str, bool)> {
        let is_this = |name| self.name == name;
        NAMED.iter().map(|(name, _, label, _)| (*name, *label, is_this(*name))).collect()
    }

    /// Whether the dates are custom.
    pub(super) fn is_own(&self) -> bool {
        self.name.is_empty() || self.error.is_some()
    }

    /// The title above the numbers.
    pub(super) fn title(&self) -> String {
        match NAMED.iter().find(|known| known.0 == self.name) {
            Some((_, _, _, title)) => (*title).to_owned(),
            None if self.days == 1 => self.day_of(self.from),
            None => format!("{} to {}", self.day_of(self.from), self.day_of(self.to)),
        }
    }

    /// The period that the numbers are compared with, in words.
    pub(super) fn before(&self) -> String {
        match (self.is_open, self.days) {
            (true, 1) => "by this time yesterday".to_owned(),
            (false, 1) => "the day before".to_owned(),
            _ if self.name == "12m" => "in the previous 12 months".to_owned(),
            (_, days) => format!("in the previous {days} days"),
        }
    }

    /// Whether neither a range nor dates were chosen.
    pub(super) fn is_default(&self) -> bool {
        self.name == DEFAULT && self.error.is_none()
    }

    /// The query that selects it; empty for the default range.
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

    /// A day as people write it.
    fn day_of(&self, at: Timestamp) -> String {
        time::day(at, &self.zone)
    }

    /// When a group begins within the range: the first hour may begin before it, in zones off by half an hour.
    pub(super) fn start_of(&self, group: Timestamp) -> Timestamp {
        if self.unit() == Unit::Hour { group.max(self.from) } else { group }
    }

    /// Limits a query to the range, and another one to the period before it.
    pub(super) fn limit(&self, query: &FunnelQuery) -> [FunnelQuery; 2] {
        let mut own = query.clone().window(Some(self.from), Some(self.to)).group_by(self.unit().group_by());
        if self.unit() != Unit::Hour && self.zone != Zone::default() {
            own = own.tz(self.zone.name());
        }
        [own, query.clone().window(Some(self.before.0), Some(self.before.1))]
    }
}

/// This number of days up to a given time, at least one.
pub(super) fn last_days(zone: &Zone, count: i64, now: Timestamp) -> Vec<Day> {
    let mut days = zone.days(now.plus_days(-count - 1), now);
    days.drain(..days.len().saturating_sub(usize::try_from(count).unwrap_or(1)));
    days
}

/// The days of custom dates, up to today; the last day is today by default.
fn dates(from: &str, to: &str, now: Timestamp, zone: &Zone) -> Result<Vec<Day>, String> {
    let date = |text: &str, name: &str| -> Result<Timestamp, String> {
        let wrong = || format!("“{name}” is not a date such as {}.", time::date(now, zone));
        zone.midnight(text).ok_or_else(wrong)
    };
    let first = if from.is_empty() { Err("Enter a start date.".to_owned()) } else { date(from, "From") };
    let end = if to.is_empty() { Ok(now) } else { date(to, "To") };
    let (first, end) = match (first, end) {
        (Ok(first), Ok(end)) => (first, end),
        // The form shows one text above both dates.
        (Err(first), Err(end)) => return Err(format!("{first} {end}")),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error),
    };
    if first > now {
        return Err("These dates are in the future.".to_owned());
    }
    if first > end {
        return Err("Choose an end date on or after the start date.".to_owned());
    }
    let too_many = |days: i64| format!("The range is longer than {days} days.");
    let until = first.plus_days(MAX_WINDOW_DAYS);
    if end.min(now) >= until {
        return Err(too_many(MAX_WINDOW_DAYS));
    }
    let days = zone.days(first, end.min(now));
    // One day of the longest range has 25 hours.
    if days.last().is_some_and(|last| last.end > until) { Err(too_many(MAX_WINDOW_DAYS - 1)) } else { Ok(days) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Range {
        let now = "2026-11-20T09:30:00Z".parse().expect("a moment");
        Range::read("/account", &Query::parse(query), now, &Zone::default()).expect("a range")
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
            ("from=2026-11-02&to=2026-11-01", "Choose an end date on or after the start date."),
            ("from=&to=2026-11-01", "Enter a start date."),
            ("from=&to=soon", "Enter a start date. “To” is not a date such as 2026-11-20."),
            ("from=then&to=soon", "“From” is not a date such as 2026-11-20. “To” is not a date such as 2026-11-20."),
            ("from=2026-11-21&to=2026-11-22", "These dates are in the future."),
            ("from=2026-11-21", "These dates are in the future."),
            ("from=2026-11-22&to=2026-11-21", "These dates are in the future."),
            ("from=2025-10-16&to=2026-11-20", "The range is longer than 400 days."),
        ] {
            let range = read(query);
            assert_eq!((range.error.as_deref(), &*range.title()), (Some(error), "Last 30 days"), "{query}");
            assert!(range.is_own() && range.choices().contains(&(DEFAULT, "30 days", true)), "{query}");
            assert!(query.contains(&range.entered[0]) && query.contains(&range.entered[1]), "{query}");
        }
    }

    /// Days begin at midnight in the account's zone, and the period before has as many, even if clocks changed.
    #[test]
    fn days_are_those_of_the_zone() {
        for (zone, now, query, from, to, before) in [
            (
                "Asia/Tokyo",
                "2026-11-20T16:30:00Z",
                "range=today",
                "2026-11-20T15:00:00.000Z",
                "2026-11-20T16:30:00.000Z",
                ["2026-11-19T15:00:00.000Z", "2026-11-19T16:30:00.000Z"],
            ),
            (
                "America/New_York",
                "2026-11-02T02:00:00Z",
                "from=2026-10-31&to=2026-11-01",
                "2026-10-31T04:00:00.000Z",
                "2026-11-02T02:00:00.000Z",
                ["2026-10-29T04:00:00.000Z", "2026-10-31T01:00:00.000Z"],
            ),
            (
                "Europe/Berlin",
                "2027-03-29T10:00:00Z",
                "range=today",
                "2027-03-28T22:00:00.000Z",
                "2027-03-29T10:00:00.000Z",
                ["2027-03-27T23:00:00.000Z", "2027-03-28T10:00:00.000Z"],
            ),
            (
                "Europe/Berlin",
                "2027-03-29T12:00:00Z",
                "from=2027-03-28&to=2027-03-28",
                "2027-03-27T23:00:00.000Z",
                "2027-03-28T21:59:59.999Z",
                ["2027-03-26T23:00:00.000Z", "2027-03-27T22:59:59.999Z"],
            ),
            (
                "Europe/Berlin",
                "2026-10-27T12:00:00Z",
                "from=2026-10-25&to=2026-10-25",
                "2026-10-24T22:00:00.000Z",
                "2026-10-25T22:59:59.999Z",
                ["2026-10-23T22:00:00.000Z", "2026-10-24T21:59:59.999Z"],
            ),
        ] {
            let zone = Zone::named(zone).expect("a zone");
            let now = now.parse().expect("a moment");
            let range = Range::read("/account", &Query::parse(query), now, &zone).expect("a range");
            let limits = range.limit(&FunnelQuery::account());
            let window = |of: &FunnelQuery| [of.from, of.to].map(|at| at.map(|at| at.to_string()).unwrap_or_default());
            assert_eq!(window(&limits[0]), [from, to], "{query}");
            assert_eq!(window(&limits[1]), before, "{query}");
            let by_day = range.unit() == Unit::Day;
            assert_eq!(limits[0].tz.as_deref(), by_day.then(|| zone.name()), "{query}");
        }
        let tokyo = Zone::named("Asia/Tokyo").expect("a zone");
        let now = "2026-11-20T16:30:00Z".parse().expect("a moment");
        let range = Range::read("/account", &Query::parse("from=2026-11-21"), now, &tokyo).expect("a range");
        assert_eq!((&*range.title(), range.error), ("21 Nov 2026", None), "where it is tomorrow already");
    }
}
