//! The cache, and the limit for guessing ids.

use std::time::Duration;

use http::Method;
use serde_json::json;

use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{eventually, spawn, spawn_with};

/// L10: misses are limited by address, cached hits never; a repeated miss is answered from the cache.
#[tokio::test]
async fn l10_misses_are_limited_and_hits_are_not() {
    let world = spawn_with(|config| config.limits.misses_per_minute = 600).await;
    world.a.make("spring-42").await;
    world.a.make("autumn-43").await;
    assert_eq!(world.nobody.tap("spring-42").await.status, 302);
    let mut outcomes = Vec::new();
    for number in 0..700 {
        outcomes.push(world.nobody.resolve(&format!("guess-{number}")).await.outcome());
    }
    assert!(outcomes[..600].iter().all(|outcome| outcome == "404 not_found"));
    assert!(outcomes[600..].iter().all(|outcome| outcome == "429 rate_limited"), "{:?}", &outcomes[600..]);
    let page = world.nobody.tap("guess-0").await;
    assert_eq!((page.status, page.header("content-type")), (429, "text/html; charset=utf-8"));
    assert!(page.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1));
    for _ in 0..50 {
        assert_eq!(world.nobody.tap("spring-42").await.status, 302, "a link that was followed is never refused");
    }
    assert_eq!(world.nobody.tap("autumn-43").await.status, 429, "whether it exists is unknown without a query");
    world.clock.advance(Duration::from_secs(1));
    for expected in [404, 404, 404, 404, 404, 404, 404, 404, 404, 404, 429] {
        assert_eq!(world.nobody.resolve("guess-x").await.status, expected, "ten a second are allowed again");
    }
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.nobody.tap("autumn-43").await.status, 302);
}

/// L10: an unknown id is looked up once in five seconds; a create on the node ends that at once.
#[tokio::test]
async fn l10_a_repeated_miss_costs_no_query() {
    let world = spawn().await;
    assert_eq!(world.nobody.tap("unknown").await.status, 404);
    // Without its table, only the cache can answer.
    world.db.execute("ALTER TABLE links RENAME TO hidden").await;
    for _ in 0..5 {
        assert_eq!(world.nobody.resolve("unknown").await.outcome(), "404 not_found");
    }
    assert_eq!(world.nobody.resolve("another").await.outcome(), "500 internal", "another id is looked up");
    world.clock.advance(Duration::from_millis(5_001));
    assert_eq!(
        world.nobody.resolve("unknown").await.outcome(),
        "500 internal",
        "five seconds later it is looked up again"
    );
    world.db.execute("ALTER TABLE hidden RENAME TO links").await;
    assert_eq!(world.nobody.tap("unknown").await.status, 404);
    world.a.make("unknown").await;
    assert_eq!(world.nobody.tap("unknown").await.status, 302);
}

/// L24: on the node that writes, a change takes effect in the next request.
#[tokio::test]
async fn l24_changes_show_at_once() {
    let world = spawn().await;
    for round in 0..20 {
        world.a.make("spring-42").await;
        assert_eq!(world.nobody.tap("spring-42").await.header("location"), "https://example.com/spring-42");
        let url = format!("https://example.com/{round}");
        world.a.put("/v1/links/spring-42", &json!({"web_url": url})).await;
        assert_eq!(world.nobody.tap("spring-42").await.header("location"), url);
        world.a.delete("/v1/links/spring-42").await;
        assert_eq!(world.nobody.tap("spring-42").await.status, 404);
        world
            .a
            .post(
                "/v1/links/bulk",
                &json!({"template": {"web_url": "https://example.com/bulk"}, "custom_ids": ["spring-42"]}),
            )
            .await;
        assert_eq!(world.nobody.tap("spring-42").await.header("location"), "https://example.com/bulk");
        world.a.delete("/v1/links/spring-42").await;
        world.clock.advance(Duration::from_millis(1));
    }
}

/// A client that disconnects after its change was accepted does not leave the old target in the cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_a_change_shows_although_its_caller_has_gone() {
    use tokio::io::AsyncWriteExt;
    let world = spawn().await;
    let key = world.a.key().expect("a key").to_owned();
    let address = world.node(0).address;
    for round in 0..40 {
        let (id, url) = (format!("gone-{round}"), format!("https://example.com/new/{round}"));
        world.a.make(&id).await;
        world.nobody.tap(&id).await;
        let body = json!({"web_url": url}).to_string();
        let request = format!(
            "PUT /v1/links/{id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("a request");
        // Disconnecting with a reset, at a different moment each time, so that the handler is dropped midway.
        tokio::time::sleep(Duration::from_micros(round * 150)).await;
        stream.set_zero_linger().expect("a reset");
        drop(stream);
    }
    // Everything accepted comes before this.
    world.a.make("the-end").await;
    for round in 0..40 {
        let id = format!("gone-{round}");
        // A change in progress may come between two reads. The clock stands still: entries that are cached by then do
        // not expire.
        let shows = async || {
            let stored = world.a.get(&format!("/v1/links/{id}")).await.member("web_url");
            let shown = world.nobody.tap(&id).await.header("location").to_owned();
            if shown == stored { Ok(()) } else { Err(format!("{shown} is shown, {stored} is stored")) }
        };
        eventually(&format!("round {round} shows what is stored"), PATIENCE, shows).await;
        let shown = world.nobody.tap(&id).await.header("location").to_owned();
        let (old, new) = (format!("https://example.com/{id}"), format!("https://example.com/new/{round}"));
        assert!(shown == old || shown == new, "round {round}: {shown}");
    }
}

/// An entry that was read while the link was changed is not cached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_a_read_that_a_change_overtakes_is_not_kept() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for round in 0..30 {
        let url = format!("https://example.com/{round}");
        world.a.delete("/v1/links/spring-42").await;
        world.a.make("spring-42").await;
        let taps: Vec<_> = (0..10)
            .map(|_| {
                let caller = world.nobody.clone();
                tokio::spawn(async move { caller.tap("spring-42").await.status })
            })
            .collect();
        world.a.put("/v1/links/spring-42", &json!({"web_url": url})).await;
        for tap in taps {
            assert_eq!(tap.await.expect("a tap"), 302);
        }
        assert_eq!(world.nobody.tap("spring-42").await.header("location"), url);
    }
}

#[tokio::test]
async fn more_links_than_fit_in_memory_all_resolve() {
    let world = spawn_with(|config| config.link_cache_mb = 1).await;
    let filler = "x".repeat(3_900);
    for batch in 0..10 {
        let ids: Vec<_> = (0..100).map(|at| format!("link-{batch}-{at}")).collect();
        let template = json!({"web_url": "https://example.com/", "metadata": {"k": filler}});
        assert_eq!(world.a.post("/v1/links/bulk", &json!({"template": template, "custom_ids": ids})).await.status, 201);
    }
    for round in 0..2 {
        for batch in 0..10 {
            for at in (0..100).step_by(3) {
                let reply = world.nobody.ask(Method::GET, &format!("/r/link-{batch}-{at}")).send().await;
                assert_eq!(reply.status, 302, "round {round}");
            }
        }
    }
}
