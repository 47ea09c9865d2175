//! Webhooks: who may have how many, to which URLs, and how they are shown.

mod log;

use std::time::Duration;

use deeplink_core::event::EventKind;
use deeplink_core::signature::WebhookSecret;
use http::Method;
use serde_json::{Value, json};

pub(crate) use self::log::settled_delivery;
use crate::outbound::inner_addresses;
use deeplink_testing::dns::How;
use deeplink_testing::{Caller, Reply, at_once, spawn, spawn_nodes, spawn_with};

const WEBHOOKS: &str = "/v1/webhooks";
const URL: &str = "https://hooks.example.com/deeplink";

fn of(kinds: &[&str]) -> Value {
    json!({"url": URL, "events": kinds})
}

async fn create(caller: &Caller) -> Reply {
    let made = caller.post(WEBHOOKS, &of(&["conversion"])).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made
}

/// The path of a new webhook.
async fn path_of(caller: &Caller) -> String {
    create(caller).await.header("location").to_owned()
}

async fn listed(caller: &Caller) -> Vec<Value> {
    caller.get(WEBHOOKS).await.json()["webhooks"].as_array().expect("webhooks").clone()
}

/// A delivery of a test event.
async fn tested(caller: &Caller, webhook: &str) -> Value {
    let reply = caller.post(&format!("{webhook}/test"), &json!({})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[tokio::test]
async fn a_webhook_is_made_listed_changed_and_deleted() {
    let world = spawn().await;
    let mut made = Vec::new();
    for kinds in [&["conversion", "attribution", "click", "click"][..], &["identify"]] {
        world.clock.advance(Duration::from_millis(1));
        let reply = world.a.post(WEBHOOKS, &of(kinds)).await;
        assert_eq!((reply.status, reply.header("cache-control")), (201, "no-store"), "{}", reply.text());
        let (id, secret) = (reply.member("id"), reply.member("secret"));
        assert_eq!(reply.header("location"), format!("{WEBHOOKS}/{id}"));
        assert!(id.starts_with("wh_") && secret.len() == 50 && WebhookSecret::new(secret).is_well_formed());
        let mut shown = reply.json();
        shown.as_object_mut().expect("an object").remove("secret");
        made.push(shown);
    }
    let expected = json!({
        "id": made[0]["id"], "url": URL, "events": ["click", "attribute", "conversion"], "retry_for": 31, "active": true,
        "created_at": made[0]["created_at"],
        "health": {"status": "untried", "failing_since": null, "delivered_at": null, "dropped": 0},
    });
    assert_eq!(made[0], expected, "filters are left out when there are none");
    assert_eq!(listed(&world.a).await, [made[1].clone(), made[0].clone()], "newest first");
    assert_eq!(listed(&world.b).await, [] as [Value; 0]);
    let path = format!("{WEBHOOKS}/{}", made[0]["id"].as_str().expect("an id"));
    let affiliate = world.a1.affiliate_id();
    let mut now = made[0].clone();
    for (change, field, value) in [
        (json!({"url": "https://E.IO."}), "url", json!("https://e.io./")),
        (json!({"events": ["attribution"], "id": "x", "secret": "x"}), "events", json!(["attribute"])),
        (json!({"filters": {"affiliate_id": affiliate}}), "filters", json!({"affiliate_id": affiliate})),
        (json!({"retry_for": 0}), "retry_for", json!(0)),
        (json!({"retry_for": 259_200}), "retry_for", json!(259_200)),
        (json!({"active": false}), "active", json!(false)),
    ] {
        let reply = world.a.patch(&path, &change).await;
        now[field] = value;
        assert_eq!((reply.status, reply.json()), (200, now.clone()), "{change}");
    }
    for removed in [json!({"filters": {}}), json!({"filters": null}), json!({"filters": {"affiliate_id": null}})] {
        world.a.patch(&path, &json!({"filters": {"affiliate_id": affiliate}})).await;
        assert!(world.a.patch(&path, &removed).await.json().get("filters").is_none(), "{removed}");
    }
    assert_eq!(world.b.delete(&path).await.outcome(), "404 not_found");
    assert_eq!(world.a.delete(&path).await.status, 204);
    for reply in [world.a.delete(&path).await, world.a.patch(&path, &json!({"active": true})).await] {
        assert_eq!(reply.outcome(), "404 not_found");
    }
    assert_eq!(listed(&world.a).await, [made[1].clone()]);
}

#[tokio::test]
async fn bodies_are_judged() {
    let world = spawn().await;
    let path = path_of(&world.a).await;
    let before = world.db.dump().await;
    let (foreign, unknown) = (world.b1.affiliate_id(), "aff_0123456789abcdef01234567");
    let with = |name: &str, value: Value| {
        let mut body = of(&["click"]);
        body[name] = value;
        body
    };
    let wrong = [
        ("url", json!("http://example.com/"), "400 invalid_url url"),
        ("url", json!("https://user@example.com/"), "400 invalid_url url"),
        ("url", json!(""), "400 invalid_url url"),
        ("url", json!(format!("https://example.com/{}", "x".repeat(2_048))), "400 invalid_url url"),
        ("url", json!("https://example.com/\u{0}"), "400 invalid_url url"),
        ("url", json!(1), "400 bad_request url"),
        ("events", json!([]), "400 empty_events events"),
        ("events", json!(["click", "Click"]), "400 invalid_event events"),
        ("events", json!(["clicks"]), "400 invalid_event events"),
        ("events", json!("click"), "400 bad_request events"),
        ("events", json!([1]), "400 bad_request events[0]"),
        ("retry_for", json!(-1), "400 bad_request retry_for"),
        ("retry_for", json!(259_201), "400 bad_request retry_for"),
        ("retry_for", json!("31"), "400 bad_request retry_for"),
        ("retry_for", json!(1.5), "400 bad_request retry_for"),
        ("filters", json!([]), "400 bad_request filters"),
        ("filters", json!({"link_id": "x"}), "400 bad_request filters"),
        ("filters", json!({"affiliate_id": 1}), "400 bad_request filters.affiliate_id"),
        ("filters", json!({"affiliate_id": foreign}), "404 affiliate_not_found filters.affiliate_id"),
        ("filters", json!({"affiliate_id": unknown}), "404 affiliate_not_found filters.affiliate_id"),
        ("filters", json!({"affiliate_id": "x"}), "404 affiliate_not_found filters.affiliate_id"),
    ];
    for (name, value, expected) in &wrong {
        assert_eq!(world.a.post(WEBHOOKS, &with(name, value.clone())).await.outcome(), *expected, "{value}");
        assert_eq!(world.a.patch(&path, &json!({*name: value})).await.outcome(), *expected, "{value}");
    }
    for (body, expected) in [
        (json!({}), "400 bad_request url"),
        (json!({"url": URL}), "400 bad_request events"),
        (json!({"events": ["click"]}), "400 bad_request url"),
        (with("events", Value::Null), "400 bad_request events"),
    ] {
        assert_eq!(world.a.post(WEBHOOKS, &body).await.outcome(), expected, "{body}");
    }
    for (body, expected) in [
        (json!({}), "400 empty_update"),
        (json!({"id": "x", "secret": "x", "created_at": 1, "health": {}}), "400 empty_update"),
        (json!({"url": null}), "400 bad_request url"),
        (json!({"events": null}), "400 bad_request events"),
        (json!({"active": null}), "400 bad_request active"),
        (json!({"active": "true"}), "400 bad_request active"),
    ] {
        assert_eq!(world.a.patch(&path, &body).await.outcome(), expected, "{body}");
    }
    for (body, expected) in [
        (json!({"event": "clicks"}), "400 invalid_event event"),
        (json!({"event": ""}), "400 invalid_event event"),
        (json!({"event": 1}), "400 bad_request event"),
    ] {
        assert_eq!(world.a.post(&format!("{path}/test"), &body).await.outcome(), expected, "{body}");
    }
    let relative = world.a.post(WEBHOOKS, &with("url", json!("hooks.example.com"))).await;
    assert_eq!(relative.member("error"), "url: not an absolute URL");
    // Another account's affiliate and a missing one get the same answer.
    let refused = async |id: &str| {
        let body = with("filters", json!({"affiliate_id": id}));
        world.a.post(WEBHOOKS, &body).await.without_request_id()
    };
    assert_eq!(refused(foreign).await, refused(unknown).await);
    assert_eq!(world.db.dump().await, before);
}

/// W1: a name is resolved when it is set. One address that is not public refuses it; no addresses yet, or a failed
/// lookup, do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w1_a_name_must_not_lead_inside() {
    let world = spawn_with(|config| config.outbound_allow = "10.1.0.0/16".parse().expect("networks")).await;
    let dns = &world.dns;
    dns.addresses("inside.example.com", &["10.0.0.1"]);
    dns.addresses("mixed.example.com", &["8.8.8.8", "127.0.0.1"]);
    dns.addresses("mapped.example.com", &["::ffff:169.254.169.254"]);
    dns.addresses("allowed.example.com", &["10.1.2.3"]);
    dns.addresses("outside.example.com", &["8.8.8.8", "2606:4700:4700::1111"]);
    dns.cname("alias.example.com", "inside.example.com");
    dns.addresses("failing.example.com", &["10.0.0.1"]);
    dns.answer("failing.example.com", How::ServFail);
    let path = path_of(&world.a).await;
    for (name, is_fine) in [
        ("inside", false),
        ("mixed", false),
        ("mapped", false),
        ("alias", false),
        ("allowed", true),
        ("outside", true),
        ("unknown", true),
        ("failing", true),
    ] {
        let url = format!("https://{name}.example.com/x");
        let made = world.a.post(WEBHOOKS, &json!({"url": url, "events": ["click"]})).await;
        let changed = world.a.patch(&path, &json!({"url": url})).await;
        let outcomes = (made.outcome(), changed.outcome());
        let expected = if is_fine { ["201", "200"] } else { ["400 invalid_url url"; 2] };
        assert_eq!((outcomes.0.as_str(), outcomes.1.as_str()), (expected[0], expected[1]), "{name}: {}", made.text());
        assert!(!made.text().contains("10.0.0") && !made.text().contains("127."), "{}", made.text());
        if is_fine {
            assert_eq!(world.a.delete(made.header("location")).await.status, 204);
        }
    }
    let literal = async |url: &str| world.a.post(WEBHOOKS, &json!({"url": url, "events": ["click"]})).await.outcome();
    assert_eq!(literal("https://10.2.0.1/").await, "400 invalid_url url");
    assert_eq!(literal("https://8.8.8.8:81/").await, "400 invalid_url url");
    assert_eq!(literal("https://10.1.0.1:81/").await, "201", "the operator says so");
}

/// W1: a silent name server does not refuse it either, but uses a place of its account while waiting. Without a free
/// place a request must be retried later; other accounts have their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w1_a_name_is_not_waited_for_too_often() {
    const PLACES: usize = 8;
    let world = spawn().await;
    world.dns.addresses("silent.example.com", &["10.0.0.1"]);
    world.dns.answer("silent.example.com", How::Silently);
    let of_b = path_of(&world.b).await;
    let all = at_once(PLACES + 8, |_| {
        let caller = world.a.clone();
        let silent = json!({"url": "https://silent.example.com/", "events": ["click"]});
        async move { caller.post(WEBHOOKS, &silent).await }
    });
    let (replies, other) = tokio::join!(all, async { world.b.patch(&of_b, &json!({"url": URL})).await });
    assert_eq!(other.outcome(), "200");
    let outcomes: Vec<_> = replies.iter().map(Reply::outcome).collect();
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    let [made, full, turned_away] = ["201", "400 webhook_limit", "503 overloaded"].map(count);
    // Those that wait are refused after two seconds; on a busy machine places may be free again by then.
    assert!((1..=8).contains(&turned_away), "{outcomes:?}");
    assert_eq!((made, full), (2, PLACES + 6 - turned_away), "{outcomes:?}");
    for reply in replies.iter().filter(|reply| reply.status == 503) {
        assert!(!reply.header("retry-after").is_empty());
        let used_up = "this account has too many DNS lookups in progress; try again in a second";
        assert_eq!(reply.member("error"), used_up);
    }
}

/// W2: the limit is exact under concurrent requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w2_there_are_two_webhooks() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.b), world.at(1, &world.b)];
    let outcomes = at_once(20, |number| {
        let caller = callers[number % 2].clone();
        async move { caller.post(WEBHOOKS, &of(&["click"])).await.outcome() }
    })
    .await;
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!((count("201"), count("400 webhook_limit")), (2, 18), "{outcomes:?}");
    assert_eq!(listed(&world.b).await.len(), 2);
    // Field errors come first.
    assert_eq!(world.b.post(WEBHOOKS, &of(&[])).await.outcome(), "400 empty_events events");
    create(&world.a).await;
    let id = listed(&world.b).await[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.b.delete(&format!("{WEBHOOKS}/{id}")).await.status, 204);
    create(&world.b).await;
}

/// The operator decides how many webhooks an account can have; the plan, the page and the refusal say so.
#[tokio::test]
async fn an_operator_may_allow_more_webhooks() {
    let world = spawn_with(|config| (config.webhook_limit, config.billing) = (3, true)).await;
    for _ in 0..3 {
        create(&world.a).await;
    }
    let refused = world.a.post(WEBHOOKS, &of(&["click"])).await;
    assert_eq!(refused.outcome(), "400 webhook_limit");
    assert_eq!(refused.member("error"), "this account already has 3 webhooks, the maximum; delete one first");
    let status = world.a.get("/v1/billing/status").await.json();
    assert_eq!((&status["limits"]["max_webhooks"], &status["usage"]["webhooks"]), (&json!(3), &json!(3)));
    let session = world.session_of(&world.a).await;
    let page = async || world.nobody.browse(Method::GET, "/account/webhooks").session(&session).send().await.text();
    assert!(page().await.contains("maximum number of webhooks"));
    let id = listed(&world.a).await[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.a.delete(&format!("{WEBHOOKS}/{id}")).await.status, 204);
    assert!(!page().await.contains("maximum number of webhooks"));
}

#[tokio::test]
async fn a_repeat_shows_the_same_secret_and_makes_no_second_webhook() {
    let world = spawn().await;
    let ask = |caller: &Caller, path: &str| caller.ask(Method::POST, path).header("idempotency-key", "key");
    let [first, again] = [
        ask(&world.a, WEBHOOKS).json(&of(&["click"])).send().await,
        ask(&world.a, WEBHOOKS).json(&of(&["click"])).send().await,
    ];
    assert_eq!((first.status, again.status, again.header("idempotency-replayed")), (201, 201, "true"));
    assert_eq!((&first.body, first.header("location")), (&again.body, again.header("location")));
    let other = ask(&world.a, WEBHOOKS).json(&of(&["identify"])).send().await;
    assert_eq!(other.outcome(), "409 idempotency_conflict Idempotency-Key");
    // A DNS change meanwhile does not change the stored reply.
    world.dns.addresses("hooks.example.com", &["10.0.0.1"]);
    let later = ask(&world.a, WEBHOOKS).json(&of(&["click"])).send().await;
    assert_eq!((later.status, &later.body), (201, &first.body));
    let path = first.header("location");
    let rotate = format!("{path}/rotate-secret");
    let [one, two] = [ask(&world.a, &rotate).send().await, ask(&world.a, &rotate).send().await];
    assert_eq!((one.status, two.status, two.header("idempotency-replayed")), (200, 200, "true"));
    assert_eq!(one.body, two.body);
    let kept = world.db.texts("SELECT body FROM replies").await;
    assert!(kept.len() == 2 && kept.iter().all(|body| body.starts_with("sealed ")), "{kept:?}");
    for _ in 0..2 {
        assert_eq!(ask(&world.a, &format!("{path}/test")).json(&json!({})).send().await.status, 200);
    }
    let deliveries = "SELECT CAST(COUNT(*) AS BIGINT) FROM deliveries";
    assert_eq!(world.db.number(deliveries).await, 1);
    let other = ask(&world.a, &format!("{path}/test")).json(&json!({"event": "click"})).send().await;
    assert_eq!(other.outcome(), "409 idempotency_conflict Idempotency-Key");
    let delivery = world.db.texts("SELECT id FROM deliveries").await.remove(0);
    let replay = format!("{path}/deliveries/{delivery}/replay");
    let [one, two] = [ask(&world.a, &replay).send().await, ask(&world.a, &replay).send().await];
    assert_eq!((one.status, &one.body, two.header("idempotency-replayed")), (200, &two.body, "true"));
    assert_eq!(world.db.number(deliveries).await, 2);
}

/// X18: a secret is stored sealed. A rotation keeps the previous one for as long as it still signs.
#[tokio::test]
async fn x18_a_secret_is_sealed_where_it_is_kept() {
    let world = spawn().await;
    let made = create(&world.a).await;
    let path = made.header("location");
    let rotated = world.a.post_nothing(&format!("{path}/rotate-secret")).await;
    assert_eq!((rotated.status, rotated.header("cache-control")), (200, "no-store"), "{}", rotated.text());
    assert_eq!(rotated.member("id"), made.member("id"));
    let secrets = [made.member("secret"), rotated.member("secret")];
    assert_ne!(secrets[0], secrets[1]);
    let row = world.db.dump().await["webhooks"].join("\n");
    assert!(secrets.iter().all(|secret| !row.contains(&secret[6..20])), "{row}");
    let until = world.db.number("SELECT before_until FROM webhooks").await;
    assert_eq!(until, world.clock.now().plus_millis(24 * 3_600_000).as_millis());
    // A second rotation replaces the first.
    let sealed = world.db.texts("SELECT sealed FROM webhooks").await;
    assert_eq!(world.a.post_nothing(&format!("{path}/rotate-secret")).await.status, 200);
    assert_eq!(world.db.texts("SELECT sealed_before FROM webhooks").await, sealed);
    assert_eq!(world.b.post_nothing(&format!("{path}/rotate-secret")).await.outcome(), "404 not_found");
}

/// Clicks before a webhook subscribed to clicks are not sent to it.
#[tokio::test]
async fn a_webhook_begins_where_the_log_ends() {
    let world = spawn().await;
    let link = world.a.make_of(&json!({"web_url": "https://example.com/"})).await;
    let after = "SELECT clicks_after FROM webhooks";
    let head = "SELECT MAX(position) FROM clicks";
    // On a busy machine a click is stored a moment after its answer.
    let tap = async |count: i64| {
        assert_eq!(world.nobody.tap(&link).await.status, 302);
        world.expect_clicks(&[(0, count)]).await;
        world.db.number(head).await
    };
    let first = tap(1).await;
    let path = create(&world.a).await.header("location").to_owned();
    assert!(world.db.number(after).await >= first);
    let second = tap(2).await;
    world.a.patch(&path, &json!({"active": true})).await;
    assert!(world.db.number(after).await < second, "it is not subscribed to clicks");
    world.a.patch(&path, &json!({"events": ["click"]})).await;
    assert!(world.db.number(after).await >= second, "it subscribes to them");
    let third = tap(3).await;
    world.a.patch(&path, &json!({"events": ["click", "identify"]})).await;
    assert!(world.db.number(after).await < third, "it stays subscribed");
    for active in [false, true] {
        world.a.patch(&path, &json!({"active": active})).await;
    }
    assert!(world.db.number(after).await >= third, "it subscribes again");
}

/// The health of deliveries is one word; switching a webhook on keeps it until the next attempt.
#[tokio::test]
async fn a_webhook_says_how_it_goes() {
    let world = spawn().await;
    let path = path_of(&world.a).await;
    world.db.execute("UPDATE webhooks SET delivered_at = 500").await;
    assert_eq!(listed(&world.a).await[0]["health"]["status"], "healthy");
    world.db.execute("UPDATE webhooks SET active = FALSE, delivered_at = NULL, failing_since = 1, paused_at = 2").await;
    assert_eq!(listed(&world.a).await[0]["health"]["status"], "paused");
    let on = world.a.patch(&path, &json!({"active": true})).await.json();
    let failed = (&json!("failing"), &json!("1970-01-01T00:00:00.001Z"));
    assert_eq!((&on["health"]["status"], &on["health"]["failing_since"]), failed, "until it is tried again");
    world.db.execute("UPDATE webhooks SET failing_since = 1000, delivered_at = 500").await;
    let failing = world.a.patch(&path, &json!({"active": true})).await.json();
    let expected = json!({"status": "failing", "failing_since": "1970-01-01T00:00:01.000Z", "delivered_at": "1970-01-01T00:00:00.500Z", "dropped": 0});
    assert_eq!(failing["health"], expected, "it was on");
}

/// The client reads the log page by page, and its creates are idempotent.
#[tokio::test]
async fn the_client_manages_webhooks() {
    use deeplink_client::{CreateWebhook, DeliveryStatus, TestWebhook, UpdateWebhook};
    use futures_util::TryStreamExt;
    let world = spawn().await;
    let webhooks = world.a.webhooks();
    let made = webhooks.create(&CreateWebhook::new(URL, [EventKind::Identify])).await.expect("a webhook");
    let id = &made.webhook.id;
    let off = webhooks.update(id, &UpdateWebhook::new().active(false)).await.expect("a webhook");
    assert!(!off.active);
    webhooks.update(id, &UpdateWebhook::new().active(true)).await.expect("a webhook");
    assert_ne!(webhooks.rotate_secret(id).await.expect("a secret").secret, made.secret);
    for _ in 0..5 {
        world.clock.advance(Duration::from_millis(1));
        let delivery = webhooks.test(id, &TestWebhook::new()).await.expect("a delivery");
        assert_eq!(delivery.event, EventKind::Identify);
    }
    world.db.execute("UPDATE deliveries SET state = 2").await;
    let all = webhooks.deliveries(id).page_size(2).items();
    let all: Vec<_> = all.try_collect().await.expect("all deliveries");
    assert_eq!(all.len(), 5);
    let pages: Vec<_> = webhooks.deliveries(id).page_size(2).pages().try_collect().await.expect("all pages");
    assert_eq!(pages.iter().map(|page| page.deliveries.len()).collect::<Vec<_>>(), [2, 2, 1]);
    let none = webhooks.deliveries(id).status(DeliveryStatus::Delivered).first_page().await.expect("a page");
    assert_eq!(none.deliveries, []);
    let again = webhooks.replay(id, &all[0].id).await.expect("a delivery");
    assert_eq!((&again.event_id, &again.request_body), (&all[0].event_id, &all[0].request_body));
    assert_eq!(webhooks.list().await.expect("webhooks").len(), 1);
    webhooks.delete(id).await.expect("it goes");
    assert_eq!(webhooks.list().await.expect("webhooks"), []);
}

/// The address checked is the one used, in any spelling: every vector of section 5 is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q5_inner_addresses_are_no_place_for_a_webhook() {
    let world = spawn().await;
    let path = path_of(&world.a).await;
    for (url, _) in inner_addresses(&world) {
        let made = world.a.post(WEBHOOKS, &json!({"url": url, "events": ["click"]})).await;
        let changed = world.a.patch(&path, &json!({"url": url})).await;
        for reply in [made, changed] {
            assert_eq!(reply.outcome(), "400 invalid_url url", "{url}");
            assert!(!reply.text().contains("169.254"), "{}", reply.text());
        }
    }
    let controls = [
        "8.8.8.8",
        "[2606:4700:4700::1111]",
        "example.net",
        "E.IO.",
        "example.net:8443",
        "bücher.example",
        "127.0.0.1.example.net",
    ];
    for host in controls {
        let changed = world.a.patch(&path, &json!({"url": format!("https://{host}/x")})).await;
        assert_eq!(changed.outcome(), "200", "{host}: {}", changed.text());
    }
}
