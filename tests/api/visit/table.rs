//! The decision table through the whole service: the rows that the pure function is tested with, over HTTP, with each
//! visit's row in the click log.

use deeplink_doubles::decisions::{CAMPAIGN, LINK_ID, LISTED, Row, TABLE, as_listed, destinations, symbol};
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, Role, World, eventually, spawn};

const HOST: &str = "go.example.com";
const ALTERNATE: &str = "alt.example.com";

/// Two owners of the same link: A without a domain, B with a host and an alternate one.
async fn owners(world: &World) {
    world.own_domain(&world.b, HOST, Role::Primary).await;
    world.own_domain(&world.b, ALTERNATE, Role::Alternate).await;
    for owner in [&world.a, &world.b] {
        owner.make_of(&json!({"custom_id": LINK_ID})).await;
    }
}

/// Gives the link exactly these destinations.
async fn lead(owner: &Caller, has: &str) {
    let [ios, ios_store, android, android_store, web] = destinations(has);
    let body = json!({
        "ios_deep_link": ios, "ios_store_url": ios_store, "android_deep_link": android,
        "android_store_url": android_store, "web_url": web,
    });
    let reply = owner.put(&format!("/v1/links/{LINK_ID}"), &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn visit(world: &World, alternate: Option<&str>, agent: &str, query: &str) -> String {
    let (host, path) = if alternate.is_some() { (HOST, "/") } else { ("localhost", "/r/") };
    let path = format!("{path}{LINK_ID}?{CAMPAIGN}{query}");
    let ask = world.nobody.ask(Method::GET, &path).header("host", host).header("accept", "text/html");
    describe(&ask.header("user-agent", agent).send().await)
}

/// `302 W′`, or `LP` with each element of the page that exists, and its script's data.
fn describe(reply: &Reply) -> String {
    if reply.status == 302 {
        assert!(reply.body.is_empty(), "a redirect has no body");
        return format!("302 {}", symbol(reply.header("location")));
    }
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/html; charset=utf-8"), "{}", reply.text());
    let mut text = "LP".to_owned();
    for (name, url) in targets(&reply.text()) {
        text.extend([" ", name, "=", &symbol(&url)]);
    }
    text
}

/// The URLs of a landing page's elements and of its script's data, by their names.
pub(super) fn targets(page: &str) -> Vec<(&'static str, String)> {
    let href = |id: &str| {
        let tag = page.split("<a ").skip(1).find(|tag| tag.contains(&format!("id=\"{id}\" href=\"")))?;
        Some(tag.split("href=\"").nth(1)?.split('"').next()?.replace("&#38;", "&"))
    };
    let data = page.split("id=\"dl-data\">").nth(1).and_then(|rest| rest.split("</script>").next()).expect("the data");
    let data: Value = serde_json::from_str(data).expect("JSON");
    let told = |value: &Value| value.as_str().map(str::to_owned);
    let all = [
        ("open", href("open")),
        ("timer", told(&data["fallback"])),
        ("store", href("store")),
        ("web", href("web")),
        ("deep", href("deep")),
        ("ios-store", href("ios-store")),
        ("android-store", href("android-store")),
        ("ipad", told(&data["ios"]["open"])),
        ("ipad-timer", told(&data["ios"]["fallback"])),
    ];
    all.into_iter().filter_map(|(name, url)| Some((name, url?))).collect()
}

#[tokio::test]
async fn every_row_and_column_of_the_decision_table_over_http() {
    let world = spawn().await;
    owners(&world).await;
    let mut visits = [0; 4];
    for Row(row, agent, has, alternate, [browser, in_app, redirect, listed]) in TABLE {
        let owner = if alternate.is_some() { &world.b } else { &world.a };
        lead(owner, has).await;
        let inside = format!("{agent} Instagram");
        for (agent, query, expected) in [(*agent, "", browser), (&inside, "", in_app), (agent, "&redirect=1", redirect)]
        {
            let led = visit(&world, *alternate, agent, query).await;
            assert_eq!(led, *expected, "{row}: {agent} to {has:?} {query}, alternate {alternate:?}");
            visits[0] += 1;
        }
        for (name, kind) in LISTED.iter().zip([1, 3, 2]) {
            for query in ["", "&redirect=1"] {
                let led = visit(&world, *alternate, &as_listed(agent, name), query).await;
                assert_eq!(led, *listed, "{row}: {name} to {has:?} {query}, alternate {alternate:?}");
                visits[kind] += 1;
            }
        }
    }
    // One click for each of these visits, and of the kind of its visitor.
    let expected: Vec<_> = (0..).zip(visits).collect();
    world.expect_clicks(&expected).await;
}

/// Rows D1 to D15 for a person's browser, a preview bot and a program on the alternate host: the store, at once and
/// uncounted.
#[tokio::test]
async fn the_alternate_host_never_shows_a_page_to_people() {
    let world = spawn().await;
    owners(&world).await;
    for Row(row, agent, has, ..) in TABLE {
        lead(&world.b, has).await;
        let [_, ios_store, _, android_store, web] = destinations(has);
        let store = match () {
            () if agent.contains("iPhone") => ios_store.map(|_| "IS"),
            () if agent.contains("Android") => android_store.map(|_| "AS′"),
            () => None,
        };
        let expected = store.or(web.map(|_| "W′")).unwrap_or("url");
        let ask = world.nobody.ask(Method::GET, &format!("/{LINK_ID}?{CAMPAIGN}")).header("host", ALTERNATE);
        let reply = ask.header("accept", "text/html").header("user-agent", agent).send().await;
        assert_eq!(describe(&reply), format!("302 {expected}"), "{row}: {agent} to {has:?}");
    }
    world.expect_clicks(&[]).await;
}

/// Each class of visitor with its row: kind, platform, and user agent.
#[tokio::test]
async fn every_class_of_visitor_leaves_its_own_row() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let iphone =
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1";
    for (agent, kind, platform) in [
        (iphone, 0, 0),
        ("Mozilla/5.0 (Linux; Android 9; CUBOT_X19) AppleWebKit/537.36 Chrome/90.0 Mobile Safari/537.36", 0, 1),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
            1,
            2,
        ),
        ("WhatsApp/2.23.20.0 W", 1, 4),
        (
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; +https://openai.com/bot)",
            3,
            4,
        ),
        (
            "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36 (compatible; Googlebot/2.1)",
            2,
            1,
        ),
        ("Mozilla/5.0 (compatible; Somebot/1.0; Windows)", 2, 3),
        ("Library/1.0 (Windows)", 3, 3),
    ] {
        for accept in ["text/html", "application/json"] {
            let ask = world.nobody.ask(Method::GET, "/r/spring-42").header("accept", accept);
            ask.header("user-agent", agent).send().await;
        }
        let rows = format!(
            "SELECT CAST(count(*) AS BIGINT) FROM clicks
             WHERE kind = {kind} AND platform = {platform} AND agent = (SELECT hash FROM visitor_texts WHERE text = '{agent}')"
        );
        eventually(agent, std::time::Duration::from_secs(15), || async { world.db.number(&*rows).await == 2 }).await;
    }
}
