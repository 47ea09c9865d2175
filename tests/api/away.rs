//! While the database is unavailable: PostgreSQL refuses connections, or another process writes to the SQLite file.
//! What cannot be done is 503 and not applied, cached links still redirect, and their clicks are stored afterwards.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

use crate::lifecycle::page_of;
use crate::outbound::png;
use crate::qr_logos::upload;
use crate::webhooks::settled_delivery;
use deeplink_testing::{Ask, Caller, Role, World, code_in, eventually, spawn};

const SOON: Duration = Duration::from_mins(1);

fn reads(world: &World, of_a: &Things) -> Vec<Ask> {
    let ask = |path: &str| world.a.ask(Method::GET, path);
    vec![
        ask("/v1/links"),
        ask("/v1/links/spring-42"),
        ask("/v1/links/spring-42/timeseries"),
        ask("/v1/links/spring-42/stats"),
        ask("/v1/analytics/stats?link_ids=spring-42"),
        ask("/v1/links/spring-42/qr.png"),
        ask("/v1/links/spring-42/explain"),
        ask("/v1/links/spring-42/history"),
        ask("/v1/tags"),
        ask("/v1/qr-logos"),
        ask("/v1/qr-logos/before"),
        ask("/v1/domains"),
        ask("/v1/apps"),
        ask("/v1/auth/secret-keys"),
        ask("/v1/auth/whoami"),
        ask("/v1/auth/publishable-keys"),
        ask("/v1/auth/users"),
        ask("/v1/account"),
        ask("/v1/account/export"),
        ask("/v1/audit"),
        ask("/v1/analytics/events"),
        ask("/v1/sources"),
        ask(&of_a.source),
        ask("/v1/webhooks"),
        ask("/v1/events/stream"),
        ask(&format!("{}/deliveries", of_a.webhook)),
        world.nobody.ask(Method::GET, "/v1/auth/me").session(&of_a.session),
        ask("/v1/affiliates"),
        ask(&format!("/v1/affiliates/{}", world.a1.affiliate_id())),
        ask(&format!("/v1/affiliates/{}/credentials", world.a1.affiliate_id())),
        ask("/.well-known/apple-app-site-association").header("host", "unknown.example.com"),
        ask("/.well-known/assetlinks.json").header("host", "unknown.example.com"),
        ask("/r/unknown"),
        ask("/ready"),
    ]
}

fn ios(bundle: &str) -> Value {
    json!({"platform": "ios", "bundle_id": bundle, "team_id": "ABCDE12345"})
}

/// Keys, affiliates and people of A's that are changed while the database is unavailable.
struct Things {
    session: String,
    /// A caller with another publishable key.
    page: Caller,
    code: String,
    key: String,
    publishable: String,
    /// The path of a source, and that of its URL.
    source: String,
    address: String,
    /// The path of a webhook, and that of a delivery to it.
    webhook: String,
    delivery: String,
    partner: String,
    credential: String,
    /// A session to end.
    other_session: String,
    magic_link: String,
    invitation: String,
    friend: String,
}

const ISSUE: &str = "/v1/auth/secret-keys/issue";

async fn things_of_a(world: &World) -> Things {
    world.own_domain(&world.a, "keys.example.com", Role::Primary).await;
    let session = world.session_of(&world.a).await;
    let key = world.nobody.ask(Method::POST, ISSUE).session(&session).json(&json!({})).send().await.member("id");
    let domain = json!({"domain": "keys.example.com"});
    let publishable = world.a.post("/v1/auth/publishable-keys", &domain).await.member("id");
    let page = page_of(world, &world.a, "pages.example.com").await;
    let source = world.a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let (source, address) = (format!("/v1/sources/{}", source.member("id")), source.member("webhook_url"));
    let address = address[address.find("/in/").expect("a token")..].to_owned();
    let webhook = world.a.post("/v1/webhooks", &hook()).await;
    let delivery = settled_delivery(world, &world.a, &webhook.member("id")).await;
    let webhook = webhook.header("location").to_owned();
    let delivery = format!("{webhook}/deliveries/{delivery}");
    let partner = world.a.post("/v1/affiliates", &json!({"name": "Partner", "partner_key": "summer"})).await;
    let partner = partner.member("id");
    let credential = world.a.post_nothing(&format!("/v1/affiliates/{partner}/credentials")).await.member("id");
    world.a.post("/v1/auth/secret-keys", &json!({"email": "a@example.com"})).await;
    let code = world.mails(1).await.iter().find_map(|mail| code_in(mail)).expect("a code");
    let other_session = world.sign_in("a@example.com").await;
    let friend = world.join(&world.a, "friend@example.com").await;
    let invitation = world.invite(&world.a, "invited@example.com").await;
    let magic_link = world.magic_link("somebody@example.com").await;
    Things {
        session,
        page,
        code,
        key,
        publishable,
        source,
        address,
        webhook,
        delivery,
        partner,
        credential,
        other_session,
        magic_link,
        invitation,
        friend,
    }
}

fn key_writes(world: &World, of_a: &Things) -> Vec<Ask> {
    let ask = |method, path: &str| world.a.ask(method, path);
    let partner = format!("/v1/affiliates/{}", of_a.partner);
    let confirm = json!({"email": "a@example.com", "token": of_a.code});
    vec![
        world.nobody.ask(Method::POST, ISSUE).session(&of_a.session).json(&json!({})),
        ask(Method::POST, "/v1/auth/secret-keys/confirm").json(&confirm),
        ask(Method::POST, "/v1/auth/secret-keys").json(&json!({"email": "a@example.com"})),
        ask(Method::DELETE, &format!("/v1/auth/secret-keys/{}", of_a.key)),
        ask(Method::POST, "/v1/auth/publishable-keys").json(&json!({"domain": "keys.example.com"})),
        ask(Method::DELETE, &format!("/v1/auth/publishable-keys/{}", of_a.publishable)),
        ask(Method::POST, "/v1/sources").json(&json!({"name": "Meanwhile", "source_type": "custom"})),
        ask(Method::DELETE, &of_a.source),
        ask(Method::POST, "/v1/affiliates").json(&json!({"name": "New", "partner_key": "new"})),
        ask(Method::PATCH, &partner).json(&json!({"name": "Newer"})),
        ask(Method::POST, &format!("{partner}/credentials")),
        ask(Method::DELETE, &format!("{partner}/credentials/{}", of_a.credential)),
        ask(Method::DELETE, &partner),
    ]
}

fn hook() -> Value {
    json!({"url": "https://hooks.example.com/", "events": ["conversion"]})
}

fn webhook_writes(world: &World, of_a: &Things) -> Vec<Ask> {
    let ask = |method, path: &str| world.a.ask(method, path);
    vec![
        ask(Method::POST, "/v1/webhooks").json(&hook()),
        ask(Method::PATCH, &of_a.webhook).json(&json!({"events": ["identify"]})),
        ask(Method::POST, &format!("{}/rotate-secret", of_a.webhook)),
        ask(Method::POST, &format!("{}/test", of_a.webhook)).json(&json!({})),
        ask(Method::POST, &format!("{}/replay", of_a.delivery)),
        ask(Method::POST, &format!("{}/replay", of_a.webhook)).json(&json!({"since": "2026-11-20T00:00:00Z"})),
        ask(Method::DELETE, &of_a.webhook),
    ]
}

fn reports(world: &World, of_a: &Things) -> Vec<Ask> {
    let click = json!({"link_id": "spring-42"});
    let touch = json!({"link_id": "spring-42", "install_id": "meanwhile", "app_version": "1"});
    let binding = json!({"install_id": "meanwhile", "user_id": "ann"});
    let conversion = json!({"user_id": "ann", "type": "purchase", "idempotency_key": "meanwhile"});
    let ask = |method, path: &str| world.a.ask(method, path);
    vec![
        // With its reply kept for a repeat, a click is stored or refused.
        ask(Method::POST, "/v1/lifecycle/click").header("idempotency-key", "meanwhile").json(&click),
        ask(Method::POST, "/v1/lifecycle/attribute").json(&touch),
        ask(Method::PUT, "/v1/lifecycle/identify").json(&binding),
        ask(Method::POST, "/v1/lifecycle/convert").json(&conversion),
        of_a.page.ask(Method::POST, "/v1/attribution/click").header("idempotency-key", "meanwhile").json(&click),
        of_a.page.ask(Method::POST, "/v1/attribution/report").json(&touch),
        ask(Method::PUT, "/v1/attribution/link").json(&binding),
        world.nobody.ask(Method::POST, &of_a.address).json(&conversion),
    ]
}

fn people_writes(world: &World, of_a: &Things) -> Vec<Ask> {
    let form = |path: &str, token: &str| world.nobody.ask(Method::POST, path).form(&[("token", token)]);
    let state = format!("/v1/auth/oauth/google/callback?state={}", "0".repeat(64));
    vec![
        world.nobody.ask(Method::POST, "/v1/auth/signin").json(&json!({"email": "new@example.com"})),
        form("/v1/auth/callback", &of_a.magic_link),
        form("/v1/auth/verify", &of_a.invitation),
        world.nobody.ask(Method::GET, &state),
        world.nobody.ask(Method::POST, "/v1/auth/signout").session(&of_a.other_session),
        world.a.ask(Method::DELETE, &format!("/v1/auth/users/{}", of_a.friend)),
        world.a.ask(Method::POST, "/v1/auth/users").json(&json!({"email": "late@example.com"})),
    ]
}

fn writes(world: &World, app: &str, of_a: &Things) -> Vec<Ask> {
    let mut all = reports(world, of_a);
    all.extend([
        world.a.ask(Method::POST, "/v1/links").json(&json!({"custom_id": "made-meanwhile"})),
        world.a.ask(Method::POST, "/v1/links/bulk").json(&json!({"template": {}, "custom_ids": ["bulk-meanwhile"]})),
        world.a.ask(Method::PUT, "/v1/links/spring-42").json(&json!({"web_url": "https://example.com/changed"})),
        world.a.ask(Method::POST, "/v1/links/spring-42/restore").json(&json!({})),
        world.a.ask(Method::PATCH, "/v1/links/bulk").json(&json!({"link_ids": ["spring-42"], "add_tags": ["spring"]})),
        world.a.ask(Method::DELETE, "/v1/links/bulk").json(&json!({"link_ids": ["made-meanwhile"]})),
        world.a.ask(Method::PUT, "/v1/tags/spring").json(&json!({"tag": "summer"})),
        world.a.ask(Method::DELETE, "/v1/tags/summer"),
        world.a.ask(Method::PUT, "/v1/qr-logos/meanwhile").body_as("image/png", png()),
        world.a.ask(Method::DELETE, "/v1/qr-logos/before"),
        world.a.ask(Method::DELETE, "/v1/links/spring-42"),
        world.a.ask(Method::POST, "/v1/domains").json(&json!({"domain": "meanwhile.example.com"})),
        world.a.ask(Method::POST, "/v1/domains/go.example.com/verify"),
        world.a.ask(Method::PATCH, "/v1/domains/go.example.com").json(&json!({"root_url": "https://example.com/"})),
        world.a.ask(Method::DELETE, "/v1/domains/go.example.com"),
        world.a.ask(Method::POST, "/v1/apps").json(&ios("com.example.meanwhile")),
        world.a.ask(Method::DELETE, &format!("/v1/apps/{app}")),
        world.a.ask(Method::PATCH, "/v1/account").json(&json!({"name": "Meanwhile"})),
        world.a.ask(Method::POST, "/v1/account/deletion").json(&json!({"confirm": world.a.tenant})),
        world.a.ask(Method::DELETE, "/v1/account/deletion"),
        world.nobody.ask(Method::POST, "/v1/auth/signup").json(&json!({"email": "new@example.com"})),
    ]);
    all.extend(webhook_writes(world, of_a));
    all.extend(key_writes(world, of_a));
    all.extend(people_writes(world, of_a));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_links_lead_on_and_nothing_else_is_promised() {
    let mut world = spawn().await;
    world.a.make("spring-42").await;
    world.a.put("/v1/links/spring-42", &json!({"tags": ["spring"]})).await;
    world.claim_domain(&world.a, "go.example.com", Role::Primary).await;
    upload(&world.a, "before", png()).await;
    // Cached before: a host, what it serves, and a link on it.
    world.own_domain(&world.b, "b.example.com", Role::Primary).await;
    world.b.make("of-b").await;
    world.b.post("/v1/apps", &ios("com.example.of-b")).await;
    let app = world.a.post("/v1/apps", &ios("com.example.app")).await.member("id");
    let of_a = things_of_a(&world).await;
    // From here on with the timeouts of a service in production.
    world.restart(|config| config.database_timeout = Duration::from_secs(2)).await;
    let on_host = async |path: &str| {
        let ask = world.nobody.browse(Method::GET, path).header("host", "b.example.com");
        ask.send().await.status
    };
    assert_eq!((on_host("/of-b").await, on_host("/.well-known/apple-app-site-association").await), (302, 200));
    // Another tenant's change does not evict it.
    world.a.post("/v1/apps", &ios("com.example.other")).await;
    assert_eq!(world.nobody.tap("spring-42").await.status, 302);
    // The keys are cached too, so that it is the operation that fails without the database.
    assert_eq!(world.a.get("/v1/links").await.status, 200);
    assert_eq!(of_a.page.post("/v1/attribution/click", &json!({})).await.status, 400);
    // Notices of earlier changes may have come between a read and its caching, so they are read again.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((world.nobody.tap("spring-42").await.status, on_host("/of-b").await), (302, 302));
    }
    // Background work would change rows meanwhile.
    world.at_rest().await;
    let before = world.db.dump_without_clicks().await;

    let away = world.db.take_away().await;
    let began = Instant::now();
    for reply in join_all(writes(&world, &app, &of_a).into_iter().map(Ask::send)).await {
        let refused = matches!(reply.outcome().as_str(), "503 database_unavailable" | "503 overloaded");
        assert!(refused, "{} {}", reply.status, reply.text());
    }
    // Without a limit they would wait until it is back.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    for ask in reads(&world, &of_a) {
        let status = ask.send().await.status;
        assert!(if world.db.is_postgres() { status == 503 } else { matches!(status, 200 | 404) }, "{status}");
    }
    for _ in 0..5 {
        let reply = world.nobody.tap("spring-42").await;
        assert_eq!((reply.status, reply.header("location")), (302, "https://example.com/spring-42"));
        assert_eq!((on_host("/of-b").await, on_host("/.well-known/apple-app-site-association").await), (302, 200));
    }
    // A click that is reported goes the way of a visit's, once its key is known: that can be read from a file.
    let click = json!({"link_id": "spring-42"});
    let reports =
        [world.a.post("/v1/lifecycle/click", &click).await, of_a.page.post("/v1/attribution/click", &click).await];
    let (status, reported) = if world.db.is_postgres() { (503, 0) } else { (200, 2) };
    assert_eq!(reports.map(|reply| reply.status), [status; 2]);
    assert_eq!(world.nobody.get("/health").await.status, 200);

    away.give_back().await;
    eventually("the database is back", SOON, || async { world.a.get("/v1/links").await.status == 200 }).await;
    assert_eq!(world.db.dump_without_clicks().await, before, "a 503 means: not applied");
    world.expect_clicks(&[(0, 18 + reported)]).await;
    for ask in writes(&world, &app, &of_a) {
        eventually("writes work again", SOON, || {
            let ask = ask.clone();
            async move {
                let reply = ask.send().await;
                // Forms and providers redirect whether they succeed or not: their tokens were not used up.
                let led = ["/account", "/signin?invite=accepted", "/signin?error=oauth_state_invalid"];
                reply.status < 300 || led.iter().any(|place| reply.header("location").ends_with(place))
            }
        })
        .await;
    }
}
