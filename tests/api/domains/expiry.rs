//! The first verified primary domain lifts the expiry of the links that are still active.

use std::time::Duration;

use serde_json::{Value, json};

use super::{proof_of, verify};
use deeplink_testing::{Role, eventually, spawn, spawn_nodes};

const SOON: Duration = Duration::from_mins(1);

const DAY: Duration = Duration::from_hours(24);

#[tokio::test]
async fn the_first_primary_lifts_the_expiry_of_active_links() {
    let world = spawn().await;
    world.a.make("expired").await;
    world.clock.advance(DAY * 20);
    for id in ["active", "flagged", "disabled"] {
        world.a.make(id).await;
    }
    world.b.make("of-b").await;
    world
        .db
        .execute("UPDATE links SET status = link_id, taken_down = TRUE WHERE link_id IN ('flagged', 'disabled')")
        .await;
    world.clock.advance(DAY * 10);
    let shown = async |id: &str| world.a.get(&format!("/v1/links/{id}")).await.json();
    assert_eq!(world.a.tap("active").await.status, 302, "it is cached, with its expiry");
    assert_eq!(shown("active").await["expires_at"], "2027-01-09T09:30:00.010Z");

    world.own_domain(&world.a, "open.example.com", Role::Alternate).await;
    assert_ne!(shown("active").await["expires_at"], Value::Null, "an alternate lifts nothing");
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let active = shown("active").await;
    assert_eq!((&active["expires_at"], &active["url"]), (&Value::Null, &json!("https://go.example.com/active")));
    assert_eq!(shown("expired").await["status"], "expired", "an expired link stays expired");
    for id in ["flagged", "disabled"] {
        assert_ne!(shown(id).await["expires_at"], Value::Null, "{id} is not active");
    }
    assert_ne!(world.b.get("/v1/links/of-b").await.json()["expires_at"], Value::Null);

    world.clock.advance(DAY * 365);
    assert_eq!(world.a.tap("active").await.status, 302);
    let on_host = world.nobody.browse(http::Method::GET, "/active").header("host", "go.example.com");
    assert_eq!(on_host.send().await.status, 302);
    assert_eq!(world.a.tap("expired").await.status, 410);
}

/// Links created while no primary was verified lose their expiry once there is one again.
#[tokio::test]
async fn a_primary_after_a_time_without_one_is_a_first_one() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    assert_eq!(world.a.delete("/v1/domains/go.example.com").await.status, 204);
    world.a.make("meanwhile").await;
    let expiry = async || world.a.get("/v1/links/meanwhile").await.json()["expires_at"].clone();
    assert_ne!(expiry().await, Value::Null);
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    assert_eq!(expiry().await, Value::Null);
}

/// Every link's expiry in a large account is lifted, in batches that are completed whatever happens in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_links_are_lifted_to_the_last() {
    const LINKS: i64 = 12_345;
    let world = spawn_nodes(2).await;
    let (tenant, now) = (&world.a.tenant, world.clock.now().as_millis());
    let fill = format!(
        "INSERT INTO links (tenant_id, link_id, position, claimed, expires_at, created_at, updated_at)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LINKS})
         SELECT '{tenant}', 'link-' || i, i, TRUE, {now} + 60000 * (i % 3), {now}, {now} FROM n"
    );
    world.db.execute(fill).await;
    let left = "SELECT CAST(count(*) AS BIGINT) FROM links WHERE expires_at IS NOT NULL";
    let expired = LINKS / 3;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    // The reply waits for a few seconds at most, and the rest is lifted in the background.
    eventually("all except expired ones", SOON, || async { world.db.number(left).await == expired }).await;

    // As if the process had ended after some of them; the time of the verification still determines which were active.
    world.db.execute(format!("UPDATE links SET expires_at = {now} + 60000 WHERE position % 2 = 0")).await;
    world.clock.advance(DAY);
    world.db.execute(format!("UPDATE tenants SET lifting_since = {now}, lifted_to = 6000 WHERE id = '{tenant}'")).await;
    world.clock.advance(Duration::from_millis(10));
    let behind = format!("{left} AND position > 6000 AND position % 2 = 0");
    eventually("the rest is lifted", SOON, || async { world.db.number(&*behind).await == 0 }).await;
    assert_eq!(world.db.number(format!("{left} AND position <= 6000 AND position % 2 = 0")).await, 3_000);
    eventually("it is recorded as done", SOON, || async {
        world.db.number("SELECT CAST(count(*) AS BIGINT) FROM tenants WHERE lifting_since IS NOT NULL").await == 0
    })
    .await;
}

/// A link that is created during the verification has no expiry in the end, whichever came first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_made_meanwhile_do_not_end_either() {
    let world = spawn_nodes(2).await;
    for round in 0..5 {
        let domain = format!("n{round}.example.com");
        let token = world.claim_domain(&world.a, &domain, Role::Primary).await;
        world.dns.txt(&proof_of(&domain), &[&token]);
        let making: Vec<_> = (0..10)
            .map(|number| {
                let caller = world.at(number % 2, &world.a);
                let (path, body) = match number % 3 {
                    0 => ("/v1/links/bulk", json!({"template": {}, "count": 2})),
                    _ => ("/v1/links", json!({})),
                };
                tokio::spawn(async move { caller.post(path, &body).await.status })
            })
            .collect();
        assert_eq!(verify(&world.a, &domain).await["verified"], true);
        for made in making {
            assert_eq!(made.await.expect("an answer"), 201);
        }
        let ending = "SELECT CAST(count(*) AS BIGINT) FROM links WHERE expires_at IS NOT NULL";
        assert_eq!(world.db.number(ending).await, 0, "round {round}");
        assert_eq!(world.a.delete(&format!("/v1/domains/{domain}")).await.status, 204);
    }
}
