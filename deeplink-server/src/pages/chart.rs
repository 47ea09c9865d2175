//! Charts of a range of days: clicks over time, the funnel from click to conversion, and conversions, platforms and
//! referring hosts. They are drawn on the server, without a script; their data is also shown as text.

use std::collections::BTreeMap;

use deeplink_core::funnel::{Funnel, FunnelGroup, FunnelQuery, Revenue};
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::{Browser, InApp, OTHER};
use deeplink_core::zone::Zone;
use http::StatusCode;

use super::deliveries::capitalised;
use super::range::{Range, Unit};
use super::time;
use crate::api;
use crate::api::analytics::Numbers;
use crate::caller::Caller;
use crate::state::App;

/// Maximum conversion types, platforms or hosts with their own bar; the rest are summed up.
const MAX_BARS: usize = 8;
/// Width of a bar of the chart over time, including the gap.
const BAR_WIDTH: usize = 10;
/// Height of the chart over time, and length of the longest horizontal bar.
const SCALE: i64 = 100;
const HOUR_MILLIS: i64 = 3_600_000;

/// The numbers of a range, as shown on a page.
pub(super) enum Report {
    /// There are no links yet.
    NoLinks,
    /// They could not be read.
    Unavailable(Range),
    Charts(Box<Charts>),
}

impl Report {
    /// The report on these links. A page without it is better than no page.
    pub(super) async fn of(app: &App, caller: &Caller, about: &'static str, links: &[String], range: Range) -> Self {
        Self::on(app, caller, about, FunnelQuery::new(links), range).await
    }

    /// The report on all links of an account, including deleted ones.
    pub(super) async fn of_account(app: &App, caller: &Caller, range: Range) -> Self {
        Self::on(app, caller, "", FunnelQuery::account(), range).await
    }

    async fn on(app: &App, caller: &Caller, about: &'static str, query: FunnelQuery, range: Range) -> Self {
        let now = app.clock.now();
        let numbers = match range.limit(&query).map(|query| query.check(now)) {
            [Ok(scope), Ok(before)] => api::analytics::numbers_for(app, caller, [scope, before]).await,
            [Err(invalid), _] | [_, Err(invalid)] => Err(invalid.into()),
        };
        match numbers {
            Ok(numbers) => Self::Charts(Box::new(Charts::of(about, range, &numbers))),
            Err(error) => {
                tracing::warn!(%error, "report could not be read; showing the page without it");
                Self::Unavailable(range)
            }
        }
    }

    /// Whether there is no activity at all.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Charts(charts) if charts.is_empty() && charts.before.is_zero())
    }

    /// The HTTP status of a page with it.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Unavailable(Range { error: Some(_), .. }) => StatusCode::BAD_REQUEST,
            Self::Charts(charts) if charts.range.error.is_some() => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        }
    }
}

/// The charts of one page.
pub(super) struct Charts {
    /// Which links they are about.
    pub(super) about: &'static str,
    pub(super) range: Range,
    pub(super) columns: Vec<Column>,
    /// All clicks.
    pub(super) clicks: Count,
    /// All clicks in the previous period, and the change in percent.
    pub(super) before: Count,
    pub(super) change: Option<String>,
    /// The highest column, and the upper end of the axis.
    pub(super) max: Count,
    pub(super) top: Count,
    pub(super) busiest: Option<String>,
    /// From click to conversion.
    pub(super) steps: Vec<Bar>,
    pub(super) revenue: Option<Earned>,
    /// Returning users: opened the app again, reinstalled it, or installed it on a new device.
    pub(super) returning: [Count; 3],
    /// Conversions by type, the most frequent first.
    pub(super) types: Vec<Bar>,
    /// Conversions of users without a touch, which are not included in the others.
    pub(super) unattributed: Count,
    /// Their revenue by currency, such as ` (12.00 EUR)`; empty without any.
    pub(super) unattributed_revenue: String,
    /// Clicks by platform and by referring host.
    pub(super) platforms: Vec<Bar>,
    pub(super) hosts: Vec<Bar>,
    /// Whether no click has a referring host.
    pub(super) has_no_host: bool,
    /// By country, named by its two-letter code; empty if the service does not know visitors' countries.
    pub(super) countries: Vec<Bar>,
    /// Whether the country of some clicks is unknown.
    pub(super) has_no_country: bool,
    /// The same by browser, and by the app whose own browser showed the page.
    pub(super) browsers: Vec<Bar>,
    pub(super) apps: Vec<Bar>,
    pub(super) devices: Vec<Bar>,
    /// Whether the browser of some clicks is unknown.
    pub(super) has_unknown: bool,
    /// Of the whole account: the links with the most clicks.
    pub(super) links: Vec<Bar>,
}

/// A count, shown with thousands separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(i64);

impl From<i64> for Count {
    fn from(count: i64) -> Self {
        Self(count)
    }
}

impl Count {
    /// The count of things in memory.
    pub(super) fn of(things: usize) -> Self {
        Self(i64::try_from(things).unwrap_or(i64::MAX))
    }

    /// The count without separators.
    pub(super) fn number(self) -> i64 {
        self.0
    }

    /// Whether it is 1.
    pub(super) fn is_one(self) -> bool {
        self.0 == 1
    }

    /// Whether it is 0.
    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// An hour, a day or a week of the chart.
pub(super) struct Column {
    /// Its start, for the `datetime` attribute: a time, or a date.
    pub(super) datetime: String,
    pub(super) name: String,
    pub(super) clicks: Count,
    /// Left edge, top edge and height.
    pub(super) x: usize,
    pub(super) y: i64,
    pub(super) height: i64,
}

/// A horizontal bar with its label.
pub(super) struct Bar {
    pub(super) name: String,
    /// The URL of the page for this item.
    pub(super) href: Option<String>,
    pub(super) count: Count,
    /// The length of the bar, from 0 to 100.
    pub(super) length: i64,
    /// Its share of a whole, such as "12.5% of clicks".
    pub(super) share: Option<String>,
    /// The count in the previous period.
    pub(super) before: Option<Count>,
}

/// Revenue, such as `84.00 EUR`.
pub(super) struct Earned {
    pub(super) now: String,
    /// Revenue in the previous period.
    pub(super) before: String,
}

/// The revenue of both periods; `None` if there is none.
fn earned(now: &[Revenue], before: &[Revenue]) -> Option<Earned> {
    let nothing = |other: &Revenue| Revenue::new(other.currency.clone(), 0);
    let said = |sums: &[Revenue], other: &[Revenue]| match sums {
        [] => listed(&other.iter().map(nothing).collect::<Vec<_>>()),
        sums => listed(sums),
    };
    (!now.is_empty() || !before.is_empty()).then(|| Earned { now: said(now, before), before: said(before, now) })
}

fn listed(revenue: &[Revenue]) -> String {
    revenue.iter().map(Revenue::to_string).collect::<Vec<_>>().join(", ")
}

fn in_brackets(revenue: &[Revenue]) -> String {
    if revenue.is_empty() { String::new() } else { format!(" ({})", listed(revenue)) }
}

/// The upper end of an axis for values up to `max`: even, so that its middle is a whole number too, and round.
fn top(max: i64) -> i64 {
    let digits = max.max(1).ilog10();
    let step = 2 * 10_i64.pow(digits.saturating_sub(1));
    max.max(1).saturating_add(step - 1) / step * step
}

/// A part of a whole, scaled to `full`; anything above 0 becomes at least 1, so that it is visible.
fn scaled(count: i64, whole: i64, full: i64) -> i64 {
    if count <= 0 || whole <= 0 {
        return 0;
    }
    let part = i128::from(count) * i128::from(full) / i128::from(whole);
    i64::try_from(part).unwrap_or(full).clamp(1, full)
}

/// A number of tenths, with its decimal unless that is 0.
fn decimal(tenths: i128) -> String {
    if tenths % 10 == 0 { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// A share in percent; `None` if it is more than the whole.
fn percent(count: i64, whole: i64) -> Option<String> {
    if count > whole {
        return None;
    }
    let tenths = (i128::from(count) * 1_000 + i128::from(whole) / 2).checked_div(i128::from(whole))?;
    Some(format!("{}%", decimal(tenths)))
}

/// A ratio; `None` if `whole` is 0.
fn ratio(count: i64, whole: i64) -> Option<String> {
    let tenths = (i128::from(count) * 10 + i128::from(whole) / 2).checked_div(i128::from(whole))?;
    Some(decimal(tenths))
}

/// The change in percent; `None` if there was nothing before.
fn change(now: i64, before: i64) -> Option<String> {
    let difference = (i128::from(now) - i128::from(before)).abs() * 1_000;
    let tenths = (difference + i128::from(before) / 2).checked_div(i128::from(before))?;
    let sign = if now < before { "\u{2212}" } else { "+" };
    Some(format!("{sign}{}%", decimal(tenths)))
}

impl Charts {
    /// Draws the charts of these numbers.
    pub(super) fn of(about: &'static str, range: Range, numbers: &Numbers) -> Self {
        let Numbers { report, before, platforms, hosts, user_agents, countries, links } = numbers;
        let unit = range.unit();
        let groups: Vec<_> =
            report.groups.iter().flatten().filter_map(|of| Some((start(&of.key)?, of.clicks))).collect();
        let sum = |groups: &[(Timestamp, i64)]| Some((groups.first()?.0, groups.iter().map(|of| of.1).sum::<i64>()));
        // The first week may be short, rather than the last, which would look like a drop.
        let mut counts: Vec<_> = groups.rchunks(unit.groups()).filter_map(sum).collect();
        counts.reverse();
        // The latest of several equally busy ones.
        let busiest = counts.iter().copied().filter(|(_, clicks)| *clicks > 0).max_by_key(|(_, clicks)| *clicks);
        let max = busiest.map_or(0, |(_, clicks)| clicks);
        let top = top(max);
        let columns = counts.iter().enumerate().map(|(nth, &(at, clicks))| {
            let height = scaled(clicks, top, SCALE);
            let (x, y) = (nth * BAR_WIDTH + 1, SCALE - height);
            let datetime = if unit == Unit::Hour { at.to_string() } else { time::date(at, &Zone::default()) };
            Column {
                datetime,
                name: name_of(range.start_of(at), unit, &range.zone),
                clicks: Count(clicks),
                x,
                y,
                height,
            }
        });
        let returning = &report.funnel.returning_users;
        let clicks = report.funnel.clicks;
        let in_apps = user_agents.iter().filter(|(of, _)| !matches!(of.in_app, InApp::None | InApp::Unknown));
        Self {
            about,
            columns: columns.collect(),
            clicks: Count(clicks),
            before: Count(before.clicks),
            change: change(clicks, before.clicks),
            max: Count(max),
            top: Count(top),
            busiest: busiest.map(|(at, _)| name_of(range.start_of(at), unit, &range.zone)),
            steps: steps(&report.funnel, before),
            revenue: earned(&report.funnel.revenue, &before.revenue),
            returning: [returning.engaged, returning.reinstalled, returning.new_device].map(Count),
            types: bars(report.funnel.conversions.iter().map(conversion), None),
            unattributed: Count(report.unattributed.iter().flatten().fold(0, |sum: i64, of| sum.saturating_add(*of.1))),
            unattributed_revenue: in_brackets(report.unattributed_revenue.as_deref().unwrap_or_default()),
            platforms: bars(platforms.iter().map(|of| (platform(&of.key), of.clicks)), Some(clicks)),
            hosts: bars(hosts.iter().map(host), Some(clicks)),
            has_no_host: hosts.iter().all(|of| of.key.is_empty()),
            has_no_country: countries.iter().any(|of| of.key == "unknown"),
            countries: bars(countries.iter().map(|of| (country(&of.key), of.clicks)), Some(clicks)),
            browsers: bars(
                user_agents.iter().map(|(of, clicks)| (of.browser.title().to_owned(), *clicks)),
                Some(clicks),
            ),
            devices: bars(user_agents.iter().map(|(of, clicks)| (of.device.title().to_owned(), *clicks)), Some(clicks)),
            has_unknown: user_agents.iter().any(|(of, _)| of.browser == Browser::Unknown),
            apps: bars(in_apps.map(|(of, clicks)| (of.in_app.title().to_owned(), *clicks)), Some(clicks)),
            links: of_links(links, clicks),
            range,
        }
    }

    /// Width of the chart over time.
    pub(super) fn width(&self) -> usize {
        self.columns.len() * BAR_WIDTH
    }

    /// The value in the middle of the axis.
    pub(super) fn middle(&self) -> Count {
        Count(self.top.0 / 2)
    }

    /// The heading of the table's first column.
    pub(super) fn column(&self) -> String {
        capitalised(self.range.unit().word())
    }

    /// Whether there is no activity at all.
    pub(super) fn is_empty(&self) -> bool {
        self.clicks.is_zero()
            && self.unattributed.is_zero()
            && self.steps.iter().all(|step| step.count.is_zero())
            && !self.has_returned()
    }

    /// Whether any user returned.
    pub(super) fn has_returned(&self) -> bool {
        self.returning.iter().any(|count| !count.is_zero())
    }
}

/// The start of a group by hour or, of a group by day, midnight UTC of its date.
fn start(key: &str) -> Option<Timestamp> {
    key.parse().or_else(|_| format!("{key}T00:00:00Z").parse()).ok()
}

fn name_of(at: Timestamp, unit: Unit, zone: &Zone) -> String {
    // A day begins at midnight UTC in any zone: see `start`.
    let day = || time::day(at, &Zone::default());
    match unit {
        Unit::Hour => hour_of(at, zone),
        Unit::Day => day(),
        Unit::Week => format!("Week of {}", day()),
    }
}

/// The time at which an hour begins; if clocks are set back and show it twice, with the zone's abbreviation.
fn hour_of(at: Timestamp, zone: &Zone) -> String {
    let hour = time::hour(at, zone);
    let is_twice = [-HOUR_MILLIS, HOUR_MILLIS].iter().any(|step| time::hour(at.plus_millis(*step), zone) == hour);
    if is_twice { format!("{hour} {}", zone.abbreviation(at)) } else { hour }
}

/// A platform's name for people.
fn platform(key: &str) -> String {
    match key {
        "ios" => "iOS".to_owned(),
        "macos" => "macOS".to_owned(),
        "other" | "unknown" => "Other".to_owned(),
        key => capitalised(key),
    }
}

fn conversion((name, count): (&String, &i64)) -> (String, i64) {
    (if name == OTHER { "Other".to_owned() } else { name.clone() }, *count)
}

fn host(group: &FunnelGroup) -> (String, i64) {
    let name = match group.key.as_str() {
        "" => "No referrer",
        OTHER => "Other",
        host => host,
    };
    (name.to_owned(), group.clicks)
}

fn total(conversions: &BTreeMap<String, i64>) -> i64 {
    conversions.values().fold(0, |sum: i64, count| sum.saturating_add(*count))
}

fn steps(now: &Funnel, before: &Funnel) -> Vec<Bar> {
    let counts = |of: &Funnel| [of.clicks, of.new_users.installed, of.new_users.identified, total(&of.conversions)];
    let (counts, earlier) = (counts(now), counts(before));
    let names = ["Clicks", "Installs", "Users", "Conversions"];
    let whole = counts.into_iter().max().unwrap_or(0);
    let bar = |step: usize| Bar {
        name: names[step].to_owned(),
        href: None,
        count: Count(counts[step]),
        length: scaled(counts[step], whole, SCALE),
        share: step.checked_sub(1).and_then(|above| {
            let (name, count, whole) = (names[above].to_lowercase(), counts[step], counts[above]);
            let share = percent(count, whole).map(|share| format!("{share} of {name}"));
            share.or_else(|| Some(format!("{} per {}", ratio(count, whole)?, name.trim_end_matches('s'))))
        }),
        before: Some(Count(earlier[step])),
    };
    (0..names.len()).map(bar).collect()
}

/// The largest of some counts and the sum of the rest, with their shares of a whole.
fn bars(counts: impl Iterator<Item = (String, i64)>, whole: Option<i64>) -> Vec<Bar> {
    let mut all: BTreeMap<String, i64> = BTreeMap::new();
    for (name, count) in counts {
        let sum = all.entry(name).or_insert(0);
        *sum = sum.saturating_add(count);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(name, count)| (name == "Other", std::cmp::Reverse(*count)));
    if all.len() > MAX_BARS {
        let rest = all.split_off(MAX_BARS - 1).into_iter().fold(0_i64, |sum, (_, count)| sum.saturating_add(count));
        all.push(("Other".to_owned(), rest));
    }
    let longest = all.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let bar = |(name, count): (String, i64)| Bar {
        name,
        href: None,
        count: Count(count),
        length: scaled(count, longest, SCALE),
        share: whole.and_then(|whole| percent(count, whole)),
        before: None,
    };
    all.into_iter().map(bar).collect()
}

/// A country's code, which a script replaces with its name.
fn country(key: &str) -> String {
    match key {
        "unknown" => "Unknown".to_owned(),
        "other" => "Other".to_owned(),
        letters => letters.to_owned(),
    }
}

/// Clicks by link, and those of all other links.
fn of_links(links: &[(String, i64)], clicks: i64) -> Vec<Bar> {
    let rest = clicks - links.iter().map(|(_, clicks)| clicks).sum::<i64>();
    let longest = links.iter().map(|(_, clicks)| *clicks).chain([rest]).max().unwrap_or(0);
    let bar = |name: &str, href: Option<String>, count: i64| Bar {
        name: name.to_owned(),
        href,
        count: Count(count),
        length: scaled(count, longest, SCALE),
        share: percent(count, clicks),
        before: None,
    };
    let mut bars: Vec<Bar> =
        links.iter().map(|(id, count)| bar(id, Some(format!("/account/links/{id}")), *count)).collect();
    bars.extend((!links.is_empty() && rest > 0).then(|| bar("Other links", None, rest)));
    bars
}

#[cfg(test)]
mod tests {
    use deeplink_core::funnel::{FunnelReport, GroupBy, NewUsers};
    use deeplink_core::visitor::UserAgent;

    use super::*;
    use crate::http::extract::Query;

    fn numbers(days: &[(&str, i64)], conversions: &[(&str, i64)]) -> Numbers {
        let now = "2026-11-20T09:30:00Z".parse().expect("a moment");
        let scope = FunnelQuery::new(["a"]).group_by(GroupBy::Day).check(now).expect("a question");
        let funnel = Funnel {
            clicks: days.iter().map(|(_, clicks)| clicks).sum(),
            new_users: NewUsers { installed: 3, identified: 1 },
            conversions: conversions.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            ..Funnel::default()
        };
        let of_clicks = |groups: &[(&str, i64)]| {
            groups.iter().map(|(key, clicks)| FunnelGroup::of_clicks(*key, *clicks)).collect::<Vec<_>>()
        };
        Numbers {
            report: FunnelReport::new(scope, funnel, Some(of_clicks(days))),
            before: Funnel { clicks: 2_002, ..Funnel::default() },
            platforms: of_clicks(&[("ios", 600), ("unknown", 300), ("other", 101)]),
            hosts: of_clicks(&[("", 1_001)]),
            countries: of_clicks(&[("DE", 900), ("unknown", 101)]),
            links: vec![("spring-42".to_owned(), 800), ("autumn-7".to_owned(), 201)],
            user_agents: vec![
                (UserAgent::default(), 100),
                (UserAgent { browser: Browser::Chrome, in_app: InApp::None, ..UserAgent::default() }, 401),
                (UserAgent { browser: Browser::WebView, in_app: InApp::Instagram, ..UserAgent::default() }, 500),
            ],
        }
    }

    fn charts(query: &str, numbers: &Numbers) -> Charts {
        let now = "2026-11-20T09:30:00Z".parse().expect("a moment");
        Charts::of("", Range::read("/account", &Query::parse(query), now, &Zone::default()).expect("a range"), numbers)
    }

    fn shares(bars: &[Bar]) -> Vec<(&str, Option<&str>)> {
        bars.iter().map(|bar| (bar.name.as_str(), bar.share.as_deref())).collect()
    }

    #[test]
    fn the_busiest_day_has_the_full_height_and_little_is_still_seen() {
        let days = [("2026-11-18", 0), ("2026-11-19", 1_000), ("2026-11-20", 1)];
        let charts = charts("", &numbers(&days, &[]));
        let shape: Vec<_> = charts.columns.iter().map(|of| (of.x, of.y, of.height)).collect();
        assert_eq!(shape, [(1, 100, 0), (11, 0, 100), (21, 99, 1)]);
        assert_eq!((charts.width(), charts.max.to_string().as_str()), (30, "1,000"));
        assert_eq!(charts.busiest.as_deref(), Some("19 Nov 2026"));
        let of_users = [("Users", Some("33.3% of installs")), ("Conversions", Some("0% of users"))];
        assert_eq!(
            shares(&charts.steps),
            [[("Clicks", None), ("Installs", Some("0.3% of clicks"))], of_users].concat()
        );
        assert_eq!((charts.before, charts.change.as_deref()), (Count(2_002), Some("\u{2212}50%")));
        assert_eq!(shares(&charts.platforms), [("iOS", Some("59.9%")), ("Other", Some("40.1%"))]);
        assert_eq!(shares(&charts.hosts), [("No referrer", Some("100%"))]);
        assert!(charts.has_no_host);
        assert_eq!(shares(&charts.countries), [("DE", Some("89.9%")), ("Unknown", Some("10.1%"))]);
        let links: Vec<_> = charts.links.iter().map(|bar| (bar.name.as_str(), bar.href.as_deref())).collect();
        let href = Some("/account/links/spring-42");
        assert_eq!(links, [("spring-42", href), ("autumn-7", Some("/account/links/autumn-7"))]);
        let ids: Vec<_> =
            (0..10).map(|nth| (format!("link-{nth}"), 20 - nth)).chain([("Other".to_owned(), 1)]).collect();
        let links = of_links(&ids, 1_001);
        let links: Vec<_> = links.iter().map(|bar| (bar.name.as_str(), bar.href.as_deref(), bar.count.0)).collect();
        assert_eq!((links.len(), links[0]), (12, ("link-0", Some("/account/links/link-0"), 20)));
        assert_eq!(links[10..], [("Other", Some("/account/links/Other"), 1), ("Other links", None, 845)]);
        let chrome = [("Chrome", Some("40.1%")), ("Unknown", Some("10%"))];
        assert_eq!(shares(&charts.browsers), [&[("App WebView", Some("50%"))][..], &chrome].concat());
        assert_eq!(shares(&charts.apps), [("Instagram", Some("50%"))]);
        assert_eq!(shares(&charts.devices), [("Unknown", Some("100%"))]);
        assert!(charts.has_unknown);
    }

    #[test]
    fn an_axis_ends_at_a_round_number_above_all_values() {
        for (max, end) in [
            (0, 2),
            (1, 2),
            (2, 2),
            (3, 4),
            (9, 10),
            (10, 10),
            (17, 18),
            (99, 100),
            (101, 120),
            (137, 140),
            (1_000, 1_000),
            (1_001, 1_200),
            (70_213, 72_000),
            (i64::MAX, 9_200_000_000_000_000_000),
        ] {
            assert_eq!(top(max), end, "{max}");
        }
        let busy = charts("", &numbers(&[("2026-11-19", 101), ("2026-11-20", 60)], &[]));
        assert_eq!((busy.top, busy.middle(), busy.max), (Count(120), Count(60), Count(101)));
        assert_eq!(busy.columns.iter().map(|of| of.height).collect::<Vec<_>>(), [84, 50]);
    }

    #[test]
    fn a_year_has_a_column_for_each_week_and_a_day_for_each_hour() {
        let days: Vec<String> = (0..10).map(|day| format!("2025-11-{}", 21 + day)).collect();
        let days: Vec<_> = days.iter().map(|day| (day.as_str(), 5)).collect();
        let weeks = charts("range=12m", &numbers(&days, &[]));
        let shape: Vec<_> = weeks.columns.iter().map(|of| (of.name.as_str(), of.clicks.number())).collect();
        assert_eq!(shape, [("Week of 21 Nov 2025", 15), ("Week of 24 Nov 2025", 35)]);
        let hours =
            charts("range=today", &numbers(&[("2026-11-20T08:00:00.000Z", 2), ("2026-11-20T09:00:00.000Z", 1)], &[]));
        let shape: Vec<_> = hours.columns.iter().map(|of| (of.name.as_str(), of.clicks.number())).collect();
        assert_eq!(shape, [("08:00", 2), ("09:00", 1)]);
    }

    #[test]
    fn hours_are_named_by_the_clock() {
        for (zone, at, expected) in [
            ("Europe/Berlin", "2026-10-24T23:00:00Z", "01:00"),
            ("Europe/Berlin", "2026-10-25T00:00:00Z", "02:00 CEST"),
            ("Europe/Berlin", "2026-10-25T01:00:00Z", "02:00 CET"),
            ("Europe/Berlin", "2026-10-25T02:00:00Z", "03:00"),
            ("America/New_York", "2026-11-01T06:00:00Z", "01:00 EST"),
            ("Asia/Kolkata", "2026-11-01T06:00:00Z", "11:30"),
            ("Europe/Berlin", "2027-03-28T01:00:00Z", "03:00"),
        ] {
            let at = at.parse().expect("a moment");
            assert_eq!(name_of(at, Unit::Hour, &Zone::named(zone).expect("a zone")), expected, "{zone} {at}");
        }
    }

    #[test]
    fn revenue_stands_beside_that_of_the_time_before() {
        let sums = |sums: &[(&str, i64)]| -> Vec<Revenue> {
            sums.iter().map(|(currency, cents)| Revenue::new((*currency).to_owned(), *cents)).collect()
        };
        let mut earning = numbers(&[("2026-11-20", 1)], &[("buy", 2)]);
        assert!(charts("", &earning).revenue.is_none());
        earning.report.funnel.revenue = sums(&[("EUR", 370_368), ("JPY", -5)]);
        earning.report.unattributed_revenue = Some(sums(&[("EUR", 5_000)]));
        let drawn = charts("", &earning);
        let revenue = drawn.revenue.expect("revenue");
        assert_eq!((revenue.now.as_str(), revenue.before.as_str()), ("3,703.68 EUR, -0.05 JPY", "0.00 EUR, 0.00 JPY"));
        assert_eq!(drawn.unattributed_revenue, " (50.00 EUR)");
        earning.report.funnel.revenue = Vec::new();
        earning.before.revenue = sums(&[("USD", 7)]);
        let revenue = charts("", &earning).revenue.expect("revenue");
        assert_eq!((revenue.now.as_str(), revenue.before.as_str()), ("0.00 USD", "0.07 USD"));
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let mut nothing = numbers(&[("2026-11-20", 0)], &[]);
        nothing.report.funnel = Funnel::default();
        nothing.before = Funnel::default();
        let charts = charts("", &nothing);
        assert!(charts.is_empty() && charts.busiest.is_none() && charts.types.is_empty() && charts.change.is_none());
        assert_eq!(charts.steps[1].share, None, "nothing is no share of nothing");
    }

    #[test]
    fn more_than_all_is_not_a_share() {
        let charts = charts("", &numbers(&[("2026-11-20", 2)], &[("buy", 4)]));
        let expected = [Some("1.5 per click"), Some("33.3% of installs"), Some("4 per user")];
        assert_eq!(charts.steps.iter().map(|step| step.share.as_deref()).collect::<Vec<_>>()[1..], expected);
    }

    #[test]
    fn many_types_are_summed_up_and_sums_do_not_overflow() {
        let names: Vec<String> = (0..20).map(|at| format!("type-{at:02}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), i64::MAX)).collect();
        let charts = charts("", &numbers(&[("2026-11-20", 1)], &many));
        let last = charts.types.last().expect("the others");
        assert_eq!((charts.types.len(), last.name.as_str(), last.count), (MAX_BARS, "Other", Count(i64::MAX)));
        assert!(charts.types.iter().all(|bar| bar.length == SCALE));
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(Count(count).to_string(), text);
        }
    }
}
