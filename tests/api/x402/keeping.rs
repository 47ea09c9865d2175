//! Payments whose row outlives its circumstances: the price, the master key, the retention time.

use std::time::Duration;

use deeplink_core::secret::Random;
use deeplink_server::vault::MasterKey;
use http::Method;
use serde_json::{Value, json};

use super::{PRICE, Payer, Script, receipt, scene, scene_with};
use deeplink_testing::facilitator::OTHER;
use deeplink_testing::{eventually, log_mark, logged_since};

/// PX5: a payer gets what was paid for at an earlier price, or to an earlier address, after both have changed. For
/// another request the payment keeps its original meaning.
#[tokio::test]
async fn px5_a_changed_price_takes_nothing_away() {
    let mut scene = scene().await;
    let payer = Payer::new("alice");
    let done = scene.sign(&payer);
    let made = scene.post("/v1/links", &json!({}), &done).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let unclear = scene.scripted(&payer, Script::SettleFails);
    assert_eq!(scene.post("/v1/links", &json!({}), &unclear).await.outcome(), "503 facilitator_unavailable");
    let credit = scene.scripted(&payer, Script::SettleWaits);
    let wanted = json!({"custom_id": "wanted"});
    let (lost, ()) = tokio::join!(scene.post_keyed("/v1/links", &wanted, &credit, "order-1"), async {
        scene.facilitator.reached().await;
        scene.world.a.make("wanted").await;
        scene.facilitator.release();
    });
    assert_eq!(lost.outcome(), "409 link_id_taken custom_id");
    let new = scene.sign(&payer);

    let base = scene.facilitator.base();
    let dearer = |config: &mut deeplink_server::config::Config| {
        let mut x402 = deeplink_server::config::X402::new(base.clone(), OTHER, "20000");
        x402.prices.insert("create_app", PRICE.to_owned());
        config.x402 = Some(x402);
    };
    scene.world.restart(dearer).await;
    assert_eq!(scene.post("/v1/links", &json!({}), &new).await.outcome(), "402 payment_required", "a new one");
    let again = scene.post("/v1/links", &json!({}), &done).await;
    assert_eq!((again.status, again.json()), (201, made.json()));
    scene.facilitator.script(&unclear, None);
    let late = scene.insist("/v1/links", &json!({}), &unclear).await;
    assert_eq!(late.status, 201, "{}", late.text());
    assert_eq!(receipt(&late)["success"], true);
    let same = scene.post_keyed("/v1/links", &wanted, &credit, "order-1").await;
    assert_eq!(same.outcome(), "409 link_id_taken custom_id");
    let dear = scene.post_keyed("/v1/links", &json!({"custom_id": "other"}), &credit, "order-1").await;
    assert_eq!(dear.outcome(), "409 payment_replayed", "it costs more today");
    let app = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    let app = scene.post_keyed("/v1/apps", &app, &credit, "order-1").await;
    assert_eq!(app.status, 201, "{}", app.text());
    assert_eq!(scene.facilitator.calls().moved, 3);
}

/// PX15: when the master key is replaced, the sealed values of payments are resealed: a reply, and the payment to
/// settle.
#[tokio::test]
async fn px15_payments_outlive_the_servers_key() {
    let mut scene = scene().await;
    let payer = Payer::new("alice");
    let (done, unclear) = (scene.sign(&payer), scene.scripted(&payer, Script::SettleFails));
    let source = json!({"name": "Shop", "source_type": "custom"});
    let made = scene.post_keyed("/v1/sources", &source, &done, "order-1").await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(scene.post("/v1/links", &json!({}), &unclear).await.outcome(), "503 facilitator_unavailable");
    let sealed = "SELECT COALESCE(payment, '') || COALESCE(body, '') FROM payments ORDER BY id";
    let before = scene.world.db.texts(sealed).await;
    let key = MasterKey::generate(&mut Random::system());
    scene.world.restart(|config| config.master_keys.insert(0, key.clone())).await;
    let after = scene.world.db.texts(sealed).await;
    assert!(after.len() == 2 && before.iter().zip(&after).all(|(before, after)| before != after));
    scene.world.restart(|config| config.master_keys = vec![key.clone()]).await;
    let again = scene.post_keyed("/v1/sources", &source, &done, "order-1").await;
    assert_eq!((again.status, again.json()), (201, made.json()));
    scene.facilitator.script(&unclear, None);
    assert_eq!(scene.insist("/v1/links", &json!({}), &unclear).await.status, 201);
}

/// PX5: rows are kept for 90 days, also those of payments that are valid for longer. A payment settled before that has
/// no effect afterwards.
#[tokio::test]
async fn px5_rows_are_kept_for_ninety_days() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let (short, long) = (scene.sign(&payer), scene.sign(&payer).with("validBefore", "253402300799"));
    assert_eq!(scene.post("/v1/links", &json!({}), &short).await.status, 201);
    let read = || scene.ask(Method::GET, "/v1/links", &long).header("idempotency-key", "list-1").send();
    assert_eq!(read().await.status, 200);
    scene.world.clock.advance(Duration::from_hours(89 * 24));
    let listed = scene.sign(&payer);
    assert_eq!(scene.get("/v1/links", &listed).await.status, 200);
    scene.world.clock.advance(Duration::from_hours(2 * 24));
    eventually("two are deleted", deeplink_doubles::wait::PATIENCE, async || scene.states().await.len() == 1).await;
    for _ in 0..2 {
        assert_eq!(read().await.outcome(), "503 facilitator_unavailable");
    }
    assert_eq!(scene.facilitator.calls().moved, 3);
}

/// PX1: while a facilitator has not said what it settles since the service started, no payment is offered, and a new
/// one is 503. One from before is served as usual. If it says that it settles nothing, only keys are accepted.
#[tokio::test]
async fn px1_what_was_paid_for_is_had_without_the_facilitator() {
    let mut scene = scene().await;
    let payer = Payer::new("alice");
    let done = scene.sign(&payer);
    let made = scene.post("/v1/links", &json!({}), &done).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let credit = scene.scripted(&payer, Script::SettleWaits);
    let first = json!({"custom_id": "x-1"});
    let (lost, ()) = tokio::join!(scene.post_keyed("/v1/links", &first, &credit, "order-1"), async {
        scene.facilitator.reached().await;
        scene.world.a.make("x-1").await;
        scene.facilitator.release();
    });
    assert_eq!(lost.outcome(), "409 link_id_taken custom_id");
    let new = scene.sign(&payer);
    scene.facilitator.is_down(true);
    scene.world.restart(|_| {}).await;
    assert_eq!(scene.world.nobody.get("/v1/links").await.outcome(), "401 unauthorized");
    let again = scene.post("/v1/links", &json!({}), &done).await;
    assert_eq!((again.status, again.json()), (201, made.json()));
    let late = scene.post_keyed("/v1/links", &json!({"custom_id": "x-2"}), &credit, "order-1").await;
    assert_eq!((late.status, late.member("link_id")), (201, "x-2".to_owned()));
    let refused = scene.post("/v1/links", &json!({}), &new).await;
    assert_eq!(refused.outcome(), "503 facilitator_unavailable");
    assert!(refused.member("error").contains("nothing was charged"), "{}", refused.text());
    scene.facilitator.is_down(false);
    scene.facilitator.settles(vec![]);
    scene.world.restart(|_| {}).await;
    assert_eq!(scene.post("/v1/links", &json!({}), &new).await.outcome(), "401 unauthorized");
    assert_eq!(scene.post("/v1/links", &json!({}), &done).await.json(), made.json());
    assert_eq!(scene.facilitator.calls().settle, 2);
}

/// PX2: a facilitator that requires a token is called with it, and no log line contains it. With a wrong one only keys
/// are accepted.
#[tokio::test]
async fn px2_the_facilitator_is_called_with_its_token() {
    const TOKEN: &str = "tok_0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let mark = log_mark();
    let mut scene =
        scene_with(|config| config.x402.as_mut().expect("x402").token = Some(TOKEN.to_owned().into())).await;
    scene.world.note_secret(TOKEN);
    scene.facilitator.wants(TOKEN);
    let payer = Payer::new("alice");
    scene.make(&payer, "made").await;
    scene.world.restart(|_| {}).await;
    assert_eq!(scene.ask(Method::GET, "/v1/links", &scene.sign(&payer)).send().await.status, 200);
    scene.facilitator.wants("another");
    let signed = scene.sign(&payer);
    let reply = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(reply.outcome(), "503 facilitator_unavailable");
    scene.world.restart(|_| {}).await;
    assert_eq!(scene.world.nobody.get("/v1/links").await.outcome(), "401 unauthorized");
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "503 facilitator_unavailable");
    assert!(!logged_since(&mark).contains(TOKEN));
    let _: Value = reply.json();
}
