//! How long clicks stay in the log, and what is counted of them for plans.

use std::collections::BTreeMap;

use deeplink_core::id::EventId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::counts::total;
use super::{Home, NOW, click_at, settled};
use crate::clicks::{Click, Retention};
use crate::db::{events, expired, on};
use crate::shares::Share;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_takes_old_clicks_and_the_texts_that_only_they_named() {
    const DAY: i64 = 86_400_000;
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let texts = clicks.texts();
    let named = |link: i64, at: i64, agent: &str| Click {
        agent: texts.agent(Some(agent.as_bytes())).text(),
        referer: None,
        kind: 0,
        ..click_at(texts, link, at)
    };
    clicks.record(&named(1, NOW, "old"));
    clicks.record(&named(1, NOW, "still used"));
    settled(&clicks).await;
    home.clock.set(Timestamp::from_millis(NOW + 40 * DAY));
    clicks.record(&named(1, NOW + 40 * DAY, "still used"));
    clicks.record(&named(1, NOW + 40 * DAY, "new"));
    settled(&clicks).await;
    clicks.sweep(Retention::Days(0)).await.expect("a sweep");
    assert_eq!(home.other().await.stored().await.len(), 4, "0 keeps everything");
    clicks.sweep(Retention::Days(30)).await.expect("a sweep");
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

/// Each account's clicks go when its own plan says, and what a plan keeps longer stays; counts stay as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_goes_by_the_plan_of_each_account() {
    const DAY: i64 = 86_400_000;
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    for (link, plan) in [(1, "free"), (2, "pro"), (3, "business"), (4, "scale"), (5, "gone")] {
        let sql = format!(
            "INSERT INTO tenants (id, created_at, plan_tier) VALUES ('tenant-{link}', 0, '{plan}');
             INSERT INTO deleted_links (position, tenant_id, link_id, deleted_at) VALUES ({link}, 'tenant-{link}', 'a', 0)"
        );
        other.run_all(sql).await;
    }
    let ages = [2_000, 1_500, 800, 200, 10];
    for age in ages {
        home.clock.set(Timestamp::from_millis(NOW - age * DAY));
        for link in 1..=6 {
            clicks.record(&Click { kind: 0, ..click_at(clicks.texts(), link, NOW - age * DAY) });
        }
        settled(&clicks).await;
    }
    home.clock.set(Timestamp::from_millis(NOW));
    // Twice: what was passed once is not looked at again, and nothing more goes.
    for _ in 0..2 {
        clicks.sweep(Retention::Plans).await.expect("a sweep");
        let mut left: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for click in other.stored().await {
            left.entry(click.1).or_default().push((NOW - click.2) / DAY);
        }
        let expected = [(1, vec![10]), (2, vec![200, 10]), (3, vec![800, 200, 10]), (4, vec![1_500, 800, 200, 10])];
        // A plan that is unknown here and a link that is nobody's keep no more than the smallest plan.
        assert_eq!(left, expected.into_iter().chain([(5, vec![10]), (6, vec![10])]).collect());
    }
    for link in 1..=6 {
        assert_eq!(total(&db, link, 0, NOW).await, 5, "counts stay");
    }
    let marks = "SELECT COUNT(DISTINCT position) FROM click_marks WHERE name LIKE 'removed%' AND position > 0";
    let mut conn = other.conn();
    let marks: i64 = on!(&mut conn, c => sqlx::query_scalar(marks).fetch_one(c).await).expect("a count");
    assert_eq!(marks, 4, "each plan has come as far as it keeps clicks");
    db.close().await;
}

/// The plan that holds decides: the operator's grant, and the subscription's only while it grants one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bl1_retention_goes_by_the_plan_that_holds() {
    const DAY: i64 = 86_400_000;
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    let accounts = [
        ("'free', 'pro', NULL, NULL", true),
        ("'pro', NULL, 'active', NULL", true),
        ("'pro', NULL, 'past_due', 6", true),
        ("'pro', NULL, 'past_due', 8", false),
        ("'pro', NULL, 'canceled', NULL", false),
        ("'pro', 'business', 'canceled', NULL", true),
    ];
    for (link, (plan, _)) in (1..).zip(accounts) {
        let (plan, days) = plan.rsplit_once(", ").expect("columns");
        let since = days.parse().map_or("NULL".to_owned(), |days: i64| (NOW - days * DAY).to_string());
        let sql = format!(
            "INSERT INTO tenants (id, created_at, plan_tier, comp_tier, subscription_status, past_due_since)
             VALUES ('tenant-{link}', 0, {plan}, {since});
             INSERT INTO deleted_links (position, tenant_id, link_id, deleted_at) VALUES ({link}, 'tenant-{link}', 'a', 0)"
        );
        other.run_all(sql).await;
    }
    home.clock.set(Timestamp::from_millis(NOW - 200 * DAY));
    for (link, _) in (1..).zip(accounts) {
        clicks.record(&Click { kind: 0, ..click_at(clicks.texts(), link, NOW - 200 * DAY) });
    }
    settled(&clicks).await;
    home.clock.set(Timestamp::from_millis(NOW));
    clicks.sweep(Retention::Plans).await.expect("a sweep");
    let left: Vec<i64> = other.stored().await.into_iter().map(|click| click.1).collect();
    let kept: Vec<i64> = (1..).zip(accounts).filter(|(_, (_, stays))| *stays).map(|(link, _)| link).collect();
    assert_eq!(left, kept);
    db.close().await;
}

/// Other events stay in the log as long as clicks do, by their place in it: as the operator says, or as each account's plan
/// does. What a delivery needs stays until then, and copies of clicks go by their own time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_go_when_clicks_do() {
    const DAY: i64 = 86_400_000;
    const AGES: [i64; 6] = [2_000, 1_500, 800, 200, 45, 10];
    let home = Home::new();
    let (db, clicks) = home.start().await;
    let mut other = home.other().await;
    let mut random = Random::system();
    // A conversion has its id from before its user was known.
    let mut event = |tenant: i64, age: i64, kind: i64, kept_until: i64| {
        let id = EventId::new(Timestamp::from_millis(NOW - 3_000 * DAY), &mut random);
        let position = crate::db::clicks::position_at(NOW - age * DAY) + 100 * tenant + kind;
        format!(
            "INSERT INTO events (id, tenant_id, kind, position, body, kept_until)
             VALUES ('{id}', 'tenant-{tenant}', {kind}, {position}, '{age}', {kept_until});"
        )
    };
    for (tenant, plan) in [(1, "free"), (2, "pro"), (3, "business"), (4, "scale"), (5, "gone")] {
        let account =
            format!("INSERT INTO tenants (id, created_at, plan_tier) VALUES ('tenant-{tenant}', 0, '{plan}');");
        let events: String = AGES.iter().map(|age| event(tenant, *age, 1 + tenant % 3, 0)).collect();
        other.run_all(account + &events).await;
    }
    // Needed for five days more, and a copy of a click.
    let kept = [event(1, 1_700, 3, NOW + 5 * DAY), event(1, 1_600, 0, 0)].concat();
    other.run_all(kept).await;
    let mut expected: Vec<Vec<i64>> = vec![AGES.to_vec(); 5];
    expected[0] = vec![2_000, 1_700, 1_600, 1_500, 800, 200, 45, 10];
    // A plan that is unknown here keeps no more than the smallest one.
    let plans = [30, 365, 1_095, 1_825, 30];
    for (day, retention, longest) in [
        (0, Retention::Days(0), [i64::MAX; 5]),
        (0, Retention::Days(1_900), [1_900; 5]),
        (0, Retention::Plans, plans),
        (0, Retention::Plans, plans),
        (0, Retention::Days(20), [20; 5]),
        (6, Retention::Plans, plans),
    ] {
        let now = Timestamp::from_millis(NOW + day * DAY);
        home.clock.set(now);
        clicks.sweep(retention).await.expect("a sweep");
        if day > 0 {
            // What has left the log goes by its own time.
            let expired = db.write(Share::Service, (), move |tx, ()| expired::sweep(tx, events::EXPIRED, now).boxed());
            assert!(!expired.await.expect("a sweep"), "there were few");
        }
        for (ages, longest) in expected.iter_mut().zip(longest) {
            ages.retain(|age| *age <= longest || [1_600, 1_700].contains(age) && day == 0);
        }
        const LEFT: &str = "SELECT tenant_id, body FROM events ORDER BY position";
        let mut conn = other.conn();
        let rows: Vec<(String, String)> =
            on!(&mut conn, c => sqlx::query_as(LEFT).fetch_all(c).await).expect("the events");
        let left = |tenant: i64| {
            let of = format!("tenant-{tenant}");
            rows.iter().filter(|row| row.0 == of).map(|row| row.1.parse().expect("an age")).collect::<Vec<i64>>()
        };
        let mut left: Vec<_> = (1..=5).map(left).collect();
        // One has left the log, and stands before it.
        left[0].sort_unstable_by_key(|age| -age);
        assert_eq!(left, expected, "{retention:?} after {day} days");
    }
    db.close().await;
}

/// Hours are counted by platform and host for some weeks, and days for as long as clicks are kept; what counts neither stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_visitors_name_does_not_stay_for_ever() {
    const DAY: i64 = 86_400_000;
    let home = Home::new();
    let (db, clicks) = home.start().await;
    for age in [50, 36, 34, 0] {
        home.clock.set(Timestamp::from_millis(NOW - age * DAY));
        for link in 1..=300 {
            clicks.record(&Click { kind: 0, ..click_at(clicks.texts(), link, NOW - age * DAY) });
        }
        settled(&clicks).await;
    }
    home.clock.set(Timestamp::from_millis(NOW));
    let mut other = home.other().await;
    let mut count = async |table: &str| {
        let mut conn = other.conn();
        let sql = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        let rows: i64 = on!(&mut conn, c => sqlx::query_scalar(sql).fetch_one(c).await).expect("a count");
        rows / 300
    };
    clicks.sweep(Retention::Days(0)).await.expect("a sweep");
    assert_eq!((count("click_facets").await, count("click_facet_days").await), (2, 4));
    clicks.sweep(Retention::Days(40)).await.expect("a sweep");
    assert_eq!((count("click_facets").await, count("click_facet_days").await), (2, 3));
    assert_eq!((count("click_hours").await, count("click_days").await), (4, 4));
    db.close().await;
}
