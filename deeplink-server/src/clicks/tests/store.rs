//! From a visit into the log, when the database is well.

use std::collections::HashSet;
use std::time::Duration;

use deeplink_core::time::Timestamp;

use futures_util::FutureExt;

use super::super::Click;
use super::{Home, LONG, NOW, click, eventually, settled, status};
use crate::db::clicks::position_at;
use crate::shares::Share;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_becomes_a_row_with_its_texts() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    for link in 1..=3 {
        clicks.record(&click(&clicks, link));
    }
    eventually("they are stored", LONG, || async { status(&clicks).stored_total == 3 }).await;
    let stored = home.other().await.stored().await;
    assert_eq!(
        stored[2],
        (stored[2].0, 3, NOW, 3, 1, Some("agent 3".into()), Some("https://example.com/3".into()), false, false)
    );
    assert_eq!((&stored[0].6, stored[0].8), (&None, true));
    clicks.drain(LONG).await;
    assert_eq!(home.segments().len(), 0, "a stop leaves nothing to be loaded");
    db.close().await;
}

/// A flood of invented texts that uses up an account's share does not rename those that were known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r8_beyond_its_share_an_account_keeps_the_texts_that_are_known() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    clicks.record(&Click { kind: 0, ..click(&clicks, 3) });
    clicks.drain(LONG).await;
    drop((clicks, db));
    let (db, clicks) = home.start().await;
    for link in [3, 6, 9] {
        let click = Click { kind: 0, ..click(&clicks, link) };
        [&click.agent, &click.referer].into_iter().flatten().for_each(|text| text.set_beyond());
        if link == 9 {
            let stored =
                db.write(Share::Clicks, (clicks.clone(), click), |tx, (clicks, click)| clicks.store(tx, click).boxed());
            stored.await.expect("stored");
        } else {
            clicks.record(&click);
        }
    }
    settled(&clicks).await;
    let stored = home.other().await.stored().await;
    let texts: Vec<_> = stored.iter().map(|click| (click.1, click.5.as_deref(), click.6.as_deref())).collect();
    let other = Some("other");
    let known = (3, Some("agent 3"), Some("https://example.com/3"));
    assert_eq!(texts.iter().filter(|text| **text == known).count(), 2);
    assert!(texts.contains(&(6, other, other)) && texts.contains(&(9, other, other)), "{texts:?}");
    let hosts = home.other().await.hosts().await;
    assert_eq!(hosts, [(3, "example.com".to_owned()), (6, "other".to_owned()), (9, "other".to_owned())]);
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_visits_at_once_are_each_stored_once_in_order() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let visits: Vec<_> = (0..50)
        .map(|visitor| {
            let clicks = clicks.clone();
            tokio::spawn(
                async move { (0..100).for_each(|visit| clicks.record(&click(&clicks, visitor * 100 + visit))) },
            )
        })
        .collect();
    for visit in visits {
        visit.await.expect("a visit");
    }
    settled(&clicks).await;
    let stored = home.other().await.stored().await;
    assert!(stored.is_sorted_by(|a, b| a.0 < b.0), "positions are unique");
    assert!(stored.iter().all(|click| click.0 > position_at(NOW)), "positions follow the clock");
    assert_eq!(stored.iter().map(|click| click.1).collect::<HashSet<_>>().len(), 5_000);
    assert!(stored.iter().all(|click| click.5.is_some() && (click.6.is_some() || click.8)), "every text is there");
    assert_eq!((stored.len(), status(&clicks).stored_total, status(&clicks).dropped_total), (5_000, 5_000, 0));
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_stores_what_waits_and_a_later_click_is_kept() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    (0..3_000).for_each(|link| clicks.record(&click(&clicks, link)));
    clicks.drain(LONG).await;
    clicks.record(&click(&clicks, 3_000));
    db.close().await;
    assert_eq!(home.other().await.links().await, (0..3_000).collect::<Vec<_>>());
    drop((clicks, db));
    let (db, clicks) = home.start().await;
    eventually("the late click is stored", LONG, || async { status(&clicks).stored_total == 1 }).await;
    assert_eq!(home.other().await.links().await, (0..=3_000).collect::<Vec<_>>());
    db.close().await;
}

// Positions are drawn in memory on SQLite: a restart, and retention that empties the log, must not repeat any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_grow_over_restarts_whatever_the_clock_does() {
    let home = Home::new();
    let mut last = 0;
    for (start, hours) in [(0, 0), (1, -5), (2, 9_600), (3, -9_600)] {
        home.clock.set(Timestamp::from_millis(NOW + hours * 3_600_000));
        let (db, clicks) = home.start().await;
        clicks.record(&click(&clicks, start));
        settled(&clicks).await;
        let stored = home.other().await.stored().await;
        let position = stored.iter().find(|click| click.1 == start).map(|click| click.0).expect("the click");
        assert!(position > last);
        last = position;
        clicks.drain(Duration::from_secs(5)).await;
        db.close().await;
    }
}
