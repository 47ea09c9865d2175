use deeplink_core::funnel::{Funnel, FunnelGroup, FunnelReport, GroupBy, NewUsers, Revenue};
use deeplink_core::visitor::UserAgent;

use super::bars::MAX_BARS;
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
    assert_eq!(shares(&charts.steps), [[("Clicks", None), ("Installs", Some("0.3% of clicks"))], of_users].concat());
    assert_eq!((charts.before, charts.change.as_deref()), (Count(2_002), Some("\u{2212}50%")));
    assert_eq!(shares(&charts.platforms), [("iOS", Some("59.9%")), ("Other", Some("40.1%"))]);
    let lengths = |bars: &[Bar]| bars.iter().map(|bar| bar.length).collect::<Vec<_>>();
    assert_eq!(
        (lengths(&charts.platforms), lengths(&charts.links)),
        (vec![59, 40], vec![79, 20]),
        "as long as the share"
    );
    assert_eq!(shares(&charts.hosts), [("No referrer", Some("100%"))]);
    assert!(charts.has_no_host);
    assert_eq!(shares(&charts.countries), [("DE", Some("89.9%")), ("Unknown", Some("10.1%"))]);
    let links: Vec<_> = charts.links.iter().map(|bar| (bar.name.as_str(), bar.href.as_deref())).collect();
    let href = Some("/account/links/spring-42");
    assert_eq!(links, [("spring-42", href), ("autumn-7", Some("/account/links/autumn-7"))]);
    let ids: Vec<_> = (0..10).map(|nth| (format!("link-{nth}"), 20 - nth)).chain([("Other".to_owned(), 1)]).collect();
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
