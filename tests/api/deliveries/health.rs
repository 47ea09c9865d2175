//! The health of a webhook in its row, and when the service switches it off.

use std::time::Duration;

use serde_json::json;

use super::{HOST, Hook, PATIENCE, Scene};
use deeplink_doubles::receiver::Say;
use deeplink_testing::eventually;

async fn has_status(scene: &Scene, hook: &Hook, status: &str) {
    eventually(&format!("the webhook is {status}"), PATIENCE, || async {
        let all = scene.world.a.get("/v1/webhooks").await.json();
        let all = all["webhooks"].as_array().expect("webhooks").clone();
        all.iter().any(|one| one["id"] == *hook.id && one["health"]["status"] == status)
    })
    .await;
}

/// Makes an event that fails five times. Until the last failure the health does not change: the event may still arrive.
async fn give_up(scene: &Scene, hook: &Hook) {
    let failed = scene.count(hook, 2).await + 1;
    let before = scene.attempts(hook).await;
    scene.test(&scene.world.a, hook).await;
    for (attempts, wait) in [(2, 1), (3, 5), (4, 25)] {
        scene.attempted(hook, before + attempts).await;
        has_status(scene, hook, "failing").await;
        scene.world.clock.advance(Duration::from_secs(wait));
    }
    scene.settled(hook, 2, failed).await;
}

/// After three days of failures a webhook is switched off and its owner is told, once. A success in between restarts
/// the count, and so does switching it on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_fails_for_three_days_is_switched_off_and_its_owner_told_once() {
    const DAY: Duration = Duration::from_hours(24);
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/in")).await;
    has_status(&scene, &hook, "untried").await;
    for _ in 0..4 {
        give_up(&scene, &hook).await;
        has_status(&scene, &hook, "failing").await;
        world.clock.advance(DAY * 5 / 6);
    }
    receiver.now(|_, _| Say::Status(200));
    scene.test(a, &hook).await;
    has_status(&scene, &hook, "healthy").await;
    receiver.now(|_, _| Say::Status(500));
    world.clock.advance(Duration::from_secs(2));
    // The last one ends a minute before three days are over.
    for wait in [DAY * 5 / 6, DAY * 5 / 6, DAY * 5 / 6, Duration::from_secs(12 * 3_600 - 4 * 31 - 60)] {
        give_up(&scene, &hook).await;
        world.clock.advance(wait);
    }
    give_up(&scene, &hook).await;
    has_status(&scene, &hook, "failing").await;
    world.clock.advance(Duration::from_mins(1));
    give_up(&scene, &hook).await;
    has_status(&scene, &hook, "paused").await;
    let paused = "SELECT actor_type || ' ' || target || ' ' || detail FROM audit_log WHERE action = 'webhook.paused'";
    let origin = receiver.url(HOST, "/in").replace("/in", "");
    assert_eq!(world.db.texts(paused).await, [format!("service {} {origin}", hook.id)]);
    let mails = world.mails(1).await;
    assert!(mails[0].contains("was paused") && mails[0].contains(&receiver.url(HOST, "/in")), "{}", mails[0]);
    world.clock.advance(DAY);
    scene.change(a, &hook, &json!({"active": true})).await;
    has_status(&scene, &hook, "failing").await;
    give_up(&scene, &hook).await;
    has_status(&scene, &hook, "failing").await;
    assert_eq!(world.mails(1).await.len(), 1);
}

/// While there is nothing to send, the state of a webhook is unknown: after a day of that, the count of failures
/// restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_without_an_attempt_are_no_days_of_failures() {
    let scene = Scene::new().await;
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(&scene.world.a, &receiver.url(HOST, "/in")).await;
    for _ in 0..3 {
        give_up(&scene, &hook).await;
        has_status(&scene, &hook, "failing").await;
        scene.world.clock.advance(Duration::from_hours(24 * 4));
    }
}

/// A webhook that is switched off and on again is still shown as failing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_failed_says_so_when_it_is_switched_on_again() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/in")).await;
    give_up(&scene, &hook).await;
    has_status(&scene, &hook, "failing").await;
    for active in [false, true] {
        scene.change(a, &hook, &json!({"active": active})).await;
        has_status(&scene, &hook, "failing").await;
    }
    receiver.now(|_, _| Say::Status(200));
    scene.test(a, &hook).await;
    has_status(&scene, &hook, "healthy").await;
}

/// A new URL has not failed yet, however long the previous one did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_address_has_not_failed_yet() {
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/before")).await;
    for _ in 0..4 {
        give_up(&scene, &hook).await;
        world.clock.advance(Duration::from_hours(20));
    }
    scene.change(a, &hook, &json!({"url": receiver.url(HOST, "/after")})).await;
    has_status(&scene, &hook, "untried").await;
    give_up(&scene, &hook).await;
    has_status(&scene, &hook, "failing").await;
    // Nor has anything arrived there.
    receiver.now(|_, _| Say::Status(200));
    scene.test(a, &hook).await;
    has_status(&scene, &hook, "healthy").await;
    scene.change(a, &hook, &json!({"url": receiver.url(HOST, "/after")})).await;
    has_status(&scene, &hook, "healthy").await;
    scene.change(a, &hook, &json!({"url": receiver.url(HOST, "/beyond")})).await;
    has_status(&scene, &hook, "untried").await;
}

/// W7: when 100,000 deliveries wait for a webhook, newer ones are dropped until fewer than 90,000 wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w7_what_waits_is_bounded_and_newer_ones_are_dropped_and_counted() {
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Nothing).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/")).await;
    scene.change(a, &hook, &json!({"events": ["click", "identify"]})).await;
    scene.pile_up(a, &hook, 100_010).await;
    world.clock.advance(Duration::from_millis(10));
    let is_full = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM webhooks WHERE id = '{}' AND is_full", hook.id);
    eventually("it is full", PATIENCE, || async { world.db.number(is_full.clone()).await == 1 }).await;
    // A reported event, a click and a test event are each recorded as dropped, and nothing else fails.
    let counted = format!("SELECT dropped FROM webhooks WHERE id = '{}'", hook.id);
    a.make("spring-42").await;
    let bound = a.put("/v1/lifecycle/identify", &json!({"install_id": "install-1", "user_id": "ann"})).await;
    assert_eq!(bound.status, 200, "{}", bound.text());
    assert_eq!(a.tap("spring-42").await.status, 302);
    let made = a.post(&format!("/v1/webhooks/{}/test", hook.id), &json!({})).await;
    assert_eq!(made.member("status"), "dropped");
    scene.settled(&hook, 4, 3).await;
    assert_eq!(world.db.number(counted).await, 3);
    // Fewer wait, and it is no longer full.
    let fewer = format!(
        "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = '{}' AND tries = 0
         ORDER BY due_at DESC, id DESC LIMIT 100000)",
        hook.id
    );
    world.db.execute(fewer).await;
    eventually("it is no longer full", PATIENCE, || async { world.db.number(is_full.clone()).await == 0 }).await;
}
