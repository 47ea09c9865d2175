//! Clicks on a link over time.

use std::time::Duration;

use deeplink_client::{Granularity, TimeseriesQuery};
use deeplink_core::visitor::ClickKind;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::spawn;

#[tokio::test]
async fn clicks_are_counted_by_day_with_empty_days_between() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for _ in 0..3 {
        world.a.tap("spring-42").await;
    }
    world.clock.advance(Duration::from_hours(48));
    world.a.tap("spring-42").await;
    world.expect_clicks(&[(0, 4)]).await;
    let series = world.a.links().timeseries("spring-42", &TimeseriesQuery::new()).unchecked().await.expect("a series");
    assert_eq!((series.link_id.as_str(), &series.granularity), ("spring-42", &Granularity::Daily));
    assert_eq!((series.from, series.to), (world.clock.now().plus_days(-30), world.clock.now()));
    assert_eq!(series.data.len(), 31, "every day that touches the window");
    let tail: Vec<_> = series.data.iter().rev().take(4).map(|bucket| (bucket.date.as_str(), bucket.clicks)).collect();
    assert_eq!(tail, [("2026-11-22", 1), ("2026-11-21", 0), ("2026-11-20", 3), ("2026-11-19", 0)]);
    assert_eq!(series.data[0].date, "2026-10-23");
}

#[tokio::test]
async fn clicks_are_counted_by_hour_and_at_once() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let query = "?granularity=hourly&from=2026-11-20T08:00:00Z&to=2026-11-20T12:45:00Z";
    let counts = async || {
        let reply = world.a.get(&format!("/v1/links/spring-42/timeseries{query}")).await.json();
        let bucket = |bucket: &Value| {
            (bucket["date"].as_str().expect("a date").to_owned(), bucket["clicks"].as_i64().expect("a count"))
        };
        reply["data"].as_array().expect("buckets").iter().map(bucket).collect::<Vec<_>>()
    };
    let hour = |hour: u32, clicks| (format!("2026-11-20T{hour:02}:00:00.000Z"), clicks);
    assert_eq!(counts().await, [hour(8, 0), hour(9, 0), hour(10, 0), hour(11, 0), hour(12, 0)]);
    for expected in 1..=5 {
        world.a.tap("spring-42").await;
        world.expect_clicks(&[(0, expected)]).await;
        assert_eq!(counts().await[1], hour(9, expected), "a stored click is in the next answer");
    }
    world.clock.advance(Duration::from_hours(3));
    world.a.tap("spring-42").await;
    world.expect_clicks(&[(0, 6)]).await;
    assert_eq!(counts().await, [hour(8, 0), hour(9, 5), hour(10, 0), hour(11, 0), hour(12, 1)]);
    // Folded clicks count the same.
    world.folded().await;
    assert_eq!(counts().await, [hour(8, 0), hour(9, 5), hour(10, 0), hour(11, 0), hour(12, 1)]);
}

#[tokio::test]
async fn windows_are_read_strictly() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for (query, expected) in [
        ("", "200"),
        ("granularity=daily", "200"),
        ("granularity=weekly", "400 bad_request granularity"),
        ("granularity=", "400 bad_request granularity"),
        ("from=yesterday", "400 bad_request from"),
        ("from=2026-11-20", "400 bad_request from"),
        ("to=2026-11-20T25:00:00Z", "400 bad_request to"),
        ("from=2026-11-20T10:00:00Z&to=2026-11-20T09:59:59Z", "400 bad_request from"),
        ("from=2026-11-20T10:00:00Z&to=2026-11-20T10:00:00Z", "200"),
        ("from=2026-11-20T10:00:00%2B02:00&to=2026-11-20T09:00:00Z", "200"),
        ("from=2025-10-16T09:30:00Z&to=2026-11-20T09:30:00Z", "200"),
        ("from=2025-10-16T09:29:59Z&to=2026-11-20T09:30:00Z", "400 bad_request from"),
        ("from=0001-01-01T00:00:00Z", "400 bad_request from"),
        ("to=9999-12-30T00:00:00Z", "200"),
        ("from=9999-12-30T00:00:00Z", "400 bad_request from"),
        ("kind=preview", "200"),
        ("kind=Human", "400 bad_request kind"),
        ("kind=", "400 bad_request kind"),
        ("kind=human&kind=agent", "400 bad_request kind"),
        ("granularity=hourly&from=2025-10-17T00:00:00Z&to=2026-11-20T00:00:00Z", "200"),
    ] {
        let reply = world.a.get(&format!("/v1/links/spring-42/timeseries?{query}")).await;
        assert_eq!(reply.outcome(), expected, "{query}");
    }
}

#[tokio::test]
async fn it_is_an_earlier_form_and_says_so() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let reply = world.a.get("/v1/links/spring-42/timeseries").await;
    let seconds = reply.header("deprecation").strip_prefix('@').and_then(|seconds| seconds.parse::<i64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 0), "{:?}", reply.header("deprecation"));
    assert!(reply.header("link").ends_with("rel=\"successor-version\""), "{:?}", reply.header("link"));
    // For every answer, and for each report on a link.
    for report in ["stats", "timeseries?from=x", "timeseries", "stats?x"] {
        for (caller, link) in [(&world.a, "spring-42"), (&world.a, "nowhere"), (&world.nobody, "spring-42")] {
            let path = format!("/v1/links/{link}/{report}");
            let reply = caller.get(&path).await;
            let of_link = if reply.status == 200 { "?link_ids=spring-42" } else { "" };
            let successor = format!("</v1/analytics/stats{of_link}>; rel=\"successor-version\"");
            assert_eq!((reply.header("deprecation"), reply.header("link")), ("@1795132800", &successor[..]), "{path}");
        }
    }
}

#[tokio::test]
async fn only_people_and_agents_count() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for agent in [
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1",
        "curl/8.5.0",
        "GPTBot/1.1",
        "facebookexternalhit/1.1",
        "Mozilla/5.0 (compatible; Googlebot/2.1)",
    ] {
        world.nobody.ask(Method::GET, "/r/spring-42").header("user-agent", agent).send().await;
    }
    world.expect_clicks(&[(0, 1), (1, 1), (2, 1), (3, 2)]).await;
    assert_eq!(world.a.clicks_of("spring-42").await, 3);
    for fold in [false, true] {
        if fold {
            world.folded().await;
        }
        for (kind, clicks) in
            [(ClickKind::Human, 1), (ClickKind::Preview, 1), (ClickKind::Crawler, 1), (ClickKind::Agent, 2)]
        {
            let mut query = TimeseriesQuery::new();
            query.kind = Some(kind);
            let series = world.a.links().timeseries("spring-42", &query).unchecked().await.expect("a series");
            assert_eq!(series.data.iter().map(|day| day.clicks).sum::<i64>(), clicks, "{kind:?}, folded: {fold}");
        }
    }
    assert_eq!(world.a.post("/v1/links/spring-42/timeseries", &json!({})).await.outcome(), "405 method_not_allowed");
}
