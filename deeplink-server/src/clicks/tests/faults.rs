//! What clicks need of the world around them: a disk that is synced, a clock, a database that answers (F2, F6, F13).

use std::time::Duration;

use deeplink_core::time::Timestamp;
use tokio::time::timeout;

use super::super::load::Loader;
use super::{Home, LONG, NOW, click, click_at, eventually, settled, status};

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
    // In memory for a time, as while the disk is full.
    journal.set_full(true);
    record(10..20);
    journal.set_full(false);
    journal.leave_memory().expect("there is room");
    record(20..30);
    let files = journal.unsynced();
    assert!(files.iter().any(|file| file.metadata().expect("its metadata").is_dir()), "names of files are synced");
    for file in &files {
        file.sync_data().expect("synced");
    }
    assert!(journal.unsynced().is_empty(), "nothing changed since");
    let synced: Vec<_> = home.segments().into_iter().map(|path| (path.clone(), std::fs::read(path))).collect();
    assert_eq!(synced.len(), 3);
    record(30..40);
    assert_eq!(journal.unsynced().len(), 1, "of the segment that has grown");
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

/// G4: the journal is synced without anybody asking for it, also while the database is locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_is_synced_soon_whatever_the_database_does() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    clicks.record(&click(&clicks, 1));
    eventually("nothing is left to sync", LONG, || async { !clicks.intake.journal.has_unsynced() }).await;
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
/// of its visit, also by a next process, which finds newer segments with older names.
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
    clicks.drain(Duration::from_secs(1)).await;
    db.close().await;
}
