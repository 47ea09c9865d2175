//! The headers of requests and answers: methods, hosts, origins, policies.

use std::time::Duration;

use deeplink_core::routes::{self, Credential};
use http::Method;
use serde_json::json;

use deeplink_testing::{Role, operations, spawn, spawn_with, wire};

/// X12: the headers of every answer, over all routes: no sniffing; pages run only their own script and style.
#[tokio::test]
async fn x12_headers_of_every_route() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "page", "ios_deep_link": "myapp://x"})).await;
    let mut table = Vec::new();
    for (method, path) in [
        (Method::GET, "/health"),
        (Method::GET, "/ready"),
        (Method::GET, "/openapi.json"),
        (Method::GET, "/llms.txt"),
        (Method::GET, "/robots.txt"),
        (Method::GET, "/.well-known/security.txt"),
        (Method::GET, "/docs"),
        (Method::GET, "/docs/search?q=link"),
        (Method::GET, "/v1/auth/callback?token=t"),
        (Method::GET, "/v1/auth/verify?token=t"),
        (Method::GET, "/account/confirm?token=t"),
        (Method::POST, "/account/confirm"),
        (Method::GET, "/signin/once?token=t"),
        (Method::POST, "/signin/once"),
        (Method::GET, "/signin"),
        (Method::POST, "/signin"),
        (Method::GET, "/account"),
        (Method::POST, "/account/signout"),
        (Method::GET, "/r/page"),
        (Method::GET, "/r/nowhere"),
        (Method::GET, "/v1/links"),
        (Method::POST, "/v1/links"),
        (Method::GET, "/v1/links/page/qr.png"),
        (Method::GET, "/v1/links/page/qr.svg"),
        (Method::POST, "/mcp"),
        (Method::GET, "/nowhere"),
        (Method::GET, "/"),
        (Method::GET, "/favicon.ico"),
        (Method::GET, "/favicon.svg"),
    ] {
        let reply = world.a.browse(method.clone(), path).bearer(world.a.key().expect("a key")).send().await;
        let policy = reply.header("content-security-policy");
        let named = ["'nonce-", "'sha256-"].into_iter().find_map(|kind| policy.split(kind).nth(1));
        let named = named.and_then(|rest| rest.split('\'').next());
        let policy = named.map_or(policy.to_owned(), |named| policy.replace(named, "N"));
        let policy = policy.replace(world.a.base(), "http://service");
        let told = ["content-type", "cache-control", "referrer-policy"].map(|name| reply.header(name)).join(" | ");
        table.push(format!("{method} {path} {} | {told} | {policy}", reply.status));
    }
    insta::assert_snapshot!(table.join("\n"));
}

/// X12: with an https base URL, browsers are told to use https for a year.
#[tokio::test]
async fn x12_https_services_say_so() {
    let world =
        spawn_with(|config| config.public_url = Some("https://links.example.com".parse().expect("a URL"))).await;
    for path in ["/health", "/r/nowhere", "/v1/links", "/nowhere", "/docs"] {
        let reply = world.nobody.get(path).await;
        assert_eq!(reply.header("strict-transport-security"), "max-age=31536000", "{path}");
    }
    let plain = spawn().await;
    assert_eq!(plain.nobody.get("/health").await.header("strict-transport-security"), "");
}

/// X12: the nonce of a page is fresh each time, 128 bits long.
#[tokio::test]
async fn x12_nonces_are_used_once() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "page", "ios_deep_link": "myapp://x"})).await;
    let mut nonces = std::collections::HashSet::new();
    for _ in 0..50 {
        let reply = world.a.tap("page").await;
        let policy = reply.header("content-security-policy").to_owned();
        let nonce =
            policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce").to_owned();
        assert!(nonce.len() == 24 && reply.text().contains(&nonce));
        assert!(nonces.insert(nonce));
    }
}

/// What pages of other origins may read of an answer besides its body.
const PAGES_READ: &str = "Retry-After, X-Request-Id, Idempotency-Replayed, Deprecation, Link";

/// X13: a page of another origin may read links, report with a publishable key, and read the interface's description, and
/// nothing else: no other route answers a preflight or names an origin. No route lets it send a cookie.
#[tokio::test]
async fn x13_other_origins_may_read_links_and_report_only() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for operation in operations::all() {
        let path = operation.at("spring-42");
        let is_visit = operation.id == "resolve";
        let route = routes::ALL.iter().find(|route| route.operation == operation.id).expect("a route");
        let is_of_pages = matches!(route.credential, Credential::SdkKey | Credential::PublishableKey);
        let preflight = world
            .nobody
            .ask(Method::OPTIONS, &path)
            .header("origin", "https://other.example")
            .header("access-control-request-method", operation.method.as_str())
            .header("access-control-request-headers", "authorization,content-type")
            .send()
            .await;
        let origin = preflight.header("access-control-allow-origin");
        if is_visit {
            assert_eq!((preflight.status, origin), (204, "*"));
            assert_eq!(preflight.header("access-control-allow-methods"), "GET");
            assert!(!preflight.header("access-control-allow-headers").to_ascii_lowercase().contains("authorization"));
            assert!(
                preflight.header("access-control-allow-headers").contains("purpose"),
                "reading that counts nothing"
            );
            assert_eq!(preflight.header("allow"), "GET, HEAD, OPTIONS");
        } else if is_of_pages {
            assert_eq!((preflight.status, origin, preflight.body.len()), (204, "*", 0), "{path}");
            let told =
                ["methods", "headers"].map(|name| preflight.header(&format!("access-control-allow-{name}")).to_owned());
            assert_eq!(told, [operation.method.as_str(), "authorization, content-type, idempotency-key"], "{path}");
            assert_eq!(preflight.header("access-control-max-age"), "86400");
        } else {
            assert_eq!((preflight.outcome().as_str(), origin), ("405 method_not_allowed", ""), "{path}");
        }
        let asked = world
            .a
            .ask(operation.method.clone(), &path)
            .header("origin", "https://other.example")
            .json(&json!({}))
            .send()
            .await;
        let is_readable = is_of_pages || operation.id == "openapi";
        assert_eq!(asked.header("access-control-allow-origin"), if is_readable { "*" } else { "" }, "{path}");
        let readable = if is_of_pages { PAGES_READ } else { "" };
        assert_eq!(asked.header("access-control-expose-headers"), readable, "{path}");
        for reply in [&preflight, &asked] {
            assert_eq!(reply.header("access-control-allow-credentials"), "", "{path}");
        }
        // CORS does not decide who may call: a method that is not served is refused as before, and can be read.
        if is_of_pages {
            let patched = world.a.ask(Method::PATCH, &path).send().await;
            assert_eq!((patched.status, patched.header("access-control-allow-origin")), (405, "*"), "{path}");
            let elsewhere = world.nobody.ask(Method::OPTIONS, &format!("{path}/")).send().await;
            assert_eq!((elsewhere.status, elsewhere.header("access-control-allow-origin")), (404, ""), "{path}");
        }
    }
    world.a.make("spring-43").await;
    for (accept, path, origin) in [
        ("application/json", "/r/spring-43", "*"),
        ("application/json", "/r/nowhere", "*"),
        ("*/*", "/r/nowhere", "*"),
        ("text/html", "/r/nowhere", ""),
        ("text/html", "/r/spring-43", ""),
        ("*/*", "/r/spring-43", ""),
    ] {
        let ask =
            world.nobody.ask(Method::GET, path).header("accept", accept).header("origin", "https://other.example");
        let reply = ask.send().await;
        assert_eq!(reply.header("access-control-allow-origin"), origin, "{accept} {path}");
        let readable = if origin.is_empty() { "" } else { PAGES_READ };
        assert_eq!(reply.header("access-control-expose-headers"), readable, "{accept} {path}");
    }
}

/// X13: JSON errors of a link can be read from every origin, including `Retry-After`: 429, 503 and 500 too.
#[tokio::test]
async fn x13_pages_read_every_error_of_a_link() {
    let world = spawn_with(|config| {
        config.limits.misses_per_minute = 1;
        config.database_timeout = Duration::from_secs(2);
    })
    .await;
    let ask = async |path: &str, accept: &str| {
        let ask = world.nobody.ask(Method::GET, path).header("accept", accept);
        ask.header("origin", "https://other.example").send().await
    };
    let mut replies = vec![ask("/r/nowhere", "application/json").await, ask("/r/neither", "application/json").await];
    let page = ask("/r/neither", "text/html").await;
    assert_eq!((page.status, page.header("access-control-allow-origin")), (429, ""));
    // A caller with a miss left is told of failures.
    world.clock.advance(Duration::from_mins(1));
    world.db.execute("ALTER TABLE links RENAME TO hidden").await;
    replies.push(ask("/r/spring-42", "*/*").await);
    world.db.execute("ALTER TABLE hidden RENAME TO links").await;
    if world.db.is_postgres() {
        let away = world.db.take_away().await;
        replies.push(ask("/r/spring-42", "application/json").await);
        away.give_back().await;
        assert_eq!(replies[3].status, 503);
    }
    assert_eq!(replies[..3].iter().map(|reply| reply.status).collect::<Vec<_>>(), [404, 429, 500]);
    for reply in replies {
        let told =
            ["allow-origin", "expose-headers"].map(|name| reply.header(&format!("access-control-{name}")).to_owned());
        assert_eq!(told, ["*", PAGES_READ], "{}", reply.status);
        assert_eq!(reply.header("retry-after").is_empty(), ![429, 503].contains(&reply.status), "{}", reply.status);
    }
}

/// X14: TRACE and CONNECT are refused.
#[tokio::test]
async fn x14_trace_and_connect_are_refused() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let address = world.node(0).address;
    for (method, target) in [
        ("TRACE", "/r/spring-42"),
        ("TRACE", "/health"),
        ("TRACE", "/v1/links"),
        ("TRACK", "/r/spring-42"),
        ("CONNECT", "example.com:443"),
    ] {
        let secret = "x-secret-that-must-not-come-back";
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nX-Probe: {secret}\r\nConnection: close\r\n\r\n");
        let answer = wire::send(address, request.as_bytes()).await;
        let status = wire::status(&answer);
        assert!((400..500).contains(&status), "{method} {target}: {answer}");
        assert!(status != 405 || answer.to_lowercase().contains("\r\nallow: get"), "{answer}");
        assert!(!answer.contains(secret), "{answer}");
    }
    world.expect_clicks(&[]).await;
}

/// L11: port, case and final dot of a host do not matter; two hosts, a target with another host and user information
/// are refused; an unverified host has no links.
#[tokio::test]
async fn l11_forms_of_the_host() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.a.make("shared").await;
    world.b.make("own").await;
    let address = world.node(0).address;
    let (port, on_link) = (address.port(), async |target: &str, hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect::<Vec<_>>().concat();
        let request = format!("GET {target} HTTP/1.1\r\n{hosts}Accept: application/json\r\nConnection: close\r\n\r\n");
        wire::status(&wire::send(address, request.as_bytes()).await)
    });
    let with_port = format!("go.example.com:{port}");
    for (target, hosts, status) in [
        ("/own", &["go.example.com"][..], 200),
        ("/own", &["GO.Example.COM"], 200),
        ("/own", &["go.example.com."], 200),
        ("/own", &[&with_port], 200),
        ("/r/own", &["go.example.com.:8443"], 200),
        ("/own", &["go.example.com", "go.example.com"], 400),
        ("/own", &["go.example.com", "localhost"], 400),
        ("/own", &["go.example.com, localhost"], 400),
        ("/own", &["user@go.example.com"], 400),
        ("/own", &["go.example.com/x"], 400),
        ("/own", &[], 400),
        ("http://go.example.com/own", &["go.example.com"], 200),
        ("http://go.example.com/own", &["other.example.com"], 400),
        ("/own", &["other.example.com"], 404),
        ("/r/own", &["other.example.com"], 404),
        ("/own", &["xgo.example.com"], 404),
        ("/own", &["example.com"], 404),
        ("/own", &["localhost"], 404),
        ("/r/shared", &["localhost"], 200),
        ("/r/shared", &["127.0.0.1"], 200),
        ("/r/shared", &["127.9.9.9:1"], 200),
        ("/r/shared", &["[::1]:80"], 200),
        ("/r/shared", &["go.example.com"], 404),
        ("/shared", &["localhost"], 404),
    ] {
        assert_eq!(on_link(target, hosts).await, status, "{target} {hosts:?}");
    }
}

/// L11: `X-Forwarded-Host` counts only from a trusted proxy.
#[tokio::test]
async fn l11_forwarded_hosts_of_strangers_are_ignored() {
    for (trusted, status) in [(false, 404), (true, 200)] {
        let world = spawn_with(|config| {
            if trusted {
                config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
            }
        })
        .await;
        world.own_domain(&world.b, "go.example.com", Role::Primary).await;
        world.b.make("own").await;
        let ask = world
            .nobody
            .ask(Method::GET, "/own")
            .header("accept", "application/json")
            .header("x-forwarded-host", "go.example.com");
        // The request's own host is the service's, where this path does not exist.
        assert_eq!(ask.header("host", "localhost").send().await.status, status, "trusted: {trusted}");
    }
}

/// L12: a tenant's host has its links and `/health`; none of the service's other routes, and no cookie.
#[tokio::test]
async fn l12_a_custom_host_has_links_and_nothing_else() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.b.make("own").await;
    let on_host = async |method: Method, path: &str| {
        let ask = world.b.ask(method, path).header("host", "go.example.com").header("accept", "application/json");
        let reply = ask.json(&json!({})).send().await;
        assert_eq!(reply.header("set-cookie"), "");
        reply.status
    };
    for operation in operations::all() {
        let path = operation.at("own");
        let expected = match operation.id.as_str() {
            "resolve" | "health" => 200,
            _ => 404,
        };
        let status = on_host(operation.method.clone(), &path).await;
        // A path of one segment is read as a link, which has its own methods.
        assert!(
            status == expected || status == 405 && operation.method != Method::GET,
            "{} {path}: {status}",
            operation.method
        );
    }
    for path in [
        "/docs",
        "/docs/",
        "/robots.txt",
        "/.well-known/security.txt",
        "/metrics",
        "/v1",
        "/",
        "/favicon.ico",
        "/favicon.svg",
        "/own/",
        "/r/own/",
        "/r/",
        "/in/x",
        "/signin",
        "/account",
    ] {
        assert_eq!(on_host(Method::GET, path).await, 404, "{path}");
    }
    assert_eq!(on_host(Method::GET, "/own").await, 200);
    assert_eq!(on_host(Method::HEAD, "/own").await, 200);
    assert_eq!(on_host(Method::POST, "/own").await, 405);
}

/// T4: metrics are on the operators' listener only, and their labels name no tenant, link or path.
#[tokio::test]
async fn t4_figures_are_for_operators() {
    let world = spawn_with(|config| config.admin_listen = Some("127.0.0.1:0".parse().expect("an address"))).await;
    world.a.make("spring-42").await;
    world.a.tap("spring-42").await;
    world.a.get("/v1/links/spring-42").await;
    world.nobody.get("/some-path-of-nobodys").await;
    for path in ["/metrics", "/metrics/", "/r/../metrics"] {
        assert_eq!(world.nobody.get(path).await.status, 404, "{path}");
    }
    let address = world.node(0).admin_address.expect("an admin address");
    let admin = async |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        wire::send(address, request.as_bytes()).await
    };
    let figures = admin("/metrics").await;
    assert_eq!(wire::status(&figures), 200, "{figures}");
    assert!(figures.contains("/v1/links/{link_id}"), "routes by their template: {figures}");
    for name in ["spring-42", "some-path", world.a.tenant.as_str(), world.a.key().expect("a key")] {
        assert!(!figures.contains(name), "{name}: {figures}");
    }
    assert_eq!(wire::status(&admin("/health").await), 200);
    assert_eq!(wire::status(&admin("/ready").await), 200);
    for path in ["/v1/links", "/r/spring-42", "/docs", "/openapi.json", "/"] {
        assert_eq!(wire::status(&admin(path).await), 404, "{path}");
    }
}

#[tokio::test]
async fn a_head_request_is_answered_like_a_get_without_the_body() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for operation in operations::all().iter().filter(|operation| operation.method == Method::GET) {
        let path = operation.at("spring-42");
        let (get, head) = (world.a.get(&path).await, world.a.ask(Method::HEAD, &path).send().await);
        assert_eq!((get.status, get.header("content-type")), (head.status, head.header("content-type")), "{path}");
        assert!(head.body.is_empty());
    }
}
