//! Nodes that share the sending. A SQLite file has one server, so there both nodes are that one, and there are no leases.

use std::time::Duration;

use serde_json::json;
use sqlx::postgres::PgListener;
use tokio::time::timeout;

use super::signing::is_signed_with;
use super::{HOST, PATIENCE, Scene};
use deeplink_doubles::receiver::{Receiver, Say};

/// Listens to the senders' notifications; `None` on SQLite.
async fn listener(scene: &Scene) -> Option<PgListener> {
    let mut listener = PgListener::connect(scene.world.db.postgres_url()?).await.expect("a connection");
    listener.listen("deeplink_deliveries").await.expect("it listens");
    Some(listener)
}

/// F14: a node with an event of an account which another node sends for notifies that one once, however long it keeps
/// the lease: each notification is a write that other writes wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_an_event_is_announced_to_the_node_that_sends_it_once() {
    let scene = Scene::with(2, |_| {}).await;
    let Some(mut words) = listener(&scene).await else { return };
    let receiver = Receiver::fine(&scene.authority).await;
    let hook = scene.hook(&scene.world.a, &receiver.url(HOST, "/")).await;
    // The first node takes the lease, and keeps it for some seconds.
    scene.test(&scene.world.a, &hook).await;
    scene.settled(&hook, 1, 1).await;
    scene.test(&scene.world.at(1, &scene.world.a), &hook).await;
    scene.settled(&hook, 1, 2).await;
    let mut said = 0;
    while let Ok(word) = timeout(Duration::from_secs(1), words.recv()).await {
        word.expect("a word");
        said += 1;
        assert!(said <= 2, "it is notified repeatedly");
    }
    assert!(said > 0, "no notification was sent");
}

/// F14: the lease of a dead node ends after ten seconds, and another node sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_a_dead_nodes_lease_is_taken_when_it_is_over() {
    let scene = Scene::new().await;
    let Some(mut words) = listener(&scene).await else { return };
    let (world, a) = (&scene.world, &scene.world.a);
    let receiver = Receiver::fine(&scene.authority).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/")).await;
    let (tenant, until) = (&a.tenant, world.clock.now().plus_millis(10_000).as_millis());
    let lease =
        format!("INSERT INTO delivery_leases (tenant_id, holder, expires_at) VALUES ('{tenant}', 'gone', {until})");
    world.db.execute(lease).await;
    scene.test(a, &hook).await;
    // It is left to the holder of the lease.
    let word = timeout(PATIENCE, words.recv()).await.expect("in time").expect("a word");
    assert_eq!((word.payload(), receiver.hits()), (&*format!("{tenant} gone"), 0));
    world.clock.advance(Duration::from_secs(10));
    scene.settled(&hook, 1, 1).await;
    assert_eq!(receiver.hits(), 1);
}

/// W5, W3: switching off, deleting or a new secret at one node takes effect at the sending node as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w5_what_another_node_changes_counts_for_the_node_that_sends() {
    let scene = Scene::with(2, |_| {}).await;
    let (world, a, b) = (&scene.world, &scene.world.a, &scene.world.b);
    let (a_there, b_there) = (world.at(1, a), world.at(1, b));
    let receiver = scene.receiver(Say::Status(500)).await;
    let off = scene.hook(a, &receiver.url(HOST, "/off")).await;
    let gone = scene.hook(a, &receiver.url(HOST, "/gone")).await;
    let rotated = scene.hook(b, &receiver.url(HOST, "/rotated")).await;
    for (of, hook) in [(a, &off), (a, &gone), (b, &rotated)] {
        // The first node takes the leases, and keeps them while there is something to send.
        scene.test(of, hook).await;
        scene.attempted(hook, 2).await;
    }
    scene.change(&a_there, &off, &json!({"active": false})).await;
    assert_eq!(a_there.delete(&format!("/v1/webhooks/{}", gone.id)).await.status, 204);
    let secret = b_there.post_nothing(&format!("/v1/webhooks/{}/rotate-secret", rotated.id)).await.member("secret");
    world.note_secret(&secret);
    scene.settled(&off, 3, 1).await;
    scene.settled(&gone, 3, 1).await;
    // Less than a lease lasts by the same clock, or both would send.
    for (attempts, wait) in [(3, 1), (4, 5)] {
        world.clock.advance(Duration::from_secs(wait));
        scene.attempted(&rotated, attempts).await;
    }
    let heard = receiver.heard();
    let of = |path: &str| heard.iter().filter(|heard| heard.path == path).collect::<Vec<_>>();
    assert_eq!((of("/off").len(), of("/gone").len(), of("/rotated").len()), (2, 2, 4));
    let signed: Vec<_> = of("/rotated").into_iter().map(|heard| is_signed_with(heard, &secret)).collect();
    assert_eq!(signed, [(false, false), (false, false), (true, true), (true, true)]);
}
