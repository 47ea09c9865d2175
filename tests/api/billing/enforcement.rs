//! The effective plan sets the limits.

use deeplink_testing::{Caller, World, spawn_with};
use serde_json::json;

/// An account with everything that the free plan includes, and more.
async fn full(world: &World) -> &Caller {
    let a = &world.a;
    let bulk = json!({"template": {"web_url": "https://example.com/"}, "count": 50});
    assert_eq!(a.post("/v1/links/bulk", &bulk).await.status, 201);
    assert_eq!(a.post("/v1/domains", &json!({"domain": "go.example.com"})).await.status, 201);
    let event = json!({"user_id": "user-1", "type": "purchase"});
    assert_eq!(a.post("/v1/lifecycle/convert", &event).await.status, 200);
    world.db.execute("UPDATE tenant_months SET events = 10000").await;
    a
}

/// A granted plan lifts every limit, and a subscription whose payment failed seven days ago grants nothing.
#[tokio::test]
async fn bl1_limits_are_those_of_the_plan_that_holds() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let a = full(&world).await;
    let now = world.clock.now().as_millis();
    let day = 86_400_000;
    for (number, (comp, subscribed, status, failed, holds)) in [
        ("NULL", "free", "NULL", "NULL".to_owned(), false),
        ("'pro'", "free", "NULL", "NULL".to_owned(), true),
        ("NULL", "business", "'past_due'", (now - 7 * day).to_string(), false),
        ("NULL", "business", "'past_due'", (now - 7 * day + 60_000).to_string(), true),
        ("NULL", "business", "'canceled'", "NULL".to_owned(), false),
        ("NULL", "business", "'active'", "NULL".to_owned(), true),
    ]
    .into_iter()
    .enumerate()
    {
        let sql = format!(
            "UPDATE tenants SET comp_tier = {comp}, plan_tier = '{subscribed}', subscription_status = {status},
                past_due_since = {failed} WHERE id = '{}'",
            a.tenant
        );
        world.db.execute(sql).await;
        let bulk = json!({"template": {"web_url": "https://example.com/"}, "count": 1});
        for (path, body, made) in [
            ("/v1/links", json!({}), 201),
            ("/v1/links/bulk", bulk, 201),
            ("/v1/domains", json!({"domain": format!("go{number}.example.com")}), 201),
            ("/v1/auth/users", json!({"email": format!("friend{number}@example.com")}), 201),
        ] {
            let reply = a.post(path, &body).await;
            let expected = if holds { made } else { 402 };
            assert_eq!(reply.status, expected, "{number} {path}: {}", reply.text());
        }
        let event = json!({"user_id": "user-1", "type": "purchase"});
        let told = a.post("/v1/lifecycle/convert", &event).await.json();
        let failed = i32::from(!holds);
        assert_eq!((&told["failed"], told["event_id"].is_string()), (&json!(failed), holds), "{number}: {told}");
    }
}
