//! When attempts are made, and when no more are made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deeplink_core::webhook::DeliveryStatus;
use serde_json::json;
use tokio::sync::Notify;

use super::{PATIENCE, Scene};
use deeplink_doubles::authority::Identity;
use deeplink_doubles::receiver::{Receiver, Say};
use deeplink_testing::eventually;

/// W8: one attempt and four more, 0, 1, 5 and 25 seconds after the previous one; then the delivery fails. Every attempt
/// has the same id and the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w8_a_delivery_is_attempted_five_times_at_the_documented_times() {
    let scene = Scene::new().await;
    let receiver = scene.receiver(Say::Status(500)).await;
    let a = &scene.world.a;
    let hook = scene.hook(a, &receiver.url(super::HOST, "/in?x=1")).await;
    let began = scene.world.clock.now();
    scene.test(a, &hook).await;
    scene.attempted(&hook, 2).await;
    for (attempts, wait) in [(3, 1_000), (4, 5_000), (5, 25_000)] {
        // Both were created at the same time, so either can come first.
        let all = scene.deliveries(a, &hook).await;
        let waiting = all.iter().find(|delivery| delivery.status == DeliveryStatus::Pending).expect("one that waits");
        let next = waiting.next_attempt_at.expect("another attempt").as_millis();
        assert_eq!((waiting.status.as_str(), next - scene.world.clock.now().as_millis()), ("pending", wait));
        scene.world.clock.advance(Duration::from_millis(u64::try_from(wait).expect("a wait") - 1));
        tokio::task::yield_now().await;
        scene.world.clock.advance(Duration::from_millis(1));
        scene.attempted(&hook, attempts).await;
    }
    scene.settled(&hook, 2, 1).await;
    let failed = scene.deliveries(a, &hook).await.remove(0);
    assert_eq!((failed.status.as_str(), failed.next_attempt_at), ("failed", None));
    let at: Vec<_> = failed.attempts.iter().map(|attempt| attempt.at.as_millis() - began.as_millis()).collect();
    assert_eq!(at, [0, 0, 1_000, 6_000, 31_000]);
    assert!(failed.attempts.iter().all(|attempt| attempt.status == Some(500) && attempt.error.is_some()));
    let heard = receiver.heard();
    assert_eq!((heard.len(), receiver.connections()), (5, heard.last().expect("a post").connection + 1));
    for post in &heard {
        assert_eq!((post.id(), &*post.path), (failed.event_id.as_str(), "/in?x=1"));
        assert_eq!(post.body, failed.request_body.as_bytes());
    }
    scene.world.clock.advance(Duration::from_hours(1));
    let other = scene.test(a, &hook).await;
    scene.attempted(&hook, 7).await;
    assert!(scene.deliveries(a, &hook).await.iter().all(|one| one.attempts.len() == 5 || one.id.as_str() == other));
}

/// A webhook's time for retries decides how many there are; a longer one that is set meanwhile counts for what is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_go_on_for_as_long_as_the_webhook_says() {
    let scene = Scene::new().await;
    let receiver = scene.receiver(Say::Status(500)).await;
    let a = &scene.world.a;
    let hook = scene.hook(a, &receiver.url(super::HOST, "/")).await;
    scene.change(a, &hook, &json!({"retry_for": 0})).await;
    scene.test(a, &hook).await;
    scene.settled(&hook, 2, 1).await;
    assert_eq!(scene.attempts(&hook).await, 2);

    scene.change(a, &hook, &json!({"retry_for": 31})).await;
    scene.test(a, &hook).await;
    scene.attempted(&hook, 4).await;
    scene.change(a, &hook, &json!({"retry_for": 3_600})).await;
    for (nth, wait) in [1, 5, 25, 120, 600, 1_800].into_iter().enumerate() {
        // Both were created at the same time, so either can come first.
        let all = scene.deliveries(a, &hook).await;
        let waiting = all.iter().find(|delivery| delivery.status == DeliveryStatus::Pending).expect("one that waits");
        let next = waiting.next_attempt_at.expect("another attempt").as_millis();
        assert_eq!(next - scene.world.clock.now().as_millis(), wait * 1_000);
        scene.world.clock.advance(Duration::from_secs(wait.unsigned_abs()));
        scene.attempted(&hook, 5 + i64::try_from(nth).expect("few")).await;
    }
    scene.settled(&hook, 2, 2).await;
    let mut ended: Vec<_> = scene.deliveries(a, &hook).await;
    ended.sort_by_key(|delivery| delivery.attempts.len());
    let ended: Vec<_> = ended.iter().map(|delivery| (delivery.attempts.len(), delivery.next_attempt_at)).collect();
    assert_eq!(ended, [(2, None), (8, None)], "an hour is over before the next one");
}

/// W8: any status from 200 to 299 ends it; redirects and 410 are failures, and redirects are not followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w8_any_2xx_ends_it_and_nothing_else_does() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let elsewhere = Receiver::fine(&scene.authority).await;
    let statuses = [301, 302, 307, 308, 404, 410, 429, 503, 200, 201, 202, 299];
    for (nth, status) in statuses.into_iter().enumerate() {
        let location = elsewhere.url(super::HOST, "/moved");
        let receiver = Receiver::new(&scene.authority, Identity::Days(1), move |_, nth| {
            if nth > 1 {
                return Say::Status(200);
            }
            let answer = format!("HTTP/1.1 {status} So\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            Say::Bytes(answer.into_bytes())
        })
        .await;
        let hook = scene.hook(a, &receiver.url(super::HOST, "/")).await;
        scene.test(a, &hook).await;
        scene.settled(&hook, 1, 1).await;
        let attempts = if status < 300 { 1 } else { 2 };
        let shown = scene.deliveries(a, &hook).await.remove(0);
        assert_eq!((shown.status.as_str(), shown.attempts.len(), receiver.hits()), ("delivered", attempts, attempts));
        assert_eq!(shown.attempts[0].status, Some(status), "{nth}");
        assert_eq!(shown.attempts.last().expect("one").error, None);
        assert_eq!(a.delete(&format!("/v1/webhooks/{}", hook.id)).await.status, 204);
    }
    assert_eq!(elsewhere.hits(), 0);
}

/// W5: once a webhook is deleted or switched off no attempt begins, and waiting deliveries are canceled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w5_a_webhook_that_is_deleted_or_switched_off_gets_no_other_attempt() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let receiver = scene.receiver(Say::Status(500)).await;
    let [off, gone] = [
        scene.hook(a, &receiver.url(super::HOST, "/off")).await,
        scene.hook(a, &receiver.url(super::HOST, "/gone")).await,
    ];
    for hook in [&off, &gone] {
        scene.test(a, hook).await;
        scene.attempted(hook, 2).await;
    }
    for (attempts, wait) in [(3, 1), (4, 5)] {
        scene.world.clock.advance(Duration::from_secs(wait));
        scene.attempted(&off, attempts).await;
        scene.attempted(&gone, attempts).await;
    }
    // In the middle of the wait of 25 seconds.
    scene.world.clock.advance(Duration::from_secs(10));
    scene.change(a, &off, &json!({"active": false})).await;
    assert_eq!(a.delete(&format!("/v1/webhooks/{}", gone.id)).await.status, 204);
    scene.settled(&off, 3, 1).await;
    scene.settled(&gone, 3, 1).await;
    let hits = receiver.hits();
    scene.world.clock.advance(Duration::from_mins(1));
    let canceled = scene.deliveries(a, &off).await.remove(0);
    assert_eq!((canceled.status.as_str(), canceled.attempts.len()), ("canceled", 4));
    // Switched on again, it gets new events.
    receiver.now(|_, _| Say::Status(200));
    scene.change(a, &off, &json!({"active": true})).await;
    scene.test(a, &off).await;
    scene.settled(&off, 1, 1).await;
    assert_eq!((hits, receiver.hits()), (8, 9));
}

/// A change of the URL applies from the next attempt on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_changes_counts_from_the_next_attempt_on() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let (first, second) = (scene.receiver(Say::Status(500)).await, Receiver::fine(&scene.authority).await);
    let hook = scene.hook(a, &first.url(super::HOST, "/")).await;
    scene.test(a, &hook).await;
    scene.attempted(&hook, 2).await;
    scene.change(a, &hook, &json!({"url": second.url("other.example.com", "/new")})).await;
    scene.world.clock.advance(Duration::from_secs(1));
    scene.settled(&hook, 1, 1).await;
    assert_eq!((first.hits(), second.hits()), (2, 1));
    assert_eq!(second.heard()[0].id(), first.heard()[0].id());
}

/// F11: a restart continues the schedule where it was, with the same ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_a_restart_goes_on_where_it_was() {
    let mut scene = Scene::new().await;
    let receiver = scene.receiver(Say::Status(500)).await;
    let a = scene.world.a.clone();
    let hook = scene.hook(&a, &receiver.url(super::HOST, "/")).await;
    scene.test(&a, &hook).await;
    scene.attempted(&hook, 2).await;
    scene.world.restart(|_| {}).await;
    scene.world.clock.advance(Duration::from_secs(1));
    scene.attempted(&hook, 3).await;
    scene.world.clock.advance(Duration::from_secs(3));
    scene.world.restart(|_| {}).await;
    receiver.now(|_, _| Say::Status(200));
    scene.world.clock.advance(Duration::from_secs(2));
    scene.settled(&hook, 1, 1).await;
    let ids: std::collections::HashSet<_> = receiver.heard().iter().map(|heard| heard.id().to_owned()).collect();
    assert_eq!((receiver.hits(), ids.len()), (4, 1));
}

/// A stop lets attempts in progress end, and is not delayed by a receiver that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_some_seconds_for_attempts_and_no_longer() {
    let mut scene = Scene::new().await;
    let slow = scene.receiver(Say::Nothing).await;
    let a = scene.world.a.clone();
    let hook = scene.hook(&a, &slow.url(super::HOST, "/")).await;
    scene.test(&a, &hook).await;
    eventually("it is attempted", PATIENCE, || async { slow.hits() == 1 }).await;
    slow.now(|_, _| Say::Status(200));
    let began = Instant::now();
    scene.world.restart(|_| {}).await;
    // If it had waited for the attempt, that one would be counted below.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    // It was not counted as an attempt, and is made again at once.
    scene.settled(&hook, 1, 1).await;
    assert_eq!((slow.hits(), scene.deliveries(&a, &hook).await[0].attempts.len()), (2, 1));
}

/// An attempt that is in progress while the webhook is switched off and on is kept: its result is stored, and others
/// are made meanwhile and after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_outlives_switching_off_and_on() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let receiver = scene.receiver(Say::Status(200)).await;
    let held = Arc::new(Notify::new());
    receiver.now({
        let held = Arc::clone(&held);
        move |_, nth| if nth == 2 { Say::Held(Arc::clone(&held), 200) } else { Say::Status(200) }
    });
    let hook = scene.hook(a, &receiver.url(super::HOST, "/")).await;
    // Until its first answer a receiver gets one attempt at a time.
    scene.test(a, &hook).await;
    scene.settled(&hook, 1, 1).await;
    scene.test(a, &hook).await;
    eventually("it is under way", PATIENCE, || async { receiver.hits() == 2 }).await;
    scene.change(a, &hook, &json!({"active": false})).await;
    scene.settled(&hook, 3, 1).await;
    scene.world.clock.advance(Duration::from_millis(10));
    scene.change(a, &hook, &json!({"active": true})).await;
    scene.test(a, &hook).await;
    scene.settled(&hook, 1, 2).await;
    // The receiver has accepted it, though it had been canceled.
    held.notify_one();
    scene.settled(&hook, 1, 3).await;
    scene.test(a, &hook).await;
    scene.settled(&hook, 1, 4).await;
    assert_eq!(receiver.hits(), 4);
}

/// W5: deliveries that wait when a webhook is switched off stay canceled, however soon it is switched on again, and it
/// is no longer full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w5_switching_on_brings_nothing_back() {
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(super::HOST, "/")).await;
    for attempts in [2, 4, 6] {
        scene.test(a, &hook).await;
        scene.attempted(&hook, attempts).await;
    }
    world.db.execute(format!("UPDATE webhooks SET is_full = TRUE WHERE id = '{}'", hook.id)).await;
    scene.change(a, &hook, &json!({"active": false})).await;
    scene.change(a, &hook, &json!({"active": true})).await;
    receiver.now(|_, _| Say::Status(200));
    // It is not full, or this one would be dropped.
    scene.test(a, &hook).await;
    scene.settled(&hook, 1, 1).await;
    world.clock.advance(Duration::from_mins(1));
    scene.settled(&hook, 3, 3).await;
    assert_eq!((receiver.hits(), scene.count(&hook, 1).await), (7, 1));
}

/// G5, F13: whether an event came before or after the switching on does not depend on a clock: one that came after it
/// is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_after_switching_on_is_sent_whatever_the_clock_says() {
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(super::HOST, "/in")).await;
    let now = world.clock.now();
    world.clock.advance(Duration::from_secs(10));
    scene.change(a, &hook, &json!({"active": false})).await;
    scene.change(a, &hook, &json!({"active": true})).await;
    world.clock.set(now);
    scene.test(a, &hook).await;
    for (attempts, wait) in [(2, 1), (3, 5), (4, 25)] {
        scene.attempted(&hook, attempts).await;
        world.clock.advance(Duration::from_secs(wait));
    }
    scene.settled(&hook, 2, 1).await;
    assert_eq!(receiver.hits(), 5);
}

/// F13: what was stored while the clock was far ahead is sent once it is set back, whichever node held the lease then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_clock_that_is_set_back_stops_nothing() {
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(super::HOST, "/")).await;
    for ahead in [Duration::from_hours(1), Duration::from_hours(24 * 400)] {
        let now = world.clock.now();
        receiver.now(|_, _| Say::Status(500));
        world.clock.advance(ahead);
        scene.test(a, &hook).await;
        scene.attempted(&hook, 2).await;
        receiver.now(|_, _| Say::Status(200));
        world.clock.set(now);
        scene.settled(&hook, 0, 0).await;
        assert_eq!(scene.count(&hook, 1).await, 1);
        // Another process was killed while its clock was ahead.
        let (end, tenant) = (now.plus_days(400).as_millis(), &world.b.tenant);
        let lease = format!(
            "INSERT INTO delivery_leases (tenant_id, holder, expires_at) VALUES ('{tenant}', 'gone', {end})
             ON CONFLICT (tenant_id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at"
        );
        world.db.execute(lease).await;
        let other = scene.hook(&world.b, &receiver.url(super::HOST, "/other")).await;
        scene.test(&world.b, &other).await;
        scene.settled(&other, 1, 1).await;
        assert_eq!(world.b.delete(&format!("/v1/webhooks/{}", other.id)).await.status, 204);
        world.db.execute(format!("DELETE FROM deliveries WHERE webhook_id = '{}'", hook.id)).await;
    }
}
