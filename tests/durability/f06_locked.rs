//! F6: somebody else holds the database's lock.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::home::{Database, Home};
use crate::journal::{Kind, Timing};
use crate::load::{Client, Load, Mix, percentile};
use crate::locker::Locker;
use crate::machine::{alone, say, seed};
use crate::node::Node;
use crate::{oracle, store};

const HELD: Duration = Duration::from_secs(4);
/// A write that cannot begin is refused. On PostgreSQL it can wait for a connection first, and then for the lock.
const REFUSED_WITHIN: Duration = Duration::from_millis(2_100);
const REFUSED_ON_POSTGRES_WITHIN: Duration = Duration::from_millis(4_200);
/// More than can be under way at one time on PostgreSQL.
const WRITERS: usize = 24;
/// What does not wait for the lock, at its 99th percentile.
const ANSWERED_WITHIN: Duration = Duration::from_millis(50);
/// From the release until all clicks are in the database.
const DRAINED_WITHIN: Duration = Duration::from_secs(3);
/// An answer may be on its way for so long.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// F6, G3, G4, G7: while another process holds the lock for four seconds, writes are refused with 503 within 2.1
/// seconds and leave nothing behind, reads and redirects go on as before, and the clicks of all these redirects are in
/// the database at most three seconds after the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f6_while_the_database_is_locked_writes_are_refused_and_redirects_go_on() {
    let _alone = alone();
    let seed = seed();
    let home = Home::new().await;
    let node = Node::start(&home).await;
    let mut clients = Vec::new();
    for (number, mix) in (0..).zip([&[Mix::CREATE; WRITERS][..], &[Mix::READ; 8], &[Mix::VISIT; 8]].concat()) {
        let mut client = Client::new(&home, &node, seed, number, mix);
        client.prepare(20).await;
        client.pause = Duration::from_millis(2);
        clients.push(client);
    }
    let load = Load::start(clients);
    sleep(Duration::from_millis(500)).await;
    let locker = Locker::lock(&home.database).await;
    let locked = Instant::now();
    sleep(HELD).await;
    let released = Instant::now();
    locker.release().await;
    let drained = store::wait_for_spilled(&home, DRAINED_WITHIN).await;
    let mut clients = load.end().await;

    let found = store::read(&home.database).await;
    oracle::judge(&mut clients, &found).assert_clean("after the lock");
    assert_eq!(node.figure("deeplink_clicks_dropped_total").await, 0);
    for client in &clients {
        assert!(client.journal.cut.is_empty(), "{:?}", client.journal.cut);
        for code in &client.journal.refusals {
            assert!(["overloaded", "database_unavailable"].contains(&&**code), "a locked database is no {code}");
        }
    }
    let during = |kind| -> Vec<Timing> {
        let timings = clients.iter().flat_map(|client| &client.journal.timings);
        timings.filter(|one| one.kind == kind && one.at > locked + ON_ITS_WAY && one.at < released).copied().collect()
    };
    let (writes, reads, visits) = (during(Kind::Write), during(Kind::Read), during(Kind::Visit));
    say(&format!(
        "{} writes refused, the slowest after {:?}; {} reads, p99 {:?}, longest {:?}; {} redirects, p99 {:?}, longest \
         {:?}; all clicks stored {drained:?} after the release",
        writes.len(),
        percentile(&writes, 100),
        reads.len(),
        percentile(&reads, 99),
        percentile(&reads, 100),
        visits.len(),
        percentile(&visits, 99),
        percentile(&visits, 100),
    ));
    assert!(writes.len() >= 12 && reads.len() >= 1_000 && visits.len() >= 1_000, "there was too little load");
    assert!(writes.iter().all(|write| write.status == 503), "a write was acknowledged without being possible");
    let refused_within = match home.database {
        Database::Sqlite(_) => REFUSED_WITHIN,
        Database::Postgres(_) => REFUSED_ON_POSTGRES_WITHIN,
    };
    assert!(percentile(&writes, 100) <= refused_within, "{:?}", percentile(&writes, 100));
    assert!(percentile(&reads, 99) <= ANSWERED_WITHIN, "{:?}", percentile(&reads, 99));
    assert!(percentile(&visits, 99) <= ANSWERED_WITHIN, "{:?}", percentile(&visits, 99));
    let works = clients.iter().flat_map(|client| &client.journal.timings);
    let works = works.filter(|one| one.kind == Kind::Write && one.at > released).any(|one| one.status == 201);
    assert!(works, "writes are taken again");
    node.stop().await;
}
