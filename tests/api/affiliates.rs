//! Affiliates and their credentials.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, World, at_once, spawn, spawn_nodes};

const AFFILIATES: &str = "/v1/affiliates";

async fn create(caller: &Caller, name: &str, partner_key: &str) -> Reply {
    caller.post(AFFILIATES, &json!({"name": name, "partner_key": partner_key})).await
}

async fn patch(caller: &Caller, id: &str, body: &Value) -> Reply {
    caller.ask(Method::PATCH, &format!("{AFFILIATES}/{id}")).json(body).send().await
}

async fn listed(caller: &Caller) -> Vec<Value> {
    caller.get(AFFILIATES).await.json()["affiliates"].as_array().expect("affiliates").clone()
}

fn credentials_of(id: &str) -> String {
    format!("{AFFILIATES}/{id}/credentials")
}

/// Creates an affiliate of A's with a credential; returns a caller with it and its id.
async fn partner(world: &World, partner_key: &str) -> (String, Caller, String) {
    let id = create(&world.a, "Partner", partner_key).await.member("id");
    let made = world.a.post_nothing(&credentials_of(&id)).await;
    (id, world.somebody_with(&made.member("api_key")), made.member("id"))
}

#[tokio::test]
async fn an_affiliate_is_made_shown_changed_and_deleted() {
    let world = spawn().await;
    world.clock.advance(Duration::from_secs(1));
    let made = create(&world.a, "  Summer Partner ", "summer-26").await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.member("id");
    let path = format!("{AFFILIATES}/{id}");
    assert_eq!(made.header("location"), path);
    let at = world.clock.now().to_string();
    let expected = json!({
        "id": id, "name": "Summer Partner", "partner_key": "summer-26", "status": "active", "created_at": at, "updated_at": at,
    });
    assert_eq!((made.json(), world.a.get(&path).await.json()), (expected.clone(), expected.clone()));
    assert_eq!(listed(&world.a).await.len(), 3);
    assert_eq!(listed(&world.a).await[0], expected, "newest first");

    world.clock.advance(Duration::from_secs(1));
    let later = world.clock.now().to_string();
    for (body, name, status) in [
        (json!({"name": " New name "}), "New name", "active"),
        (json!({"status": "disabled"}), "New name", "disabled"),
        (json!({"name": "Newer", "status": "active"}), "Newer", "active"),
    ] {
        let changed = patch(&world.a, &id, &body).await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        let shown = changed.json();
        assert_eq!((&shown["name"], &shown["status"]), (&json!(name), &json!(status)));
        assert_eq!((&shown["created_at"], &shown["updated_at"]), (&json!(at), &json!(later)));
        assert_eq!(world.a.get(&path).await.json(), shown);
    }
    assert_eq!(world.a.delete(&path).await.status, 204);
    for reply in [
        world.a.get(&path).await,
        world.a.delete(&path).await,
        patch(&world.a, &id, &json!({"name": "x"})).await,
        world.a.get(&credentials_of(&id)).await,
        world.a.post_nothing(&credentials_of(&id)).await,
    ] {
        assert_eq!(reply.outcome(), "404 not_found");
    }
    assert!(listed(&world.a).await.iter().all(|shown| shown["id"] != json!(id)));
}

#[tokio::test]
async fn bodies_are_judged() {
    let world = spawn().await;
    let long = "x".repeat(65);
    for (body, expected) in [
        (json!({}), "400 bad_request name"),
        (json!({"name": "x"}), "400 bad_request partner_key"),
        (json!({"name": 1, "partner_key": "ab"}), "400 bad_request name"),
        (json!({"name": " ", "partner_key": "ab"}), "400 invalid_name name"),
        (json!({"name": long, "partner_key": "ab"}), "400 invalid_name name"),
        (json!({"name": "a\u{85}b", "partner_key": "ab"}), "400 invalid_name name"),
        (json!({"name": "x", "partner_key": "a"}), "400 invalid_partner_key partner_key"),
        (json!({"name": "x", "partner_key": "Ab"}), "400 invalid_partner_key partner_key"),
        (json!({"name": "x", "partner_key": "a:b"}), "400 invalid_partner_key partner_key"),
        (json!({"name": "x", "partner_key": "a".repeat(33)}), "400 invalid_partner_key partner_key"),
        (json!({"name": "x", "partner_key": "partner-1"}), "409 partner_key_taken partner_key"),
        (json!({"name": "Ünïcode ✓", "partner_key": "ab"}), "201"),
    ] {
        assert_eq!(world.a.post(AFFILIATES, &body).await.outcome(), expected, "{body}");
    }
    assert_eq!(create(&world.b, "x", "ab").await.status, 201, "another account has keys of its own");
    let id = world.a1.affiliate_id();
    for (body, expected) in [
        (json!({}), "400 empty_update"),
        (json!({"partner_key": "xy", "id": "x"}), "400 empty_update"),
        (json!({"name": null}), "400 bad_request name"),
        (json!({"status": null}), "400 bad_request status"),
        (json!({"status": "deleted"}), "400 bad_request status"),
        (json!({"status": "Active"}), "400 bad_request status"),
        (json!({"name": ""}), "400 invalid_name name"),
    ] {
        assert_eq!(patch(&world.a, id, &body).await.outcome(), expected, "{body}");
    }
    // A 404 comes before errors in the body.
    let nowhere = world.a.ask(Method::PATCH, &format!("{AFFILIATES}/aff_0123456789abcdef01234567"));
    assert_eq!(nowhere.body_as("text/plain", "{").send().await.outcome(), "404 not_found");
}

#[tokio::test]
async fn a_deleted_affiliates_links_stay_and_its_partner_key_is_free() {
    let world = spawn().await;
    let (id, holder, _) = partner(&world, "summer").await;
    let link = holder.make_of(&json!({"web_url": "https://example.com/"})).await;
    assert_eq!(world.a.delete(&format!("{AFFILIATES}/{id}")).await.status, 204);
    assert_eq!(holder.get("/v1/links").await.outcome(), "401 invalid_key");
    assert_eq!(world.a.get(&format!("/v1/links/{link}")).await.member("affiliate_id"), id);
    assert_eq!(world.nobody.tap(&link).await.status, 302);
    let listed = world.a.get(&format!("/v1/links?affiliate_id={id}")).await.json();
    assert_eq!(listed["links"].as_array().map(Vec::len), Some(1));
    let named = world.a.post("/v1/links", &json!({"affiliate_id": id})).await;
    assert_eq!(named.outcome(), "404 affiliate_not_found affiliate_id", "no new link may name it");
    let left = format!("SELECT CAST(count(*) AS BIGINT) FROM secret_keys WHERE affiliate_id = '{id}'");
    assert_eq!(world.db.number(left).await, 0);
    let again = create(&world.a, "Again", "summer").await;
    assert_eq!((again.status, again.member("id") == id), (201, false));
    assert_eq!(world.a.delete(&format!("{AFFILIATES}/{}", again.member("id"))).await.status, 204);
    assert_eq!(create(&world.a, "And again", "summer").await.status, 201);
}

#[tokio::test]
async fn a_credential_is_made_shown_once_listed_and_deleted() {
    let world = spawn().await;
    let id = world.a1.affiliate_id().to_owned();
    world.clock.advance(Duration::from_secs(1));
    let made = world.a.post_nothing(&credentials_of(&id)).await;
    assert_eq!((made.status, made.header("cache-control")), (201, "no-store"), "{}", made.text());
    let (key, key_id) = (made.member("api_key"), made.member("id"));
    let path = format!("{}/{key_id}", credentials_of(&id));
    assert_eq!(made.header("location"), path);
    let prefix = format!("{}...", &key[..18]);
    assert_eq!((made.member("affiliate_id"), made.member("key_prefix")), (id.clone(), prefix.clone()));
    let all = world.a.get(&credentials_of(&id)).await.json();
    let expected = json!({"id": key_id, "key_prefix": prefix, "created_at": world.clock.now().to_string()});
    assert_eq!((all["credentials"].as_array().map(Vec::len), &all["credentials"][0]), (Some(2), &expected));
    let keys = world.a.get("/v1/auth/secret-keys").await.json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1), "it is not one of the account's own keys");

    let holder = world.somebody_with(&key);
    let link = holder.make_of(&json!({"custom_id": "of-one"})).await;
    assert_eq!(world.a.get(&format!("/v1/links/{link}")).await.member("affiliate_id"), id);
    // I8: a caller with an affiliate's credential cannot create credentials, not even for that affiliate.
    for path in [credentials_of(&id), credentials_of(world.a2.affiliate_id()), credentials_of("nowhere")] {
        assert_eq!(holder.post_nothing(&path).await.outcome(), "403 forbidden_scope", "{path}");
    }
    assert_eq!(world.a.delete(&path).await.status, 204);
    assert_eq!(holder.get("/v1/links").await.outcome(), "401 invalid_key", "at once");
    assert_eq!(world.a.delete(&path).await.outcome(), "404 not_found");
    assert_eq!(world.a1.get("/v1/links").await.status, 200, "the other one still works");
}

/// K2: three credentials, exactly, however many are requested concurrently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_three_credentials() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let id = create(&world.a, "Partner", "summer").await.member("id");
    let outcomes = at_once(20, |number| {
        let (caller, path) = (callers[number % 2].clone(), credentials_of(&id));
        async move { caller.post_nothing(&path).await.outcome() }
    })
    .await;
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!((count("201"), count("409 credential_limit")), (3, 17), "{outcomes:?}");
    let all = world.a.get(&credentials_of(&id)).await.json();
    assert_eq!(all["credentials"].as_array().map(Vec::len), Some(3));
    // A full affiliate does not count against other affiliates or the account's keys.
    assert_eq!(world.a.post_nothing(&credentials_of(world.a1.affiliate_id())).await.status, 201);
    assert_eq!(world.a.post("/v1/auth/secret-keys", &json!({"email": "a@example.com"})).await.status, 200);
}

#[tokio::test]
async fn a_repeat_makes_no_second_affiliate() {
    let world = spawn().await;
    let ask = || world.a.ask(Method::POST, AFFILIATES).header("idempotency-key", "key");
    let body = json!({"name": "Partner", "partner_key": "summer"});
    let [first, again] = [ask().json(&body).send().await, ask().json(&body).send().await];
    assert_eq!((first.status, again.status, again.header("idempotency-replayed")), (201, 201, "true"));
    assert_eq!((&first.body, first.header("location")), (&again.body, again.header("location")));
    let other = ask().json(&json!({"name": "Partner", "partner_key": "winter"})).send().await;
    assert_eq!(other.outcome(), "409 idempotency_conflict Idempotency-Key");
    assert_eq!(world.a.post(AFFILIATES, &body).await.outcome(), "409 partner_key_taken partner_key");
}

/// The unique index decides who gets a partner key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_for_one_partner_key() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let outcomes = at_once(20, |number| {
        let caller = callers[number % 2].clone();
        async move { create(&caller, "Partner", "wanted").await.outcome() }
    })
    .await;
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!((count("201"), count("409 partner_key_taken partner_key")), (1, 19), "{outcomes:?}");
}

/// Deleting an affiliate and giving it a credential concurrently leaves no working key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_does_not_outlive_its_affiliate() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    for round in 0..20 {
        let id = create(&world.a, "Partner", &format!("round-{round}")).await.member("id");
        let replies = at_once(6, |number| {
            let (caller, id) = (callers[number % 2].clone(), id.clone());
            async move {
                if number == 3 {
                    caller.delete(&format!("{AFFILIATES}/{id}")).await
                } else {
                    caller.post_nothing(&credentials_of(&id)).await
                }
            }
        })
        .await;
        assert_eq!(replies[3].status, 204);
        for made in replies.iter().filter(|reply| reply.status == 201) {
            let holder = world.somebody_with(&made.member("api_key"));
            assert_eq!(holder.get("/v1/links").await.outcome(), "401 invalid_key", "round {round}");
        }
        let left = format!("SELECT CAST(count(*) AS BIGINT) FROM secret_keys WHERE affiliate_id = '{id}'");
        assert_eq!(world.db.number(left).await, 0, "round {round}");
    }
}
