//! Charts of the last 30 days: clicks by day, the funnel from click to conversion, and conversions by type. They are
//! drawn on the server, without a script; their data is also shown as text.

use std::collections::BTreeMap;

use deeplink_core::funnel::{Funnel, FunnelQuery, FunnelReport, GroupBy};
use deeplink_core::time::Timestamp;

use super::time::DisplayTime;
use crate::api;
use crate::caller::Caller;
use crate::state::App;

/// Conversion types with their own bar; the rest are summed up.
const MAX_TYPES: usize = 8;
/// Width of a day in the chart, including the gap.
const DAY_WIDTH: usize = 10;
/// Height of the chart of days, and length of the longest horizontal bar.
const SCALE: i64 = 100;

/// The report on the last 30 days, as shown on a page.
pub(super) enum Report {
    /// There are no links yet.
    NoLinks,
    /// It could not be read.
    Unavailable,
    Charts(Box<Charts>),
}

impl Report {
    /// The report on these links. A page without it is better than no page.
    pub(super) async fn of(app: &App, caller: &Caller, about: &'static str, links: &[String]) -> Self {
        Self::on(app, caller, about, FunnelQuery::new(links)).await
    }

    /// The report on all links of an account, deleted ones included.
    pub(super) async fn of_account(app: &App, caller: &Caller) -> Self {
        Self::on(app, caller, "", FunnelQuery::account()).await
    }

    async fn on(app: &App, caller: &Caller, about: &'static str, query: FunnelQuery) -> Self {
        let report = match query.group_by(GroupBy::Day).check(app.clock.now()) {
            Ok(scope) => api::analytics::report_for(app, caller, scope).await,
            Err(invalid) => Err(invalid.into()),
        };
        match report {
            Ok(report) => Self::Charts(Box::new(Charts::of(about, &report))),
            Err(error) => {
                tracing::warn!(%error, "report could not be read; showing the page without it");
                Self::Unavailable
            }
        }
    }
}

/// The charts of one page.
pub(super) struct Charts {
    /// Which links they are about.
    pub(super) about: &'static str,
    pub(super) days: Vec<Day>,
    /// Clicks of all days.
    pub(super) clicks: Count,
    /// Clicks of the busiest day.
    pub(super) max: Count,
    pub(super) busiest: Option<DisplayTime>,
    /// From click to conversion.
    pub(super) steps: Vec<Bar>,
    /// Returning users: opened the app again, reinstalled it, or installed it on a new device.
    pub(super) returning: [Count; 3],
    /// Conversions by type, the most frequent first.
    pub(super) types: Vec<Bar>,
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

/// One day of the chart.
pub(super) struct Day {
    pub(super) day: DisplayTime,
    pub(super) clicks: Count,
    /// Left edge, upper edge and height.
    pub(super) x: usize,
    pub(super) y: i64,
    pub(super) height: i64,
}

/// A horizontal bar with its label.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) count: Count,
    /// The length of the bar, out of 100.
    pub(super) length: i64,
    /// Its share of the previous step, such as "12.5% of clicks".
    pub(super) share: Option<String>,
}

/// A part of a whole, scaled to `full`; anything above 0 is at least 1, so that it can be seen.
fn scaled(count: i64, whole: i64, full: i64) -> i64 {
    if count <= 0 || whole <= 0 {
        return 0;
    }
    let part = i128::from(count) * i128::from(full) / i128::from(whole);
    i64::try_from(part).unwrap_or(full).clamp(1, full)
}

/// A share in percent with one decimal; `None` when it is more than the whole.
fn percent(count: i64, whole: i64) -> Option<String> {
    if count > whole {
        return None;
    }
    let tenths = (i128::from(count) * 1_000 + i128::from(whole) / 2).checked_div(i128::from(whole))?;
    Some(format!("{}.{}%", tenths / 10, tenths % 10))
}

impl Charts {
    /// Draws a report by day.
    pub(super) fn of(about: &'static str, report: &FunnelReport) -> Self {
        let by_day = report.groups.as_deref().unwrap_or_default();
        let counts = by_day.iter().filter_map(|group| Some((day(&group.key)?, group.clicks)));
        let counts: Vec<(Timestamp, i64)> = counts.collect();
        // The latest of equally busy days.
        let busiest = counts.iter().copied().filter(|(_, clicks)| *clicks > 0).max_by_key(|(_, clicks)| *clicks);
        let max = busiest.map_or(0, |(_, clicks)| clicks);
        let days = counts.iter().enumerate().map(|(at, (day, clicks))| {
            let height = scaled(*clicks, max, SCALE);
            Day { day: (*day).into(), clicks: Count(*clicks), x: at * DAY_WIDTH + 1, y: SCALE - height, height }
        });
        let Funnel { clicks, new_users, returning_users, conversions } = &report.funnel;
        Self {
            about,
            days: days.collect(),
            clicks: Count(*clicks),
            max: Count(max),
            busiest: busiest.map(|(day, _)| day.into()),
            steps: steps(*clicks, new_users.installed, new_users.identified, conversions),
            returning: [returning_users.engaged, returning_users.reinstalled, returning_users.new_device].map(Count),
            types: types(conversions),
        }
    }

    /// Width of the chart of days.
    pub(super) fn width(&self) -> usize {
        self.days.len() * DAY_WIDTH
    }

    /// Whether there is no activity at all.
    pub(super) fn is_empty(&self) -> bool {
        self.clicks.is_zero() && self.steps.iter().all(|step| step.count.is_zero()) && !self.has_returned()
    }

    /// Whether any user returned.
    pub(super) fn has_returned(&self) -> bool {
        self.returning.iter().any(|count| !count.is_zero())
    }
}

fn day(date: &str) -> Option<Timestamp> {
    format!("{date}T00:00:00Z").parse().ok()
}

fn steps(clicks: i64, installed: i64, identified: i64, conversions: &BTreeMap<String, i64>) -> Vec<Bar> {
    let converted = conversions.values().fold(0_i64, |sum, count| sum.saturating_add(*count));
    let all = [("Clicks", clicks), ("Installs", installed), ("Users", identified), ("Conversions", converted)];
    let whole = all.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let above = std::iter::once(None).chain(all.iter().copied().map(Some));
    let share =
        |count, (name, whole): (&str, i64)| Some(format!("{} of {}", percent(count, whole)?, name.to_lowercase()));
    let bar = |((name, count), above): ((&str, i64), Option<(&str, i64)>)| Bar {
        name: name.to_owned(),
        count: Count(count),
        length: scaled(count, whole, SCALE),
        share: above.and_then(|above| share(count, above)),
    };
    all.into_iter().zip(above).map(bar).collect()
}

fn types(conversions: &BTreeMap<String, i64>) -> Vec<Bar> {
    let mut all: Vec<(&str, i64)> = conversions.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if all.len() > MAX_TYPES {
        let rest = all.split_off(MAX_TYPES - 1).into_iter().fold(0_i64, |sum, (_, count)| sum.saturating_add(count));
        all.push(("Other", rest));
    }
    let whole = all.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let bar = |(name, count): (&str, i64)| Bar {
        name: name.to_owned(),
        count: Count(count),
        length: scaled(count, whole, SCALE),
        share: None,
    };
    all.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use deeplink_core::funnel::{FunnelGroup, FunnelQuery, GroupBy, NewUsers};

    use super::*;

    fn report(days: &[(&str, i64)], conversions: &[(&str, i64)]) -> FunnelReport {
        let now = "2026-11-20T09:30:00Z".parse().expect("a moment");
        let scope = FunnelQuery::new(["a"]).group_by(GroupBy::Day).check(now).expect("a question");
        let funnel = Funnel {
            clicks: days.iter().map(|(_, clicks)| clicks).sum(),
            new_users: NewUsers { installed: 3, identified: 1 },
            conversions: conversions.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            ..Funnel::default()
        };
        let groups = days.iter().map(|(day, clicks)| FunnelGroup::of_clicks(*day, *clicks)).collect();
        FunnelReport::new(scope, funnel, Some(groups))
    }

    #[test]
    fn the_busiest_day_has_the_full_height_and_little_is_still_seen() {
        let days = [("2026-11-18", 0), ("2026-11-19", 1_000), ("2026-11-20", 1)];
        let charts = Charts::of("", &report(&days, &[]));
        let shape: Vec<_> = charts.days.iter().map(|day| (day.x, day.y, day.height)).collect();
        assert_eq!(shape, [(1, 100, 0), (11, 0, 100), (21, 99, 1)]);
        assert_eq!((charts.width(), charts.max.to_string().as_str()), (30, "1,000"));
        assert_eq!(charts.busiest.map(|day| day.to_string()).as_deref(), Some("19 Nov 2026"));
        let shares: Vec<_> = charts.steps.iter().map(|step| step.share.as_deref()).collect();
        assert_eq!(shares, [None, Some("0.3% of clicks"), Some("33.3% of installs"), Some("0.0% of users")]);
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let mut nothing = report(&[("2026-11-20", 0)], &[]);
        nothing.funnel = Funnel::default();
        let charts = Charts::of("", &nothing);
        assert!(charts.is_empty() && charts.busiest.is_none() && charts.types.is_empty());
        assert_eq!(charts.steps[1].share, None, "nothing is no share of nothing");
    }

    #[test]
    fn many_types_are_summed_up_and_sums_do_not_overflow() {
        let names: Vec<String> = (0..20).map(|at| format!("type-{at:02}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), i64::MAX)).collect();
        let charts = Charts::of("", &report(&[("2026-11-20", 1)], &many));
        let last = charts.types.last().expect("the others");
        assert_eq!((charts.types.len(), last.name.as_str(), last.count), (MAX_TYPES, "Other", Count(i64::MAX)));
        assert!(charts.types.iter().all(|bar| bar.length == SCALE));
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(Count(count).to_string(), text);
        }
    }
}
