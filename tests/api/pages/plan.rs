//! The plan page: what it says of plan, usage and subscription, and where its forms lead.

use std::time::Duration;

use super::{Visitor, text_of, went};
use crate::billing::{Scene, scene};
use deeplink_testing::stripe::Fault;
use deeplink_testing::{spawn, spawn_with};

/// If no plans are sold, the page shows the usage and no button; if limits are not enforced, it says so.
#[tokio::test]
async fn a_service_that_sells_nothing_has_no_buttons() {
    let world = spawn().await;
    world.a.make("one").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = text_of(&visitor.get("/account/plan").await);
    assert!(page.contains("<dt>Links</dt><dd><b>1</b></dd>") && page.contains("<dt>Webhooks</dt>"), "{page}");
    assert!(page.contains("This service has no plan limits."), "{page}");
    for never in ["Your plan", "Upgrade", "Manage billing", "Cancel subscription", "<form", "Monthly events", " of "] {
        assert!(!page.contains(never), "{never}: {page}");
    }
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    world.a.make("one").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = text_of(&visitor.get("/account/plan").await);
    for text in [
        "Your plan: Free",
        "<div><dt>Team members</dt><dd><b>1</b> <span class=\"option\">of 1<",
        "<b>1</b> <span class=\"option\">of 50<",
        "<b>0</b> <span class=\"option\">of 10,000<",
        "kept for 30 days",
        "You have no subscription.",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<form") && !page.contains("no plan limits"), "{page}");
    // The operator's grant applies, and a plan without a limit shows none.
    world.db.execute("UPDATE tenants SET comp_tier = 'scale'").await;
    let page = text_of(&visitor.get("/account/plan").await);
    for text in
        ["Your plan: Scale", "<b>1</b> <span class=\"option\">of 100,000<", "(unlimited)<", "has granted you Scale."]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
}

/// Forms that were not offered are refused with a page, and so is the plan page if plans are switched off.
#[tokio::test]
async fn what_is_not_set_up_is_said() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (path, fields) in [("checkout", vec![("tier", "pro")]), ("portal", vec![]), ("cancel", vec![])] {
        let refused = visitor.post(&format!("/account/plan/{path}"), &fields).await;
        assert_eq!(refused.status, 503, "{path}");
        assert!(text_of(&refused).contains("This is not set up on this service"), "{path}: {}", refused.text());
    }
    for path in ["/account/plan/checkout", "/account/plan/portal", "/account/plan/cancel"] {
        assert_eq!(went(&visitor.get(path).await), (303, "/account/plan"), "{path}");
        let signin = Visitor::stranger(&world).post(path, &[]).await;
        assert!(went(&signin).1.starts_with("/signin?next=%2Faccount%2Fplan"), "{path}: {}", went(&signin).1);
    }
    let off = spawn_with(|config| config.billing = false).await;
    let visitor = Visitor::signed_in(&off, &off.a).await;
    assert_eq!(visitor.get("/account/plan").await.status, 503);
    let overview = visitor.get("/account").await;
    assert!(overview.status == 200 && !overview.text().contains("/account/plan"), "{}", overview.text());
}

const CHECKOUT: &str = "/account/plan/checkout";
const PORTAL: &str = "/account/plan/portal";
const CANCEL: &str = "/account/plan/cancel";

/// Texts that the page has, and texts that it does not have.
async fn says(visitor: &Visitor<'_>, texts: &[&str], never: &[&str]) {
    let page = text_of(&visitor.get("/account/plan").await);
    for text in texts {
        assert!(page.contains(text), "{text}: {page}");
    }
    for text in never {
        assert!(!page.contains(text), "{text}: {page}");
    }
}

const KEPT: &str = "Nothing is deleted: you keep your links, domains, team members and webhooks, and your links keep working. Individual clicks \
                    and other events are kept for only 30 days.";

/// What a page says of a subscription that has not ended but grants no plan, and of its end.
async fn is_on_hold(visitor: &Visitor<'_>) {
    let on_hold = [
        "Your plan: Free",
        "<div><dt>Team members</dt><dd><b>1</b> <span class=\"option\">of 1<",
        "On hold",
        "is on hold, so the limits of the Free plan apply.",
        "Manage billing",
        "Cancel subscription",
        "<button class=\"main\">Manage billing</button>",
    ];
    says(visitor, &on_hold, &["Ended", "<dt>Renews on</dt>", "You have no subscription.", "Upgrade"]).await;
    let question = text_of(&visitor.get(CANCEL).await);
    for text in ["<bdi>Subscription on hold</bdi>", "cannot be resumed after that", KEPT] {
        assert!(question.contains(text), "{text}: {question}");
    }
    assert!(!question.contains("You keep") && !question.contains("<bdi>Free</bdi>"), "{question}");
}

/// The day this many days after the world's start, as pages show it.
fn day(scene: &Scene, later: i64) -> String {
    let text = scene.began.plus_days(later).to_string();
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month: usize = text[5..7].parse().expect("a month");
    format!("{} {} {}", text[8..10].trim_start_matches('0'), months[month - 1], &text[..4])
}

/// A subscription for an unknown price is on hold as well, and the text after its cancellation is true for it, too.
#[tokio::test]
async fn a_subscription_for_an_unknown_price_is_on_hold() {
    let scene = scene().await;
    let visitor = Visitor::signed_in(&scene.world, &scene.world.a).await;
    let paid = scene.subscribe(&scene.world.a, "pro").await;
    let price = |wire: &mut serde_json::Value| wire["items"]["data"][0]["price"]["id"] = "price_of_socks".into();
    scene.stripe.change(&paid.subscription, price);
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    is_on_hold(&visitor).await;
    let canceled = visitor.post(CANCEL, &[]).await;
    assert_eq!(went(&canceled), (303, "/account/plan?done=plan-canceled"));
    let page = text_of(&visitor.get("/account/plan?done=plan-canceled").await);
    assert!(
        page.contains("Your subscription is canceled. It ends at the end of the current billing period."),
        "{page}"
    );
    assert!(page.contains("<dt>Ends on</dt>") && !page.contains("You keep the plan"), "{page}");
}

/// After a failed payment, the page promises the plan until the end of the seven days, if these end sooner.
#[tokio::test]
async fn a_late_subscription_keeps_its_plan_for_seven_days_at_most() {
    let scene = scene().await;
    let a = &scene.world.a;
    let visitor = Visitor::signed_in(&scene.world, a).await;
    let paid = scene.subscribe(a, "pro").await;
    scene.stripe.set_status(&paid.subscription, "past_due");
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    let asks = async |visitor: &Visitor<'_>| text_of(&visitor.get(CANCEL).await);
    let question = asks(&visitor).await;
    assert!(question.contains(&format!("You keep the plan until {};", day(&scene, 7))), "{question}");
    let soon = (scene.began.as_millis() / 1_000) + 3 * 86_400;
    scene.stripe.change(&paid.subscription, |wire| wire["current_period_end"] = soon.into());
    scene.post(&scene.stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    let question = asks(&visitor).await;
    assert!(question.contains(&format!("You keep the plan until {};", day(&scene, 3))), "{question}");
    scene.world.clock.advance(Duration::from_hours(24 * 8));
    let visitor = Visitor::signed_in(&scene.world, a).await;
    let question = asks(&visitor).await;
    assert!(question.contains("<bdi>Pro</bdi>") && !question.contains("You keep"), "{question}");
}

/// Each button does what the operation of that name does, and the page shows at each step the paid plan and its end.
#[tokio::test]
async fn a_plan_is_bought_managed_and_canceled() {
    let scene = scene().await;
    let Scene { world, stripe, .. } = &scene;
    let visitor = Visitor::signed_in(world, &world.a).await;
    says(
        &visitor,
        &["Your plan: Free", "Upgrade to Pro", "Upgrade to Scale", "kept for 1 year</li>", "kept for 3 years</li>"],
        &["Manage", "Cancel"],
    )
    .await;
    let bought = visitor.post(CHECKOUT, &[("tier", "pro")]).await;
    let page = went(&bought).1.to_owned();
    assert!(bought.status == 303 && page.starts_with("https://checkout.stripe.test/"), "{page}");
    let operation = world.a.post_nothing("/v1/billing/stripe/checkout?tier=pro").await;
    assert_eq!(operation.member("checkout_url"), page, "the operation leads to the same page");
    // A customer who has just paid is not asked to pay again.
    let confirming = text_of(&visitor.get("/account/plan?done=plan-paid").await);
    for text in ["Confirming payment", "Your plan changes as soon as the payment is confirmed", ">Reload</a>"] {
        assert!(confirming.contains(text), "{text}: {confirming}");
    }
    assert!(!confirming.contains("Upgrade") && !confirming.contains("You have no subscription."), "{confirming}");

    let paid = scene.subscribe(&world.a, "pro").await;
    let offered = [
        "Your plan: Pro",
        "Active",
        "You are subscribed to Pro.",
        "<dt>Renews on</dt>",
        "Manage billing",
        "Upgrade to Scale",
    ];
    says(&visitor, &offered, &["Upgrade to Pro", "<dt>Ends on</dt>", "Payment failed"]).await;
    let confirmed = text_of(&visitor.get("/account/plan?done=plan-paid").await);
    assert!(confirmed.contains("Your payment is confirmed.") && confirmed.contains("Upgrade to Scale"), "{confirmed}");
    let managed = visitor.post(PORTAL, &[]).await;
    assert!(managed.status == 303 && went(&managed).1.starts_with("https://billing.stripe.test/"));
    let changed = visitor.post(CHECKOUT, &[("tier", "scale")]).await;
    assert!(went(&changed).1.starts_with("https://billing.stripe.test/"), "no account pays for two plans");

    stripe.set_status(&paid.subscription, "past_due");
    scene.post(&stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
    let late = [
        "<dt>Payment failed on</dt>",
        "<dt>Pay by</dt>",
        "The last payment for Pro failed.",
        "to keep the plan.",
        "<button class=\"main\">Manage billing</button>",
    ];
    says(&visitor, &late, &["<dt>Renews on</dt>"]).await;
    world.clock.advance(Duration::from_hours(24 * 8));
    let visitor = Visitor::signed_in(world, &world.a).await;
    says(&visitor, &["Your plan: Free", "to restore the plan.", "Upgrade to Business"], &["Upgrade to Pro"]).await;
    for status in ["unpaid", "paused"] {
        stripe.set_status(&paid.subscription, status);
        scene.post(&stripe.event_of("customer.subscription.updated", &paid.subscription)).await;
        is_on_hold(&visitor).await;
    }
    stripe.set_status(&paid.subscription, "active");
    scene.post(&stripe.event_of("customer.subscription.updated", &paid.subscription)).await;

    let question = text_of(&visitor.get(CANCEL).await);
    let until = format!("You keep the plan until {}; it will not renew.", day(&scene, 30));
    for text in [
        "Cancel your subscription?",
        "<bdi>Pro</bdi>",
        &until,
        KEPT,
        "the limits of the Free plan apply.",
        "Keep subscription",
    ] {
        assert!(question.contains(text), "{text}: {question}");
    }
    for _ in 0..2 {
        assert_eq!(went(&visitor.post(CANCEL, &[]).await), (303, "/account/plan?done=plan-canceled"));
    }
    says(&visitor, &["<dt>Ends on</dt>", "will not renew", "Manage billing"], &["Cancel subscription", "Renews on"])
        .await;
    assert_eq!(went(&visitor.get(CANCEL).await), (303, "/account/plan"), "there is nothing left to ask");

    stripe.set_status(&paid.subscription, "canceled");
    scene.post(&stripe.event_of("customer.subscription.deleted", &paid.subscription)).await;
    let over = [
        "Your plan: Free",
        "<div><dt>Team members</dt><dd><b>1</b> <span class=\"option\">of 1<",
        "Ended",
        "<b>€19</b> <span class=\"mute\">per month</span>",
        "<b>€49.50</b> <span class=\"mute\">per month</span>",
        "<b>€1,299</b> <span class=\"mute\">per month</span>",
        "You can cancel at any time",
        "Your subscription has ended. Nothing was deleted: you keep your links",
        "Individual clicks and other events are kept for only 30 days.",
        "Manage billing",
        "Upgrade to Pro",
    ];
    says(&visitor, &over, &["Cancel subscription", "<dt>Ends on</dt>"]).await;
    // Another account is not affected.
    let other = Visitor::signed_in(world, &world.b).await;
    says(&other, &["Your plan: Free", "You have no subscription."], &["Manage billing", "Ended"]).await;
    // Anyone who has such a URL can use the page.
    world.note_secret(&page);
    world.note_secret(went(&managed).1);
}

/// If the processor does not answer, the page says that nothing was changed; the rest of it is shown.
#[tokio::test]
async fn a_refusal_is_said_on_the_page() {
    let scene = scene().await;
    let Scene { world, stripe, .. } = &scene;
    let visitor = Visitor::signed_in(world, &world.a).await;
    for (path, fields, text) in [
        (CHECKOUT, vec![("tier", "gold")], "This plan is not available for purchase."),
        (CHECKOUT, vec![], "This plan is not available for purchase."),
        (PORTAL, vec![], "This account has no billing profile yet"),
        (CANCEL, vec![], "You have no subscription to cancel."),
    ] {
        let refused = visitor.post(path, &fields).await;
        assert_eq!(refused.status, 400, "{path}");
        assert!(text_of(&refused).contains(text), "{path}: {}", refused.text());
        assert!(refused.text().contains("<title>Error: "), "{path}");
    }
    assert!(stripe.seen().iter().all(|seen| seen.line.starts_with("GET /v1/prices/")));
    scene.subscribe(&world.a, "pro").await;
    stripe.fails(Some(Fault::Status(400)));
    for (path, fields) in [(CHECKOUT, vec![("tier", "scale")]), (PORTAL, vec![]), (CANCEL, vec![])] {
        let refused = visitor.post(path, &fields).await;
        assert!(refused.status == 503 && !refused.header("retry-after").is_empty(), "{path}: {}", refused.status);
        let said = "The payment processor did not respond. Nothing was changed.";
        assert!(text_of(&refused).contains(said), "{path}: {}", refused.text());
    }
    says(&visitor, &["Your plan: Pro", "<dt>Renews on</dt>"], &[]).await;
}

/// Prices are read once; without them, the page says where they are.
#[tokio::test]
async fn a_page_without_prices_says_where_they_are() {
    let scene = scene().await;
    let Scene { world, stripe, .. } = &scene;
    let visitor = Visitor::signed_in(world, &world.a).await;
    stripe.fails(Some(Fault::Status(403)));
    let without = ["Upgrade to Pro", "Upgrade to Scale", "Checkout shows the price before you pay."];
    says(&visitor, &without, &["per month", "cancel at any time"]).await;
    stripe.fails(None);
    says(&visitor, &without, &["per month"]).await;
    assert_eq!(stripe.seen().len(), 3, "a refused price is not asked for again at once");

    let scene = self::scene().await;
    let visitor = Visitor::signed_in(&scene.world, &scene.world.a).await;
    for _ in 0..2 {
        says(&visitor, &["<b>€49.50</b>", "You can cancel at any time"], &["Checkout shows the price"]).await;
    }
    assert_eq!(scene.stripe.seen().len(), 3, "prices do not change");
}

/// A form of this page may lead to the processor, which is on any domain; no form of another page may.
#[tokio::test]
async fn only_forms_of_this_page_lead_elsewhere() {
    let scene = scene().await;
    let visitor = Visitor::signed_in(&scene.world, &scene.world.a).await;
    let policy = async |path: &str| visitor.get(path).await.header("content-security-policy").to_owned();
    let base = scene.stripe.base().origin().ascii_serialization();
    assert!(policy("/account/plan").await.contains(&format!(" https: {base}; base-uri 'none'")));
    for path in ["/account", "/account/keys", "/account/links", "/account/nowhere"] {
        assert!(!policy(path).await.contains("https:;") && !policy(path).await.contains(" https: "), "{path}");
    }
}
