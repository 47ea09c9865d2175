//! Sources: URLs that accept conversions without a key.

use std::time::Duration;

use deeplink_core::secret::{Random, sha256_hex};
use deeplink_server::vault::MasterKey;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, World, at_once, spawn, spawn_nodes, spawn_with};

const SOURCES: &str = "/v1/sources";

async fn create(caller: &Caller, name: &str) -> Reply {
    caller.post(SOURCES, &json!({"name": name, "source_type": "custom"})).await
}

async fn listed(caller: &Caller) -> Vec<Value> {
    caller.get(SOURCES).await.json()["sources"].as_array().expect("sources").clone()
}

/// The path of a source's URL.
fn path_of(made: &Reply) -> String {
    let address = made.member("webhook_url");
    address[address.find("/in/").expect("a token")..].to_owned()
}

fn purchase(user: &str) -> Value {
    json!({"user_id": user, "type": "purchase"})
}

async fn conversions(world: &World) -> i64 {
    world.db.number("SELECT CAST(COUNT(*) AS BIGINT) FROM conversions").await
}

#[tokio::test]
async fn a_source_is_made_shown_listed_and_deleted() {
    let world = spawn().await;
    let mut made = Vec::new();
    for (name, shown) in [("  Shop ", "Shop"), ("Books", "Books")] {
        world.clock.advance(Duration::from_millis(1));
        let reply = create(&world.a, name).await;
        assert_eq!((reply.status, reply.header("cache-control")), (201, "no-store"), "{}", reply.text());
        let (id, address) = (reply.member("id"), reply.member("webhook_url"));
        let path = format!("{SOURCES}/{id}");
        assert_eq!(reply.header("location"), path);
        let token = address.strip_prefix(&format!("http://localhost:{}/in/", world.node(0).address.port()));
        let token = token.or_else(|| address.strip_prefix(&format!("{}/in/", world.a.base()))).expect("an address");
        assert!(token.len() == 64 && id.starts_with("src_"), "{id} {address}");
        let expected = json!({
            "id": id, "name": shown, "source_type": "custom", "webhook_url": address,
            "created_at": world.clock.now().to_string(),
        });
        assert_eq!((&reply.json(), world.a.get(&path).await.json()), (&expected, expected.clone()));
        made.push((path, expected));
    }
    for path in [SOURCES, &made[0].0] {
        assert_eq!(world.a.get(path).await.header("cache-control"), "no-store", "{path}");
    }
    assert_eq!(listed(&world.a).await, [made[1].1.clone(), made[0].1.clone()], "newest first");
    assert_eq!(listed(&world.b).await, [] as [Value; 0]);
    let (path, _) = &made[0];
    for reply in [world.b.get(path).await, world.b.delete(path).await] {
        assert_eq!(reply.outcome(), "404 not_found");
    }
    assert_eq!(world.a.delete(path).await.status, 204);
    for reply in [world.a.get(path).await, world.a.delete(path).await] {
        assert_eq!(reply.outcome(), "404 not_found");
    }
    assert_eq!(listed(&world.a).await, [made[1].1.clone()]);
    assert_eq!(create(&world.a, "Shop").await.status, 201, "its name is free again");
}

#[tokio::test]
async fn bodies_are_judged() {
    let world = spawn().await;
    create(&world.a, "Shop").await;
    for (body, expected) in [
        (json!({}), "400 bad_request name"),
        (json!({"name": "x"}), "400 bad_request source_type"),
        (json!({"name": 1, "source_type": "custom"}), "400 bad_request name"),
        (json!({"name": "x", "source_type": null}), "400 bad_request source_type"),
        (json!({"name": " ", "source_type": "custom"}), "400 invalid_name name"),
        (json!({"name": "é".repeat(65), "source_type": "custom"}), "400 invalid_name name"),
        (json!({"name": "a\u{0}b", "source_type": "custom"}), "400 invalid_name name"),
        (json!({"name": "x", "source_type": "Custom"}), "400 invalid_source_type source_type"),
        (json!({"name": "x", "source_type": ""}), "400 invalid_source_type source_type"),
        (json!({"name": " Shop ", "source_type": "custom"}), "409 name_taken name"),
        (json!({"name": "shop", "source_type": "custom", "webhook_url": "x", "id": "y"}), "201"),
        (json!({"name": "é".repeat(64), "source_type": "custom"}), "201"),
    ] {
        assert_eq!(world.a.post(SOURCES, &body).await.outcome(), expected, "{body}");
    }
    assert_eq!(create(&world.b, "Shop").await.status, 201, "another account has its own names");
}

/// The unique index on names decides who is first, on every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_gets_a_name() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let outcomes = at_once(20, |number| {
        let caller = callers[number % 2].clone();
        async move { create(&caller, "Shop").await.outcome() }
    })
    .await;
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!((count("201"), count("409 name_taken name")), (1, 19), "{outcomes:?}");
}

/// The limit is exact under concurrent requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_a_hundred_sources() {
    let world = spawn_nodes(2).await;
    let (sealed, tenant) = ("sealed".repeat(4), world.b.tenant.clone());
    let rows: Vec<_> = (0..95)
        .map(|at| format!("('src_{at:024}', '{tenant}', 'name {at}', 'custom', 'hash-{at}', '{sealed}', 1)"))
        .collect();
    let columns = "sources (id, tenant_id, name, source_type, token_hash, sealed, created_at)";
    world.db.execute(format!("INSERT INTO {columns} VALUES {}", rows.join(", "))).await;
    let callers = [world.at(0, &world.b), world.at(1, &world.b)];
    let outcomes = at_once(20, |number| {
        let caller = callers[number % 2].clone();
        async move { create(&caller, &format!("new {number}")).await.outcome() }
    })
    .await;
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!((count("201"), count("402 quota_exceeded")), (5, 15), "{outcomes:?}");
    let full = create(&world.b, "name 1").await;
    let expected = (&json!("sources"), &json!(100), &json!(100));
    assert_eq!((&full.json()["resource"], &full.json()["limit"], &full.json()["current"]), expected);
    assert_eq!(create(&world.a, "Shop").await.status, 201, "another account has its own hundred");
}

#[tokio::test]
async fn a_repeat_shows_the_same_address_and_makes_no_second_source() {
    let world = spawn().await;
    let ask = |caller: &Caller| caller.ask(Method::POST, SOURCES).header("idempotency-key", "key");
    let body = json!({"name": "Shop", "source_type": "custom"});
    let [first, again] = [ask(&world.a).json(&body).send().await, ask(&world.a).json(&body).send().await];
    assert_eq!((first.status, again.status, again.header("idempotency-replayed")), (201, 201, "true"));
    assert_eq!((&first.body, first.header("location")), (&again.body, again.header("location")));
    let other = ask(&world.a).json(&json!({"name": "Other", "source_type": "custom"})).send().await;
    assert_eq!(other.outcome(), "409 idempotency_conflict Idempotency-Key");
    let of_b = ask(&world.b).json(&body).send().await;
    assert!(of_b.status == 201 && of_b.body != first.body);
    let kept = world.db.texts("SELECT body FROM replies").await;
    assert!(kept.len() == 2 && kept.iter().all(|body| body.starts_with("sealed ") && !body.contains("/in/")));
}

/// X18: a URL is stored as a hash and sealed, also after the master key was changed; the URL stays the same.
#[tokio::test]
async fn x18_an_address_is_sealed_where_it_is_kept() {
    let mut world = spawn().await;
    let made = create(&world.a, "Shop").await;
    let (address, path) = (made.member("webhook_url"), format!("{SOURCES}/{}", made.member("id")));
    let token = address.rsplit('/').next().expect("a token").to_owned();
    let row = world.db.dump().await["sources"].join("\n");
    assert!(row.contains(&sha256_hex(&token)) && !row.contains(&token[..16]), "{row}");
    let sealed = world.db.texts("SELECT sealed FROM sources").await;
    let new = MasterKey::generate(&mut Random::seeded(11));
    world.restart(|config| config.master_keys.insert(0, new.clone())).await;
    world.restart(|config| config.master_keys = vec![new.clone()]).await;
    assert_ne!(world.db.texts("SELECT sealed FROM sources").await, sealed, "the new key has resealed it");
    assert_eq!(world.a.get(&path).await.member("webhook_url"), address);
    let sent = world.nobody.post(&format!("/in/{token}"), &purchase("user-1")).await;
    assert_eq!((sent.status, conversions(&world).await), (200, 1), "{}", sent.text());
}

/// A source whose URL cannot be decrypted is shown without it, alone and in lists, in the API and on the pages; it
/// still accepts conversions, and can be deleted.
#[tokio::test]
async fn r10_a_source_that_does_not_open_fails_nothing_else() {
    let mut world = spawn().await;
    let [broken, whole] = [create(&world.a, "Broken").await, create(&world.a, "Whole").await];
    let (id, whole) = (broken.member("id"), whole.json());
    let path = format!("{SOURCES}/{id}");
    // A changed value, another row's value, no value.
    for damage in [
        "substr(sealed, 1, length(sealed) - 4) || 'AAAA'",
        "(SELECT sealed FROM sources WHERE name = 'Whole')",
        "'damaged'",
    ] {
        world.db.execute(format!("UPDATE sources SET sealed = {damage} WHERE id = '{id}'")).await;
        let shown = listed(&world.a).await;
        let find = |id: &Value| shown.iter().find(|source| source["id"] == *id).expect("it is listed").clone();
        let mut expected = broken.json();
        expected["webhook_url"] = Value::Null;
        assert_eq!((find(&expected["id"]), find(&whole["id"])), (expected.clone(), whole.clone()), "{damage}");
        assert_eq!(world.a.get(&path).await.json(), expected);
    }
    let session = world.session_of(&world.a).await;
    let page = world.a.browse(Method::GET, "/account/sources").header("cookie", format!("session_token={session}"));
    let page = page.send().await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("URL cannot be read") && page.text().contains("/in/..."), "{}", page.text());
    world.restart(|_| {}).await;
    assert_eq!(world.nobody.post(&path_of(&broken), &purchase("user-1")).await.status, 200);
    assert_eq!(world.a.delete(&path).await.status, 204);
    assert_eq!(listed(&world.a).await, [whole]);
}

#[tokio::test]
async fn what_is_posted_is_a_conversion_of_the_sources_account() {
    let world = spawn().await;
    let made = create(&world.a, "Shop").await;
    let path = path_of(&made);
    let body = json!({
        "user_id": "user-1", "type": "purchase", "idempotency_key": "order-1", "metadata": {"order": 1},
        "amount_cents": 4990, "currency": "EUR",
    });
    let sent = world.nobody.post(&path, &body).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let first = sent.json();
    let counts = |reply: &Value| ["accepted", "deduped", "unattributed", "failed"].map(|count| reply[count].clone());
    assert_eq!(counts(&first), [0, 0, 1, 0], "user-1 is not identified yet");
    // A repeat, with any credential or none, is the same conversion.
    for caller in [&world.nobody, &world.b, &world.a1] {
        let again = caller.post(&path, &body).await.json();
        assert_eq!((counts(&again), &again["event_id"]), ([0, 1, 0, 0].map(Value::from), &first["event_id"]));
    }
    let stored = "SELECT tenant_id || ' ' || source_id || ' ' || conversion_type || ' ' || currency FROM conversions";
    let expected = format!("{} {} purchase EUR", world.a.tenant, made.member("id"));
    assert_eq!(world.db.texts(stored).await, [expected]);
    // On every host without a tenant.
    let elsewhere = world.nobody.ask(Method::POST, &path).header("host", "10.0.0.1").json(&body).send().await;
    assert_eq!(elsewhere.status, 200);
    // Conversions stay when the source is deleted.
    assert_eq!(world.a.delete(&format!("{SOURCES}/{}", made.member("id"))).await.status, 204);
    assert_eq!(conversions(&world).await, 1);
}

/// A source that is deleted at one node accepts nothing at another, from the reply on.
#[tokio::test]
async fn a_deleted_source_is_dead_on_every_node() {
    let world = spawn_nodes(2).await;
    let [here, there] = [world.at(0, &world.a), world.at(1, &world.nobody)];
    for number in 0..10 {
        let made = create(&here, &format!("Shop {number}")).await;
        let path = path_of(&made);
        assert_eq!(there.post(&path, &purchase("u")).await.status, 200);
        assert_eq!(here.delete(&format!("{SOURCES}/{}", made.member("id"))).await.status, 204);
        assert_eq!(there.post(&path, &purchase("u")).await.outcome(), "404 not_found");
    }
    assert_eq!(conversions(&world).await, 10);
}

#[tokio::test]
async fn what_cannot_be_a_conversion_is_refused_and_leaves_nothing() {
    let world = spawn().await;
    let path = path_of(&create(&world.a, "Shop").await);
    let before = world.db.dump().await;
    let sent = |body: Value| world.nobody.ask(Method::POST, &path).json(&body).send();
    for (body, expected) in [
        (json!({}), "400 parse_error user_id"),
        (json!({"user_id": "u"}), "400 parse_error type"),
        (json!({"user_id": 1, "type": "t"}), "400 parse_error user_id"),
        (json!({"user_id": " ", "type": "t"}), "400 parse_error user_id"),
        (json!({"user_id": "u\u{0}", "type": "t"}), "400 parse_error user_id"),
        (json!({"user_id": "u", "type": "t".repeat(65)}), "400 parse_error type"),
        (json!({"user_id": "u", "type": "t", "amount_cents": 5}), "400 parse_error currency"),
        (json!({"user_id": "u", "type": "t", "amount_cents": 1.5, "currency": "EUR"}), "400 parse_error amount_cents"),
        (
            json!({"user_id": "u", "type": "t", "amount_cents": 9_007_199_254_740_992_i64, "currency": "EUR"}),
            "400 parse_error amount_cents",
        ),
        (json!({"user_id": "u", "type": "t", "occurred_at": "tomorrow"}), "400 parse_error occurred_at"),
        (json!({"user_id": "u", "type": "t", "occurred_at": "9999-12-31T23:59:59Z"}), "400 parse_error occurred_at"),
        (json!({"user_id": "u", "type": "t", "metadata": []}), "400 parse_error metadata"),
        (json!({"user_id": "u", "type": "t", "metadata": {"k": "x".repeat(1_024)}}), "400 parse_error metadata"),
        (json!({"user_id": "u", "type": "t", "idempotency_key": ""}), "400 parse_error idempotency_key"),
    ] {
        assert_eq!(sent(body.clone()).await.outcome(), expected, "{body}");
    }
    for malformed in ["", "{", "[]", "{} {}", r#"{"user_id":"a","user_id":"b","type":"t"}"#] {
        let reply = world.nobody.ask(Method::POST, &path).body(malformed.to_owned()).send().await;
        assert_eq!((reply.status, reply.member("code").as_str()), (400, "parse_error"), "{malformed}");
    }
    assert_eq!(world.db.dump().await, before);
}

/// C1: a token of 256 bits; an unknown one and a deleted one are the same 404, before any other check; more than 64 KiB
/// is 413.
#[tokio::test]
async fn c1_unknown_and_deleted_tokens_answer_alike() {
    let world = spawn().await;
    let made = create(&world.a, "Shop").await;
    let path = path_of(&made);
    assert_eq!(path.len(), "/in/".len() + 64);
    let ask = |path: &str| world.nobody.ask(Method::POST, path);
    let large = ask(&path).body("x".repeat((64 << 10) + 1));
    assert_eq!(large.send().await.outcome(), "413 payload_too_large");
    let wrong = ask(&path).body_as("text/plain", "x".repeat((64 << 10) + 1));
    assert_eq!(wrong.send().await.outcome(), "415 unsupported_media_type");
    let padded = json!({"user_id": "u", "type": "t", "padding": "x".repeat(65_000)});
    assert_eq!(ask(&path).json(&padded).send().await.status, 200);
    assert_eq!(world.a.delete(&format!("{SOURCES}/{}", made.member("id"))).await.status, 204);
    let unknown = format!("/in/{}", "0".repeat(64));
    let upper = format!("/in/{}", path[4..].to_uppercase());
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for path in [&path, &unknown, &upper, &format!("{path}0"), &"/in/x".to_owned(), &"/in/%ff".to_owned()] {
        small.push(ask(path).json(&purchase("u")).send().await.without_request_id());
        large.push(ask(path).body_as("text/plain", "x".repeat(70_000)).send().await.without_request_id());
    }
    // A large body, which nobody reads, ends its connection.
    for answers in [small, large] {
        assert!(answers[0].starts_with("404 ") && answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    }
}

/// C1: each source has its own allowance, with `Retry-After` once it is used up; the limit is checked before the body
/// is read.
#[tokio::test]
async fn c1_a_flood_is_limited_by_source() {
    let world = spawn_with(|config| config.limits.source_per_second = 2).await;
    let [shop, books] = [create(&world.a, "Shop").await, create(&world.a, "Books").await].map(|made| path_of(&made));
    let sent = async |path: &str| world.nobody.post(path, &purchase("u")).await;
    let mut outcomes = Vec::new();
    for _ in 0..20 {
        outcomes.push(sent(&shop).await.outcome());
    }
    let (taken, refused) = outcomes.split_at(8);
    assert!(taken.iter().all(|outcome| outcome == "200"), "a burst of four seconds' worth: {outcomes:?}");
    assert!(refused.iter().all(|outcome| outcome == "429 rate_limited"), "{outcomes:?}");
    let over = world.nobody.ask(Method::POST, &shop).body_as("text/plain", "x".repeat(70_000)).send().await;
    assert_eq!((over.outcome().as_str(), over.header("retry-after")), ("429 rate_limited", "1"));
    assert_eq!(sent(&books).await.status, 200, "another source is not held back");
    assert_eq!(conversions(&world).await, 9);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!([sent(&shop).await.status, sent(&shop).await.status, sent(&shop).await.status], [200, 200, 429]);
}

/// Trying source URLs that do not exist is limited like trying links; a client that recently posted to an existing one
/// is not limited.
#[tokio::test]
async fn unknown_addresses_are_limited() {
    let world = spawn_with(|config| config.limits.misses_per_minute = 2).await;
    let path = path_of(&create(&world.a, "Shop").await);
    assert_eq!(world.nobody.post(&path, &purchase("u")).await.status, 200);
    let mut outcomes = Vec::new();
    for at in 0..4 {
        outcomes.push(world.nobody.post(&format!("/in/{at:064}"), &purchase("u")).await.outcome());
    }
    assert_eq!(outcomes, ["404 not_found", "404 not_found", "429 rate_limited", "429 rate_limited"]);
    assert_eq!(world.nobody.post(&path, &purchase("u")).await.status, 200);
}
