//! Conversions: one per key, credited once, whenever their users become known.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{CREDITS, DOMAIN, attribute, convert, converted, count, credits, identify, page_of};
use deeplink_testing::{World, spawn, spawn_with};

fn purchase(user: &str) -> Value {
    json!({"user_id": user, "type": "purchase"})
}

async fn ends(world: &World) -> Vec<String> {
    let sql = "
        SELECT c.conversion_type || COALESCE(' ' || f.link_id, ' -') || COALESCE(' ' || l.link_id, ' -')
        FROM conversions c LEFT JOIN links f ON f.position = c.first_link LEFT JOIN links l ON l.position = c.last_link
        ORDER BY 1";
    world.db.texts(sql).await
}

#[tokio::test]
async fn a_conversion_is_stored_as_it_was_sent() {
    let world = spawn().await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    let body = json!({
        "user_id": "ann", "type": "purchase", "idempotency_key": "order-1", "metadata": {"b": 1, "a": {"c": "é"}},
        "amount_cents": -9_007_199_254_740_991_i64, "currency": "EUR", "occurred_at": "2026-11-19T11:30:00.5+02:00",
        "id": "evt_0123456789abcdef01234567", "tenant_id": "x", "received_at": 1, "unknown": null,
    });
    let reply = convert(&page, &body).await;
    let id = reply.member("event_id");
    let expected = json!({"accepted": 0, "deduped": 0, "unattributed": 1, "failed": 0, "event_id": id});
    assert_eq!((reply.status, reply.json()), (200, expected));
    assert!(id.starts_with("evt_"), "{id}");
    let sql = "
        SELECT c.id || ' ' || c.tenant_id || ' ' || u.user_id || ' ' || c.conversion_type || ' ' || c.metadata || ' '
            || c.amount_cents || c.currency || ' ' || c.at || ' ' || c.received_at || COALESCE(c.source_id, ' -')
        FROM conversions c JOIN app_users u ON u.position = c.app_user";
    let (tenant, now) = (&world.a.tenant, world.clock.now().as_millis());
    let stored = format!(
        "{id} {tenant} ann purchase {{\"b\":1,\"a\":{{\"c\":\"é\"}}}} -9007199254740991EUR 1795080600500 {now} -"
    );
    assert_eq!(world.db.texts(sql).await, [stored]);
}

/// C2: the idempotency key and the conversion commit together, unique by account and key, for 30 days; repeats get the
/// first event's id and have no effect.
#[tokio::test]
async fn c2_a_key_is_known_for_thirty_days() {
    let world = spawn().await;
    let keyed = |key: &str, kind: &str| json!({"user_id": "ann", "type": kind, "idempotency_key": key});
    let first = convert(&world.a, &keyed("order-1", "purchase")).await;
    let again = convert(&world.a, &keyed("order-1", "refund")).await;
    assert_eq!(again.json()["deduped"], 1);
    assert_eq!(first.member("event_id"), again.member("event_id"));
    assert_eq!(converted(&world.b, &keyed("order-1", "purchase")).await, "unattributed", "another account's key");
    assert_eq!(converted(&world.a, &keyed("order-2", "purchase")).await, "unattributed");
    world.clock.advance(Duration::from_millis(30 * 86_400_000 - 1));
    assert_eq!(converted(&world.a, &keyed("order-1", "purchase")).await, "deduped");
    world.clock.advance(Duration::from_millis(1));
    let later = convert(&world.a, &keyed("order-1", "purchase")).await;
    assert_eq!(later.json()["unattributed"], 1);
    assert_ne!(first.member("event_id"), later.member("event_id"));
    assert_eq!(converted(&world.a, &keyed("order-1", "purchase")).await, "deduped", "the key can be used again");
    assert_eq!((count(&world, "conversions").await, count(&world, "conversion_keys").await), (4, 3));
}

/// A visitor with the publishable key cannot use up the server's idempotency keys: the same one from a page and from a
/// server is two conversions, and repeats count on each side. Secret keys and sources are one side.
#[tokio::test]
async fn r15_a_page_cannot_use_up_a_servers_key() {
    let world = spawn().await;
    world.a.make("spring").await;
    attribute(&world.a, "spring", "one").await;
    identify(&world.a, "one", "ann").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    let source = world.a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let source = source.member("webhook_url").split_once("/in/").map(|(_, token)| format!("/in/{token}"));
    let sale = |key: &str, cents: i64| json!({"user_id": "ann", "type": "purchase", "idempotency_key": key, "amount_cents": cents, "currency": "EUR"});
    assert_eq!(converted(&page, &sale("order-1001", 1)).await, "accepted");
    assert_eq!(converted(&world.a, &sale("order-1001", 4_990)).await, "accepted", "the server's own is counted");
    for caller in [&page, &world.a] {
        assert_eq!(converted(caller, &sale("order-1001", 4_990)).await, "deduped");
    }
    // The other way round, and by a source.
    assert_eq!(converted(&world.a, &sale("order-1002", 4_990)).await, "accepted");
    assert_eq!(converted(&page, &sale("order-1002", 1)).await, "accepted");
    let reply = world.nobody.post(&source.expect("an address"), &sale("order-1002", 4_990)).await;
    assert_eq!(reply.json()["deduped"], 1, "a source shares the idempotency keys of the secret keys: {}", reply.text());
    let amounts = "SELECT CAST(amount_cents AS TEXT) FROM conversions ORDER BY position";
    assert_eq!(world.db.texts(amounts).await, ["1", "4990", "4990", "1"]);
    // Once a page's key has expired, it can be used again, but not the same key of the server.
    world.clock.advance(Duration::from_hours(24 * 30));
    assert_eq!(converted(&page, &sale("order-1001", 1)).await, "accepted");
    assert_eq!(converted(&page, &sale("order-1001", 1)).await, "deduped");
}

/// C3: a conversion of an unknown user is kept unattributed; once an install is bound to the user it is credited and
/// becomes an event, once.
#[tokio::test]
async fn c3_an_early_conversion_is_credited_once_its_user_is_known() {
    let world = spawn().await;
    world.a.make("spring").await;
    attribute(&world.a, "spring", "one").await;
    world.clock.advance(Duration::from_secs(1));
    let body = json!({"user_id": "ann", "type": "purchase", "idempotency_key": "order-1"});
    assert_eq!(converted(&world.a, &body).await, "unattributed");
    assert_eq!((count(&world, CREDITS).await, count(&world, "conversions WHERE emitted_at IS NULL").await), (0, 1));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(identify(&world.a, "one", "ann").await.status, 200);
    let emitted = "SELECT emitted_at FROM conversions";
    let at = world.clock.now().as_millis();
    assert_eq!(
        (credits(&world).await, world.db.number(emitted).await),
        (vec!["spring purchase first last".to_owned()], at)
    );
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(converted(&world.a, &body).await, "deduped");
    identify(&world.a, "one", "ann").await;
    identify(&world.a, "two", "ann").await;
    assert_eq!((credits(&world).await.len(), world.db.number(emitted).await), (1, at), "once");
    assert_eq!(converted(&world.a, &purchase("ann")).await, "accepted");
}

/// Credit depends on when things happened, not on when they were reported.
#[tokio::test]
async fn credit_goes_by_time() {
    let world = spawn().await;
    for id in ["spring", "summer", "autumn"] {
        world.a.make(id).await;
    }
    let begin = world.clock.now();
    let at = |seconds: i64| begin.plus_millis(seconds * 1_000);
    for (seconds, link, install) in [(100, "spring", "one"), (200, "summer", "one"), (150, "autumn", "two")] {
        world.clock.set(at(seconds));
        attribute(&world.a, link, install).await;
    }
    world.clock.set(at(300));
    identify(&world.a, "one", "ann").await;
    for seconds in [99, 100, 149, 150, 199, 200, 250] {
        let body = json!({"user_id": "ann", "type": format!("at-{seconds}"), "occurred_at": at(seconds)});
        assert_eq!(converted(&world.a, &body).await, "accepted");
    }
    let alone = [
        "at-100 spring spring",
        "at-149 spring spring",
        "at-150 spring spring",
        "at-199 spring spring",
        "at-200 spring summer",
        "at-250 spring summer",
        "at-99 - -",
    ];
    assert_eq!(ends(&world).await, alone);
    // A second install of the same person, touched in between.
    identify(&world.a, "two", "ann").await;
    let both = [
        "at-100 spring spring",
        "at-149 spring spring",
        "at-150 spring autumn",
        "at-199 spring autumn",
        "at-200 spring summer",
        "at-250 spring summer",
        "at-99 - -",
    ];
    assert_eq!(ends(&world).await, both);
    assert_eq!(count(&world, CREDITS).await, 6 + 4 + 2, "spring, autumn and summer");
    // A clock that was set back: a touch before what is stored.
    world.clock.set(at(50));
    attribute(&world.a, "summer", "one").await;
    let back = [
        "at-100 summer spring",
        "at-149 summer spring",
        "at-150 summer autumn",
        "at-199 summer autumn",
        "at-200 summer summer",
        "at-250 summer summer",
        "at-99 summer summer",
    ];
    assert_eq!(ends(&world).await, back);
    let flags = "
        conversion_credits x JOIN conversions c ON c.position = x.conversion
        WHERE x.link > 0 AND (x.is_first <> (x.link = c.first_link) OR x.is_last <> (x.link = c.last_link))";
    assert_eq!(count(&world, flags).await, 0);
    world.clock.set(at(60));
    attribute(&world.a, "autumn", "one").await;
    assert!(ends(&world).await.contains(&"at-99 summer autumn".to_owned()), "{:?}", ends(&world).await);
    // A reporter whose clock is ahead: the conversion counts as happening when it is reported, so the next touch comes
    // after it.
    let ahead = json!({"user_id": "ann", "type": "ahead", "occurred_at": at(60).plus_millis(300_000)});
    assert_eq!(converted(&world.a, &ahead).await, "accepted");
    let moment = world.db.number("SELECT at FROM conversions WHERE conversion_type = 'ahead'").await;
    assert_eq!(moment, at(60).as_millis());
    world.clock.set(at(61));
    attribute(&world.a, "spring", "one").await;
    assert!(ends(&world).await.contains(&"ahead summer autumn".to_owned()), "{:?}", ends(&world).await);
}

/// C2, U2: with plan limits, conversions beyond the month's events are `failed` and leave nothing; the counter is
/// exact.
#[tokio::test]
async fn c2_conversions_over_the_quota_are_counted_failed() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let month = "2026-11-01T00:00:00Z".parse::<deeplink_core::time::Timestamp>().expect("a moment").as_millis();
    let tenant = &world.a.tenant;
    world.db.execute(format!("INSERT INTO tenant_months VALUES ('{tenant}', {month}, 9998)")).await;
    let keyed = |key: &str| json!({"user_id": "ann", "type": "purchase", "idempotency_key": key});
    assert_eq!(converted(&world.a, &keyed("1")).await, "unattributed");
    assert_eq!(converted(&world.a, &keyed("1")).await, "deduped");
    assert_eq!(converted(&world.a, &keyed("2")).await, "unattributed");
    world.at_rest().await;
    let before = world.db.dump_without_clicks().await;
    let over = |key: &'static str| {
        world
            .a
            .ask(Method::POST, "/v1/lifecycle/convert")
            .header("idempotency-key", key)
            .json(&json!({"user_id": "new", "type": "purchase", "idempotency_key": "3"}))
            .send()
    };
    let failed = over("k").await;
    assert_eq!(failed.json(), json!({"accepted": 0, "deduped": 0, "unattributed": 0, "failed": 1, "event_id": null}));
    assert_eq!(world.db.dump_without_clicks().await, before, "nothing of it stays");
    assert_eq!(converted(&world.a, &keyed("2")).await, "deduped");
    assert_eq!(converted(&world.b, &keyed("3")).await, "unattributed", "another account's month");
    // Touches and bindings are always accepted, and the next month has room.
    assert_eq!(identify(&world.a, "one", "ann").await.status, 200);
    world.clock.advance(Duration::from_hours(24 * 11));
    assert_eq!(over("k").await.json()["unattributed"], 1);
    assert_eq!(
        world
            .db
            .number(format!("SELECT events FROM tenant_months WHERE tenant_id = '{tenant}' AND month = {month}"))
            .await,
        10_000
    );
}
