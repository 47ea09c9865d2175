//! The expected answer for each caller on each route.

use serde_json::{Value, json};

use super::OWN_DOMAIN;

/// One row of the matrix: the answer for each caller on a route, on an object of A's.
pub(super) struct Row {
    pub(super) operation: &'static str,
    pub(super) body: Option<Value>,
    /// Without a credential; with B's key; with the keys of A's affiliates 1 (whose links they are) and 2; with A's
    /// publishable key; with the session of A's owner; with A's key.
    pub(super) expected: [&'static str; 7],
}

pub(super) const OWN: &str = "2xx, own data";
/// The same as without a credential, and not a refusal for lack of one.
pub(super) const PUBLIC: [&str; 7] = ["as anybody"; 7];

/// For a tenant's own credential: B sees its own objects.
const FULL: [&str; 7] = refused("401 unauthorized", OWN, "403 forbidden_scope", "2xx");
/// The same without a payment processor.
const UNPAID: [&str; 7] =
    refused("401 unauthorized", "503 processor_not_configured", "403 forbidden_scope", "503 processor_not_configured");
/// The same if the path names an object of A's.
const OF_A: [&str; 7] = refused("401 unauthorized", "404 not_found", "403 forbidden_scope", "2xx");
const SESSION: [&str; 7] = [
    "401 unauthorized",
    "401 invalid_key",
    "401 invalid_key",
    "401 invalid_key",
    "401 invalid_key",
    "2xx",
    "401 invalid_key",
];
/// What affiliates may also do, with their own objects.
const LINKS: [&str; 7] = ["401 unauthorized", OWN, "2xx", OWN, "401 invalid_key", "401 unauthorized", "2xx"];
const LINK: [&str; 7] =
    ["401 unauthorized", "404 not_found", "2xx", "404 not_found", "401 invalid_key", "401 unauthorized", "2xx"];

/// From click to conversion: an account's own installs and users.
const SDK: [&str; 7] =
    ["401 unauthorized", OWN, "403 forbidden_scope", "403 forbidden_scope", "2xx", "401 unauthorized", "2xx"];
/// The same if the body names a link of A's.
const SDK_ON_LINK: [&str; 7] = [
    "401 unauthorized",
    "404 not_found",
    "403 forbidden_scope",
    "403 forbidden_scope",
    "2xx",
    "401 unauthorized",
    "2xx",
];
/// What only publishable keys may do.
const PAGE: [&str; 7] = [
    "401 unauthorized",
    "401 invalid_key",
    "401 invalid_key",
    "401 invalid_key",
    "2xx",
    "401 unauthorized",
    "401 invalid_key",
];

const fn refused(nobody: &'static str, b: &'static str, scoped: &'static str, a: &'static str) -> [&'static str; 7] {
    [nobody, b, scoped, scoped, "401 invalid_key", "401 unauthorized", a]
}

pub(super) fn matrix() -> Vec<Row> {
    let row = |operation, expected| Row { operation, body: None, expected };
    let with = |operation, body, expected| Row { operation, body: Some(body), expected };
    vec![
        row("health", PUBLIC),
        row("ready", PUBLIC),
        row("openapi", PUBLIC),
        row("llms", PUBLIC),
        row("resolve", PUBLIC),
        // On the service's own host there is nothing to see.
        row("apple_association", ["404 not_found"; 7]),
        row("asset_links", ["404 not_found"; 7]),
        with("signup", json!({"email": "new@example.com"}), PUBLIC),
        with("signin", json!({"email": "new@example.com"}), PUBLIC),
        row("callback_page", PUBLIC),
        row("callback", PUBLIC),
        row("oauth_start", PUBLIC),
        row("oauth_callback", PUBLIC),
        row("verify_page", PUBLIC),
        row("accept_invite", PUBLIC),
        row("me", SESSION),
        row("signout", SESSION),
        with("issue_secret_key", json!({}), SESSION),
        row("list_users", FULL),
        with("invite_user", json!({"email": "invited@example.com"}), FULL),
        row("remove_user", OF_A),
        row("whoami", LINKS),
        row("list_secret_keys", FULL),
        // A's code makes a key of A's only. Its row comes before the next one, because only one code can be pending.
        row("confirm_secret_key", refused("401 unauthorized", "400 invalid_code token", "403 forbidden_scope", "2xx")),
        with(
            "request_secret_key",
            json!({"email": "a@example.com"}),
            refused("401 unauthorized", "403 not_a_member", "403 forbidden_scope", "2xx"),
        ),
        row("delete_secret_key", OF_A),
        row("list_publishable_keys", FULL),
        with(
            "create_publishable_key",
            json!({"domain": OWN_DOMAIN}),
            refused("401 unauthorized", "400 domain_not_found domain", "403 forbidden_scope", "2xx"),
        ),
        row("delete_publishable_key", OF_A),
        row("list_affiliates", FULL),
        with("create_affiliate", json!({"name": "New", "partner_key": "new"}), FULL),
        row("get_affiliate", OF_A),
        with("update_affiliate", json!({"name": "Newer"}), OF_A),
        row("delete_affiliate", OF_A),
        row("list_credentials", OF_A),
        row("create_credential", OF_A),
        row("delete_credential", OF_A),
        row("list_links", LINKS),
        with("create_link", json!({}), LINKS),
        with("bulk_create_links", json!({"template": {}, "count": 2}), LINKS),
        with(
            "bulk_update_links",
            json!({"link_ids": [""], "add_tags": ["of A"]}),
            refused("401 unauthorized", "400 invalid_batch", "403 forbidden_scope", "2xx"),
        ),
        with(
            "bulk_delete_links",
            json!({"link_ids": [""]}),
            refused("401 unauthorized", "400 invalid_batch", "403 forbidden_scope", "2xx"),
        ),
        row("get_link", LINK),
        row("link_qr", LINK),
        row("explain_link", LINK),
        row("link_history", OF_A),
        with("restore_link", json!({}), OF_A),
        row("list_qr_logos", FULL),
        // The body is a picture.
        row("put_qr_logo", FULL),
        row("get_qr_logo", OF_A),
        row("delete_qr_logo", OF_A),
        row("list_tags", FULL),
        with("rename_tag", json!({"tag": "of A"}), OF_A),
        row("delete_tag", OF_A),
        row("get_account", FULL),
        with("update_account", json!({"name": "Newer"}), FULL),
        row("export_account", FULL),
        // The body names the account.
        with(
            "delete_account",
            json!({}),
            refused("401 unauthorized", "400 bad_request confirm", "403 forbidden_scope", "2xx"),
        ),
        row("cancel_account_deletion", FULL),
        row("list_audit_log", FULL),
        row("list_events", FULL),
        row("list_sources", FULL),
        with("create_source", json!({"name": "New", "source_type": "custom"}), FULL),
        row("get_source", OF_A),
        row("delete_source", OF_A),
        with("send_to_source", json!({"user_id": "user-1", "type": "purchase", "idempotency_key": "order-1"}), PUBLIC),
        row("sdk_script", PUBLIC),
        row("list_webhooks", FULL),
        with("create_webhook", json!({"url": "https://hooks.example.com/", "events": ["conversion"]}), FULL),
        with("update_webhook", json!({"events": ["identify"]}), OF_A),
        row("rotate_webhook_secret", OF_A),
        row("list_deliveries", OF_A),
        row("replay_delivery", OF_A),
        with("replay_deliveries", json!({"since": "2026-11-20T00:00:00Z"}), OF_A),
        with("test_webhook", json!({}), OF_A),
        row("delete_webhook", OF_A),
        row("event_stream", FULL),
        row("list_domains", FULL),
        with("create_domain", json!({"domain": "new.example.com"}), FULL),
        row("verify_domain", OF_A),
        with("update_domain", json!({"root_url": "https://example.com/"}), OF_A),
        row("delete_domain", OF_A),
        row("list_apps", FULL),
        with("create_app", json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"}), FULL),
        row("delete_app", OF_A),
        row("billing_status", FULL),
        row("cancel_subscription", UNPAID),
        row("create_checkout", UNPAID),
        row("create_portal", UNPAID),
        row("stripe_webhook", PUBLIC),
        row("link_timeseries", OF_A),
        row("link_stats", OF_A),
        row("funnel", FULL),
        with("track_click", json!({"link_id": ""}), SDK_ON_LINK),
        with("attribute", json!({"link_id": "", "install_id": "of-a", "app_version": "1"}), SDK_ON_LINK),
        with("identify", json!({"install_id": "of-a", "user_id": "user-of-a"}), SDK),
        with("convert", json!({"user_id": "user-of-a", "type": "purchase"}), SDK),
        with("attribution_click", json!({"link_id": ""}), PAGE),
        with("attribution_report", json!({"link_id": "", "install_id": "of-a", "app_version": "1"}), PAGE),
        with("attribution_link", json!({"install_id": "of-a", "user_id": "user-of-a"}), FULL),
        with("update_link", json!({"web_url": null}), OF_A),
        row("delete_link", OF_A),
    ]
}
