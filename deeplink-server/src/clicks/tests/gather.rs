//! Counts of what was gathered are those that reading the log gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::fold::fold_all;
use super::{Home, LONG, NOW, Other, click_at};
use crate::db::on;

const TABLES: [&str; 4] = [
    "SELECT link, hour, kind, '', clicks, first_position, last_position, first_at, last_at FROM click_hours ORDER BY 1, 2, 3",
    "SELECT link, day, kind, '', clicks, link, link, link, link FROM click_days ORDER BY 1, 2, 3",
    "SELECT link, hour, platform, host, clicks, first_position, last_position, first_at, last_at FROM click_facets
     ORDER BY 1, 2, 3, 4",
    "SELECT link, day, platform, host, clicks, link, link, link, link FROM click_facet_days ORDER BY 1, 2, 3, 4",
];

type Row = (i64, i64, i64, String, i64, i64, i64, i64, i64);

async fn counts(other: &mut Other) -> Vec<Vec<Row>> {
    let mut all = Vec::new();
    for sql in TABLES {
        let mut conn = other.conn();
        all.push(on!(&mut conn, c => sqlx::query_as(sql).fetch_all(c).await).expect("the counts"));
    }
    all
}

/// How many clicks are counted, and how many there are.
async fn progress(other: &mut Other) -> (i64, i64) {
    const SQL: &str = "
        SELECT CAST(COALESCE(SUM(clicks), 0) AS BIGINT), (SELECT CAST(COUNT(*) AS BIGINT) FROM clicks) FROM click_hours";
    let mut conn = other.conn();
    on!(&mut conn, c => sqlx::query_as(SQL).fetch_one(c).await).expect("the sums")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_gathered_counts_as_the_log_does() {
    const CLICKS: i64 = 4_000;
    let home = Home::new();
    let (db, clicks) = home.start_patient().await;
    let visits: Vec<_> = (0..8)
        .map(|visitor| {
            let clicks = Arc::clone(&clicks);
            tokio::spawn(async move {
                for nth in (visitor..CLICKS).step_by(8) {
                    let click = click_at(clicks.texts(), nth * nth % 97, NOW - nth * 17_000 % 20_000_000);
                    // Reported clicks reach the log beside the others.
                    if nth % 50 == 0 {
                        clicks.report(click).await.expect("a stored click");
                    } else {
                        clicks.record(click).await;
                    }
                }
            })
        })
        .collect();
    for visit in visits {
        visit.await.expect("a visitor");
    }
    let mut other = home.other().await;
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while progress(&mut other).await != (CLICKS, CLICKS) {
        assert!(tokio::time::Instant::now() < end, "{:?} are folded", progress(&mut other).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let gathered = counts(&mut other).await;
    for table in ["click_hours", "click_days", "click_facets", "click_facet_days"] {
        other.run_all(format!("DELETE FROM {table}")).await;
    }
    other.run("UPDATE click_marks SET position = 0 WHERE name = 'folded'").await;
    fold_all(&db).await;
    assert_eq!(gathered, counts(&mut other).await);
    db.close().await;
}

// Each fold touches the rows of all its links, so one for each handful of clicks would cost more than all visits do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_that_do_not_end_are_folded_once_a_second() {
    let home = Home::new();
    let (db, clicks) = home.start_patient().await;
    let mut other = home.other().await;
    // The fold at the start reads the log. What it reads of a stretch that still grows, all of that stretch is read from
    // there, in parts.
    clicks.record(click_at(clicks.texts(), 0, NOW)).await;
    while progress(&mut other).await.0 == 0 || clicks.intake.gathered.as_ref().is_some_and(|all| all.len() > 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (began, folded) = (tokio::time::Instant::now(), Arc::<AtomicBool>::default());
    let visits: Vec<_> = (0..16)
        .map(|visitor| {
            let (clicks, folded) = (Arc::clone(&clicks), Arc::clone(&folded));
            tokio::spawn(async move {
                // Fewer links than the smallest fold takes, so that a slow machine does not split one fold into several.
                let mut nth = visitor;
                while began.elapsed() < Duration::from_millis(2_500) || !folded.load(Ordering::SeqCst) {
                    clicks.record(click_at(clicks.texts(), nth % 200, NOW)).await;
                    nth += 16;
                }
            })
        })
        .collect();
    let mut marks = std::collections::BTreeSet::new();
    while !visits.iter().all(tokio::task::JoinHandle::is_finished) {
        const MARK: &str = "SELECT position FROM click_marks WHERE name = 'folded'";
        let mut conn = other.conn();
        let mark: i64 = on!(&mut conn, c => sqlx::query_scalar(MARK).fetch_one(c).await).expect("a mark");
        marks.insert(mark);
        // On a busy machine they come later.
        folded.fetch_or(marks.len() >= 2 || began.elapsed() > LONG, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seconds = began.elapsed().as_secs();
    // Where it stood before, at the start, and once a second.
    assert!(marks.len() >= 2 && marks.len() as u64 <= 3 + seconds, "{} folds in {seconds} s", marks.len());
    db.close().await;
}
