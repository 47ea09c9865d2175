//! Every operation that can be paid for, paid for once and repeated with the used payment.

use deeplink_core::x402::PAID;
use http::Method;
use serde_json::{Value, json};

use super::{Payer, Scene, receipt, scene, scene_with};
use deeplink_testing::{Reply, operations};

struct Customer {
    scene: Scene,
    payer: Payer,
    used: std::cell::RefCell<Vec<String>>,
}

impl Customer {
    async fn call(&self, operation: &str, ids: &[&str], body: Option<Value>) -> Reply {
        let found = operations::all().iter().find(|known| known.id == operation);
        let operation = found.unwrap_or_else(|| panic!("no operation {operation}"));
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        let signed = self.scene.sign(&self.payer);
        let ask = self.scene.ask(operation.method.clone(), &operation.at_each(&ids), &signed);
        let reply = match body {
            Some(body) => ask.json(&body).send().await,
            None => ask.send().await,
        };
        assert!((200..300).contains(&reply.status), "{}: {} {}", operation.id, reply.status, reply.text());
        assert_eq!(receipt(&reply)["success"], true, "{}", operation.id);
        let repeated = self.repeat(operation, &ids, &signed).await;
        assert_eq!(repeated.outcome(), "409 payment_replayed", "{}", operation.id);
        self.used.borrow_mut().push(operation.id.clone());
        reply
    }

    /// The same payment for something else.
    async fn repeat(
        &self,
        operation: &operations::Operation,
        ids: &[String],
        signed: &deeplink_testing::facilitator::Signed,
    ) -> Reply {
        let ask = self.scene.ask(operation.method.clone(), &format!("{}?x=1", operation.at_each(ids)), signed);
        if operation.has_body { ask.json(&other_body(&operation.id)).send().await } else { ask.send().await }
    }
}

/// A well-formed body.
fn other_body(operation: &str) -> Value {
    match operation {
        "bulk_create_links" => json!({"template": {}, "count": 3}),
        "update_link" => json!({"web_url": "https://example.com/other"}),
        "create_app" => json!({"platform": "ios", "bundle_id": "com.example.other", "team_id": "ABCDE12345"}),
        "create_domain" => json!({"domain": "other.example.com"}),
        "update_domain" => json!({"root_url": "https://example.com/other"}),
        "create_source" => json!({"name": "Other", "source_type": "custom"}),
        "create_webhook" => json!({"url": "https://hooks.example.com/other", "events": ["click"]}),
        "update_webhook" => json!({"events": ["click"]}),
        _ => json!({}),
    }
}

/// PX2, PX5: every such operation can be paid for and uses up the payment: for another request it is 409.
#[tokio::test]
async fn px2_every_operation_can_be_paid_for() {
    let customer = Customer { scene: scene().await, payer: Payer::new("alice"), used: std::cell::RefCell::default() };
    let call = async |operation, ids: &[&str], body| customer.call(operation, ids, body).await;
    call("create_link", &[], Some(json!({"custom_id": "paid"}))).await;
    call("bulk_create_links", &[], Some(json!({"template": {}, "count": 2}))).await;
    assert_eq!(call("list_links", &[], None).await.json()["links"].as_array().map(Vec::len), Some(3));
    let changed = call("update_link", &["paid"], Some(json!({"web_url": "https://example.com/new"}))).await;
    assert_eq!(changed.member("web_url"), "https://example.com/new");
    assert_eq!(call("get_link", &["paid"], None).await.json()["link_id"], "paid");
    let code = call("link_qr", &["paid"], None).await;
    assert_eq!(code.header("content-type"), "image/png");
    assert_eq!(call("delete_link", &["paid"], None).await.status, 204);
    let app = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    let app = call("create_app", &[], Some(app)).await.member("id");
    call("list_apps", &[], None).await;
    call("delete_app", &[&app], None).await;
    call("create_domain", &[], Some(json!({"domain": "paid.example.com"}))).await;
    call("list_domains", &[], None).await;
    assert_eq!(call("verify_domain", &["paid.example.com"], None).await.json()["verified"], false);
    let update = json!({"root_url": "https://example.com/"});
    assert_eq!(
        call("update_domain", &["paid.example.com"], Some(update)).await.json()["root_url"],
        "https://example.com/"
    );
    call("delete_domain", &["paid.example.com"], None).await;
    let source = call("create_source", &[], Some(json!({"name": "Shop", "source_type": "custom"}))).await.member("id");
    call("list_sources", &[], None).await;
    call("get_source", &[&source], None).await;
    call("delete_source", &[&source], None).await;
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["conversion"]});
    let webhook = call("create_webhook", &[], Some(webhook)).await.member("id");
    call("list_webhooks", &[], None).await;
    call("update_webhook", &[&webhook], Some(json!({"events": ["click", "conversion"]}))).await;
    call("rotate_webhook_secret", &[&webhook], None).await;
    let delivery = call("test_webhook", &[&webhook], Some(json!({}))).await.member("id");
    call("list_deliveries", &[&webhook], None).await;
    call("replay_delivery", &[&webhook, &delivery], None).await;
    call("delete_webhook", &[&webhook], None).await;
    let mut used = customer.used.take();
    let mut all: Vec<_> = PAID.iter().map(|paid| paid.route.operation.to_owned()).collect();
    used.sort();
    all.sort();
    assert_eq!(used, all);
    let scene = &customer.scene;
    assert_eq!(scene.states().await, vec!["done"; all.len()]);
    assert_eq!((scene.facilitator.calls().settle, scene.wallets().await), (all.len(), 1));
}

/// PX3: refusals that do not depend on an account come before the facilitator is asked.
#[tokio::test]
async fn px3_a_malformed_request_costs_nothing_and_asks_nobody() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let signed = scene.sign(&payer);
    for (method, path, body, expected) in [
        ("POST", "/v1/links", "{", "400 bad_request"),
        ("POST", "/v1/links", r#"{"web_url":"javascript:1"}"#, "400 invalid_url web_url"),
        ("POST", "/v1/links", r#"{"custom_id":"-"}"#, "400 invalid_custom_id custom_id"),
        ("PUT", "/v1/links/nowhere", r#"{"web_url":1}"#, "400 bad_request web_url"),
        ("PUT", "/v1/links/nowhere", "{}", "400 empty_update"),
        ("POST", "/v1/links/bulk", "{}", "400 batch_mode_missing"),
        ("POST", "/v1/apps", r#"{"platform":"web"}"#, "400 invalid_platform platform"),
        ("POST", "/v1/domains", r#"{"domain":"localhost"}"#, "400 invalid_domain domain"),
        ("PATCH", "/v1/domains/nowhere.example.com", "{}", "400 empty_update"),
        ("PATCH", "/v1/domains/nowhere.example.com", r#"{"root_url":"x"}"#, "400 invalid_url root_url"),
        ("POST", "/v1/sources", r#"{"name":"","source_type":"custom"}"#, "400 invalid_name name"),
        ("POST", "/v1/webhooks", r#"{"url":"http://a.example","events":["click"]}"#, "400 invalid_url url"),
        ("PATCH", "/v1/webhooks/wh_0123456789abcdef01234567", "{}", "400 empty_update"),
        ("POST", "/v1/webhooks/wh_0123456789abcdef01234567/test", r#"{"event":"x"}"#, "400 invalid_event event"),
    ] {
        let ask = scene.ask(method.parse().expect("a method"), path, &signed).body(body);
        assert_eq!(ask.send().await.outcome(), expected, "{method} {path} {body}");
    }
    for (path, expected) in [
        ("/v1/links?limit=0", "400 bad_request limit"),
        ("/v1/links?status=x", "400 bad_request status"),
        ("/v1/links/nowhere/qr.png?size=0", "400 invalid_qr_options size"),
        ("/v1/links/nowhere/qr.gif", "400 invalid_qr_format"),
        ("/v1/webhooks/wh_0123456789abcdef01234567/deliveries?status=x", "400 bad_request status"),
    ] {
        assert_eq!(scene.get(path, &signed).await.outcome(), expected, "{path}");
    }
    let large = scene.ask(Method::POST, "/v1/links", &signed).body(vec![b' '; 70_000]).send().await;
    assert_eq!(large.outcome(), "413 payload_too_large");
    let text = scene.ask(Method::POST, "/v1/links", &signed).body_as("text/plain", "{}").send().await;
    assert_eq!(text.outcome(), "415 unsupported_media_type");
    let keyed = scene.ask(Method::GET, "/v1/links", &signed).header("idempotency-key", "").send().await;
    assert_eq!(keyed.outcome(), "400 bad_request Idempotency-Key");
    assert_eq!(scene.facilitator.calls(), super::calls(0, 0, 0));
    assert!(scene.states().await.is_empty());
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.status, 201);
}

/// PX2: payments are limited by address, on every operation.
#[tokio::test]
async fn px2_payments_are_limited_by_address() {
    let scene = scene_with(|config| config.limits.payments_per_minute = 1).await;
    let signed = scene.sign(&Payer::new("alice"));
    assert_eq!(scene.get("/v1/links", &signed).await.status, 200);
    for operation in operations::all().iter().filter(|known| PAID.iter().any(|paid| paid.route.operation == known.id)) {
        let reply = scene.ask(operation.method.clone(), &operation.at("nowhere"), &signed).send().await;
        assert_eq!(reply.outcome(), "429 rate_limited", "{}", operation.id);
    }
}
