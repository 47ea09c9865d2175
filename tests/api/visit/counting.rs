//! What is counted: one click for each visit that follows an active link, none for previews and crawlers.

use std::time::Duration;

use http::Method;
use serde_json::json;

use deeplink_testing::{Ask, Role, World, eventually, spawn};

const SOON: Duration = Duration::from_mins(1);
const SAFARI: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1";

fn visit(world: &World, agent: &str) -> Ask {
    world.nobody.ask(Method::GET, "/r/spring-42").header("user-agent", agent)
}

/// L22: people and agents are clicks; previews and crawlers are stored with their kind and not counted; HEAD and
/// prefetches are not stored.
#[tokio::test]
async fn l22_who_counts() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    visit(&world, SAFARI).header("accept", "text/html").send().await;
    visit(&world, "curl/8.5.0").header("accept", "application/json").send().await;
    visit(&world, "GPTBot/1.1").send().await;
    world.nobody.ask(Method::GET, "/r/spring-42").header("accept", "application/json").send().await;
    visit(&world, "facebookexternalhit/1.1").send().await;
    visit(&world, "WhatsApp/2.23").send().await;
    visit(&world, "Mozilla/5.0 (compatible; Googlebot/2.1)").send().await;
    for (name, value) in [
        ("sec-purpose", "prefetch"),
        ("sec-purpose", "prefetch;prerender"),
        ("purpose", "prefetch"),
        ("x-moz", "prefetch"),
    ] {
        let reply = visit(&world, SAFARI).header(name, value).send().await;
        assert_eq!(reply.status, 302, "a prefetch is answered all the same");
    }
    world.expect_clicks(&[(0, 1), (1, 2), (2, 1), (3, 3)]).await;
    assert_eq!(world.a.clicks_of("spring-42").await, 4, "the funnel counts people and agents");
}

/// X14: HEAD never counts a click.
#[tokio::test]
async fn x14_head_never_counts() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.a.make("spring-42").await;
    world.b.make("hosted").await;
    for _ in 0..10 {
        let head = world.nobody.browse(Method::HEAD, "/r/spring-42").send().await;
        assert_eq!((head.status, head.header("location")), (302, "https://example.com/spring-42"));
        world.nobody.ask(Method::HEAD, "/r/spring-42").header("accept", "application/json").send().await;
        world.nobody.browse(Method::HEAD, "/hosted").header("host", "go.example.com").send().await;
        world.nobody.ask(Method::OPTIONS, "/r/spring-42").send().await;
    }
    world.expect_clicks(&[]).await;
}

/// L25: a click has no IP address; user agent and referer are cut to 512 characters, control characters removed,
/// invalid UTF-8 replaced. None of it is a reason to refuse.
#[tokio::test]
async fn l25_what_a_click_holds() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let emoji = "👋".repeat(2_560);
    visit(&world, &emoji).header("referer", format!("https://example.com/{emoji}")).send().await;
    visit(&world, "tab\there").header("referer", b"https://example.com/\xff\xfe").send().await;
    visit(&world, "plain")
        .header("x-forwarded-for", "198.51.100.77")
        .header("referer", "https://example.com/from")
        .send()
        .await;
    world.expect_clicks(&[(3, 3)]).await;
    let texts = world.db.texts("SELECT text FROM visitor_texts").await;
    assert!(texts.contains(&"👋".repeat(512)), "{texts:?}");
    assert!(texts.contains(&format!("https://example.com/{}", "👋".repeat(492))));
    assert!(texts.contains(&"tabhere".to_owned()));
    assert!(texts.iter().any(|text| text.starts_with("https://example.com/\u{fffd}")));
    assert!(texts.contains(&"https://example.com/from".to_owned()));
    // The service's own URL is stored, too.
    let dump = format!("{:?}", world.db.dump().await).replace(world.nobody.base(), "the service");
    for address in ["127.0.0.1", "198.51.100.77", "::1"] {
        assert!(!dump.contains(address), "{address}");
    }
    // Equal texts are stored once.
    for _ in 0..5 {
        visit(&world, "plain").send().await;
    }
    world.expect_clicks(&[(3, 8)]).await;
    assert_eq!(world.db.texts("SELECT text FROM visitor_texts WHERE text = 'plain'").await.len(), 1);
}

/// A report counts every click that was answered before it was asked for.
#[tokio::test]
async fn a_click_is_counted_once_its_answer_is_seen() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for taps in 1..=20 {
        world.a.tap("spring-42").await;
        let report = world.a.get("/v1/analytics/stats?link_ids=spring-42").await;
        assert_eq!(report.json()["funnel"]["clicks"], taps, "{}", report.text());
    }
    world.expect_clicks(&[(0, 20)]).await;
}

#[tokio::test]
async fn clicks_know_platform_and_link() {
    let world = spawn().await;
    let ids = ["one", "two"];
    for id in ids {
        world.a.make(id).await;
    }
    for (agent, platform) in [
        (SAFARI, 0),
        ("Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36", 1),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15", 2),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36", 3),
        ("curl/8.5.0", 4),
    ] {
        world.nobody.ask(Method::GET, "/r/one").header("user-agent", agent).send().await;
        let sql = format!("SELECT CAST(count(*) AS BIGINT) FROM clicks WHERE platform = {platform}");
        eventually(agent, SOON, || async { world.db.number(&*sql).await == 1 }).await;
    }
    let hinted = world
        .nobody
        .ask(Method::GET, "/r/two")
        .header("user-agent", SAFARI)
        .header("sec-ch-ua-platform", "\"Android\"");
    hinted.send().await;
    let of_two = "SELECT CAST(count(*) AS BIGINT) FROM clicks
        WHERE platform = 1 AND link = (SELECT position FROM links WHERE link_id = 'two')";
    eventually("the hint outranks the user agent", SOON, || async { world.db.number(of_two).await == 1 }).await;
}

#[tokio::test]
async fn visits_that_lead_nowhere_are_not_counted() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.own_domain(&world.b, "open.example.com", Role::Alternate).await;
    world.b.make("spring-42").await;
    for path in ["/r/nowhere", "/r/x", "/r/spring-42/"] {
        assert_eq!(world.nobody.tap(path.trim_start_matches("/r/")).await.status, 404);
    }
    let alternate = world.nobody.browse(Method::GET, "/spring-42").header("host", "open.example.com").send().await;
    assert_eq!(alternate.status, 302);
    world.expect_clicks(&[]).await;
    let empty = world.b.make_of(&json!({})).await;
    assert_eq!(world.nobody.tap(&empty).await.status, 200, "a page without a destination is a visit");
    world.expect_clicks(&[(0, 1)]).await;
}
