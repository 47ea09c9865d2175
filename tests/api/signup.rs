//! Opening an account.

use std::time::Duration;

use deeplink_client::{Kind, Signup};
use http::Method;
use serde_json::json;

use crate::signin::without_mail;
use deeplink_testing::{spawn, spawn_with};

#[tokio::test]
async fn a_new_account_has_a_key_that_works_and_a_mail_that_waits() {
    let world = spawn().await;
    let opened = world.nobody.sessions().signup(&Signup::new("  New@Example.COM ")).full().await.expect("an account");
    assert_eq!((opened.status.as_u16(), opened.headers["cache-control"].to_str().expect("text")), (201, "no-store"));
    let account = opened.value;
    assert!(account.api_key.is_well_formed());
    assert_eq!(account.key_prefix, format!("{}...", &account.api_key.expose()[..18]));
    assert_eq!(account.created_at, world.clock.now());
    let owner = world.somebody_with(account.api_key.expose());
    let id = owner.make("mine").await;
    assert_eq!(owner.links().get(&id).await.expect("the link").link_id, "mine");

    let mails = world.mails(1).await;
    assert_eq!(mails.len(), 1);
    assert!(mails[0].contains("To: new@example.com"), "{}", mails[0]);
    assert!(
        mails[0].lines().any(|line| line.trim().starts_with(&format!("{}/account/confirm?token=", world.a.base()))),
        "the link is on its own line: {}",
        mails[0]
    );
    let stored =
        "SELECT CAST(count(*) AS BIGINT) FROM users WHERE email = 'new@example.com' AND is_owner AND NOT verified";
    assert_eq!(world.db.number(stored).await, 1);
}

#[tokio::test]
async fn addresses_are_judged() {
    let world = spawn().await;
    let long = format!("{}@example.com", "a".repeat(250));
    for (body, expected) in [
        (json!({}), "400 bad_request"),
        (json!({"email": null}), "400 bad_request email"),
        (json!({"email": 1}), "400 bad_request email"),
        (json!({"email": ["a@example.com"]}), "400 bad_request email"),
        (json!({"email": ""}), "400 invalid_email email"),
        (json!({"email": "a"}), "400 invalid_email email"),
        (json!({"email": "a@b"}), "400 invalid_email email"),
        (json!({"email": "@example.com"}), "400 invalid_email email"),
        (json!({"email": "a@example..com"}), "400 invalid_email email"),
        (json!({"email": "a b@example.com"}), "400 invalid_email email"),
        (json!({"email": "a@exam ple.com"}), "400 invalid_email email"),
        (json!({"email": "a@example.com\r\nBcc: b@example.com"}), "400 invalid_email email"),
        (json!({"email": "<a@example.com>"}), "400 invalid_email email"),
        (json!({"email": "a@example.com,b@example.com"}), "400 invalid_email email"),
        (json!({"email": long}), "400 invalid_email email"),
        (json!({"email": "a+tag.x@sub.example.co"}), "201"),
    ] {
        let reply = world.nobody.post("/v1/auth/signup", &body).await;
        let outcome = reply.outcome();
        assert!(
            outcome == expected || (expected == "400 bad_request" && outcome == "400 bad_request email"),
            "{outcome}: {body}"
        );
    }
}

#[tokio::test]
async fn a_verified_address_has_an_account_already() {
    let world = spawn().await;
    for email in ["a@example.com", " A@EXAMPLE.COM "] {
        let error = world.nobody.sessions().signup(&Signup::new(email)).await.expect_err("it is taken");
        assert_eq!((error.kind(), error.field()), (Kind::Conflict, Some("email")));
        assert_eq!(error.code().map(|code| code.as_str().to_owned()).as_deref(), Some("email_exists"));
    }
    // An unverified address does not belong to anyone, so it does not block others.
    for _ in 0..2 {
        let reply = world.nobody.post("/v1/auth/signup", &json!({"email": "new@example.com"})).await;
        assert_eq!(reply.status, 201);
    }
    assert_eq!(
        world
            .db
            .number("SELECT CAST(count(DISTINCT tenant_id) AS BIGINT) FROM users WHERE email = 'new@example.com'")
            .await,
        2
    );
    assert_eq!(world.mails(2).await.len(), 2);
}

#[tokio::test]
async fn a_service_can_be_closed_or_without_mail() {
    let closed = spawn_with(|config| config.signup_open = false).await;
    let body = json!({"email": "new@example.com"});
    assert_eq!(closed.nobody.post("/v1/auth/signup", &body).await.outcome(), "403 signup_closed");
    for silent in without_mail().await {
        let reply = silent.nobody.post("/v1/auth/signup", &body).await;
        assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("503 sessions_not_configured", ""));
    }
}

/// Sign-ups cannot flood an address with mail, whatever networks they come from. An account is only opened if its mail
/// is sent.
#[tokio::test]
async fn an_address_is_signed_up_five_times_an_hour() {
    let world = spawn().await;
    let body = json!({"email": "new@example.com"});
    for _ in 0..5 {
        assert_eq!(world.nobody.post("/v1/auth/signup", &body).await.status, 201);
    }
    let before = world.db.dump().await["tenants"].len();
    let refused = world.nobody.post("/v1/auth/signup", &body).await;
    assert_eq!((refused.outcome().as_str(), refused.header("retry-after")), ("429 rate_limited", "3600"));
    assert_eq!(world.db.dump().await["tenants"].len(), before);
    assert_eq!(world.nobody.post("/v1/auth/signup", &json!({"email": "other@example.com"})).await.status, 201);
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(world.nobody.post("/v1/auth/signup", &body).await.status, 201);
}

#[tokio::test]
async fn bodies_are_judged_in_order() {
    let world = spawn().await;
    let ask = || world.nobody.ask(Method::POST, "/v1/auth/signup");
    assert_eq!(ask().body_as("text/plain", "x".repeat(70_000)).send().await.outcome(), "415 unsupported_media_type");
    assert_eq!(ask().body("x".repeat(70_000)).send().await.outcome(), "413 payload_too_large");
    assert_eq!(ask().body("{").send().await.outcome(), "400 bad_request");
}

/// X6: the client is the socket's peer. Forwarded addresses from an untrusted peer are ignored, so fifty invented ones
/// share one allowance.
#[tokio::test]
async fn x6_forwarding_headers_of_strangers_are_ignored() {
    let world = spawn_with(|config| config.limits.signups_per_hour = 5).await;
    let mut outcomes = Vec::new();
    for number in 0..50 {
        let ask =
            world.nobody.ask(Method::POST, "/v1/auth/signup").header("x-forwarded-for", format!("198.51.100.{number}"));
        let ask = ask
            .header("forwarded", format!("for=198.51.100.{number}"))
            .header("x-real-ip", format!("198.51.100.{number}"));
        outcomes.push(ask.json(&json!({"email": format!("n{number}@example.com")})).send().await);
    }
    assert!(outcomes[..5].iter().all(|reply| reply.status == 201));
    for reply in &outcomes[5..] {
        assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("429 rate_limited", "720"));
    }
    // Five an hour: one more after a fifth of it.
    world.clock.advance(Duration::from_secs(721));
    let body = json!({"email": "later@example.com"});
    assert_eq!(world.nobody.post("/v1/auth/signup", &body).await.status, 201);
    assert_eq!(world.nobody.post("/v1/auth/signup", &body).await.status, 429);
}

/// X6: through a trusted proxy each client has its own allowance: the right-most hop that is not a proxy, an IPv6
/// client by its /64.
#[tokio::test]
async fn x6_behind_a_trusted_proxy_each_client_counts_for_itself() {
    let world = spawn_with(|config| {
        config.limits.signups_per_hour = 1;
        config.trusted_proxies =
            vec!["127.0.0.0/8".parse().expect("a network"), "10.0.0.0/8".parse().expect("a network")];
    })
    .await;
    let from = async |hops: String, number: usize| {
        let ask = world.nobody.ask(Method::POST, "/v1/auth/signup").header("x-forwarded-for", hops);
        ask.json(&json!({"email": format!("n{number}@example.com")})).send().await.status
    };
    for number in 0..50 {
        assert_eq!(from(format!("198.51.100.{number}"), number).await, 201, "fifty clients, fifty allowances");
    }
    for (hops, status) in [
        ("198.51.100.1", 429),
        ("203.0.113.1, 198.51.100.1", 429),
        ("198.51.100.1, 10.1.1.1", 429),
        ("198.51.100.1, 203.0.113.1", 201),
        ("2001:db8:1:2::1", 201),
        ("2001:db8:1:2:ffff::2", 429),
        ("2001:db8:1:3::1", 201),
        ("::ffff:198.51.100.2", 429),
    ] {
        assert_eq!(from(hops.into(), 100).await, status, "{hops}");
    }
}
