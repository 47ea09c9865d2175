//! Who may call: keys, invalid credentials, affiliates and their scope.

use std::time::{Duration, Instant};

use deeplink_core::secret::{Random, SecretKey};
use http::Method;
use serde_json::json;

use deeplink_testing::{Ask, World, eventually, spawn, spawn_nodes};

fn unknown_key() -> String {
    SecretKey::generate(&mut Random::system()).expose().to_owned()
}

/// Removes a key as the operation that revokes it will.
async fn revoke(world: &World, key: &str) {
    let hash = SecretKey::new(key).hash();
    world.db.execute(format!("DELETE FROM secret_keys WHERE key_hash = '{hash}'")).await;
}

/// Every route that takes a key, with a request that would otherwise succeed.
fn protected(world: &World) -> Vec<Ask> {
    let ask = |method, path: &str| world.nobody.ask(method, path);
    vec![
        ask(Method::GET, "/v1/links"),
        ask(Method::POST, "/v1/links").json(&json!({})),
        ask(Method::POST, "/v1/links/bulk").json(&json!({"template": {}, "count": 1})),
        ask(Method::GET, "/v1/links/spring-42"),
        ask(Method::PUT, "/v1/links/spring-42").json(&json!({"web_url": "https://example.com/"})),
        ask(Method::GET, "/v1/links/spring-42/timeseries"),
        ask(Method::DELETE, "/v1/links/spring-42"),
        ask(Method::GET, "/v1/auth/secret-keys"),
        ask(Method::GET, "/v1/auth/publishable-keys"),
        ask(Method::GET, "/v1/affiliates"),
        ask(Method::GET, "/v1/apps"),
        ask(Method::GET, "/v1/domains"),
    ]
}

/// X4: a credential that is present but invalid is refused at once; there is no fallback to a weaker one, and
/// `Authorization` outranks a cookie and a payment.
#[tokio::test]
async fn x4_a_bad_credential_is_never_passed_over() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let (good, bad) = (world.a.key().expect("a key").to_owned(), unknown_key());
    let keys = [None, Some(&bad), Some(&good)];
    for header in keys {
        for cookie in keys {
            for payment in keys {
                for query in keys {
                    let expected = match header {
                        None => "401 unauthorized",
                        Some(key) if *key == bad => "401 invalid_key",
                        Some(_) => "200",
                    };
                    let query = query.map_or(String::new(), |key| format!("?key={key}"));
                    let mut ask = world.nobody.ask(Method::GET, &format!("/v1/links{query}"));
                    if let Some(key) = header {
                        ask = ask.bearer(key);
                    }
                    if let Some(key) = cookie {
                        ask = ask.header("cookie", format!("session_token={key}"));
                    }
                    if let Some(key) = payment {
                        ask = ask.header("x-payment", key).header("payment-signature", key);
                    }
                    assert_eq!(ask.send().await.outcome(), expected, "{header:?} {cookie:?} {payment:?} {query}");
                }
            }
        }
    }
    for ask in protected(&world) {
        assert_eq!(ask.clone().send().await.outcome(), "401 unauthorized");
        assert_eq!(ask.clone().bearer(&bad).send().await.outcome(), "401 invalid_key");
        let forms = [
            format!("Basic {good}"),
            good.clone(),
            format!("Bearer{good}"),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            format!("Bearer {good} {good}"),
            format!("Bearer {good},"),
            format!("Bearer \"{good}\""),
            format!("Bearer {}", good.to_uppercase()),
            format!("Bearer {}", &good[..55]),
            format!("Bearer {good}0"),
            format!("Bearer pk_live_{}", &good[8..]),
            format!("Bearer {}", "x".repeat(8_000)),
            "Bearer ü".to_owned(),
        ];
        for form in forms {
            let reply = ask.clone().header("authorization", &form).send().await;
            assert_eq!(reply.outcome(), "401 invalid_key", "{form}");
        }
        let twice = ask.clone().bearer(&good).bearer(&good).send().await;
        assert_eq!(twice.outcome(), "401 invalid_key", "two credentials count as none");
    }
    for ask in protected(&world) {
        let reply = ask.header("authorization", format!("bEaReR   {good} ")).send().await;
        assert!(reply.status < 300, "{}", reply.text());
    }
}

/// X4: operations that take keys check only the key, and operations that take sessions only the session: neither
/// replaces the other, and a key sent to a session's operation is refused even if it is valid.
#[tokio::test]
async fn x4_a_key_outranks_a_session_and_neither_stands_for_the_other() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let session = world.session_of(&world.a).await;
    let (good_key, bad_key, bad_session) = (world.a.key().expect("a key").to_owned(), unknown_key(), "0".repeat(64));
    let mut asks: Vec<_> = protected(&world).into_iter().map(|ask| (ask, false)).collect();
    let issue = world.nobody.ask(Method::POST, "/v1/auth/secret-keys/issue").header("idempotency-key", "one");
    asks.push((issue.body("{}"), true));
    assert!(asks.len() >= 10);
    for (ask, takes_session) in asks {
        // The good pair comes last, because one of the routes deletes its link.
        for key in [None, Some(&bad_key), Some(&good_key)] {
            for cookie in [None, Some(&bad_session), Some(&session)] {
                let expected = match (takes_session, key, cookie) {
                    (_, Some(key), _) if *key == bad_key => Some("401 invalid_key"),
                    (true, Some(_), _) => Some("401 invalid_key"),
                    (true, None, Some(cookie)) if *cookie == session => None,
                    (false, Some(_), _) => None,
                    _ => Some("401 unauthorized"),
                };
                let ask = key.iter().fold(ask.clone(), |ask, key| ask.bearer(key));
                let ask = cookie.iter().fold(ask, |ask, cookie| ask.session(cookie));
                let reply = ask.send().await;
                match expected {
                    Some(expected) => assert_eq!(reply.outcome(), expected, "{key:?} {cookie:?}"),
                    None => assert!(!matches!(reply.status, 401 | 403), "{key:?} {cookie:?} {}", reply.outcome()),
                }
            }
        }
    }
}

/// X5: unknown and revoked keys answer alike, to the byte but for the request id, and take the same time.
#[tokio::test]
async fn x5_unknown_and_revoked_keys_answer_alike() {
    let world = spawn().await;
    let revoked = world.a1.key().expect("a key").to_owned();
    assert_eq!(world.a1.get("/v1/links").await.status, 200);
    revoke(&world, &revoked).await;
    eventually("the key is revoked", Duration::from_secs(5), || async {
        world.a1.get("/v1/links").await.status == 401
    })
    .await;
    let unknown = world.somebody_with(&unknown_key());
    let (one, other) = (unknown.get("/v1/links").await, world.a1.get("/v1/links").await);
    assert_eq!(one.outcome(), "401 invalid_key");
    assert_eq!(one.without_request_id(), other.without_request_id());

    // A busy machine may shift the medians of a round; a difference in the service would shift those of every round.
    let mut gaps = Vec::new();
    while gaps.last().is_none_or(|gap| *gap >= Duration::from_millis(1)) {
        assert!(gaps.len() < 5, "{gaps:?}");
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..1_000 {
            for (caller, times) in [&unknown, &world.a1].into_iter().zip(&mut times) {
                let began = Instant::now();
                caller.get("/v1/links").await;
                times.push(began.elapsed());
            }
        }
        let [unknown, revoked] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2]
        });
        gaps.push(unknown.abs_diff(revoked));
    }
}

#[tokio::test]
async fn what_a_public_route_is_sent_as_credential_does_not_matter() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for path in ["/health", "/ready", "/openapi.json", "/llms.txt", "/r/spring-42"] {
        for authorization in ["Bearer nonsense", "Basic eDp5", "Bearer", "x"] {
            let reply = world.nobody.ask(Method::GET, path).header("authorization", authorization).send().await;
            assert!(matches!(reply.status, 200 | 302), "{path} {}", reply.outcome());
        }
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_within_five_seconds() {
    let world = spawn().await;
    assert_eq!(world.b1.get("/v1/links").await.status, 200);
    revoke(&world, world.b1.key().expect("a key")).await;
    eventually("the key is refused", Duration::from_secs(5), || async {
        world.b1.get("/v1/links").await.status == 401
    })
    .await;
    assert_eq!(world.b.get("/v1/links").await.status, 200, "other keys still work");
}

/// I8: an affiliate's key makes links for its affiliate only, and what it may not do is refused before any lookup.
#[tokio::test]
async fn i8_affiliates_are_held_to_their_scope() {
    let world = spawn().await;
    let (one, two) = (world.a1.affiliate_id(), world.a2.affiliate_id());
    let create = async |body: serde_json::Value| world.a1.post("/v1/links", &body).await;
    for body in [
        json!({"custom_id": "none-named"}),
        json!({"custom_id": "same-named", "affiliate_id": one}),
        json!({"custom_id": "null-named", "affiliate_id": null}),
    ] {
        let id = create(body).await.member("link_id");
        assert_eq!(world.a.get(&format!("/v1/links/{id}")).await.member("affiliate_id"), one, "pinned: {id}");
    }
    for other in [two, world.b1.affiliate_id(), "aff_0123456789abcdef01234567"] {
        let outcome = create(json!({"affiliate_id": other})).await.outcome();
        assert_eq!(outcome, "400 affiliate_scope_mismatch affiliate_id", "{other}");
    }
    world.a.make("plain").await;
    world.a2.make("of-two").await;
    for (id, status) in [("none-named", 200), ("plain", 404), ("of-two", 404), ("nowhere", 404)] {
        assert_eq!(world.a1.get(&format!("/v1/links/{id}")).await.status, status, "{id}");
    }
    // Before any lookup: existing, missing and impossible ids are refused alike.
    for id in ["none-named", "plain", "nowhere", "x"] {
        for (method, path) in [
            (Method::PUT, format!("/v1/links/{id}")),
            (Method::DELETE, format!("/v1/links/{id}")),
            (Method::GET, format!("/v1/links/{id}/timeseries")),
        ] {
            let reply = world.a1.ask(method.clone(), &path).body("{").send().await;
            assert_eq!(reply.outcome(), "403 forbidden_scope", "{method} {path}");
        }
    }
}

/// I8: the keys of an affiliate that is disabled or deleted are refused, on this node at once and elsewhere within 5 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i8_a_disabled_affiliates_keys_are_dead() {
    let world = spawn_nodes(2).await;
    let path = format!("/v1/affiliates/{}", world.a1.affiliate_id());
    let made = world.a.post_nothing(&format!("{path}/credentials")).await.member("api_key");
    let keys = [world.a1.clone(), world.somebody_with(&made)];
    let status = async |word| world.a.ask(Method::PATCH, &path).json(&json!({"status": word})).send().await.status;
    let outcomes = async |node: usize| {
        [world.at(node, &keys[0]).get("/v1/links").await.status, world.at(node, &keys[1]).get("/v1/links").await.status]
    };
    let soon = Duration::from_secs(5);
    for _ in 0..2 {
        assert_eq!((outcomes(0).await, outcomes(1).await), ([200; 2], [200; 2]));
        assert_eq!(status("disabled").await, 200);
        assert_eq!(outcomes(0).await, [401; 2], "at once");
        assert_eq!(keys[0].get("/v1/links").await.outcome(), "401 invalid_key");
        eventually("the other node refuses them", soon, async || outcomes(1).await == [401; 2]).await;
        assert_eq!(world.a2.get("/v1/links").await.status, 200, "the other affiliate's still work");
        assert_eq!(status("active").await, 200);
        assert_eq!(outcomes(0).await, [200; 2], "and work again");
        eventually("everywhere", soon, async || outcomes(1).await == [200; 2]).await;
    }
    assert_eq!(world.a.delete(&path).await.status, 204);
    assert_eq!(outcomes(0).await, [401; 2], "at once");
    eventually("the other node refuses them", soon, async || outcomes(1).await == [401; 2]).await;
}

/// The owner of a key is cached for seconds. Operations that create or end access look it up again once that can no
/// longer change: a key that was deleted meanwhile, as on another node, cannot invite a person or re-enable an
/// affiliate.
#[tokio::test]
async fn a_key_that_is_gone_changes_nothing_although_it_is_remembered() {
    let world = spawn().await;
    let affiliate = format!("/v1/affiliates/{}", world.a1.affiliate_id());
    let friend = world.join(&world.a, "friend@example.com").await;
    let hash = SecretKey::new(world.a.key().expect("a key")).hash();
    world.db.execute(format!("CREATE TABLE gone AS SELECT * FROM secret_keys WHERE key_hash = '{hash}'")).await;
    let ask = |method, path: &str| world.a.ask(method, path);
    for ask in [
        ask(Method::POST, "/v1/auth/users").json(&json!({"email": "late@example.com"})),
        ask(Method::DELETE, &format!("/v1/auth/users/{friend}")),
        ask(Method::POST, "/v1/auth/secret-keys").json(&json!({"email": "a@example.com"})),
        ask(Method::POST, "/v1/affiliates").json(&json!({"name": "Late", "partner_key": "late"})),
        ask(Method::PATCH, &affiliate).json(&json!({"status": "active"})),
        ask(Method::POST, &format!("{affiliate}/credentials")),
        ask(Method::DELETE, &affiliate),
    ] {
        assert_eq!(world.a.get("/v1/links").await.status, 200, "it is cached");
        world.db.execute(format!("DELETE FROM secret_keys WHERE key_hash = '{hash}'")).await;
        world.at_rest().await;
        let before = world.db.dump().await;
        assert_eq!(ask.send().await.outcome(), "401 invalid_key");
        assert_eq!(world.db.dump().await, before);
        world.db.execute("INSERT INTO secret_keys SELECT * FROM gone").await;
    }
}
