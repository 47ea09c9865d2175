//! What storing clicks depends on: a disk that is synced, a clock, a database that answers (F2, F6, F13).

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use deeplink_core::time::Timestamp;
use deeplink_doubles::relay::Relay;
use tokio::time::{Instant, timeout};

use super::super::journal::MAX_MEMORY_BYTES;
use super::super::load::{Loader, READ_ATTEMPTS};
use super::super::record::HEADER_BYTES;
use super::{Home, LONG, NOW, click, click_at, eventually, once_free, settled, status};
use crate::clicks::{Clicks, FOLDER, Intake, Retention};
use crate::db::{Access, Db, on};

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
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("all are stored");
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

/// N6: syncing a file again after that has failed proves nothing, so its clicks are written to another file. Each is stored
/// and counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n6_what_could_not_be_synced_is_written_to_another_file() {
    let home = Home::new();
    let db = home.open().await;
    let intake = home.intake();
    let journal = &intake.journal;
    let record = |link| intake.record(&click_at(&intake.texts, link, NOW));
    record(0);
    let [first] = home.segments().try_into().expect("one segment");
    let file = || std::fs::metadata(&first).expect("a file").ino();
    let (written, contents) = (file(), std::fs::read(&first).expect("a segment"));
    let syncs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&syncs);
    journal.set_disk(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Err(std::io::Error::other("a broken disk"))
    });
    journal.sync().expect_err("a broken disk");
    record(1);
    assert_eq!(home.segments().len(), 2, "nothing more is added to the first");
    for _ in 0..3 {
        journal.sync().expect_err("a broken disk");
    }
    assert_eq!((file(), journal.unsynced().0), (written, 2), "each waits once");
    assert_eq!(syncs.load(Ordering::Relaxed), 1 + 2 + 1 + 1, "one copy is tried in each round");
    journal.set_disk(|| Ok(()));
    record(2);
    journal.sync().expect("synced");
    assert_eq!(journal.unsynced(), (0, false), "the new file's name, too");
    assert_ne!(file(), written);
    assert_eq!(std::fs::read(&first).expect("a segment"), contents);
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("all are stored");
    let mut other = home.other().await;
    assert_eq!((other.links().await, other.counted().await), (vec![0, 1, 2], (3, 3)));
    db.close().await;
}

/// G4: what is in memory while no file can be written has a limit in bytes, whatever visitors send. The state of these
/// segments does not stay in the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g4_clicks_in_memory_have_a_limit_in_bytes() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    let intake = home.intake();
    let journal = &intake.journal;
    journal.set_full(true);
    intake.record(&click_at(&intake.texts, 0, NOW));
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("stored");
    assert_eq!(other.counted().await, (1, 1));
    const STATES: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM click_journals";
    let states: i64 = on!(&mut other.conn(), c => sqlx::query_scalar(STATES).fetch_one(c).await).expect("a number");
    assert_eq!(states, 0);

    let mut sent = 0;
    while journal.dropped() == 0 {
        let text = |name| format!("{name}{sent:06}{}", "x".repeat(1_900));
        let [agent, referer] = [text("a"), text("https://example.com/")];
        let mut click = click_at(&intake.texts, sent, NOW);
        click.agent = intake.texts.agent(Some(agent.as_bytes())).text();
        click.referer = intake.texts.referer(Some(referer.as_bytes()));
        intake.record(&click);
        sent += 1;
    }
    let waiting = journal.waiting();
    assert!(waiting.bytes < MAX_MEMORY_BYTES + 8_192, "{waiting:?}");
    assert_eq!(waiting.in_memory, u64::try_from(sent).expect("positive") - 1);
    journal.set_full(false);
    journal.leave_memory().expect("there is room");
    assert_eq!(journal.waiting().in_memory, 0);
    intake.record(&click_at(&intake.texts, sent, NOW));
    assert_eq!(journal.dropped(), 1, "there is room again");
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("stored");
    assert_eq!(other.counted().await, (sent + 1, sent + 1));
    db.close().await;
}

/// N6: while a segment is copied to another file, nobody waits for the disk. One that is removed meanwhile does not come
/// back, and the copy that a killed process was writing goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n6_nobody_waits_for_a_copy() {
    let home = Home::new();
    let intake = home.intake();
    intake.record(&click_at(&intake.texts, 0, NOW));
    intake.journal.set_disk(|| Err(std::io::Error::other("a broken disk")));
    intake.journal.sync().expect_err("a broken disk");
    let segment = intake.journal.first().expect("a segment");
    let shared = Arc::clone(&intake);
    intake.journal.set_disk(move || {
        let (done, is_done) = channel();
        let (intake, segment) = (Arc::clone(&shared), Arc::clone(&segment));
        std::thread::spawn(move || {
            intake.record(&click_at(&intake.texts, 1, NOW));
            intake.journal.remove(&segment).expect("removed");
            done.send(()).expect("somebody waits");
        });
        is_done.recv_timeout(LONG).map_err(std::io::Error::other)
    });
    intake.journal.sync().expect("synced");
    intake.journal.set_disk(|| Ok(()));
    let names = || {
        let entries = std::fs::read_dir(home.directory.path().join(FOLDER)).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").path());
        names.filter(|path| !path.ends_with("lock")).collect::<Vec<_>>()
    };
    assert_eq!((names(), home.segments().len()), (home.segments(), 1), "the second");
    std::fs::write(home.segments()[0].with_extension("new"), [0; 100]).expect("an unfinished copy");
    intake.journal.kill();
    let intake = home.intake();
    assert_eq!((names(), home.segments().len()), (home.segments(), 1));
    intake.journal.kill();
}

/// A segment that cannot be read is named and, after a while, left for later; others do not wait for it. Once it can be read,
/// it is stored, without a restart or with one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_segment_is_left_until_it_can_be_read() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    let mut next = 0;
    for (is_own, restarts) in [(false, false), (false, true), (true, false)] {
        let mut intake = home.intake();
        let record = |intake: &Intake, link| intake.record(&click_at(&intake.texts, link, NOW));
        record(&intake, next);
        let [left] = home.segments().try_into().expect("one segment");
        if is_own {
            intake.journal.close(None);
        } else {
            intake.journal.kill();
            intake = home.intake();
        }
        record(&intake, next + 1);
        let aside = left.with_extension("kept");
        std::fs::rename(&left, &aside).expect("renamed");
        std::fs::create_dir(&left).expect("a directory cannot be read");
        let mut loader = Loader::new(Arc::clone(&intake), db.clone());
        for attempt in 1..READ_ATTEMPTS {
            let error = loader.round(true).await.expect_err("it cannot be read").to_string();
            assert!(error.contains(&left.display().to_string()), "{attempt}: {error}");
        }
        loader.round(true).await.expect("the others are stored");
        let count = |more: i64| (next + more, next + more);
        assert_eq!(other.counted().await, count(1));
        assert_eq!(intake.journal.waiting().segments, 2, "it still waits");
        assert!(intake.journal.take_back());
        record(&intake, next + 2);
        loader.round(true).await.expect("one attempt is enough now");
        assert_eq!(other.counted().await, count(2));

        std::fs::remove_dir(&left).expect("it is still there");
        std::fs::rename(&aside, &left).expect("renamed");
        if restarts {
            intake.journal.kill();
            intake = home.intake();
            loader = Loader::new(Arc::clone(&intake), db.clone());
        } else {
            assert!(intake.journal.take_back());
        }
        loader.round(true).await.expect("it is stored");
        next += 3;
        assert_eq!((other.counted().await, other.links().await), ((next, next), (0..next).collect()));
        assert!(!intake.journal.take_back());
        intake.journal.close(None);
        loader.round(true).await.expect("it ends");
        intake.journal.kill();
        assert_eq!(home.segments().len(), 0);
    }
    db.close().await;
}

/// N6: a segment that cannot be copied holds up the copy of another for one round only.
#[tokio::test]
async fn n6_a_segment_that_cannot_be_copied_does_not_hold_up_others() {
    let home = Home::new();
    let intake = home.intake();
    let journal = &intake.journal;
    journal.set_disk(|| Err(std::io::Error::other("a broken disk")));
    intake.record(&click_at(&intake.texts, 0, NOW));
    journal.sync().expect_err("a broken disk");
    let [first] = home.segments().try_into().expect("one segment");
    intake.record(&click_at(&intake.texts, 1, NOW));
    journal.sync().expect_err("a broken disk");
    let second = home.segments().into_iter().find(|path| *path != first).expect("another");
    let file = || std::fs::metadata(&second).expect("a file").ino();
    let written = file();
    std::fs::remove_file(&first).expect("removed");
    std::fs::create_dir(&first).expect("a directory cannot be read");
    journal.set_disk(|| Ok(()));
    for _ in 0..2 {
        journal.sync().expect_err("one cannot be copied");
    }
    assert_ne!(file(), written, "it is another file");
    assert_eq!(journal.unsynced().0, 1);
}

/// One that could not be opened at the start is tried again too. Of what is beside the segments only unfinished copies are
/// removed.
#[tokio::test]
async fn a_segment_that_cannot_be_opened_is_tried_again() {
    let home = Home::new();
    let db = home.open().await;
    let intake = home.intake();
    intake.record(&click_at(&intake.texts, 0, NOW));
    intake.journal.kill();
    let [left] = home.segments().try_into().expect("one segment");
    let (aside, copy, foreign) =
        (left.with_extension("kept"), left.with_extension("new"), left.with_file_name("countries.new"));
    std::fs::rename(&left, &aside).expect("renamed");
    std::fs::create_dir(&left).expect("a directory cannot be read");
    for path in [&copy, &foreign] {
        std::fs::write(path, "half").expect("a file");
    }
    let intake = home.intake();
    assert!(!copy.exists() && foreign.exists());
    assert!(!intake.journal.take_back() && intake.journal.left_for().is_some());
    assert_eq!(intake.journal.waiting().segments, 1);
    std::fs::remove_dir(&left).expect("it is still there");
    std::fs::rename(&aside, &left).expect("renamed");
    assert!(intake.journal.take_back() && intake.journal.left_for().is_some(), "it is not read yet");
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("it is stored");
    assert_eq!(intake.journal.left_for(), None);
    assert_eq!((home.other().await.counted().await, home.segments().len()), ((1, 1), 0));
    db.close().await;
}

/// F2: after a power failure, or in a copy, a segment can be shorter than the part that the database was counting. What it
/// still has is counted. A longer one that comes later counts nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f2_a_segment_shorter_than_its_counted_part_is_counted() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    let intake = home.intake();
    let [path] = {
        (0..6).for_each(|link| intake.record(&click_at(&intake.texts, link, NOW)));
        home.segments().try_into().expect("one segment")
    };
    let kept = std::fs::read(&path).expect("a segment");
    for link in [0, 7] {
        intake.record(&click_at(&intake.texts, link, NOW));
    }
    let longer = std::fs::read(&path).expect("a segment");
    let whole = longer.len();
    intake.journal.close(None);
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("all are stored");
    intake.journal.kill();
    assert_eq!(other.counted().await, (8, 8));
    // As if it had died when half of the links were counted.
    other
        .run_all(format!(
            "UPDATE click_journals SET counted = {HEADER_BYTES}, counting = {whole}, counted_link = 3, finished = 0;
         DELETE FROM click_hours WHERE link > 3; DELETE FROM click_days WHERE link > 3"
        ))
        .await;
    std::fs::write(&path, &kept).expect("a shorter segment");
    let intake = home.intake();
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("it is counted");
    assert_eq!((other.counted().await, home.segments().len()), ((8, 7), 0));
    intake.journal.kill();
    std::fs::write(&path, &longer).expect("the whole segment");
    let intake = home.intake();
    Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("it is known");
    assert_eq!((other.counted().await, home.segments().len()), ((8, 7), 0));
    db.close().await;
}

/// A database whose machine vanishes neither answers nor resets its connections. Clicks are stored as soon as it can be
/// reached again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_vanishes_is_given_up() {
    let home = Home::new();
    if home.is_sqlite() {
        // SQLite has no connections.
        return;
    }
    let relay = Relay::start(&home.url).await;
    let started = Instant::now();
    let db = loop {
        match Db::open(relay.url(), Access::Serve, Duration::from_secs(1)).await {
            Ok(db) => break db,
            // A second can be too short on a busy machine.
            Err(error) => assert!(started.elapsed() < LONG, "{error}"),
        }
    };
    let clicks = once_free(|| Clicks::start(db.clone(), home.clock.clone(), home.directory.path(), false));
    clicks.record(&click(&clicks, 0));
    settled(&clicks).await;
    relay.forget_connections_at_commit();
    (1..=3).for_each(|link| clicks.record(&click(&clicks, link)));
    settled(&clicks).await;
    assert!(relay.has_forgotten(), "a commit was not answered");
    let mut other = home.other().await;
    assert_eq!((other.links().await, other.counted().await), (vec![0, 1, 2, 3], (4, 4)));
    clicks.drain(LONG).await;
    db.close().await;
}

/// F6: a report does not wait for a locked database: it is answered without the clicks that are not stored.
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
