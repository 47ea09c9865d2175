//! Retention of deliveries.

use std::time::Duration;

use super::{HOST, PATIENCE, Scene};
use deeplink_doubles::receiver::Say;
use deeplink_testing::eventually;

const DAY: Duration = Duration::from_hours(24);

/// Deliveries are deleted after thirty days, or sooner if the operator sets so; those of a deleted webhook, soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_past_their_time_and_of_webhooks_that_are_gone_are_taken_away() {
    let mut scene = Scene::new().await;
    let a = scene.world.a.clone();
    let receiver = scene.receiver(Say::Status(200)).await;
    let [hook, gone] =
        [scene.hook(&a, &receiver.url(HOST, "/in")).await, scene.hook(&a, &receiver.url(HOST, "/gone")).await];
    scene.test(&a, &hook).await;
    scene.settled(&hook, 1, 1).await;
    scene.world.clock.advance(DAY * 29);
    for hook in [&hook, &gone] {
        scene.test(&a, hook).await;
    }
    scene.settled(&gone, 1, 1).await;
    scene.settled(&hook, 1, 2).await;
    let kept = scene.deliveries(&a, &hook).await.remove(0).id;
    assert_eq!(a.delete(&format!("/v1/webhooks/{}", gone.id)).await.status, 204);
    scene.world.clock.advance(DAY + Duration::from_secs(1));
    // The service looks soon after its start.
    scene.world.restart(|_| {}).await;
    scene.settled(&hook, 1, 1).await;
    scene.settled(&gone, 1, 0).await;
    let left: Vec<_> = scene.deliveries(&a, &hook).await.into_iter().map(|one| one.id).collect();
    assert_eq!(left, [kept]);
    scene.world.restart(|config| config.retention_days = 1).await;
    let all = "SELECT CAST(COUNT(*) AS BIGINT) FROM deliveries";
    eventually("nothing is left", PATIENCE, || async { scene.world.db.number(all).await == 0 }).await;
}
