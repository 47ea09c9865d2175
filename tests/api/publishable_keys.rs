//! Keys for apps and pages of a verified domain.

use std::time::Duration;

use deeplink_core::routes::{self, Credential};
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, Role, at_once, operations, spawn, spawn_nodes};

const KEYS: &str = "/v1/auth/publishable-keys";

async fn create(caller: &Caller, domain: &str) -> Reply {
    caller.post(KEYS, &json!({"domain": domain})).await
}

async fn listed(caller: &Caller) -> Vec<Value> {
    caller.get(KEYS).await.json()["keys"].as_array().expect("keys").clone()
}

#[tokio::test]
async fn a_key_is_made_shown_once_listed_and_deleted() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let mut made = Vec::new();
    for name in ["go.example.com", "GO.Example.com."] {
        world.clock.advance(Duration::from_millis(1));
        let reply = create(&world.a, name).await;
        assert_eq!((reply.status, reply.header("cache-control")), (201, "no-store"), "{}", reply.text());
        let (id, key) = (reply.member("id"), reply.member("key"));
        assert_eq!(reply.header("location"), format!("{KEYS}/{id}"));
        assert!(key.starts_with("pk_live_") && key.len() == 56 && id.starts_with("pkid_"), "{key}");
        assert_eq!(reply.member("domain"), "go.example.com");
        assert_eq!(reply.member("created_at"), world.clock.now().to_string());
        made.push((id, key));
    }
    let keys = listed(&world.a).await;
    for (shown, (id, key)) in keys.iter().zip(made.iter().rev()) {
        let names: Vec<_> = shown.as_object().expect("a key").keys().cloned().collect();
        assert_eq!(names, ["id", "key_prefix", "domain", "created_at"], "newest first");
        assert_eq!((&shown["id"], &shown["key_prefix"]), (&json!(id), &json!(format!("{}...", &key[..18]))));
    }
    assert_eq!((keys.len(), listed(&world.b).await.len()), (2, 0));
    let path = format!("{KEYS}/{}", made[0].0);
    assert_eq!(world.b.delete(&path).await.outcome(), "404 not_found");
    assert_eq!(world.a.delete(&path).await.status, 204);
    assert_eq!(world.a.delete(&path).await.outcome(), "404 not_found");
    assert_eq!(listed(&world.a).await.len(), 1);
}

#[tokio::test]
async fn its_domain_is_a_verified_one_of_the_account() {
    let world = spawn().await;
    world.claim_domain(&world.a, "claimed.example.com", Role::Primary).await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.own_domain(&world.a, "alt.example.com", Role::Alternate).await;
    for (body, expected) in [
        (json!({}), "400 bad_request domain"),
        (json!({"domain": null}), "400 bad_request domain"),
        (json!({"domain": "no domain"}), "400 invalid_domain domain"),
        (json!({"domain": "https://go.example.com"}), "400 invalid_domain domain"),
        (json!({"domain": "claimed.example.com"}), "400 domain_not_verified domain"),
        (json!({"domain": "go.example.com"}), "400 domain_not_found domain"),
        (json!({"domain": "nowhere.example.com"}), "400 domain_not_found domain"),
        (json!({"domain": "alt.example.com"}), "201"),
    ] {
        assert_eq!(world.a.post(KEYS, &body).await.outcome(), expected, "{body}");
    }
    assert_eq!(listed(&world.a).await.len(), 1);
    // The key outlives its domain, but is invalid until the domain is verified again.
    assert_eq!(world.a.delete("/v1/domains/alt.example.com").await.status, 204);
    assert_eq!(listed(&world.a).await.len(), 1);
    assert_eq!(create(&world.a, "alt.example.com").await.outcome(), "400 domain_not_found domain");
}

/// K2: the limit is exact under concurrent requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_a_hundred_publishable_keys() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let tenant = world.a.tenant.clone();
    let rows: Vec<_> = (0..95)
        .map(|at| format!("('pkid_{at:024}', '{tenant}', 'go.example.com', 'hash-{at}', 'pk_live_', 1)"))
        .collect();
    let columns = "publishable_keys (id, tenant_id, domain, key_hash, key_prefix, created_at)";
    world.db.execute(format!("INSERT INTO {columns} VALUES {}", rows.join(", "))).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let outcomes = at_once(20, |number| {
        let caller = callers[number % 2].clone();
        async move { create(&caller, "go.example.com").await.outcome() }
    })
    .await;
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!((count("201"), count("409 key_limit")), (5, 15), "{outcomes:?}");
    assert_eq!(listed(&world.a).await.len(), 100);
}

/// X4: operations that manage an account do not accept them, in the header or in the query.
#[tokio::test]
async fn x4_no_operation_of_the_account_takes_one() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let key = create(&world.a, "go.example.com").await.member("key");
    let holder = world.somebody_with(&key);
    let of_pages = |operation: &&operations::Operation| {
        let route = routes::ALL.iter().find(|route| route.operation == operation.id).expect("a route");
        matches!(route.credential, Credential::SdkKey | Credential::PublishableKey)
    };
    assert_eq!(operations::all().iter().filter(of_pages).count(), 6);
    for operation in operations::all().iter().filter(|operation| !operation.is_public && !of_pages(operation)) {
        let path = operation.at("spring-42");
        assert_eq!(holder.ask(operation.method.clone(), &path).send().await.outcome(), "401 invalid_key", "{path}");
    }
    let in_query = world.nobody.ask(Method::GET, &format!("/v1/links?key={key}")).send().await;
    assert_eq!(in_query.outcome(), "401 unauthorized");
}
