//! Names under `.localhost`: domains of a service that is on this machine only (RFC 6761).

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{names, proof_of, verify};
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{Role, eventually, spawn, spawn_with};

/// A name is proved at once, links use it with the service's port, and its host shows them.
#[tokio::test]
async fn a_local_name_is_a_domain_at_once() {
    let world = spawn().await;
    let port = world.node(0).address.port();
    world.a.make("before").await;
    assert!(world.a.get("/v1/links/before").await.json()["expires_at"].is_string());
    let made = world.a.post("/v1/domains", &json!({"domain": "Shop.localhost."})).await;
    assert_eq!((made.status, made.member("domain")), (201, "shop.localhost".to_owned()));
    assert_eq!(made.json()["verified"], true);
    let before = world.a.get("/v1/links/before").await;
    assert_eq!(before.member("url"), format!("http://shop.localhost:{port}/before"));
    assert!(before.json()["expires_at"].is_null(), "links lose their end, as with any first domain");
    world.a.make("spring-42").await;
    for (host, path) in [
        ("shop.localhost".to_owned(), "/spring-42"),
        (format!("shop.localhost:{port}"), "/spring-42"),
        ("SHOP.LOCALHOST.".to_owned(), "/r/spring-42"),
    ] {
        let visit = world.nobody.browse(Method::GET, path).header("host", &host).send().await;
        assert_eq!((visit.status, visit.header("location")), (302, "https://example.com/spring-42"), "{host}{path}");
    }
    let visit = world.nobody.ask(Method::GET, "/spring-42").header("host", "shop.localhost");
    let visit = visit.header("accept", "application/json").send().await;
    assert_eq!(visit.json()["_service_meta"]["tenant_domain"], "shop.localhost");
    let other = world.nobody.browse(Method::GET, "/spring-42").header("host", "other.localhost").send().await;
    assert_eq!(other.status, 404);
    let verified = verify(&world.a, "shop.localhost").await;
    assert_eq!(
        (&verified["verified"], &verified["txt_found"], &verified["reason"]),
        (&json!(true), &json!([]), &json!(null))
    );
    let taken = world.b.post("/v1/domains", &json!({"domain": "shop.localhost"})).await;
    assert_eq!(taken.outcome(), "409 domain_taken domain");
    let key = world.a.post("/v1/auth/publishable-keys", &json!({"domain": "shop.localhost"})).await;
    assert_eq!(key.status, 201, "{}", key.text());
}

/// It is checked daily without asking DNS, where nothing is known of it.
#[tokio::test]
async fn a_local_name_stays_proved() {
    let world = spawn().await;
    assert_eq!(world.a.post("/v1/domains", &json!({"domain": "shop.localhost"})).await.status, 201);
    let due = || async { world.db.number("SELECT check_at FROM domains").await };
    for _ in 0..5 {
        let before = due().await;
        world.clock.advance(Duration::from_hours(24));
        eventually("it is checked", PATIENCE, || async {
            world.clock.advance(Duration::from_millis(1));
            due().await > before
        })
        .await;
    }
    assert_eq!(names(&world.a).await, ["shop.localhost!"]);
    assert_eq!(world.dns.asked(&proof_of("shop.localhost")), 0);
}

/// A landing page leads over the alternate domain, with the service's own scheme and port.
#[tokio::test]
async fn an_alternate_local_name_has_the_services_port() {
    let world = spawn().await;
    let port = world.node(0).address.port();
    for (domain, role) in [("shop.localhost", "primary"), ("open.localhost", "alternate")] {
        let made = world.a.post("/v1/domains", &json!({"domain": domain, "role": role})).await;
        assert_eq!(made.json()["verified"], true, "{}", made.text());
    }
    let second = world.a.post("/v1/domains", &json!({"domain": "other.localhost", "role": "alternate"})).await;
    assert_eq!(second.outcome(), "409 alternate_limit role");
    world.a.make_of(&json!({"custom_id": "open-app", "ios_deep_link": "myapp://x"})).await;
    let iphone =
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Safari/604.1";
    let ask = world.nobody.ask_without_key(Method::GET, "/open-app").header("host", "shop.localhost");
    let page = ask.header("accept", "text/html").header("user-agent", iphone).send().await.text();
    assert!(page.contains(&format!("href=\"http://open.localhost:{port}/open-app\"")), "{page}");
}

/// Names that only a service on this machine takes, by the host of its public URL.
#[tokio::test]
async fn other_services_take_no_local_name() {
    for (public_url, name, expected) in [
        ("https://links.example.com", "shop.localhost", "400 invalid_domain domain"),
        ("http://192.0.2.7:8080", "shop.localhost", "400 invalid_domain domain"),
        ("http://localhost:8080", "shop.localhost", "201"),
        ("http://localhost:8080", "localhost", "400 invalid_domain domain"),
        ("http://127.0.0.1:8080", "a.b.localhost", "201"),
        ("http://[::1]:8080", "shop.localhost", "201"),
        ("http://app.localhost:8080", "app.localhost", "400 invalid_domain domain"),
        ("http://app.localhost:8080", "x.app.localhost", "400 invalid_domain domain"),
        ("http://app.localhost:8080", "shop.localhost", "201"),
    ] {
        let world = spawn_with(|config| config.public_url = Some(public_url.parse().expect("a URL"))).await;
        let ask = world.a.ask(Method::POST, "/v1/domains").header("host", "api.example.com");
        let made = ask.json(&json!({"domain": name})).send().await;
        assert_eq!(made.outcome(), expected, "{name} on {public_url}");
        if made.status == 400 && name == "shop.localhost" {
            assert_eq!(made.member("error"), "names under .localhost are not in public DNS");
        }
    }
}

/// A service that moves from this machine to the internet keeps no name that means another machine to each visitor.
#[tokio::test]
async fn a_service_that_goes_public_drops_its_local_names() {
    let mut world = spawn().await;
    assert_eq!(world.a.post("/v1/domains", &json!({"domain": "shop.localhost"})).await.status, 201);
    world.clock.advance(Duration::from_secs(1));
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    world.a.make("spring-42").await;
    world.restart(|config| config.public_url = Some("https://links.example.com".parse().expect("a URL"))).await;
    eventually("the name is a claim again", PATIENCE, || async {
        world.clock.advance(Duration::from_millis(1));
        names(&world.a).await == ["go.example.com!", "shop.localhost"]
    })
    .await;
    assert_eq!(world.a.get("/v1/links/spring-42").await.member("url"), "https://go.example.com/spring-42");
    let visit = world.nobody.browse(Method::GET, "/spring-42").header("host", "shop.localhost").send().await;
    assert_eq!(visit.status, 404);
    world.dns.txt(&proof_of("shop.localhost"), &["other"]);
    assert_eq!(verify(&world.a, "shop.localhost").await["verified"], false);
    world.restart(|config| config.public_url = None).await;
    assert_eq!(verify(&world.a, "shop.localhost").await["verified"], true, "back on this machine it is proved again");
}
