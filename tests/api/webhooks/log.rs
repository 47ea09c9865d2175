//! Test events and replays, and the log of deliveries.

use std::time::Duration;

use deeplink_core::event::{Event, EventKind};
use deeplink_core::id::{DeliveryId, EventId};
use deeplink_core::secret::Random;
use deeplink_core::webhook::ReplayDeliveries;
use http::Method;
use serde_json::{Value, json};

use super::{WEBHOOKS, listed, of, path_of, tested};
use deeplink_testing::{Caller, World, spawn};

/// A test event is of the first kind that the webhook subscribes to, or of the requested one, and belongs to the
/// account.
#[tokio::test]
async fn a_test_is_a_delivery_of_a_made_up_event() {
    let world = spawn().await;
    let path = world.a.post(WEBHOOKS, &of(&["conversion", "attribute"])).await.header("location").to_owned();
    let asked = [None, Some("click"), Some("attribution"), Some("identify"), Some("conversion")];
    for (asked, kind) in asked.into_iter().zip(["attribute", "click", "attribute", "identify", "conversion"]) {
        world.clock.advance(Duration::from_millis(1));
        let reply = world.a.post(&format!("{path}/test"), &json!({"event": asked})).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let delivery = reply.json();
        let body = delivery["request_body"].as_str().expect("a body");
        let event = Event::parse(body.as_bytes()).expect("an event");
        assert_eq!((event.kind.as_str(), event.raw.as_str()), (kind, body));
        assert_eq!((&delivery["event"], event.timestamp), (&json!(kind), world.clock.now()));
        let data: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(data["data"]["tenant_id"], world.a.tenant.as_str());
        if event.kind == EventKind::Conversion {
            assert_eq!(data["data"]["event_id"], delivery["event_id"], "it is recognised by either");
        }
        let now = world.clock.now().to_string();
        let expected = json!({
            "id": delivery["id"], "webhook_id": path.rsplit('/').next(), "event_id": delivery["event_id"], "event": kind,
            "test": true, "replay_of": null, "status": "pending", "request_body": body, "attempts": [], "next_attempt_at": now, "created_at": now,
        });
        assert_eq!(delivery, expected);
    }
    assert_eq!(world.db.number("SELECT CAST(SUM(position) AS BIGINT) FROM events").await, 0, "the stream is past them");
    // The sender may count at any moment, and find that few are waiting.
    let mut status = Value::Null;
    for _ in 0..50 {
        world.db.execute("UPDATE webhooks SET is_full = TRUE").await;
        status = tested(&world.a, &path).await["status"].clone();
        if status == "dropped" {
            break;
        }
    }
    assert_eq!(status, "dropped");
    assert_eq!(listed(&world.a).await[0]["health"]["dropped"], 1);
    world.a.patch(&path, &json!({"active": false})).await;
    let refused = world.a.post(&format!("{path}/test"), &json!({})).await;
    assert_eq!(refused.outcome(), "400 bad_request active");
    assert_eq!(world.b.post(&format!("{path}/test"), &json!({})).await.outcome(), "404 not_found");
}

/// A delivered test event of a caller's webhook; returns its id. Nothing more happens to it.
pub(crate) async fn settled_delivery(world: &World, caller: &Caller, webhook: &str) -> String {
    let (now, mut random) = (world.clock.now(), Random::system());
    let (event, id) = (EventId::new(now, &mut random), DeliveryId::new(now, &mut random));
    let (tenant, millis, until) = (&caller.tenant, now.as_millis(), now.plus_days(31).as_millis());
    let event_sql = format!(
        "INSERT INTO events (id, tenant_id, kind, position, body, kept_until)
         VALUES ('{event}', '{tenant}', 3, 0, '{{}}', {until})"
    );
    world.db.execute(event_sql).await;
    let sql = format!(
        "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, state, tries, due_at, log, created_at)
         VALUES ('{id}', '{tenant}', '{webhook}', '{event}', 1, 1, {millis}, '[]', {millis})"
    );
    world.db.execute(sql).await;
    id.to_string()
}

/// Sets the outcome of a settled delivery.
async fn settle(world: &World, id: &str, state: i64, log: &Value) {
    world.db.execute(format!("UPDATE deliveries SET state = {state}, log = '{log}' WHERE id = '{id}'")).await;
}

/// The id of the webhook at a path.
fn id_in(path: &str) -> &str {
    path.rsplit('/').next().expect("an id")
}

/// A replay sends the same bytes of the event, with its id, in a new delivery.
#[tokio::test]
async fn i2_a_replay_is_a_new_delivery_of_the_same_event() {
    let world = spawn().await;
    let (path, other) = (path_of(&world.a).await, path_of(&world.a).await);
    let delivery = &settled_delivery(&world, &world.a, id_in(&path)).await;
    let attempt = json!([{"at": 1_000, "ms": 12, "status": 500, "error": "not taken", "answer": "marker"}]);
    settle(&world, delivery, 2, &attempt).await;
    let first = world.a.get(&format!("{path}/deliveries")).await.json()["deliveries"][0].clone();
    assert_eq!(first["id"], delivery.as_str());
    let kept = "SELECT MAX(kept_until) FROM events";
    let until = world.db.number(kept).await;
    world.clock.advance(Duration::from_hours(24));
    let again = world.a.post_nothing(&format!("{path}/deliveries/{delivery}/replay")).await;
    assert_eq!((again.status, again.header("cache-control")), (200, "no-store"), "{}", again.text());
    let again = again.json();
    assert_eq!((&again["replay_of"], &first["replay_of"]), (&json!(delivery), &Value::Null));
    for same in ["webhook_id", "event_id", "event", "request_body"] {
        assert_eq!(again[same], first[same], "{same}");
    }
    assert!(again["id"] != first["id"] && again["status"] == "pending" && again["attempts"] == json!([]));
    assert_eq!(world.db.number(kept).await, until + 24 * 3_600_000, "the event stays as long as the log shows it");
    let list = world.a.get(&format!("{path}/deliveries")).await;
    let shown = list.json()["deliveries"].as_array().expect("deliveries").clone();
    assert_eq!(shown.len(), 2);
    assert_eq!((&shown[0]["id"], &shown[1]["id"]), (&again["id"], &first["id"]), "newest first");
    let expected = json!([{
        "at": "1970-01-01T00:00:01.000Z", "duration_ms": 12, "status": 500, "error": "not taken",
    }]);
    assert_eq!((&shown[1]["attempts"], &shown[1]["status"]), (&expected, &json!("failed")));
    assert_eq!(shown[1]["next_attempt_at"], Value::Null);
    assert!(!list.text().contains("marker"), "Q9: what the receiver said is for people");
    // A real event; a test event stays one when replayed.
    world.db.execute("UPDATE events SET position = 7").await;
    let replays = async |of: &str| {
        let again = world.a.post_nothing(&format!("{path}/deliveries/{of}/replay")).await.json();
        (again["test"].clone(), again["replay_of"].clone())
    };
    assert_eq!(replays(delivery).await, (json!(false), json!(delivery)));
    let test = tested(&world.a, &path).await;
    assert_eq!(replays(test["id"].as_str().expect("an id")).await, (json!(true), test["id"].clone()));
    // Ids must belong together, and another account's objects look missing.
    let mut refusals = Vec::new();
    for (caller, webhook, id) in [
        (&world.a, &*other, delivery.as_str()),
        (&world.b, &*path, delivery.as_str()),
        (&world.a, &*path, "dlv_0123456789abcdef01234567"),
        (&world.a, &*path, "nothing"),
    ] {
        let refused = caller.post_nothing(&format!("{webhook}/deliveries/{id}/replay")).await;
        assert_eq!(refused.outcome(), "404 not_found", "{webhook} {id}");
        assert_eq!(refused.member("error"), format!("no delivery with ID {id} for this webhook"));
        refusals.push(refused.without_ids([id]));
    }
    assert!(refusals.iter().all(|refused| *refused == refusals[0]), "{refusals:?}");
    world.a.patch(&path, &json!({"active": false})).await;
    let off = world.a.post_nothing(&format!("{path}/deliveries/{delivery}/replay")).await;
    assert!(off.text().contains("enable it first"), "{}", off.text());
    assert_eq!(off.outcome(), "400 bad_request active");
    assert_eq!(world.a.get(&format!("{path}/deliveries")).await.status, 200, "the log stays");
    world.a.delete(&path).await;
    for reply in [
        world.a.get(&format!("{path}/deliveries")).await,
        world.a.post_nothing(&format!("{path}/deliveries/{delivery}/replay")).await,
    ] {
        assert_eq!(reply.outcome(), "404 not_found");
    }
}

/// What failed since a time is sent again in one request, once by its key, through the client as well; what succeeded,
/// failed before or is on its way again is not.
#[tokio::test]
async fn all_that_failed_is_sent_again() {
    let world = spawn().await;
    let path = path_of(&world.a).await;
    let replay = format!("{path}/replay");
    let mut times = Vec::new();
    for state in [2, 2, 1, 2] {
        let delivery = settled_delivery(&world, &world.a, id_in(&path)).await;
        settle(&world, &delivery, state, &json!([])).await;
        times.push(world.clock.now());
        world.clock.advance(Duration::from_mins(1));
    }
    let since = json!({"since": times[1].to_string(), "status": "failed"});
    let ask = || world.a.ask(Method::POST, &replay).header("idempotency-key", "once").json(&since);
    for replayed in ["", "true"] {
        let again = ask().send().await;
        assert_eq!((again.status, again.header("idempotency-replayed")), (200, replayed), "{}", again.text());
        assert_eq!(again.json(), json!({"count": 2, "has_more": false}));
    }
    let other = world.a.ask(Method::POST, &replay).header("idempotency-key", "once").json(&json!({"since": times[0]}));
    assert_eq!(other.send().await.outcome(), "409 idempotency_conflict Idempotency-Key");
    let list = world.a.get(&format!("{path}/deliveries")).await.json();
    let origins = |list: &Value| {
        let shown = list["deliveries"].as_array().expect("deliveries").clone();
        shown.iter().filter(|of| of["replay_of"].is_string()).count()
    };
    assert_eq!(origins(&list), 2);
    let all = ReplayDeliveries::failed_since(times[0]);
    let again = world.a.client.webhooks().replay_failed(id_in(&path), &all).await.expect("an answer");
    assert_eq!((again.count, again.has_more), (1, false), "the one before; the others are on their way");
    for (caller, path, body, expected) in [
        (&world.a, &replay, json!({}), "400 bad_request since"),
        (&world.a, &replay, json!({"since": "soon"}), "400 bad_request since"),
        (&world.a, &replay, json!({"since": times[0], "status": "delivered"}), "400 bad_request status"),
        (&world.a, &"/v1/webhooks/wh_0123456789abcdef01234567/replay".to_owned(), since.clone(), "404 not_found"),
        (&world.b, &replay, since.clone(), "404 not_found"),
        (&world.a1, &replay, since.clone(), "403 forbidden_scope"),
        (&world.nobody, &replay, since.clone(), "401 unauthorized"),
    ] {
        assert_eq!(caller.post(path, &body).await.outcome(), expected, "{path} {body}");
    }
    world.a.patch(&path, &json!({"active": false})).await;
    assert_eq!(world.a.post(&replay, &since).await.outcome(), "400 bad_request active");
}

/// Of an event with several deliveries the last one that was not dropped or canceled decides, and nothing is sent that
/// would only be dropped.
#[tokio::test]
async fn the_last_delivery_of_an_event_decides_whether_it_is_sent_again() {
    const DELIVERED: i64 = 1;
    const FAILED: i64 = 2;
    const CANCELED: i64 = 3;
    const DROPPED: i64 = 4;
    let world = spawn().await;
    let path = path_of(&world.a).await;
    let client = world.a.client.webhooks();
    let replay = async |since| {
        let asked = ReplayDeliveries::failed_since(since);
        let again = client.replay_failed(id_in(&path), &asked).await.expect("an answer");
        (again.count, again.has_more)
    };
    let begin = world.clock.now();
    let delivery = settled_delivery(&world, &world.a, id_in(&path)).await;
    settle(&world, &delivery, FAILED, &json!([])).await;
    world.db.execute("UPDATE webhooks SET is_full = TRUE").await;
    assert_eq!(replay(begin).await, (0, true));
    world.db.execute("UPDATE webhooks SET is_full = FALSE").await;
    for (states, expected) in [
        (vec![FAILED], 1),
        (vec![FAILED, DELIVERED], 0),
        (vec![FAILED, FAILED], 1),
        (vec![FAILED, FAILED, DELIVERED], 0),
        (vec![DELIVERED, FAILED], 1),
        (vec![FAILED, CANCELED], 1),
        (vec![FAILED, DROPPED], 1),
        (vec![FAILED, DELIVERED, CANCELED], 0),
    ] {
        world.clock.advance(Duration::from_millis(1));
        let since = world.clock.now();
        let mut first: Option<String> = None;
        for state in &states {
            let delivery = settled_delivery(&world, &world.a, id_in(&path)).await;
            settle(&world, &delivery, *state, &json!([])).await;
            world.clock.advance(Duration::from_millis(1));
            if let Some(first) = &first {
                let same = format!("(SELECT event_id FROM deliveries WHERE id = '{first}')");
                let sql = "UPDATE deliveries SET replay_of";
                world.db.execute(format!("{sql} = '{first}', event_id = {same} WHERE id = '{delivery}'")).await;
            }
            first.get_or_insert(delivery);
        }
        assert_eq!(replay(since).await, (expected, false), "{states:?}");
    }
}

#[tokio::test]
async fn the_log_comes_in_pages() {
    let world = spawn().await;
    let (path, other) = (path_of(&world.a).await, path_of(&world.a).await);
    let mut ids = Vec::new();
    for number in 0..7 {
        world.clock.advance(Duration::from_millis(1));
        let delivery = settled_delivery(&world, &world.a, id_in(&path)).await;
        settle(&world, &delivery, if number % 2 == 0 { 1 } else { 2 }, &json!([])).await;
        ids.push(delivery);
    }
    ids.reverse();
    let shown = |page: &Value| -> Vec<String> {
        let deliveries = page["deliveries"].as_array().unwrap_or_else(|| panic!("no deliveries in {page}"));
        deliveries.iter().map(|delivery| delivery["id"].as_str().expect("an id").to_owned()).collect()
    };
    let list = format!("{path}/deliveries");
    let page = async |query: &str| world.a.get(&format!("{list}?{query}")).await.json();
    let first = page("limit=3").await;
    let cursor = first["next_cursor"].as_str().expect("a next page").to_owned();
    let second = page(&format!("limit=3&cursor={cursor}")).await;
    let last = page(&format!("cursor={}", second["next_cursor"].as_str().expect("a last page"))).await;
    assert_eq!([shown(&first), shown(&second), shown(&last)].concat(), ids);
    assert_eq!((shown(&page("limit=7").await).len(), &last["next_cursor"]), (7, &Value::Null));
    for (status, of) in [("delivered", 0), ("failed", 1)] {
        let expected: Vec<_> = ids.iter().skip(of).step_by(2).cloned().collect();
        let first = page(&format!("status={status}&limit=2")).await;
        let cursor = first["next_cursor"].as_str().expect("a next page");
        let rest = page(&format!("cursor={cursor}")).await;
        assert_eq!([shown(&first), shown(&rest)].concat(), expected, "the cursor carries the filter");
        let with = page(&format!("cursor={cursor}&status={status}")).await;
        assert_eq!(shown(&with), shown(&rest));
    }
    for status in ["pending", "canceled", "dropped"] {
        assert_eq!(page(&format!("status={status}")).await, json!({"deliveries": [], "next_cursor": null}), "{status}");
    }
    for (query, expected) in [
        ("limit=0", "400 bad_request limit"),
        ("limit=101", "400 bad_request limit"),
        ("limit=1&limit=1", "400 bad_request limit"),
        ("status=Failed", "400 bad_request status"),
        ("status=", "400 bad_request status"),
        ("status=failed&status=failed", "400 bad_request status"),
        ("cursor=", "400 invalid_cursor cursor"),
        ("cursor=x", "400 invalid_cursor cursor"),
        (&format!("cursor={cursor}&status=failed"), "400 invalid_cursor cursor"),
        (&format!("cursor={cursor}&cursor={cursor}"), "400 bad_request cursor"),
    ] {
        assert_eq!(world.a.get(&format!("{list}?{query}")).await.outcome(), expected, "{query}");
    }
    // I5: a cursor is its list's and its owner's.
    let of_b = path_of(&world.b).await;
    let links = format!("/v1/links?cursor={cursor}");
    for (caller, path) in [
        (&world.a, format!("{other}/deliveries?cursor={cursor}")),
        (&world.b, format!("{of_b}/deliveries?cursor={cursor}")),
        (&world.a, links),
    ] {
        assert_eq!(caller.get(&path).await.outcome(), "400 invalid_cursor cursor", "{path}");
    }
    assert_eq!(world.b.get(&format!("{list}?cursor={cursor}")).await.outcome(), "404 not_found");
    for at in 0..cursor.len() {
        let mut forged = cursor.clone();
        forged.replace_range(at..=at, if &cursor[at..=at] == "A" { "B" } else { "A" });
        let reply = world.a.get(&format!("{list}?cursor={forged}")).await;
        assert_eq!(reply.outcome(), "400 invalid_cursor cursor", "character {at}");
    }
}
