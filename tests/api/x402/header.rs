//! The allowed contents of a payment header.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use deeplink_core::x402::MAX_HEADER;
use http::Method;
use serde_json::{Value, json};

use super::{Payer, Scene, accepted, calls, scene};
use deeplink_testing::Reply;
use deeplink_testing::facilitator::{NETWORK, OTHER};

fn message(scene: &Scene, payer: &Payer) -> Value {
    json!({"x402Version": 2, "accepted": accepted(), "payload": scene.sign(payer).payload})
}

async fn send(scene: &Scene, headers: &[(&str, String)]) -> Reply {
    let ask = scene.world.nobody.ask(Method::POST, "/v1/links").json(&json!({}));
    headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value)).send().await
}

/// PX13: a payment header that is too long, not base64, repeated, of another version or nested too deeply is 400, and
/// the facilitator is not asked. Either alphabet of base64 is accepted, with or without padding.
#[tokio::test]
async fn px13_a_payment_must_be_readable() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let good = message(&scene, &payer);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut message = good.clone();
        change(&mut message);
        STANDARD.encode(message.to_string())
    };
    let deep = format!(r#"{{"extensions":{}1{},"#, "[".repeat(1_000), "]".repeat(1_000));
    let deep = STANDARD.encode(good.to_string().replacen('{', &deep, 1));
    assert!(deep.len() <= MAX_HEADER, "{}", deep.len());
    let v1 = STANDARD
        .encode(json!({"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": {}}).to_string());
    let v2 = with(&|_| {});
    for (what, headers) in [
        ("9 KiB", vec![("payment-signature", with(&|message| message["extensions"] = json!("x".repeat(9 << 10))))]),
        ("no base64", vec![("payment-signature", "{\"x402Version\":2}".to_owned())]),
        ("no JSON", vec![("payment-signature", STANDARD.encode("no JSON"))]),
        ("empty", vec![("payment-signature", String::new())]),
        ("both", vec![("payment-signature", v2.clone()), ("x-payment", v1.clone())]),
        ("twice", vec![("payment-signature", v2.clone()), ("payment-signature", v2.clone())]),
        ("version 1 inside", vec![("payment-signature", with(&|message| message["x402Version"] = json!(1)))]),
        ("version 2 in the other", vec![("x-payment", v2.clone())]),
        ("version 1 in the other", vec![("payment-signature", v1)]),
        ("a version as text", vec![("payment-signature", with(&|message| message["x402Version"] = json!("2")))]),
        ("a thousand deep", vec![("payment-signature", deep.clone())]),
        (
            "two transfers",
            vec![("payment-signature", with(&|message| message["payload"]["permit2Authorization"] = json!({})))],
        ),
        (
            "a number for an amount",
            vec![("payment-signature", with(&|message| message["accepted"]["amount"] = json!(10000)))],
        ),
        (
            "half an authorization",
            vec![("payment-signature", with(&|message| message["payload"]["authorization"]["nonce"] = json!("0x12")))],
        ),
    ] {
        assert_eq!(send(&scene, &headers).await.outcome(), "400 payment_invalid", "{what}");
    }
    let reply = send(&scene, &[("payment-signature", deep)]).await;
    assert_eq!(reply.member("error"), "the payment header is nested deeper than 32 levels");
    assert_eq!(scene.facilitator.calls(), calls(0, 0, 0));
    for encode in [|text: String| URL_SAFE.encode(text), |text| URL_SAFE_NO_PAD.encode(text)] {
        let sent = send(&scene, &[("payment-signature", encode(message(&scene, &payer).to_string()))]).await;
        assert_eq!(sent.status, 201, "{}", sent.text());
    }
}

/// PX6: a payment of less, to another payee, in another token, on another chain, that is expired or not yet valid, or
/// of another scheme is 402, and the facilitator is not asked.
#[tokio::test]
async fn px6_a_payment_must_be_the_one_that_is_asked_for() {
    let scene = scene().await;
    let payer = Payer::new("alice");
    let now = scene.world.clock.now().as_millis() / 1_000;
    let authorized = |field: &str, value: &str| scene.sign(&payer).with(field, value);
    for (what, signed) in [
        ("less", authorized("value", "9999")),
        ("more", authorized("value", "10001")),
        ("to another", authorized("to", OTHER)),
        ("over", authorized("validBefore", &(now - 1).to_string())),
        ("nearly over", authorized("validBefore", &(now + 5).to_string())),
        ("not yet", authorized("validAfter", &(now + 5).to_string())),
    ] {
        let reply = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!(reply.outcome(), "402 payment_required", "{what}");
        assert!(!reply.header("payment-required").is_empty());
    }
    for (field, value) in [
        ("scheme", json!("upto")),
        ("network", json!("eip155:8453")),
        ("amount", json!("9999")),
        ("asset", json!(OTHER)),
        ("payTo", json!(OTHER)),
        ("maxTimeoutSeconds", json!(60)),
        ("extra", json!({"name": "USD Coin", "version": "2"})),
    ] {
        let mut asked = accepted();
        asked[field] = value;
        let signed = payer.sign(&asked, now);
        assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "402 payment_required", "{field}");
    }
    let (name, _) = scene.sign(&payer).v1();
    for (scheme, network) in [("upto", "base-sepolia"), ("exact", "base"), ("exact", NETWORK)] {
        let payload = scene.sign(&payer).payload;
        let message = json!({"x402Version": 1, "scheme": scheme, "network": network, "payload": payload});
        let sent = send(&scene, &[(name, STANDARD.encode(message.to_string()))]).await;
        assert_eq!(sent.outcome(), "402 payment_required", "{scheme} {network}");
    }
    assert_eq!(scene.facilitator.calls(), calls(0, 0, 0));
    assert!(scene.states().await.is_empty());
    // Version 1 lets a payer pay more, and addresses are case-insensitive.
    let (name, value) = authorized("value", "10001").v1();
    assert_eq!(send(&scene, &[(name, value)]).await.status, 201);
    let mut asked = accepted();
    for field in ["payTo", "asset"] {
        asked[field] = json!(asked[field].as_str().expect("an address").to_ascii_lowercase());
    }
    assert_eq!(scene.post("/v1/links", &json!({}), &payer.sign(&asked, now)).await.status, 201);
}
