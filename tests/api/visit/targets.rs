//! Where a visit leads: the decision table of `deeplink_core::resolve` is tested there row by row; here the same rows
//! pass through the whole service.

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Reply, Role, World, spawn};

const IPHONE: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1";
const ANDROID: &str = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36";
const MAC: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15";
const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36";
const PREVIEW: &str = "facebookexternalhit/1.1";
const CURL: &str = "curl/8.5.0";

const IOS_STORE: &str = "https://apps.apple.com/app/id1";
const PLAY: &str = "https://play.google.com/store/apps/details?id=com.example.app";

async fn visit(world: &World, host: &str, path: &str, agent: &str) -> Reply {
    let ask = world.nobody.ask(Method::GET, path).header("host", host).header("accept", "text/html");
    ask.header("user-agent", agent).send().await
}

/// `302 target`, or `page target` with the page's primary button.
fn led(reply: &Reply) -> String {
    if reply.status == 302 {
        assert!(reply.body.is_empty(), "a redirect has no body");
        return format!("302 {}", reply.header("location"));
    }
    let page = reply.text();
    let button =
        page.split("<a ").skip(1).find(|tag| tag.split('>').next().is_some_and(|tag| tag.contains("id=\"open\"")));
    let href = button.and_then(|tag| tag.split("href=\"").nth(1)?.split('"').next());
    format!("page {}", href.unwrap_or("-").replace("&#38;", "&"))
}

#[tokio::test]
async fn rows_of_the_decision_table() {
    let world = spawn().await;
    let play = format!("{PLAY}&referrer=dl_link%3D");
    let links: [(&str, Value); 7] = [
        ("web-only", json!({"web_url": "https://example.com/p?x=1#f"})),
        ("nothing", json!({})),
        (
            "ios-app",
            json!({"ios_deep_link": "myapp://p", "ios_store_url": IOS_STORE, "web_url": "https://example.com/p"}),
        ),
        ("ios-store", json!({"ios_store_url": IOS_STORE})),
        (
            "android-app",
            json!({"android_deep_link": "myapp://p", "android_store_url": PLAY, "web_url": "https://example.com/p"}),
        ),
        ("android-store", json!({"android_store_url": PLAY})),
        ("previewed", json!({"web_url": "https://example.com/p", "social_preview": {"title": "Title"}})),
    ];
    for (id, body) in links {
        let mut body = body;
        body["custom_id"] = id.into();
        world.a.make_of(&body).await;
    }
    for (id, query, agent, expected) in [
        // D14
        ("web-only", "", WINDOWS, "302 https://example.com/p?x=1#f".to_owned()),
        ("web-only", "", IPHONE, "302 https://example.com/p?x=1#f".into()),
        ("web-only", "", CURL, "302 https://example.com/p?x=1#f".into()),
        ("web-only", "", PREVIEW, "302 https://example.com/p?x=1#f".into()),
        ("web-only", "?utm_source=poster&evil=1", MAC, "302 https://example.com/p?x=1&utm_source=poster#f".into()),
        ("previewed", "", PREVIEW, "page https://example.com/p".into()),
        ("previewed", "", IPHONE, "302 https://example.com/p".into()),
        // D15
        ("nothing", "", IPHONE, "page -".into()),
        ("nothing", "?redirect=1", IPHONE, "page -".into()),
        // D2, D11, D13 and redirect=1
        ("ios-app", "", IPHONE, "page myapp://p".into()),
        ("ios-app", "?redirect=1", IPHONE, format!("302 {IOS_STORE}")),
        ("ios-app", "?redirect=2", IPHONE, "page myapp://p".into()),
        ("ios-app", "", MAC, "page https://example.com/p".into()),
        ("ios-app", "?redirect=1", MAC, "page https://example.com/p".into()),
        ("ios-app", "", WINDOWS, "page https://example.com/p".into()),
        ("ios-app", "?redirect=1", WINDOWS, "302 https://example.com/p".into()),
        ("ios-app", "?redirect=1", PREVIEW, "page https://example.com/p".into()),
        // D4, D5
        ("ios-store", "", IPHONE, format!("page {IOS_STORE}")),
        ("android-app", "", IPHONE, "page https://example.com/p".into()),
        // D7, D9, D10
        ("android-app", "?redirect=1", ANDROID, format!("302 {play}android-app")),
        ("android-store", "", ANDROID, format!("page {play}android-store")),
        ("android-store", "?redirect=1&utm_source=x", ANDROID, format!("302 {play}android-store%26utm_source%3Dx")),
        ("ios-app", "", ANDROID, "page https://example.com/p".into()),
    ] {
        let reply = visit(&world, "localhost", &format!("/r/{id}{query}"), agent).await;
        assert_eq!(led(&reply), expected, "{id}{query} {agent}");
    }
    let intent = led(&visit(&world, "localhost", "/r/android-app", ANDROID).await);
    assert!(
        intent.starts_with("page intent://p#Intent;scheme=myapp;package=com.example.app;S.browser_fallback_url="),
        "{intent}"
    );
}

/// L3: `Location` is ASCII without control characters, the status exactly 302, whatever a URL was made of.
#[tokio::test]
async fn l3_locations_are_clean() {
    let world = spawn().await;
    let longest = format!("https://example.com/{}", "a".repeat(2_028));
    for (number, (sent, location)) in [
        ("https://example.com/\u{a0}x", "https://example.com/%C2%A0x"),
        ("https://example.com/👋?q=👋#👋", "https://example.com/%F0%9F%91%8B?q=%F0%9F%91%8B#%F0%9F%91%8B"),
        ("https://example.com/a b\"<>`{}", "https://example.com/a%20b%22%3C%3E%60%7B%7D"),
        ("https://example.com/%0d%0aSet-Cookie:%20x=1", "https://example.com/%0d%0aSet-Cookie:%20x=1"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://example.com\\@evil.example", "https://example.com/@evil.example"),
        (&longest, &longest),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("link-{number}");
        world.a.make_of(&json!({"custom_id": id, "web_url": sent})).await;
        let reply = world.nobody.tap(&id).await;
        assert_eq!((reply.status, reply.header("location")), (302, location));
        assert!(reply.header("location").bytes().all(|byte| byte.is_ascii_graphic()));
    }
    for refused in [
        "https://example.com/\n",
        "https://example.com/\r\nSet-Cookie: x=1",
        "https://example.com/\u{0}",
        "https://example.com/\u{7f}",
    ] {
        assert_eq!(world.a.post("/v1/links", &json!({"web_url": refused})).await.outcome(), "400 invalid_url web_url");
    }
    let surrogate = r#"{"web_url":"https://example.com/\ud800"}"#;
    assert_eq!(world.a.ask(Method::POST, "/v1/links").body(surrogate).send().await.status, 400);
    // Visitors' query parameters are cleaned too.
    for query in [
        "?utm_source=%0d%0aSet-Cookie:x",
        "?utm_source=%00",
        "?utm_source=👋",
        "?utm_source=a&utm_source=b",
        "?utm_source=%ff",
    ] {
        let reply = world.nobody.ask(Method::GET, &format!("/r/link-0{query}")).send().await;
        assert_eq!(reply.status, 302, "{query}");
        let location = reply.header("location");
        assert!(
            location.bytes().all(|byte| byte.is_ascii_graphic()) && !location.to_lowercase().contains("%0d"),
            "{location}"
        );
    }
    let long = format!("/r/link-0?utm_source={}", "x".repeat(5_000));
    assert_eq!(world.nobody.ask(Method::GET, &long).send().await.header("location"), "https://example.com/%C2%A0x");
}

#[tokio::test]
async fn an_alternate_host_leads_to_the_store() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.own_domain(&world.b, "open.example.com", Role::Alternate).await;
    let body = json!({"custom_id": "spring-42", "ios_deep_link": "myapp://p", "ios_store_url": IOS_STORE, "android_store_url": PLAY, "web_url": "https://example.com/p"});
    world.b.make_of(&body).await;
    world.b.make_of(&json!({"custom_id": "app-only", "ios_deep_link": "myapp://p"})).await;
    for (host, path, agent, expected) in [
        ("open.example.com", "/spring-42", IPHONE, format!("302 {IOS_STORE}")),
        ("open.example.com", "/r/spring-42", ANDROID, format!("302 {PLAY}&referrer=dl_link%3Dspring-42")),
        ("open.example.com", "/spring-42", WINDOWS, "302 https://example.com/p".to_owned()),
        ("open.example.com", "/spring-42?os=ios", MAC, format!("302 {IOS_STORE}")),
        ("open.example.com", "/spring-42", MAC, "302 https://example.com/p".into()),
        ("open.example.com", "/app-only", WINDOWS, "302 https://go.example.com/app-only".into()),
        ("go.example.com", "/spring-42", IPHONE, "page https://open.example.com/spring-42".into()),
        ("go.example.com", "/spring-42", ANDROID, "page https://open.example.com/spring-42".into()),
    ] {
        assert_eq!(led(&visit(&world, host, path, agent).await), expected, "{host}{path} {agent}");
    }
}

/// L9, L12: a host shows its tenant's links only; a service host shows no link at its root.
#[tokio::test]
async fn a_host_shows_its_tenants_links_only() {
    let world = spawn().await;
    world.own_domain(&world.a, "a.example.com", Role::Primary).await;
    world.own_domain(&world.b, "b.example.com", Role::Primary).await;
    world.a.make("of-a").await;
    world.b.make("of-b").await;
    for (host, path, status) in [
        ("a.example.com", "/of-a", 302),
        ("a.example.com", "/r/of-a", 302),
        ("a.example.com", "/of-b", 404),
        ("a.example.com", "/r/of-b", 404),
        ("b.example.com", "/of-b", 302),
        ("b.example.com", "/of-a", 404),
        ("localhost", "/r/of-a", 302),
        ("localhost", "/r/of-b", 302),
        ("localhost", "/of-a", 404),
        ("c.example.com", "/of-a", 404),
        ("c.example.com", "/r/of-a", 404),
    ] {
        assert_eq!(visit(&world, host, path, WINDOWS).await.status, status, "{host}{path}");
    }
    let ask = |path: &str| world.nobody.ask(Method::GET, path).header("host", "a.example.com").send();
    assert_eq!(ask("/of-b").await.without_request_id(), ask("/nowhere").await.without_request_id());
    world.db.execute("UPDATE domains SET verified_at = NULL WHERE domain = 'b.example.com'").await;
    deeplink_testing::eventually("an unverified host has no tenant", std::time::Duration::from_secs(5), || async {
        visit(&world, "b.example.com", "/of-b", WINDOWS).await.status == 404
    })
    .await;
}
