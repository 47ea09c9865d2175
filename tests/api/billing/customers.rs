//! Whose a subscription is, where the processor knows several customers or none.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Scene, ask_cancel, checkout, scene};
use deeplink_testing::Caller;
use deeplink_testing::stripe::{PRICES, Paid};

const PORTAL: &str = "https://billing.stripe.test/";

/// A payment over a link of the operator's, in whose address anybody can name any account, changes nothing.
#[tokio::test]
async fn a_reference_in_a_payment_link_names_nobody() {
    let scene = scene().await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    scene.subscribe(a, "pro").await;
    let before = (scene.stored(a).await, scene.version(a).await, scene.version(b).await);
    for victim in [a, b] {
        let bought = scene.stripe.subscribe("cus_link", "", PRICES[2], scene.seconds() + 1_000);
        scene.stripe.change(&bought, |wire| wire["metadata"] = json!({}));
        let session = json!({
            "id": "cs_link", "object": "checkout.session", "mode": "subscription", "customer": "cus_link",
            "subscription": bought, "client_reference_id": victim.tenant.as_str(), "metadata": {},
        });
        scene.post(&scene.stripe.event("checkout.session.completed", &session)).await;
        scene.post(&scene.stripe.event_of("customer.subscription.created", &bought)).await;
        scene.stripe.set_status(&bought, "canceled");
        scene.post(&scene.stripe.event_of("customer.subscription.deleted", &bought)).await;
    }
    assert_eq!((scene.stored(a).await, scene.version(a).await, scene.version(b).await), before);
    assert_eq!((scene.plan(a).await.as_str(), scene.plan(b).await.as_str()), ("pro pro active", "free free active"));
    scene.assert_alarms(&[("unknown_customer", 6)]).await;
}

/// Somebody pays on two pages and is two customers then.
async fn pay_twice(scene: &Scene, of: &Caller) -> [Paid; 2] {
    let pages = [checkout(of, "pro").await, checkout(of, "scale").await].map(|page| page.member("checkout_url"));
    let paid = pages.map(|url| scene.stripe.pay(&url, scene.seconds() + 1_000));
    assert_ne!(paid[0].customer, paid[1].customer);
    paid
}

/// Of two customers that one account became, the first that is heard of counts, and the other one is an alarm; when the
/// first one's subscription ends, the other one's takes its place.
#[tokio::test]
async fn st9_two_customers_of_one_account_are_as_two_subscriptions() {
    for order in [[0, 1], [1, 0]] {
        let scene = scene().await;
        let a = &scene.world.a;
        let paid = pay_twice(&scene, a).await;
        let [first, second] = order.map(|at| &paid[at]);
        let [one, two] = order.map(|at| if at == 0 { "pro pro active" } else { "scale scale active" });
        scene.post(&scene.stripe.event("checkout.session.completed", &first.session)).await;
        scene.post(&scene.stripe.event("checkout.session.completed", &second.session)).await;
        assert_eq!(scene.plan(a).await, one);
        scene.assert_alarms(&[("second_subscription", 1)]).await;
        scene.stripe.set_status(&first.subscription, "canceled");
        scene.post(&scene.stripe.event_of("customer.subscription.deleted", &first.subscription)).await;
        assert_eq!(scene.plan(a).await, "free free canceled");
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &second.subscription)).await;
        assert_eq!(scene.plan(a).await, two);
        // What is still said of the first one changes nothing.
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &first.subscription)).await;
        assert_eq!(scene.plan(a).await, two);
        assert!(scene.stored(a).await[0].ends_with(&format!("{} {}", second.customer, second.subscription)));
        scene.assert_alarms(&[("second_subscription", 1)]).await;
    }
}

/// While a subscription is not over, whatever its state is and whatever it costs, no second one is sold beside it, and it can
/// be cancelled. One that waits for its first payment is none yet.
#[tokio::test]
async fn a_subscription_that_grants_nothing_is_still_one() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let told = async |change: fn(&mut Value)| {
        scene.stripe.change(&paid.subscription, change);
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    };
    for change in [
        (|wire| wire["status"] = "unpaid".into()) as fn(&mut Value),
        |wire| wire["status"] = "paused".into(),
        |wire| wire["status"] = "some_new_status".into(),
        |wire| {
            wire["status"] = "active".into();
            wire["items"]["data"][0]["price"]["id"] = "price_of_socks".into();
        },
    ] {
        told(change).await;
        assert_eq!(scene.plan(a).await, "free free canceled");
        let page = checkout(a, "scale").await.member("checkout_url");
        assert!(page.starts_with(PORTAL), "{page}");
        assert_eq!(ask_cancel(a).await.status, 200);
        assert_eq!(scene.stripe.subscription(&paid.subscription)["cancel_at_period_end"], true);
        told(|wire| wire["cancel_at_period_end"] = false.into()).await;
    }
    assert_eq!(scene.stripe.sessions(), 1);
    // It was posted twice with a price that is not ours.
    scene.assert_alarms(&[("unknown_price", 2)]).await;
    told(|wire| wire["status"] = "incomplete".into()).await;
    assert!(checkout(a, "scale").await.member("checkout_url").starts_with("https://checkout.stripe.test/"));
    assert_eq!(ask_cancel(a).await.outcome(), "400 no_subscription");
}

/// A customer who is not known any more, such as after another account at the processor was configured, is made anew.
#[tokio::test]
async fn a_customer_who_is_gone_is_made_anew() {
    let scene = scene().await;
    let a = &scene.world.a;
    let before = scene.subscribe(a, "pro").await;
    scene.stripe.set_status(&before.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &before.subscription)).await;
    scene.stripe.forgets_everybody();
    scene.world.clock.advance(Duration::from_hours(1));
    let paid = scene.subscribe(a, "scale").await;
    assert_ne!(paid.customer, before.customer);
    let seen = scene.stripe.seen();
    let pages: Vec<_> = seen.iter().filter(|seen| seen.line == "POST /v1/checkout/sessions").collect();
    let asked = ["customer", "customer_email"].map(|name| pages[pages.len() - 1].form.get(name).map(String::as_str));
    assert_eq!(asked, [None, Some("a@example.com")]);
    assert!(scene.stored(a).await[0].contains(&paid.customer));
}

/// An answer about another subscription than the one that was asked about is none.
#[tokio::test]
async fn an_answer_about_another_subscription_is_none() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let event = scene.stripe.event_of("customer.subscription.updated", &paid.subscription);
    scene.stripe.change(&paid.subscription, |wire| {
        wire["id"] = "sub_other".into();
        wire["status"] = "canceled".into();
    });
    assert_eq!(scene.post_at(&scene.world.nobody, &event).await.outcome(), "503 upstream_unavailable");
    assert_eq!(ask_cancel(a).await.outcome(), "503 upstream_unavailable");
    assert_eq!((scene.plan(a).await.as_str(), scene.version(a).await), ("pro pro active", 1));
}
