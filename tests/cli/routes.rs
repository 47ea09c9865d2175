//! Every operation of the service has a command, and every command that sends nothing of its own says why.

use std::collections::BTreeSet;

use deeplink_client::mock::fixtures;
use deeplink_core::routes::{self, Credential, Route};

use crate::help::leaves;
use crate::reports::{SECRET, SOURCE};
use crate::webhooks::{DELIVERY, WEBHOOK};
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, PUBLISHABLE, SESSION, TOKEN};

/// Operations without a command. Pages such as `/docs`, and `/metrics` on the operator's port, are not operations.
const WITHOUT: [(&str, &str); 6] = [
    ("callback_page", "a page that an emailed link opens"),
    ("oauth_start", "a browser is redirected; dl open signin prints the URL"),
    ("oauth_callback", "an identity provider redirects a browser back"),
    ("verify_page", "a page that an emailed link opens"),
    ("sdk_script", "a script that web pages load"),
    ("stripe_webhook", "the payment processor calls it"),
];

/// Commands that no operation is named after.
const TOOLS: &[(&str, &str)] = &[
    ("apps add android", "create_app, as apps add ios"),
    ("completions", "local"),
    ("config get", "local"),
    ("config path", "local"),
    ("config set", "local"),
    ("demo", "create_link, and delete_link with --delete"),
    ("doctor", "several operations that other commands have"),
    ("events export", "pages of list_events, into a file"),
    ("explain", "the operation of links explain"),
    ("help", "local"),
    ("import", "the operations of links import"),
    ("imports list", "local"),
    ("imports prune", "local"),
    ("imports resume", "the operations of links import"),
    ("imports show", "local"),
    ("keys rotate", "request_secret_key, confirm_secret_key, then delete_secret_key"),
    ("links copy", "get_link, then the clipboard"),
    ("links disable", "update_link or bulk_update_links"),
    ("links expire", "update_link or bulk_update_links"),
    ("links export", "pages of list_links, into a file"),
    ("links import", "bulk_create_links and others"),
    ("links open", "get_link, then the browser"),
    ("links rename", "update_link"),
    ("links tag", "update_link or bulk_update_links"),
    ("logout", "local"),
    ("man", "local"),
    ("mcp", "the operations of its tools"),
    ("open signin", "a browser page"),
    ("profile add", "local"),
    ("profile list", "local"),
    ("profile remove", "local"),
    ("profile use", "local"),
    ("sources rotate", "create_source, then delete_source"),
    ("token", "local"),
    ("webhooks sample", "local"),
    ("webhooks sign", "local"),
    ("webhooks trigger", "sends to a receiver, not to the service"),
    ("webhooks verify", "local"),
];

/// The command that sends an operation.
fn line(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "health" => "ping",
        "ready" => "ping --ready",
        "openapi" => "api GET /openapi.json",
        "llms" => "api GET /llms.txt",
        "resolve" => "links resolve spring-42 --as json",
        "signup" => "signup --email you@example.com",
        "signin" | "callback" => "login --email you@example.com --link-stdin",
        "accept_invite" => "team accept --link-stdin",
        "me" => "session me --session-file session.txt",
        "signout" => "session signout --session-file session.txt",
        "issue_secret_key" => "keys issue --session-file session.txt",
        "list_users" => "team list",
        "invite_user" => "team invite new@example.com",
        "remove_user" => "team remove usr_0123456789abcdef01234567 --yes",
        "whoami" => "whoami",
        "list_secret_keys" => "keys list",
        "request_secret_key" => "keys request --email you@example.com",
        "confirm_secret_key" => "keys confirm --email you@example.com --code-stdin",
        "delete_secret_key" => "keys delete skid_0123456789abcdef01234567 --yes",
        "list_publishable_keys" => "pk list",
        "create_publishable_key" => "pk create go.example.com",
        "delete_publishable_key" => "pk delete pkid_0123456789abcdef01234567 --yes",
        "list_affiliates" => "affiliates list",
        "create_affiliate" => "affiliates create --name Partner --partner-key partner",
        "get_affiliate" => "affiliates get aff_0123456789abcdef01234567",
        "update_affiliate" => "affiliates update aff_0123456789abcdef01234567 --status disabled",
        "delete_affiliate" => "affiliates delete aff_0123456789abcdef01234567 --yes",
        "list_credentials" => "affiliates creds list aff_0123456789abcdef01234567",
        "create_credential" => "affiliates creds create aff_0123456789abcdef01234567",
        "delete_credential" => {
            "affiliates creds delete aff_0123456789abcdef01234567 skid_0123456789abcdef01234567 --yes"
        }
        "billing_status" => "billing status",
        "create_checkout" => "billing checkout pro",
        "create_portal" => "billing portal",
        "cancel_subscription" => "billing cancel --yes",
        "list_links" => "links list",
        "create_link" => "links create https://example.com",
        "bulk_create_links" => "links bulk --template t.json --count 1",
        "bulk_update_links" => "links enable spring-42 spring-43",
        "bulk_delete_links" => "links delete spring-42 spring-43 --yes",
        "get_link" => "links get spring-42",
        "update_link" => "links update spring-42 --unset metadata",
        "delete_link" => "links delete spring-42",
        "list_tags" => "tags list",
        "rename_tag" => "tags rename spring summer",
        "delete_tag" => "tags delete spring --yes",
        "list_qr_logos" => "qr-logos list",
        "put_qr_logo" => "qr-logos put acme logo.png",
        "get_qr_logo" => "qr-logos get acme",
        "delete_qr_logo" => "qr-logos delete acme --yes",
        // Without -q it gets the link too, to warn of an expired one.
        "link_qr" => "links qr spring-42 -q",
        "link_history" => "links history spring-42",
        "restore_link" => "links restore spring-42",
        "explain_link" => "links explain spring-42 --as iphone",
        "link_timeseries" => "links timeseries spring-42",
        "link_stats" => "links stats spring-42",
        "funnel" => "stats spring-42",
        "track_click" => "sdk click spring-42",
        "attribute" => "sdk attribute spring-42 --install install-1 --app-version 2.4.0",
        "identify" => "sdk identify --install install-1 --user user-7",
        "convert" => "sdk convert --user user-7 --type purchase",
        "attribution_click" => "sdk click spring-42 --legacy",
        "attribution_report" => "sdk attribute spring-42 --install install-1 --app-version 2.4.0 --legacy",
        "attribution_link" => "sdk identify --install install-1 --user user-7 --legacy",
        "get_account" => "account show",
        "update_account" => "account update --name Example",
        "export_account" => "account export",
        "delete_account" => "account delete --yes",
        "cancel_account_deletion" => "account cancel-deletion",
        "list_audit_log" => "audit list",
        "list_events" => "events list",
        "list_sources" => "sources list",
        "create_source" => "sources create Shop",
        "get_source" => "sources get src_0123456789abcdef01234567",
        "delete_source" => "sources delete src_0123456789abcdef01234567 --yes",
        "send_to_source" => "sources send - --user user-7 --type purchase",
        "apple_association" => "wellknown apple",
        "asset_links" => "wellknown android",
        "list_apps" => "apps list",
        "create_app" => "apps add ios --bundle-id com.example.app --team-id ABCDE12345",
        "delete_app" => "apps delete app_0123456789abcdef01234567 --yes",
        "list_domains" => "domains list",
        "create_domain" => "domains add go.example.com",
        "update_domain" => "domains update go.example.com --root-url https://www.example.com/",
        "delete_domain" => "domains delete go.example.com --yes",
        "verify_domain" => "domains verify go.example.com",
        "list_webhooks" => "webhooks list",
        "create_webhook" => "webhooks create --url https://hooks.example.com/ --all-events",
        "update_webhook" => "webhooks update wh_0123456789abcdef01234567 --active true",
        "delete_webhook" => "webhooks delete wh_0123456789abcdef01234567 --yes",
        "rotate_webhook_secret" => "webhooks rotate-secret wh_0123456789abcdef01234567 --yes",
        "test_webhook" => "webhooks test wh_0123456789abcdef01234567",
        "list_deliveries" => "webhooks deliveries wh_0123456789abcdef01234567",
        "replay_deliveries" => "webhooks replay wh_0123456789abcdef01234567 --failed-since 1d",
        "replay_delivery" => "webhooks replay wh_0123456789abcdef01234567 dlv_0123456789abcdef01234567",
        "event_stream" => "webhooks listen --stream --timeout 3s",
        _ => return None,
    })
}

/// What the command of an operation reads from stdin.
fn stdin(operation: &str, base: &str) -> String {
    match operation {
        "confirm_secret_key" => "7GK2QX".to_owned(),
        "callback" | "accept_invite" => TOKEN.to_owned(),
        "send_to_source" => format!("{base}/in/{SECRET}"),
        _ => String::new(),
    }
}

/// The operations that programs call, with their commands.
fn operations() -> impl Iterator<Item = (&'static Route, &'static str)> {
    let known = |route: &Route| line(route.operation).unwrap_or_else(|| panic!("no command for {}", route.operation));
    routes::ALL
        .iter()
        .filter(|route| WITHOUT.iter().all(|(operation, _)| *operation != route.operation))
        .map(move |route| (route, known(route)))
}

/// That command calls exactly that operation.
#[test]
fn every_route_has_a_command() {
    for (route, command) in operations() {
        // A create first checks whether it will replace an app; a mailed link must have been requested; an account is named.
        let first = match route.operation {
            "delete_account" => Some("GET /v1/account"),
            "create_app" => Some("GET /v1/apps"),
            "callback" => Some("POST /v1/auth/signin"),
            _ => None,
        };
        let double = Double::new(move |request| match request.line().as_str() {
            line if first == Some(line) => {
                let account = serde_json::to_string(&fixtures::account()).expect("JSON");
                let found = match line {
                    "GET /v1/apps" => "[]",
                    "GET /v1/account" => &account,
                    _ => r#"{"status":"sent"}"#,
                };
                Answer::new(200, found)
            }
            _ => Answer::error(500, "internal", "no"),
        });
        let dl = Dl::at(&double.url).env("DL_RETRIES", "0").env("DL_PUBLISHABLE_KEY", PUBLISHABLE);
        dl.file("t.json", "{}");
        dl.file("logo.png", "a picture");
        dl.secret_file("session.txt", SESSION);
        dl.run_with(command, &stdin(route.operation, &double.url));
        let wanted = [
            ("{link_id}", "spring-42"),
            ("{id}", SOURCE),
            ("{webhook_id}", WEBHOOK),
            ("{delivery_id}", DELIVERY),
            ("{token}", SECRET),
            ("{domain}", "go.example.com"),
            ("{tag}", "spring"),
            ("{name}", "acme"),
            ("{format}", "png"),
            ("{app_id}", "app_0123456789abcdef01234567"),
            ("{user_id}", "usr_0123456789abcdef01234567"),
            ("{affiliate_id}", "aff_0123456789abcdef01234567"),
            (
                "{key_id}",
                if route.path.contains("publishable") {
                    "pkid_0123456789abcdef01234567"
                } else {
                    "skid_0123456789abcdef01234567"
                },
            ),
        ]
        .into_iter()
        .fold(format!("{} {}", route.method, route.path), |path, (name, value)| path.replace(name, value));
        let mut lines = double.lines();
        if route.operation == "event_stream" {
            // It is retried until the service has refused it often enough.
            lines.dedup();
        }
        if let Some(first) = first {
            assert_eq!(lines.remove(0), first);
        }
        assert_eq!(lines, [wanted], "{}", route.operation);
        for request in double.requests() {
            let sent = (request.header("authorization").is_some(), request.header("cookie").is_some());
            let due = match route.credential {
                Credential::Public => (false, false),
                Credential::Session => (false, true),
                _ => (true, false),
            };
            assert_eq!(sent, due, "{}", route.operation);
        }
    }
}

/// Only what a browser or the payment processor calls may be without a command.
#[test]
fn operations_without_a_command_are_not_for_programs() {
    let without: BTreeSet<&str> = WITHOUT.iter().map(|(operation, _)| *operation).collect();
    let not_for_programs: BTreeSet<&str> =
        routes::ALL.iter().filter(|route| !route.credential.is_for_programs()).map(|route| route.operation).collect();
    assert_eq!(without, not_for_programs);
}

/// The command tree and this map name the same commands.
#[test]
fn every_command_is_of_an_operation_or_says_what_it_does() {
    let leaves: BTreeSet<String> = leaves().into_iter().collect();
    let is_of =
        |line: &str, leaf: &str| line == leaf || line.strip_prefix(leaf).is_some_and(|rest| rest.starts_with(' '));
    let mut named: BTreeSet<String> = TOOLS.iter().map(|(leaf, _)| (*leaf).to_owned()).collect();
    assert_eq!(named.len(), TOOLS.len());
    for (route, line) in operations() {
        let leaf = leaves.iter().find(|leaf| is_of(line, leaf));
        let leaf = leaf.unwrap_or_else(|| panic!("{}: dl has no command {line}", route.operation));
        assert!(!TOOLS.iter().any(|(tool, _)| tool == leaf), "{leaf} sends {}", route.operation);
        named.insert(leaf.clone());
    }
    assert_eq!(named, leaves);
}
