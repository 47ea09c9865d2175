//! Which account a subscription belongs to, if the processor knows several customers or none.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DAY_SECS, Scene, ask_cancel, ask_portal, checkout, scene};
use deeplink_testing::stripe::{PRICES, Paid};
use deeplink_testing::{Caller, eventually};

const PORTAL: &str = "https://billing.stripe.test/";

/// A payment through a payment link of the operator's, in whose URL anyone can name any account, changes nothing.
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

/// Pays on two pages, which makes two customers.
async fn pay_twice(scene: &Scene, of: &Caller) -> [Paid; 2] {
    let pages = [checkout(of, "pro").await, checkout(of, "scale").await].map(|page| page.member("checkout_url"));
    let paid = pages.map(|url| scene.stripe.pay(&url, scene.seconds() + 1_000));
    assert_ne!(paid[0].customer, paid[1].customer);
    paid
}

/// Of an account's two customers, the first one in an event counts, and the other one is an alarm; when the first one's
/// subscription ends, the other one's replaces it, though no event about that one comes then.
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
        let ended = scene.stripe.event_of("customer.subscription.deleted", &first.subscription);
        // While the second one cannot be read, the event is refused, so that it comes again.
        let named = |id: &str| scene.stripe.change(&second.subscription, |wire| wire["id"] = id.into());
        named("sub_other");
        assert_eq!(scene.post_at(&scene.world.nobody, &ended).await.outcome(), "503 upstream_unavailable");
        named(&second.subscription);
        scene.post(&ended).await;
        assert_eq!(scene.plan(a).await, two);
        assert_eq!(scene.rival(a).await, "-", "it is the first one now");
        // Later events about the first one change nothing.
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &first.subscription)).await;
        assert_eq!(scene.plan(a).await, two);
        assert!(scene.stored(a).await[0].ends_with(&format!("{} {}", second.customer, second.subscription)));
        scene.assert_alarms(&[("second_subscription", 1)]).await;
    }
}

/// A second subscription that has ended is forgotten, and one that grants nothing yet is kept.
#[tokio::test]
async fn a_second_subscription_that_is_over_is_forgotten() {
    let scene = scene().await;
    let a = &scene.world.a;
    let [first, second] = pay_twice(&scene, a).await;
    for paid in [&first, &second] {
        scene.post(&scene.stripe.event("checkout.session.completed", &paid.session)).await;
    }
    assert_eq!(scene.rival(a).await, second.subscription);
    let told = async |status: &str, paid: &Paid| {
        scene.stripe.set_status(&paid.subscription, status);
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
        (scene.plan(a).await, scene.rival(a).await)
    };
    let pro = "pro pro active".to_owned();
    assert_eq!(told("paused", &second).await, (pro.clone(), second.subscription.clone()));
    assert_eq!(told("canceled", &second).await, (pro, "-".to_owned()));
    scene.stripe.set_status(&second.subscription, "active");
    assert_eq!(told("canceled", &first).await, ("free free canceled".to_owned(), "-".to_owned()));
}

/// If no event says that the first subscription no longer grants anything, the daily round adopts the second one.
#[tokio::test]
async fn a_second_subscription_is_adopted_without_an_event() {
    let scene = scene().await;
    let a = &scene.world.a;
    let [first, second] = pay_twice(&scene, a).await;
    let far = scene.seconds() + 90 * DAY_SECS;
    for paid in [&first, &second] {
        scene.stripe.change(&paid.subscription, |wire| wire["current_period_end"] = far.into());
        scene.post(&scene.stripe.event("checkout.session.completed", &paid.session)).await;
    }
    scene.stripe.set_status(&first.subscription, "past_due");
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &first.subscription)).await;
    assert_eq!((scene.plan(a).await.as_str(), scene.rival(a).await), ("pro pro past_due", second.subscription.clone()));
    let reads = || scene.stripe.seen().iter().filter(|seen| seen.line.starts_with("GET ")).count();
    let before = reads();
    scene.next_round(Duration::from_hours(25)).await;
    assert_eq!(reads(), before, "while the first one grants its plan, there is nothing to read");
    scene.world.clock.advance(Duration::from_hours(24 * 7));
    eventually("it is adopted", Duration::from_mins(1), async || scene.plan(a).await == "scale scale active").await;
    assert_eq!(scene.rival(a).await, "-");
    // One that the processor does not know is ignored.
    scene.world.db.execute("UPDATE tenants SET stripe_rival = 'sub_gone' WHERE stripe_subscription IS NOT NULL").await;
    scene.stripe.set_status(&second.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &second.subscription)).await;
    assert_eq!((scene.plan(a).await.as_str(), scene.rival(a).await.as_str()), ("free free canceled", "-"));
    scene.assert_alarms(&[("second_subscription", 1), ("unknown_subscription", 1)]).await;
}

/// Until a subscription has ended, whatever its state and price, no second one is sold, and it can be cancelled. One
/// that waits for its first payment does not count yet.
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

/// A customer who no longer exists, such as after another account at the processor was configured, is created again.
#[tokio::test]
async fn a_customer_who_is_gone_is_made_anew() {
    let scene = scene().await;
    let a = &scene.world.a;
    let before = scene.subscribe(a, "pro").await;
    scene.stripe.set_status(&before.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &before.subscription)).await;
    scene.stripe.forgets_everybody();
    let stored = (scene.stored(a).await, scene.version(a).await);
    let refused = ask_portal(a).await;
    assert_eq!(refused.outcome(), "400 no_customer", "there is no page without a customer");
    assert_eq!((scene.stored(a).await, scene.version(a).await), stored);
    scene.world.clock.advance(Duration::from_hours(1));
    let paid = scene.subscribe(a, "scale").await;
    assert_ne!(paid.customer, before.customer);
    let seen = scene.stripe.seen();
    let pages: Vec<_> = seen.iter().filter(|seen| seen.line == "POST /v1/checkout/sessions").collect();
    let asked = ["customer", "customer_email"].map(|name| pages[pages.len() - 1].form.get(name).map(String::as_str));
    assert_eq!(asked, [None, Some("a@example.com")]);
    assert!(scene.stored(a).await[0].contains(&paid.customer));
}

/// An answer about a subscription other than the requested one is ignored.
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
