//! Claiming, listing and deleting domains.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{counted, names, proof_of, verify};
use deeplink_testing::{Role, spawn, spawn_with};

#[tokio::test]
async fn a_claim_says_what_to_write_into_dns() {
    let world = spawn_with(|config| config.cname_target = Some("edge.example.net".into())).await;
    let claimed = world.a.post("/v1/domains", &json!({"domain": "GO.Example.com."})).await;
    assert_eq!((claimed.outcome().as_str(), claimed.header("location")), ("201", "/v1/domains/go.example.com"));
    let said = claimed.json();
    let token = claimed.member("verification_token");
    assert!(token.len() == 64 && token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{token}");
    assert_eq!(
        said,
        json!({
            "domain": "go.example.com", "role": "primary", "verified": false, "verification_token": token,
            "txt_record": "_deeplink-verify.go.example.com", "cname_target": "edge.example.net",
        })
    );
    world.clock.advance(Duration::from_secs(1));
    world.claim_domain(&world.a, "open.example.com", Role::Alternate).await;
    assert_eq!(names(&world.a).await, ["open.example.com", "go.example.com"], "newest first");
    let listed = world.a.get("/v1/domains").await.json();
    assert_eq!(listed[0]["role"], "alternate");
    assert_eq!(
        listed[1],
        json!({
            "domain": "go.example.com", "role": "primary", "verified": false, "created_at": "2026-11-20T09:30:00.010Z",
            "verification_token": token, "txt_record": "_deeplink-verify.go.example.com",
            "cname_target": "edge.example.net", "root_url": null, "not_found_url": null,
            "long_links": false, "allowed_hosts": [],
        })
    );
    assert_eq!(names(&world.b).await, [""; 0]);
}

#[tokio::test]
async fn domains_point_to_the_public_host_unless_said_otherwise() {
    let world =
        spawn_with(|config| config.public_url = Some("https://links.example.com".parse().expect("a URL"))).await;
    let claimed = world.a.ask(Method::POST, "/v1/domains").header("host", "links.example.com");
    let claimed = claimed.json(&json!({"domain": "go.example.com"})).send().await;
    assert_eq!(claimed.member("cname_target"), "links.example.com");
}

/// D3: only public host names can be claimed, except the service's own host and the names below it.
#[tokio::test]
async fn d3_names_that_cannot_be_claimed() {
    let world =
        spawn_with(|config| config.public_url = Some("https://links.example.com".parse().expect("a URL"))).await;
    let create = async |body: Value| {
        let ask = world.a.ask(Method::POST, "/v1/domains").header("host", "links.example.com");
        ask.json(&body).send().await.outcome()
    };
    for domain in [
        "",
        "example",
        "https://go.example.com",
        "go.example.com/x",
        "go.example.com:443",
        "user@go.example.com",
        "*.example.com",
        "_x.example.com",
        "-go.example.com",
        "go..example.com",
        "127.0.0.1",
        "0x7f.1",
        "[::1]",
        "go.local",
        "go.internal",
        "go.test",
        "go.invalid",
        "go.onion",
        "go.localhost",
        "localhost",
        "go.example",
        "go\u{0}.example.com",
        " go.example.com",
        "links.example.com",
        "LINKS.example.com.",
        "a.links.example.com",
        "b.a.links.example.com",
    ] {
        assert_eq!(create(json!({"domain": domain})).await, "400 invalid_domain domain", "{domain:?}");
    }
    for (body, expected) in [
        (json!({}), "400 bad_request domain"),
        (json!({"domain": null}), "400 bad_request domain"),
        (json!({"domain": 1}), "400 bad_request domain"),
        (json!({"domain": "go.example.com", "role": "owner"}), "400 invalid_role role"),
        (json!({"domain": "go.example.com", "role": "Primary"}), "400 invalid_role role"),
        (json!({"domain": "go.example.com", "role": 1}), "400 bad_request role"),
        (json!({"domain": "inks.example.com"}), "201"),
        (json!({"domain": "xlinks.example.com", "role": null}), "201"),
        // A look-alike in another script is another name.
        (json!({"domain": "ex\u{430}mple.com"}), "201"),
        (json!({"domain": "example.com"}), "201"),
        (json!({"domain": "b\u{fc}cher.example.com"}), "201"),
        (json!({"domain": "xn--bcher-kva.example.com"}), "409 domain_taken domain"),
    ] {
        assert_eq!(create(body.clone()).await, expected, "{body}");
    }
}

/// X10: what only DNS can prove cannot be set by a body.
#[tokio::test]
async fn x10_a_claim_cannot_call_itself_verified() {
    let world = spawn().await;
    let body = json!({
        "domain": "go.example.com", "verified": true, "verified_at": 1, "verification_token": "x", "id": "x",
        "tenant_id": world.b.tenant.as_str(), "created_at": "2020-01-01T00:00:00Z",
    });
    let claimed = world.a.post("/v1/domains", &body).await;
    assert_eq!((claimed.status, &claimed.json()["verified"]), (201, &json!(false)));
    assert_ne!(claimed.member("verification_token"), "x");
    assert_eq!(names(&world.a).await, ["go.example.com"]);
    assert_eq!(world.a.get("/v1/domains").await.json()[0]["created_at"], "2026-11-20T09:30:00.010Z");
}

#[tokio::test]
async fn a_name_is_taken_by_the_same_account_twice_or_by_whoever_verified_it() {
    let world = spawn().await;
    let create = async |caller: &deeplink_testing::Caller, domain: &str| {
        caller.post("/v1/domains", &json!({"domain": domain})).await.outcome()
    };
    assert_eq!(create(&world.a, "go.example.com").await, "201");
    for again in ["go.example.com", "GO.example.com", "go.example.com.", "\u{ff47}o.example.com"] {
        assert_eq!(create(&world.a, again).await, "409 domain_taken domain", "{again}");
    }
    assert_eq!(create(&world.b, "go.example.com").await, "201", "a claim does not block others");
    world.own_domain(&world.a, "own.example.com", Role::Primary).await;
    assert_eq!(create(&world.b, "own.example.com").await, "409 domain_taken domain");
    assert_eq!(create(&world.b, "below.own.example.com").await, "201");
    assert_eq!((counted(&world, &world.a).await, counted(&world, &world.b).await), (2, 2));
}

#[tokio::test]
async fn there_is_one_verified_alternate() {
    let world = spawn().await;
    let waiting = world.claim_domain(&world.a, "waits.example.com", Role::Alternate).await;
    world.own_domain(&world.a, "open.example.com", Role::Alternate).await;
    let second = json!({"domain": "other.example.com", "role": "alternate"});
    assert_eq!(world.a.post("/v1/domains", &second).await.outcome(), "409 alternate_limit role");
    assert_eq!(counted(&world, &world.a).await, 2, "a refusal is not counted");
    world.dns.txt(&proof_of("waits.example.com"), &[&waiting]);
    let refused = world.a.post_nothing("/v1/domains/waits.example.com/verify").await;
    assert_eq!(refused.outcome(), "409 alternate_limit role");
    assert_eq!(world.b.post("/v1/domains", &second).await.status, 201, "each account has its own");
    assert_eq!(world.a.delete("/v1/domains/open.example.com").await.status, 204);
    assert_eq!(verify(&world.a, "waits.example.com").await["verified"], true);
}

/// D7: escapes, case, the final dot and both forms of an international name mean one domain.
#[tokio::test]
async fn d7_path_forms_meet_one_row() {
    let world = spawn().await;
    for (domain, form) in [
        ("go.example.com", "go.example.com"),
        ("go.example.com", "GO.Example.COM"),
        ("go.example.com", "go.example.com."),
        ("go.example.com", "go%2eexample%2Ecom"),
        ("go.example.com", "%67o.example.com"),
        ("xn--bcher-kva.example.com", "b%C3%BCcher.example.com"),
        ("xn--bcher-kva.example.com", "XN--BCHER-KVA.example.com"),
        ("b\u{fc}cher.example.com", "xn--bcher-kva.example.com"),
    ] {
        world.claim_domain(&world.a, domain, Role::Primary).await;
        assert_eq!(verify(&world.a, form).await["verified"], false, "{form}");
        assert_eq!(world.a.delete(&format!("/v1/domains/{form}")).await.status, 204, "{form}");
        assert_eq!(world.a.delete(&format!("/v1/domains/{form}")).await.outcome(), "404 not_found", "{form}");
        assert_eq!(counted(&world, &world.a).await, 0);
    }
    world.claim_domain(&world.a, "go.example.com", Role::Primary).await;
    for none in ["go.example.com..", "go%252eexample.com", "go.example.com%00", "%ff", "go", "x", "go.example.com%2Fx"]
    {
        assert_eq!(world.a.delete(&format!("/v1/domains/{none}")).await.outcome(), "404 not_found", "{none}");
        let refused = world.a.post_nothing(&format!("/v1/domains/{none}/verify")).await;
        assert_eq!(refused.outcome(), "404 not_found", "{none}");
    }
    assert_eq!(names(&world.a).await, ["go.example.com"]);
}

/// D6: a claim that is made again has a new token, and the old proof is invalid.
#[tokio::test]
async fn d6_adding_again_makes_a_new_token() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    assert_eq!(world.a.delete("/v1/domains/go.example.com").await.status, 204);
    let token = world.claim_domain(&world.a, "go.example.com", Role::Primary).await;
    let refused = verify(&world.a, "go.example.com").await;
    assert_eq!((&refused["verified"], refused["txt_found"].as_array().map(Vec::len)), (&json!(false), Some(1)));
    assert_eq!(refused["reason"], "no TXT value at _deeplink-verify.go.example.com is the verification token");
    world.dns.txt(&proof_of("go.example.com"), &[&token]);
    assert_eq!(verify(&world.a, "go.example.com").await["verified"], true);
}

#[tokio::test]
async fn repeats_with_an_idempotency_key_give_the_first_reply() {
    let world = spawn().await;
    let create = async |body: &Value| {
        let ask = world.a.ask(Method::POST, "/v1/domains").header("idempotency-key", "claim-1");
        ask.json(body).send().await
    };
    let body = json!({"domain": "go.example.com"});
    let (first, again) = (create(&body).await, create(&body).await);
    assert_eq!((first.status, &first.body), (201, &again.body));
    assert_eq!(
        (again.header("idempotency-replayed"), again.header("location")),
        ("true", "/v1/domains/go.example.com")
    );
    let other = create(&json!({"domain": "other.example.com"})).await;
    assert_eq!(other.outcome(), "409 idempotency_conflict Idempotency-Key");
    assert_eq!(counted(&world, &world.a).await, 1);

    let verify = async |key: &str| {
        let ask = world.a.ask(Method::POST, "/v1/domains/go.example.com/verify").header("idempotency-key", key);
        ask.send().await
    };
    let first = verify("look-1").await;
    assert_eq!((first.status, &first.json()["verified"]), (200, &json!(false)));
    world.dns.txt(&proof_of("go.example.com"), &[&create(&body).await.member("verification_token")]);
    let again = verify("look-1").await;
    assert_eq!((&again.body, again.header("idempotency-replayed")), (&first.body, "true"));
    assert_eq!(names(&world.a).await, ["go.example.com"], "a repeat does nothing");
    assert_eq!(verify("look-2").await.json()["verified"], true);
    assert_eq!(verify(&"x".repeat(256)).await.outcome(), "400 bad_request Idempotency-Key");
}

/// U2: where plans limit, the count moves with the rows.
#[tokio::test]
async fn u2_a_plan_includes_so_many_domains() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let create = async |domain: &str| world.a.post("/v1/domains", &json!({"domain": domain})).await;
    assert_eq!(create("one.example.com").await.status, 201);
    let over = create("two.example.com").await;
    assert_eq!(over.outcome(), "402 quota_exceeded");
    let said = over.json();
    assert_eq!((&said["resource"], &said["limit"], &said["current"]), (&json!("domains"), &json!(1), &json!(1)));
    assert_eq!(world.a.delete("/v1/domains/one.example.com").await.status, 204);
    assert_eq!(world.a.delete("/v1/domains/one.example.com").await.status, 404, "a missing domain is not counted");
    assert_eq!(create("two.example.com").await.status, 201);
    // Another tenant proves it: the claim ends, and its place is free.
    world.own_domain(&world.b, "two.example.com", Role::Primary).await;
    assert_eq!(counted(&world, &world.a).await, 0);
    assert_eq!(create("three.example.com").await.status, 201);
    world.db.execute(format!("UPDATE tenants SET plan_tier = 'scale' WHERE id = '{}'", world.a.tenant)).await;
    for number in 0..30 {
        assert_eq!(create(&format!("n{number}.example.com")).await.status, 201, "without limit");
    }
    assert_eq!(counted(&world, &world.a).await, 31);
}
