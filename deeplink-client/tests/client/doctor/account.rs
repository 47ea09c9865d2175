//! The service, the account, and the findings when either is missing.

use deeplink_client::Client;
use deeplink_client::doctor::Status::{Fail, Ok, Skip, Warn};
use serde_json::json;

use super::assert_cases;
use super::double::Reply;
use super::scene::{PRIMARY, nowhere};

#[tokio::test]
async fn the_account_and_its_service() {
    assert_cases(&[
        ("service.http", |_| {}, Ok, "responds in"),
        (
            "service.http",
            |scene| scene.instead(|request| request.target == "/health", Reply::new(200, "text/html", "hello")),
            Fail,
            "does not come from this service",
        ),
        ("service.tls", |_| {}, Skip, "plain http"),
        ("service.clock", |_| {}, Ok, " s from this machine's clock"),
        (
            "service.clock",
            |scene| {
                scene.instead(|request| request.target == "/health", Reply::json(200, &json!({"status": "ok"})));
            },
            Skip,
            "does not report",
        ),
        (
            "service.clock",
            |scene| {
                scene.instead(
                    |request| request.target == "/health",
                    Reply::new(200, "application/json", r#"{"status":"ok"}"#)
                        .header("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                );
            },
            Warn,
            "ahead of the service's",
        ),
        ("account.key", |_| {}, Ok, "accepted, for the whole account"),
        ("account.key", |scene| (scene.with_key, scene.hosts) = (false, vec![PRIMARY]), Skip, "no key"),
        (
            "account.key",
            |scene| {
                scene.instead(
                    |request| request.target.starts_with("/v1/"),
                    Reply::new(401, "application/json", r#"{"error":"the key is not known","code":"invalid_key"}"#),
                );
            },
            Fail,
            "the key is not known",
        ),
        (
            "account.key",
            |scene| {
                scene.instead(
                    |request| request.target.starts_with("/v1/apps?"),
                    Reply::new(403, "application/json", r#"{"error":"no","code":"forbidden_scope"}"#),
                );
            },
            Warn,
            "belongs to an affiliate",
        ),
        ("account.domain", |_| {}, Ok, "verified: go.example.com"),
        ("account.domain", |scene| scene.domains[0].verified = false, Warn, "no verified primary domain"),
        ("account.domain", |scene| scene.domains.clear(), Warn, "no verified primary domain"),
        ("account.domain", |scene| scene.with_key = false, Skip, "cannot be read"),
    ])
    .await;
}

#[tokio::test]
async fn a_service_that_is_away_leaves_checks_and_not_errors() {
    let client = Client::builder(format!("http://{}", nowhere())).build().expect("a client");
    let examination = client.doctor().begin().await.expect("an examination");
    let checks: Vec<_> = futures_util::StreamExt::collect(examination.run()).await;
    let found: Vec<_> = checks.iter().map(|check| (check.id, check.status)).collect();
    assert_eq!(
        found,
        [
            ("service.http", Fail),
            ("service.tls", Skip),
            ("service.clock", Skip),
            ("account.key", Skip),
            ("account.domain", Skip)
        ]
    );
    assert_eq!(checks[0].fix.as_deref(), Some("is the server running?"));
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_at_once() {
    let client = Client::builder("http://127.0.0.1:9").build().expect("a client");
    for doctor in [
        client.doctor().host("https://go.example.com"),
        client.doctor().apple_cdn("ftp://example.com"),
        client.doctor().google_api(""),
        client.doctor().root_certificate("not PEM"),
    ] {
        doctor.begin().await.expect_err("refused");
    }
}
