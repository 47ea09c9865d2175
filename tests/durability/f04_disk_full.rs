//! F4: the disk is full, or read-only.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::home::{Database, Home};
use crate::journal::{Kind, Timing};
use crate::load::{Client, Load, Mix, assert_as_before, percentile};
use crate::locker::Locker;
use crate::machine::{alone, say, seed};
use crate::node::Node;
use crate::{oracle, store};
use deeplink_doubles::meter::Meter;
use deeplink_doubles::wait::{PATIENCE, eventually};

const DISK_MEBIBYTES: u32 = 64;
const FULL_FOR: Duration = Duration::from_secs(3);
/// The limit from the moment when there is room until writes are accepted, and from the last redirect until all clicks
/// are in the database: during redirects, some click is always waiting.
const RECOVERED_WITHIN: Duration = Duration::from_secs(3);

async fn clients(home: &Home, node: &Node, seed: u64, mixes: &[Mix]) -> Vec<Client> {
    let mut clients = Vec::new();
    for (number, mix) in (0..).zip(mixes) {
        let mut client = Client::new(home, node, seed, number, *mix);
        client.prepare(20).await;
        client.pause = Duration::from_millis(1);
        clients.push(client);
    }
    clients
}

fn of_kind(clients: &[Client], kind: Kind, from: Instant, to: Instant) -> Vec<Timing> {
    let timings = clients.iter().flat_map(|client| &client.journal.timings);
    timings.filter(|one| one.kind == kind && one.at > from && one.at < to).copied().collect()
}

/// F4, G3, G4, G7: with the disk of database and data directory full, a write is 503 `storage_full` and leaves nothing
/// behind (or fits into the existing database file, and is kept), and redirects of cached links still work. When there
/// is room again, the same process accepts writes, and the clicks of all redirects are stored. None is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f4_with_a_full_disk_writes_are_refused_and_redirects_go_on_until_there_is_room() {
    let _alone = alone();
    let seed = seed();
    let home = Home::on_small_disk(DISK_MEBIBYTES).await;
    let room = home.room.as_ref().expect("a small disk");
    let meter = Meter::start(home.beside("page"));
    let mut node = Node::start(&home).await;
    let load = Load::start(clients(&home, &node, seed, &[[Mix::CREATE; 8], [Mix::VISIT; 8]].concat()).await);
    let began = Instant::now();
    load.go_on(150, &[Kind::Write, Kind::Visit]).await;

    let full = Instant::now();
    let enough = load.answers(Kind::Visit) + 1_000;
    while full.elapsed() < FULL_FOR || full.elapsed() < PATIENCE && load.answers(Kind::Visit) < enough {
        // Space that a checkpoint or a removed file frees is filled again.
        room.fill();
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!node.has_ended(), "the server ended because the disk was full");
    let freed = Instant::now();
    room.free();
    load.go_on(100, &[Kind::Write, Kind::Visit]).await;
    let mut clients = load.end().await;
    let drained = drained(&node, &meter).await;

    // A copy, because the file itself is only visible inside the namespace.
    let mut copies = 0;
    eventually("all clicks are stored", PATIENCE, || {
        copies += 1;
        let copy = home.beside(&format!("copy-{copies}.db"));
        let answered = clients.iter().flat_map(|client| &client.journal.visits).filter(|visit| visit.answered).count();
        let home = &home;
        async move {
            let found = copy_of(home, copy).await;
            let clicks = found.clicks.values().map(Vec::len).sum::<usize>();
            let is_counted = found.contradictions.is_empty();
            if clicks >= answered && is_counted { Ok(()) } else { Err(format!("{clicks} of {answered}, {is_counted}")) }
        }
    })
    .await;
    let found = copy_of(&home, home.beside("copy.db")).await;
    oracle::judge(&mut clients, &found).assert_clean("after the full disk");
    assert_eq!(node.figure("deeplink_clicks_dropped_total").await, 0);

    let (writes, visits) = (of_kind(&clients, Kind::Write, full, freed), of_kind(&clients, Kind::Visit, full, freed));
    let refused: Vec<_> = writes.iter().filter(|write| write.status == 503).collect();
    let recovered = of_kind(&clients, Kind::Write, freed, Instant::now());
    let recovered = recovered.iter().filter(|write| write.status == 201).map(|write| write.at).min();
    let recovered = recovered.map(|at| (at - freed).saturating_sub(meter.lost(freed, at)));
    say(&format!(
        "{} of {} writes refused while the disk was full; {} redirects, p99 {:?}, longest {:?}; first write {recovered:?} \
         after there was room, nothing waits {drained:?} after the last redirect",
        refused.len(),
        writes.len(),
        visits.len(),
        percentile(&visits, 99),
        percentile(&visits, 100),
    ));
    assert!(refused.len() >= 20 && visits.len() >= 1_000, "there was too little load");
    let first = refused.iter().map(|write| write.at).min().expect("a refused write");
    let later = writes.iter().filter(|write| write.at > first).count();
    assert!(refused.len() * 2 > later, "of {later} writes after the first refusal only {} were refused", refused.len());
    let mut codes = clients.iter().flat_map(|client| &client.journal.refusals);
    assert_eq!(codes.find(|code| *code != "storage_full"), None, "each refusal says why");
    assert_as_before(&of_kind(&clients, Kind::Visit, began, full), &visits, meter.lost_by_one(full, freed));
    assert!(drained <= RECOVERED_WITHIN, "clicks are stored after {drained:?}");
    assert!(recovered.is_some_and(|after| after <= RECOVERED_WITHIN), "writes are accepted again: {recovered:?}");
    for client in &clients {
        assert!(client.journal.cut.is_empty(), "{:?}", client.journal.cut);
    }
    node.stop().await;
}

/// Waits until no click waits in memory or in the journal, and returns how long that took without the machine's own delays.
async fn drained(node: &Node, meter: &Meter) -> Duration {
    let began = Instant::now();
    let took = eventually("no click waits", PATIENCE, || async {
        let in_memory = node.figure("deeplink_clicks_in_memory").await;
        let behind = node.figure("deeplink_clicks_journal_bytes").await;
        if in_memory == 0 && behind == 0 { Ok(()) } else { Err(format!("{in_memory} and {behind} bytes")) }
    })
    .await;
    took.saturating_sub(meter.lost(began, Instant::now()))
}

async fn copy_of(home: &Home, copy: std::path::PathBuf) -> store::Found {
    let done = home.operator(&["backup", copy.to_str().expect("a path in UTF-8")]).await;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    store::read(&Database::Sqlite(copy)).await
}

/// F4, N2: clicks that can be written neither to the database, because another process has it locked, nor to the
/// journal, because the data directory's disk is full, wait in memory; redirects still work. When the database answers,
/// all of them are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f4_clicks_that_no_file_can_take_wait_in_memory_for_the_database() {
    let _alone = alone();
    let seed = seed();
    let home = Home::beside_small_disk(4).await;
    let room = home.room.as_ref().expect("a small disk");
    let meter = Meter::start(home.beside("page"));
    let node = Node::start(&home).await;
    let load = Load::start(clients(&home, &node, seed, &[Mix::VISIT; 8]).await);
    let began = Instant::now();
    load.go_on(100, &[Kind::Visit]).await;
    room.fill();
    let locker = Locker::lock(&home.database).await;
    let locked = Instant::now();
    load.go_on(400, &[Kind::Visit]).await;
    eventually("many clicks wait", PATIENCE, || async {
        let in_memory = node.figure("deeplink_clicks_in_memory").await;
        if in_memory >= 200 { Ok(()) } else { Err(format!("{in_memory}")) }
    })
    .await;
    let released = Instant::now();
    locker.release().await;
    load.go_on(100, &[Kind::Visit]).await;
    let mut clients = load.end().await;
    let drained = drained(&node, &meter).await;
    store::wait_for_clicks(&home, &node).await;
    let found = store::read(&home.database).await;
    oracle::judge(&mut clients, &found).assert_clean("after the lock");
    assert_eq!(node.figure("deeplink_clicks_dropped_total").await, 0);
    let visits = of_kind(&clients, Kind::Visit, locked, released);
    say(&format!(
        "{} redirects, p99 {:?}; nothing waits {drained:?} after the last",
        visits.len(),
        percentile(&visits, 99)
    ));
    assert_as_before(&of_kind(&clients, Kind::Visit, began, locked), &visits, meter.lost_by_one(locked, released));
    assert!(drained <= RECOVERED_WITHIN, "clicks are stored after {drained:?}");
    node.stop().await;
}

/// F4: with a read-only data directory the server does not start, and names the path. Once it can be written, what an
/// earlier process left there is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f4_a_read_only_data_directory_is_named_at_the_start() {
    let _alone = alone();
    let seed = seed();
    let home = Home::beside_small_disk(4).await;
    let room = home.room.as_ref().expect("a small disk");
    let node = Node::start(&home).await;
    let load = Load::start(clients(&home, &node, seed, &[Mix::VISIT; 2]).await);
    let locker = Locker::lock(&home.database).await;
    load.go_on(20, &[Kind::Visit]).await;
    let mut clients = load.end().await;
    node.kill().await;
    locker.release().await;

    room.set_read_only(true).await;
    let refused = timeout(PATIENCE, home.operator(&["serve"])).await.expect("it does not start");
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{reason}");
    assert!(
        reason.contains("Read-only file system") && reason.contains(home.data.to_str().expect("UTF-8")),
        "{reason}"
    );
    room.set_read_only(false).await;
    let node = Node::start(&home).await;
    store::wait_for_clicks(&home, &node).await;
    oracle::judge(&mut clients, &store::read(&home.database).await).assert_clean("after the start");
    node.stop().await;
}
