//! Each fact becomes one event, however often it is reported concurrently.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Reading, deliveries, expect_deliveries, placed, webhook};
use deeplink_testing::{at_once, spawn, spawn_nodes, spawn_with};

/// C2: fifty reports with one idempotency key are one conversion, one event, one delivery, one of the plan's events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_one_key_is_one_event() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let a = &world.a;
    let hook = webhook(a, "sales", &["conversion"], &json!({})).await;
    let reply = a.put("/v1/lifecycle/identify", &json!({"install_id": "install-1", "user_id": "ann"})).await;
    assert_eq!(reply.status, 200);
    let replies = at_once(50, |_| {
        let a = a.clone();
        async move {
            let body = json!({"type": "purchase", "user_id": "ann", "idempotency_key": "order-1"});
            a.post("/v1/lifecycle/convert", &body).await
        }
    })
    .await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    let ids: std::collections::BTreeSet<String> = replies.iter().map(|reply| reply.member("event_id")).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.json()["accepted"] == 1).count(), 1);
    assert_eq!(deliveries(&world, &hook).await.len(), 1);
    assert_eq!(world.db.number("SELECT COUNT(*) FROM events WHERE kind = 3").await, 1);
    assert_eq!(world.db.number("SELECT CAST(SUM(events) AS BIGINT) FROM tenant_months").await, 1);
}

/// C3: a conversion that comes before its user is known becomes an event when the user is known, once.
#[tokio::test]
async fn c3_an_early_conversion_is_told_once() {
    let world = spawn().await;
    let a = &world.a;
    a.make("spring-42").await;
    let hook = webhook(a, "sales", &["conversion"], &json!({})).await;
    let mut stream = Reading::of(a).await;
    let body = json!({"type": "purchase", "user_id": "ann", "idempotency_key": "order-1"});
    let first = a.post("/v1/lifecycle/convert", &body).await;
    assert_eq!(first.json()["unattributed"], 1);
    assert!(deliveries(&world, &hook).await.is_empty());
    let touch = json!({"link_id": "spring-42", "install_id": "install-1", "app_version": "1"});
    assert_eq!(a.post("/v1/lifecycle/attribute", &touch).await.status, 200);
    // The conversion's id is older than the binding that makes it an event, and still its event comes after the
    // binding's.
    world.clock.advance(Duration::from_secs(1));
    for _ in 0..3 {
        let bound = a.put("/v1/lifecycle/identify", &json!({"install_id": "install-1", "user_id": "ann"})).await;
        assert_eq!(bound.status, 200);
        assert_eq!(a.post("/v1/lifecycle/convert", &body).await.json()["deduped"], 1);
    }
    placed(&world).await;
    let told = stream.rest(a).await;
    let kinds: Vec<&str> = told.iter().map(|frame| frame.kind.as_str()).collect();
    assert_eq!(kinds, ["attribute", "identify", "conversion"]);
    assert_eq!(told[2].id, first.member("event_id"));
    // It had happened before the link was opened.
    assert_eq!(told[2].body["data"]["last_touch_link_id"], Value::from("spring-42"));
    assert_eq!(deliveries(&world, &hook).await.len(), 1);
}

/// However many conversions wait for a user, each becomes an event: the first with the binding, the others in the
/// background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_user_is_told_in_pieces() {
    let world = spawn().await;
    let a = &world.a;
    let hook = webhook(a, "sales", &["conversion"], &json!({})).await;
    let tenant = &a.tenant;
    let seed = "INSERT INTO app_users (position, tenant_id, user_id, created_at)";
    world.db.execute(format!("{seed} VALUES (1, '{tenant}', 'ann', 0)")).await;
    world
        .db
        .execute(format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200)
            INSERT INTO conversions (position, id, tenant_id, app_user, conversion_type, at, received_at)
            SELECT n, 'evt_0000000000010000000' || CAST(10000 + n AS TEXT), '{tenant}', 1, 'purchase', n, n FROM n"
        ))
        .await;
    let bound = a.put("/v1/lifecycle/identify", &json!({"install_id": "install-1", "user_id": "ann"})).await;
    assert_eq!(bound.status, 200, "{}", bound.text());
    expect_deliveries(&world, &hook, 1_200).await;
    assert_eq!(world.db.number("SELECT COUNT(*) FROM events WHERE kind = 3").await, 1_200);
    assert_eq!(world.db.number("SELECT COUNT(*) FROM conversions WHERE emitted_at IS NULL").await, 0);
}

/// C4: of two users that claim an install concurrently, one gets it, and there is one binding event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_one_binding_is_told() {
    let world = spawn_nodes(2).await;
    let hook = webhook(&world.a, "users", &["identify"], &json!({})).await;
    at_once(50, |nth| {
        let a = world.at(nth % 2, &world.a);
        async move {
            let body = json!({"install_id": "install-1", "user_id": format!("user-{}", nth / 2 % 2)});
            a.put("/v1/lifecycle/identify", &body).await.status
        }
    })
    .await;
    assert_eq!(deliveries(&world, &hook).await.len(), 1);
}

/// C6: a thousand concurrent resolves are a thousand events, for the stream and for a webhook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_each_resolve_is_one_event() {
    let world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    let hook = webhook(&world.a, "clicks", &["click"], &json!({})).await;
    let streams = [Reading::of(&world.at(0, &world.a)).await, Reading::of(&world.at(1, &world.a)).await];
    let statuses = at_once(20, |nth| {
        let nobody = world.at(nth % 2, &world.nobody);
        async move {
            for _ in 0..50 {
                assert_eq!(nobody.tap("spring-42").await.status, 302);
            }
        }
    })
    .await;
    assert_eq!(statuses.len(), 20);
    for mut stream in streams {
        let told = stream.take(1_000).await;
        let ids: std::collections::BTreeSet<&str> = told.iter().map(|frame| frame.id.as_str()).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(told.iter().all(|frame| frame.kind == "click"));
        assert!(stream.rest(&world.a).await.iter().all(|frame| frame.kind != "click"));
    }
    expect_deliveries(&world, &hook, 1_000).await;
    assert_eq!(world.db.number("SELECT COUNT(*) FROM events WHERE kind = 0").await, 1_000);
}

/// A webhook gets events after its creation, and no click before it subscribed to clicks.
#[tokio::test]
async fn clicks_before_a_webhook_wants_them_are_not_told() {
    let world = spawn().await;
    let a = &world.a;
    a.make("spring-42").await;
    let other = webhook(a, "other", &["click"], &json!({})).await;
    a.tap("spring-42").await;
    let hook = webhook(a, "late", &["conversion"], &json!({})).await;
    a.tap("spring-42").await;
    // A click that the database was slow to store comes to the log later.
    world.expect_clicks(&[(0, 2)]).await;
    let wants = a.ask(http::Method::PATCH, &format!("/v1/webhooks/{hook}")).json(&json!({"events": ["click"]}));
    assert_eq!(wants.send().await.status, 200);
    a.tap("spring-42").await;
    expect_deliveries(&world, &other, 3).await;
    expect_deliveries(&world, &hook, 1).await;
}

/// Without a reader of clicks they are only in the log.
#[tokio::test]
async fn a_click_that_nobody_wants_costs_nothing() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let other = webhook(&world.b, "other", &["click"], &json!({})).await;
    webhook(&world.a, "sales", &["conversion"], &json!({})).await;
    for _ in 0..20 {
        world.a.tap("spring-42").await;
    }
    // This finds the end of the log by a click of B's.
    world.expect_clicks(&[(0, 20)]).await;
    // Click events come in the log's order: once this one is there, everything made from earlier clicks is there.
    world.b.make("the-end").await;
    world.b.tap("the-end").await;
    expect_deliveries(&world, &other, 2).await;
    for table in ["events", "deliveries"] {
        assert_eq!(world.db.number(format!("SELECT COUNT(*) FROM {table}")).await, 2, "{table}");
    }
}

/// Pending deliveries are kept a day longer than the log shows them, which is as long as the operator sets.
#[tokio::test]
async fn events_are_kept_no_longer_than_deliveries() {
    let world = spawn_with(|config| config.retention_days = 7).await;
    let a = &world.a;
    a.make("spring-42").await;
    let hook = webhook(a, "all", &["click", "identify"], &json!({})).await;
    a.tap("spring-42").await;
    let bound = a.put("/v1/lifecycle/identify", &json!({"install_id": "install-1", "user_id": "ann"})).await;
    assert_eq!(bound.status, 200);
    expect_deliveries(&world, &hook, 2).await;
    assert_eq!(a.post(&format!("/v1/webhooks/{hook}/test"), &json!({})).await.status, 200);
    let until = world.clock.now().plus_days(8).as_millis();
    for kept in
        ["SELECT COUNT(*) FROM events".to_owned(), format!("SELECT COUNT(*) FROM events WHERE kept_until = {until}")]
    {
        assert_eq!(world.db.number(&*kept).await, 3, "{kept}");
    }
}
