//! Slow receivers, and test events.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{HOST, PATIENCE, Scene};
use deeplink_doubles::authority::Identity;
use deeplink_doubles::receiver::{Receiver, Say};
use deeplink_testing::eventually;

/// An answer after this time is late.
const LATE: Duration = Duration::from_millis(2_001);

/// A new receiver gets one attempt until it answers. After that, one that takes more than two seconds gets as many
/// concurrent attempts as any: only one that does not answer gets fewer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_answers_late_is_sent_as_much_at_one_time() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let answers = Arc::new(Notify::new());
    let held = Arc::clone(&answers);
    let receiver =
        Receiver::new(&scene.authority, Identity::Days(1), move |_, _| Say::Held(Arc::clone(&held), 200)).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/in")).await;
    scene.pile_up(a, &hook, 25).await;
    scene.world.clock.advance(Duration::from_millis(10));
    for begun in [1, 9, 17, 25] {
        eventually("as many as may be are under way", PATIENCE, || async { receiver.hits() == begun }).await;
        sleep(LATE).await;
        assert_eq!(receiver.hits(), begun);
        answers.notify_waiters();
    }
    scene.settled(&hook, 1, 25).await;
}

/// A test event is marked as such for its receiver, also when replayed, and no other event is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_made_up_says_so_where_it_arrives() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let receiver = Receiver::fine(&scene.authority).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/in")).await;
    a.make("spring-42").await;
    assert_eq!(a.tap("spring-42").await.status, 302);
    scene.settled(&hook, 1, 1).await;
    let made_up = scene.test(a, &hook).await;
    scene.settled(&hook, 1, 2).await;
    let again = a.post(&format!("/v1/webhooks/{}/deliveries/{made_up}/replay", hook.id), &json!({})).await;
    assert!(again.status < 300, "{}", again.text());
    scene.settled(&hook, 1, 3).await;
    let marks: Vec<_> = receiver.heard().into_iter().map(|mut heard| heard.headers.remove("x-service-test")).collect();
    assert_eq!(marks, [None, Some("true".to_owned()), Some("true".to_owned())]);
}
