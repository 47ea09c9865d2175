//! What an ACME server gets when it validates a name: the answer while its challenge is pending, on every node, and
//! otherwise nothing.

use std::time::Duration;

use deeplink_server::config::{Config, Tls};
use http::Method;

use deeplink_testing::{Caller, Reply, Role, World, spawn, spawn_nodes_with, spawn_with};

const NAME: &str = "go.example.com";
const PATH: &str = "/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7";

/// TLS with an ACME server that does not exist: nothing is ordered, so every challenge is the test's own.
fn with_tls(config: &mut Config) {
    let directory = "https://127.0.0.1:9/directory".parse().expect("a URL");
    config.tls = Some(Tls::new(([127, 0, 0, 1], 0).into(), directory));
}

async fn pending(world: &World, name: &str) {
    let expires_at = world.clock.now().plus_millis(600_000).as_millis();
    world
        .db
        .execute(format!(
            "INSERT INTO acme_challenges (token, name, key_authorization, expires_at)
             VALUES ('LoqXcYV8q5ONbJQxbmR7', '{name}', 'LoqXcYV8q5ONbJQxbmR7.thumbprint', {expires_at})"
        ))
        .await;
}

async fn ask(caller: &Caller, method: Method, host: &str, path: &str) -> Reply {
    caller.ask_without_key(method, path).header("host", host).send().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_challenge_is_answered_by_every_node_for_its_name_only() {
    let world = spawn_nodes_with(2, with_tls).await;
    world.own_domain(&world.a, NAME, Role::Primary).await;
    world.own_domain(&world.b, "other.example.com", Role::Primary).await;
    pending(&world, NAME).await;
    for node in 0..2 {
        let caller = world.at(node, &world.nobody);
        for host in [NAME, "GO.example.com.:80"] {
            let answer = ask(&caller, Method::GET, host, PATH).await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "LoqXcYV8q5ONbJQxbmR7.thumbprint"));
            assert_eq!(answer.header("content-type"), "text/plain");
            assert_eq!(answer.header("cache-control"), "no-store");
        }
        assert_eq!(ask(&caller, Method::HEAD, NAME, PATH).await.status, 200);
        for (method, host, path) in [
            (Method::POST, NAME, PATH),
            (Method::GET, "other.example.com", PATH),
            (Method::GET, "localhost", PATH),
            (Method::GET, "nobody.example.com", PATH),
            (Method::GET, NAME, "/.well-known/acme-challenge/"),
            (Method::GET, NAME, "/.well-known/acme-challenge"),
            (Method::GET, NAME, "/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR8"),
            (Method::GET, NAME, "/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7/"),
            (Method::GET, NAME, "/.well-known/acme-challenge/%4CoqXcYV8q5ONbJQxbmR7"),
        ] {
            let answer = ask(&caller, method.clone(), host, path).await;
            assert_eq!(answer.outcome(), "404 not_found", "{method} {host} {path}");
        }
    }
    world.clock.advance(Duration::from_mins(10));
    assert_eq!(ask(&world.nobody, Method::GET, NAME, PATH).await.outcome(), "404 not_found", "it has expired");
}

/// The name need not be verified: the service's own host is proved in the same way.
#[tokio::test]
async fn the_services_own_host_is_proved_like_any_other() {
    let world = spawn_with(with_tls).await;
    pending(&world, "localhost").await;
    assert_eq!(ask(&world.nobody, Method::GET, "localhost", PATH).await.status, 200);
    assert_eq!(ask(&world.nobody, Method::GET, NAME, PATH).await.outcome(), "404 not_found");
}

#[tokio::test]
async fn without_tls_there_are_no_challenges() {
    let world = spawn().await;
    pending(&world, "localhost").await;
    assert_eq!(ask(&world.nobody, Method::GET, "localhost", PATH).await.outcome(), "404 not_found");
}
