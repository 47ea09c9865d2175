//! Whether the service works, and the small files beside the interface.

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
    let security = world.nobody.get("/.well-known/security.txt").await.text();
    for line in ["Contact: mailto:", "Expires: 2027-", "Canonical: "] {
        assert!(security.contains(line), "{line}: {security}");
    }
}

#[tokio::test]
async fn the_docs_page_needs_nothing_from_elsewhere() {
    let world = spawn().await;
    let mut page = world.nobody.get("/docs").await;
    if page.status != 200 {
        assert!(matches!(page.status, 301..=308), "{}", page.status);
        page = world
            .nobody
            .get(&format!("/docs/{}", page.header("location").rsplit('/').next().unwrap_or_default()))
            .await;
    }
    let html = page.text();
    let sources: Vec<_> = ["src=\"", "href=\""].iter().flat_map(|attribute| html.split(attribute).skip(1)).collect();
    assert!(sources.len() >= 3, "{html}");
    for source in sources {
        let source = source.split('"').next().expect("a value");
        assert!(!source.contains("//"), "{source} is somebody else's");
        let file = world.nobody.get(&format!("/docs/{}", source.trim_start_matches("./"))).await;
        assert_eq!(file.status, 200, "{source}");
    }
}
