//! Users with a lot of data: a report does part of the work, the rest follows.

use std::time::Duration;

use super::{CREDITS, attribute, converted, count, credits, identify, stays_true};
use deeplink_testing::{eventually, spawn};
use serde_json::json;

const SOON: Duration = Duration::from_secs(30);

/// C3: thousands of conversions that came before their user was known: the binding is answered, and each is credited
/// and becomes an event once, even if the service stops in the middle of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_thousands_of_early_conversions() {
    let mut world = spawn().await;
    for (link, install) in [("spring", "one"), ("autumn", "two"), ("summer", "one")] {
        world.a.make(link).await;
        assert_eq!(attribute(&world.a, link, install).await.status, 200);
        world.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(converted(&world.a, &json!({"user_id": "ann", "type": "purchase"})).await, "unattributed");
    let others = "
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1999)
        INSERT INTO conversions (position, id, tenant_id, app_user, conversion_type, at, received_at)
        SELECT position + n, substr(id, 1, 23) || CAST(10000 + n AS TEXT), tenant_id, app_user, conversion_type, at + n / 2,
            received_at
        FROM conversions, n";
    world.db.execute(others).await;
    world.clock.advance(Duration::from_secs(10));
    let bound_at = world.clock.now().as_millis();
    assert_eq!(identify(&world.a, "one", "ann").await.status, 200);
    let first = format!("conversions WHERE emitted_at = {bound_at}");
    assert!(count(&world, &first).await >= 500);
    world.restart(|_| {}).await;
    let is_done = async || count(&world, "credit_work").await == 0;
    eventually("all are credited", SOON, is_done).await;
    assert_eq!(count(&world, CREDITS).await, 2 * 2_000);
    assert!(count(&world, &first).await >= 500);
    stays_true(&world).await;
    // An install that was touched before them all: each is credited again, and none becomes another event.
    let sum = "SELECT CAST(SUM(emitted_at - received_at) AS BIGINT) FROM conversions";
    let emitted = world.db.number(sum).await;
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(identify(&world.a, "two", "ann").await.status, 200);
    eventually("all are credited again", SOON, is_done).await;
    assert_eq!(count(&world, CREDITS).await, 3 * 2_000);
    assert_eq!(world.db.number(sum).await, emitted);
    stays_true(&world).await;
}

/// Installs without a touch, however many, take no credit from those with one.
#[tokio::test]
async fn untouched_installs_push_no_other_out() {
    let world = spawn().await;
    world.a.make("spring").await;
    assert_eq!(attribute(&world.a, "spring", "touched").await.status, 200);
    assert_eq!(identify(&world.a, "touched", "ann").await.status, 200);
    for number in 0..101 {
        assert_eq!(identify(&world.a, &format!("untouched-{number}"), "ann").await.status, 200);
    }
    assert_eq!(converted(&world.a, &json!({"user_id": "ann", "type": "purchase"})).await, "accepted");
    assert_eq!(credits(&world).await, ["spring purchase first last"]);
    // A user without a touch is known nevertheless.
    assert_eq!(identify(&world.a, "untouched", "ben").await.status, 200);
    assert_eq!(converted(&world.a, &json!({"user_id": "ben", "type": "purchase"})).await, "accepted");
    assert_eq!(count(&world, "conversions WHERE emitted_at IS NULL").await, 0);
}
