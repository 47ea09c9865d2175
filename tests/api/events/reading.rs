//! Who may read, from which position, how many readers, and for how long.

use std::time::{Duration, Instant};

use deeplink_client::{Client, EventKind, SecretKey};
use deeplink_core::event::click_event_id;
use deeplink_server::http::listen::Stop;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::json;

use super::{PATIENCE, Reading, STREAM, click, deliveries, placed, webhook};
use deeplink_doubles::meter::Meter;
use deeplink_testing::{Caller, eventually, spawn, spawn_nodes};

async fn identify(caller: &Caller, install: &str) {
    let body = json!({"install_id": install, "user_id": "ann"});
    assert_eq!(caller.put("/v1/lifecycle/identify", &body).await.status, 200);
}

#[tokio::test]
async fn the_answer_is_a_stream_that_nobody_keeps() {
    let world = spawn().await;
    let answer = Reading::ask(&world.a, "", "").await;
    assert_eq!(answer.status(), 200);
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned();
    assert_eq!(
        ["content-type", "cache-control", "x-accel-buffering", "content-encoding", "x-content-type-options"]
            .map(header),
        ["text/event-stream", "no-store", "no", "-", "nosniff"]
    );
    let mut reading = Reading::from(answer);
    identify(&world.a, "install-1").await;
    assert_eq!(reading.next().await.expect("an event").kind, "identify");
    assert_eq!(reading.comments, ["stream started"]);
}

#[tokio::test]
async fn what_is_asked_is_checked() {
    let world = spawn().await;
    let a = &world.a;
    for (query, last, expected) in [
        ("?events=opened", "", "400 invalid_event events"),
        ("?events=", "", "400 invalid_event events"),
        ("?events=click,", "", "400 invalid_event events"),
        ("?events=click&events=click", "", "400 bad_request events"),
        ("", "x", "400 bad_request Last-Event-ID"),
        ("", "evt_0123456789abcdef0123456", "400 bad_request Last-Event-ID"),
        // Neither exists; one would be a click that is still to come.
        ("", "evt_ffffffffffff012345678901", "400 bad_request Last-Event-ID"),
        ("", "evt_7fffffffffff123450000000", "400 bad_request Last-Event-ID"),
    ] {
        let mut ask = a.ask(http::Method::GET, &format!("{STREAM}{query}"));
        if !last.is_empty() {
            ask = ask.header("last-event-id", last);
        }
        assert_eq!(ask.send().await.outcome(), expected, "{query} {last}");
    }
    // Another account's event does not exist for this one.
    identify(&world.b, "install-1").await;
    let of_b = world.db.texts("SELECT id FROM events").await;
    let ask = a.ask(http::Method::GET, STREAM).header("last-event-id", &of_b[0]);
    placed(&world).await;
    assert_eq!(ask.send().await.outcome(), "400 bad_request Last-Event-ID");
    // A moment after the last event is its end, also a little ahead of the service's clock.
    for (ahead, expected) in [(0, 200), (59, 200), (61, 400)] {
        let at = click_event_id(world.clock.now().plus_millis(ahead * 1_000).as_millis() << 20);
        let ask = a.ask(http::Method::GET, STREAM).header("last-event-id", at.as_str());
        assert_eq!(ask.send().await.status, expected, "{ahead} s");
    }
    // Test events are not in the stream.
    let hook = webhook(a, "all", &["click"], &json!({})).await;
    let made_up = a.post(&format!("/v1/webhooks/{hook}/test"), &json!({})).await.member("event_id");
    let ask = a.ask(http::Method::GET, STREAM).header("last-event-id", &made_up);
    assert_eq!(ask.send().await.outcome(), "400 bad_request Last-Event-ID");
}

/// The stream goes back one day: it starts there for an older id.
#[tokio::test]
async fn the_stream_reaches_back_a_day() {
    let mut world = spawn().await;
    world.a.make("spring-42").await;
    let mut stream = Reading::of(&world.a).await;
    identify(&world.a, "install-1").await;
    click(&world, "spring-42").await;
    let old = stream.take(2).await;
    let place = stream.place.clone();
    world.clock.advance(Duration::from_hours(25));
    identify(&world.a, "install-2").await;
    placed(&world).await;
    click(&world, "spring-42").await;
    let new = stream.take(2).await;
    for id in [&old[0].id, &old[1].id, &place, &"evt_000000000001012345678901".to_owned()] {
        let mut again = Reading::after(&world.a, id).await;
        assert_eq!(again.take(2).await, new);
    }
    // The log has them as long as clicks; then they are deleted from the table as well.
    let hook = webhook(&world.a, "users", &["identify"], &json!({})).await;
    world.clock.advance(Duration::from_hours(49));
    identify(&world.a, "install-3").await;
    // The first sweep is soon after a start.
    world.restart(|config| config.retention_days = 1).await;
    let kept = "SELECT COUNT(*) FROM events";
    eventually("expired events are deleted", PATIENCE, || async { world.db.number(kept).await == 1 }).await;
    assert_eq!(deliveries(&world, &hook).await.len(), 1);
}

#[tokio::test]
async fn a_reader_can_ask_for_some_kinds() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let mut clicks = Reading::from(Reading::ask(&world.a, "?events=click,attribution", "").await);
    for nth in 0..3 {
        identify(&world.a, &format!("install-{nth}")).await;
        click(&world, "spring-42").await;
        let touch = json!({"link_id": "spring-42", "install_id": format!("install-{nth}"), "app_version": "1"});
        assert_eq!(world.a.post("/v1/lifecycle/attribute", &touch).await.status, 200);
        placed(&world).await;
    }
    let kinds: Vec<String> = clicks.take(6).await.into_iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, ["click", "attribute"].repeat(3));
}

/// After fifteen seconds without an event a reader gets a comment with the position reached, also while there are
/// events that it did not ask for.
#[tokio::test]
async fn a_comment_comes_while_nothing_happens() {
    let world = spawn().await;
    let mut stream = Reading::of(&world.a).await;
    let mut sales = Reading::from(Reading::ask(&world.a, "?events=conversion", "").await);
    assert_eq!([stream.comment().await, sales.comment().await], ["stream started"; 2]);
    identify(&world.a, "install-1").await;
    stream.take(1).await;
    for _ in 0..2 {
        world.clock.advance(Duration::from_secs(15));
        assert_eq!([stream.comment().await, sales.comment().await], ["keep-alive"; 2]);
    }
    assert!(Reading::after(&world.a, &stream.place).await.rest(&world.a).await.is_empty());
}

/// I7: A cannot read B's events, and A's webhook does not get them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i7_nobody_is_told_of_others() {
    let world = spawn_nodes(2).await;
    world.b.make("spring-42").await;
    let hook = webhook(&world.a, "all", &["click", "attribute", "identify", "conversion"], &json!({})).await;
    let mut streams = [Reading::of(&world.at(0, &world.a)).await, Reading::of(&world.at(1, &world.a)).await];
    let mut of_b = Reading::of(&world.b).await;
    for nth in 0..100 {
        let install = format!("install-{nth}");
        let touch = json!({"link_id": "spring-42", "install_id": install, "app_version": "1"});
        assert_eq!(world.b.post("/v1/lifecycle/attribute", &touch).await.status, 200);
        world.nobody.tap("spring-42").await;
        let user = json!({"install_id": install, "user_id": install});
        assert_eq!(world.b.put("/v1/lifecycle/identify", &user).await.status, 200);
        let sold = json!({"type": "purchase", "user_id": install});
        assert_eq!(world.b.post("/v1/lifecycle/convert", &sold).await.status, 200);
    }
    let told = of_b.take(400).await;
    assert!(told.iter().all(|frame| frame.body["data"]["tenant_id"] == world.b.tenant.as_str()));
    for stream in &mut streams {
        assert_eq!(stream.rest(&world.a).await.iter().filter(|frame| frame.kind != "identify").count(), 0);
    }
    let foreign = format!(
        "SELECT COUNT(*) FROM deliveries d JOIN events e ON e.id = d.event_id WHERE d.webhook_id = '{hook}' AND e.tenant_id <> '{}'",
        world.a.tenant
    );
    assert_eq!(world.db.number(foreign).await, 0);
}

/// I10: an account has at most ten readers on a node, and one that leaves makes room.
#[tokio::test]
async fn i10_the_eleventh_reader_waits() {
    let world = spawn().await;
    let mut readers = Vec::new();
    for _ in 0..10 {
        readers.push(Reading::of(&world.a).await);
    }
    let refused = world.a.get(STREAM).await;
    assert_eq!((refused.outcome().as_str(), refused.header("retry-after")), ("429 rate_limited", "15"));
    Reading::of(&world.b).await;
    readers.pop();
    eventually("its place is free", PATIENCE, || async { Reading::ask(&world.a, "", "").await.status() == 200 }).await;
}

/// Within five seconds, plus the machine's own delays.
fn assert_soon(meter: &Meter, since: Instant) {
    let (took, lost) = (since.elapsed(), meter.lost(since, Instant::now()));
    assert!(took < Duration::from_secs(5) + lost, "{took:?}, of which {lost:?} were lost");
}

/// I10: a stream ends within five seconds when its key is deleted, on whichever node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i10_a_stream_ends_with_its_key() {
    let world = spawn_nodes(2).await;
    let session = world.session_of(&world.a).await;
    let made = world
        .nobody
        .ask(http::Method::POST, "/v1/auth/secret-keys/issue")
        .session(&session)
        .json(&json!({}))
        .send()
        .await;
    assert_eq!(made.status, 201, "{}", made.text());
    let key = world.somebody_with(&made.member("key"));
    let mut streams = [Reading::of(&world.at(0, &key)).await, Reading::of(&world.at(1, &key)).await];
    identify(&world.a, "install-1").await;
    for stream in &mut streams {
        stream.take(1).await;
    }
    let deleted = world.a.delete(&format!("/v1/auth/secret-keys/{}", made.member("id"))).await;
    assert_eq!(deleted.status, 204);
    world.clock.advance(Duration::from_secs(2));
    let (meter, begin) = (Meter::start(world.home().join("page")), Instant::now());
    for stream in &mut streams {
        assert_eq!(stream.next().await, None);
    }
    assert_soon(&meter, begin);
}

/// When the service stops, streams end at once, not only when it would cut them off after six seconds.
#[tokio::test]
async fn a_stream_ends_when_the_service_stops() {
    let world = spawn().await;
    let mut stream = Reading::of(&world.a).await;
    identify(&world.a, "install-1").await;
    stream.take(1).await;
    let (meter, begin) = (Meter::start(world.home().join("page")), Instant::now());
    world.node(0).ask_to_stop(Stop::Gracefully);
    assert_eq!(stream.next().await, None);
    assert_eq!(stream.comments.last().map(String::as_str), Some("the service is stopping"));
    assert_soon(&meter, begin);
}

/// A slow reader gets everything in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_misses_nothing() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let mut slow = Reading::of(&world.a).await;
    let mut quick = Reading::of(&world.a).await;
    let quick = tokio::spawn(async move { quick.take(1_500).await });
    let long = "y".repeat(500);
    let mut told = Vec::new();
    for _ in 0..15 {
        join_all((0..100).map(|_| {
            let ask = world.nobody.browse(http::Method::GET, "/r/spring-42");
            ask.header("referer", format!("https://example.com/{long}")).send()
        }))
        .await;
        // A reader that takes nothing for half a minute is cut off.
        told.extend(slow.take(1).await);
    }
    told.extend(slow.take(1_485).await);
    assert_eq!(told, quick.await.expect("the quick one reaches the end"));
}

/// The client keeps reading across a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_comes_again_by_itself() {
    let mut world = spawn().await;
    world.a.make("spring-42").await;
    let key = SecretKey::new(world.a.key().expect("a key"));
    let client = Client::builder(world.a.base()).secret_key(key).build().expect("a client");
    let begin = {
        let mut stream = Reading::of(&world.a).await;
        identify(&world.a, "install-0").await;
        stream.next().await.expect("an event").id
    };
    let mut events = client.events().stream().after(begin.parse().expect("an id"));
    for round in 1..=2 {
        identify(&world.a, &format!("install-{round}")).await;
        placed(&world).await;
        click(&world, "spring-42").await;
        for kind in [EventKind::Identify, EventKind::Click] {
            let told = tokio::time::timeout(PATIENCE, events.next()).await.expect("in time");
            assert_eq!(told.expect("an event").expect("an event").event.kind, kind);
        }
        world.restart(|_| {}).await;
    }
}
