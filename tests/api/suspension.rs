//! Accounts that the operator suspended: what stops, what still works, and that every node follows. The operator's
//! command itself is tested beside a running server, in the suite `operation`.

use deeplink_core::routes::{self, Credential};
use http::Method;
use serde_json::json;

use crate::confirmations::{confirms_nothing, new_key};
use crate::sessions::sign_up;
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::operations::{self, Operation};
use deeplink_testing::{Ask, Caller, Role, World, eventually, spawn, spawn_nodes};

const SUSPENDED: &str = "403 account_suspended";
const DOMAIN: &str = "go.example.com";

/// Suspends an account, and notifies the nodes as the operator's command does.
pub(crate) async fn suspend(world: &World, tenant: &str) {
    set(world, tenant, &world.clock.now().as_millis().to_string()).await;
}

/// Ends the suspension.
pub(crate) async fn resume(world: &World, tenant: &str) {
    set(world, tenant, "NULL").await;
}

async fn set(world: &World, tenant: &str, since: &str) {
    let sql = format!("UPDATE tenants SET suspended_at = {since} WHERE id = '{tenant}' RETURNING id");
    assert_eq!(world.db.texts(sql).await, [tenant]);
    if world.db.is_postgres() {
        world.db.number(format!("SELECT count(pg_notify('deeplink', 'account {tenant}'))")).await;
    }
}

/// Waits until a node follows.
async fn follows(caller: &Caller, is_suspended: bool) {
    eventually("the node follows", PATIENCE, || async {
        (caller.put("/v1/links/nowhere", &json!({})).await.outcome() == SUSPENDED) == is_suspended
    })
    .await;
}

/// A credential, as it is sent.
enum Shown {
    Key(String),
    Session(String),
}

impl Shown {
    fn ask(&self, caller: &Caller, operation: &Operation) -> Ask {
        let ids = ["nowhere".to_owned(), "nowhere".to_owned()];
        let ask = caller.ask_without_key(operation.method.clone(), &operation.at_each(&ids));
        match self {
            Self::Key(key) => ask.bearer(key),
            Self::Session(token) => ask.session(token),
        }
    }
}

/// Each credential of A's, with the classes of routes that accept it.
async fn credentials(world: &World) -> Vec<(Shown, Vec<Credential>)> {
    let page = world.a.post("/v1/auth/publishable-keys", &json!({"domain": DOMAIN})).await.member("key");
    let key = |key: &str| Shown::Key(key.to_owned());
    vec![
        (key(world.a.key().expect("a key")), vec![Credential::SecretKey, Credential::LinkWriter, Credential::SdkKey]),
        (key(world.a1.key().expect("a key")), vec![Credential::LinkWriter]),
        (key(&page), vec![Credential::SdkKey, Credential::PublishableKey]),
        (Shown::Session(world.session_of(&world.a).await), vec![Credential::Session]),
    ]
}

/// R12: while an account is suspended, each route that changes something is refused to each accepted credential of the
/// account, before any lookup, and each route that reads is answered. Signed-in people can sign out.
#[tokio::test]
async fn r12_each_route_that_changes_something_is_refused_to_each_credential_of_a_suspended_account() {
    let world = spawn().await;
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
    let credentials = credentials(&world).await;
    suspend(&world, world.a.tenant.as_str()).await;
    follows(&world.a, true).await;
    let (mut refused, mut answered) = (0, 0);
    for (shown, classes) in &credentials {
        for operation in operations::all() {
            let route = routes::ALL.iter().find(|route| route.operation == operation.id).expect("a route of the table");
            if !classes.contains(&route.credential) || operation.id == "signout" {
                continue;
            }
            let outcome = shown.ask(&world.a, operation).send().await.outcome();
            if operation.method.is_safe() {
                assert!(!outcome.starts_with("401") && !outcome.starts_with("403"), "{}: {outcome}", operation.id);
                answered += 1;
            } else {
                assert_eq!(outcome, SUSPENDED, "{}", operation.id);
                refused += 1;
            }
        }
    }
    assert!(refused > 45 && answered > 20, "{refused} {answered}");
    let Some((Shown::Session(token), _)) = credentials.last() else { panic!("no session") };
    assert_eq!(world.a.me(token).await.status, 200);
    let out = world.a.ask_without_key(Method::POST, "/v1/auth/signout").session(token).send().await;
    assert_eq!((out.status, world.a.me(token).await.status), (204, 401), "{}", out.text());
    assert_eq!(world.b.post("/v1/links", &json!({})).await.status, 201, "another account");
}

/// R12: a suspension stops every way of changing an account, on each node, and nothing is lost: once it is resumed, all
/// of them work as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r12_a_suspended_account_changes_on_no_node_and_comes_back_as_it_was() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
    world.a.make("spring-42").await;
    let page = world.a.post("/v1/auth/publishable-keys", &json!({"domain": DOMAIN})).await.member("key");
    let source = world.a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let address = source.member("webhook_url");
    let source = address[address.find("/in/").expect("a token")..].to_owned();
    let session = world.session_of(&world.a).await;
    let (web, purchase) = (json!({"web_url": "https://example.com/"}), json!({"user_id": "u", "type": "purchase"}));
    let writes = async |node: usize| {
        let [a, a1, nobody] = [&world.a, &world.a1, &world.nobody].map(|caller| world.at(node, caller));
        let issue = nobody.ask(Method::POST, "/v1/auth/secret-keys/issue").session(&session).body("{}");
        let click = nobody.ask(Method::POST, "/v1/lifecycle/click").bearer(&page);
        [
            a.post("/v1/links", &web).await,
            a.put("/v1/links/spring-42", &web).await,
            a.post("/v1/links/bulk", &json!({"template": web, "count": 2})).await,
            a1.post("/v1/links", &web).await,
            click.json(&json!({"link_id": "spring-42"})).send().await,
            nobody.post(&source, &purchase).await,
            issue.send().await,
        ]
        .map(|reply| reply.outcome())
    };
    let fine = ["201", "200", "201", "201", "200", "200", "201"];
    for node in 0..2 {
        assert_eq!(writes(node).await, fine);
        assert_eq!(world.at(node, &world.nobody).tap("spring-42").await.status, 302);
    }

    suspend(&world, world.a.tenant.as_str()).await;
    for node in 0..2 {
        follows(&world.at(node, &world.a), true).await;
    }
    let count = async |table: &str| world.db.number(format!("SELECT CAST(count(*) AS BIGINT) FROM {table}")).await;
    let counts = async || [count("links").await, count("conversions").await, count("secret_keys").await];
    let before = counts().await;
    for node in 0..2 {
        assert_eq!(writes(node).await, [SUSPENDED; 7]);
        let a = world.at(node, &world.a);
        assert_eq!(a.get("/v1/links/spring-42").await.member("status"), "active", "its owner sees it unchanged");
        assert_eq!(a.get("/v1/links/spring-42/qr.svg").await.status, 200);
    }
    assert_eq!(counts().await, before);

    resume(&world, world.a.tenant.as_str()).await;
    for node in 0..2 {
        follows(&world.at(node, &world.a), false).await;
        assert_eq!(writes(node).await, fine);
    }
}

/// R12: visitors of each link of a suspended account see that it is disabled, on every host and node, whether the link
/// is cached or not; a flagged one keeps its warning. Nothing is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r12_links_of_a_suspended_account_are_disabled_for_visitors() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
    for id in ["known", "unknown", "bad", "old"] {
        world.a.make(id).await;
    }
    world.b.make("of-b").await;
    world.db.execute("UPDATE links SET status = 'flagged' WHERE link_id = 'bad'").await;
    world.db.execute("UPDATE links SET expires_at = 1 WHERE link_id = 'old'").await;
    let tap = async |node: usize, id: &str| world.at(node, &world.nobody).tap(id).await.status;
    for node in 0..2 {
        for (id, status) in [("known", 302), ("bad", 200), ("of-b", 302)] {
            eventually("it is cached", PATIENCE, || async { tap(node, id).await == status }).await;
        }
    }
    suspend(&world, world.a.tenant.as_str()).await;
    for node in 0..2 {
        eventually("the notice shows", PATIENCE, || async { tap(node, "known").await == 410 }).await;
    }
    world.folded().await;
    let clicks = world.a.clicks_of("known").await;
    for node in 0..2 {
        let nobody = world.at(node, &world.nobody);
        for (id, status, says) in [
            ("known", 410, "disabled"),
            ("unknown", 410, "disabled"),
            ("old", 410, "disabled"),
            ("bad", 200, "flagged"),
            ("of-b", 302, "active"),
        ] {
            assert_eq!(tap(node, id).await, status, "{id}");
            assert_eq!(nobody.resolve(id).await.json()["_service_meta"]["status"], says, "{id}");
        }
        let on_host = nobody.browse(Method::GET, "/known").header("host", DOMAIN).send().await;
        assert_eq!(on_host.status, 410);
    }
    world.folded().await;
    assert_eq!(world.a.clicks_of("known").await, clicks);

    resume(&world, world.a.tenant.as_str()).await;
    for node in 0..2 {
        eventually("the link works", PATIENCE, || async { tap(node, "known").await == 302 }).await;
        assert_eq!((tap(node, "unknown").await, tap(node, "bad").await), (302, 200));
    }
}

/// R12: people of a suspended account can sign in; an invitation into it is not accepted, and works once it is resumed.
#[tokio::test]
async fn r12_people_of_a_suspended_account_sign_in_and_nobody_joins_them() {
    let world = spawn().await;
    let invitation = world.invite(&world.a, "new@example.com").await;
    suspend(&world, world.a.tenant.as_str()).await;
    follows(&world.a, true).await;
    let session = world.sign_in("a@example.com").await;
    assert_eq!(world.a.me(&session).await.status, 200);
    let location = async || world.nobody.accept(&invitation).await.header("location").to_owned();
    assert!(location().await.ends_with("/signin?error=invite_invalid"));
    resume(&world, world.a.tenant.as_str()).await;
    follows(&world.a, false).await;
    assert!(location().await.ends_with("/signin?invite=accepted"));
}

/// The mailed link of a sign-up confirms nothing while the account is suspended, and is not used up by it.
#[tokio::test]
async fn r12_a_suspended_sign_up_is_confirmed_once_it_is_resumed() {
    let world = spawn().await;
    let (_, token) = sign_up(&world, "v@example.org").await;
    let tenant = world.db.texts("SELECT tenant_id FROM users WHERE email = 'v@example.org'").await.remove(0);
    suspend(&world, &tenant).await;
    assert!(confirms_nothing(&world.nobody.confirm(&token).await));
    resume(&world, &tenant).await;
    new_key(&world.nobody.confirm(&token).await);
}
