//! How sending capacity is shared: tenants, webhooks, nodes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{HOST, PATIENCE, Scene};
use deeplink_doubles::meter::Meter;
use deeplink_doubles::receiver::{Receiver, Say};
use deeplink_testing::eventually;

/// W7: a tenant whose receiver has died has eight attempts in progress and 2,000 waiting, and no other tenant is
/// affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w7_a_dead_receiver_holds_up_nobody_else() {
    let scene = Scene::new().await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    let (dead, fine) = (scene.receiver(Say::Status(200)).await, Receiver::fine(&scene.authority).await);
    let stuck = scene.hook(a, &dead.url(HOST, "/")).await;
    // Until its first answer it would get one.
    scene.test(a, &stuck).await;
    scene.settled(&stuck, 1, 1).await;
    dead.now(|_, _| Say::Nothing);
    scene.pile_up(a, &stuck, 2_000).await;
    scene.world.clock.advance(Duration::from_millis(10));
    eventually("the dead one is called", PATIENCE, || async { dead.hits() > 8 }).await;
    let hook = scene.hook(b, &fine.url(HOST, "/")).await;
    let beside = scene.hook(a, &fine.url("other.example.com", "/beside")).await;
    let mut times = Vec::new();
    for nth in 1..=100 {
        let began = Instant::now();
        scene.test(b, &hook).await;
        eventually("it arrives", PATIENCE, || async { fine.hits() >= nth }).await;
        times.push(fine.heard()[nth - 1].at.duration_since(began));
    }
    times.sort();
    // Waiting for the dead one would take ten seconds.
    assert!(times[98] <= Duration::from_secs(5), "{times:?}");
    // No attempt has ended five seconds after the first one arrived, so there are still only the eight.
    let heard = dead.heard().split_off(1);
    let within = heard.iter().filter(|one| one.at.duration_since(heard[0].at) < Duration::from_secs(5));
    assert!(within.count() <= 8);
    // The tenant's other webhook gets its share once the earlier attempts have ended.
    scene.test(a, &beside).await;
    scene.settled(&beside, 1, 1).await;
}

/// Two nodes share the work: everything arrives with one attempt each, and when a node stops the other one continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_two_nodes_send_each_delivery_once() {
    const COUNT: usize = 400;
    let scene = Scene::with(2, |_| {}).await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    let receiver = Receiver::fine(&scene.authority).await;
    let (one, two) =
        (scene.hook(a, &receiver.url(HOST, "/one")).await, scene.hook(b, &receiver.url(HOST, "/two")).await);
    scene.pile_up(a, &one, COUNT).await;
    scene.pile_up(b, &two, COUNT).await;
    scene.world.clock.advance(Duration::from_millis(10));
    let count = i64::try_from(COUNT).expect("a count");
    scene.settled(&one, 1, count).await;
    scene.settled(&two, 1, count).await;
    let heard = receiver.heard();
    let ids: HashSet<_> = heard.iter().map(|heard| heard.id().to_owned()).collect();
    assert_eq!((heard.len(), ids.len()), (2 * COUNT, 2 * COUNT));
    // Either node takes requests, and either sends.
    for (node, caller, hook) in [(0, a, &one), (1, a, &one), (0, b, &two), (1, b, &two)] {
        scene.test(&scene.world.at(node, caller), hook).await;
    }
    scene.settled(&one, 1, count + 2).await;
    scene.settled(&two, 1, count + 2).await;
    assert_eq!(receiver.hits(), 2 * COUNT + 4);
}

/// A node with deliveries of an account which another node sends for notifies it: they do not wait for that node's
/// scan, once a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_node_sends_is_announced_to_it() {
    const COUNT: usize = 20;
    let scene = Scene::with(2, |_| {}).await;
    let receiver = Receiver::fine(&scene.authority).await;
    let at_one = scene.world.at(1, &scene.world.a);
    let hook = scene.hook(&scene.world.a, &receiver.url(HOST, "/")).await;
    // The first node takes the lease, and keeps it for some seconds.
    scene.test(&scene.world.a, &hook).await;
    eventually("it arrives", PATIENCE, || async { receiver.hits() == 1 }).await;
    let meter = Meter::start(scene.world.home().join("page"));
    let (mut announced, mut own) = (Vec::new(), Vec::new());
    for nth in 2..=COUNT {
        let is_announced = nth % 5 != 0;
        let began = Instant::now();
        scene.test(if is_announced { &at_one } else { &scene.world.a }, &hook).await;
        eventually("it arrives", PATIENCE, || async { receiver.hits() == nth }).await;
        let at = receiver.heard()[nth - 1].at;
        let took = at.duration_since(began).saturating_sub(meter.lost(began, at));
        if is_announced { announced.push(took) } else { own.push(took) }
    }
    announced.sort();
    own.sort();
    // Without notifications nearly all of the fifteen would take about a second more than the node's own, since each
    // comes just after a scan. A busy machine makes some of them late.
    let usual = own[own.len() / 2];
    assert!(announced[4] < usual + Duration::from_millis(700), "{announced:?} and {own:?}");
}
