//! Events that come in any order, repeatedly, late, outdated, or about another account.

use serde_json::json;

use super::{Scene, ask_cancel, scene, scene_with, status};
use deeplink_testing::stripe::{Event, Paid};
use deeplink_testing::{Caller, at_once, insist};

/// Every order of five.
fn orders() -> Vec<[usize; 5]> {
    let mut orders = Vec::new();
    for code in 0..3_125 {
        let order = [code % 5, code / 5 % 5, code / 25 % 5, code / 125 % 5, code / 625];
        if (0..5).all(|number| order.contains(&number)) {
            orders.push(order);
        }
    }
    orders
}

/// Stripe's events from a payment to its failure, each with the state of its time.
async fn history(scene: &Scene, of: &Caller) -> (Paid, [Event; 5]) {
    let stripe = &scene.stripe;
    let paid = scene.pay(of, "pro").await;
    stripe.set_status(&paid.subscription, "incomplete");
    let created = stripe.event_of("customer.subscription.created", &paid.subscription);
    stripe.set_status(&paid.subscription, "active");
    let events = [
        created,
        stripe.event("checkout.session.completed", &paid.session),
        stripe.invoice_event("invoice.paid", &paid.subscription),
        stripe.event_of("customer.subscription.updated", &paid.subscription),
        stripe.invoice_event("invoice.payment_failed", &paid.subscription),
    ];
    (paid, events)
}

async fn forget(scene: &Scene, of: &Caller) {
    let sql = format!(
        "UPDATE tenants SET plan_tier = 'free', subscription_status = NULL, past_due_since = NULL,
            current_period_end = NULL, cancel_scheduled = FALSE, stripe_customer = NULL, stripe_subscription = NULL,
            stripe_rival = NULL
         WHERE id = '{}';
         DELETE FROM stripe_events",
        of.tenant
    );
    scene.world.db.execute(sql).await;
}

/// Five events in each of their 120 orders end in one state: Stripe's latest, whatever the events say.
#[tokio::test]
async fn st3_every_order_ends_in_one_state() {
    let scene = scene().await;
    let a = &scene.world.a;
    let (paid, events) = history(&scene, a).await;
    let orders = orders();
    assert_eq!(orders.len(), 120);
    for (last, plan) in [("past_due", "pro pro past_due"), ("canceled", "free free canceled")] {
        scene.stripe.set_status(&paid.subscription, last);
        let mut ends = std::collections::BTreeSet::new();
        for order in &orders {
            forget(&scene, a).await;
            for at in order {
                scene.post(&events[*at]).await;
            }
            ends.insert((status(a).await.to_string(), scene.stored(a).await));
        }
        assert_eq!(ends.len(), 1, "{last}: {ends:?}");
        assert_eq!(scene.plan(a).await, plan);
    }
    scene.assert_alarms(&[]).await;
}

/// Posts an event while the test continues; returns the status of the answer.
fn post_behind(scene: &Scene, event: Event) -> tokio::task::JoinHandle<u16> {
    let (nobody, signature) = (scene.world.nobody.clone(), event.signature(super::WEBHOOK_SECRET, scene.seconds()));
    tokio::spawn(async move { super::post(&nobody, &event, &signature).await.status })
}

/// A read that was answered before a newer one, but is stored after it, does not win.
#[tokio::test]
async fn st3_a_slow_read_does_not_win() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let early = scene.stripe.event_of("customer.subscription.updated", &paid.subscription);
    let held = scene.stripe.hold_read();
    let slow = post_behind(&scene, early);
    held.reached().await;
    scene.stripe.set_status(&paid.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &paid.subscription)).await;
    assert_eq!(scene.plan(a).await, "free free canceled");
    held.let_go();
    assert_eq!(slow.await.expect("an answer"), 200);
    assert_eq!(scene.plan(a).await, "free free canceled", "what was read earlier is not stored later");
    assert_eq!(scene.events().await, 3);
}

/// Nor does one that was answered with a state that has changed since.
#[tokio::test]
async fn st3_a_state_that_was_taken_back_does_not_come_again() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    scene.stripe.set_status(&paid.subscription, "canceled");
    let early = scene.stripe.event_of("customer.subscription.updated", &paid.subscription);
    let held = scene.stripe.hold_read();
    let slow = post_behind(&scene, early);
    held.reached().await;
    scene.stripe.set_status(&paid.subscription, "active");
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    held.let_go();
    assert_eq!(slow.await.expect("an answer"), 200);
    assert_eq!(scene.plan(a).await, "pro pro active");
}

/// A cancellation that is overtaken by an event is stored in its later state.
#[tokio::test]
async fn st3_a_cancellation_that_is_overtaken_is_read_again() {
    let scene = scene().await;
    let a = scene.world.a.clone();
    let paid = scene.subscribe(&a, "pro").await;
    assert_eq!(ask_cancel(&a).await.status, 200);
    let held = scene.stripe.hold_read();
    let slow = tokio::spawn({
        let a = a.clone();
        async move { ask_cancel(&a).await.status }
    });
    held.reached().await;
    scene.stripe.set_status(&paid.subscription, "past_due");
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    held.let_go();
    assert_eq!(slow.await.expect("an answer"), 200);
    assert_eq!(scene.plan(&a).await, "pro pro past_due");
    assert_eq!(status(&a).await["cancel_scheduled"], true);
}

/// An event has one effect, however often it comes and to whichever node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn st4_a_repeated_event_has_one_effect() {
    let scene = scene_with(2, |_| {}).await;
    let a = &scene.world.a;
    let (_, events) = history(&scene, a).await;
    for (number, event) in (1..).zip(&events) {
        scene.post(event).await;
        scene.post(event).await;
        assert_eq!((scene.events().await, scene.version(a).await), (number, number));
    }
    let b = &scene.world.b;
    let (_, events) = history(&scene, b).await;
    let nodes = [scene.world.at(0, &scene.world.nobody), scene.world.at(1, &scene.world.nobody)];
    let signature = events[1].signature(super::WEBHOOK_SECRET, scene.seconds());
    let statuses = at_once(20, |number| {
        let (node, event, signature) = (nodes[number % 2].clone(), events[1].clone(), signature.clone());
        async move { insist(|| super::post(&node, &event, &signature)).await.status }
    })
    .await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!((scene.events().await, scene.version(b).await), (6, 1));
    assert_eq!(scene.plan(b).await, "pro pro active");
}

/// A fault between recording an event and the commit leaves neither the record nor the effect, so the repeat applies.
#[tokio::test]
async fn st5_an_event_and_its_effect_are_stored_together() {
    let scene = scene().await;
    let a = &scene.world.a;
    let db = &scene.world.db;
    let paid = scene.pay(a, "pro").await;
    let event = scene.stripe.event("checkout.session.completed", &paid.session);
    if db.is_postgres() {
        db.execute(
            "CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'fault'; END $$;
             CREATE TRIGGER fault BEFORE UPDATE OF billing_version ON tenants FOR EACH ROW EXECUTE FUNCTION fault()",
        )
        .await;
    } else {
        db.execute(
            "CREATE TRIGGER fault BEFORE UPDATE OF billing_version ON tenants BEGIN SELECT RAISE(ABORT, 'fault'); END",
        )
        .await;
    }
    assert_eq!(scene.post_at(&scene.world.nobody, &event).await.status, 500);
    assert_eq!((scene.events().await, scene.version(a).await), (0, 0));
    db.execute(if db.is_postgres() { "DROP TRIGGER fault ON tenants" } else { "DROP TRIGGER fault" }).await;
    scene.post(&event).await;
    assert_eq!((scene.events().await, scene.version(a).await), (1, 1));
    assert_eq!(scene.plan(a).await, "pro pro active");
}

/// The end of a subscription other than the account's changes nothing. A second one that grants a plan is an alarm,
/// unless the first one has ended: then it replaces it.
#[tokio::test]
async fn st6_an_account_has_one_subscription() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let end = scene.seconds() + 1_000;
    let old = scene.stripe.subscribe(&paid.customer, a.tenant.as_str(), "price_business", end);
    scene.stripe.set_status(&old, "canceled");
    let before = scene.stored(a).await;
    for kind in ["customer.subscription.deleted", "customer.subscription.updated"] {
        scene.post(&scene.stripe.event_of(kind, &old)).await;
        assert_eq!(scene.stored(a).await, before, "{kind}");
    }
    scene.assert_alarms(&[]).await;
    let second = scene.stripe.subscribe(&paid.customer, a.tenant.as_str(), "price_scale", end);
    scene.post(&scene.stripe.event_of("customer.subscription.created", &second)).await;
    assert_eq!((scene.stored(a).await, scene.plan(a).await.as_str()), (before, "pro pro active"));
    scene.assert_alarms(&[("second_subscription", 1)]).await;
    // The first one ends; the event for that is still on its way.
    scene.stripe.set_status(&paid.subscription, "canceled");
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &second)).await;
    assert_eq!(scene.plan(a).await, "scale scale active");
    scene.post(&scene.stripe.event_of("customer.subscription.deleted", &paid.subscription)).await;
    assert_eq!(scene.plan(a).await, "scale scale active");
    scene.assert_alarms(&[("second_subscription", 1)]).await;
}

/// An event about a customer who has no account here, or about whom the sources disagree, changes nothing: it is
/// accepted and raises an alarm.
#[tokio::test]
async fn st9_events_that_fit_nobody_are_alarms() {
    let scene = scene().await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    let paid = scene.subscribe(a, "pro").await;
    let before = (scene.stored(a).await, scene.version(a).await, scene.version(b).await);
    let end = scene.seconds() + 1_000;
    // A's customer, and an account that is B's.
    let crossed = scene.stripe.subscribe(&paid.customer, b.tenant.as_str(), "price_scale", end);
    scene.post(&scene.stripe.event_of("customer.subscription.created", &crossed)).await;
    scene.assert_alarms(&[("customer_mismatch", 1)]).await;
    // The event says A, and what is fetched says B.
    let mut lie = scene.stripe.subscription(&crossed);
    lie["metadata"]["tenant_id"] = a.tenant.as_str().into();
    scene.post(&scene.stripe.event("customer.subscription.updated", &lie)).await;
    scene.assert_alarms(&[("customer_mismatch", 2)]).await;
    // An unknown customer, without an account, and with one that does not exist.
    let gone = scene.stripe.subscribe("cus_gone", "tnt_ffffffffffffffffffffffff", "price_scale", end);
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &gone)).await;
    let nobodys = scene.stripe.subscribe("cus_nobody", "no account", "price_scale", end);
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &nobodys)).await;
    scene.stripe.change(&nobodys, |wire| wire["metadata"] = json!({}));
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &nobodys)).await;
    scene.assert_alarms(&[("customer_mismatch", 2), ("unknown_customer", 3)]).await;
    assert_eq!((scene.stored(a).await, scene.version(a).await, scene.version(b).await), before);
    assert_eq!(scene.events().await, 1);
}

/// An event about a subscription that does not exist is an alarm, and is refused so that it comes again: the key may be
/// another account's. Once the subscription is found, the same event applies.
#[tokio::test]
async fn st9_an_event_about_an_unknown_subscription_comes_again() {
    let scene = scene().await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    scene.subscribe(a, "pro").await;
    let of = |customer: &str, tenant: Option<&str>| {
        let metadata = tenant.map_or_else(|| json!({}), |tenant| json!({"tenant_id": tenant}));
        let unknown = json!({"id": "sub_unknown", "customer": customer, "metadata": metadata});
        scene.stripe.event("customer.subscription.updated", &unknown)
    };
    let before = (scene.stored(a).await, scene.version(a).await, scene.version(b).await);
    let named = of("cus_unknown", Some(b.tenant.as_str()));
    for (number, event) in (1..).zip([&of("cus_unknown", None), &named, &named]) {
        let refused = scene.post_at(&scene.world.nobody, event).await;
        assert_eq!(refused.outcome(), "503 upstream_unavailable");
        assert!(!refused.header("retry-after").is_empty());
        scene.assert_alarms(&[("unknown_subscription", number)]).await;
    }
    assert_eq!((scene.stored(a).await, scene.version(a).await, scene.version(b).await), before);
    assert_eq!(scene.events().await, 1);
    let found = scene.stripe.subscribe("cus_unknown", b.tenant.as_str(), "price_scale", scene.seconds() + 1_000);
    scene.stripe.is_known_as(&found, "sub_unknown");
    scene.post(&named).await;
    assert_eq!(scene.plan(b).await, "scale scale active");
}

/// Irrelevant events are accepted and ignored; an invoice that names no account is assigned by its subscription.
#[tokio::test]
async fn events_of_no_use_are_taken() {
    let scene = scene().await;
    let a = &scene.world.a;
    let (nothing, session) = (json!({"id": "x"}), json!({"id": "cs_1", "mode": "payment", "subscription": null}));
    for (kind, object) in [
        ("customer.created", &nothing),
        ("payment_intent.succeeded", &nothing),
        ("invoice.paid", &nothing),
        ("checkout.session.completed", &session),
    ] {
        scene.post(&scene.stripe.event(kind, object)).await;
    }
    let thin = json!({"id": "evt_thin", "object": "v2.core.event", "type": "v1.billing.meter.no_meter_found"});
    scene.post(&Event { id: "evt_thin".to_owned(), body: thin.to_string() }).await;
    assert_eq!((scene.events().await, scene.stripe.seen().len()), (0, 0));
    let paid = scene.pay(a, "pro").await;
    let invoice = json!({"id": "in_1", "customer": paid.customer, "subscription": paid.subscription, "metadata": {}});
    scene.post(&scene.stripe.event("invoice.paid", &invoice)).await;
    assert_eq!(scene.plan(a).await, "pro pro active");
    scene.assert_alarms(&[]).await;
}
