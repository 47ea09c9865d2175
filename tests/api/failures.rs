//! X2: internal failures are not disclosed; the log has their causes.

use deeplink_server::config::OauthProvider;
use http::Method;
use serde_json::json;

use crate::errors::hook;
use crate::events::placed;
use crate::lifecycle::page_of;
use crate::outbound::png;
use crate::webhooks::settled_delivery;
use deeplink_testing::{Ask, World, spawn, spawn_with};

/// Every operation on webhooks, on the one at this path and its delivery of this id.
fn on_webhooks(world: &World, webhook: &str, delivery: &str) -> Vec<Ask> {
    let ask = |method, path: &str| world.a.ask(method, path);
    vec![
        ask(Method::GET, "/v1/webhooks"),
        ask(Method::POST, "/v1/webhooks").json(&hook()),
        ask(Method::PATCH, webhook).json(&json!({"active": false})),
        ask(Method::DELETE, webhook),
        ask(Method::POST, &format!("{webhook}/rotate-secret")),
        ask(Method::POST, &format!("{webhook}/test")).json(&json!({})),
        ask(Method::GET, &format!("{webhook}/deliveries")),
        ask(Method::POST, &format!("{webhook}/deliveries/{delivery}/replay")),
        ask(Method::POST, &format!("{webhook}/replay")).json(&json!({"since": "2026-11-20T00:00:00Z"})),
    ]
}

/// X2: when the store fails, the caller learns the request's id and nothing else; the cause is in the log.
#[tokio::test]
async fn x2_what_failed_inside_stays_inside() {
    let world = spawn_with(|config| {
        let nowhere = "http://127.0.0.1:9".parse().expect("a URL");
        config.oauth.google = Some(OauthProvider::new("ours", "of ours", nowhere));
    })
    .await;
    world.a.make("spring-42").await;
    let session = world.session_of(&world.a).await;
    let page = page_of(&world, &world.a, "pages.example.com").await;
    let token = "0".repeat(64);
    let form = |path: &str| world.nobody.ask(Method::POST, path).form(&[("token", &token)]);
    let webhook = world.a.post("/v1/webhooks", &hook()).await;
    let delivery = settled_delivery(&world, &world.a, &webhook.member("id")).await;
    let install = json!({"install_id": "install-1", "user_id": "ann"});
    assert_eq!(world.a.put("/v1/lifecycle/identify", &install).await.status, 200, "the log has an event");
    placed(&world).await;
    // The columns for key lookup stay.
    let hide = "ALTER TABLE links RENAME TO hidden; ALTER TABLE users RENAME TO hidden_users;
        ALTER TABLE domains RENAME TO hidden_domains; ALTER TABLE apps RENAME TO hidden_apps;
        ALTER TABLE affiliates RENAME COLUMN partner_key TO hidden; ALTER TABLE secret_keys RENAME COLUMN key_prefix TO hidden;
        ALTER TABLE tenants RENAME COLUMN link_count TO hidden; ALTER TABLE tenants RENAME COLUMN theme_color TO hidden_color; ALTER TABLE publishable_keys RENAME TO hidden_keys;
        ALTER TABLE sign_ins RENAME TO hidden_sign_ins; ALTER TABLE tokens RENAME TO hidden_tokens;
        ALTER TABLE sources RENAME TO hidden_sources; ALTER TABLE installs RENAME TO hidden_installs; ALTER TABLE app_users RENAME TO hidden_app_users;
        ALTER TABLE webhooks RENAME TO hidden_webhooks; ALTER TABLE events RENAME TO hidden_events; ALTER TABLE mail_allowances RENAME TO hidden_allowances; ALTER TABLE oauth_states RENAME TO hidden_states;
        ALTER TABLE audit_log RENAME TO hidden_audit; ALTER TABLE tags RENAME TO hidden_tags; ALTER TABLE qr_logos RENAME TO hidden_logos";
    world.db.execute(hide).await;
    let mark = deeplink_testing::log_mark();
    let app = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    let affiliate = "/v1/affiliates/aff_0123456789abcdef01234567";
    let credentials = format!("{affiliate}/credentials");
    let confirm = json!({"email": "a@example.com", "token": "ABC123"});
    let report =
        json!({"link_id": "spring-42", "install_id": "one", "app_version": "1", "user_id": "ann", "type": "purchase"});
    let source = "/v1/sources/src_0123456789abcdef01234567";
    let webhook = webhook.header("location").to_owned();
    let mut ids = Vec::new();
    let others = vec![
        world.a.ask(Method::GET, "/v1/events/stream").header("last-event-id", "evt_0123456789abcdef01234567"),
        world.a.ask(Method::GET, "/v1/sources"),
        world.a.ask(Method::GET, "/v1/account"),
        world.a.ask(Method::GET, "/v1/account/export"),
        world.a.ask(Method::PATCH, "/v1/account").json(&json!({"name": "Example"})),
        world.a.ask(Method::POST, "/v1/account/deletion").json(&json!({"confirm": world.a.tenant})),
        world.a.ask(Method::DELETE, "/v1/account/deletion"),
        world.a.ask(Method::GET, "/v1/audit"),
        world.a.ask(Method::GET, "/v1/analytics/events"),
        world.a.ask(Method::POST, "/v1/sources").json(&json!({"name": "Shop", "source_type": "custom"})),
        world.a.ask(Method::GET, source),
        world.a.ask(Method::DELETE, source),
        world.nobody.ask(Method::POST, &format!("/in/{token}")).json(&report),
        world.a.ask(Method::GET, "/v1/links"),
        world.a.ask(Method::GET, "/v1/links/spring-42"),
        world.a.ask(Method::POST, "/v1/links").json(&json!({})),
        world.a.ask(Method::POST, "/v1/links/bulk").json(&json!({"template": {}, "count": 2})),
        world.a.ask(Method::PUT, "/v1/links/spring-42").json(&json!({"web_url": null})),
        world.a.ask(Method::PATCH, "/v1/links/bulk").json(&json!({"link_ids": ["spring-42"], "add_tags": ["spring"]})),
        world.a.ask(Method::DELETE, "/v1/links/bulk").json(&json!({"link_ids": ["spring-42"]})),
        world.a.ask(Method::DELETE, "/v1/links/spring-42"),
        world.a.ask(Method::GET, "/v1/tags"),
        world.a.ask(Method::PUT, "/v1/tags/spring").json(&json!({"tag": "summer"})),
        world.a.ask(Method::DELETE, "/v1/tags/spring"),
        world.a.ask(Method::GET, "/v1/qr-logos"),
        world.a.ask(Method::PUT, "/v1/qr-logos/acme").body_as("image/png", png()),
        world.a.ask(Method::GET, "/v1/qr-logos/acme"),
        world.a.ask(Method::DELETE, "/v1/qr-logos/acme"),
        world.a.ask(Method::GET, "/v1/links/spring-42/timeseries"),
        world.a.ask(Method::GET, "/v1/links/spring-42/stats"),
        world.a.ask(Method::GET, "/v1/analytics/stats?link_ids=spring-42"),
        world.a.ask(Method::GET, "/v1/links/spring-42/qr.svg"),
        world.a.ask(Method::GET, "/v1/links/spring-42/explain"),
        world.a.ask(Method::GET, "/v1/links/spring-42/history"),
        world.a.ask(Method::POST, "/v1/links/spring-42/restore").json(&json!({})),
        world.a.ask(Method::GET, "/v1/domains"),
        world.a.ask(Method::POST, "/v1/domains").json(&json!({"domain": "go.example.com"})),
        world.a.ask(Method::POST, "/v1/domains/go.example.com/verify"),
        world.a.ask(Method::PATCH, "/v1/domains/go.example.com").json(&json!({"root_url": "https://example.com/"})),
        world.a.ask(Method::DELETE, "/v1/domains/go.example.com"),
        world.a.ask(Method::GET, "/v1/apps"),
        world.a.ask(Method::POST, "/v1/apps").json(&app),
        world.a.ask(Method::DELETE, "/v1/apps/app_0123456789abcdef01234567"),
        world.a.ask(Method::GET, "/v1/auth/whoami"),
        world.a.ask(Method::GET, "/v1/auth/secret-keys"),
        world.a.ask(Method::POST, "/v1/auth/secret-keys").json(&json!({"email": "a@example.com"})),
        world.a.ask(Method::POST, "/v1/auth/secret-keys/confirm").json(&confirm),
        world.a.ask(Method::DELETE, "/v1/auth/secret-keys/skid_0123456789abcdef01234567"),
        world.nobody.ask(Method::POST, "/v1/auth/secret-keys/issue").session(&session).json(&json!({})),
        world.a.ask(Method::GET, "/v1/auth/publishable-keys"),
        world.a.ask(Method::POST, "/v1/auth/publishable-keys").json(&json!({"domain": "go.example.com"})),
        world.a.ask(Method::DELETE, "/v1/auth/publishable-keys/pkid_0123456789abcdef01234567"),
        world.a.ask(Method::GET, "/v1/affiliates"),
        world.a.ask(Method::POST, "/v1/affiliates").json(&json!({"name": "x", "partner_key": "xy"})),
        world.a.ask(Method::GET, affiliate),
        world.a.ask(Method::PATCH, affiliate).json(&json!({"name": "x"})),
        world.a.ask(Method::DELETE, affiliate),
        world.a.ask(Method::GET, &credentials),
        world.a.ask(Method::POST, &credentials),
        world.a.ask(Method::DELETE, &format!("{credentials}/skid_0123456789abcdef01234567")),
        world.nobody.ask(Method::GET, "/.well-known/apple-app-site-association").header("host", "go.example.com"),
        world.nobody.ask(Method::GET, "/.well-known/assetlinks.json").header("host", "go.example.com"),
        world.nobody.ask(Method::POST, "/v1/auth/signup").json(&json!({"email": "new@example.com"})),
        world.nobody.ask(Method::POST, "/v1/auth/signin").json(&json!({"email": "new@example.com"})),
        form("/v1/auth/callback"),
        form("/v1/auth/verify"),
        world.nobody.ask(Method::GET, "/v1/auth/oauth/google/start"),
        world.nobody.ask(Method::GET, &format!("/v1/auth/oauth/google/callback?state={token}")),
        world.nobody.ask(Method::GET, "/v1/auth/me").session(&session),
        world.nobody.ask(Method::POST, "/v1/auth/signout").session(&session),
        world.a.ask(Method::GET, "/v1/auth/users"),
        world.a.ask(Method::POST, "/v1/auth/users").json(&json!({"email": "new@example.com"})),
        world.a.ask(Method::DELETE, "/v1/auth/users/usr_0123456789abcdef01234567"),
        world.a.ask(Method::POST, "/v1/lifecycle/click").json(&report),
        world.a.ask(Method::POST, "/v1/lifecycle/attribute").json(&report),
        world.a.ask(Method::PUT, "/v1/lifecycle/identify").json(&report),
        world.a.ask(Method::POST, "/v1/lifecycle/convert").json(&report),
        page.ask(Method::POST, "/v1/attribution/click").json(&report),
        page.ask(Method::POST, "/v1/attribution/report").json(&report),
        world.a.ask(Method::PUT, "/v1/attribution/link").json(&report),
        world.nobody.ask(Method::GET, "/r/other-one").header("accept", "application/json"),
    ];
    for ask in on_webhooks(&world, &webhook, &delivery).into_iter().chain(others) {
        let reply = ask.send().await;
        assert_eq!(reply.outcome(), "500 internal");
        ids.push(reply.member("request_id"));
    }
    let log = deeplink_testing::logged_since(&mark);
    for id in ids {
        assert!(log.lines().any(|line| line.contains(&id) && line.contains("ERROR")), "no error names request {id}");
    }
    let show = "ALTER TABLE hidden RENAME TO links; ALTER TABLE hidden_users RENAME TO users;
        ALTER TABLE hidden_domains RENAME TO domains; ALTER TABLE hidden_apps RENAME TO apps;
        ALTER TABLE affiliates RENAME COLUMN hidden TO partner_key; ALTER TABLE secret_keys RENAME COLUMN hidden TO key_prefix;
        ALTER TABLE tenants RENAME COLUMN hidden TO link_count; ALTER TABLE hidden_keys RENAME TO publishable_keys;
        ALTER TABLE hidden_sources RENAME TO sources; ALTER TABLE hidden_webhooks RENAME TO webhooks;
        ALTER TABLE hidden_tags RENAME TO tags";
    world.db.execute(show).await;
    assert_eq!(world.a.get("/v1/links/spring-42").await.status, 200, "the service keeps working");
}

/// X2: a corrupt row is an error that names it in the log, not in the answer.
#[tokio::test]
async fn x2_a_corrupt_row_is_named_in_the_log() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    world.db.execute("UPDATE links SET agent_context = '{' WHERE link_id = 'spring-42'").await;
    let mark = deeplink_testing::log_mark();
    assert_eq!(world.a.get("/v1/links/spring-42").await.outcome(), "500 internal");
    let log = deeplink_testing::logged_since(&mark);
    assert!(log.contains("links.agent_context"), "the log names table and column");
}
