//! Deletion of an account: it is scheduled and canceled, and when it is due nothing of the account is left, and everything of
//! the others.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::sessions::sign_up;
use crate::suspension::{resume, suspend};
use crate::webhooks::settled_delivery;
use deeplink_testing::{Caller, Role, World, eventually, spawn, spawn_nodes, spawn_with, told_countries};

const DELETION: &str = "/v1/account/deletion";
const EMAIL: &str = "leaving@example.com";
const DAY: Duration = Duration::from_hours(24);
const SOON: Duration = Duration::from_mins(3);

/// Tables that are not an account's, or that keep what they have for its time.
const OTHERS: [&str; 20] = [
    "_sqlx_migrations",
    "acme_accounts",
    "acme_challenges",
    "certificate_failures",
    "certificates",
    "click_journals",
    "click_marks",
    "click_spills",
    "leases",
    "mail_allowances",
    "mails",
    "oauth_states",
    "payments",
    "replies",
    "service",
    "sign_ins",
    "stripe_events",
    "tenants",
    "visitor_texts",
    // Worked off at once.
    "credit_work",
];

/// Until the deletion begins everything works, each owner is told by mail, and the deletion can be canceled.
#[tokio::test]
async fn a_deletion_is_scheduled_and_canceled() {
    let world = spawn().await;
    let a = &world.a;
    for (body, outcome) in [
        (json!({}), "400 bad_request confirm"),
        (json!({"confirm": true}), "400 bad_request confirm"),
        (json!({"confirm": world.b.tenant}), "400 bad_request confirm"),
        (json!({"confirm": "a@example.com"}), "400 bad_request confirm"),
    ] {
        assert_eq!(a.post(DELETION, &body).await.outcome(), outcome, "{body}");
    }
    let at = world.clock.now().plus_days(7);
    assert_eq!(a.client.account().delete(&a.tenant).await.expect("an account").deletes_at, Some(at));
    world.clock.advance(DAY);
    assert_eq!(a.client.account().delete(&a.tenant).await.expect("again").deletes_at, Some(at), "it keeps its time");
    assert_eq!(a.get("/v1/auth/whoami").await.json()["tenant"]["deletes_at"], json!(at));
    assert_eq!(world.a1.get("/v1/auth/whoami").await.json()["tenant"]["deletes_at"], Value::Null);
    eventually("one mail is out", SOON, || async { world.mails_to("a@example.com").len() == 1 }).await;
    let mail = world.mails_to("a@example.com").remove(0);
    let day = at.to_string()[..10].to_owned();
    for part in [&*format!("UTC on {day}"), a.tenant.as_str(), "one of its secret keys", "/account/settings"] {
        assert!(mail.contains(part), "{part}: {mail}");
    }
    let link = a.make("spring-42").await;
    assert_eq!(world.nobody.tap(&link).await.status, 302);
    let b = &world.b;
    b.client.account().delete(&b.tenant).await.expect("an account");

    assert_eq!(a.client.account().cancel_deletion().await.expect("an account").deletes_at, None);
    assert_eq!(a.client.account().cancel_deletion().await.expect("again").deletes_at, None);
    world.clock.advance(7 * DAY);
    // The other account, which was to be deleted a day later, is.
    eventually("its deletion begins", SOON, || async { b.post("/v1/links", &json!({})).await.status == 403 }).await;
    assert_eq!(world.nobody.tap(&link).await.status, 302);
    assert_eq!(a.get("/v1/account").await.status, 200);
}

/// A deletion waits while the operator has suspended the account, which its people cannot end that way.
#[tokio::test]
async fn a_suspended_account_is_not_deleted() {
    let world = spawn().await;
    let (a, b) = (&world.a, &world.b);
    for of in [a, b] {
        of.client.account().delete(&of.tenant).await.expect("an account");
    }
    suspend(&world, a.tenant.as_str()).await;
    world.clock.advance(8 * DAY);
    let begun = async |of: &Caller| {
        let sql = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM tenants WHERE id = '{}' AND deleted_at > 0", of.tenant);
        world.db.number(sql).await == 1
    };
    eventually("the deletion of the other one begins", SOON, || begun(b)).await;
    let of_a = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM tenants WHERE id = '{}' AND deleted_at IS NULL", a.tenant);
    assert_eq!((world.db.number(&*of_a).await, a.get("/v1/account").await.status), (1, 200));
    let page = world.nobody.browse(Method::GET, "/account").session(&world.session_of(a).await).send().await.text();
    assert!(page.contains("suspended by the operator") && !page.contains("will be deleted"), "{page}");
    resume(&world, a.tenant.as_str()).await;
    eventually("now this one", SOON, || begun(a)).await;
}

/// Mails about a deletion are limited, however often it is scheduled, and none goes to an address that nobody confirmed.
#[tokio::test]
async fn mails_about_deletions_are_limited() {
    let world = spawn().await;
    let (a, b) = (&world.a, &world.b);
    world.db.execute(format!("UPDATE users SET verified = FALSE WHERE tenant_id = '{}'", b.tenant)).await;
    let again = async |of: &Caller| {
        of.client.account().delete(&of.tenant).await.expect("scheduled");
        of.client.account().cancel_deletion().await.expect("canceled");
    };
    again(b).await;
    for _ in 0..22 {
        again(a).await;
    }
    world.clock.advance(Duration::from_mins(61));
    again(a).await;
    eventually("those are out", SOON, || async { world.mails_to("a@example.com").len() == 21 }).await;
    assert!(world.mails_to("b@example.com").is_empty());
}

/// An account is not deleted while somebody would go on paying for it.
#[tokio::test]
async fn a_subscription_is_canceled_before() {
    let world = spawn().await;
    let (a, tenant) = (&world.a, &world.a.tenant);
    let subscribe = |canceled: bool| {
        format!("UPDATE tenants SET stripe_subscription = 'sub_1', cancel_scheduled = {canceled} WHERE id = '{tenant}'")
    };
    let deletion = async || a.post(DELETION, &json!({"confirm": tenant})).await.outcome();
    world.db.execute(subscribe(false)).await;
    assert_eq!(deletion().await, "409 subscription_active");
    assert_eq!(a.get("/v1/account").await.json()["deletes_at"], Value::Null);
    world.db.execute(subscribe(true)).await;
    assert_eq!(deletion().await, "200");
}

/// On the pages the account's ID is typed, and the deletion is shown on each page with the way back.
#[tokio::test]
async fn the_pages_ask_and_offer_the_way_back() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    let get = async |path: &str| world.nobody.browse(Method::GET, path).session(&session).send().await.text();
    let post = async |path: &str, form: &[(&str, &str)]| {
        let base = world.a.base().to_owned();
        let ask = world.nobody.browse(Method::POST, path).session(&session).header("origin", base);
        ask.form(form).send().await
    };
    assert!(get("/account/settings").await.contains("href=\"/account/settings/delete\""));
    let question = get("/account/settings/delete").await;
    assert!(question.contains(world.a.tenant.as_str()) && question.contains("name=\"confirm\""), "{question}");
    let refused = post("/account/settings/delete", &[("confirm", "yes")]).await;
    assert!(refused.status == 400 && refused.text().contains("ID of this account"), "{}", refused.text());
    let done = post("/account/settings/delete", &[("confirm", world.a.tenant.as_str())]).await;
    assert_eq!((done.status, done.header("location")), (303, "/account/settings"));
    let day = world.clock.now().plus_days(7).to_string()[8..10].trim_start_matches('0').to_owned();
    for path in ["/account/settings", "/account/links"] {
        let page = get(path).await;
        assert!(page.contains(&format!("will be deleted on {day} ")) && page.contains("Cancel deletion"), "{page}");
    }
    eventually("the mail is out", SOON, || async { world.mails_to("a@example.com").len() == 1 }).await;
    assert!(world.mails_to("a@example.com")[0].contains("a@example.com requested this"));
    let kept = post("/account/settings/cancel-deletion", &[]).await;
    assert_eq!((kept.status, kept.header("location")), (303, "/account/settings?done=deletion-canceled"));
    let again = post("/account/settings/cancel-deletion", &[]).await;
    assert_eq!((again.status, again.header("location")), (303, "/account/settings"), "there was none");
    let page = get("/account/settings?done=deletion-canceled").await;
    assert!(page.contains("Deletion canceled.") && !page.contains("will be deleted"), "{page}");
}

/// An account with something in each table.
async fn full_account(world: &World) -> Caller {
    let (mut c, _) = sign_up(world, EMAIL).await;
    c.tenant = c.client.whoami().await.expect("an account").tenant.id;
    world.db.execute(format!("UPDATE users SET verified = TRUE WHERE email = '{EMAIL}'")).await;
    let (tenant, now) = (c.tenant.clone(), world.clock.now().as_millis());
    world.session_of(&c).await;
    let settings = json!({"name": "Leaving", "time_zone": "Asia/Tokyo", "icon_url": "https://example.com/icon.png"});
    assert_eq!(c.patch("/v1/account", &settings).await.status, 200);
    world.db.execute(format!("UPDATE tenants SET stripe_customer = 'cus_gone' WHERE id = '{tenant}'")).await;
    world.own_domain(&c, "gone.example.com", Role::Primary).await;
    let partner = c.post("/v1/affiliates", &json!({"name": "Partner", "partner_key": "partner"})).await.member("id");
    assert_eq!(c.post_nothing(&format!("/v1/affiliates/{partner}/credentials")).await.status, 201);
    let link = json!({
        "custom_id": "gone-1", "web_url": "https://example.com/1", "affiliate_id": partner, "tags": ["Spring sale"],
        "aliases": ["l/gone_old"],
    });
    let link = c.make_of(&link).await;
    let deleted = c.make("gone-2").await;
    for path in [&link, &deleted, &link] {
        let path = format!("/r/{path}");
        let tap = world.nobody.browse(Method::GET, &path).header("referer", "https://www.example.org/");
        assert_eq!(tap.header("cf-ipcountry", "DE").send().await.status, 302);
    }
    world.folded().await;
    assert_eq!(c.delete(&format!("/v1/links/{deleted}")).await.status, 204);
    for (path, body) in [
        ("/v1/webhooks", json!({"url": "https://1.1.1.1/hook", "events": ["conversion", "click"]})),
        ("/v1/sources", json!({"name": "Shop", "source_type": "custom"})),
        ("/v1/apps", json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"})),
        ("/v1/auth/publishable-keys", json!({"domain": "gone.example.com"})),
        ("/v1/auth/users", json!({"email": "invited@example.com"})),
        ("/v1/auth/secret-keys", json!({"email": EMAIL})),
        ("/v1/lifecycle/attribute", json!({"link_id": link, "install_id": "one", "app_version": "1"})),
    ] {
        let done = c.post(path, &body).await;
        assert!(done.status < 300, "{path}: {}", done.text());
    }
    assert_eq!(c.put("/v1/lifecycle/identify", &json!({"install_id": "one", "user_id": "ann"})).await.status, 200);
    let sale = json!({"user_id": "ann", "type": "purchase", "metadata": {"amount_cents": 500, "currency": "EUR"}, "idempotency_key": "sale-1"});
    assert_eq!(c.post("/v1/lifecycle/convert", &sale).await.status, 200);
    // What only the operator, a wallet or a longer history makes.
    for sql in [
        format!(
            "INSERT INTO one_time_links (hash, tenant_id, expires_at) VALUES ('h', '{tenant}', {})",
            now + (1 << 40)
        ),
        format!(
            "INSERT INTO blocked_destinations (tenant_id, url_hash, link, page_hash) VALUES ('{tenant}', 'h', 1, 'h')"
        ),
        format!(
            "INSERT INTO link_status_changes (tenant_id, link_id, status, reason, changed_at)
             VALUES ('{tenant}', 'gone-1', 'flagged', 'x', {now})"
        ),
        format!(
            "INSERT INTO tenant_status_changes (tenant_id, status, reason, changed_at)
             VALUES ('{tenant}', 'active', 'x', {now})"
        ),
        format!(
            "INSERT INTO wallets (namespace, address, tenant_id, created_at) VALUES ('eip155', '0x1', '{tenant}', {now})"
        ),
        format!(
            "INSERT INTO delivery_leases (tenant_id, holder, expires_at) VALUES ('{tenant}', 'x', 0)
             ON CONFLICT DO NOTHING"
        ),
        format!("INSERT INTO tenant_months (tenant_id, month, events) VALUES ('{tenant}', 0, 1)"),
    ] {
        world.db.execute(sql).await;
    }
    crate::qr_logos::upload(&c, "acme", crate::outbound::png()).await;
    let hook = c.get("/v1/webhooks").await.json()["webhooks"][0]["id"].as_str().expect("an id").to_owned();
    settled_delivery(world, &c, &hook).await;
    let far = now + (1 << 40);
    for table in ["tokens", "key_requests", "conversion_keys", "sessions"] {
        world.db.execute(format!("UPDATE {table} SET expires_at = {far} WHERE tenant_id = '{tenant}'")).await;
    }
    world.folded().await;
    c
}

/// Nothing of a deleted account is left, and everything of the others. A table that an account's rows are added to has to be
/// deleted from, or be named above.
#[tokio::test]
async fn nothing_of_a_deleted_account_is_left() {
    let world = spawn_with(told_countries).await;
    world.a.make("spring-42").await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    assert_eq!(world.nobody.tap("spring-42").await.status, 302);
    world.folded().await;
    world.at_rest().await;
    let before = world.db.dump().await;

    let c = full_account(&world).await;
    let full = world.db.dump().await;
    for (table, rows) in full.iter().filter(|(table, _)| !OTHERS.contains(&table.as_str())) {
        assert!(rows.len() > before[table].len(), "the account has nothing in {table}");
    }
    assert_eq!(c.post(DELETION, &json!({"confirm": c.tenant})).await.status, 200);
    world.clock.advance(8 * DAY);
    let state = async |condition: &str| {
        let sql = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM tenants WHERE id = '{}' AND {condition}", c.tenant);
        world.db.number(sql).await == 1
    };
    eventually("it begins", SOON, || state("deleted_at IS NOT NULL")).await;
    // Disabled, and on a slow machine perhaps gone already.
    eventually("its link is disabled", SOON, || async { world.nobody.tap("gone-1").await.status != 302 }).await;
    // A request that is under way.
    let late = format!(
        "INSERT INTO sources (id, tenant_id, name, source_type, sealed, token_hash, created_at)
         VALUES ('src_late', '{}', 'late', 'custom', '', 'late', 0)",
        c.tenant
    );
    world.db.execute(late).await;
    world.clock.advance(Duration::from_mins(2));
    eventually("it ends", SOON, || state("deletes_at IS NULL")).await;

    // A node that was looking for its deliveries gives the lease back.
    let leases = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM delivery_leases WHERE tenant_id = '{}'", c.tenant);
    eventually("no lease is held", SOON, || async { world.db.number(&*leases).await == 0 }).await;

    let after = world.db.dump().await;
    let names = [c.tenant.as_str(), EMAIL, "gone-1", "gone.example.com", "Spring sale", "l/gone_old"];
    for (table, rows) in &after {
        if table != "tenants" && table != "mails" {
            let left = rows.iter().find(|row| names.iter().any(|name| row.contains(name)));
            assert_eq!(left, None, "{table}");
        }
        if !OTHERS.contains(&table.as_str()) {
            // The other account's domain is checked again as time passes.
            assert_eq!(rows.len(), before[table].len(), "{table}");
            assert!(rows == &before[table] || table == "domains", "{table}: {rows:?}");
        }
    }
    let row =
        format!("SELECT COALESCE(name, stripe_customer, '') || link_count FROM tenants WHERE id = '{}'", c.tenant);
    assert_eq!(world.db.texts(row).await, ["0"], "its own row is empty");
    assert_eq!(c.get("/v1/links").await.outcome(), "401 invalid_key");
    assert_eq!(world.nobody.tap("gone-1").await.status, 404);
    // The address and the host are free.
    let again = world.nobody.post("/v1/auth/signup", &json!({"email": EMAIL})).await;
    assert_eq!(again.status, 201, "{}", again.text());
    assert_eq!(world.a.make("gone-1").await, "gone-1", "and so is the ID of its link");
    world.own_domain(&world.b, "gone.example.com", Role::Primary).await;
}

/// A node that cached a link while its account was deleted forgets it at the end.
#[tokio::test]
async fn links_of_a_deleted_account_are_gone_on_every_node() {
    let world = spawn_nodes(2).await;
    let there = world.at(1, &world.nobody);
    world.b.make("gone-1").await;
    assert_eq!(world.b.post(DELETION, &json!({"confirm": world.b.tenant})).await.status, 200);
    world.clock.advance(8 * DAY);
    for node in [&world.nobody, &there] {
        eventually("the link is disabled", SOON, || async { node.tap("gone-1").await.status != 302 }).await;
    }
    world.clock.advance(Duration::from_mins(2));
    for node in [&world.nobody, &there] {
        eventually("the link is gone", SOON, || async { node.tap("gone-1").await.status == 404 }).await;
    }
}
