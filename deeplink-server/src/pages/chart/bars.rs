//! Horizontal bars: the steps of the funnel, and clicks or conversions by group.

use std::collections::BTreeMap;

use deeplink_core::funnel::{Funnel, FunnelGroup};
use deeplink_core::visitor::OTHER;

use super::SCALE;
use super::figures::{Count, percent, ratio, scaled};
use crate::pages::deliveries::capitalised;

/// Maximum conversion types, platforms or hosts with their own bar; the rest are summed up.
pub(super) const MAX_BARS: usize = 8;

/// A horizontal bar with its label.
pub(in crate::pages) struct Bar {
    pub(in crate::pages) name: String,
    /// The URL of the page for this item.
    pub(in crate::pages) href: Option<String>,
    pub(in crate::pages) count: Count,
    /// The length of the bar, from 0 to 100.
    pub(in crate::pages) length: i64,
    /// Its share of a whole, such as "12.5% of clicks".
    pub(in crate::pages) share: Option<String>,
    /// The count in the previous period.
    pub(in crate::pages) before: Option<Count>,
}

/// A platform's name for people.
pub(super) fn platform(key: &str) -> String {
    match key {
        "ios" => "iOS".to_owned(),
        "macos" => "macOS".to_owned(),
        "other" | "unknown" => "Other".to_owned(),
        key => capitalised(key),
    }
}

pub(super) fn conversion((name, count): (&String, &i64)) -> (String, i64) {
    (if name == OTHER { "Other".to_owned() } else { name.clone() }, *count)
}

pub(super) fn host(group: &FunnelGroup) -> (String, i64) {
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

pub(super) fn steps(now: &Funnel, before: &Funnel) -> Vec<Bar> {
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

/// The largest of some counts and the sum of the rest, with their shares of a whole. A bar is as long as its share; without a
/// whole, the longest one has the full length.
pub(super) fn bars(counts: impl Iterator<Item = (String, i64)>, whole: Option<i64>) -> Vec<Bar> {
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
    let full = whole.or_else(|| all.iter().map(|(_, count)| *count).max()).unwrap_or(0);
    let bar = |(name, count): (String, i64)| Bar {
        name,
        href: None,
        count: Count(count),
        length: scaled(count, full, SCALE),
        share: whole.and_then(|whole| percent(count, whole)),
        before: None,
    };
    all.into_iter().map(bar).collect()
}

/// A country's code, which a script replaces with its name.
pub(super) fn country(key: &str) -> String {
    match key {
        "unknown" => "Unknown".to_owned(),
        "other" => "Other".to_owned(),
        letters => letters.to_owned(),
    }
}

/// Clicks by link, and those of all other links.
pub(super) fn of_links(links: &[(String, i64)], clicks: i64) -> Vec<Bar> {
    let rest = clicks - links.iter().map(|(_, clicks)| clicks).sum::<i64>();
    let bar = |name: &str, href: Option<String>, count: i64| Bar {
        name: name.to_owned(),
        href,
        count: Count(count),
        length: scaled(count, clicks, SCALE),
        share: percent(count, clicks),
        before: None,
    };
    let mut bars: Vec<Bar> =
        links.iter().map(|(id, count)| bar(id, Some(format!("/account/links/{id}")), *count)).collect();
    bars.extend((!links.is_empty() && rest > 0).then(|| bar("Other links", None, rest)));
    bars
}
