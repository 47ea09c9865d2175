//! Who a key acts for.

use deeplink_core::plan::Tier;
use serde_json::{Value, json};

use deeplink_testing::{spawn, spawn_with};

/// A key of the account is told its account, plan and a person of it: who created the key, else the owner.
#[tokio::test]
async fn a_key_is_told_its_account_and_its_person() {
    let world = spawn().await;
    let seen = world.a.get("/v1/auth/whoami").await;
    assert_eq!((seen.status, seen.header("cache-control")), (200, "no-store"));
    let seen = seen.json();
    let listed = world.a.get("/v1/auth/secret-keys").await.json()["keys"][0].clone();
    assert_eq!(seen["key_id"], listed["id"]);
    assert_eq!(seen["key_prefix"], listed["key_prefix"]);
    assert_eq!((&seen["scope"], &seen["affiliate"]), (&json!("account"), &Value::Null));
    assert_eq!((&seen["email"], &seen["tenant"]["id"]), (&json!("a@example.com"), &json!(world.a.tenant.as_str())));
    assert_eq!(seen["plan"], Tier::Free.as_str());

    // A key of another member names them, until they leave.
    let member = world.join(&world.a, "member@example.com").await;
    let session = world.sign_in("member@example.com").await;
    let issued = world
        .nobody
        .ask(http::Method::POST, "/v1/auth/secret-keys/issue")
        .session(&session)
        .json(&json!({}))
        .send()
        .await;
    let key = issued.member("key");
    world.note_secret(&key);
    let theirs = world.somebody_with(&key);
    assert_eq!(theirs.get("/v1/auth/whoami").await.json()["email"], "member@example.com");
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{member}")).await.status, 204);
    assert_eq!(theirs.get("/v1/auth/whoami").await.json()["email"], "a@example.com");

    let tenant = &world.a.tenant;
    world.db.execute(format!("UPDATE tenants SET comp_tier = 'pro' WHERE id = '{tenant}'")).await;
    assert_eq!(world.a.get("/v1/auth/whoami").await.json()["plan"], "pro");
}

/// A partner's credential is told whose it is, and nothing about the account's people and plan.
#[tokio::test]
async fn a_partner_is_told_nothing_about_the_people() {
    let world = spawn().await;
    let seen = world.a1.get("/v1/auth/whoami").await.json();
    assert_eq!((&seen["scope"], &seen["email"], &seen["plan"]), (&json!("affiliate"), &Value::Null, &Value::Null));
    assert_eq!(seen["affiliate"]["id"], world.a1.affiliate_id());
    assert!(seen["affiliate"]["name"].as_str().is_some_and(|name| !name.is_empty()));
}

/// Without plans there is none to name.
#[tokio::test]
async fn a_service_without_plans_names_none() {
    let world = spawn_with(|config| config.billing = false).await;
    let seen = world.a.get("/v1/auth/whoami").await.json();
    assert_eq!((&seen["plan"], &seen["email"]), (&Value::Null, &json!("a@example.com")));
}
