//! Paying for a plan, from the checkout to the end of the subscription.

use http::Method;
use serde_json::{Value, json};

use super::{DAY_SECS, ask_cancel, ask_checkout, ask_portal, checkout, scene, scene_with, status};
use deeplink_testing::stripe::{Fault, Seen};
use deeplink_testing::{at_once, insist, log_everything};

const PORTAL: &str = "https://billing.stripe.test/";

fn param<'a>(seen: &'a Seen, name: &str) -> &'a str {
    seen.form.get(name).map_or("", String::as_str)
}

/// Twenty concurrent requests for one plan make one checkout page. An account that already pays gets the page where
/// that is changed, so that no account has two subscriptions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn st1_one_page_for_one_plan() {
    let scene = scene_with(2, |_| {}).await;
    let a = &scene.world.a;
    let callers = [scene.world.at(0, a), scene.world.at(1, a)];
    let urls = at_once(20, |number| {
        let caller = callers[number % 2].clone();
        async move { insist(|| ask_checkout(&caller, "pro")).await.member("checkout_url") }
    })
    .await;
    assert!(urls.iter().all(|url| *url == urls[0]), "{urls:?}");
    assert_eq!(scene.stripe.sessions(), 1);
    let other = checkout(a, "scale").await.member("checkout_url");
    assert!(other != urls[0] && scene.stripe.sessions() == 2, "another plan has a page of its own");
    let of_b = checkout(&scene.world.b, "pro").await.member("checkout_url");
    assert!(of_b != urls[0] && scene.stripe.sessions() == 3, "and so has another account");
    let paid = scene.stripe.pay(&urls[0], scene.seconds() + 1_000);
    scene.post(&scene.stripe.event("checkout.session.completed", &paid.session)).await;
    for status in ["active", "past_due"] {
        scene.stripe.set_status(&paid.subscription, status);
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
        let portal = checkout(a, "scale").await.member("checkout_url");
        assert!(portal.starts_with(PORTAL), "{portal}");
    }
    assert_eq!(scene.stripe.sessions(), 3);
}

/// From nothing to paid, cancelled, and back to nothing: what an account has at each step.
#[tokio::test]
async fn st2_from_the_first_page_to_the_end() {
    let scene = scene().await;
    let a = &scene.world.a;
    let mut plans = Vec::new();
    let paid = scene.pay(a, "pro").await;
    plans.push(scene.plan(a).await);
    scene.post(&scene.stripe.event("checkout.session.completed", &paid.session)).await;
    plans.push(scene.plan(a).await);
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    plans.push(scene.plan(a).await);
    let end = status(a).await["current_period_end"].clone();
    let cancelled = ask_cancel(a).await;
    assert_eq!(cancelled.json(), json!({"status": "cancel_scheduled", "current_period_end": end}));
    plans.push(scene.plan(a).await);
    assert_eq!(status(a).await["cancel_scheduled"], true);
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    plans.push(scene.plan(a).await);
    scene.stripe.set_status(&paid.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &paid.subscription)).await;
    plans.push(scene.plan(a).await);
    let pro = "pro pro active";
    assert_eq!(plans, ["free free active", pro, pro, pro, pro, "free free canceled"]);
    let over = status(a).await;
    assert_eq!((&over["current_period_end"], &over["cancel_scheduled"]), (&Value::Null, &json!(false)));
    assert_eq!(ask_cancel(a).await.outcome(), "400 no_subscription");
    assert!(ask_portal(a).await.member("portal_url").starts_with(PORTAL), "invoices can still be seen");
    // The next subscription is the same customer's.
    scene.world.clock.advance(std::time::Duration::from_hours(1));
    let again = scene.subscribe(a, "business").await;
    assert_eq!(again.customer, paid.customer);
}

/// A repeated cancellation succeeds like the first, and one that was scheduled at Stripe counts; one that was undone
/// there is requested again.
#[tokio::test]
async fn a_cancellation_can_be_repeated_and_taken_back() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let posts = || scene.stripe.seen().iter().filter(|seen| seen.line.contains("POST /v1/subscriptions")).count();
    for _ in 0..3 {
        assert_eq!(ask_cancel(a).await.status, 200);
    }
    assert_eq!(posts(), 1);
    scene.stripe.change(&paid.subscription, |wire| wire["cancel_at_period_end"] = false.into());
    assert_eq!(ask_cancel(a).await.status, 200);
    assert_eq!(scene.stripe.subscription(&paid.subscription)["cancel_at_period_end"], true);
    let end = scene.seconds() + 30 * DAY_SECS;
    scene.stripe.change(&paid.subscription, |wire| {
        wire["cancel_at_period_end"] = false.into();
        wire["cancel_at"] = end.into();
    });
    assert_eq!(ask_cancel(a).await.status, 200);
    assert_eq!((posts(), status(a).await["cancel_scheduled"] == true), (2, true), "a date counts as well");
    // It ended, and no event was sent.
    scene.stripe.set_status(&paid.subscription, "canceled");
    assert_eq!(ask_cancel(a).await.outcome(), "400 no_subscription");
    assert_eq!(scene.plan(a).await, "free free canceled", "what was found is stored all the same");
}

/// A subscription whose end was not noticed cannot be cancelled, and the attempt detects that.
#[tokio::test]
async fn what_has_ended_at_the_processor_cannot_be_cancelled() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    scene.stripe.set_status(&paid.subscription, "canceled");
    assert_eq!(ask_cancel(a).await.outcome(), "400 no_subscription");
    assert_eq!(scene.plan(a).await, "free free canceled");
    let at_once = at_once(20, |_| {
        let caller = a.clone();
        async move { ask_cancel(&caller).await.outcome() }
    });
    assert!(at_once.await.iter().all(|outcome| outcome == "400 no_subscription"));
}

/// Plans, prices and return URLs are the operator's, whatever a request claims.
#[tokio::test]
async fn b1_prices_and_addresses_come_from_the_configuration() {
    let scene = scene_with(1, |config| {
        config.public_url = Some("https://links.example.com".parse().expect("a URL"));
    })
    .await;
    let a = &scene.world.a;
    for (name, value) in [
        ("x-forwarded-host", "evil.example.com"),
        ("origin", "https://evil.example.com"),
        ("referer", "https://evil.example.com/"),
        ("host", "evil.example.com"),
        ("forwarded", "host=evil.example.com"),
    ] {
        let path = "/v1/billing/stripe/checkout?tier=pro&price=price_evil&success_url=https://evil.example.com";
        let reply = a.ask(Method::POST, path).header(name, value).send().await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text());
    }
    scene.subscribe(a, "pro").await;
    let portal = a.ask(Method::POST, "/v1/billing/stripe/portal").header("origin", "https://evil.example.com");
    assert_eq!(portal.send().await.status, 200);
    let seen = scene.stripe.seen();
    let checkouts: Vec<_> = seen.iter().filter(|seen| seen.line == "POST /v1/checkout/sessions").collect();
    assert_eq!((checkouts.len(), scene.stripe.sessions()), (6, 1));
    let first = checkouts[0];
    let tenant = a.tenant.as_str();
    for (name, value) in [
        ("mode", "subscription"),
        ("line_items[0][price]", "price_pro"),
        ("line_items[0][quantity]", "1"),
        ("success_url", "https://links.example.com/account/plan?done=plan-paid"),
        ("cancel_url", "https://links.example.com/account/plan"),
        ("client_reference_id", tenant),
        ("metadata[tenant_id]", tenant),
        ("subscription_data[metadata][tenant_id]", tenant),
        ("customer_email", "a@example.com"),
    ] {
        assert_eq!(param(first, name), value, "{name}");
    }
    // At least half an hour after its creation, as Stripe requires, and short, so that a page of the last hour soon
    // expires.
    let hour = scene.seconds().div_euclid(3_600) * 3_600;
    assert_eq!(param(first, "expires_at"), (hour + 3_600 + 35 * 60).to_string());
    assert_eq!(first.form.len(), 10, "{first:?}");
    let portal = seen.iter().find(|seen| seen.line == "POST /v1/billing_portal/sessions").expect("a portal");
    assert_eq!(param(portal, "return_url"), "https://links.example.com/account/plan");
    assert!(seen.iter().all(|seen| !format!("{seen:?}").contains("evil")), "{seen:?}");
    assert!(seen.iter().filter(|seen| seen.line.starts_with("POST")).all(|seen| seen.key.is_some()));
}

/// A repeat with the same `Idempotency-Key` gets the same answer without another call, even while Stripe does not
/// answer; with another plan it is a conflict.
#[tokio::test]
async fn repeats_with_a_key_get_the_first_answer() {
    let scene = scene().await;
    let a = &scene.world.a;
    scene.subscribe(a, "pro").await;
    let keyed = async |path: &str| a.ask(Method::POST, path).header("idempotency-key", "order-1").send().await;
    let paths = ["/v1/billing/stripe/checkout?tier=pro", "/v1/billing/stripe/portal", "/v1/billing/cancel"];
    let mut first = Vec::new();
    for path in paths {
        first.push(keyed(path).await);
    }
    let calls = scene.stripe.seen().len();
    scene.stripe.fails(Some(Fault::Status(500)));
    for (path, first) in paths.into_iter().zip(&first) {
        let again = keyed(path).await;
        assert_eq!((first.status, again.status, again.text()), (200, 200, first.text()), "{path}");
        assert_eq!(again.header("idempotency-replayed"), "true");
    }
    let other = keyed("/v1/billing/stripe/checkout?tier=scale").await;
    assert_eq!(other.outcome(), "409 idempotency_conflict Idempotency-Key");
    for path in ["/v1/billing/stripe/portal", "/v1/billing/cancel"] {
        let body = a.ask(Method::POST, path).header("idempotency-key", "order-1").body("{}").send().await;
        assert_eq!(body.status, 200, "{path} takes no body, so one is no other request: {}", body.text());
    }
    assert_eq!(scene.stripe.seen().len(), calls);
}

/// Neither page URLs, nor our key, nor the secrets of events are ever logged, at any level.
#[tokio::test]
async fn st10_pages_and_keys_are_in_no_log() {
    log_everything();
    let scene = scene().await;
    let a = &scene.world.a;
    let url = checkout(a, "pro").await.member("checkout_url");
    let paid = scene.stripe.pay(&url, scene.seconds() + 1_000);
    scene.post(&scene.stripe.event("checkout.session.completed", &paid.session)).await;
    let portal = ask_portal(a).await.member("portal_url");
    let keyed = a.ask(Method::POST, "/v1/billing/stripe/portal").header("idempotency-key", "order-1").send().await;
    for url in [url, portal, keyed.member("portal_url")] {
        scene.world.note_secret(&url);
    }
    for fault in [Fault::Status(400), Fault::Status(500), Fault::Cut, Fault::Text, Fault::CutAfterwards] {
        scene.stripe.fails(Some(fault));
        assert_eq!(ask_portal(a).await.outcome(), "503 upstream_unavailable", "{fault:?}");
    }
}
