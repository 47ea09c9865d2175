//! Charts of a range of days: clicks over time, the funnel from click to conversion, and conversions, platforms and
//! referring hosts. They are drawn on the server, without a script; their data is also shown as text.

use deeplink_core::funnel::FunnelQuery;
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::{Browser, InApp};
use deeplink_core::zone::Zone;
use http::StatusCode;

mod bars;
mod figures;
#[cfg(test)]
mod tests;

use super::deliveries::capitalised;
use super::range::{Range, Unit};
use super::time;
use crate::api;
use crate::api::analytics::Numbers;
use crate::caller::Caller;
use crate::state::App;

use bars::{Bar, bars, conversion, country, host, of_links, platform, steps};
pub(super) use figures::Count;
use figures::{Earned, change, earned, in_brackets, scaled, top};

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

/// An hour, a day or a week of the chart.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) clicks: Count,
    /// Left edge, top edge and height.
    pub(super) x: usize,
    pub(super) y: i64,
    pub(super) height: i64,
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
            Column { name: name_of(range.start_of(at), unit, &range.zone), clicks: Count(clicks), x, y, height }
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
