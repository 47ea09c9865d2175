//! Refusals that depend on the account: they cost nothing, and nothing is recorded.

use http::Method;
use serde_json::json;

use super::{Payer, calls, receipt, scene, scene_with};
use crate::suspension::{resume, suspend};

/// PX3: a request that would be refused for its account (404, 409, a plan's limit) is refused before it is paid for.
/// Nothing is stored, not even an account, and the payment works after that.
#[tokio::test]
async fn px3_a_refused_request_is_not_charged() {
    let scene = scene_with(|config| config.enforce_quotas = true).await;
    let payer = Payer::new("alice");
    let signed = scene.sign(&payer);
    scene.world.a.make("taken").await;
    let before = scene.world.db.dump().await;
    assert_eq!(scene.get("/v1/links/nowhere", &signed).await.outcome(), "404 not_found");
    let taken = scene.post("/v1/links", &json!({"custom_id": "taken"}), &signed).await;
    assert_eq!(taken.outcome(), "409 link_id_taken custom_id");
    let over = scene.post("/v1/links/bulk", &json!({"template": {}, "count": 51}), &signed).await;
    assert_eq!(over.outcome(), "402 quota_exceeded");
    let gone = scene.ask(Method::DELETE, "/v1/domains/nowhere.example.com", &signed).send().await;
    assert_eq!(gone.outcome(), "404 not_found");
    for reply in [&taken, &over, &gone] {
        assert_eq!(reply.header("payment-response"), "");
    }
    let calls = scene.facilitator.calls();
    assert_eq!((calls.verify, calls.settle), (4, 0));
    assert_eq!(scene.world.db.dump().await, before, "nothing is recorded");
    let made = scene.post("/v1/links/bulk", &json!({"template": {}, "count": 50}), &signed).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(scene.facilitator.calls().settle, 1);
    // The free plan's limits apply.
    let next = scene.sign(&payer);
    assert_eq!(scene.post("/v1/links", &json!({}), &next).await.outcome(), "402 quota_exceeded");
    assert_eq!(scene.get("/v1/links", &next).await.status, 200);
}

/// PX3: a repeat under the same `Idempotency-Key` with another payment gets the first reply and is not charged; another
/// request under it is a conflict and is not charged either.
#[tokio::test]
async fn px3_what_was_done_under_a_key_is_not_charged_again() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let body = json!({"web_url": "https://example.com/"});
    let [first, second] = [scene.sign(&payer), scene.sign(&payer)];
    let made = scene.post_keyed("/v1/links", &body, &first, "order-1").await;
    assert_eq!(made.status, 201, "{}", made.text());
    let again = scene.post_keyed("/v1/links", &body, &second, "order-1").await;
    assert_eq!((again.status, again.json()), (201, made.json()));
    assert_eq!((again.header("idempotency-replayed"), again.header("payment-response")), ("true", ""));
    let other = scene.post_keyed("/v1/links", &json!({}), &second, "order-1").await;
    assert_eq!(other.outcome(), "409 idempotency_conflict Idempotency-Key");
    assert_eq!((scene.facilitator.calls().settle, scene.links().await), (1, 1));
    assert_eq!(scene.post_keyed("/v1/links", &body, &second, "order-2").await.status, 201);
}

/// PX3: wallets that pay for the first time are limited by address; a refused one is not charged.
#[tokio::test]
async fn px3_new_wallets_are_limited_by_address() {
    let scene = scene_with(|config| config.limits.wallets_per_hour = 2).await;
    let [alice, bob] = ["alice", "bob"].map(Payer::new);
    scene.make(&alice, "alice").await;
    scene.make(&bob, "bob").await;
    let signed = scene.sign(&Payer::new("carol"));
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "429 rate_limited");
    assert_eq!((scene.facilitator.calls().settle, scene.wallets().await), (2, 2));
    assert_eq!(scene.states().await, ["done", "done"], "no row is left");
    scene.make(&alice, "once-more").await;
    // Nor is it settled later: the next settlement is for a later payment.
    scene.let_lease_end();
    let unclear = scene.scripted(&bob, super::Script::SettleFails);
    assert_eq!(scene.post("/v1/links", &json!({}), &unclear).await.outcome(), "503 facilitator_unavailable");
    scene.world.clock.advance(std::time::Duration::from_secs(11));
    scene.tried(1).await;
    assert_eq!(scene.facilitator.calls(), calls(5, 5, 3));
}

/// PX1: a refused settlement is 402 with a receipt that says why, and stays refused without another call.
#[tokio::test]
async fn px1_a_refused_settlement_has_a_receipt() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let invalid = scene.scripted(&payer, super::Script::Invalid("insufficient_funds"));
    let reply = scene.post("/v1/links", &json!({}), &invalid).await;
    assert_eq!(reply.outcome(), "402 payment_required");
    assert!(reply.member("error").contains("insufficient_funds") && reply.header("payment-response").is_empty());
    assert_eq!((scene.facilitator.calls(), scene.states().await.len()), (calls(1, 0, 0), 0));

    let signed = scene.scripted(&payer, super::Script::Refused("insufficient_funds"));
    for _ in 0..2 {
        let reply = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!(reply.outcome(), "402 payment_required");
        let receipt = receipt(&reply);
        assert_eq!((&receipt["success"], &receipt["transaction"]), (&json!(false), &json!("")));
        assert_eq!(receipt["errorReason"], "insufficient_funds");
    }
    assert_eq!(scene.facilitator.calls().settle, 1);
    assert_eq!((scene.links().await, scene.wallets().await, scene.states().await), (0, 0, vec!["refused".to_owned()]));
}

/// R12: a wallet whose account the operator suspended is not charged for changes; its reads are answered. The same
/// payment works once the account is resumed.
#[tokio::test]
async fn r12_a_suspended_wallet_pays_for_no_change() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    scene.make(&payer, "alice").await;
    let tenant = scene.world.db.texts("SELECT tenant_id FROM wallets").await.remove(0);
    suspend(&scene.world, &tenant).await;
    let signed = scene.sign(&payer);
    let body = json!({"custom_id": "another"});
    let refused = scene.post("/v1/links", &body, &signed).await;
    assert_eq!(refused.outcome(), "403 account_suspended", "{}", refused.text());
    let gone = scene.ask(Method::DELETE, "/v1/links/alice", &scene.sign(&payer)).send().await;
    assert_eq!(gone.outcome(), "403 account_suspended");
    assert_eq!((scene.facilitator.calls().settle, scene.links().await), (1, 1));
    assert_eq!(scene.get("/v1/links", &scene.sign(&payer)).await.status, 200);
    assert_eq!(scene.world.nobody.resolve("alice").await.json()["_service_meta"]["status"], "disabled");
    resume(&scene.world, &tenant).await;
    assert_eq!(scene.post("/v1/links", &body, &signed).await.status, 201);
    assert_eq!(scene.facilitator.calls().settle, 3);
}
