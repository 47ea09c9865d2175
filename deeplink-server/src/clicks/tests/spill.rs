//! When the database, or the disk too, does not take clicks (F4, F6), and when the process dies (F1).

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tokio::time::Instant;

use super::super::queue::lock;
use super::super::spill::{Spill, files};
use super::super::texts::Texts;
use super::{Home, LONG, NOW, click, click_at, eventually, status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_database_holds_up_no_visit_and_loses_no_click() {
    let home = Home::new();
    let store_timeout = Duration::from_millis(300);
    let (db, clicks) = home.start_with(store_timeout).await;
    clicks.record(click(&clicks, 0)).await;
    let is_well = || !status(&clicks).spilling && home.spill_files() == 0;
    eventually("the first click is stored", LONG, || async { status(&clicks).stored_total == 1 && is_well() }).await;
    let mut other = home.other().await;
    other.lock().await;
    let mut waits = Vec::new();
    for link in 1..=200 {
        let began = Instant::now();
        clicks.record(click(&clicks, link)).await;
        waits.push(began.elapsed());
    }
    // The first finds out; the others do not wait at all.
    assert!(waits[0] + Duration::from_millis(20) >= store_timeout && waits[0] < 60 * store_timeout, "{:?}", waits[0]);
    assert!(waits[1..].iter().sum::<Duration>() < 60 * store_timeout, "{waits:?}");
    assert!(status(&clicks).spilling && home.spill_files() > 0);
    other.unlock().await;
    eventually("the spilled clicks are stored", LONG, || async { status(&clicks).stored_total == 201 }).await;
    eventually("the files are gone, and none are made", LONG, || async { is_well() }).await;
    assert_eq!(other.links().await, (0..=200).collect::<Vec<_>>());
    let (began, spilled) = (Instant::now(), status(&clicks).spilled_total);
    clicks.record(click(&clicks, 201)).await;
    if began.elapsed() < store_timeout {
        assert_eq!(status(&clicks).spilled_total, spilled, "clicks are stored directly again");
    }
    eventually("the last click is stored", LONG, || async { status(&clicks).stored_total == 202 }).await;
    assert_eq!(other.links().await.len(), 202);
    clicks.drain(Duration::from_secs(5)).await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spilled_clicks_survive_the_death_of_the_process() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    for link in 0..3_000 {
        clicks.record(click(&clicks, link)).await;
    }
    let files = files(home.directory.path()).expect("a directory");
    for file in &files {
        let mode = std::fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only the service reads what visitors sent");
    }
    // Nothing is drained: what is in memory is gone, as after a kill.
    drop(clicks);
    other.unlock().await;
    db.close().await;
    drop(db);
    let (db, _clicks) = home.start().await;
    eventually("the files are gone", LONG, || async { home.spill_files() == 0 }).await;
    let stored = other.stored().await;
    assert!(stored.iter().all(|click| click.5.is_some() && (click.6.is_some() || click.8)), "every text is there");
    assert_eq!(other.links().await, (0..3_000).collect::<Vec<_>>());
    db.close().await;
}

/// A file with one click, which is locked until what is given is dropped.
fn locked_file(home: &Home) -> std::fs::File {
    let mut spill = Spill::new(home.directory.path());
    spill.add(&[click_at(&Texts::new(), 1, NOW)], None);
    let syncing = spill.unsynced().expect("a handle of the file");
    spill.close();
    syncing
}

// As while it is synced: the handle that syncs shares the lock of the one that wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_locked_for_a_while_is_stored_without_another_click() {
    let home = Home::new();
    let syncing = locked_file(&home);
    let (db, clicks) = home.start().await;
    // Seen, and left alone.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((home.spill_files(), status(&clicks).stored_total), (1, 0));
    drop(syncing);
    eventually("the file is gone", LONG, || async { home.spill_files() == 0 }).await;
    assert_eq!(home.other().await.links().await, [1]);
    clicks.drain(Duration::from_secs(5)).await;
    db.close().await;
}

// What fails after that is tried again all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_locked_and_then_met_a_failure_is_stored_without_another_click() {
    let home = Home::new();
    let syncing = locked_file(&home);
    let (db, clicks) = home.start().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    home.other().await.run("ALTER TABLE click_spills RENAME TO away").await;
    drop(syncing);
    // At least one attempt meets that.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!((home.spill_files(), status(&clicks).stored_total), (1, 0));
    home.other().await.run("ALTER TABLE away RENAME TO click_spills").await;
    eventually("the file is gone", LONG, || async { home.spill_files() == 0 }).await;
    assert_eq!(home.other().await.links().await, [1]);
    clicks.drain(Duration::from_secs(5)).await;
    db.close().await;
}

// Killed between COMMIT and unlink: after all pieces of a file, and after the first of three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_outlived_its_clicks_commit_is_not_stored_twice() {
    let home = Home::new();
    let mut spill = Spill::new(home.directory.path());
    let texts = Texts::new();
    let clicks: Vec<_> = (0..2_500).map(|link| click_at(&texts, link, NOW)).collect();
    spill.add(&clicks, None);
    spill.close();
    let file = files(home.directory.path()).expect("a directory").pop().expect("a file");
    let bytes = std::fs::read(&file).expect("a file");
    for (stored_before, stored_now) in [(0, 2_500), (2_500, 0), (1_024, 1_476)] {
        std::fs::write(&file, &bytes).expect("a file");
        if stored_before == 1_024 {
            let mut other = home.other().await;
            other.run("DELETE FROM clicks WHERE link >= 1024").await;
            other.run("UPDATE click_spills SET stored = 1024").await;
        }
        let (db, clicks) = home.start().await;
        eventually("the file is gone", LONG, || async { home.spill_files() == 0 }).await;
        assert_eq!(home.other().await.links().await, (0..2_500).collect::<Vec<_>>());
        assert_eq!(status(&clicks).stored_total, stored_now);
        clicks.drain(Duration::from_secs(5)).await;
        db.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_full_disk_clicks_wait_in_memory_and_beyond_that_are_counted() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    lock(&clicks.intake.spill).is_full = true;
    for link in 0..100_010 {
        clicks.record(click(&clicks, link)).await;
    }
    assert_eq!((status(&clicks).in_memory, status(&clicks).dropped_total), (100_000, 10));
    assert_eq!(home.spill_files(), 0);
    // The database comes back first: clicks are stored from memory.
    other.unlock().await;
    eventually("the clicks are stored", LONG, || async { status(&clicks).stored_total == 100_000 }).await;
    assert_eq!(other.links().await, (0..100_000).collect::<Vec<_>>());
    assert_eq!(status(&clicks).in_memory, 0);
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_disk_has_room_again_memory_moves_to_a_file() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    lock(&clicks.intake.spill).is_full = true;
    for link in 0..500 {
        clicks.record(click(&clicks, link)).await;
    }
    lock(&clicks.intake.spill).is_full = false;
    for link in 500..510 {
        clicks.record(click(&clicks, link)).await;
    }
    // The process is stopped while nothing can be stored: even what was on its way from memory is in files.
    clicks.drain(Duration::from_millis(50)).await;
    assert_eq!((status(&clicks).in_memory, status(&clicks).dropped_total), (0, 0));
    other.unlock().await;
    db.close().await;
    drop((clicks, db));
    let (db, clicks) = home.start().await;
    eventually("the files are gone", LONG, || async { home.spill_files() == 0 }).await;
    assert_eq!(other.links().await, (0..510).collect::<Vec<_>>());
    drop(clicks);
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_spill_file_stays_and_what_another_process_writes_is_left_alone() {
    let home = Home::new();
    let odd = home.directory.path().join("clicks-00000000000000aa.spill");
    std::fs::write(&odd, b"something else").expect("a file");
    // Another process that shares the directory and is spilling.
    let other_process = {
        let mut spill = Spill::new(home.directory.path());
        let texts = Texts::new();
        spill.add(&[click_at(&texts, 1, NOW)], None);
        spill
    };
    let (db, clicks) = home.start_patient().await;
    clicks.record(click(&clicks, 2)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((home.spill_files(), home.other().await.links().await), (2, vec![2]));
    // It dies; whoever looks next stores its clicks.
    drop(other_process);
    clicks.intake.wake_replay.notify_one();
    eventually("its file is stored", LONG, || async { home.spill_files() == 1 }).await;
    assert_eq!(home.other().await.links().await, [1, 2]);
    assert!(odd.exists());
    db.close().await;
}
