//! The home page of the service, paths that do not exist, and the icon.

use http::Method;
use serde_json::json;

use deeplink_testing::{World, spawn, spawn_with};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const PREVIEW: &str = "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)";

async fn open(world: &World, method: &str, host: &str, path: &str, accept: &str, agent: &str) -> String {
    let ask = world.nobody.ask_without_key(method.parse().expect("a method"), path).header("host", host);
    let reply = ask.header("accept", accept).header("user-agent", agent).send().await;
    let shown = [reply.header("location"), reply.header("content-type")].into_iter().find(|text| !text.is_empty());
    format!("{} {}", reply.status, shown.unwrap_or_default())
}

/// `/` is a page to everyone who does not ask for JSON, like a link; only a path that does not exist wants HTML named.
#[tokio::test]
async fn who_sees_a_page_and_who_gets_json() {
    let world = spawn().await;
    for (path, accept, agent, expected) in [
        ("/", BROWSER, "", format!("200 {HTML}")),
        ("/?utm_source=x", BROWSER, "", format!("200 {HTML}")),
        ("/", "text/html, application/json;q=0.9", "", format!("200 {HTML}")),
        ("/", "*/*", "curl/8.5.0", format!("200 {HTML}")),
        ("/", "", "", format!("200 {HTML}")),
        ("/", BROWSER, GOOGLEBOT, format!("200 {HTML}")),
        ("/", "*/*", PREVIEW, format!("200 {HTML}")),
        ("/", JSON, "", format!("404 {JSON}")),
        ("/", "application/json, text/plain, */*", "", format!("404 {JSON}")),
        ("/", "application/vnd.api+json", "", format!("404 {JSON}")),
        ("/nowhere", BROWSER, "", format!("404 {HTML}")),
        ("/nowhere", BROWSER, GOOGLEBOT, format!("404 {HTML}")),
        ("/nowhere", "*/*", "curl/8.5.0", format!("404 {JSON}")),
        ("/nowhere", "", "", format!("404 {JSON}")),
        ("/nowhere", "*/*", PREVIEW, format!("404 {JSON}")),
        ("/nowhere", JSON, "", format!("404 {JSON}")),
        ("/foo/bar", BROWSER, "", format!("404 {HTML}")),
        ("/docs/nowhere", BROWSER, "", format!("404 {HTML}")),
        ("/docs/nowhere", "*/*", "", format!("404 {JSON}")),
        ("/docs/reference/nowhere", BROWSER, "", format!("404 {HTML}")),
        ("/docs/quickstart/", BROWSER, "", "303 /docs/quickstart".to_owned()),
        ("/v1/nowhere", BROWSER, "", format!("404 {HTML}")),
        ("/v1/nowhere", JSON, "", format!("404 {JSON}")),
        ("/v1/links", BROWSER, "", format!("401 {JSON}")),
        ("/account/nowhere", BROWSER, "", format!("404 {HTML}")),
        ("/r/nowhere", BROWSER, "", format!("404 {HTML}")),
    ] {
        for method in ["GET", "HEAD"] {
            assert_eq!(
                open(&world, method, "localhost", path, accept, agent).await,
                expected,
                "{method} {path} {accept}"
            );
        }
    }
    assert_eq!(open(&world, "POST", "localhost", "/", BROWSER, "").await, format!("405 {JSON}"));
    for path in ["/", "/nowhere"] {
        for accept in [BROWSER, JSON] {
            let reply = world.nobody.ask(Method::GET, path).header("accept", accept).send().await;
            assert_eq!(
                (reply.header("vary"), reply.header("cache-control")),
                ("Accept", "no-store"),
                "{path} {accept}"
            );
        }
    }
    let told = world.nobody.ask(Method::GET, "/").header("accept", JSON).send().await;
    assert_eq!(told.outcome(), "404 not_found");
    assert!(told.member("error").contains("/openapi.json") && told.member("error").contains("/llms.txt"));
}

/// A host that is nobody's has no page of the service, only a short one without a way on.
#[tokio::test]
async fn other_hosts_have_no_home() {
    let world = spawn().await;
    for path in ["/", "/nowhere", "/signin", "/account", "/account/links"] {
        assert_eq!(open(&world, "GET", "other.example.com", path, BROWSER, "").await, format!("404 {HTML}"), "{path}");
        assert_eq!(open(&world, "GET", "other.example.com", path, "*/*", "").await, format!("404 {JSON}"), "{path}");
        let page = world.nobody.browse(Method::GET, path).header("host", "other.example.com").send().await.text();
        assert!(page.contains("Link not found") && !page.contains("href=\"/"), "{path}: {page}");
    }
}

#[tokio::test]
async fn the_home_page_says_what_this_is_and_where_to_go() {
    let world = spawn().await;
    let page = world.nobody.browse(Method::GET, "/").send().await.text();
    let base = world.nobody.base();
    for part in [
        "<h1>One link for iOS, Android and the web</h1>",
        "href=\"/signin\"",
        "href=\"/docs\"",
        "dl links create https://example.com/",
        // Two lines of one command, whole on a phone.
        &format!("--with-key</span> \\\n  <span class=\"option\">--base-url</span> {base}\n"),
        "run <code>cargo install",
        "href=\"/favicon.svg\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let session = world.session_of(&world.a).await;
    let page = world.nobody.browse(Method::GET, "/").session(&session).send().await.text();
    assert!(page.contains("href=\"/account\">Go to your account") && !page.contains("/signin"), "{page}");
    let missing = world.nobody.browse(Method::GET, "/foo/bar").send().await.text();
    assert!(missing.contains("Page not found") && missing.contains("href=\"/\""), "{missing}");
    assert!(missing.contains("<body class=\"alone short\">"), "{missing}");
    let closed = spawn_with(|config| config.sessions = false).await;
    let page = closed.nobody.browse(Method::GET, "/").send().await.text();
    assert!(
        !page.contains("/signin") && page.contains("\"/docs\""),
        "where nobody can sign in, the page does not offer it"
    );
}

#[tokio::test]
async fn the_home_page_can_be_another() {
    let home = "https://www.example.com/links?from=home";
    let world = spawn_with(|config| config.home_url = Some(home.parse().expect("a URL"))).await;
    for (method, accept, expected) in [
        ("GET", BROWSER, format!("302 {home}")),
        ("HEAD", BROWSER, format!("302 {home}")),
        ("GET", "*/*", format!("302 {home}")),
        ("GET", JSON, format!("404 {JSON}")),
    ] {
        assert_eq!(open(&world, method, "localhost", "/?x=1", accept, "").await, expected, "{method} {accept}");
    }
    let reply = world.nobody.browse(Method::GET, "/").send().await;
    assert_eq!((reply.body.len(), reply.header("vary"), reply.header("cache-control")), (0, "Accept", "no-store"));
    assert_eq!(open(&world, "GET", "other.example.com", "/", BROWSER, "").await, format!("404 {HTML}"));
    assert_eq!(open(&world, "GET", "localhost", "/signin", BROWSER, "").await, format!("200 {HTML}"));
}

/// The icon is a file that browsers keep; pages of visits carry it in themselves.
#[tokio::test]
async fn pages_have_an_icon() {
    let world = spawn().await;
    for (path, kind, begin) in
        [("/favicon.ico", "image/x-icon", &b"\0\0\x01\0\x03\0"[..]), ("/favicon.svg", "image/svg+xml", b"<svg ")]
    {
        let icon = world.nobody.get(path).await;
        assert_eq!((icon.status, icon.header("content-type")), (200, kind));
        assert_eq!(icon.header("cache-control"), "public, max-age=86400");
        assert!(icon.body.starts_with(begin) && icon.body.len() < 4_096, "{path}");
    }
    world.a.make_of(&json!({"custom_id": "page", "ios_deep_link": "myapp://x"})).await;
    let mailed = format!("/v1/auth/callback?token={}", world.magic_link("new@example.com").await);
    for (path, icon) in [
        ("/", "href=\"/favicon.ico\""),
        ("/signin", "href=\"/favicon.ico\""),
        ("/nowhere", "href=\"/favicon.ico\""),
        ("/r/page", "<link rel=\"icon\" href=\"data:image/svg+xml,"),
        ("/r/nowhere", "<link rel=\"icon\" href=\"data:image/svg+xml,"),
        (&mailed, "href=\"/favicon.ico\""),
    ] {
        let page = world.nobody.browse(Method::GET, path).send().await.text();
        assert!(page.contains(icon) && !page.contains("href=\"data:,\""), "{path}: {page}");
    }
}
