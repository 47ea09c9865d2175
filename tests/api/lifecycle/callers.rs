//! Who may report: the account's secret keys and, within limits, publishable ones.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{DOMAIN, attribute, click, convert, identify, page_of};
use deeplink_testing::{Caller, Reply, Role, World, eventually, spawn, spawn_nodes, spawn_with};

const SOON: Duration = Duration::from_secs(5);

async fn report(caller: &Caller) -> Reply {
    attribute(caller, "spring", "one").await
}

/// X4, X11: the header outranks the query and the cookie; a credential that is present but invalid is refused at once.
/// In the query only a publishable key counts, and only once.
#[tokio::test]
async fn x4_the_header_outranks_the_query() {
    let world = spawn().await;
    world.a.make("spring").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    let session = world.session_of(&world.a).await;
    let (public, secret) = (page.key().expect("a key"), world.a.key().expect("a key"));
    let unknown = format!("pk_live_{}", "0".repeat(48));
    let unknown_secret = format!("dl_live_{}", "0".repeat(48));
    let scoped = world.a1.key().expect("a key");
    for (header, query, expected) in [
        (None, None, "401 unauthorized"),
        (None, Some(public), "200"),
        (None, Some(secret), "401 invalid_key"),
        (None, Some(scoped), "401 invalid_key"),
        (None, Some(&*unknown), "401 invalid_key"),
        (None, Some(""), "401 invalid_key"),
        (Some(public), None, "200"),
        (Some(public), Some(&*unknown), "200"),
        (Some(secret), None, "200"),
        (Some(secret), Some(&*unknown), "200"),
        (Some(&*unknown), Some(public), "401 invalid_key"),
        (Some(&*unknown_secret), Some(public), "401 invalid_key"),
        (Some("x"), Some(public), "401 invalid_key"),
        (Some(scoped), None, "403 forbidden_scope"),
        (Some(scoped), Some(public), "403 forbidden_scope"),
    ] {
        for path in ["click", "attribute", "identify", "convert"] {
            let query = query.map_or(String::new(), |key| format!("?key={key}"));
            let method = if path == "identify" { Method::PUT } else { Method::POST };
            let ask = world.nobody.ask(method, &format!("/v1/lifecycle/{path}{query}")).session(&session);
            let ask = header.iter().fold(ask, |ask, key| ask.bearer(key));
            let body =
                json!({"link_id": "spring", "install_id": "one", "app_version": "1", "user_id": "ann", "type": "t"});
            assert_eq!(ask.json(&body).send().await.outcome(), expected, "{path} {header:?} {query:?}");
        }
    }
    let ask = |query: &str| {
        world.nobody.ask(Method::POST, &format!("/v1/lifecycle/click?{query}")).json(&json!({"link_id": "spring"}))
    };
    let twice = format!("key={public}&key={public}");
    assert_eq!(ask(&twice).send().await.outcome(), "400 bad_request key");
    assert_eq!(ask(&twice).bearer(public).send().await.outcome(), "400 bad_request key");
    assert_eq!(ask(&twice).bearer(secret).send().await.outcome(), "400 bad_request key");
    assert_eq!(ask("").header("authorization", format!("Basic {public}")).send().await.outcome(), "401 invalid_key");
    assert_eq!(ask("").bearer(public).bearer(public).send().await.outcome(), "401 invalid_key");
}

/// X4: the earlier forms of pages take publishable keys only, the earlier form of servers secret keys only.
#[tokio::test]
async fn x4_earlier_forms_take_one_kind_of_key() {
    let world = spawn().await;
    world.a.make("spring").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    for (method, path, expected) in [
        (Method::POST, "/v1/attribution/click", ["401 unauthorized", "200", "401 invalid_key", "401 invalid_key"]),
        (Method::POST, "/v1/attribution/report", ["401 unauthorized", "200", "401 invalid_key", "401 invalid_key"]),
        (Method::PUT, "/v1/attribution/link", ["401 unauthorized", "401 invalid_key", "200", "403 forbidden_scope"]),
    ] {
        for (caller, expected) in [&world.nobody, &page, &world.a, &world.a1].into_iter().zip(expected) {
            let body = json!({"link_id": "spring", "install_id": "one", "app_version": "1", "user_id": "ann"});
            let reply = caller.ask(method.clone(), path).json(&body).send().await;
            assert_eq!(reply.outcome(), expected, "{path}");
            let later = match path {
                "/v1/attribution/click" => "</v1/lifecycle/click>; rel=\"successor-version\"",
                "/v1/attribution/report" => "</v1/lifecycle/attribute>; rel=\"successor-version\"",
                _ => "</v1/lifecycle/identify>; rel=\"successor-version\"",
            };
            assert_eq!((reply.header("deprecation"), reply.header("link")), ("@1795132800", later));
        }
    }
    let wrong_method = world.a.get("/v1/attribution/click").await;
    assert_eq!((wrong_method.status, wrong_method.header("deprecation")), (405, "@1795132800"));
    assert_eq!(report(&page).await.header("deprecation"), "");
    world.expect_clicks(&[(0, 1)]).await;
}

/// Reports from one address until one is refused; returns how many were accepted.
async fn flood(ask: impl AsyncFn() -> Reply, most: usize) -> usize {
    for taken in 0..most {
        let reply = ask().await;
        if reply.status == 429 {
            assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("429 rate_limited", "1"));
            return taken;
        }
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    most
}

/// I9: with a publishable key 20 reports a second and a burst of 100 per address, checked before the body; IPv6
/// addresses are limited by /64. Secret keys have no limit.
#[tokio::test]
async fn i9_reports_of_one_address_are_limited() {
    let world = spawn_with(|config| {
        config.limits.reports_per_second = 20;
        config.limits.reports_per_key = 2_000;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    })
    .await;
    world.a.make("spring").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    let from = |address: &'static str| {
        let page = page.clone();
        async move || {
            let ask = page.ask(Method::PUT, "/v1/lifecycle/identify").header("x-forwarded-for", address);
            ask.json(&json!({"install_id": "one", "user_id": "ann"})).send().await
        }
    };
    assert_eq!(flood(from("198.51.100.1"), 200).await, 100);
    assert_eq!(flood(from("198.51.100.2"), 200).await, 100);
    assert_eq!(flood(from("2001:db8::1"), 200).await, 100);
    assert_eq!(flood(from("2001:db8::ffff:1"), 200).await, 0, "the same /64");
    assert_eq!(flood(from("2001:db8:0:1::1"), 200).await, 100);
    let denied = page.ask(Method::POST, "/v1/lifecycle/attribute").header("x-forwarded-for", "198.51.100.1");
    assert_eq!(denied.clone().body_as("text/plain", "x").send().await.outcome(), "429 rate_limited");
    let in_query = format!("/v1/lifecycle/convert?key={}", page.key().expect("a key"));
    let in_query = world.nobody.ask(Method::POST, &in_query).header("x-forwarded-for", "198.51.100.1");
    assert_eq!(in_query.body("{").send().await.outcome(), "429 rate_limited", "in the query it is the same key");
    let preflight = world.nobody.ask(Method::OPTIONS, "/v1/lifecycle/click").header("x-forwarded-for", "198.51.100.1");
    assert_eq!(preflight.send().await.status, 204);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(flood(from("198.51.100.1"), 200).await, 20);
    for _ in 0..150 {
        assert_eq!(identify(&world.a, "one", "ann").await.status, 200);
    }
}

/// I9: and a limit per second for each key, over all addresses.
#[tokio::test]
async fn i9_reports_of_one_key_are_limited() {
    let world = spawn_with(|config| {
        config.limits.reports_per_second = 0;
        config.limits.reports_per_key = 150;
    })
    .await;
    world.a.make("spring").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    let other = page_of(&world, &world.a, "other.example.com").await;
    assert_eq!(flood(async || identify(&page, "one", "ann").await, 300).await, 150);
    assert_eq!(flood(async || identify(&other, "one", "ann").await, 300).await, 150, "another key");
    world.clock.advance(Duration::from_millis(100));
    assert_eq!(flood(async || identify(&page, "one", "ann").await, 300).await, 15);
}

/// I9: while its domain is not verified, or not the account's, a publishable key is invalid, from the next request on.
#[tokio::test]
async fn i9_a_publishable_key_ends_with_its_domain() {
    let world = spawn().await;
    world.a.make("spring").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    assert_eq!(report(&page).await.status, 200);
    assert_eq!(world.a.delete(&format!("/v1/domains/{DOMAIN}")).await.status, 204);
    let ended = report(&page).await;
    assert_eq!(ended.outcome(), "401 invalid_key");
    let unknown = world.somebody_with(&format!("pk_live_{}", "0".repeat(48)));
    assert_eq!(report(&unknown).await.without_request_id(), ended.without_request_id());
    // A claim is not enough; the proof is, at once.
    let token = world.claim_domain(&world.a, DOMAIN, Role::Alternate).await;
    assert_eq!(report(&page).await.outcome(), "401 invalid_key");
    world.dns.txt(&format!("_deeplink-verify.{DOMAIN}"), &[&token]);
    assert_eq!(world.a.post_nothing(&format!("/v1/domains/{DOMAIN}/verify")).await.status, 200);
    assert_eq!(report(&page).await.status, 200, "whatever its role");
    // Another account's domain is not this one's.
    assert_eq!(world.a.delete(&format!("/v1/domains/{DOMAIN}")).await.status, 204);
    world.own_domain(&world.b, DOMAIN, Role::Primary).await;
    assert_eq!(report(&page).await.outcome(), "401 invalid_key");
}

/// I9: when a domain loses its proof, its keys become invalid within five seconds, on every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i9_a_domain_that_is_lost_ends_its_keys() {
    let world = spawn_nodes(2).await;
    world.a.make("spring").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    let pages = [world.at(0, &page), world.at(1, &page)];
    for page in &pages {
        assert_eq!(report(page).await.status, 200);
    }
    world.db.execute("UPDATE domains SET verified_at = NULL").await;
    for page in &pages {
        eventually("the key is dead", SOON, || async { report(page).await.status == 401 }).await;
    }
}

/// K3: a publishable key that was deleted is refused on the node at once, and on the others within five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k3_publishable_keys_end_everywhere() {
    let world = spawn_nodes(2).await;
    world.a.make("spring").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    let pages = [world.at(0, &page), world.at(1, &page)];
    for round in 0..3 {
        for page in &pages {
            assert_eq!(report(page).await.status, 200, "{round}");
        }
    }
    let id = world.a.get("/v1/auth/publishable-keys").await.json()["keys"][0]["id"].as_str().expect("an id").to_owned();
    let here = world.at(0, &world.a);
    assert_eq!(here.delete(&format!("/v1/auth/publishable-keys/{id}")).await.status, 204);
    assert_eq!(report(&pages[0]).await.outcome(), "401 invalid_key", "at once");
    eventually("the other node refuses it", SOON, || async { report(&pages[1]).await.status == 401 }).await;
}

/// I1, I9: a publishable key reaches only its own account's links, installs and users, and its conversions have no
/// source.
#[tokio::test]
async fn i9_a_publishable_key_reaches_its_own_account_only() {
    let world: World = spawn().await;
    world.a.make("spring").await;
    world.b.make("foreign").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    assert_eq!(attribute(&page, "foreign", "one").await.outcome(), "404 not_found");
    assert_eq!(click(&page, "foreign").await.outcome(), "404 not_found");
    assert_eq!(identify(&world.b, "one", "ben").await.status, 200);
    assert_eq!(identify(&page, "one", "ann").await.status, 200, "another account's install is a different one");
    assert_eq!(convert(&page, &json!({"user_id": "ben", "type": "t"})).await.json()["unattributed"], 1);
    let sources = "SELECT CAST(count(*) AS BIGINT) FROM conversions WHERE source_id IS NULL";
    assert_eq!(world.db.number(sources).await, 1);
}

/// X21: an idempotency key is scoped to the publishable key: other keys of the account have their own scopes.
#[tokio::test]
async fn x21_idempotency_keys_are_scoped_to_the_publishable_key() {
    let world = spawn().await;
    world.a.make("spring").await;
    let one = page_of(&world, &world.a, DOMAIN).await;
    let two = page_of(&world, &world.a, "other.example.com").await;
    let ask = async |caller: &Caller, path: &str| {
        let ask = caller.ask(Method::POST, path).header("idempotency-key", "same");
        ask.json(&json!({"link_id": "spring", "install_id": "one", "app_version": "1", "user_id": "ann", "type": "t"}))
            .send()
            .await
    };
    for path in ["/v1/lifecycle/attribute", "/v1/lifecycle/convert", "/v1/attribution/report"] {
        let callers: &[&Caller] = if path.contains("report") { &[&one, &two] } else { &[&one, &two, &world.a] };
        for caller in callers {
            let first = ask(caller, path).await;
            assert_eq!((first.status, first.header("idempotency-replayed")), (200, ""), "{path}");
            let again = ask(caller, path).await;
            assert_eq!((again.status, again.header("idempotency-replayed")), (200, "true"), "{path}");
            assert_eq!(first.body, again.body);
        }
    }
    let count = async |table: &str| world.db.number(format!("SELECT CAST(count(*) AS BIGINT) FROM {table}")).await;
    assert_eq!((count("touches").await, count("conversions").await), (5, 3));
}
