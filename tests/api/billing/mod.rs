//! What accounts pay and get: plans, checkouts and subscriptions, with a processor that repeats itself, contradicts itself
//! and fails.

mod checkout;
mod customers;
mod enforcement;
mod events;
mod plans;
mod signatures;
mod upstream;

use std::collections::BTreeMap;
use std::time::Duration;

use deeplink_core::time::Timestamp;
use deeplink_server::config::{Config, StripeAccount, StripePrices};
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::stripe::{Event, PRICES, Paid, SECRET_KEY, Stripe, WEBHOOK_SECRET};
use deeplink_testing::{Caller, Reply, World, eventually, spawn_nodes_with, wire};

const WEBHOOK: &str = "/v1/billing/stripe/webhook";
const DAY_SECS: i64 = 86_400;

/// A world whose plans are paid for at a double of Stripe.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) stripe: Stripe,
    /// When it began.
    pub(crate) began: Timestamp,
}

pub(crate) async fn scene() -> Scene {
    scene_with(1, |_| {}).await
}

async fn scene_with(nodes: usize, adjust: impl Fn(&mut Config)) -> Scene {
    let stripe = Stripe::start().await;
    let world = spawn_nodes_with(nodes, |config| {
        let [pro, business, scale] = PRICES;
        let prices = StripePrices::new(pro, business, scale);
        config.stripe = Some(StripeAccount::new(SECRET_KEY, &[WEBHOOK_SECRET], stripe.base(), prices));
        config.enforce_quotas = true;
        config.admin_listen = Some(([127, 0, 0, 1], 0).into());
        adjust(config);
    })
    .await;
    world.note_secret(SECRET_KEY);
    world.note_secret(WEBHOOK_SECRET);
    let began = world.clock.now();
    Scene { world, stripe, began }
}

impl Scene {
    fn seconds(&self) -> i64 {
        self.world.clock.now().as_millis() / 1_000
    }

    /// Posts an event as Stripe does, to a node.
    async fn post_at(&self, node: &Caller, event: &Event) -> Reply {
        post(node, event, &event.signature(WEBHOOK_SECRET, self.seconds())).await
    }

    /// Posts an event that must be accepted.
    pub(crate) async fn post(&self, event: &Event) {
        let reply = self.post_at(&self.world.nobody, event).await;
        assert_eq!(reply.status, 200, "{} {}", event.body, reply.text());
    }

    /// Plan, effective plan and status of an account.
    async fn plan(&self, of: &Caller) -> String {
        let status = status(of).await;
        let word = |name: &str| status[name].as_str().expect("a word").to_owned();
        format!("{} {} {}", word("plan_tier"), word("effective_tier"), word("status"))
    }

    /// An account's stored subscription.
    async fn stored(&self, of: &Caller) -> Vec<String> {
        let sql = format!(
            "SELECT plan_tier || ' ' || subscription_status || ' ' || COALESCE(stripe_customer, '-') || ' '
                || COALESCE(stripe_subscription, '-') FROM tenants WHERE id = '{}'",
            of.tenant
        );
        self.world.db.texts(sql).await
    }

    /// An account's stored second subscription; `-`: none.
    async fn rival(&self, of: &Caller) -> String {
        let sql = format!("SELECT COALESCE(stripe_rival, '-') FROM tenants WHERE id = '{}'", of.tenant);
        self.world.db.texts(sql).await.concat()
    }

    /// Advances the clock until the daily round is due, and waits until it is over.
    async fn next_round(&self, later: Duration) {
        const DUE: &str = "SELECT expires_at FROM leases WHERE name = 'subscriptions'";
        self.world.clock.advance(later);
        let tomorrow = self.world.clock.now().plus_days(1).as_millis();
        eventually("the next round is tomorrow's", Duration::from_mins(1), async || {
            self.world.db.number(DUE).await >= tomorrow - 3_600_000
        })
        .await;
    }

    /// How often an account's subscription was stored.
    async fn version(&self, of: &Caller) -> i64 {
        self.world.db.number(format!("SELECT billing_version FROM tenants WHERE id = '{}'", of.tenant)).await
    }

    async fn events(&self) -> i64 {
        self.world.db.number("SELECT CAST(count(*) AS BIGINT) FROM stripe_events").await
    }

    /// An account pays for a plan; Stripe has not sent the events yet.
    async fn pay(&self, of: &Caller, tier: &str) -> Paid {
        let url = checkout(of, tier).await.member("checkout_url");
        self.stripe.pay(&url, self.seconds() + 30 * DAY_SECS)
    }

    /// An account pays for a plan, and Stripe sends the events.
    pub(crate) async fn subscribe(&self, of: &Caller, tier: &str) -> Paid {
        let paid = self.pay(of, tier).await;
        self.post(&self.stripe.event("checkout.session.completed", &paid.session)).await;
        assert_eq!(self.plan(of).await, format!("{tier} {tier} active"));
        paid
    }

    async fn figures(&self) -> String {
        let address = self.world.node(0).admin_address.expect("an admin address");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        wire::send(address, request.as_bytes()).await
    }

    /// The alarms that are not zero, by their reason.
    async fn alarms(&self) -> BTreeMap<String, u64> {
        let figures = self.figures().await;
        let lines = figures.lines().filter_map(|line| line.strip_prefix("deeplink_stripe_alarms_total{reason=\""));
        let alarms = lines.map(|line| line.split_once("\"} ").expect("a sample"));
        let alarms: BTreeMap<_, u64> =
            alarms.map(|(reason, count)| (reason.to_owned(), count.trim().parse().expect("a count"))).collect();
        assert_eq!(alarms.len(), 5, "{figures}");
        alarms.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    async fn assert_alarms(&self, expected: &[(&str, u64)]) {
        let expected = expected.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        assert_eq!(self.alarms().await, expected);
    }
}

async fn post(node: &Caller, event: &Event, signature: &str) -> Reply {
    let ask = node.ask_without_key(Method::POST, WEBHOOK).header("stripe-signature", signature);
    ask.body_as("application/json; charset=utf-8", event.body.clone()).send().await
}

async fn status(of: &Caller) -> Value {
    let reply = of.get("/v1/billing/status").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

async fn ask_checkout(of: &Caller, tier: &str) -> Reply {
    of.post_nothing(&format!("/v1/billing/stripe/checkout?tier={tier}")).await
}

async fn checkout(of: &Caller, tier: &str) -> Reply {
    let reply = ask_checkout(of, tier).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply
}

async fn ask_portal(of: &Caller) -> Reply {
    of.post_nothing("/v1/billing/stripe/portal").await
}

async fn ask_cancel(of: &Caller) -> Reply {
    of.post_nothing("/v1/billing/cancel").await
}

/// Without a processor, the status shows the free plan, and operations that need a processor say that there is none.
#[tokio::test]
async fn bl5_without_a_processor_everybody_is_on_the_free_plan() {
    let world = deeplink_testing::spawn().await;
    let shown = status(&world.a).await;
    assert_eq!(
        shown,
        json!({
            "plan_tier": "free", "effective_tier": "free", "comp_active": false, "billing_method": "free",
            "current_period_end": null, "status": "active", "cancel_scheduled": false, "quotas_enforced": false,
            "limits": {
                "max_links": 50, "max_events_per_month": 10_000, "max_domains": 1, "max_team_members": 1,
                "max_webhooks": 2, "analytics_retention_days": 30,
            },
            "usage": {"links": 0, "events_this_month": 0, "domains": 0, "team_members": 1, "webhooks": 0},
        })
    );
    let unset = "503 processor_not_configured";
    assert_eq!(ask_cancel(&world.a).await.outcome(), unset);
    assert_eq!(ask_portal(&world.a).await.outcome(), unset);
    assert_eq!(ask_checkout(&world.a, "pro").await.outcome(), unset);
    assert_eq!(ask_checkout(&world.a, "free").await.outcome(), "400 invalid_tier tier");
    assert_eq!(world.nobody.post_nothing(WEBHOOK).await.outcome(), unset);
    for path in ["/v1/billing/cancel", "/v1/billing/stripe/portal", "/v1/billing/stripe/checkout?tier=x"] {
        assert_eq!(world.nobody.post_nothing(path).await.outcome(), "401 unauthorized", "{path}");
        assert_eq!(world.a1.post_nothing(path).await.outcome(), "403 forbidden_scope", "{path}");
    }
    let off = deeplink_testing::spawn_with(|config| config.billing = false).await;
    assert_eq!(off.a.get("/v1/billing/status").await.outcome(), "503 billing_not_configured");
    assert_eq!(ask_cancel(&off.a).await.outcome(), unset);
}

/// The order of refusals: the caller, the plan, whether there is a processor, and what the account has there.
#[tokio::test]
async fn bl5_refusals_come_in_one_order() {
    let scene = scene().await;
    let a = &scene.world.a;
    for tier in ["", "free", "Pro", "gold", "pro%20"] {
        assert_eq!(ask_checkout(a, tier).await.outcome(), "400 invalid_tier tier", "{tier}");
        assert_eq!(ask_checkout(&scene.world.nobody, tier).await.outcome(), "401 unauthorized", "{tier}");
    }
    assert_eq!(a.post_nothing("/v1/billing/stripe/checkout").await.outcome(), "400 invalid_tier tier");
    let twice = a.post_nothing("/v1/billing/stripe/checkout?tier=pro&tier=scale").await;
    assert_eq!(twice.outcome(), "400 bad_request tier");
    assert_eq!(ask_portal(a).await.outcome(), "400 no_customer");
    assert_eq!(ask_cancel(a).await.outcome(), "400 no_subscription");
    for path in ["/v1/billing/cancel", "/v1/billing/stripe/portal", "/v1/billing/stripe/checkout?tier=pro"] {
        let long = a.ask(Method::POST, path).header("idempotency-key", "k".repeat(256)).send().await;
        assert_eq!(long.outcome(), "400 bad_request Idempotency-Key", "{path}");
    }
    assert!(scene.stripe.seen().is_empty(), "none of them asks the processor");
}

/// X2: internal failures are not disclosed, and the processor is not asked for what could not be stored.
#[tokio::test]
async fn x2_a_database_that_fails_is_a_500() {
    let scene = scene().await;
    let (a, db) = (&scene.world.a, &scene.world.db);
    scene.subscribe(a, "pro").await;
    let asked = scene.stripe.seen().len();
    db.execute("ALTER TABLE tenants RENAME COLUMN stripe_customer TO hidden").await;
    let replies =
        [a.get("/v1/billing/status").await, ask_checkout(a, "pro").await, ask_portal(a).await, ask_cancel(a).await];
    for reply in replies {
        assert_eq!(reply.outcome(), "500 internal");
    }
    assert_eq!(scene.stripe.seen().len(), asked);
    db.execute("ALTER TABLE tenants RENAME COLUMN hidden TO stripe_customer").await;
    assert_eq!(ask_cancel(a).await.status, 200);
}

/// One account's subscription does not affect another account.
#[tokio::test]
async fn i1_subscriptions_are_their_accounts_own() {
    let scene = scene().await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    scene.subscribe(a, "pro").await;
    assert_eq!(scene.plan(b).await, "free free active");
    assert_eq!(ask_cancel(b).await.outcome(), "400 no_subscription");
    assert_eq!(ask_portal(b).await.outcome(), "400 no_customer");
    assert_eq!(scene.plan(a).await, "pro pro active");
}
