//! L24: a change on one node takes effect there at once and on the others within five seconds. A SQLite file has one
//! server, so there both nodes are that one; an operator's command beside it counts as another node.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use deeplink_testing::{Caller, Role, World, eventually, spawn, spawn_nodes};

const SOON: Duration = Duration::from_secs(5);

async fn leads_to(caller: &Caller, id: &str, url: &str) -> bool {
    caller.tap(id).await.header("location") == url
}

/// Fills the caches of every node, until they answer from memory.
async fn warm(world: &World, id: &str) {
    for node in 0..2 {
        let caller = world.at(node, &world.nobody);
        eventually("the node knows the link", SOON, || async { caller.tap(id).await.status == 302 }).await;
    }
    world.clock.advance(Duration::from_millis(5));
    for node in 0..2 {
        world.at(node, &world.nobody).tap(id).await;
    }
}

/// L24: an update, a delete and a new link of the same id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_changes_reach_the_other_node() {
    let world = spawn_nodes(2).await;
    let (here, there) = (world.at(0, &world.a), world.at(1, &world.a));
    here.make("spring-42").await;
    warm(&world, "spring-42").await;
    for round in 0..3 {
        let url = format!("https://example.com/round-{round}");
        assert_eq!(here.put("/v1/links/spring-42", &json!({"web_url": url})).await.status, 200);
        assert!(leads_to(&here, "spring-42", &url).await, "at once on the node that wrote");
        eventually("the other node follows", SOON, || leads_to(&there, "spring-42", &url)).await;
        assert_eq!(there.get("/v1/links/spring-42").await.member("web_url"), url);
    }
    assert_eq!(there.delete("/v1/links/spring-42").await.status, 204);
    assert_eq!(there.tap("spring-42").await.status, 404);
    eventually("the link is gone everywhere", SOON, || async { here.tap("spring-42").await.status == 404 }).await;

    // Other nodes are not notified of a create: their cached entry for the id expires after five seconds of their
    // clock.
    here.make_of(&json!({"custom_id": "spring-42", "web_url": "https://example.com/again"})).await;
    assert!(leads_to(&here, "spring-42", "https://example.com/again").await);
    world.clock.advance(SOON);
    eventually("the new link is there", SOON, || leads_to(&there, "spring-42", "https://example.com/again")).await;
}

/// A create that is repeated on another node, with the same answer, takes effect there at once: alone and in a batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_create_shows_on_the_node_that_repeats_it() {
    let world = spawn_nodes(2).await;
    let (here, there) = (world.at(0, &world.a), world.at(1, &world.a));
    let one = json!({"custom_id": "spring-42", "web_url": "https://example.com/"});
    let batch = json!({"template": {"web_url": "https://example.com/"}, "custom_ids": ["spring-43"]});
    for (path, body, id) in [("/v1/links", one, "spring-42"), ("/v1/links/bulk", batch, "spring-43")] {
        assert_eq!(there.tap(id).await.status, 404);
        for caller in [&here, &there] {
            let made = caller.ask(Method::POST, path).header("idempotency-key", "once").json(&body).send().await;
            assert_eq!(made.status, 201);
        }
        assert_eq!(there.tap(id).await.status, 302, "{id}");
    }
}

/// L24: an operator's changes beside the service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_an_operators_change_shows_within_five_seconds() {
    let world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    warm(&world, "spring-42").await;
    for (status, expected) in [("'flagged'", 200), ("'disabled'", 410), ("NULL", 302)] {
        world.db.execute(format!("UPDATE links SET status = {status} WHERE link_id = 'spring-42'")).await;
        for node in 0..2 {
            let caller = world.at(node, &world.nobody);
            eventually("the status shows", SOON, || async { caller.tap("spring-42").await.status == expected }).await;
        }
    }
    world.db.execute("UPDATE links SET expires_at = 1 WHERE link_id = 'spring-42'").await;
    for node in 0..2 {
        let caller = world.at(node, &world.nobody);
        eventually("the expiry shows", SOON, || async { caller.tap("spring-42").await.status == 410 }).await;
    }
}

/// L24: keys and domains too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_keys_and_domains_follow() {
    let world = spawn_nodes(2).await;
    world.b.make("own").await;
    let at = |node| world.at(node, &world.nobody);
    let on_host = async |node: usize| {
        let ask = at(node).browse(http::Method::GET, "/own").header("host", "go.example.com");
        ask.send().await.status
    };
    for node in 0..2 {
        assert_eq!((on_host(node).await, world.at(node, &world.b1).get("/v1/links").await.status), (404, 200));
    }
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world
        .db
        .execute(format!("UPDATE affiliates SET status = 'disabled' WHERE id = '{}'", world.b1.affiliate_id()))
        .await;
    for node in 0..2 {
        eventually("the host is known", SOON, || async { on_host(node).await == 302 }).await;
        eventually("the key is dead", SOON, || async {
            world.at(node, &world.b1).get("/v1/links").await.status == 401
        })
        .await;
    }
    world.db.execute("DELETE FROM domains").await;
    for node in 0..2 {
        eventually("the host is forgotten", SOON, || async { on_host(node).await == 404 }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_nodes_give_one_sequence_of_links() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    for at in 0..20 {
        callers[at % 2].make(&format!("link-{at:02}")).await;
        world.clock.advance(Duration::from_millis(1));
    }
    let first = callers[0].get("/v1/links?limit=7").await.json();
    let cursor = first["next_cursor"].as_str().expect("a next page");
    let second = callers[1].get(&format!("/v1/links?limit=100&cursor={cursor}")).await.json();
    let ids = [&first, &second].map(|page| page["links"].as_array().expect("links").clone()).concat();
    let ids: Vec<_> = ids.iter().map(|link| link["link_id"].as_str().expect("an id").to_owned()).collect();
    let expected: Vec<_> = (0..20).rev().map(|at| format!("link-{at:02}")).collect();
    assert_eq!(ids, expected, "a cursor of one node is valid at the other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_is_known_on_the_node_that_made_it_even_when_it_was_missed_before() {
    let world = spawn().await;
    assert_eq!(world.nobody.tap("spring-42").await.status, 404);
    let began = Instant::now();
    world.a.make("spring-42").await;
    assert_eq!(world.nobody.tap("spring-42").await.status, 302);
    world.a.post("/v1/links/bulk", &json!({"template": {}, "custom_ids": ["one-more"]})).await;
    assert_eq!(world.nobody.tap("one-more").await.status, 200);
    assert!(began.elapsed() < SOON);
}
