//! The log of events: what the stream sends, a page at a time, as long as it is kept.

use std::time::Duration;

use deeplink_client::{Client, EventFilter, EventKind, SecretKey, StoredEvent};
use deeplink_core::time::Timestamp;
use futures_util::{StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Value, json};

use super::{Reading, click, expect_deliveries, placed, webhook};
use deeplink_testing::{Caller, World, spawn, spawn_nodes};

const LOG: &str = "/v1/analytics/events";

async fn report(caller: &Caller, operation: &str, body: &Value) {
    let path = format!("/v1/lifecycle/{operation}");
    let reply = if operation == "identify" { caller.put(&path, body).await } else { caller.post(&path, body).await };
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// What happens with two links: all kinds of events, each a millisecond after the one before.
async fn happen(world: &World, by: &Caller, links: [&str; 2]) {
    for (nth, link) in links.into_iter().enumerate() {
        let (install, user) = (format!("install-{nth}"), format!("user-{nth}"));
        click(world, link).await;
        let sale = json!({"user_id": user, "type": "purchase", "amount_cents": 1999, "currency": "EUR",
            "metadata": {"price": 19.5}});
        for (operation, body) in [
            ("attribute", json!({"link_id": link, "install_id": install, "app_version": "1"})),
            ("identify", json!({"install_id": install, "user_id": user})),
            ("convert", sale),
        ] {
            world.clock.advance(Duration::from_millis(1));
            report(by, operation, &body).await;
            placed(world).await;
        }
        world.clock.advance(Duration::from_millis(1));
    }
}

/// All events of a list, by pages of this size.
async fn all(caller: &Caller, query: &str, limit: u32) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&format!("{LOG}?limit={limit}{query}{cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        let found = page["events"].as_array().expect("events").clone();
        assert!(found.len() <= limit as usize, "{page}");
        events.extend(found);
        let Some(next) = page["next_cursor"].as_str() else { return events };
        cursor = format!("&cursor={next}");
    }
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The log has what the stream sent, byte for byte and in its order, whatever the size of a page; filters choose from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_has_what_the_stream_sent() {
    let world = spawn().await;
    let links = ["spring-42", "autumn-7"];
    for link in links {
        world.a.make(link).await;
    }
    world.b.make("winter-1").await;
    let mut stream = Reading::of(&world.a).await;
    let begun = world.clock.now();
    happen(&world, &world.a, links).await;
    happen(&world, &world.b, ["winter-1", "winter-1"]).await;
    let frames = stream.take(8).await;
    let whole = all(&world.a, "", 1_000).await;
    let kinds: Vec<&str> = whole.iter().map(|event| text(event, "/event")).collect();
    assert_eq!(kinds, ["click", "attribute", "identify", "conversion"].repeat(2));
    for (event, frame) in whole.iter().zip(&frames) {
        let mut body = event.as_object().expect("an object").clone();
        assert_eq!(body.remove("id"), Some(json!(frame.id)));
        assert_eq!(Value::Object(body), frame.body);
    }
    for limit in [1, 2, 3, 7, 8] {
        assert_eq!(all(&world.a, "", limit).await, whole, "pages of {limit}");
    }
    for kind in ["click", "attribute", "identify", "conversion"] {
        let expected: Vec<Value> = whole.iter().filter(|event| text(event, "/event") == kind).cloned().collect();
        assert_eq!(all(&world.a, &format!("&kind={kind}"), 1).await, expected, "{kind}");
    }
    assert_eq!(all(&world.a, "&kind=attribution", 10).await.len(), 2, "the earlier name");
    for (nth, link) in links.into_iter().enumerate() {
        assert_eq!(all(&world.a, &format!("&link_id={link}"), 3).await, whole[4 * nth..][..4], "{link}");
    }
    for nobodys in ["winter-1", "unknown"] {
        assert_eq!(all(&world.a, &format!("&link_id={nobodys}"), 5).await, Vec::<Value>::new(), "{nobodys}");
    }
    // Two periods side by side have each event once.
    let middle: Timestamp = text(&whole[4], "/timestamp").parse().expect("a time");
    let (first, rest) = (format!("&from={begun}&to={middle}"), format!("&from={middle}"));
    let sides = [all(&world.a, &first, 2).await, all(&world.a, &rest, 3).await];
    assert_eq!(sides.concat(), whole);
    assert_eq!(sides[0], whole[..4]);

    // The client reads the same events, to the byte.
    let key = SecretKey::new(world.a.key().expect("a key"));
    let client = Client::builder(world.a.base()).secret_key(key).build().expect("a client");
    let mut items = client.events().list(&EventFilter::new()).page_size(3).items();
    for frame in &frames {
        let StoredEvent { id, event, .. } = items.next().await.expect("an event").expect("an event");
        assert_eq!((id.as_str(), event.kind.as_str()), (frame.id.as_str(), frame.kind.as_str()));
        assert_eq!(serde_json::from_str::<Value>(&event.raw).expect("JSON"), frame.body);
    }
    assert!(items.next().await.is_none());
    let others = client.events().list(&EventFilter::new()).items();
    let others: Vec<StoredEvent> = others.try_collect().await.expect("events");
    let others = others.into_iter().filter(|of| of.event.kind != EventKind::Click).map(|of| of.event.raw);
    let bodies = format!("SELECT body FROM events WHERE tenant_id = '{}' ORDER BY position", world.a.tenant);
    assert_eq!(others.collect::<Vec<_>>(), world.db.texts(bodies).await);
    let sales = client.events().list(&EventFilter::new().kind(EventKind::Conversion)).items();
    let sales: Vec<StoredEvent> = sales.try_collect().await.expect("events");
    assert!(sales.iter().all(|sale| sale.event.raw.contains(r#""metadata":{"price":19.5}"#)), "{sales:?}");
    let refused = client.events().list(&EventFilter::new().kind(EventKind::from("sale"))).first_page().await;
    assert_eq!(refused.expect_err("no such kind").field(), Some("kind"));
}

/// What is wrong is named, and nothing is listed.
#[tokio::test]
async fn a_wrong_question_is_refused() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    click(&world, "spring-42").await;
    click(&world, "spring-42").await;
    for (query, expected) in [
        ("kind=sale", "400 invalid_event kind"),
        ("kind=click,identify", "400 invalid_event kind"),
        ("kind=click&kind=identify", "400 bad_request kind"),
        ("link_id=%00", "400 bad_request link_id"),
        ("link_id=", "400 bad_request link_id"),
        ("link_id=%20", "400 bad_request link_id"),
        ("limit=0", "400 bad_request limit"),
        ("limit=1001", "400 bad_request limit"),
        ("limit=ten", "400 bad_request limit"),
        ("from=yesterday", "400 bad_request from"),
        ("to=2026-11-01", "400 bad_request to"),
        ("from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", "400 bad_request to"),
        ("cursor=x", "400 invalid_cursor cursor"),
    ] {
        assert_eq!(world.a.get(&format!("{LOG}?{query}")).await.outcome(), expected, "{query}");
    }
    let cursor = world.a.get(&format!("{LOG}?limit=1&kind=click")).await.member("next_cursor");
    for (caller, filters, expected) in [
        (&world.a, "", "200"),
        (&world.a, "&kind=click", "200"),
        (&world.a, "&kind=identify", "400 invalid_cursor cursor"),
        (&world.b, "", "400 invalid_cursor cursor"),
    ] {
        assert_eq!(caller.get(&format!("{LOG}?cursor={cursor}{filters}")).await.outcome(), expected, "{filters}");
    }
    let links = world.a.get("/v1/links?limit=1").await;
    assert_eq!(links.json()["next_cursor"], Value::Null);
}

/// Test events of a webhook and the copies of clicks that are delivered are not events of the log.
#[tokio::test]
async fn the_log_has_each_event_once() {
    let world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    let hook = webhook(&world.a, "all", &["click", "identify"], &json!({})).await;
    assert_eq!(world.a.post(&format!("/v1/webhooks/{hook}/test"), &json!({})).await.status, 200);
    click(&world, "spring-42").await;
    report(&world.a, "identify", &json!({"install_id": "install-1", "user_id": "ann"})).await;
    expect_deliveries(&world, &hook, 3).await;
    placed(&world).await;
    for node in [0, 1] {
        let listed = all(&world.at(node, &world.a), "", 1).await;
        let mut kinds: Vec<&str> = listed.iter().map(|event| text(event, "/event")).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["click", "identify"]);
    }
}

/// A log that is mostly other accounts' is read on, however short its pages are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_log_of_others_is_read_through() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    world.b.make("winter-1").await;
    click(&world, "spring-42").await;
    // Clicks of B's, further apart than one read goes.
    let of_b = world.db.number("SELECT MAX(position) FROM links").await;
    let last = world.db.number("SELECT MAX(position) FROM clicks").await;
    for part in 0..20 {
        let rows: Vec<String> =
            (1..=500).map(|nth| format!("({}, {of_b}, 0, 0, 4)", last + part * 500 + nth)).collect();
        let sql = format!("INSERT INTO clicks (position, link, at, kind, platform) VALUES {}", rows.join(", "));
        world.db.execute(sql).await;
    }
    world.clock.advance(Duration::from_mins(1));
    report(&world.a, "identify", &json!({"install_id": "install-1", "user_id": "ann"})).await;
    placed(&world).await;
    let kinds: Vec<Value> = all(&world.a, "", 1_000).await.into_iter().map(|event| event["event"].clone()).collect();
    assert_eq!(kinds, [json!("click"), json!("identify")]);
    assert_eq!(all(&world.b, "", 1_000).await.len(), 10_000);
    let ask = world.a.ask(Method::GET, &format!("{LOG}?kind=click")).send().await;
    assert_eq!(ask.json()["events"].as_array().map(Vec::len), Some(1), "{}", ask.text());
}
