//! What a webhook's row says of how its deliveries go, and when the service gives up on it.

use std::time::Duration;

use serde_json::json;

use super::receiver::Say;
use super::{HOST, Hook, PATIENCE, Scene};
use crate::common::eventually;

async fn has_status(scene: &Scene, hook: &Hook, status: &str) {
    eventually(&format!("the webhook is {status}"), PATIENCE, || async {
        let all = scene.world.a.get("/v1/webhooks").await.json();
        let all = all["webhooks"].as_array().expect("webhooks").clone();
        all.iter().any(|one| one["id"] == *hook.id && one["health"]["status"] == status)
    })
    .await;
}

/// After three days of failures a webhook is switched off and its owner is told, once. A success in between begins anew,
/// and so does switching it on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_fails_for_three_days_is_switched_off_and_its_owner_told_once() {
    const DAY: Duration = Duration::from_hours(24);
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/in")).await;
    has_status(&scene, &hook, "untried").await;
    scene.test(a, &hook).await;
    has_status(&scene, &hook, "failing").await;
    world.clock.advance(DAY * 2);
    receiver.now(|_, _| Say::Status(200));
    scene.test(a, &hook).await;
    has_status(&scene, &hook, "healthy").await;
    receiver.now(|_, _| Say::Status(500));
    world.clock.advance(Duration::from_secs(2));
    scene.test(a, &hook).await;
    has_status(&scene, &hook, "failing").await;
    world.clock.advance(DAY * 3 - Duration::from_mins(1));
    scene.test(a, &hook).await;
    eventually("it was tried", PATIENCE, || async { receiver.hits() >= 7 }).await;
    has_status(&scene, &hook, "failing").await;
    world.clock.advance(Duration::from_secs(61));
    has_status(&scene, &hook, "paused").await;
    let mails = world.mails(1).await;
    assert!(mails[0].contains("is switched off") && mails[0].contains(&receiver.url(HOST, "/in")), "{}", mails[0]);
    eventually("what waited is given up", PATIENCE, || async { scene.count(&hook, 0).await == 0 }).await;
    assert_eq!(scene.deliveries(a, &hook).await[0].status.as_str(), "canceled");
    world.clock.advance(DAY);
    scene.change(a, &hook, &json!({"active": true})).await;
    scene.test(a, &hook).await;
    has_status(&scene, &hook, "failing").await;
    assert_eq!(world.mails(1).await.len(), 1);
}

/// W7: when 100,000 wait for a webhook, newer ones are dropped until less than 90,000 do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w7_what_waits_is_bounded_and_newer_ones_are_dropped_and_counted() {
    let scene = Scene::new().await;
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = scene.receiver(Say::Nothing).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/")).await;
    scene.pile_up(a, &hook, 100_010).await;
    world.clock.advance(Duration::from_millis(10));
    let is_full = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM webhooks WHERE id = '{}' AND is_full", hook.id);
    eventually("it is full", PATIENCE, || async { world.db.number(is_full.clone()).await == 1 }).await;
    // Less waits, and it is full no more.
    let fewer = format!(
        "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = '{}' AND tries = 0
         ORDER BY due_at DESC, id DESC LIMIT 100000)",
        hook.id
    );
    world.db.execute(fewer).await;
    eventually("it is full no more", PATIENCE, || async { world.db.number(is_full.clone()).await == 0 }).await;
}
