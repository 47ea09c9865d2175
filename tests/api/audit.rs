//! The audit log: who changed what in an account.

use std::collections::HashSet;
use std::time::Duration;

use deeplink_core::audit::{AuditAction, AuditActor};
use deeplink_core::time::Timestamp;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Role, World, eventually, spawn};

const AUDIT: &str = "/v1/audit";
const SOON: Duration = Duration::from_mins(1);

/// What only the operator's commands do; their tests show that it is recorded.
const OPERATORS: [AuditAction; 7] = [
    AuditAction::AccountSuspended,
    AuditAction::AccountResumed,
    AuditAction::SignInLinkCreated,
    AuditAction::LinkFlagged,
    AuditAction::LinkDisabled,
    AuditAction::LinkEnabled,
    AuditAction::PlanGranted,
];

/// What the service does as time passes; the tests of confirmations and of deliveries show that it is recorded.
const THE_SERVICES: [AuditAction; 2] = [AuditAction::AccessRevoked, AuditAction::WebhookPaused];

async fn entries(of: &Caller) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = of.get(&format!("{AUDIT}?limit=100{cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        all.extend(page["entries"].as_array().expect("entries").clone());
        let Some(next) = page["next_cursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

/// An account whose changes are told one after the other.
struct Told<'w> {
    world: &'w World,
    seen: usize,
    actions: HashSet<String>,
}

impl Told<'_> {
    /// The one entry that was added since the last time.
    async fn next(&mut self) -> Value {
        let all = entries(&self.world.a).await;
        let added = all.len() - self.seen;
        assert_eq!(added, 1, "{:?}", &all[..added]);
        self.seen = all.len();
        self.world.clock.advance(Duration::from_millis(1));
        let mut entry = all[0].clone();
        let id = entry["id"].as_str().expect("an id").to_owned();
        assert!(id.starts_with("aud_") && id.len() == 28, "{id}");
        let at: Timestamp = entry["at"].as_str().and_then(|at| at.parse().ok()).expect("a time");
        assert!(at <= self.world.clock.now() && at >= self.world.clock.now().plus_millis(-60_000), "{at}");
        self.actions.insert(entry["action"].as_str().expect("an action").to_owned());
        let fields = entry.as_object_mut().expect("an object");
        fields.remove("id");
        fields.remove("at");
        entry
    }

    /// Expects one entry of the account's key.
    async fn expect(&mut self, action: AuditAction, target: &str, detail: Option<&str>) {
        let key = self.world.db.texts("SELECT key_prefix FROM secret_keys WHERE affiliate_id IS NULL").await;
        let entry = self.next().await;
        let actor = entry["actor"].as_str().expect("an actor").to_owned();
        assert!(key.contains(&actor), "{actor} is the start of the key");
        let by = AuditActor::SecretKey;
        assert_eq!(
            entry,
            json!({"action": action, "actor_type": by, "actor": actor, "target": target, "detail": detail})
        );
    }
}

/// Each change of an account is one entry, with who made it and what it was made to.
#[tokio::test]
async fn each_change_is_one_entry() {
    let world = spawn().await;
    let (a, seen) = (&world.a, entries(&world.a).await.len());
    let mut told = Told { world: &world, seen, actions: HashSet::new() };

    // Who signs in, is invited and joins.
    world.sign_in("a@example.com").await;
    let entry = told.next().await;
    assert_eq!([&entry["action"], &entry["actor_type"], &entry["actor"]], ["user.signed_in", "user", "a@example.com"]);
    let invitation = world.invite(a, "friend@example.com").await;
    let friend = world.db.texts("SELECT id FROM users WHERE email = 'friend@example.com'").await.remove(0);
    told.expect(AuditAction::UserInvited, &friend, Some("friend@example.com")).await;
    world.nobody.accept(&invitation).await;
    let entry = told.next().await;
    assert_eq!([&entry["action"], &entry["actor"]], ["user.joined", "friend@example.com"]);
    assert_eq!(a.delete(&format!("/v1/auth/users/{friend}")).await.status, 204);
    told.expect(AuditAction::UserRemoved, &friend, Some("friend@example.com")).await;

    // Domains.
    let proof = world.claim_domain(a, "go.example.com", Role::Primary).await;
    told.expect(AuditAction::DomainCreated, "go.example.com", None).await;
    world.dns.txt("_deeplink-verify.go.example.com", &[&proof]);
    let verify = async || a.post_nothing("/v1/domains/go.example.com/verify").await.json()["verified"] == true;
    eventually("the domain is verified", SOON, verify).await;
    told.expect(AuditAction::DomainVerified, "go.example.com", None).await;
    assert!(verify().await, "again, which is no change");
    assert_eq!(a.patch("/v1/domains/go.example.com", &json!({"root_url": "https://example.com/"})).await.status, 200);
    told.expect(AuditAction::DomainUpdated, "go.example.com", None).await;

    // Settings.
    assert_eq!(a.patch("/v1/account", &json!({"name": "Example", "theme_color": null})).await.status, 200);
    told.expect(AuditAction::AccountUpdated, a.tenant.as_str(), Some("name, theme_color")).await;
    let deletion = async || a.post("/v1/account/deletion", &json!({"confirm": a.tenant})).await.member("deletes_at");
    let at = deletion().await;
    told.expect(AuditAction::DeletionScheduled, a.tenant.as_str(), Some(&at)).await;
    assert_eq!(deletion().await, at, "again, which is no change");
    for _ in 0..2 {
        assert_eq!(a.delete("/v1/account/deletion").await.status, 200);
    }
    told.expect(AuditAction::DeletionCanceled, a.tenant.as_str(), None).await;

    // Keys.
    let session = world.session_of(a).await;
    let made = world.nobody.ask(Method::POST, "/v1/auth/secret-keys/issue").session(&session).json(&json!({}));
    let made = made.send().await;
    let id = made.member("id");
    let entry = told.next().await;
    assert_eq!([&entry["action"], &entry["actor"], &entry["target"]], ["secret_key.created", "a@example.com", &id]);
    let shown = entry["detail"].as_str().expect("the start of the key");
    assert!(made.member("key").starts_with(shown.trim_end_matches('.')), "{shown}");
    assert_eq!(a.delete(&format!("/v1/auth/secret-keys/{id}")).await.status, 204);
    told.expect(AuditAction::SecretKeyDeleted, &id, Some(shown)).await;
    let made = a.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await.member("id");
    told.expect(AuditAction::PublishableKeyCreated, &made, Some("go.example.com")).await;
    assert_eq!(a.delete(&format!("/v1/auth/publishable-keys/{made}")).await.status, 204);
    told.expect(AuditAction::PublishableKeyDeleted, &made, Some("go.example.com")).await;

    // Affiliates.
    let partner = a.post("/v1/affiliates", &json!({"name": "Partner", "partner_key": "partner"})).await.member("id");
    told.expect(AuditAction::AffiliateCreated, &partner, Some("Partner")).await;
    assert_eq!(a.patch(&format!("/v1/affiliates/{partner}"), &json!({"name": "Other"})).await.status, 200);
    told.expect(AuditAction::AffiliateUpdated, &partner, Some("Other")).await;
    let credential = a.post_nothing(&format!("/v1/affiliates/{partner}/credentials")).await.member("id");
    told.expect(AuditAction::CredentialCreated, &credential, Some(&partner)).await;
    assert_eq!(a.delete(&format!("/v1/affiliates/{partner}/credentials/{credential}")).await.status, 204);
    told.expect(AuditAction::CredentialDeleted, &credential, Some(&partner)).await;
    assert_eq!(a.delete(&format!("/v1/affiliates/{partner}")).await.status, 204);
    told.expect(AuditAction::AffiliateDeleted, &partner, Some("Other")).await;

    // Apps, sources, webhooks.
    let app = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    let mut id = String::new();
    for _ in 0..2 {
        id = a.post("/v1/apps", &app).await.member("id");
        told.expect(AuditAction::AppSaved, &id, Some("com.example.app")).await;
    }
    assert_eq!(a.delete(&format!("/v1/apps/{id}")).await.status, 204);
    told.expect(AuditAction::AppDeleted, &id, Some("com.example.app")).await;
    for _ in 0..2 {
        crate::qr_logos::upload(a, "acme", crate::outbound::png()).await;
        told.expect(AuditAction::QrLogoSaved, "acme", None).await;
    }
    assert_eq!(a.delete("/v1/qr-logos/acme").await.status, 204);
    told.expect(AuditAction::QrLogoDeleted, "acme", None).await;
    let source = a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await.member("id");
    told.expect(AuditAction::SourceCreated, &source, Some("Shop")).await;
    assert_eq!(a.delete(&format!("/v1/sources/{source}")).await.status, 204);
    told.expect(AuditAction::SourceDeleted, &source, Some("Shop")).await;
    let (url, new) = ("https://1.1.1.1/hook", "https://8.8.8.8/new");
    let webhook = a.post("/v1/webhooks", &json!({"url": url, "events": ["click"]})).await.member("id");
    // A path is often a secret.
    told.expect(AuditAction::WebhookCreated, &webhook, Some("https://1.1.1.1")).await;
    let path = format!("/v1/webhooks/{webhook}");
    assert_eq!(a.patch(&path, &json!({"url": new})).await.status, 200);
    told.expect(AuditAction::WebhookUpdated, &webhook, Some("https://8.8.8.8")).await;
    assert_eq!(a.post_nothing(&format!("{path}/rotate-secret")).await.status, 200);
    told.expect(AuditAction::WebhookSecretRotated, &webhook, None).await;
    assert_eq!(a.delete(&path).await.status, 204);
    told.expect(AuditAction::WebhookDeleted, &webhook, Some("https://8.8.8.8")).await;

    // A domain whose proof is gone for three days, and one that is released.
    world.dns.txt("_deeplink-verify.go.example.com", &[]);
    for _ in 0..4 {
        let due = world.clock.now().as_millis() + 24 * 3_600_000;
        world.db.execute(format!("UPDATE domains SET check_at = {due} WHERE check_at IS NOT NULL")).await;
        world.clock.advance(Duration::from_hours(24));
        let left = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM domains WHERE check_at <= {due} + 60000");
        eventually("the check is made", SOON, || async { world.db.number(left.clone()).await == 0 }).await;
    }
    let entry = told.next().await;
    assert_eq!(
        [&entry["action"], &entry["actor_type"], &entry["target"]],
        ["domain.unverified", "service", "go.example.com"]
    );
    assert_eq!(a.delete("/v1/domains/go.example.com").await.status, 204);
    told.expect(AuditAction::DomainDeleted, "go.example.com", None).await;

    // What opens an account is the first entry of it.
    let opened = world.nobody.post("/v1/auth/signup", &json!({"email": "new@example.com"})).await;
    let new = world.somebody_with(&opened.member("api_key"));
    let first = entries(&new).await.remove(0);
    assert_eq!(
        [&first["action"], &first["actor_type"], &first["actor"], &first["target"]],
        ["account.created", "user", "new@example.com", opened.member("tenant_id").as_str()]
    );
    told.actions.insert("account.created".to_owned());
    told.actions.extend(OPERATORS.iter().chain(&THE_SERVICES).map(ToString::to_string));
    let all: HashSet<String> = AuditAction::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(told.actions, all, "each action has its case");
}

/// What is refused, repeated or only read leaves no entry, and neither do links.
#[tokio::test]
async fn what_changes_nothing_is_no_entry() {
    let world = spawn().await;
    let a = &world.a;
    let source = json!({"name": "Shop", "source_type": "custom"});
    let create = || a.ask(Method::POST, "/v1/sources").header("idempotency-key", "once").json(&source);
    assert_eq!(create().send().await.status, 201);
    let before = entries(a).await;
    assert_eq!(create().send().await.header("idempotency-replayed"), "true");
    for (reply, expected) in [
        (a.post("/v1/sources", &source).await, "409 name_taken name"),
        (a.post("/v1/sources", &json!({"name": "", "source_type": "custom"})).await, "400 invalid_name name"),
        (a.delete("/v1/sources/src_0123456789abcdef01234567").await, "404 not_found"),
        (a.delete("/v1/webhooks/wh_0123456789abcdef01234567").await, "404 not_found"),
        (a.delete("/v1/domains/nowhere.example.com").await, "404 not_found"),
        (world.a1.get(AUDIT).await, "403 forbidden_scope"),
        (world.nobody.get(AUDIT).await, "401 unauthorized"),
    ] {
        assert_eq!(reply.outcome(), expected);
    }
    let link = a.make("spring-42").await;
    assert_eq!(a.put(&format!("/v1/links/{link}"), &json!({"web_url": "https://example.com/new"})).await.status, 200);
    assert_eq!(a.delete(&format!("/v1/links/{link}")).await.status, 204);
    for path in ["/v1/sources", "/v1/links", AUDIT] {
        assert_eq!(a.get(path).await.status, 200);
    }
    assert_eq!(entries(a).await, before);
}

/// An entry stays when its key and its person are gone, is on its account's page only, and goes after a year.
#[tokio::test]
async fn entries_outlive_who_made_them_for_a_year() {
    let world = spawn().await;
    let friend = world.join(&world.a, "friend@example.com").await;
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{friend}")).await.status, 204);
    let all = entries(&world.a).await;
    let joined = all.iter().find(|entry| entry["action"] == "user.joined").expect("an entry");
    assert_eq!(joined["actor"], "friend@example.com");
    assert!(entries(&world.b).await.iter().all(|entry| entry["detail"] != "friend@example.com"));

    // One at a time, newest first.
    let paged = world.a.client.audit().list().page_size(1).await.expect("entries");
    let ids: Vec<_> = paged.iter().map(|entry| entry.id.to_string()).collect();
    assert_eq!(ids, all.iter().map(|entry| entry["id"].as_str().expect("an id")).collect::<Vec<_>>());
    assert!(ids.is_sorted_by(|newer, older| newer > older), "{ids:?}");

    let page = async |of: &Caller| {
        let session = world.session_of(of).await;
        let page = world.nobody.browse(Method::GET, "/account/audit").session(&session).send().await;
        assert_eq!(page.status, 200);
        page.text().clone()
    };
    let of_a = page(&world.a).await;
    assert!(of_a.contains("User removed") && of_a.contains("friend@example.com"), "{of_a}");
    assert!(!page(&world.b).await.contains("friend@example.com"));

    world.clock.advance(Duration::from_hours(24 * 365 - 1));
    assert_eq!(entries(&world.a).await.len(), all.len(), "not yet");
    world.clock.advance(Duration::from_hours(2));
    eventually("they expire", SOON, || async { entries(&world.a).await.is_empty() }).await;
}
