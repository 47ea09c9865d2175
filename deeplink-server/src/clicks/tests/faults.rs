//! What storing clicks depends on: a disk that is synced, a clock, a database that answers (F2, F6, F13).

use deeplink_core::time::Timestamp;
use tokio::time::timeout;

use super::super::load::Loader;
use super::{Home, LONG, NOW, click, click_at, eventually, settled, status};
use crate::clicks::Retention;
use crate::db::on;

const HOUR: i64 = 3_600_000;

/// F2, G4: when the power fails, the files have what was synced, their names included, and the database has lost every
/// commit that did not wait for the disk. What was synced is stored and counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f2_what_was_synced_survives_a_power_failure() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    let intake = home.intake();
    let journal = &intake.journal;
    let record = |links: std::ops::Range<i64>| {
        links.for_each(|link| intake.record(&click_at(&intake.texts, link, NOW)));
    };
    record(0..10);
    assert_eq!(journal.unsynced(), (1, true));
    journal.sync().expect("synced");
    // In memory for a while, as when the disk is full.
    journal.set_full(true);
    record(10..20);
    journal.set_full(false);
    journal.leave_memory().expect("there is room");
    assert_eq!(journal.unsynced(), (1, true), "what was in memory, and its name");
    record(20..30);
    journal.sync().expect("synced");
    assert_eq!(journal.unsynced(), (0, false));
    let synced: Vec<_> = home.segments().into_iter().map(|path| (path.clone(), std::fs::read(path))).collect();
    assert_eq!(synced.len(), 3);
    record(30..40);
    assert_eq!(journal.unsynced(), (1, false), "the segment has grown");
    Loader::new(std::sync::Arc::clone(&intake), db.clone()).round(true).await.expect("all are stored");
    assert_eq!(other.counted().await, (40, 40));

    journal.kill();
    other.forget_clicks().await;
    other.run_all("DELETE FROM visitor_texts; DELETE FROM click_journals".to_owned()).await;
    home.segments().iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    for (path, bytes) in synced {
        std::fs::write(path, bytes.expect("its bytes")).expect("a segment");
    }
    db.close().await;
    drop((intake, db));
    let (db, clicks) = home.start().await;
    settled(&clicks).await;
    assert_eq!(other.links().await, (0..30).collect::<Vec<_>>());
    assert_eq!(other.counted().await, (30, 30));
    db.close().await;
}

/// G4: the journal is synced without being asked, even while the database is locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_is_synced_soon_whatever_the_database_does() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    clicks.record(&click(&clicks, 1));
    eventually("nothing is left to sync", LONG, || async { clicks.intake.journal.unsynced() == (0, false) }).await;
    assert!(status(&clicks).behind_bytes > 0, "the database is still locked");
    other.unlock().await;
    settled(&clicks).await;
    db.close().await;
}

/// F6: a report waits for earlier clicks for two seconds at most, and is then answered without them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f6_a_report_does_not_wait_for_a_locked_database() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    clicks.record(&click(&clicks, 1));
    timeout(LONG, clicks.counted()).await.expect("it ends while the lock is held");
    assert!(status(&clicks).behind_bytes > 0);
    other.unlock().await;
    settled(&clicks).await;
    assert_eq!(other.counted().await, (1, 1));
    db.close().await;
}

/// F13: the clock of a running process is set back and far forward. Each click is stored and counted once, with the time
/// of its visit, also by the next process, which finds newer segments with older names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_clock_that_is_set_costs_no_click() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    let times = [NOW, NOW - 30 * HOUR, NOW + 400 * 24 * HOUR, NOW + HOUR];
    let visit = |link: i64, at: i64| {
        home.clock.set(Timestamp::from_millis(at));
        clicks.record(&click_at(clicks.texts(), link, at));
        clicks.intake.journal.close(None);
    };
    for (link, at) in (0..).zip(times) {
        visit(link, at);
        settled(&clicks).await;
    }
    other.lock().await;
    for (link, at) in (4..).zip(times) {
        visit(link, at);
    }
    clicks.end_tasks();
    clicks.intake.journal.kill();
    other.unlock().await;
    db.close().await;
    drop((clicks, db));
    let (db, clicks) = home.start().await;
    settled(&clicks).await;
    eventually("the segments are gone", LONG, || async { home.segments().is_empty() }).await;
    let mut stored: Vec<_> = other.stored().await.into_iter().map(|click| (click.1, click.2)).collect();
    stored.sort_unstable();
    assert_eq!(stored, (0..8).zip([times, times].concat()).collect::<Vec<_>>());
    assert_eq!(other.counted().await, (8, 8));
    clicks.drain(LONG).await;
    db.close().await;
}

/// F13: a segment that was loaded to its end while the clock was far ahead does not make the sweep forget one that is in use,
/// whose clicks would be stored again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_clock_that_was_ahead_makes_nothing_stored_twice() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let visit = |link| clicks.record(&click(&clicks, link));
    home.clock.set(Timestamp::from_millis(NOW + 400 * 24 * HOUR));
    visit(0);
    clicks.intake.journal.close(None);
    settled(&clicks).await;
    eventually("the segment is finished", LONG, || async { home.segments().is_empty() }).await;
    home.clock.set(Timestamp::from_millis(NOW));
    for link in 1..4 {
        visit(link);
        settled(&clicks).await;
        clicks.sweep(Retention::Days(0)).await.expect("swept");
    }
    let mut other = home.other().await;
    assert_eq!((other.counted().await, other.links().await), ((4, 4), vec![0, 1, 2, 3]));
    db.close().await;
}

/// The state of a segment that was loaded to its end is forgotten once no copy of it can come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_finished_segments_is_forgotten() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    for days in [0, 100] {
        home.clock.set(Timestamp::from_millis(NOW + days * 24 * HOUR));
        clicks.record(&click(&clicks, days));
        clicks.intake.journal.close(None);
        settled(&clicks).await;
        eventually("the segment is finished", LONG, || async { home.segments().is_empty() }).await;
    }
    let mut other = home.other().await;
    let mut states = async || {
        const SQL: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM click_journals";
        on!(&mut other.conn(), c => sqlx::query_scalar::<_, i64>(SQL).fetch_one(c).await).expect("a number")
    };
    assert_eq!(states().await, 2);
    clicks.sweep(Retention::Days(0)).await.expect("swept");
    assert_eq!(states().await, 1);
    db.close().await;
}
