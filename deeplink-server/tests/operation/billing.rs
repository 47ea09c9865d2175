//! Plans as operators grant and see them, and a process that is killed between Stripe's answer and the database.

use std::io::Write;
use std::net::TcpStream;

use deeplink_doubles::stripe::{Event, Fault, PRICES, SECRET_KEY, Stripe, WEBHOOK_SECRET};
use deeplink_server::clock::Clock;
use serde_json::{Value, json};

use crate::payments::Beside;
use crate::process::{Home, Reply, Server, ask};

const WEBHOOK: &str = "/v1/billing/stripe/webhook";
const VARIABLES: [&str; 3] =
    ["DEEPLINK_STRIPE_PRICE_PRO", "DEEPLINK_STRIPE_PRICE_BUSINESS", "DEEPLINK_STRIPE_PRICE_SCALE"];

/// Opens an account and returns its id and its key.
fn account(home: &Home, email: &str) -> (String, String) {
    let made: Value = serde_json::from_str(&home.ok(&["tenant", "create", "--email", email, "--json"])).expect("JSON");
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    (text("tenant_id"), text("api_key"))
}

fn plan(home: &Home, tenant: &str) -> Value {
    serde_json::from_str(&home.ok(&["tenant", "plan", tenant, "--json"])).expect("JSON")
}

fn status(server: &Server, key: &str) -> Value {
    let authorization = format!("Bearer {key}");
    let reply = ask(server.address, "GET", "/v1/billing/status", &[("Authorization", &authorization)], "");
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[test]
fn a_plan_is_granted_shown_and_ended_beside_a_running_server() {
    let mut home = Home::new();
    home.set("DEEPLINK_QUOTAS", "enforce");
    let (tenant, key) = account(&home, "owner@example.com");
    let server = home.serve();
    assert_eq!(status(&server, &key), plan(&home, &tenant));
    assert_eq!(plan(&home, &tenant)["effective_tier"], "free");
    let granted = home.ok(&["tenant", "comp", &tenant, "--tier", "business"]);
    assert!(granted.contains(&tenant) && granted.contains("business"), "{granted}");
    let shown = plan(&home, &tenant);
    assert_eq!((&shown["effective_tier"], &shown["plan_tier"]), (&json!("business"), &json!("free")));
    assert_eq!((&shown["comp_active"], &shown["limits"]["max_links"]), (&json!(true), &json!(20_000)));
    assert_eq!(status(&server, &key), shown, "at once, and the same");
    server.link(&key);
    let text = home.ok(&["tenant", "plan", &tenant]);
    for line in ["plan          business", "granted       yes", "links         1 of 20000"] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("limits        enforced with the settings of this command"), "{text}");
    home.ok(&["tenant", "comp", "Owner@example.com", "--end"]);
    assert_eq!(status(&server, &key)["effective_tier"], "free");
    assert_eq!(plan(&home, "owner@example.com"), plan(&home, &tenant), "an account has its people's addresses too");
    home.set("DEEPLINK_QUOTAS", "off");
    let text = home.ok(&["tenant", "plan", &tenant]);
    assert!(text.contains("limits        not enforced with the settings"), "{text}");
    assert!(text.contains("links         1 of 50"), "limits are shown all the same: {text}");
    server.stop();
}

#[test]
fn a_grant_needs_an_account_and_a_plan() {
    let home = Home::new();
    let (tenant, _) = account(&home, "owner@example.com");
    let nobody = "tnt_0123456789abcdef01234567";
    for (args, code, says) in [
        (&["tenant", "comp", nobody, "--tier", "pro"][..], 1, "no account with ID"),
        (&["tenant", "comp", nobody, "--end"], 1, "no account with ID"),
        (&["tenant", "plan", nobody], 1, "no account with ID"),
        (&["tenant", "unsubscribe", nobody], 1, "no account with ID"),
        (&["tenant", "unsubscribe"], 2, "TENANT_ID"),
        (&["tenant", "comp", &tenant], 2, "--tier"),
        (&["tenant", "comp", &tenant, "--tier", "free"], 2, "--tier"),
        (&["tenant", "comp", &tenant, "--tier", "gold"], 2, "--tier"),
        (&["tenant", "comp", &tenant, "--tier", "pro", "--end"], 2, "--end"),
        (&["tenant", "plan", "nobody@example.com"], 1, "no account has a team member with"),
        (&["tenant", "comp", "nobody@example.com", "--end"], 1, "no account has a team member with"),
        (&["tenant", "plan", "owner"], 2, "TENANT_ID"),
    ] {
        let ended = home.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{args:?}: {ended:?}");
    }
    assert_eq!(plan(&home, &tenant)["comp_active"], false);
    let told = home.ok(&["tenant", "unsubscribe", &tenant]);
    assert_eq!(told, format!("{tenant} has neither a customer nor a subscription\n"));
}

/// Stripe's double, and a home whose server sells plans there.
fn sale() -> (tokio::runtime::Runtime, Stripe, Home) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let stripe = runtime.block_on(Stripe::start());
    let mut home = Home::new();
    for (variable, price) in VARIABLES.into_iter().zip(PRICES) {
        home.set(variable, price);
    }
    home.set("DEEPLINK_STRIPE_SECRET_KEY", SECRET_KEY);
    home.set("DEEPLINK_STRIPE_WEBHOOK_SECRET", WEBHOOK_SECRET);
    home.set("DEEPLINK_STRIPE_API_BASE", stripe.base());
    (runtime, stripe, home)
}

/// The page where an account pays for a plan, or the one it is sent to instead.
fn checkout(server: &Server, key: &str) -> String {
    let page = server.post("/v1/billing/stripe/checkout?tier=pro", Some(key), "");
    assert_eq!(page.status, 200, "{page:?}");
    page.json()["checkout_url"].as_str().expect("a URL").to_owned()
}

/// An account whose customer and subscription Stripe does not know, such as after other keys were configured, can pay
/// again once the operator makes the service forget them.
#[test]
fn an_account_is_unsubscribed_beside_a_running_server() {
    let (_runtime, stripe, home) = sale();
    let (tenant, key) = account(&home, "owner@example.com");
    let server = home.serve();
    let url = checkout(&server, &key);
    let paid = stripe.pay(&url, Clock::system().now().as_millis() / 1_000 + 86_400);
    assert_eq!(post(&server, &stripe.event("checkout.session.completed", &paid.session)).status, 200);
    home.ok(&["tenant", "comp", &tenant, "--tier", "business"]);
    let text = home.ok(&["tenant", "plan", &tenant]);
    assert!(text.contains("subscription  pro, active, period ends 20"), "{text}");
    stripe.forgets_everybody();
    assert_eq!(server.post("/v1/billing/stripe/portal", Some(&key), "").json()["code"], "no_customer");
    let asked = stripe.seen().len();
    let told = home.ok(&["tenant", "unsubscribe", "owner@example.com"]);
    let forgotten = format!("customer {}, subscription {}", paid.customer, paid.subscription);
    assert!(told.contains(&tenant) && told.contains(&forgotten) && told.contains("Nothing was changed"), "{told}");
    assert_eq!(stripe.seen().len(), asked, "Stripe is not asked");
    let shown = status(&server, &key);
    assert_eq!((&shown["plan_tier"], &shown["effective_tier"]), (&json!("free"), &json!("business")), "{shown}");
    assert_eq!((&shown["billing_method"], &shown["status"]), (&json!("free"), &json!("active")));
    assert_eq!(shown["current_period_end"], Value::Null);
    assert!(checkout(&server, &key).starts_with("https://checkout.stripe.test/"));
    assert!(home.ok(&["tenant", "unsubscribe", &tenant]).contains("neither a customer nor a subscription"));
    server.stop();
}

/// A partial configuration stops the start with the name of what is missing.
#[test]
fn bl5_half_a_configuration_stops_the_start() {
    let mut home = Home::on_sqlite();
    home.set("DEEPLINK_STRIPE_SECRET_KEY", SECRET_KEY);
    for (variable, price) in VARIABLES.into_iter().zip(PRICES) {
        let ended = home.run(&[]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let names = [format!("deeplink-server: {variable}: must"), format!(" ({variable}): must be set")];
        assert!(names.iter().any(|name| ended.stderr.contains(name)), "{ended:?}");
        assert!(!ended.stderr.contains(SECRET_KEY), "{ended:?}");
        home.set(variable, price);
    }
    let ended = home.run(&[]);
    assert!(ended.stderr.starts_with("deeplink-server: DEEPLINK_STRIPE_WEBHOOK_SECRET: must be set"), "{ended:?}");
    assert!(!home.path("data").exists());
    let file = home.path("secret");
    std::fs::write(&file, format!("{WEBHOOK_SECRET}\n")).expect("written");
    home.set("DEEPLINK_STRIPE_WEBHOOK_SECRET_FILE", file.to_str().expect("UTF-8"));
    let checked = home.run(&["check"]);
    assert!(checked.stdout.contains("Stripe at https://api.stripe.com/; plan limits are enforced"), "{checked:?}");
}

fn post(server: &Server, event: &Event) -> Reply {
    let signature = event.signature(WEBHOOK_SECRET, Clock::system().now().as_millis() / 1_000);
    ask(server.address, "POST", WEBHOOK, &[("Stripe-Signature", &signature)], &event.body)
}

/// A process that is killed after Stripe's answer and before the commit has stored nothing of the event, so that its repeat
/// applies, once.
#[test]
fn st5_a_kill_between_read_and_commit_loses_no_event() {
    let (runtime, stripe, home) = sale();
    let (_, key) = account(&home, "owner@example.com");
    let mut server = home.serve_with(&["--log", "trace"]);
    let url = checkout(&server, &key);
    let paid = stripe.pay(&url, Clock::system().now().as_millis() / 1_000 + 86_400);
    let event = stripe.event("checkout.session.completed", &paid.session);

    let held = stripe.hold_read();
    let signature = event.signature(WEBHOOK_SECRET, Clock::system().now().as_millis() / 1_000);
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    let (length, body) = (event.body.len(), &event.body);
    write!(
        stream,
        "POST {WEBHOOK} HTTP/1.1\r\nHost: {}\r\nStripe-Signature: {signature}\r\nContent-Length: {length}\r\n\r\n{body}",
        server.address
    )
    .expect("the event goes out");
    // Stripe has answered, the write is still waiting, and the server is killed.
    let beside = runtime.block_on(async {
        held.reached().await;
        let mut beside = Beside::of(&home).await;
        beside.hold("tenants").await;
        held.let_go();
        held.answered().await;
        beside
    });
    assert_eq!(server.get("/health").status, 200);
    server.child.kill().expect("killed");
    server.child.wait().expect("ended");
    drop(beside);

    let server = home.serve_with(&["--log", "trace"]);
    assert_eq!(status(&server, &key)["plan_tier"], "free", "nothing was stored");
    for _ in 0..2 {
        assert_eq!(post(&server, &event).status, 200);
        let shown = status(&server, &key);
        assert_eq!((&shown["plan_tier"], &shown["billing_method"]), (&json!("pro"), &json!("stripe")));
    }
    let reads = stripe.seen().iter().filter(|seen| seen.line.starts_with("GET ")).count();
    assert_eq!(reads, 2, "one for the lost event and one for its repeat");
    stripe.fails_next(&[Fault::Status(402)]);
    assert_eq!(server.post("/v1/billing/stripe/portal", Some(&key), "").status, 503);
    let log = server.log();
    let named = "POST /v1/billing_portal/sessions (request-id req_of_tests): rejected with 402";
    assert!(log.contains(named), "a failure names the call and what Stripe calls it");
    for secret in [SECRET_KEY, WEBHOOK_SECRET, &url] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
    server.stop();
}
