//! Counts: exact at once, while clicks come and folds go on, for any window.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use proptest::prelude::*;

use super::{Home, NOW, Other, click_at};
use crate::clicks::Click;
use crate::db::clicks::{self, Folded, Head, NewClick, Place};
use crate::db::{Db, on};

const HOUR: i64 = 3_600_000;

async fn fold_once(db: &Db) -> Folded {
    db.write(|mut tx| async move { clicks::fold(&mut tx).await }.boxed()).await.expect("a fold")
}

async fn total(db: &Db, link: i64, from: i64, to: i64) -> i64 {
    let mut reader = db.read().await.expect("a reader");
    clicks::hourly(&mut reader.conn(), link, (from, to), None).await.expect("the counts").into_values().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_at_every_moment_while_several_fold() {
    const VISITS: i64 = 400;
    let home = Home::new();
    let (db, clicks) = home.start_patient().await;
    // On PostgreSQL another node stores and folds too.
    let second = if home.is_sqlite() { None } else { Some(home.start_patient().await) };
    let answered = Arc::new(AtomicI64::new(0));
    let visitors: Vec<_> = (0..8)
        .map(|visitor| {
            let clicks = match &second {
                Some((_, clicks)) if visitor % 2 == 1 => Arc::clone(clicks),
                _ => Arc::clone(&clicks),
            };
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                for visit in 0..VISITS {
                    let at = NOW + visit * 60_000;
                    let click = Click { kind: 0, ..click_at(clicks.texts(), 77, at) };
                    clicks.record(click).await;
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let folders: Vec<_> = (0..3)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                loop {
                    fold_once(&db).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    let mut last = 0;
    while last < 8 * VISITS {
        let before = answered.load(Ordering::SeqCst);
        let counted = total(&db, 77, NOW, NOW + 400 * HOUR).await;
        assert!(counted >= before, "{counted} counted after {before} were answered");
        assert!(counted >= last && counted <= 8 * VISITS);
        last = counted;
    }
    for visitor in visitors {
        visitor.await.expect("a visitor");
    }
    folders.iter().for_each(tokio::task::JoinHandle::abort);
    while fold_once(&db).await != Folded::All {}
    assert_eq!(total(&db, 77, NOW, NOW + 400 * HOUR).await, 8 * VISITS);
    let mut other = home.other().await;
    let mut conn = other.conn();
    let folded: i64 = on!(&mut conn, c => sqlx::query_scalar("SELECT CAST(SUM(clicks) AS BIGINT) FROM click_hours").fetch_one(c).await)
        .expect("the sum");
    assert_eq!(folded, 8 * VISITS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_process_left_is_folded_at_the_start() {
    let home = Home::new();
    let (db, clicks) = home.start_patient().await;
    for link in 0..20 {
        clicks.record(super::click(&clicks, link)).await;
    }
    drop(clicks);
    db.close().await;
    drop(db);
    let (db, _clicks) = home.start_patient().await;
    let mut other = home.other().await;
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let mut conn = other.conn();
        let folded: i64 =
            on!(&mut conn, c => sqlx::query_scalar("SELECT COUNT(*) FROM click_hours").fetch_one(c).await)
                .expect("the count");
        if folded == 20 {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{folded} of 20 are folded");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    db.close().await;
}

#[derive(Debug, Clone)]
enum Step {
    /// Clicks of (link, milliseconds after the start, kind) that are stored at this time of the clock.
    Store(Vec<(i64, i64, u8)>, i64),
    Fold,
    /// Takes away what is older than so many hours of the clock.
    Remove(i64),
    /// Clicks of a link in a window, in milliseconds after the start.
    Count(i64, i64, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moment = || {
        prop_oneof![0..3 * HOUR, (0..4_i64).prop_map(|hour| hour * HOUR), (1..4_i64).prop_map(|hour| hour * HOUR - 1)]
    };
    let click = (1..3_i64, moment(), 0..4_u8);
    let step = prop_oneof![
        4 => (prop::collection::vec(click, 1..12), 0..4 * HOUR).prop_map(|(clicks, now)| Step::Store(clicks, now)),
        2 => Just(Step::Fold),
        5 => (1..3_i64, moment(), moment()).prop_map(|(link, a, b)| Step::Count(link, a.min(b), a.max(b))),
    ];
    (prop::collection::vec(step, 1..25), prop::option::weighted(0.3, 0..4_i64)).prop_map(|(mut steps, removed)| {
        steps.extend(removed.map(Step::Remove));
        steps
    })
}

const START: i64 = NOW - NOW % HOUR;

async fn check(home: &Home, db: &Db, other: &mut Other, head: &Arc<Head>, steps: Vec<Step>) {
    for table in ["DELETE FROM clicks", "DELETE FROM click_hours", "UPDATE click_marks SET position = 0"] {
        other.run(table).await;
    }
    let mut all: Vec<(i64, i64, u8)> = Vec::new();
    for step in steps {
        match step {
            Step::Store(clicks, now) => {
                // What is stored late, and what the clock says then, must not matter.
                let rows: Arc<[NewClick]> = clicks
                    .iter()
                    .map(|&(link, at, kind)| NewClick {
                        link,
                        at: START + at,
                        kind,
                        platform: 0,
                        agent: None,
                        referer: None,
                    })
                    .collect();
                let latest = clicks.iter().map(|&(_, at, _)| at).max().map_or(now, |at| at.max(now));
                let to = Place { after: clicks::place(START + latest), gap: 0 };
                let head = Arc::clone(head);
                db.write(move |mut tx| {
                    let (rows, head) = (Arc::clone(&rows), Arc::clone(&head));
                    async move { clicks::insert(&mut tx, &head, to, &rows).await }.boxed()
                })
                .await
                .expect("stored clicks");
                all.extend(clicks);
            }
            Step::Fold => assert_eq!(fold_once(db).await, Folded::All),
            Step::Count(link, from, to) => {
                let mut expected = BTreeMap::new();
                for &(_, at, _) in all
                    .iter()
                    .filter(|&&(of, at, kind)| of == link && (from..=to).contains(&at) && (kind == 0 || kind == 3))
                {
                    *expected.entry(START + at - at % HOUR).or_insert(0) += 1;
                }
                let mut reader = db.read().await.expect("a reader");
                let mut counted =
                    clicks::hourly(&mut reader.conn(), link, (START + from, START + to), None).await.expect("counts");
                counted.retain(|_, clicks| *clicks > 0);
                assert_eq!(counted, expected, "link {link} from {from} to {to}");
            }
            Step::Remove(hours) => {
                fold_once(db).await;
                home.clock.set(Timestamp::from_millis(START + hours * HOUR + 86_400_000));
                super::super::fold::sweep(db, home.clock.now(), 1).await.expect("a sweep");
                let kept = other.stored().await;
                assert!(kept.iter().all(|click| click.0 > clicks::place(START + hours * HOUR)));
                // Whole hours stay exact without the log.
                for link in 1..3 {
                    let expected = all.iter().filter(|&&(of, _, kind)| of == link && (kind == 0 || kind == 3)).count();
                    let counted = total(db, link, START, START + 5 * HOUR).await;
                    assert_eq!(usize::try_from(counted).expect("small"), expected);
                }
            }
        }
    }
}

#[test]
fn any_window_counts_exactly_what_lies_in_it() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let home = Home::new();
    let (db, mut other) = runtime.block_on(async { (home.open().await, home.other().await) });
    let head = Arc::new(Head::default());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..Default::default()
    });
    let other = std::cell::RefCell::new(&mut other);
    runner
        .run(&steps(), |steps| {
            runtime.block_on(check(&home, &db, &mut other.borrow_mut(), &head, steps));
            Ok(())
        })
        .expect("every case holds");
    runtime.block_on(db.close());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_takes_old_clicks_and_the_texts_that_only_they_named() {
    const DAY: i64 = 86_400_000;
    let home = Home::new();
    let (db, clicks) = home.start_patient().await;
    let texts = clicks.texts();
    let named = |link: i64, at: i64, agent: &str| Click {
        agent: texts.agent(Some(agent.as_bytes())).text(),
        referer: None,
        kind: 0,
        ..click_at(texts, link, at)
    };
    clicks.record(named(1, NOW, "old")).await;
    clicks.record(named(1, NOW, "still used")).await;
    home.clock.set(Timestamp::from_millis(NOW + 40 * DAY));
    clicks.record(named(1, NOW + 40 * DAY, "still used")).await;
    clicks.record(named(1, NOW + 40 * DAY, "new")).await;
    clicks.sweep(0).await.expect("a sweep");
    assert_eq!(home.other().await.stored().await.len(), 4, "0 keeps everything");
    while fold_once(&db).await == Folded::More {}
    clicks.sweep(30).await.expect("a sweep");
    let mut other = home.other().await;
    let left: Vec<_> = other.stored().await.into_iter().map(|click| click.5).collect();
    assert_eq!(left, [Some("still used".into()), Some("new".into())]);
    let mut conn = other.conn();
    let texts: i64 = on!(&mut conn, c => sqlx::query_scalar("SELECT COUNT(*) FROM visitor_texts").fetch_one(c).await)
        .expect("a count");
    assert_eq!(texts, 2, "the text that nothing names is gone");
    assert_eq!(total(&db, 1, NOW - DAY, NOW + 41 * DAY).await, 4, "counts stay");
    // The hour that lost its clicks counts whole where it begins in the window, and not where it does not.
    assert_eq!(total(&db, 1, NOW, NOW).await, 2);
    assert_eq!(total(&db, 1, NOW + 1, NOW + 2).await, 0);
    db.close().await;
}
