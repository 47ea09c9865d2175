//! `Idempotency-Key`: the same request again gives the same answer and no second effect.

use std::time::{Duration, Instant};

use deeplink_client::CreateLink;
use http::Method;
use serde_json::json;
use tokio::task::JoinHandle;

use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{Caller, Reply, at_once, eventually, insist, spawn, spawn_with};

async fn keyed(caller: &Caller, path: &str, key: &str, body: &str) -> Reply {
    caller.ask(Method::POST, path).header("idempotency-key", key).body(body.to_owned()).send().await
}

const LINK: &str = r#"{"web_url":"https://example.com/"}"#;
const BATCH: &str = r#"{"template":{},"count":3}"#;

#[tokio::test]
async fn a_repeat_gives_the_first_reply_and_has_no_effect() {
    let world = spawn().await;
    for (path, body) in [("/v1/links", LINK), ("/v1/links/bulk", BATCH)] {
        let first = keyed(&world.a, path, "key-1", body).await;
        assert_eq!((first.status, first.header("idempotency-replayed")), (201, ""), "{}", first.text());
        let rows = world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links").await;
        for _ in 0..2 {
            let again = keyed(&world.a, path, "key-1", body).await;
            assert_eq!(again.header("idempotency-replayed"), "true");
            assert_eq!((again.status, &again.body), (201, &first.body), "the same bytes");
            assert_eq!(again.header("location"), first.header("location"));
        }
        assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links").await, rows);
        let other = keyed(&world.a, path, "key-2", body).await;
        assert_ne!(other.body, first.body, "another key is another request");
    }
}

#[tokio::test]
async fn another_request_under_the_same_key_is_a_conflict() {
    let world = spawn().await;
    for (path, body) in [("/v1/links", LINK), ("/v1/links/bulk", BATCH)] {
        let first = keyed(&world.a, path, "key", body).await;
        assert_eq!(first.status, 201);
        for other in ["{}", &format!("{body} "), r#"{"links":[{}]}"#] {
            let reply = keyed(&world.a, path, "key", other).await;
            let expected = "409 idempotency_conflict Idempotency-Key";
            // A body that is invalid by itself is refused first.
            let alone = world.b.ask(Method::POST, path).body(other.to_owned()).send().await;
            assert_eq!(reply.outcome(), if alone.status == 201 { expected.into() } else { alone.outcome() }, "{other}");
        }
        assert_eq!(keyed(&world.a, path, "key", body).await.body, first.body, "and the first stays");
    }
}

#[tokio::test]
async fn a_refusal_leaves_the_key_free() {
    let world = spawn().await;
    world.a.make("taken").await;
    for refused in
        [r#"{"custom_id":"taken"}"#, r#"{"web_url":"x"}"#, "{", r#"{"affiliate_id":"aff_0123456789abcdef01234567"}"#]
    {
        assert!(keyed(&world.a, "/v1/links", "key", refused).await.status >= 400, "{refused}");
    }
    let made = keyed(&world.a, "/v1/links", "key", LINK).await;
    assert_eq!((made.status, made.header("idempotency-replayed")), (201, ""));
    let batch = r#"{"template":{},"custom_ids":["free","taken"]}"#;
    assert_eq!(keyed(&world.a, "/v1/links/bulk", "key", batch).await.outcome(), "400 invalid_batch");
    assert_eq!(keyed(&world.a, "/v1/links/bulk", "key", BATCH).await.status, 201);
}

#[tokio::test]
async fn a_key_has_one_value_of_1_to_255_characters() {
    let world = spawn().await;
    let longest = "k".repeat(255);
    let long = "k".repeat(256);
    for (key, expected) in [
        ("", "400 bad_request Idempotency-Key"),
        (&*long, "400 bad_request Idempotency-Key"),
        ("käse", "400 bad_request Idempotency-Key"),
        (&*longest, "201"),
        ("with spaces and/punctuation!", "201"),
    ] {
        for (path, body) in [("/v1/links", "{}"), ("/v1/links/bulk", BATCH)] {
            assert_eq!(keyed(&world.a, path, key, body).await.outcome(), expected, "{key}");
        }
    }
    let twice =
        world.a.ask(Method::POST, "/v1/links").header("idempotency-key", "a").header("idempotency-key", "a").body("{}");
    assert_eq!(twice.send().await.outcome(), "400 bad_request Idempotency-Key");
}

#[tokio::test]
async fn a_reply_is_kept_for_a_day() {
    let world = spawn().await;
    let first = keyed(&world.a, "/v1/links", "key", LINK).await;
    world.clock.advance(Duration::from_secs(24 * 3600 - 1));
    assert_eq!(keyed(&world.a, "/v1/links", "key", LINK).await.body, first.body);
    world.clock.advance(Duration::from_secs(2));
    let later = keyed(&world.a, "/v1/links", "key", LINK).await;
    assert_eq!((later.status, later.header("idempotency-replayed")), (201, ""));
    assert_ne!(later.body, first.body);
}

#[tokio::test]
async fn a_replay_says_what_was_said_then() {
    let world = spawn().await;
    let body = r#"{"custom_id":"spring-42"}"#;
    let first = keyed(&world.a, "/v1/links", "key", body).await;
    world.a.delete("/v1/links/spring-42").await;
    let again = keyed(&world.a, "/v1/links", "key", body).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(world.a.get("/v1/links/spring-42").await.status, 404, "and makes nothing");
}

/// X21: a key is scoped to tenant, affiliate scope, method and path, and looked up after authentication and scope checks.
#[tokio::test]
async fn x21_keys_are_scoped() {
    let world = spawn().await;
    let mut made = Vec::new();
    for caller in [&world.a, &world.b, &world.a1, &world.a2, &world.b1] {
        let reply = keyed(caller, "/v1/links", "key", LINK).await;
        assert_eq!((reply.status, reply.header("idempotency-replayed")), (201, ""), "each runs afresh");
        made.push(reply.member("link_id"));
    }
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 5);
    let batch = keyed(&world.a, "/v1/links/bulk", "key", BATCH).await;
    assert_eq!((batch.status, batch.header("idempotency-replayed")), (201, ""), "another path is another request");
    assert_eq!(keyed(&world.nobody, "/v1/links", "key", LINK).await.outcome(), "401 unauthorized");
    let forged = world.somebody_with("dl_live_000000000000000000000000000000000000000000000000");
    assert_eq!(keyed(&forged, "/v1/links", "key", LINK).await.outcome(), "401 invalid_key");
}

/// X21: fifty concurrent requests with the same key and body have one effect and equal replies; another body conflicts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x21_fifty_at_once_have_one_effect() {
    let world = spawn().await;
    for (path, body) in [("/v1/links", LINK), ("/v1/links/bulk", BATCH)] {
        let rows = world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links").await;
        let caller = world.a.clone();
        let replies = at_once(50, |_| {
            let caller = caller.clone();
            async move { keyed(&caller, path, "race", body).await }
        })
        .await;
        assert!(replies.iter().all(|reply| reply.status == 201 && reply.body == replies[0].body));
        assert_eq!(replies.iter().filter(|reply| reply.header("idempotency-replayed").is_empty()).count(), 1);
        let made = if path == "/v1/links" { 1 } else { 3 };
        assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links").await, rows + made);
    }
    let caller = world.a.clone();
    let replies = at_once(20, |number| {
        let caller = caller.clone();
        async move {
            let body = format!(r#"{{"web_url":"https://example.com/{}"}}"#, number % 2);
            (number % 2, keyed(&caller, "/v1/links", "two bodies", &body).await)
        }
    })
    .await;
    let won: Vec<_> = replies.iter().filter(|(_, reply)| reply.status == 201).collect();
    assert!(won.iter().all(|(parity, _)| *parity == won[0].0), "one body wins");
    assert_eq!(won.len(), 10);
    for (_, reply) in replies.iter().filter(|(_, reply)| reply.status != 201) {
        assert_eq!(reply.outcome(), "409 idempotency_conflict Idempotency-Key");
    }
}

/// Two concurrent callers with one key.
fn both(caller: &Caller, key: &str) -> JoinHandle<Vec<Reply>> {
    let (caller, key) = (caller.clone(), key.to_owned());
    tokio::spawn(at_once(2, move |_| {
        let (caller, key) = (caller.clone(), key.clone());
        async move { keyed(&caller, "/v1/links", &key, LINK).await }
    }))
}

const WAITING: &str = "SELECT CAST(count(*) AS BIGINT) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// A repeat that comes while the first runs waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_waits_for_the_first() {
    let world = spawn().await;
    let held = world.db.hold(&world.a.tenant).await;
    let asked = both(&world.a, "short");
    // Both wait, which only PostgreSQL shows. Elsewhere, later requests are answered meanwhile.
    if world.db.is_postgres() {
        eventually("both wait", PATIENCE, || async { world.db.number(WAITING).await >= 2 }).await;
    } else {
        for _ in 0..10 {
            assert_eq!(world.a.get("/v1/links").await.status, 200);
        }
    }
    held.let_go().await;
    let replies = asked.await.expect("two replies");
    assert_eq!((replies[0].status, &replies[0].body), (201, &replies[1].body));
    assert_eq!(replies.iter().filter(|reply| reply.header("idempotency-replayed") == "true").count(), 1);
}

/// It waits two seconds at most. A stalled machine may take longer, so one good round is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_does_not_wait_for_ever() {
    let world = spawn_with(|config| config.database_timeout = Duration::from_secs(2)).await;
    let mut took = Vec::new();
    while took.last().is_none_or(|last| *last >= Duration::from_millis(2_800)) {
        assert!(took.len() < 10, "{took:?}");
        let key = format!("long-{}", took.len());
        let held = world.db.hold(&world.a.tenant).await;
        let began = Instant::now();
        let replies = both(&world.a, &key).await.expect("two replies");
        took.push(began.elapsed());
        for reply in replies {
            assert!(
                matches!(reply.outcome().as_str(), "503 overloaded" | "503 database_unavailable"),
                "{}",
                reply.outcome()
            );
        }
        held.let_go().await;
        // Refused requests are repeated, since a busy machine may refuse some.
        let made = insist(|| keyed(&world.a, "/v1/links", &key, LINK)).await;
        assert_eq!((made.status, made.header("idempotency-replayed")), (201, ""), "a 503 means: not applied");
    }
}

#[tokio::test]
async fn the_client_says_when_a_reply_was_a_replay() {
    let world = spawn().await;
    let create = || world.a.links().create(&CreateLink::new()).idempotency_key("key").full();
    let first = create().await.expect("a link");
    let again = create().await.expect("the same link");
    assert_eq!((first.is_replayed(), again.is_replayed()), (false, true));
    assert_eq!(first.value, again.value);
    assert_eq!(world.a.get("/v1/links").await.json()["links"].as_array().map(Vec::len), Some(1));
    assert_eq!(world.a.post("/v1/links", &json!({})).await.status, 201);
}
