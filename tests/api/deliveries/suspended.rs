//! Deliveries of an account that the operator suspended.

use std::time::Duration;

use super::{HOST, Scene};
use crate::suspension::{resume, suspend};
use deeplink_doubles::receiver::{Receiver, Say};

/// R12: while an account is suspended, nothing is sent to its webhooks, whether due before or during the suspension;
/// other accounts are not affected. Deliveries wait, and are sent unchanged once the account is resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r12_deliveries_of_a_suspended_account_wait() {
    let scene = Scene::with(2, |_| {}).await;
    let (world, a, b) = (&scene.world, &scene.world.a, &scene.world.b);
    let of_a = scene.receiver(Say::Status(500)).await;
    let of_b = Receiver::fine(&scene.authority).await;
    let hook = scene.hook(a, &of_a.url(HOST, "/in")).await;
    let other = scene.hook(b, &of_b.url(HOST, "/in")).await;
    scene.test(a, &hook).await;
    // The second attempt follows the first at once.
    scene.attempted(&hook, 2).await;
    suspend(world, a.tenant.as_str()).await;
    // More that are due at once, and that only a scan finds.
    scene.pile_up(a, &hook, 5).await;
    of_a.now(|_, _| Say::Status(200));
    for sent in 1..=5 {
        // Longer than any wait between two attempts, and each move makes every node scan for due deliveries.
        world.clock.advance(Duration::from_mins(2));
        scene.test(b, &other).await;
        scene.settled(&other, 1, sent).await;
    }
    assert_eq!((of_a.hits(), scene.count(&hook, 0).await), (2, 6));
    resume(world, a.tenant.as_str()).await;
    world.clock.advance(Duration::from_secs(1));
    scene.settled(&hook, 1, 6).await;
    let heard = of_a.heard();
    assert!(heard[2..].iter().any(|again| (again.id(), &again.body) == (heard[0].id(), &heard[0].body)), "{heard:?}");
}
