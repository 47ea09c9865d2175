//! What guessing costs: ids, hosts, keys and tokens that do not exist.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::lifecycle::page_of;
use deeplink_testing::{Ask, World, at_once, operations, spawn_with};

const HOST: &str = "pages.example.com";

/// Objects that do not exist, of each kind in turn.
fn guess(world: &World, number: usize) -> Ask {
    let (nobody, id) = (&world.nobody, format!("guess-{number}"));
    let keyed = |key: String, method, path: &str| nobody.ask(method, path).bearer(&key);
    let form = |path| nobody.ask(Method::POST, path).form(&[("token", &format!("{number:064x}"))]);
    match number % 12 {
        0 => nobody.ask(Method::GET, &format!("/r/{id}")),
        1 => nobody.ask(Method::GET, &format!("/{id}")).header("host", HOST),
        2 => nobody.ask(Method::GET, "/v1/links").header("host", format!("{id}.example.com")),
        3 => keyed(format!("sk_{id}"), Method::GET, "/v1/links"),
        4 => keyed(format!("pk_{id}"), Method::POST, "/v1/lifecycle/click").json(&json!({"link_id": "spring-42"})),
        5 => nobody.ask(Method::POST, &format!("/in/{number:064x}")).json(&json!({"user_id": "u", "type": "purchase"})),
        6 => nobody.ask(Method::GET, "/v1/auth/me").session(&format!("{number:064x}")),
        7 => form("/v1/auth/callback"),
        8 => form("/v1/auth/verify"),
        9 => form("/account/confirm"),
        10 => form("/signin/once"),
        _ => nobody.ask(Method::GET, &format!("/v1/auth/oauth/google/callback?code=c&state={number:064x}")),
    }
}

/// While an address is over its limit of misses, lookups that are not cached are 429 before the database is asked, for
/// ids, hosts, keys and tokens alike; cached ones are answered.
#[tokio::test]
async fn r7_an_address_over_its_misses_costs_no_query() {
    const LIMIT: usize = 33;
    let world =
        spawn_with(|config| config.limits.misses_per_minute = u32::try_from(LIMIT).expect("a small limit")).await;
    let page = page_of(&world, &world.a, HOST).await;
    world.a.make("spring-42").await;
    let source = world.a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let address = source.member("webhook_url");
    let source = address[address.find("/in/").expect("a token")..].to_owned();
    let session = world.session_of(&world.a).await;
    let of_memory = || {
        [
            world.nobody.browse(Method::GET, "/r/spring-42"),
            world.nobody.browse(Method::GET, "/spring-42").header("host", HOST),
            world.a.ask(Method::GET, "/v1/links?limit=0"),
        ]
    };
    let known = || {
        [
            world.a.ask(Method::GET, "/v1/links/spring-42"),
            page.ask(Method::POST, "/v1/lifecycle/click").json(&json!({"link_id": "spring-42"})),
            world.nobody.ask(Method::POST, &source).json(&json!({"user_id": "u", "type": "purchase"})),
            world.nobody.ask(Method::GET, "/v1/auth/me").session(&session),
        ]
    };
    let outcomes = async |asks: Vec<Ask>| {
        let mut outcomes = Vec::new();
        for ask in asks {
            outcomes.push(ask.send().await.status);
        }
        outcomes
    };
    assert_eq!(outcomes(of_memory().into()).await, [302, 302, 400]);
    assert_eq!(outcomes(known().into()).await, [200; 4]);

    for number in 0..LIMIT {
        let reply = guess(&world, number).send().await;
        assert!([401, 404, 303].contains(&reply.status), "{number} {}", reply.text());
    }
    let before = world.node(0).lookups();
    for number in LIMIT..LIMIT + 3_000 {
        let reply = guess(&world, number).send().await;
        assert_eq!(reply.status, 429, "{number}");
        assert!(reply.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1));
        let told =
            if matches!(number % 12, 9 | 10) { "Too many requests" } else { "too many requests for nonexistent IDs" };
        assert!(reply.text().contains(told), "{}", reply.text());
    }
    assert_eq!(outcomes(of_memory().into()).await, [302, 302, 400], "they are cached");
    // A server that sees another process write to its file reloads cached entries once: here a host and links.
    let asked = world.node(0).lookups() - before;
    assert!(asked <= 20, "{asked} look-ups for 3,000 guesses");
    assert_eq!(outcomes(known().into()).await, [200; 4], "they were valid a moment ago");

    // So they are after the cached entries are no longer trusted.
    world.clock.advance(Duration::from_secs(6));
    while guess(&world, 0).header("x-request-id", "guess").send().await.status != 429 {}
    assert_eq!(outcomes(of_memory().into()).await, [302, 302, 400]);
    assert_eq!(outcomes(known().into()).await, [200; 4]);
    world.clock.advance(Duration::from_mins(1));
    assert_eq!(guess(&world, 7_200).send().await.status, 404, "the limit is per minute");
}

/// Concurrent requests ask the database at most as often as the address has misses left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_guesses_at_one_time_are_counted_before_they_are_asked() {
    let world = spawn_with(|config| config.limits.misses_per_minute = 10).await;
    let before = world.node(0).lookups();
    let replies = at_once(60, |number| {
        let guess = world.nobody.ask(Method::GET, &format!("/r/guess-{number}"));
        async move { guess.send().await.outcome() }
    });
    let replies = replies.await;
    let count = |outcome: &str| replies.iter().filter(|reply| *reply == outcome).count();
    assert_eq!((count("404 not_found"), count("429 rate_limited")), (10, 50), "{replies:?}");
    let asked = world.node(0).lookups() - before;
    assert!(asked <= 10, "{asked} look-ups");
}

/// Misses count by the client's address as trusted proxies report it, or by its /64; a revoked key counts as a miss.
#[tokio::test]
async fn r7_misses_are_of_the_clients_address() {
    let world = spawn_with(|config| {
        config.limits.misses_per_minute = 3;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    })
    .await;
    let from = async |address: &str, number: usize| {
        guess(&world, number).header("x-forwarded-for", address).send().await.status
    };
    for (at, number) in [3, 2, 0].into_iter().enumerate() {
        assert_ne!(from(&format!("2001:db8:1:2::{at}"), number).await, 429);
    }
    for number in 0..7 {
        assert_eq!(from("2001:db8:1:2:ffff::9", number + 7).await, 429, "{number}");
        assert_ne!(from(&format!("2001:db8:1:{}::9", number + 3), number + 14).await, 429, "{number}");
    }
}

/// Where an operation takes a credential or a domain, one that memory does not know is refused like that before anything
/// else is looked at.
#[tokio::test]
async fn r7_every_operation_that_takes_a_credential_refuses_guesses() {
    let world = spawn_with(|config| config.limits.misses_per_minute = 1).await;
    assert_eq!(guess(&world, 0).send().await.outcome(), "404 not_found");
    let mut refused = 0;
    for operation in operations::all() {
        let ask = world.nobody.ask(operation.method.clone(), &operation.at("nothing"));
        let ask = match &*operation.id {
            "apple_association" | "asset_links" => ask.header("host", HOST),
            _ if operation.takes_session => ask.session(&format!("{refused:064x}")),
            _ if operation.is_public => continue,
            _ => ask.bearer(&format!("pk_guess-{refused}")),
        };
        let ask = if operation.has_body { ask.body("{}") } else { ask };
        assert_eq!(ask.send().await.outcome(), "429 rate_limited", "{}", operation.id);
        refused += 1;
    }
    assert!(refused > 60, "{refused}");
}
