//! The same payment again.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{Payer, Scene, Script, Signed, calls, hasty_scene, receipt, scene};

/// A payment in each possible state, with its request.
async fn in_each_state(scene: &Scene, payer: &Payer) -> Vec<(&'static str, Signed)> {
    let mut found = Vec::new();
    let done = scene.sign(payer);
    assert_eq!(scene.post("/v1/links", &json!({}), &done).await.status, 201);
    found.push(("done", done));
    for (state, script, status) in
        [("refused", Script::Refused("insufficient_funds"), 402), ("unknown", Script::SettleFails, 503)]
    {
        let signed = scene.scripted(payer, script);
        assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.status, status);
        found.push((state, signed));
    }
    let credit = scene.scripted(payer, Script::SettleWaits);
    let asking = scene.ask(Method::POST, "/v1/links", &credit).json(&json!({"custom_id": "soon-taken"}));
    let (lost, ()) = tokio::join!(asking.send(), async {
        scene.facilitator.reached().await;
        scene.world.a.make("soon-taken").await;
        scene.facilitator.release();
    });
    assert_eq!(lost.outcome(), "409 link_id_taken custom_id");
    found.push(("credit", credit));
    found
}

/// PX5: a payment was for one request. For another operation or body, without the key of the first request, it is 409
/// in every state; so is a payment that anyone can assemble from the chain, sent to read the payer's data.
#[tokio::test]
async fn px5_a_payment_is_for_one_request() {
    let scene = hasty_scene().await;
    let payer = Payer::new("alice");
    for (state, signed) in in_each_state(&scene, &payer).await {
        let settled = scene.facilitator.calls().settle;
        let mut rebuilt = signed.clone();
        rebuilt.payload["signature"] = json!(format!("0x{}", "11".repeat(65)));
        for payment in [&signed, &rebuilt] {
            let (read, keyed) = (scene.ask(Method::GET, "/v1/links", payment), "guessed");
            for reply in [
                read.clone().send().await,
                read.header("idempotency-key", keyed).send().await,
                scene.post("/v1/links", &json!({"web_url": "https://example.com/else"}), payment).await,
                scene
                    .post("/v1/apps", &json!({"platform": "ios", "bundle_id": "a.b", "team_id": "ABCDE12345"}), payment)
                    .await,
                scene.ask(Method::DELETE, "/v1/links/soon-taken", payment).send().await,
            ] {
                assert_eq!(reply.outcome(), "409 payment_replayed", "{state}");
                assert_eq!(reply.header("payment-response"), "");
            }
        }
        assert_eq!(scene.facilitator.calls().settle, settled, "{state}");
    }
    // During its settlement, too.
    let signed = scene.scripted(&payer, Script::SettleWaits);
    let asking = scene.ask(Method::POST, "/v1/links", &signed).json(&json!({}));
    let (made, ()) = tokio::join!(asking.send(), async {
        scene.facilitator.reached().await;
        assert_eq!(scene.get("/v1/links", &signed).await.outcome(), "409 payment_replayed");
        let same = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!((same.outcome().as_str(), same.header("retry-after")), ("409 payment_in_progress", "1"));
        scene.facilitator.release();
    });
    assert_eq!(made.status, 201);
}

/// PX5: a read can be repeated with its key, until the payment expires; without a key it is done once.
#[tokio::test]
async fn px5_a_read_can_be_repeated_with_its_key() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let signed = scene.sign(&payer);
    let read = || scene.ask(Method::GET, "/v1/links", &signed).header("idempotency-key", "list-1");
    assert_eq!(read().send().await.json()["links"], json!([]));
    scene.make(&payer, "made-later").await;
    let again = read().send().await;
    assert_eq!(again.json()["links"].as_array().map(Vec::len), Some(1));
    assert_eq!(receipt(&again)["success"], true);
    assert_eq!(scene.get("/v1/links", &signed).await.outcome(), "409 payment_replayed");
    let other = scene.ask(Method::GET, "/v1/links?limit=1", &signed).header("idempotency-key", "list-1").send().await;
    assert_eq!(other.outcome(), "409 idempotency_conflict");
    scene.world.clock.advance(Duration::from_secs(601));
    let late = read().send().await;
    assert_eq!(late.outcome(), "409 payment_replayed");
    assert_eq!(late.member("error"), "this payment has already been used and can no longer be used to repeat the read");
    assert_eq!(scene.facilitator.calls().settle, 2);
}

/// PX5: a read can be repeated for ten minutes, however long the payment is valid, and no longer than it is valid.
#[tokio::test]
async fn px5_a_read_is_not_repeated_for_ever() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let now = scene.world.clock.now().as_millis().div_euclid(1_000);
    let in_short = scene.sign(&payer).with("validBefore", &(now + 100).to_string());
    let in_9999 = scene.sign(&payer).with("validBefore", "253402300799");
    let unsaid = scene.sign(&payer).in_another_shape();
    scene.world.note_secret(unsaid.signature());
    let read = async |signed: &Signed| {
        let ask = scene.ask(Method::GET, "/v1/links", signed).header("idempotency-key", "list-1");
        ask.send().await.outcome()
    };
    let all = [&in_short, &in_9999, &unsaid];
    for signed in all {
        assert_eq!(read(signed).await, "200", "{}", signed.payload);
    }
    scene.world.clock.advance(Duration::from_secs(98));
    for signed in all {
        assert_eq!(read(signed).await, "200", "{}", signed.payload);
    }
    scene.world.clock.advance(Duration::from_secs(2));
    assert_eq!(read(&in_short).await, "409 payment_replayed");
    scene.world.clock.advance(Duration::from_millis(499_999));
    for signed in [&in_9999, &unsaid] {
        assert_eq!(read(signed).await, "200", "{}", signed.payload);
    }
    scene.world.clock.advance(Duration::from_millis(1));
    for signed in [&in_9999, &unsaid] {
        assert_eq!(read(signed).await, "409 payment_replayed", "{}", signed.payload);
    }
    assert_eq!(scene.facilitator.calls().settle, 3);
}

/// PX10: while a settled payment is unused, another one with its key is not charged.
#[tokio::test]
async fn px10_no_second_payment_is_charged_while_the_first_waits() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let first = scene.scripted(&payer, Script::SettleWaits);
    let wanted = json!({"custom_id": "wanted"});
    let (lost, ()) = tokio::join!(scene.post_keyed("/v1/links", &wanted, &first, "order-1"), async {
        scene.facilitator.reached().await;
        scene.world.a.make("wanted").await;
        scene.facilitator.release();
    });
    assert_eq!(lost.outcome(), "409 link_id_taken custom_id");
    scene.let_lease_end();
    let (second, other) = (scene.sign(&payer), json!({"custom_id": "other"}));
    let refused = scene.post_keyed("/v1/links", &other, &second, "order-1").await;
    assert_eq!(refused.outcome(), "409 idempotency_conflict");
    assert!(refused.member("error").contains("repeat the request with that payment"));
    assert_eq!(scene.post_keyed("/v1/links", &other, &first, "order-1").await.status, 201);
    assert_eq!(scene.facilitator.calls().settle, 1);
    assert_eq!(scene.post_keyed("/v1/links", &json!({}), &second, "order-2").await.status, 201);
}

/// PX10: when the id of a link is taken while its payment is settled, the answer is 409 with a receipt. With the same key
/// and payment another id is made, once.
#[tokio::test]
async fn px10_what_was_paid_for_and_lost_can_be_asked_for_otherwise() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let signed = scene.scripted(&payer, Script::SettleWaits);
    let body = |id: &str| json!({"custom_id": id});
    let wanted = body("wanted");
    let (lost, ()) = tokio::join!(scene.post_keyed("/v1/links", &wanted, &signed, "order-1"), async {
        scene.facilitator.reached().await;
        scene.world.a.make("wanted").await;
        scene.facilitator.release();
    });
    assert_eq!(lost.outcome(), "409 link_id_taken custom_id");
    assert_eq!(receipt(&lost)["success"], true);
    assert_eq!((scene.states().await, scene.wallets().await), (vec!["credit".to_owned()], 0));
    let same = scene.post_keyed("/v1/links", &body("wanted"), &signed, "order-1").await;
    assert_eq!(same.outcome(), "409 link_id_taken custom_id");
    assert_eq!(scene.post("/v1/links", &body("other"), &signed).await.outcome(), "409 payment_replayed");
    let made = scene.post_keyed("/v1/links", &body("other"), &signed, "order-1").await;
    assert_eq!((made.status, made.member("link_id")), (201, "other".to_owned()));
    let again = scene.post_keyed("/v1/links", &body("other"), &signed, "order-1").await;
    assert_eq!((again.status, again.json()), (201, made.json()));
    let third = scene.post_keyed("/v1/links", &body("third"), &signed, "order-1").await;
    assert_eq!(third.outcome(), "409 idempotency_conflict");
    assert_eq!((scene.facilitator.calls().settle, scene.links().await), (1, 2));
}

/// PX10: of two such concurrent requests, one is done; the other is told that the key was used for another request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn px10_what_was_paid_for_once_is_had_once() {
    let scene = scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleWaits);
    let wanted = json!({"custom_id": "wanted"});
    let (lost, ()) = tokio::join!(scene.post_keyed("/v1/links", &wanted, &signed, "order-1"), async {
        scene.facilitator.reached().await;
        scene.world.a.make("wanted").await;
        scene.facilitator.release();
    });
    assert_eq!(lost.outcome(), "409 link_id_taken custom_id");
    let replies = deeplink_testing::at_once(10, |number| {
        let (name, value) = signed.v2();
        let ask = scene.world.nobody.ask(Method::POST, "/v1/links").header(name, value);
        let ask = ask.header("idempotency-key", "order-1");
        async move { ask.json(&json!({"custom_id": format!("other-{number}")})).send().await }
    })
    .await;
    let made = replies.iter().filter(|reply| reply.status == 201).count();
    for reply in replies.iter().filter(|reply| reply.status != 201) {
        assert_eq!(reply.outcome(), "409 idempotency_conflict", "{}", reply.text());
    }
    assert_eq!((made, scene.links().await, scene.facilitator.calls().settle), (1, 2, 1));
}

/// PX8: a payment whose process died during its settlement is settled again by a repeat once its lease ends, whether or
/// not money had moved, and not before.
#[tokio::test]
async fn px8_a_lease_that_is_over_is_taken_up() {
    let mut scene = hasty_scene().await;
    let payer = Payer::new("alice");
    let signed = scene.scripted(&payer, Script::SettledUnheard);
    let (name, value) = signed.v2();
    let asking = scene.world.nobody.ask(Method::POST, "/v1/links").header(name, value).json(&json!({}));
    let asking = tokio::spawn(asking.send());
    deeplink_testing::eventually("money moved", deeplink_doubles::wait::PATIENCE, async || {
        scene.facilitator.calls().moved == 1
    })
    .await;
    asking.abort();
    let same = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(same.outcome(), "409 payment_in_progress");
    // The process dies, and its work with it.
    scene.world.restart_at_once().await;
    scene.facilitator.script(&signed, None);
    scene.let_lease_end();
    let made = scene.insist("/v1/links", &json!({}), &signed).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!((scene.facilitator.calls(), scene.links().await), (calls(1, 2, 1), 1));
}

/// PX15: an answer with a secret is repeated only with the key of the first request, from its sealed copy.
#[tokio::test]
async fn px15_a_secret_is_shown_again_with_the_key_only() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["conversion"]});
    let source = json!({"name": "Shop", "source_type": "custom"});
    let mut webhook_id = String::new();
    for (path, body, secret) in [("/v1/webhooks", &webhook, "secret"), ("/v1/sources", &source, "webhook_url")] {
        let signed = scene.sign(&payer);
        let made = scene.post_keyed(path, body, &signed, "order-1").await;
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(scene.post(path, body, &signed).await.outcome(), "409 payment_replayed", "{path}");
        let wrong = scene.post_keyed(path, body, &signed, "order-2").await;
        assert_eq!(wrong.outcome(), "409 payment_replayed", "{path}");
        let again = scene.post_keyed(path, body, &signed, "order-1").await;
        assert_eq!((again.status, again.member(secret)), (201, made.member(secret)));
        if path == "/v1/webhooks" {
            webhook_id = made.member("id");
        }
    }
    let signed = scene.sign(&payer);
    let path = format!("/v1/webhooks/{webhook_id}/rotate-secret");
    let rotate = |key: Option<&str>| {
        let ask = scene.ask(Method::POST, &path, &signed);
        match key {
            Some(key) => ask.header("idempotency-key", key).send(),
            None => ask.send(),
        }
    };
    assert_eq!(rotate(None).await.status, 200);
    assert_eq!(rotate(None).await.outcome(), "409 payment_replayed");
    assert_eq!(rotate(Some("order-3")).await.outcome(), "409 payment_replayed");
    let stored = scene.world.db.texts("SELECT body FROM payments WHERE body IS NOT NULL").await;
    assert_eq!(stored.len(), 3);
    for body in stored {
        assert!(serde_json::from_str::<Value>(&body).is_err() && body.contains('.'), "{body}");
    }
    assert_eq!(scene.facilitator.calls().settle, 3);
}
