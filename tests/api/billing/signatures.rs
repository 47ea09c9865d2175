//! Who signed an event, and when.

use deeplink_core::time::Timestamp;
use http::Method;

use super::{DAY_SECS, WEBHOOK, post, scene_with};
use deeplink_server::config::{StripeAccount, StripePrices};
use deeplink_testing::stripe::{Event, NEXT_WEBHOOK_SECRET, SECRET_KEY, WEBHOOK_SECRET, signature};

/// A signature with one of the secrets, over the received bytes, of the last five minutes: anything else is refused
/// before anything is read.
#[tokio::test]
async fn st7_only_what_was_signed_just_now_is_taken() {
    let scene = scene_with(1, |config| {
        let stripe = config.stripe.clone().expect("Stripe");
        let prices = StripePrices::new("price_pro", "price_business", "price_scale");
        let secrets = [WEBHOOK_SECRET, NEXT_WEBHOOK_SECRET];
        config.stripe = Some(StripeAccount::new(SECRET_KEY, &secrets, stripe.base, prices));
    })
    .await;
    scene.world.note_secret(NEXT_WEBHOOK_SECRET);
    let (nobody, now) = (&scene.world.nobody, scene.seconds());
    // Irrelevant to the service, and accepted all the same.
    let event = scene.stripe.event("customer.created", &serde_json::json!({"id": "cus_1"}));
    let good = signature(WEBHOOK_SECRET, now, &event.body);
    let next = signature(NEXT_WEBHOOK_SECRET, now, &event.body);
    let wrong = signature("whsec_of-somebody-else", now, &event.body);
    let flipped = format!("{}{}", if good.starts_with('0') { '1' } else { '0' }, &good[1..]);
    let at = |seconds: i64| event.signature(WEBHOOK_SECRET, seconds);
    for (header, status) in [
        (at(now), 200),
        (format!("t={now},v1={wrong},v1={good}"), 200),
        (format!("t={now},v1={next}"), 200),
        (format!("v0={wrong},t={now},v1={good},v2=x"), 200),
        (at(now - 299), 200),
        (at(now + 299), 200),
        (at(now - 301), 400),
        (at(now + 301), 400),
        (at(now - DAY_SECS), 400),
        (format!("v1={good}"), 400),
        (format!("t={now}"), 400),
        (format!("t={now},v0={good}"), 400),
        (format!("t={now},v1={flipped}"), 400),
        (format!("t={now},v1={wrong}"), 400),
        (format!("t={now},v1="), 400),
        (format!("t={now},v1={}", &good[..62]), 400),
        (format!("t={},v1={good}", now + 1), 400),
        (format!("t={now},t={now},v1={good}"), 400),
        ("t=99999999999999999999,v1=00".to_owned(), 400),
        (String::new(), 400),
        ("nonsense".to_owned(), 400),
    ] {
        let reply = post(nobody, &event, &header).await;
        assert_eq!(reply.status, status, "{header}: {}", reply.text());
        if status == 400 {
            assert_eq!(reply.outcome(), "400 bad_request Stripe-Signature", "{header}");
        }
    }
    let unsigned = nobody.ask_without_key(Method::POST, WEBHOOK).body(event.body.clone()).send().await;
    assert_eq!(unsigned.outcome(), "400 bad_request Stripe-Signature");
    let twice = nobody.ask_without_key(Method::POST, WEBHOOK).header("stripe-signature", at(now));
    let twice = twice.header("stripe-signature", at(now)).body(event.body.clone()).send().await;
    assert_eq!(twice.outcome(), "400 bad_request Stripe-Signature");
    assert!(scene.stripe.seen().is_empty());
    let figures = scene.figures().await;
    let counted = "deeplink_stripe_signatures_refused_total 17";
    assert!(figures.lines().any(|line| line.trim() == counted), "{figures}");
}

/// The signature is over the bytes: the same JSON in another form is another body. Unsigned bodies are not parsed, and
/// bodies that are too large are not read.
#[tokio::test]
async fn st7_a_body_is_its_bytes() {
    let scene = scene_with(1, |_| {}).await;
    let (nobody, now) = (&scene.world.nobody, scene.seconds());
    let event = scene.stripe.event("customer.created", &serde_json::json!({"id": "cus_1"}));
    let header = event.signature(WEBHOOK_SECRET, now);
    let parsed: serde_json::Value = serde_json::from_str(&event.body).expect("JSON");
    let pretty = Event { body: serde_json::to_string_pretty(&parsed).expect("JSON"), ..event.clone() };
    assert_eq!(post(nobody, &pretty, &header).await.outcome(), "400 bad_request Stripe-Signature");
    let signed = async |body: String| {
        let event = Event { id: String::new(), body };
        post(nobody, &event, &event.signature(WEBHOOK_SECRET, now)).await.outcome()
    };
    assert_eq!(signed(pretty.body).await, "200");
    for body in ["", "x", "{}", "[]", "{\"id\":\"evt_1\"}"] {
        assert_eq!(signed(body.to_owned()).await, "400 bad_request", "{body}");
    }
    let padded = |length: usize| format!("{}{}", event.body, " ".repeat(length - event.body.len()));
    assert_eq!(signed(padded(256 << 10)).await, "200");
    assert_eq!(signed(padded(257 << 10)).await, "413 payload_too_large");
    let any = nobody.ask_without_key(Method::POST, WEBHOOK).header("stripe-signature", &header);
    assert_eq!(any.body_as("text/plain", event.body.clone()).send().await.status, 200, "whatever it is said to be");
    scene.world.clock.set(Timestamp::from_millis((now + 301) * 1_000));
    assert_eq!(post(nobody, &event, &header).await.outcome(), "400 bad_request Stripe-Signature", "a replay");
}
