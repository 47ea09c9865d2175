//! Counts: exact at once, on every node and after every start; what a day names of the hosts of a link and of the links of
//! an account. `windows` has what any window, set of links and grouping counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::{Home, LONG, NOW, click_at, eventually, settled};
use crate::clicks::Click;
use crate::db::clicks::{self, AppendPosition, By, Group, Hash, Head, Kinds, NewClick, NewText, Scope};
use crate::db::{Db, on};
use crate::shares::Share;

pub(super) const HOUR: i64 = 3_600_000;
pub(super) const START: i64 = NOW - NOW % HOUR;

pub(super) async fn total(db: &Db, link: i64, from: i64, to: i64) -> i64 {
    let mut reader = db.read().await.expect("a reader");
    let scope = Scope { links: &[link], from, to, kinds: Kinds::Funnel };
    let counted = clicks::count(&mut reader.conn(), scope, By::Nothing).await.expect("the counts");
    counted.into_values().sum()
}

/// Stores clicks and counts them, those with a text by its host.
pub(super) async fn store(db: &Db, head: &Arc<Head>, after: i64, clicks: Vec<(NewClick, String)>, months: bool) {
    let job = (clicks, Arc::clone(head));
    db.write(Share::Service, job, move |tx, (clicks, head)| {
        async move {
            let rows: Vec<NewClick> = clicks.iter().map(|(row, _)| *row).collect();
            let groups: Vec<Group> = clicks.iter().map(|(row, host)| Group::of_one(row, host.clone())).collect();
            let to = AppendPosition { after: clicks::position_at(after), gap: 0 };
            clicks::insert(tx, head, to, &rows).await?;
            clicks::add_counts(tx, &groups, months).await
        }
        .boxed()
    })
    .await
    .expect("stored clicks");
}

/// Each node counts its own clicks, and a question to it counts them first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_have_all_that_was_answered_before_at_every_moment() {
    const VISITS: i64 = 400;
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let recorded = Arc::new(AtomicI64::new(0));
    let visitors: Vec<_> = (0..8)
        .map(|_| {
            let (clicks, recorded) = (Arc::clone(&clicks), Arc::clone(&recorded));
            tokio::spawn(async move {
                for visit in 0..VISITS {
                    clicks.record(&Click { kind: 0, ..click_at(clicks.texts(), 77, NOW + visit * 60_000) });
                    recorded.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut last = 0;
    while last < 8 * VISITS {
        let before = recorded.load(Ordering::SeqCst);
        settled_once(&clicks).await;
        let counted = total(&db, 77, NOW, NOW + 400 * HOUR).await;
        assert!(counted >= before, "{counted} counted after {before} were answered");
        assert!(counted >= last && counted <= 8 * VISITS);
        last = counted;
    }
    for visitor in visitors {
        visitor.await.expect("a visitor");
    }
    db.close().await;
}

/// As a report asks, however slow the machine is.
async fn settled_once(clicks: &crate::clicks::Clicks) {
    let goal = clicks.intake.journal.appended();
    eventually("they are counted", LONG, || async {
        clicks.counted().await;
        clicks.intake.progress.borrow().counted >= goal
    })
    .await;
}

/// Two nodes with the same hot links, each with its own journal: every click is stored and counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_count_the_same_links_together() {
    let home = Home::new();
    if home.is_sqlite() {
        return;
    }
    let (db, first) = home.start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let second = crate::clicks::Clicks::start(db.clone(), home.clock.clone(), folder.path(), false).expect("a start");
    for round in 0..20 {
        for clicks in [&first, &second] {
            for link in 0..40 {
                clicks.record(&Click { kind: 0, ..click_at(clicks.texts(), link % 3, NOW + round) });
            }
        }
        tokio::join!(settled(&first), settled(&second));
    }
    let mut all = 0;
    for link in 0..3 {
        all += total(&db, link, NOW, NOW + HOUR).await;
    }
    assert_eq!((all, home.other().await.links().await.len()), (20 * 2 * 40, 20 * 2 * 40));
    second.drain(LONG).await;
    db.close().await;
}

/// A process that dies between storing rows and counting them leaves the counts to the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_process_left_is_counted_at_the_start() {
    let home = Home::new();
    let (db, clicks) = home.start().await;
    (0..20).for_each(|link| clicks.record(&Click { kind: 0, ..super::click(&clicks, link) }));
    eventually("rows are stored", LONG, || async { super::status(&clicks).stored_total == 20 }).await;
    drop(clicks);
    db.close().await;
    drop(db);
    let (db, clicks) = home.start().await;
    settled(&clicks).await;
    for link in 0..20 {
        assert_eq!(total(&db, link, NOW, NOW).await, 1);
    }
    assert_eq!(home.other().await.links().await.len(), 20);
    db.close().await;
}

/// Strangers choose what hosts there are, so a day of a link names two hundred of them, and counts the rest as others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_a_link_names_so_many_hosts_and_counts_the_rest() {
    let home = Home::new();
    let db = home.open().await;
    let head = Arc::new(Head::default());
    let hash = |host: usize| [&host.to_be_bytes()[..], &[1; 8]].concat().try_into().expect("16 bytes");
    let texts: Vec<(Hash, String)> =
        (0..500).map(|nth| (hash(nth), format!("https://h{nth:03}.example.com/"))).collect();
    let known = Arc::new(texts);
    db.write(Share::Service, (), move |tx, ()| {
        let known = Arc::clone(&known);
        async move {
            let texts: Vec<_> = known.iter().map(|(hash, text)| NewText { hash: *hash, text }).collect();
            clicks::insert_texts(tx, &texts, NOW).await
        }
        .boxed()
    })
    .await
    .expect("stored texts");
    // The first 150 twice, then all, on two days; only what is new has no room.
    for (day, hosts) in [(0, 0..150), (0, 0..500), (0, 100..300), (1, 0..1), (1, 300..400)] {
        let at = START + day * 24 * HOUR;
        let click = |host: usize| NewClick {
            link: 1,
            at,
            kind: 0,
            platform: u8::try_from(host % 3).expect("small"),
            agent_code: 0,
            country: 0,
            agent: None,
            referer: Some(hash(host)),
        };
        let named = |nth: usize| format!("h{nth:03}.example.com");
        store(&db, &head, at, hosts.map(|nth| (click(nth), named(nth))).collect(), false).await;
    }
    let mut reader = db.read().await.expect("a reader");
    let window = |from: i64, to: i64| Scope { links: &[1], from, to, kinds: Kinds::Funnel };
    let first = START - START.rem_euclid(24 * HOUR);
    for (from, to) in [(first, first + 24 * HOUR - 1), (START, START), (START, START + HOUR - 1)] {
        let counted = clicks::count_by_host(&mut reader.conn(), window(from, to)).await.expect("counts");
        assert_eq!(counted.len(), 201, "from {from} to {to}");
        assert_eq!(counted["other"], 300 + 100, "from {from} to {to}");
        let named: Vec<i64> = ["h000", "h149", "h150", "h199"].map(|h| counted[&format!("{h}.example.com")]).into();
        assert_eq!(named, [2, 3, 2, 2]);
    }
    let next = clicks::count_by_host(&mut reader.conn(), window(first + 24 * HOUR, NOW * 2)).await.expect("counts");
    assert_eq!((next.len(), next.get("other")), (101, None), "the next day has room of its own");
    drop(reader);

    // A window that ends among the clicks of the rest, after those of the hosts that have names.
    let late = START + HOUR / 2;
    let click = NewClick {
        link: 1,
        at: late,
        kind: 0,
        platform: 0,
        agent_code: 0,
        country: 0,
        agent: None,
        referer: Some(hash(450)),
    };
    store(&db, &head, late, vec![(click, "h450.example.com".to_owned())], false).await;
    let mut reader = db.read().await.expect("a reader");
    for (to, rest) in [(START, 400), (late - 1, 400), (late, 401)] {
        let counted = clicks::count_by_host(&mut reader.conn(), window(first, to)).await.expect("counts");
        let named: i64 = counted.iter().filter(|(host, _)| *host != "other").map(|(_, clicks)| clicks).sum();
        assert_eq!((counted["other"], named), (rest, 150 + 200 + 100), "up to {to}");
    }
    drop(reader);
    db.close().await;
}

/// A day of an account names some hundreds of its links, and those with many clicks are among them, though they come late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_with_many_clicks_are_found_among_many() {
    const RARE: i64 = 3_000;
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    let mut sql = vec!["BEGIN; INSERT INTO tenants (id, created_at, account) VALUES ('a', 0, -2);".to_owned()];
    sql.extend((0..RARE + 10).map(|link| {
        let deleted = if link == RARE { "1" } else { "NULL" };
        format!(
            "INSERT INTO links (tenant_id, link_id, position, claimed, web_url, created_at, updated_at, deleted_at)
             VALUES ('a', 'link-{link}', {link}, TRUE, 'https://example.com/', 0, 0, {deleted});"
        )
    }));
    sql.push("COMMIT;".to_owned());
    other.run_all(sql.concat()).await;
    let head = Arc::new(Head::default());
    for round in 0..30 {
        // A click of links that nobody else follows, and from the sixth time on 40 of ten others.
        let rare = (round * 100..(round + 1) * 100).map(|link| (link, 1));
        let popular = (RARE..RARE + 10).filter(|_| round > 5).map(|link| (link, 30 + link - RARE));
        let clicks = rare.chain(popular).flat_map(|(link, clicks)| {
            let click = NewClick {
                link,
                at: START + round,
                kind: 0,
                platform: 0,
                agent_code: 0,
                country: 0,
                agent: None,
                referer: None,
            };
            (0..clicks).map(move |_| (click, String::new()))
        });
        store(&db, &head, START, clicks.collect(), false).await;
    }
    let most = async |from: i64, to: i64, asked: usize| {
        let mut reader = db.read().await.expect("a reader");
        let found = clicks::candidates(&mut reader.conn(), -2, [START + from, START + to], asked).await.expect("links");
        found.into_iter().map(|link| link.position - RARE).collect::<Vec<_>>()
    };
    let popular = [9, 8, 7, 6, 5, 4, 3, 2, 1];
    assert_eq!(
        most(-72 * HOUR, 1, 6).await,
        [&popular[..], &[-3_000, -2_999, -2_998]].concat(),
        "the tenth is deleted"
    );
    let named = most(0, 1, 3).await;
    assert!(named.len() > 200 && named[..9] == popular, "all that a short window names");
    assert_eq!(most(24 * HOUR, 48 * HOUR, 3).await, [0; 0], "another day");
    // The links with the most clicks are deleted: others come into their place.
    other.run_all(format!("UPDATE links SET deleted_at = 1 WHERE position >= {RARE} OR position < 190")).await;
    assert_eq!(most(-72 * HOUR, 1, 2).await, [-2_810, -2_809, -2_808, -2_807]);
    let mut conn = other.conn();
    let (named, exact): (i64, i64) = on!(&mut conn, c => sqlx::query_as(
        "SELECT COUNT(*), COUNT(CASE WHEN link < 200 THEN 1 END) FROM account_links").fetch_one(c).await)
    .expect("counts");
    assert!((250..=800).contains(&named) && exact == 200, "{named} are named, {exact} of the first 200");
    db.close().await;
}

/// With plans that limit, clicks of people and agents are added to their account's month, each exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_count_to_the_month_of_their_account() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    for (link, tenant) in [(1, "a"), (2, "a"), (3, "b")] {
        let sql = format!(
            "INSERT INTO tenants (id, created_at) VALUES ('{tenant}', 0) ON CONFLICT (id) DO NOTHING;
             INSERT INTO deleted_links (position, tenant_id, link_id, deleted_at) VALUES ({link}, '{tenant}', 'a', 0)"
        );
        other.run_all(sql).await;
    }
    let month = |text: &str| text.parse::<Timestamp>().expect("RFC 3339").as_millis();
    let (november, december) = (month("2026-11-01T00:00:00Z"), month("2026-12-01T00:00:00Z"));
    let head = Arc::new(Head::default());
    for _ in 0..2 {
        let clicks = [
            (1, december - 1, 0),
            (2, december - 1, 3),
            (1, december, 0),
            (1, december, 1),
            (3, november, 3),
            (4, november, 0),
        ];
        let rows = clicks.into_iter().map(|(link, at, kind)| {
            (
                NewClick { link, at, kind, platform: 0, agent_code: 0, country: 0, agent: None, referer: None },
                String::new(),
            )
        });
        store(&db, &head, NOW, rows.collect(), true).await;
    }
    let mut conn = other.conn();
    let sql = "SELECT tenant_id, month, events FROM tenant_months ORDER BY tenant_id, month";
    let months: Vec<(String, i64, i64)> = on!(&mut conn, c => sqlx::query_as(sql).fetch_all(c).await).expect("months");
    assert_eq!(months, [("a".into(), november, 4), ("a".into(), december, 2), ("b".into(), november, 2)]);
    db.close().await;
}
