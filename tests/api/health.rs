//! The health check, and the small files beside the API.

use std::io::Read;

use flate2::read::GzDecoder;
use http::Method;
use serde_json::json;

use deeplink_testing::{spawn, spawn_with};

#[tokio::test]
async fn health_never_asks_the_database_and_ready_does() {
    let world = spawn().await;
    assert_eq!(world.nobody.public().health().await.expect("an answer").status, "ok");
    assert_eq!(world.nobody.public().ready().await.expect("an answer").status, "ready");
    world.db.execute("ALTER TABLE service RENAME TO hidden").await;
    assert_eq!(world.nobody.get("/health").await.json(), json!({"status": "ok"}));
    assert!(world.nobody.get("/ready").await.status >= 500);
    world.db.execute("ALTER TABLE hidden RENAME TO service").await;
    assert_eq!(world.nobody.get("/ready").await.json(), json!({"status": "ready"}));
}

#[tokio::test]
async fn ready_says_at_once_that_the_service_stops() {
    let world = spawn_with(|config| config.admin_listen = Some(([127, 0, 0, 1], 0).into())).await;
    assert_eq!(world.nobody.get("/ready").await.status, 200);
    world.node(0).ask_to_stop(deeplink_server::http::listen::Stop::Gracefully);
    let address = world.node(0).admin_address.expect("an admin address");
    let request = format!("GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = deeplink_testing::wire::send(address, request.as_bytes()).await;
    assert_eq!(deeplink_testing::wire::status(&answer), 503, "{answer}");
    assert!(answer.to_lowercase().contains("retry-after: "), "{answer}");
}

#[tokio::test]
async fn small_files_say_where_things_are() {
    let world = spawn().await;
    let robots = world.nobody.get("/robots.txt").await.text();
    assert!(robots.contains("User-agent: *") && !robots.contains("Disallow: /.well-known"), "{robots}");
    assert!(
        robots.contains("Allow: /docs\n") && !robots.contains("Disallow: /docs\n"),
        "/llms.txt refers to it: {robots}"
    );
    let security = world.nobody.get("/.well-known/security.txt").await.text();
    for line in ["Contact: mailto:", "Expires: 2027-", "Canonical: "] {
        assert!(security.contains(line), "{line}: {security}");
    }
}

/// R1: a document that does not change has an ETag, is not sent again to a client that has it, and decompresses to the
/// same bytes.
#[tokio::test]
async fn r1_documents_are_known_by_their_tags() {
    let world = spawn().await;
    for path in [
        "/docs",
        "/docs/quickstart",
        "/docs/reference",
        "/docs/reference/links",
        "/docs/reference/errors",
        "/sdk/deeplink.js",
        "/sdk/deeplink.d.ts",
        "/openapi.json",
        "/llms.txt",
        "/robots.txt",
        "/favicon.svg",
        "/favicon.ico",
    ] {
        let ask = |method| world.nobody.ask(method, path);
        let plain = ask(Method::GET).send().await;
        assert_eq!((plain.status, plain.header("content-encoding")), (200, ""), "{path}");
        let tag = plain.header("etag").to_owned();
        assert!(tag.starts_with("W/\"") && tag.len() > 30, "{path}: {tag}");
        assert_eq!(plain.header("vary"), "accept-encoding", "{path}");
        let packed = ask(Method::GET).header("accept-encoding", "br, gzip").send().await;
        assert_eq!((packed.status, packed.header("etag"), packed.header("vary")), (200, &*tag, "accept-encoding"));
        if packed.header("content-encoding") == "gzip" {
            assert!(packed.body.len() < plain.body.len(), "{path}");
            let mut unpacked = Vec::new();
            GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).expect("gzip");
            assert!(unpacked == plain.body, "{path}");
        } else {
            // An image, and one too short to compress.
            let is_image = path.ends_with("ico");
            assert!(packed.body == plain.body && (is_image || plain.body.len() < 200), "{path}");
        }
        let known = ask(Method::GET).header("if-none-match", &tag).send().await;
        assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, &*tag), "{path}");
        for name in ["vary", "cache-control", "content-security-policy"] {
            assert_eq!(known.header(name), plain.header(name), "{path}: {name}");
        }
        let head = ask(Method::HEAD).header("accept-encoding", "gzip").send().await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), packed.body.len().to_string(), "{path}");
    }
    assert_eq!(world.nobody.get("/openapi.json").await.header("access-control-allow-origin"), "*");
}
