//! Which plan holds, and what it limits.

use std::time::Duration;

use serde_json::json;

use super::{DAY_SECS, ask_cancel, ask_checkout, scene, status};
use deeplink_testing::stripe::{PRICES, Shape};
use deeplink_testing::{eventually, spawn_with};

/// The operator's grant and the subscription's plan: the higher one holds, and what is paid for is shown as it is.
#[tokio::test]
async fn bl1_the_operators_grant_and_the_subscription_add_up() {
    let scene = scene().await;
    let a = &scene.world.a;
    let comp = async |tier: &str| {
        scene.world.db.execute(format!("UPDATE tenants SET comp_tier = {tier} WHERE id = '{}'", a.tenant)).await;
    };
    comp("'business'").await;
    let shown = status(a).await;
    assert_eq!((&shown["comp_active"], &shown["billing_method"]), (&json!(true), &json!("free")));
    assert_eq!(scene.plan(a).await, "free business active");
    scene.pay(a, "pro").await;
    let paid = scene.stripe.seen();
    assert_eq!(paid.len(), 1, "who is granted a plan can still pay for one");
    comp("NULL").await;
    let paid = scene.subscribe(&scene.world.b, "pro").await;
    let b = &scene.world.b;
    let grant = format!("UPDATE tenants SET comp_tier = 'scale' WHERE id = '{}'", b.tenant);
    scene.world.db.execute(grant).await;
    assert_eq!(scene.plan(b).await, "pro scale active");
    assert_eq!(status(b).await["limits"]["max_links"], 100_000);
    scene.world.db.execute(format!("UPDATE tenants SET comp_tier = NULL WHERE id = '{}'", b.tenant)).await;
    assert_eq!(
        (scene.plan(b).await.as_str(), &status(b).await["billing_method"]),
        ("pro pro active", &json!("stripe"))
    );
    scene.stripe.set_status(&paid.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &paid.subscription)).await;
    assert_eq!(
        (scene.plan(b).await.as_str(), &status(b).await["billing_method"]),
        ("free free canceled", &json!("free"))
    );
}

/// What each status of a subscription grants; a failed payment keeps the plan for seven days.
#[tokio::test]
async fn bl2_a_failed_payment_keeps_the_plan_for_seven_days() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "business").await;
    let becomes = async |status: &str| {
        scene.stripe.set_status(&paid.subscription, status);
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
        scene.plan(a).await
    };
    for unpaid in ["unpaid", "paused", "incomplete", "some_new_status"] {
        assert_eq!(becomes(unpaid).await, "free free canceled", "{unpaid}");
        assert_eq!(becomes("trialing").await, "business business active");
    }
    assert_eq!(becomes("past_due").await, "business business past_due");
    scene.world.clock.advance(Duration::from_secs(7 * 86_400 - 1));
    assert_eq!(becomes("past_due").await, "business business past_due", "the first sight counts");
    scene.world.clock.advance(Duration::from_secs(1));
    assert_eq!(scene.plan(a).await, "business free past_due");
    assert_eq!(becomes("active").await, "business business active");
    assert_eq!(becomes("past_due").await, "business business past_due", "another failure has days of its own");
    let other_price = |wire: &mut serde_json::Value| wire["items"]["data"][0]["price"]["id"] = "price_of_socks".into();
    scene.stripe.change(&paid.subscription, other_price);
    assert_eq!(becomes("active").await, "free free canceled", "a price that is not ours");
    scene.stripe.change(&paid.subscription, |wire| wire["items"]["data"][0]["price"]["id"] = PRICES[2].into());
    assert_eq!(becomes("active").await, "scale scale active", "a change of plan");
    scene.assert_alarms(&[("unknown_price", 1)]).await;
}

/// The end of the period is shown in milliseconds, in whichever form Stripe says it.
#[tokio::test]
async fn bl3_the_end_of_the_period_is_shown_in_milliseconds() {
    let scene = scene().await;
    let a = &scene.world.a;
    assert_eq!(status(a).await["current_period_end"], json!(null));
    let paid = scene.subscribe(a, "pro").await;
    let end = scene.seconds() + 30 * DAY_SECS;
    assert_eq!(status(a).await["current_period_end"], end * 1_000);
    for (shape, more) in [(Shape::Old, 60), (Shape::New, 120)] {
        scene.stripe.speaks(shape);
        scene.stripe.change(&paid.subscription, |wire| wire["current_period_end"] = (end + more).into());
        scene.post(&scene.stripe.invoice_event("invoice.paid", &paid.subscription)).await;
        assert_eq!(status(a).await["current_period_end"], (end + more) * 1_000, "{shape:?}");
    }
    scene.stripe.change(&paid.subscription, |wire| wire["current_period_end"] = json!(null));
    scene.post(&scene.stripe.invoice_event("invoice.payment_failed", &paid.subscription)).await;
    assert_eq!(status(a).await["current_period_end"], json!(null));
    assert_eq!(scene.plan(a).await, "pro pro active");
}

/// A smaller plan deletes nothing: links go on to work, and new ones are refused until there is room.
#[tokio::test]
async fn bl4_a_downgrade_deletes_nothing() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let made = a.post("/v1/links/bulk", &json!({"template": {"web_url": "https://example.com/"}, "count": 60})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let links: Vec<_> = made.json()["links"].as_array().expect("links").clone();
    let id = |at: usize| links[at]["link_id"].as_str().expect("an id").to_owned();
    scene.stripe.set_status(&paid.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &paid.subscription)).await;
    assert_eq!(scene.plan(a).await, "free free canceled");
    let refused = a.post("/v1/links", &json!({})).await;
    assert_eq!(refused.outcome(), "402 quota_exceeded");
    let said = refused.json();
    assert_eq!((&said["resource"], &said["limit"], &said["current"]), (&json!("links"), &json!(50), &json!(60)));
    for at in [0, 59] {
        assert_eq!(a.tap(&id(at)).await.status, 302);
    }
    assert_eq!(status(a).await["usage"]["links"], 60);
    for at in 0..10 {
        assert_eq!(a.delete(&format!("/v1/links/{}", id(at))).await.status, 204);
        assert_eq!(a.post("/v1/links", &json!({})).await.outcome(), "402 quota_exceeded");
    }
    assert_eq!(a.delete(&format!("/v1/links/{}", id(10))).await.status, 204);
    a.make("fits-again").await;
}

/// What is used is counted with what uses it.
#[tokio::test]
async fn usage_is_what_is_there() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let a = &world.a;
    a.make("spring-42").await;
    a.post("/v1/domains", &json!({"domain": "go.example.com"})).await;
    a.post("/v1/webhooks", &json!({"url": "https://hooks.example.com/", "events": ["conversion"]})).await;
    for _ in 0..2 {
        let converted = a.post("/v1/lifecycle/convert", &json!({"user_id": "user-1", "type": "purchase"})).await;
        assert_eq!(converted.status, 200, "{}", converted.text());
    }
    a.tap("spring-42").await;
    let counted = json!({"links": 1, "events_this_month": 3, "domains": 1, "team_members": 1, "webhooks": 1});
    eventually("the click is counted", Duration::from_mins(1), async || status(a).await["usage"] == counted).await;
    assert_eq!(status(a).await["quotas_enforced"], true);
    assert_eq!(status(&world.b).await["usage"]["links"], 0);
    assert_eq!(a.post("/v1/domains", &json!({"domain": "other.example.com"})).await.outcome(), "402 quota_exceeded");
    // Eleven days on it is another month.
    world.clock.advance(Duration::from_hours(11 * 24));
    assert_eq!(status(a).await["usage"]["events_this_month"], 0);
}

/// A paid period that is over is asked about, at the latest a day later, whether or not an event came.
#[tokio::test]
async fn a_period_that_is_over_is_asked_about_daily() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    assert_eq!(ask_cancel(a).await.status, 200);
    scene.stripe.set_status(&paid.subscription, "canceled");
    let reads = || scene.stripe.seen().iter().filter(|seen| seen.line.starts_with("GET ")).count();
    let before = reads();
    scene.stripe.fails(Some(deeplink_testing::stripe::Fault::Status(500)));
    scene.world.clock.advance(Duration::from_hours(31 * 24));
    eventually("it is asked about", Duration::from_mins(1), async || reads() >= before + 3).await;
    assert_eq!(scene.plan(a).await, "pro pro active", "what cannot be read stays as it is");
    scene.stripe.fails(None);
    eventually("it is asked about again", Duration::from_mins(1), async || {
        scene.world.clock.advance(Duration::from_mins(61));
        scene.plan(a).await == "free free canceled"
    })
    .await;
    let asked = reads();
    for _ in 0..3 {
        scene.world.clock.advance(Duration::from_hours(25));
        scene.plan(a).await;
    }
    assert_eq!(reads(), asked, "what has ended is not asked about any more");
    assert_eq!(ask_checkout(a, "pro").await.status, 200);
}

/// A subscription that the processor does not know any more is an alarm each day, and no reason to ask every hour.
#[tokio::test]
async fn a_subscription_that_is_gone_is_asked_about_daily() {
    let scene = scene().await;
    let a = &scene.world.a;
    scene.subscribe(a, "pro").await;
    scene.stripe.forgets_everybody();
    scene.world.clock.advance(Duration::from_hours(31 * 24));
    eventually("it is an alarm", Duration::from_mins(1), async || !scene.alarms().await.is_empty()).await;
    scene.assert_alarms(&[("unknown_subscription", 1)]).await;
    let due = "SELECT expires_at FROM leases WHERE name = 'subscriptions'";
    let tomorrow = scene.world.clock.now().plus_days(1).as_millis();
    eventually("the next round is tomorrow's", Duration::from_mins(1), async || {
        scene.world.db.number(due).await >= tomorrow - 3_600_000
    })
    .await;
    assert_eq!(scene.plan(a).await, "pro pro active", "it stays as it is");
}
