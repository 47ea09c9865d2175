//! What a custom host serves, and whose it is. The forms of a host name are in `headers`.

use std::time::Duration;

use deeplink_client::Signup;
use http::Method;
use serde_json::json;

use super::{proof_of, verify};
use deeplink_testing::{Ask, Caller, Role, World, eventually, spawn, spawn_nodes};

const SOON: Duration = Duration::from_secs(5);

fn on(world: &World, host: &str, path: &str) -> Ask {
    world.nobody.ask(Method::GET, path).header("host", host).header("accept", "application/json")
}

/// L9: on the shared host a custom id belongs to the tenant that claimed it; a tenant with a verified primary may use
/// it on its own hosts, and gets nothing on the shared host when the claim ends.
#[tokio::test]
async fn l9_a_custom_id_and_three_tenants() {
    let world = spawn().await;
    let account = world.nobody.sessions().signup(&Signup::new("c@example.com")).await.expect("an account");
    let c = world.somebody_with(account.api_key.expose());
    world.mails(1).await;
    let create = async |caller: &Caller, url: &str| {
        caller.post("/v1/links", &json!({"custom_id": "promo", "web_url": url})).await
    };
    assert_eq!(create(&world.a, "https://example.com/a").await.status, 201);
    assert_eq!(create(&world.b, "https://example.com/b").await.outcome(), "409 link_id_taken custom_id");
    world.claim_domain(&c, "go.example.com", Role::Primary).await;
    assert_eq!(create(&c, "https://example.com/c").await.status, 409, "a claim on a domain is not enough");
    world.own_domain(&c, "open.example.com", Role::Alternate).await;
    assert_eq!(create(&c, "https://example.com/c").await.status, 409, "nor is an alternate");
    world.dns.txt(&proof_of("go.example.com"), &[&token_of(&c, "go.example.com").await]);
    assert_eq!(verify(&c, "go.example.com").await["verified"], true);
    let made = create(&c, "https://example.com/c").await;
    assert_eq!((made.status, made.member("url")), (201, "https://go.example.com/promo".to_owned()));

    let leads_to = async |host: &str, path: &str| on(&world, host, path).send().await.json()["web_url"].clone();
    for (host, path, url) in [
        ("localhost", "/r/promo", "https://example.com/a"),
        ("go.example.com", "/promo", "https://example.com/c"),
        ("go.example.com", "/r/promo", "https://example.com/c"),
        ("open.example.com", "/promo", "https://example.com/c"),
    ] {
        assert_eq!(leads_to(host, path).await, url, "{host}{path}");
    }
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    assert_eq!(on(&world, "localhost", "/r/promo").send().await.status, 404, "the claim is not passed on");
    assert_eq!(leads_to("go.example.com", "/promo").await, "https://example.com/c");
    // The link keeps the host that it was created under, whatever happens to the domain.
    assert_eq!(c.delete("/v1/domains/go.example.com").await.status, 204);
    assert_eq!(c.get("/v1/links/promo").await.member("url"), "https://go.example.com/promo");
    assert_eq!(on(&world, "go.example.com", "/promo").send().await.status, 404);
}

async fn token_of(caller: &Caller, domain: &str) -> String {
    let all = caller.get("/v1/domains").await.json();
    let of = all.as_array().expect("domains").iter().find(|listed| listed["domain"] == domain).expect("the domain");
    of["verification_token"].as_str().expect("a token").to_owned()
}

/// I6: a tenant's hosts show only its own links, under either path, whatever the ids.
#[tokio::test]
async fn i6_hosts_show_their_own_tenants_links() {
    let world = spawn().await;
    for (caller, host, name) in [(&world.a, "a.example.com", "of-a"), (&world.b, "b.example.com", "of-b")] {
        world.own_domain(caller, host, Role::Primary).await;
        caller.make_of(&json!({"custom_id": "same", "web_url": format!("https://example.com/{name}")})).await;
        caller.make(name).await;
    }
    for (host, own, foreign) in [("a.example.com", "of-a", "of-b"), ("b.example.com", "of-b", "of-a")] {
        for path in ["", "/r"] {
            let same = on(&world, host, &format!("{path}/same")).send().await;
            assert_eq!(same.json()["web_url"], format!("https://example.com/{own}"));
            assert_eq!(same.json()["_service_meta"]["tenant_domain"], host);
            assert_eq!(on(&world, host, &format!("{path}/{own}")).send().await.status, 200);
            let hidden = on(&world, host, &format!("{path}/{foreign}")).send().await;
            let random = on(&world, host, &format!("{path}/nowhere")).send().await;
            assert_eq!((hidden.status, hidden.without_request_id()), (404, random.without_request_id()));
            assert_eq!(hidden.header("set-cookie"), "");
        }
    }
}

/// L12: until its domain is verified, a host has no tenant: no links, no association files; the API answers there as on
/// every host that is not a tenant's. Verified, it is the other way round.
#[tokio::test]
async fn l12_a_host_is_a_tenants_from_its_proof_to_its_end() {
    let world = spawn().await;
    world.a.make("own").await;
    let token = world.claim_domain(&world.a, "go.example.com", Role::Primary).await;
    let status = async |path: &str| on(&world, "go.example.com", path).send().await.status;
    let nobodys = async || {
        for path in ["/own", "/r/own", "/.well-known/apple-app-site-association", "/.well-known/assetlinks.json"] {
            assert_eq!(status(path).await, 404, "{path}");
        }
        for (path, expected) in [("/health", 200), ("/ready", 200), ("/openapi.json", 200), ("/v1/links", 401)] {
            assert_eq!(status(path).await, expected, "{path}");
        }
    };
    nobodys().await;
    world.dns.txt(&proof_of("go.example.com"), &[&token]);
    assert_eq!(verify(&world.a, "go.example.com").await["verified"], true);
    for path in ["/own", "/r/own", "/health"] {
        assert_eq!(status(path).await, 200, "{path}");
    }
    for path in ["/ready", "/openapi.json", "/v1/links", "/v1/domains", "/docs", "/.well-known/security.txt"] {
        assert_eq!(status(path).await, 404, "{path}");
    }
    assert_eq!(world.a.delete("/v1/domains/go.example.com").await.status, 204);
    nobodys().await;
}

/// L24: verifying or deleting a domain on one node takes effect there at once, and on the others within five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_domains_reach_the_other_node() {
    let world = spawn_nodes(2).await;
    let (here, there) = (world.at(0, &world.b), world.at(1, &world.b));
    here.make("own").await;
    let on_host = async |node: usize| {
        let ask = world.at(node, &world.nobody).browse(Method::GET, "/own").header("host", "go.example.com");
        ask.send().await.status
    };
    let url = async |node: usize| world.at(node, &world.b).get("/v1/links/own").await.member("url");
    for _ in 0..2 {
        for node in [0, 1] {
            assert_eq!(on_host(node).await, 404);
            here.resolve("own").await;
            there.resolve("own").await;
        }
        world.own_domain(&here, "go.example.com", Role::Primary).await;
        assert_eq!(on_host(0).await, 302, "at once on the node that verified");
        eventually("the host is known on the other", SOON, || async { on_host(1).await == 302 }).await;
        eventually("its links say so", SOON, || async {
            there.resolve("own").await.json()["_service_meta"]["tenant_domain"] == "go.example.com"
        })
        .await;
        assert_eq!(url(1).await, "https://go.example.com/own");
        assert_eq!(there.delete("/v1/domains/go.example.com").await.status, 204);
        assert_eq!(on_host(1).await, 404, "at once on the node that deleted it");
        eventually("the host is forgotten on the other", SOON, || async { on_host(0).await == 404 }).await;
        eventually("its links say so", SOON, || async {
            here.resolve("own").await.json()["_service_meta"]["tenant_verified"] == false
        })
        .await;
    }
}
