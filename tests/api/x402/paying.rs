//! Requirements, payments, and what is done for them.

use std::time::Duration;

use deeplink_core::error::ErrorBody;
use deeplink_core::x402::{ChallengeV2, PAID};
use http::Method;
use serde_json::{Value, json};

use super::{PRICE, Payer, Scene, Script, Signed, accepted, calls, receipt, scene, scene_of, scene_with};
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::facilitator::{ASSET, NETWORK, NETWORK_V1, PAY_TO, decoded};
use deeplink_testing::{Reply, at_once, eventually, operations};

/// PX1: without a credential an operation that can be paid for answers 402 with the operator's requirements in both
/// versions, in an error object; all others answer 401 as before. A cookie is no credential here.
#[tokio::test]
async fn px1_without_a_credential_a_request_is_told_what_it_costs() {
    let scene = scene().await;
    for operation in operations::all() {
        let is_paid = PAID.iter().any(|paid| paid.route.operation == operation.id);
        let path = operation.at("nowhere");
        let reply = scene.world.nobody.ask(operation.method.clone(), &path).session("0").send().await;
        if !is_paid {
            assert_ne!(reply.status, 402, "{}", operation.id);
            continue;
        }
        assert_eq!(reply.outcome(), "402 payment_required", "{}", operation.id);
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        let url = format!("{}{path}", scene.world.nobody.base());
        let challenge = decoded(reply.header("payment-required"));
        assert_eq!(challenge["x402Version"], 2);
        assert_eq!(challenge["accepts"], json!([accepted()]), "{}", operation.id);
        assert_eq!(challenge["resource"]["url"], url);
        let _: ChallengeV2 = serde_json::from_value(challenge).expect("a challenge");
        let body = reply.json();
        assert_eq!((&body["x402Version"], body["accepts"].as_array().map(Vec::len)), (&json!(1), Some(1)));
        let v1 = &body["accepts"][0];
        for (field, value) in [
            ("scheme", json!("exact")),
            ("network", json!(NETWORK_V1)),
            ("maxAmountRequired", json!(PRICE)),
            ("asset", json!(ASSET)),
            ("payTo", json!(PAY_TO)),
            ("resource", json!(url)),
            ("maxTimeoutSeconds", json!(600)),
            ("extra", json!({"name": "USDC", "version": "2"})),
        ] {
            assert_eq!(v1[field], value, "{} {field}", operation.id);
        }
        let record: ErrorBody = serde_json::from_value(body).expect("an error object");
        assert_eq!(record.accepts.len(), 1);
    }
    assert_eq!(scene.facilitator.calls(), calls(0, 0, 0));
}

/// PX1: each operation has its own price, or none and then takes keys only.
#[tokio::test]
async fn px1_each_operation_has_its_price() {
    let scene = scene_with(|config| {
        let prices = &mut config.x402.as_mut().expect("x402").prices;
        prices.insert("create_link", "25000".to_owned());
        prices.remove("list_links");
    })
    .await;
    let nobody = &scene.world.nobody;
    let asked = nobody.post("/v1/links", &json!({})).await;
    assert_eq!(decoded(asked.header("payment-required"))["accepts"][0]["amount"], "25000");
    assert_eq!(nobody.get("/v1/links").await.outcome(), "401 unauthorized");
    let asked = nobody.get("/v1/apps").await;
    assert_eq!(decoded(asked.header("payment-required"))["accepts"][0]["amount"], PRICE);
    let cheap = scene.post("/v1/links", &json!({}), &scene.sign(&Payer::new("alice"))).await;
    assert_eq!(cheap.outcome(), "402 payment_required");
}

/// PX1: while the facilitator does not support the requirement, only keys are accepted; it is asked again after ten
/// seconds. A version that it does not settle is not offered.
#[tokio::test]
async fn px1_only_what_the_facilitator_settles_is_offered() {
    let facilitator = super::Facilitator::start().await;
    facilitator.settles(vec![json!({"x402Version": 2, "scheme": "exact", "network": "eip155:8453"})]);
    let world = deeplink_testing::spawn_with(|config| {
        config.x402 = Some(deeplink_server::config::X402::new(facilitator.base(), PAY_TO, PRICE));
    })
    .await;
    assert_eq!(world.nobody.get("/v1/links").await.outcome(), "401 unauthorized");
    let of = |version: u64, network: &str| json!({"x402Version": version, "scheme": "exact", "network": network, "extra": {"feePayer": "somebody"}});
    facilitator.settles(vec![of(1, "base-sepolia")]);
    assert_eq!(world.nobody.get("/v1/links").await.outcome(), "401 unauthorized");
    assert_eq!(facilitator.asked(), 1, "requests do not ask");
    let offered = async |answer: &str| {
        eventually(answer, PATIENCE, async || world.nobody.get("/v1/links").await.outcome() == answer).await;
    };
    world.clock.advance(Duration::from_secs(11));
    offered("402 payment_required").await;
    let asked = world.nobody.get("/v1/links").await;
    assert_eq!(asked.header("payment-required"), "");
    let extra = &asked.json()["accepts"][0]["extra"];
    assert_eq!(*extra, json!({"feePayer": "somebody", "name": "USDC", "version": "2"}));
    // Until it supports either version it is asked every ten seconds, and then every ten minutes.
    facilitator.settles(vec![of(1, "base-sepolia"), of(2, NETWORK)]);
    world.clock.advance(Duration::from_secs(601));
    eventually("both versions", PATIENCE, async || {
        !world.nobody.get("/v1/links").await.header("payment-required").is_empty()
    })
    .await;
    facilitator.is_down(true);
    world.clock.advance(Duration::from_secs(601));
    let before = facilitator.asked();
    eventually("it is asked", PATIENCE, async || facilitator.asked() > before).await;
    assert_eq!(world.nobody.get("/v1/links").await.outcome(), "402 payment_required", "its last answer still applies");
    facilitator.is_down(false);
    facilitator.settles(vec![]);
    world.clock.advance(Duration::from_secs(601));
    offered("401 unauthorized").await;
}

/// PX2: by either version: the link is made, the answer has a receipt, the payment is verified and settled once, with
/// our requirement; the link is the wallet's, and expires like any without a domain.
#[tokio::test]
async fn px2_a_paid_request_is_done_once_for_its_wallet() {
    let scene = scene().await;
    for (version, receipt_header) in [(1, "x-payment-response"), (2, "payment-response")] {
        scene.facilitator.forget_calls();
        let payer = Payer::new(&format!("payer of version {version}"));
        let signed = scene.sign(&payer);
        let (name, value) = if version == 1 { signed.v1() } else { signed.v2() };
        let body = json!({"custom_id": format!("paid-{version}"), "web_url": "https://example.com/paid"});
        let made = scene.world.nobody.ask(Method::POST, "/v1/links").header(name, value).json(&body).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        assert!(made.json()["expires_at"].is_string());
        let receipt = decoded(made.header(receipt_header));
        assert_eq!((&receipt["success"], &receipt["payer"]), (&json!(true), &json!(payer.address())));
        assert_eq!(receipt["network"], if version == 1 { "base-sepolia" } else { "eip155:84532" });
        assert!(receipt["transaction"].as_str().is_some_and(|hash| hash.starts_with("0x")), "{receipt}");
        assert_eq!(scene.facilitator.calls(), calls(1, 1, 1));
        let message = scene.facilitator.messages().pop().expect("a message");
        assert_eq!(message["paymentPayload"]["payload"], signed.payload);
        let shown = scene.get(&format!("/v1/links/paid-{version}"), &scene.sign(&payer)).await;
        assert_eq!((shown.status, shown.member("web_url")), (200, "https://example.com/paid".to_owned()));
        assert_eq!(scene.world.nobody.tap(&format!("paid-{version}")).await.status, 302);
    }
    assert_eq!(scene.states().await, ["done"; 4]);
    assert_eq!(scene.wallets().await, 2);
    let opened = "SELECT CAST(COUNT(*) AS BIGINT) FROM audit_log l JOIN wallets w ON w.address = l.actor
        WHERE l.action = 'account.created' AND l.actor_type = 'wallet' AND l.tenant_id = w.tenant_id";
    assert_eq!(scene.world.db.number(opened).await, 2);
}

fn is_success(reply: &Reply) -> bool {
    (200..300).contains(&reply.status)
}

/// PX4: of fifty requests with one authorization, in both versions and on two nodes, one is done and settled; the
/// others get its answer or are told to retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px4_one_payment_does_one_thing() {
    for nodes in [1, 2] {
        let scene = scene_of(nodes, |_| {}).await;
        let payer = Payer::new("alice");
        let signed = scene.sign(&payer);
        let callers = [0, 1].map(|at| scene.world.at(at.min(nodes - 1), &scene.world.nobody));
        let replies = at_once(50, |number| {
            let caller = callers[number % 2].clone();
            let (name, value) = if number % 4 < 2 { signed.v1() } else { signed.v2() };
            async move { caller.ask(Method::POST, "/v1/links").header(name, value).json(&json!({})).send().await }
        })
        .await;
        let made: Vec<Value> = replies.iter().filter(|reply| is_success(reply)).map(Reply::json).collect();
        assert!(!made.is_empty() && made.iter().all(|one| *one == made[0]), "{made:?}");
        for reply in replies.iter().filter(|reply| !is_success(reply)) {
            assert_eq!(reply.outcome(), "409 payment_in_progress");
            assert_eq!(reply.header("retry-after"), "1");
        }
        let settled = scene.facilitator.calls();
        assert_eq!((settled.settle, settled.moved, scene.links().await), (1, 1, 1), "{nodes} nodes");
        let again = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!((again.status, again.json()), (201, made[0].clone()));
        assert_eq!(again.header("idempotency-replayed"), "true");
        assert_eq!(receipt(&again)["success"], true);
        assert_eq!(scene.facilitator.calls().settle, 1);
    }
}

/// Sends fifty concurrent copies of a paid request, in both versions and to both nodes.
async fn copies(scene: &Scene, method: &Method, path: &str, body: &Value, signed: &Signed, nodes: usize) -> Vec<Reply> {
    let callers = [0, 1].map(|at| scene.world.at(at.min(nodes - 1), &scene.world.nobody));
    at_once(50, |number| {
        let caller = callers[number % 2].clone();
        let (name, value) = if number % 4 < 2 { signed.v1() } else { signed.v2() };
        let ask = caller.ask(method.clone(), path).header(name, value);
        let ask = if body.is_null() { ask } else { ask.json(body) };
        ask.send()
    })
    .await
}

/// PX4: a late copy is not refused because of the payment's own effects: an id that is taken by now, or a deleted link.
/// Copies of a new wallet's payment count as one new wallet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px4_a_late_copy_is_not_refused() {
    for nodes in [1, 2] {
        let scene = scene_of(nodes, |config| config.limits.wallets_per_hour = 20).await;
        let payer = Payer::new("alice");
        for (method, path, body, status) in [
            (Method::POST, "/v1/links", json!({"custom_id": "wanted"}), 201),
            (Method::DELETE, "/v1/links/wanted", Value::Null, 204),
        ] {
            scene.facilitator.forget_calls();
            let signed = scene.sign(&payer);
            let replies = copies(&scene, &method, path, &body, &signed, nodes).await;
            for reply in &replies {
                let is_done = reply.status == status;
                assert!(is_done || reply.outcome() == "409 payment_in_progress", "{method}: {}", reply.text());
            }
            assert!(replies.iter().any(|reply| reply.status == status), "{method}");
            let settled = scene.facilitator.calls();
            assert_eq!((settled.settle, settled.moved), (1, 1), "{method}");
        }
        assert_eq!((scene.links().await, scene.wallets().await), (0, 1));
    }
}

/// PX4: two concurrent payments of a new wallet are both done, for one account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px4_a_new_wallet_has_one_account() {
    let scene = scene_of(2, |_| {}).await;
    let payer = Payer::new("alice");
    let signed: Vec<_> = (0..10).map(|_| scene.sign(&payer)).collect();
    let callers = [0, 1].map(|at| scene.world.at(at, &scene.world.nobody));
    let replies = at_once(signed.len(), |number| {
        let (caller, (name, value)) = (callers[number % 2].clone(), signed[number].v2());
        async move { caller.ask(Method::POST, "/v1/links").header(name, value).json(&json!({})).send().await }
    })
    .await;
    for reply in &replies {
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    assert_eq!((scene.wallets().await, scene.links().await), (1, 10));
    let listed = scene.get("/v1/links", &scene.sign(&payer)).await;
    assert_eq!(listed.json()["links"].as_array().map(Vec::len), Some(10));
}

const ACCOUNTS: &str = "SELECT CAST(count(*) AS BIGINT) FROM tenants";

/// PX4: the same if both are settled before either is done: no account is left without a wallet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px4_a_new_wallet_leaves_no_other_account() {
    let scene = scene_of(2, |_| {}).await;
    let payer = Payer::new("alice");
    let before = scene.world.db.number(ACCOUNTS).await;
    let signed = [0, 1].map(|_| scene.scripted(&payer, Script::SettleWaits));
    let callers = [0, 1].map(|at| scene.world.at(at, &scene.world.nobody));
    let both = at_once(2, |number| {
        let (caller, (name, value)) = (callers[number].clone(), signed[number].v2());
        async move { caller.ask(Method::POST, "/v1/links").header(name, value).json(&json!({})).send().await }
    });
    let (replies, ()) = tokio::join!(both, async {
        eventually("both are settled", PATIENCE, async || scene.facilitator.calls().settle == 2).await;
        scene.facilitator.release_all(2).await;
    });
    for reply in &replies {
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    assert_eq!((scene.wallets().await, scene.links().await), (1, 2));
    assert_eq!(scene.world.db.number(ACCOUNTS).await, before + 1);
    let listed = scene.get("/v1/links", &scene.sign(&payer)).await;
    assert_eq!(listed.json()["links"].as_array().map(Vec::len), Some(2));
}

/// PX4: of several concurrent payments with one `Idempotency-Key`, as from a payer who timed out and signed again, one
/// is charged. The others are told to retry, and then get its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px4_one_payment_is_charged_under_a_key() {
    for nodes in [1, 2] {
        let scene = scene_of(nodes, |_| {}).await;
        let payer = Payer::new("alice");
        let signed: Vec<_> = (0..10).map(|_| scene.sign(&payer)).collect();
        let callers = [0, 1].map(|at| scene.world.at(at.min(nodes - 1), &scene.world.nobody));
        let replies = at_once(signed.len(), |number| {
            let (caller, (name, value)) = (callers[number % 2].clone(), signed[number].v2());
            let ask = caller.ask(Method::POST, "/v1/links").header(name, value).header("idempotency-key", "order-1");
            ask.json(&json!({})).send()
        })
        .await;
        let made: Vec<Value> = replies.iter().filter(|reply| is_success(reply)).map(Reply::json).collect();
        assert!(!made.is_empty() && made.iter().all(|one| *one == made[0]), "{made:?}");
        for reply in replies.iter().filter(|reply| !is_success(reply)) {
            assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("409 payment_in_progress", "1"));
        }
        for signed in &signed {
            let again = scene.post_keyed("/v1/links", &json!({}), signed, "order-1").await;
            assert_eq!((again.status, again.json()), (201, made[0].clone()));
        }
        let settled = scene.facilitator.calls();
        assert_eq!((settled.settle, settled.moved, scene.links().await), (1, 1, 1), "{nodes} nodes");
    }
}

/// PX4: the same while the first is in doubt. Another payer's key, or the same at another path, is independent.
#[tokio::test]
async fn px4_a_payment_in_doubt_keeps_its_key() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let first = scene.scripted(&payer, Script::SettleFails);
    let keyed = async |path: &str, signed: &Signed| {
        let body = json!({"template": {}, "count": 1});
        let body = if path == "/v1/links" { json!({}) } else { body };
        scene.post_keyed(path, &body, signed, "order-1").await
    };
    assert_eq!(keyed("/v1/links", &first).await.outcome(), "503 facilitator_unavailable");
    let second = scene.sign(&payer);
    let reply = keyed("/v1/links", &second).await;
    assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("409 payment_in_progress", "1"));
    assert_eq!(keyed("/v1/links", &scene.sign(&Payer::new("bob"))).await.status, 201);
    assert_eq!(keyed("/v1/links/bulk", &scene.sign(&payer)).await.status, 201);
    scene.facilitator.script(&first, None);
    let made = keyed("/v1/links", &first).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(keyed("/v1/links", &second).await.json(), made.json());
    assert_eq!(scene.facilitator.calls().moved, 3);
}

/// With a facilitator whose timeout lets a busy machine send everything.
async fn patient_scene() -> Scene {
    scene_with(|config| {
        let x402 = config.x402.as_mut().expect("x402");
        (x402.verify_timeout, x402.settle_timeout) = (2 * PATIENCE, 2 * PATIENCE);
    })
    .await
}

/// PX4: 80 payments are settled concurrently. One more is 503 and not charged, and works after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px4_no_more_than_80_payments_are_settled_at_once() {
    let scene = patient_scene().await;
    let signed: Vec<_> = (0..81).map(|number| scene.sign(&Payer::new(&format!("payer {number}")))).collect();
    let mut asking = Vec::new();
    // Verifying has fewer places.
    for wave in [0..40, 40..80] {
        let until = wave.end;
        for number in wave {
            scene.facilitator.script(&signed[number], Some(Script::SettleWaits));
            asking.push(tokio::spawn(scene.ask(Method::POST, "/v1/links", &signed[number]).json(&json!({})).send()));
        }
        eventually("they are settled", PATIENCE, async || scene.facilitator.calls().settle == until).await;
    }
    let last = scene.post("/v1/links", &json!({}), &signed[80]).await;
    assert_eq!(last.outcome(), "503 facilitator_unavailable");
    assert!(last.member("error").contains("nothing was charged"));
    scene.facilitator.release_all(80).await;
    for asking in asking {
        let made = asking.await.expect("a reply");
        assert_eq!(made.status, 201, "{}", made.text());
    }
    assert_eq!(scene.post("/v1/links", &json!({}), &signed[80]).await.status, 201);
    assert_eq!((scene.facilitator.calls().moved, scene.links().await, scene.wallets().await), (81, 81, 81));
}

/// PX4: payments that are only verified leave places for those that are settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px4_what_is_not_paid_crowds_nobody_out() {
    let scene = patient_scene().await;
    let payer = Payer::new("alice");
    let unclear = scene.scripted(&payer, Script::SettleFails);
    assert_eq!(scene.post("/v1/links", &json!({}), &unclear).await.outcome(), "503 facilitator_unavailable");
    scene.facilitator.script(&unclear, None);
    let asking: Vec<_> = (0..64)
        .map(|_| {
            let signed = scene.scripted(&payer, Script::VerifyHangs);
            tokio::spawn(scene.ask(Method::GET, "/v1/links", &signed).send())
        })
        .collect();
    eventually("all hang", PATIENCE, async || scene.facilitator.calls().verify == 65).await;
    assert_eq!(scene.get("/v1/links", &scene.sign(&payer)).await.outcome(), "503 facilitator_unavailable");
    assert_eq!(scene.post("/v1/links", &json!({}), &unclear).await.status, 201);
    for asking in asking {
        asking.abort();
    }
}

/// PX11: wallets and accounts with keys are isolated from each other.
#[tokio::test]
async fn px11_wallets_see_their_own_things_only() {
    let scene = scene().await;
    let [alice, bob] = ["alice", "bob"].map(Payer::new);
    scene.world.a.make("of-a").await;
    scene.make(&alice, "of-alice").await;
    scene.make(&bob, "of-bob").await;
    for (payer, own, foreign) in [(&alice, "of-alice", ["of-bob", "of-a"]), (&bob, "of-bob", ["of-alice", "of-a"])] {
        let settled = scene.facilitator.calls().settle;
        for id in foreign {
            let payment = scene.sign(payer);
            let path = format!("/v1/links/{id}");
            assert_eq!(scene.get(&path, &payment).await.outcome(), "404 not_found");
            assert_eq!(scene.ask(Method::DELETE, &path, &payment).send().await.outcome(), "404 not_found");
            let change = scene.ask(Method::PUT, &path, &payment).json(&json!({"web_url": null})).send().await;
            assert_eq!(change.outcome(), "404 not_found");
        }
        assert_eq!(scene.facilitator.calls().settle, settled, "a missing link costs nothing");
        let listed = scene.get("/v1/links", &scene.sign(payer)).await.json();
        let ids: Vec<_> = listed["links"].as_array().expect("links").iter().map(|link| &link["link_id"]).collect();
        assert_eq!(ids, [own]);
    }
    for id in ["of-alice", "of-bob"] {
        assert_eq!(scene.world.a.get(&format!("/v1/links/{id}")).await.outcome(), "404 not_found");
        assert_eq!(scene.world.a.delete(&format!("/v1/links/{id}")).await.outcome(), "404 not_found");
    }
    assert_eq!(scene.world.a.get("/v1/links").await.json()["links"].as_array().map(Vec::len), Some(1));
}

/// PX11: one wallet's objects look missing to another one in every operation, and those requests cost nothing.
#[tokio::test]
async fn px11_another_wallets_things_are_not_there() {
    let scene = scene().await;
    let [alice, bob] = ["alice", "bob"].map(Payer::new);
    let made = async |path: &str, body: Value| {
        let made = scene.post(path, &body, &scene.sign(&alice)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made
    };
    let app = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    let app = made("/v1/apps", app).await.member("id");
    made("/v1/domains", json!({"domain": "alice.example.com"})).await;
    let source = made("/v1/sources", json!({"name": "Shop", "source_type": "custom"})).await.member("id");
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["conversion"]});
    let webhook = made("/v1/webhooks", webhook).await.member("id");
    let of_webhook = |rest: &str| format!("/v1/webhooks/{webhook}{rest}");
    let delivery = scene.post(&of_webhook("/test"), &json!({}), &scene.sign(&alice)).await.member("id");
    let before = scene.facilitator.calls().settle;
    for (method, path, body) in [
        (Method::DELETE, format!("/v1/apps/{app}"), None),
        (Method::POST, "/v1/domains/alice.example.com/verify".to_owned(), None),
        (Method::DELETE, "/v1/domains/alice.example.com".to_owned(), None),
        (Method::GET, format!("/v1/sources/{source}"), None),
        (Method::DELETE, format!("/v1/sources/{source}"), None),
        (Method::PATCH, of_webhook(""), Some(json!({"events": ["click"]}))),
        (Method::POST, of_webhook("/rotate-secret"), None),
        (Method::POST, of_webhook("/test"), Some(json!({}))),
        (Method::GET, of_webhook("/deliveries"), None),
        (Method::POST, of_webhook(&format!("/deliveries/{delivery}/replay")), None),
        (Method::DELETE, of_webhook(""), None),
    ] {
        let ask = scene.ask(method.clone(), &path, &scene.sign(&bob));
        let reply = match body {
            Some(body) => ask.json(&body).send().await,
            None => ask.send().await,
        };
        assert_eq!(reply.outcome(), "404 not_found", "{method} {path}");
        assert_eq!(reply.header("payment-response"), "", "{method} {path}");
    }
    assert_eq!((scene.facilitator.calls().settle, scene.wallets().await), (before, 1));
    for path in ["apps", "domains", "sources", "webhooks"] {
        let listed = scene.get(&format!("/v1/{path}"), &scene.sign(&bob)).await.json();
        assert_eq!(listed.get(path).unwrap_or(&listed), &json!([]), "{path}");
    }
}

/// PX12, X4: with `Authorization` a payment is ignored, whether or not the key is valid.
#[tokio::test]
async fn px12_a_key_outranks_a_payment() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let (name, value) = scene.sign(&payer).v2();
    let keyed = scene.world.a.ask(Method::GET, "/v1/links").header(name, &value).send().await;
    assert_eq!((keyed.status, keyed.header("payment-response")), (200, ""));
    for authorization in ["Bearer dl_live_of_nobody", "Basic eDp5", "Bearer"] {
        let ask = scene.world.nobody.ask(Method::GET, "/v1/links").header("authorization", authorization);
        assert_eq!(ask.header(name, &value).send().await.outcome(), "401 invalid_key", "{authorization}");
    }
    assert_eq!(scene.facilitator.calls(), calls(0, 0, 0));
    assert!(scene.states().await.is_empty());
}
