//! When the database, or the disk too, takes no clicks (F4, F6), and when the process or the power goes (F1, F2).

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::record::{HEADER_BYTES, Record, header, put_click, take};
use super::super::{FOLDER, load};
use super::{Home, LONG, NOW, click, eventually, settled, status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_database_loses_no_click() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    clicks.record(&click(&clicks, 0));
    settled(&clicks).await;
    let mut other = home.other().await;
    other.lock().await;
    (1..=200).for_each(|link| clicks.record(&click(&clicks, link)));
    other.unlock().await;
    settled(&clicks).await;
    assert_eq!(other.links().await, (0..=200).collect::<Vec<_>>());
    clicks.drain(LONG).await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_survive_the_death_of_the_process() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    (0..3_000).for_each(|link| clicks.record(&click(&clicks, link)));
    for file in home.segments() {
        let mode = std::fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only the service reads what visitors sent");
    }
    clicks.end_tasks();
    clicks.intake.journal.kill();
    other.unlock().await;
    db.close().await;
    drop((clicks, db));
    let (db, clicks) = home.start().await;
    settled(&clicks).await;
    eventually("the segment is gone", LONG, || async { home.segments().is_empty() }).await;
    assert_eq!(other.links().await, (0..3_000).collect::<Vec<_>>());
    assert!(other.stored().await.iter().all(|click| click.5.is_some()), "texts are there");
    db.close().await;
}

/// Wherever a segment is cut, the clicks before the cut are stored, none twice, and the rest of the file is set aside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_cut_at_any_byte_loses_only_what_was_cut() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    // A process that is killed before anything is loaded.
    let clicks = home.intake();
    for link in 0..8 {
        clicks.record(&super::click_at(&clicks.texts, link, NOW));
    }
    clicks.journal.kill();
    let [path] = home.segments().try_into().expect("one segment");
    let whole = std::fs::read(&path).expect("a segment");
    let mut ends = Vec::new();
    let mut rest = &whole[HEADER_BYTES..];
    while let Some(record) = take(&mut rest) {
        if matches!(record, Record::Click(_)) {
            ends.push(whole.len() - rest.len());
        }
    }
    assert_eq!(ends.len(), 8);
    for cut in 0..=whole.len() {
        other.run("DELETE FROM clicks").await;
        other.run("DELETE FROM click_journals").await;
        // The second time as if the process had died before it removed the file.
        for _ in 0..2 {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let intake = home.intake();
            load::Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("a round");
            intake.journal.kill();
            let kept = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(other.links().await, (0..8).take(kept).collect::<Vec<i64>>(), "cut at {cut}");
            assert_eq!(home.segments().len(), 0, "cut at {cut}");
            let is_whole = cut < HEADER_BYTES || cut == whole.len() || ends.contains(&cut) || ends_a_text(&whole, cut);
            assert_eq!(home.set_aside(), usize::from(!is_whole), "cut at {cut}");
            if !is_whole {
                std::fs::remove_file(path.with_extension("set-aside")).expect("it was there");
            }
        }
    }
    db.close().await;
}

/// Whether a segment of these bytes ends after a record.
fn ends_a_text(whole: &[u8], cut: usize) -> bool {
    let mut rest = &whole[HEADER_BYTES..cut];
    while take(&mut rest).is_some() {}
    rest.is_empty()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_segment_is_set_aside_and_a_folder_has_one_process() {
    let home = Home::new();
    let folder = home.directory.path().join(FOLDER);
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("foreign.clicks"), b"something else, and long enough").expect("a file");
    std::fs::write(folder.join("short.clicks"), b"mine").expect("a file");
    // A process died while it wrote the header.
    std::fs::write(folder.join("begun.clicks"), b"DLCLI").expect("a file");
    let mut broken = header(7).to_vec();
    put_click(
        &mut broken,
        &super::super::record::ClickRecord {
            link: 1,
            at: NOW,
            kind: 0,
            platform: 1,
            agent_code: 2,
            country: 3,
            agent: 9,
            referer: 0,
        },
    );
    broken.extend_from_slice(b"noise");
    std::fs::write(folder.join("torn.clicks"), broken).expect("a file");
    let (db, clicks) = home.start().await;
    settled(&clicks).await;
    eventually("these are set aside", LONG, || async { home.set_aside() == 3 }).await;
    assert_eq!((home.segments().len(), home.other().await.links().await), (0, vec![1]));
    let second = crate::clicks::Clicks::start(db.clone(), home.clock.clone(), home.directory.path(), false);
    let refusal = second.err().expect("a refusal").to_string();
    assert!(refusal.contains("in use by another process"), "{refusal}");
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_full_disk_clicks_wait_in_memory_and_beyond_that_are_counted() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    clicks.intake.journal.set_full(true);
    (0..100_010).for_each(|link| clicks.record(&click(&clicks, link)));
    assert_eq!((status(&clicks).in_memory, status(&clicks).dropped_total), (100_000, 10));
    assert_eq!(home.segments().len(), 0);
    // The database comes back first: clicks are stored from memory.
    other.unlock().await;
    eventually("the clicks are stored", LONG, || async { status(&clicks).in_memory == 0 }).await;
    assert_eq!(other.links().await, (0..100_000).collect::<Vec<_>>());
    settled(&clicks).await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_disk_has_room_again_memory_moves_to_files() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    clicks.intake.journal.set_full(true);
    (0..500).for_each(|link| clicks.record(&click(&clicks, link)));
    clicks.intake.journal.set_full(false);
    eventually("files take them", LONG, || async { status(&clicks).in_memory == 0 && !home.segments().is_empty() })
        .await;
    (500..510).for_each(|link| clicks.record(&click(&clicks, link)));
    // The process is stopped while nothing can be stored.
    clicks.drain(Duration::from_millis(50)).await;
    assert_eq!((status(&clicks).in_memory, status(&clicks).dropped_total), (0, 0));
    other.unlock().await;
    db.close().await;
    drop((clicks, db));
    let (db, clicks) = home.start().await;
    settled(&clicks).await;
    eventually("the files are gone", LONG, || async { home.segments().is_empty() }).await;
    assert_eq!(other.links().await, (0..510).collect::<Vec<_>>());
    db.close().await;
}

/// A stop while nothing can be written puts what is in memory into files as soon as one can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_saves_what_is_in_memory() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    other.lock().await;
    clicks.intake.journal.set_full(true);
    clicks.record(&click(&clicks, 1));
    clicks.end_tasks();
    clicks.intake.journal.set_full(false);
    clicks.drain(Duration::ZERO).await;
    assert_eq!((home.segments().len(), status(&clicks).dropped_total), (1, 0));
    other.unlock().await;
    db.close().await;
}

/// What a node that will not come back has left is stored from anywhere, once, and not while it is in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_is_loaded_from_a_copy() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    // A process that is killed before anything is loaded.
    let intake = home.intake();
    (0..50).for_each(|link| intake.record(&super::click_at(&intake.texts, link, NOW)));
    let folder = home.directory.path().join(FOLDER);
    let refusal = super::super::load_folder(&db, home.clock.clone(), &folder, false).await.expect_err("a refusal");
    assert!(refusal.to_string().contains("in use by another process"), "{refusal}");
    intake.journal.kill();
    let copy = tempfile::tempdir().expect("a folder");
    for file in home.segments() {
        std::fs::copy(&file, copy.path().join(file.file_name().expect("a name"))).expect("a copy");
    }
    for (place, expected) in [(copy.path(), 50), (&folder, 0)] {
        let loaded = super::super::load_folder(&db, home.clock.clone(), place, false).await.expect("it loads");
        assert_eq!((loaded, other.links().await), (expected, (0..50).collect::<Vec<_>>()));
    }
    assert_eq!(home.segments().len(), 0);
    db.close().await;
}

/// The database forgets a segment 90 days after its begin, so none is written for longer than a day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_segment_is_closed_and_goes() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    clicks.record(&click(&clicks, 1));
    settled(&clicks).await;
    assert!(!clicks.intake.journal.close_old(LONG) && home.segments().len() == 1);
    assert!(clicks.intake.journal.close_old(Duration::ZERO));
    clicks.record(&click(&clicks, 2));
    settled(&clicks).await;
    eventually("the first is gone", LONG, || async { home.segments().len() == 1 }).await;
    assert_eq!(home.other().await.links().await, [1, 2]);
    db.close().await;
}

/// Where files can be written again but what is in memory cannot be saved yet, further clicks go to a file, and saving is
/// tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_click_is_dropped_while_memory_cannot_be_saved() {
    let home = Home::new();
    let db = home.open().await;
    let intake = home.intake();
    let journal = &intake.journal;
    journal.set_full(true);
    intake.record(&super::click_at(&intake.texts, 1, NOW));
    journal.set_full(false);
    let id = journal.first().expect("a segment").id;
    let in_the_way = home.directory.path().join(FOLDER).join(format!("{NOW:015}-{id:016x}.new"));
    std::fs::create_dir(&in_the_way).expect("a folder");
    journal.leave_memory().expect_err("it cannot be saved");
    intake.record(&super::click_at(&intake.texts, 2, NOW));
    assert!(journal.lacks_files() && journal.dropped() == 0 && home.segments().len() == 1);
    std::fs::remove_dir(&in_the_way).expect("removed");
    journal.leave_memory().expect("saved");
    assert!(!journal.lacks_files() && home.segments().len() == 2);
    load::Loader::new(Arc::clone(&intake), db.clone()).round(true).await.expect("they are stored");
    assert_eq!(home.other().await.links().await, [1, 2]);
    journal.kill();
    db.close().await;
}

/// A segment that cannot be read stops neither the start nor the others; a load of a copy fails, and says which it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_cannot_be_read_stops_nothing() {
    let home = Home::new();
    std::fs::create_dir_all(home.directory.path().join(FOLDER).join("0.clicks")).expect("a folder");
    let (db, clicks) = home.start().await;
    clicks.record(&click(&clicks, 1));
    settled(&clicks).await;
    assert_eq!(home.other().await.links().await, [1]);
    let copy = home.directory.path().join("copy");
    std::fs::create_dir_all(copy.join("0.clicks")).expect("a folder");
    let loaded = super::super::load_folder(&db, home.clock.clone(), &copy, false).await;
    let error = loaded.expect_err("one is left").to_string();
    assert!(error.contains("1 of the segments could not be read") && error.contains("0.clicks"), "{error}");
    db.close().await;
}

/// A round of the loader ends though clicks do not: what came meanwhile is for the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_ends_while_clicks_come() {
    let home = Home::new();
    let db = home.open().await;
    let intake = home.intake();
    let mut loader = load::Loader::new(Arc::clone(&intake), db.clone());
    loader.round(false).await.expect("nothing is there");
    let is_over = Arc::new(AtomicBool::new(false));
    let visitor = {
        let (intake, is_over) = (Arc::clone(&intake), Arc::clone(&is_over));
        tokio::task::spawn_blocking(move || {
            let mut clicks = 0;
            while !is_over.load(Ordering::Relaxed) {
                intake.record(&super::click_at(&intake.texts, 1, NOW));
                clicks += 1;
                std::thread::sleep(Duration::from_micros(100));
            }
            clicks
        })
    };
    for _ in 0..5 {
        let before = intake.journal.appended();
        while intake.journal.appended() == before {
            tokio::task::yield_now().await;
        }
        let round = tokio::time::timeout(LONG, loader.round(false));
        assert_ne!(round.await.expect("a round ends").expect("it is stored"), 0);
    }
    is_over.store(true, Ordering::Relaxed);
    let clicks: usize = visitor.await.expect("a visitor");
    loader.round(true).await.expect("the rest is stored");
    let stored = home.other().await.links().await.len();
    assert_eq!((stored, intake.progress.borrow().counted), (clicks, intake.journal.appended()));
    intake.journal.kill();
    db.close().await;
}

/// What was read after a count that failed is counted before its segment is removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_failed_leaves_nothing_uncounted() {
    let home = Home::new();
    let db = home.open().await;
    let intake = home.intake();
    let mut loader = load::Loader::new(Arc::clone(&intake), db.clone());
    let record = |links: std::ops::Range<i64>| {
        links.for_each(|link| intake.record(&super::click_at(&intake.texts, link, NOW)));
    };
    record(0..10);
    loader.round(false).await.expect("they are stored");
    // As when the write of this count has failed.
    loader.reading.as_mut().expect("a segment").begin_count();
    record(10..20);
    loader.round(false).await.expect("they are stored");
    intake.journal.close(None);
    loader.round(false).await.expect("the segment is finished");
    assert_eq!((home.segments().len(), intake.progress.borrow().counted), (0, intake.journal.appended()));
    assert_eq!(home.other().await.counted().await, (20, 20));
    db.close().await;
}

/// A crash of PostgreSQL undoes the last commits that did not wait for the disk: the journal has those clicks still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_of_the_database_undid_is_stored_again() {
    let home = Home::new();
    let db = home.open().await;
    let intake = home.intake();
    let mut loader = load::Loader::new(Arc::clone(&intake), db.clone());
    let mut other = home.other().await;
    let record = |links: std::ops::Range<i64>| {
        links.for_each(|link| intake.record(&super::click_at(&intake.texts, link, NOW)));
    };
    for is_closed in [false, true] {
        record(0..10);
        loader.round(true).await.expect("they are stored and counted");
        other.forget_clicks().await;
        other.run_all("DELETE FROM visitor_texts; DELETE FROM click_journals".to_owned()).await;
        if is_closed {
            intake.journal.close(None);
        } else {
            record(10..20);
        }
        // The first finds what is undone.
        loader.round(true).await.expect("a round");
        loader.round(true).await.expect("a round");
        intake.journal.close(None);
        loader.round(true).await.expect("the segment is finished");
        let all = if is_closed { 10 } else { 20 };
        assert_eq!((other.counted().await, home.segments().len()), ((all, all), 0), "closed: {is_closed}");
        assert!(other.stored().await.iter().all(|click| click.5.is_some()), "each has its texts");
        assert_eq!(intake.progress.borrow().counted, intake.journal.appended());
        other.forget_clicks().await;
    }
    db.close().await;
}

/// Another program removes the segment that is written, cuts it, or writes into it: what it held is lost and said, what
/// comes after is stored, and a report does not wait for what is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_another_program_spoils_is_given_up() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    type Spoil = fn(&std::path::Path);
    let ways: [Spoil; 3] = [
        |path| std::fs::remove_file(path).expect("removed"),
        |path| std::fs::OpenOptions::new().write(true).open(path).expect("open").set_len(40).expect("cut"),
        |path| {
            std::fs::OpenOptions::new().append(true).open(path).expect("open").write_all(&[0xff; 64]).expect("written");
        },
    ];
    for (way, spoil) in (0..).zip(ways) {
        clicks.record(&click(&clicks, 100 * way));
        settled(&clicks).await;
        spoil(home.segments().last().expect("a segment"));
        // Lost.
        clicks.record(&click(&clicks, 100 * way + 1));
        settled(&clicks).await;
        eventually("a further click is stored", LONG, || async {
            clicks.record(&click(&clicks, 100 * way + 2));
            settled(&clicks).await;
            home.other().await.links().await.last() == Some(&(100 * way + 2))
        })
        .await;
    }
    db.close().await;
}
