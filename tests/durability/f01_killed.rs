//! F1: the process is killed.

use std::time::Duration;

use deeplink_core::secret::Random;
use tokio::time::{Instant, sleep};

use crate::home::Home;
use crate::load::{Client, Load, Mix};
use crate::machine::{alone, say, seed};
use crate::node::Node;
use crate::{oracle, store};
use deeplink_doubles::meter::Meter;

const ROUNDS: usize = 10;
/// For a machine that is so slow that ten rounds do too little.
const MOST_ROUNDS: usize = 60;
const CLIENTS: u64 = 64;
/// The limit from the start of the process to its first answer, in most rounds.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// The limit for storing the clicks that the killed server left, in most rounds.
const STORED_WITHIN: Duration = Duration::from_secs(5);

/// F1, G1–G4: the server is killed ten times or more under the load of 64 connections, after 0.2 to 3 seconds. No
/// acknowledged write is lost, none is done twice, no batch is stored in part, and nothing is stored that was not sent.
/// A write that was refused with 503 is not stored. A creation without an answer is stored once, or not at all;
/// repeated with its key, once. Every redirect that was sent has its click, and no visit has two. The server is ready
/// again within two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f1_killed_ten_times_under_load_it_keeps_every_acknowledged_write_and_every_click() {
    let _alone = alone();
    let seed = seed();
    let mut random = Random::seeded(seed);
    let home = Home::new().await;
    let meter = Meter::start(home.beside("page"));
    let mut node = Node::start(&home).await;
    let mut clients: Vec<_> = (0..CLIENTS).map(|number| Client::new(&home, &node, seed, number, Mix::ALL)).collect();
    let (mut open, mut round) = (0, 0);
    let (mut ready_after, mut stored_after) = (Vec::new(), Vec::new());
    while round < ROUNDS || round < MOST_ROUNDS && !says_much(&clients, open) {
        round += 1;
        let alive = Duration::from_millis(200 + random.below(2_800));
        let load = Load::start(clients);
        sleep(alive).await;
        let killed = Instant::now();
        node.kill().await;
        clients = load.gone().await;
        store::wait_until_left(&home.database).await;

        let began = Instant::now();
        node = Node::start(&home).await;
        ready_after.push(node.ready_after.saturating_sub(meter.lost(began, Instant::now())));
        let began = Instant::now();
        let replayed = store::wait_for_clicks(&home, &node).await;
        stored_after.push(replayed.saturating_sub(meter.lost(began, Instant::now())));
        let found = store::read(&home.database).await;
        let verdict = oracle::judge(&mut clients, &found);
        verdict.assert_clean(&format!("round {round}, killed after {alive:?}"));
        for (client, open) in clients.iter_mut().zip(&verdict.open) {
            for (at, cut) in client.journal.cut.drain(..) {
                assert!(at >= killed, "cut while the server was alive: {cut}");
            }
            client.turn_to(&node);
            client.settle(open).await;
        }
        open += verdict.open.iter().map(Vec::len).sum::<usize>();
        say(&format!(
            "round {round}: alive {alive:?}, ready after {:?}, clicks stored after {replayed:?}, {} links, {} clicks",
            node.ready_after,
            found.links.len(),
            found.clicks.len()
        ));
    }
    let found = store::read(&home.database).await;
    oracle::judge(&mut clients, &found).assert_clean("after the last repeats");
    node.stop().await;

    // A disk that stalls makes one round slow; a slow server makes all of them slow.
    assert!(median(&mut ready_after) <= READY_WITHIN, "ready after {ready_after:?}");
    assert!(median(&mut stored_after) <= STORED_WITHIN, "clicks stored after {stored_after:?}");
    assert!(says_much(&clients, open), "there was too little load");
}

/// Whether enough was done and settled for the absence of faults to mean something.
fn says_much(clients: &[Client], open: usize) -> bool {
    let acknowledged: usize = clients.iter().map(|client| client.journal.acknowledged).sum();
    let answered = clients.iter().flat_map(|client| &client.journal.visits).filter(|visit| visit.answered).count();
    say(&format!("{acknowledged} acknowledged writes, {answered} redirects, {open} creations settled by a repeat"));
    acknowledged >= 2_000 && answered >= 2_000 && open >= 10
}

fn median(durations: &mut [Duration]) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}
