//! Which plan is effective, and what it limits.

use std::time::Duration;

use serde_json::json;

use super::{DAY_SECS, ask_cancel, ask_checkout, scene, scene_with, status};
use deeplink_testing::stripe::{Fault, PRICES, Shape};
use deeplink_testing::{Caller, eventually, spawn_with};

/// The operator's grant and the subscription's plan: the higher one is effective, and the paid one is shown as it is.
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
    assert_eq!(paid.len(), 1, "an account with a granted plan can still pay for one");
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
    assert_eq!(becomes("past_due").await, "business business past_due", "the first notice counts");
    scene.world.clock.advance(Duration::from_secs(1));
    assert_eq!(scene.plan(a).await, "business free past_due");
    assert_eq!(becomes("active").await, "business business active");
    assert_eq!(becomes("past_due").await, "business business past_due", "another failure starts its own seven days");
    let other_price = |wire: &mut serde_json::Value| wire["items"]["data"][0]["price"]["id"] = "price_of_socks".into();
    scene.stripe.change(&paid.subscription, other_price);
    assert_eq!(becomes("active").await, "free free canceled", "a price that is not ours");
    scene.stripe.change(&paid.subscription, |wire| wire["items"]["data"][0]["price"]["id"] = PRICES[2].into());
    assert_eq!(becomes("active").await, "scale scale active", "a change of plan");
    scene.assert_alarms(&[("unknown_price", 1)]).await;
}

/// The end of the period is shown in milliseconds, whichever form Stripe uses.
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

/// A smaller plan deletes only individual clicks, which are kept for its retention time: links still work, counts stay,
/// and new links are refused until there is room.
#[tokio::test]
async fn bl4_a_downgrade_deletes_individual_clicks_only() {
    let mut scene = scene().await;
    let a = &scene.world.a.clone();
    let b = &scene.world.b.clone();
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
    // B is granted a plan that keeps clicks for longer.
    scene.world.db.execute(format!("UPDATE tenants SET comp_tier = 'pro' WHERE id = '{}'", b.tenant)).await;
    b.make("of-b").await;
    assert_eq!(b.tap("of-b").await.status, 302);
    let clicks = |of: &Caller| {
        format!(
            "SELECT CAST(count(*) AS BIGINT) FROM clicks
             WHERE link IN (SELECT position FROM links WHERE tenant_id = '{}')",
            of.tenant
        )
    };
    eventually("clicks are stored", Duration::from_mins(1), async || {
        scene.world.db.number(clicks(a)).await == 1 && scene.world.db.number(clicks(b)).await == 1
    })
    .await;
    scene.world.folded().await;
    const COUNTED: &str = "SELECT CAST(sum(clicks) AS BIGINT) FROM click_hours";
    let counted = scene.world.db.number(COUNTED).await;
    scene.world.clock.advance(Duration::from_hours(31 * 24));
    // The service looks soon after its start.
    scene.world.restart(|_| {}).await;
    eventually("old clicks are deleted", Duration::from_mins(1), async || scene.world.db.number(clicks(a)).await == 0)
        .await;
    assert_eq!((scene.world.db.number(clicks(b)).await, scene.world.db.number(COUNTED).await), (1, counted));
    assert_eq!(status(a).await["usage"]["links"], 50);
}

/// A plan is sold at the first of its prices, and accounts on one of the others keep it.
#[tokio::test]
async fn a_price_that_is_not_sold_any_more_still_grants_its_plan() {
    let scene = scene_with(1, |config| {
        if let Some(stripe) = &mut config.stripe {
            stripe.prices.pro.push("price_of_last_year".to_owned());
        }
    })
    .await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    let end = scene.seconds() + DAY_SECS;
    let old = scene.stripe.subscribe("cus_1", a.tenant.as_str(), "price_of_last_year", end);
    scene.post(&scene.stripe.event_of("customer.subscription.created", &old)).await;
    assert_eq!(scene.plan(a).await, "pro pro active");
    scene.subscribe(b, "pro").await;
    let page = scene.stripe.seen().into_iter().find(|seen| seen.line == "POST /v1/checkout/sessions").expect("a page");
    assert_eq!(page.form["line_items[0][price]"], PRICES[0]);
    scene.assert_alarms(&[]).await;
}

/// Until a subscription has ended, it is the account's, whatever it grants.
#[tokio::test]
async fn a_subscription_on_hold_is_still_how_an_account_pays() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    for (becomes, method) in [("unpaid", "stripe"), ("paused", "stripe"), ("past_due", "stripe"), ("canceled", "free")]
    {
        scene.stripe.set_status(&paid.subscription, becomes);
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
        assert_eq!(status(a).await["billing_method"], method, "{becomes}");
    }
}

/// A subscription that Stripe ends on a date: at the period's end or before it, that date is the end, and there is
/// nothing left to cancel. With a later date it is renewed until then, so it can still be ended with the period.
#[tokio::test]
async fn a_date_on_which_a_subscription_ends_is_its_end() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let end = scene.seconds() + 30 * DAY_SECS;
    let posts = || scene.stripe.seen().iter().filter(|seen| seen.line.contains("POST /v1/subscriptions")).count();
    for (date, scheduled, shown) in
        [(end - DAY_SECS, true, end - DAY_SECS), (end, true, end), (end + DAY_SECS, false, end)]
    {
        scene.stripe.change(&paid.subscription, |wire| wire["cancel_at"] = date.into());
        scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
        let told = status(a).await;
        assert_eq!(
            (&told["cancel_scheduled"], &told["current_period_end"]),
            (&json!(scheduled), &json!(shown * 1_000))
        );
        assert_eq!(
            ask_cancel(a).await.json(),
            json!({"status": "cancel_scheduled", "current_period_end": shown * 1_000})
        );
        assert_eq!(posts(), usize::from(!scheduled), "one with an end date is not cancelled again");
    }
    assert_eq!(scene.stripe.subscription(&paid.subscription)["cancel_at_period_end"], true);
    assert_eq!(status(a).await["cancel_scheduled"], true);
}

/// Usage is counted together with the rows.
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
    // Eleven days later is another month.
    world.clock.advance(Duration::from_hours(11 * 24));
    assert_eq!(status(a).await["usage"]["events_this_month"], 0);
}

/// After the end of a paid period Stripe is asked about it, at most a day later, whether or not an event came.
#[tokio::test]
async fn a_period_that_is_over_is_asked_about_daily() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    assert_eq!(ask_cancel(a).await.status, 200);
    scene.stripe.set_status(&paid.subscription, "canceled");
    let reads = || scene.stripe.seen().iter().filter(|seen| seen.line.starts_with("GET ")).count();
    let before = reads();
    scene.stripe.fails(Some(Fault::Status(500)));
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
        scene.next_round(Duration::from_hours(25)).await;
    }
    assert_eq!(reads(), asked, "what has ended is not asked about any more");
    assert_eq!(ask_checkout(a, "pro").await.status, 200);
}

/// A subscription that the processor no longer knows is an alarm each day, and is not asked about every hour.
#[tokio::test]
async fn a_subscription_that_is_gone_is_asked_about_daily() {
    let scene = scene().await;
    let a = &scene.world.a;
    scene.subscribe(a, "pro").await;
    scene.stripe.forgets_everybody();
    scene.next_round(Duration::from_hours(31 * 24)).await;
    scene.assert_alarms(&[("unknown_subscription", 1)]).await;
    assert_eq!(scene.plan(a).await, "pro pro active", "it stays as it is");
}

/// While the processor does not answer, the round ends at the first account, and the next one begins there. A refusal
/// for one account does not stop the others.
#[tokio::test]
async fn a_round_ends_when_the_processor_does_not_answer() {
    for (faults, first_round) in [(&[Fault::Status(500); 3][..], 3), (&[Fault::Status(403)], 1)] {
        let scene = scene().await;
        let mut accounts = [&scene.world.a, &scene.world.b];
        accounts.sort_by_key(|account| account.tenant.as_str().to_owned());
        let mut lines = Vec::new();
        for account in accounts {
            let paid = scene.subscribe(account, "pro").await;
            scene.stripe.set_status(&paid.subscription, "canceled");
            lines.push(format!("GET /v1/subscriptions/{}", paid.subscription));
        }
        let before = scene.stripe.seen().len();
        scene.stripe.fails_next(faults);
        scene.world.clock.advance(Duration::from_hours(31 * 24));
        let reads = || scene.stripe.seen().into_iter().skip(before).map(|seen| seen.line).collect::<Vec<_>>();
        eventually("the first one is asked about", Duration::from_mins(1), async || reads().len() >= first_round).await;
        eventually("both are asked about", Duration::from_mins(1), async || {
            scene.world.clock.advance(Duration::from_mins(61));
            scene.plan(accounts[1]).await == "free free canceled"
        })
        .await;
        let expected: Vec<_> = std::iter::repeat_n(&lines[0], first_round).chain(&lines).cloned().collect();
        assert_eq!(reads(), expected, "{faults:?}");
    }
    let scene = scene().await;
    let mut accounts = [&scene.world.a, &scene.world.b];
    accounts.sort_by_key(|account| account.tenant.as_str().to_owned());
    for account in accounts {
        let paid = scene.subscribe(account, "pro").await;
        scene.stripe.set_status(&paid.subscription, "canceled");
    }
    scene.stripe.fails_next(&[Fault::Status(400)]);
    scene.world.clock.advance(Duration::from_hours(31 * 24));
    eventually("the second one is read", Duration::from_mins(1), async || {
        scene.plan(accounts[1]).await == "free free canceled"
    })
    .await;
    assert_eq!(scene.plan(accounts[0]).await, "pro pro active", "the first one stays as it is until the next round");
}

/// A round may take longer than the lease of its node, so each page of accounts renews it.
#[tokio::test]
async fn a_long_round_keeps_its_lease() {
    const PAGE: usize = 64;
    const DUE: &str = "SELECT expires_at FROM leases WHERE name = 'subscriptions'";
    let scene = scene().await;
    // The round at the start.
    scene.next_round(Duration::ZERO).await;
    let now = scene.world.clock.now().as_millis();
    let rows = (0..=PAGE).map(|number| format!("('tnt_{number:024x}', {now}, 1, 'sub_gone_{number}')"));
    let rows = rows.collect::<Vec<_>>().join(", ");
    let accounts =
        format!("INSERT INTO tenants (id, created_at, current_period_end, stripe_subscription) VALUES {rows}");
    scene.world.db.execute(accounts).await;
    let held: Vec<_> = (0..=PAGE).map(|_| scene.stripe.hold_read()).collect();
    scene.world.clock.advance(Duration::from_hours(25));
    held[0].reached().await;
    let hour = Duration::from_hours(1);
    let until = scene.world.clock.now().plus_millis(3_600_000).as_millis();
    assert_eq!(scene.world.db.number(DUE).await, until);
    scene.world.clock.advance(hour / 2);
    for held in &held[..PAGE] {
        held.let_go();
    }
    held[PAGE].reached().await;
    assert_eq!(scene.world.db.number(DUE).await, until + 1_800_000);
    held[PAGE].let_go();
    scene.next_round(Duration::ZERO).await;
    scene.assert_alarms(&[("unknown_subscription", PAGE as u64 + 1)]).await;
}
