//! Reported clicks, and one click for every counted visit.

use http::Method;
use serde_json::json;

use super::{DOMAIN, click, page_of};
use deeplink_testing::{Caller, at_once, spawn, spawn_nodes};

const IPHONE: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1";

#[tokio::test]
async fn a_reported_click_says_what_resolving_says_and_the_platform() {
    let world = spawn().await;
    let link = json!({
        "custom_id": "spring-42", "web_url": "https://example.com/spring", "metadata": {"a": "b"},
        "agent_context": {"action": "read"},
    });
    world.a.make_of(&link).await;
    for (agent, platform) in
        [(IPHONE, "ios"), ("curl/8.5.0", "other"), ("Mozilla/5.0 (compatible; Googlebot/2.1)", "other")]
    {
        let ask = world.a.ask(Method::POST, "/v1/lifecycle/click").header("user-agent", agent);
        let reply =
            ask.header("referer", "https://example.com/from").json(&json!({"link_id": "spring-42"})).send().await;
        let mut expected = world
            .a
            .ask(Method::GET, "/r/spring-42")
            .header("accept", "application/json")
            .header("purpose", "prefetch")
            .send()
            .await
            .json();
        expected["platform"] = json!(platform);
        assert_eq!((reply.status, reply.json()), (200, expected));
        assert_eq!(reply.header("content-type"), "application/json");
    }
    // Whatever the library's user agent, a person clicked.
    world.expect_clicks(&[(0, 3)]).await;
    let stored = "SELECT t.text FROM clicks c JOIN visitor_texts t ON t.hash = c.referer";
    assert_eq!(world.db.texts(stored).await, ["https://example.com/from"; 3]);
    assert_eq!(world.a.clicks_of("spring-42").await, 3);
}

#[tokio::test]
async fn only_active_links_of_the_account_are_clicked() {
    let world = spawn().await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    for id in ["mine", "flagged", "disabled", "expired"] {
        world.a.make(id).await;
    }
    world.b.make("foreign").await;
    world.db.execute("UPDATE links SET status = 'flagged' WHERE link_id = 'flagged'").await;
    world.db.execute("UPDATE links SET status = 'disabled' WHERE link_id = 'disabled'").await;
    world.db.execute("UPDATE links SET expires_at = 1 WHERE link_id = 'expired'").await;
    for caller in [&world.a, &page] {
        let mut refused = Vec::new();
        for id in ["flagged", "disabled", "expired", "foreign", "nowhere", "not an id", "é", "a/b"] {
            let reply = click(caller, id).await;
            assert_eq!(reply.outcome(), "404 not_found", "{id}");
            refused.push(reply.without_request_id());
        }
        refused.dedup();
        assert_eq!(refused.len(), 1, "all look alike: {refused:?}");
        assert_eq!(click(caller, "mine").await.status, 200);
    }
    world.expect_clicks(&[(0, 2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_with_an_idempotency_key_counts_once() {
    let world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let ask = |caller: &Caller, link: &str| {
        let ask = caller.ask(Method::POST, "/v1/lifecycle/click").header("idempotency-key", "once");
        ask.header("user-agent", IPHONE)
            .header("referer", "https://example.com/")
            .json(&json!({"link_id": link}))
            .send()
    };
    let replies = at_once(20, |number| ask(&callers[number % 2], "spring-42")).await;
    let replayed = replies.iter().filter(|reply| reply.header("idempotency-replayed") == "true").count();
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.body == replies[0].body));
    assert_eq!(replayed, 19);
    world.expect_clicks(&[(0, 1)]).await;
    world.a.make("other").await;
    assert_eq!(ask(&callers[0], "other").await.outcome(), "409 idempotency_conflict Idempotency-Key");
    assert_eq!(click(&callers[0], "spring-42").await.status, 200);
    world.expect_clicks(&[(0, 2)]).await;
    // Each node counts its own clicks, within a second.
    world.folded().await;
    assert_eq!(world.a.clicks_of("spring-42").await, 2);
}

/// C6: each counted resolve is exactly one click, under any concurrency.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_a_thousand_resolves_are_a_thousand_clicks() {
    let world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    let callers = [world.at(0, &world.nobody), world.at(1, &world.nobody)];
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.extend(
            at_once(250, |number| {
                let caller = callers[number % 2].clone();
                async move { caller.tap("spring-42").await.status }
            })
            .await,
        );
    }
    assert_eq!(statuses, [302; 1_000]);
    world.expect_clicks(&[(0, 1_000)]).await;
    // Each node counts its own clicks, within a second.
    world.folded().await;
    assert_eq!(world.a.clicks_of("spring-42").await, 1_000);
}
