//! Lists and reports: an account has a share of them, and using it does not affect other accounts.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::outbound::png;
use crate::qr_logos::upload;
use deeplink_testing::{Caller, Reply, World, operations, spawn};

/// Operations with a key that read lists.
const LISTS: [&str; 21] = [
    "billing_status",
    "export_account",
    "funnel",
    "link_history",
    "link_stats",
    "link_timeseries",
    "list_affiliates",
    "list_apps",
    "list_audit_log",
    "list_credentials",
    "list_deliveries",
    "list_domains",
    "list_events",
    "list_links",
    "list_publishable_keys",
    "list_qr_logos",
    "list_secret_keys",
    "list_sources",
    "list_tags",
    "list_users",
    "list_webhooks",
];

/// Pages that do so.
const PAGES: [&str; 16] = [
    "/account",
    "/account/links",
    "/account/links.csv",
    "/account/links/spring-42/history",
    "/account/links/spring-42/qr",
    "/account/deleted-links",
    "/account/domains",
    "/account/apps",
    "/account/keys",
    "/account/affiliates",
    "/account/sources",
    "/account/webhooks",
    "/account/webhooks/{webhook_id}/deliveries",
    "/account/plan",
    "/account/team",
    "/account/audit",
];

/// Objects that an account has at least one of.
struct Things {
    link: String,
    affiliate: String,
    webhook: String,
    source: String,
    session: String,
    logo: String,
}

async fn things(world: &World, of: &Caller) -> Things {
    let webhook = json!({"url": "https://1.1.1.1/hook", "events": ["conversion"]});
    Things {
        link: of.make("spring-42").await,
        affiliate: world.a1.affiliate_id().to_owned(),
        webhook: of.post("/v1/webhooks", &webhook).await.member("id"),
        source: of.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await.member("id"),
        session: world.session_of(of).await,
        logo: upload(of, "spring", png()).await.member("name"),
    }
}

fn is_refused(reply: &Reply) -> bool {
    let says = reply.json()["error"].as_str().is_some_and(|text| text.contains("too many lists and reports"));
    reply.outcome() == "503 overloaded" && reply.header("retry-after") == "1" && says
}

/// Every list and report takes a place of its account's share, and single rows do not; a used-up share does not affect
/// another account.
#[tokio::test]
async fn r3_every_list_takes_a_place_of_its_accounts_share() {
    let world = spawn().await;
    let of_a = things(&world, &world.a).await;
    let places = [
        ("/v1/links/", &of_a.link),
        ("/v1/affiliates/", &of_a.affiliate),
        ("/v1/webhooks/", &of_a.webhook),
        ("/v1/sources/", &of_a.source),
        ("/v1/qr-logos/", &of_a.logo),
    ];
    let mut paths = Vec::new();
    for operation in
        operations::all().iter().filter(|of| of.method == Method::GET && !of.is_public && !of.takes_session)
    {
        let id = places.iter().find(|(path, _)| operation.path.starts_with(path)).map_or("", |(_, id)| id);
        let query = if operation.id == "funnel" { "?link_ids=spring-42" } else { "" };
        // The stream of events has its own limit of readers.
        if operation.id != "event_stream" {
            paths.push((operation.id.as_str(), operation.at(id) + query));
        }
    }
    let lists = paths.iter().filter(|(id, _)| LISTS.contains(id)).count();
    assert_eq!((lists, paths.len()), (LISTS.len(), LISTS.len() + 8), "a new operation reads a list, or one row");

    let held = world.node(0).hold_reports(&world.a.tenant, true);
    for (id, path) in &paths {
        let reply = world.a.get(path).await;
        assert!(if LISTS.contains(id) { is_refused(&reply) } else { reply.status == 200 }, "{path} {}", reply.text());
        if *id == "list_links" {
            assert!(is_refused(&world.a1.get(path).await), "an affiliate uses its account's share");
        }
    }
    let page = async |path: &str| {
        let path = path.replace("{webhook_id}", &of_a.webhook);
        world.nobody.browse(Method::GET, &path).session(&of_a.session).send().await.status
    };
    for path in PAGES {
        assert_eq!(page(path).await, 503, "{path}");
    }
    assert_eq!([page("/account/new-link").await, page("/account/links/spring-42").await], [200, 200]);
    for path in ["/v1/links?status=flagged", "/v1/domains", "/v1/auth/users"] {
        assert_eq!(world.b.get(path).await.status, 200, "{path}");
    }
    assert_eq!(world.nobody.tap("spring-42").await.status, 302);
    drop(held);
    for (_, path) in &paths {
        assert_eq!(world.a.get(path).await.status, 200, "{path}");
    }
    for path in PAGES {
        assert_eq!(page(path).await, 200, "{path}");
    }
}

/// Visits and keys have reserved readers: uncached links are followed and keys recognized while all other readers are
/// taken.
#[tokio::test]
async fn r3_visits_and_keys_are_answered_while_all_other_readers_are_taken() {
    let world = spawn().await;
    let of_a = things(&world, &world.a).await;
    let held = world.node(0).hold_readers().await.expect("every reader");
    // Everything cached is read again.
    world.clock.advance(Duration::from_secs(6));
    for _ in 0..20 {
        assert_eq!(world.nobody.tap("spring-42").await.status, 302);
        assert_eq!(world.nobody.tap("unknown").await.status, 404);
        assert_eq!(
            world.nobody.ask(Method::GET, "/nowhere").header("host", "unknown.example.com").send().await.status,
            404
        );
        // Its handler reads nothing, so the key alone is looked up.
        assert_eq!(world.a.get("/v1/links?limit=0").await.outcome(), "400 bad_request limit");
        assert_eq!(world.somebody_with("sk_unknown").get("/v1/links?limit=0").await.outcome(), "401 invalid_key");
        let me = world.nobody.ask(Method::GET, "/v1/auth/me").session(&of_a.session);
        assert_eq!(me.send().await.status, 200);
        world.clock.advance(Duration::from_secs(6));
    }
    drop(held);
    assert_eq!(world.a.get("/v1/links").await.status, 200);
}

/// Starts lists of a caller, and waits until some of them are answered.
async fn start_lists(
    caller: &Caller,
    count: usize,
    answered: usize,
) -> (Vec<Reply>, tokio::sync::mpsc::Receiver<Reply>) {
    let (said, mut heard) = tokio::sync::mpsc::channel(count);
    for _ in 0..count {
        let (caller, said) = (caller.clone(), said.clone());
        tokio::spawn(async move { said.send(caller.get("/v1/links?status=flagged").await).await });
    }
    let mut first = Vec::new();
    while first.len() < answered {
        first.push(heard.recv().await.expect("an answer"));
    }
    (first, heard)
}

/// Requests beyond an account's share are refused at once, and waiting ones are answered in turn.
#[tokio::test]
async fn r3_what_exceeds_a_share_is_refused_at_once() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let held = world.node(0).hold_reports(&world.a.tenant, false);
    let (refused, mut waiting) = start_lists(&world.a, 70, 6).await;
    assert!(refused.iter().all(is_refused), "{refused:?}");
    assert_eq!(world.b.get("/v1/links").await.status, 200);
    assert_eq!(world.nobody.tap("spring-42").await.status, 302);
    assert_eq!(world.a.get("/v1/links/spring-42").await.status, 200, "a single row does not wait for lists");
    drop(held);
    let mut answered = 0;
    while let Some(reply) = waiting.recv().await {
        assert!(reply.status == 200 || is_refused(&reply), "{}", reply.text());
        answered += usize::from(reply.status == 200);
    }
    assert!(answered > 0);
}

/// However many lists an affiliate requests, only one at a time waits in its account's queue.
#[tokio::test]
async fn r3_an_affiliate_leaves_its_account_its_share() {
    let world = spawn().await;
    let held = world.node(0).hold_reports(&world.a.tenant, false);
    let (refused, _waiting) = start_lists(&world.a1, 70, 5).await;
    assert!(refused.iter().all(is_refused), "{refused:?}");
    let (_, mut own) = start_lists(&world.a, 1, 0).await;
    // If it were refused, it would be by then.
    for _ in 0..20 {
        assert_eq!(world.a.get("/v1/affiliates/nothing").await.status, 404);
    }
    assert!(own.try_recv().is_err(), "it waits");
    drop(held);
    assert_eq!(own.recv().await.expect("an answer").status, 200);
}
