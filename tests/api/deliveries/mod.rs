//! Deliveries as receivers see them: their schedule, their contents, and what happens to those that are not accepted.

mod health;
mod hostile;
mod kept;
mod late;
mod nodes;
mod rotation;
mod schedule;
mod shares;
mod signing;
mod suspended;

use std::time::Duration;

use deeplink_core::webhook::DeliveryDetail;
use deeplink_server::config::{Config, TrustedRoots};
use serde_json::{Value, json};
use tempfile::TempDir;

use deeplink_doubles::authority::Authority;
use deeplink_doubles::receiver::{Receiver, Say};
use deeplink_testing::{Caller, World, eventually, spawn_nodes_with};

/// How long background work may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
const HOST: &str = "hooks.example.com";

/// A world whose service may call 127.0.0.2 and trusts the test's authority.
struct Scene {
    world: World,
    authority: Authority,
    _folder: TempDir,
}

/// A webhook of the test.
#[derive(Debug, Clone)]
struct Hook {
    id: String,
    secret: String,
}

impl Scene {
    async fn new() -> Self {
        Self::with(1, |_| {}).await
    }

    async fn with(nodes: usize, adjust: impl Fn(&mut Config)) -> Self {
        let authority = Authority::new();
        let folder = tempfile::tempdir().expect("a directory");
        let roots = folder.path().join("roots.pem");
        std::fs::write(&roots, authority.pem()).expect("written");
        let world = spawn_nodes_with(nodes, |config| {
            config.outbound_ca = Some(TrustedRoots::read(&roots).expect("the authority"));
            config.outbound_allow = "127.0.0.2/32".parse().expect("a network");
            adjust(config);
        })
        .await;
        for name in [HOST, "other.example.com"] {
            world.dns.addresses(name, &["127.0.0.2"]);
        }
        Self { world, authority, _folder: folder }
    }

    /// A receiver that always does the same.
    async fn receiver(&self, say: Say) -> Receiver {
        Receiver::says(&self.authority, say).await
    }

    /// Makes a webhook for clicks.
    async fn hook(&self, of: &Caller, url: &str) -> Hook {
        let made = of.post("/v1/webhooks", &json!({"url": url, "events": ["click"]})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let secret = made.member("secret");
        self.world.note_secret(&secret);
        Hook { id: made.member("id"), secret }
    }

    /// Sends a test event and returns the delivery's id.
    async fn test(&self, of: &Caller, hook: &Hook) -> String {
        let made = of.post(&format!("/v1/webhooks/{}/test", hook.id), &json!({})).await;
        assert_eq!(made.status, 200, "{}", made.text());
        made.member("id")
    }

    /// Changes a webhook.
    async fn change(&self, of: &Caller, hook: &Hook, body: &Value) {
        let changed = of.ask(http::Method::PATCH, &format!("/v1/webhooks/{}", hook.id)).json(body).send().await;
        assert_eq!(changed.status, 200, "{}", changed.text());
    }

    /// A webhook's deliveries as the service shows them.
    async fn deliveries(&self, of: &Caller, hook: &Hook) -> Vec<DeliveryDetail> {
        let shown = of.get(&format!("/v1/webhooks/{}/deliveries", hook.id)).await.json();
        serde_json::from_value(shown["deliveries"].clone()).expect("deliveries")
    }

    /// Stores `count` deliveries at once, as events of a busy account would, all due now.
    async fn pile_up(&self, of: &Caller, hook: &Hook, count: usize) {
        let now = self.world.clock.now().as_millis();
        let series = if self.world.db.is_postgres() {
            format!("generate_series(1, {count}) AS series (n)")
        } else {
            format!(
                "(WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count})
                  SELECT n FROM series) AS series"
            )
        };
        let number = "substr('000000000000' || n, length('000000000000' || n) - 11)";
        let event = format!("'evt_{}' || {number}", &hook.id[15..]);
        let delivery = format!("'dlv_{}' || {number}", &hook.id[15..]);
        let body = r#"'{"event":"click","timestamp":"2026-11-20T09:30:00.000Z","data":{"n":' || n || '}}'"#;
        let (tenant, id) = (&of.tenant, &hook.id);
        self.world
            .db
            .execute(format!(
                "INSERT INTO events (id, tenant_id, kind, position, body, kept_until)
                     SELECT {event}, '{tenant}', 0, 0, {body}, {now} + 2678400000 FROM {series};
                 INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, state, tries, due_at, log, created_at)
                     SELECT {delivery}, '{tenant}', '{id}', {event}, 0, 0, {now}, '[]', {now} FROM {series}"
            ))
            .await;
    }

    /// How many of a webhook's deliveries are in a state: 0 pending, 1 delivered, 2 failed, 3 canceled, 4 dropped.
    async fn count(&self, hook: &Hook, state: i64) -> i64 {
        let sql = format!(
            "SELECT CAST(COUNT(*) AS BIGINT) FROM deliveries WHERE webhook_id = '{}' AND state = {state}",
            hook.id
        );
        self.world.db.number(sql).await
    }

    /// How many of a webhook's attempts are stored.
    async fn attempts(&self, hook: &Hook) -> i64 {
        let sql =
            format!("SELECT CAST(COALESCE(SUM(tries), 0) AS BIGINT) FROM deliveries WHERE webhook_id = '{}'", hook.id);
        self.world.db.number(sql).await
    }

    /// Waits until this many of a webhook's attempts are stored.
    async fn attempted(&self, hook: &Hook, attempts: i64) {
        eventually(&format!("{attempts} attempts are stored"), PATIENCE, || async {
            self.attempts(hook).await >= attempts
        })
        .await;
    }

    /// Waits until this many of a webhook's deliveries are in a state.
    async fn settled(&self, hook: &Hook, state: i64, count: i64) {
        eventually(&format!("{count} are in state {state}"), PATIENCE, || async {
            self.count(hook, state).await == count
        })
        .await;
    }
}
