//! Long links of Firebase Dynamic Links: which are followed, where they lead, and that they are no open redirect.

use http::Method;
use serde_json::{Value, json};

use crate::suspension::{resume, suspend};
use crate::threats::{ThreatList, looked};
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{Caller, Reply, Role, World, eventually, spawn, spawn_nodes, spawn_with};

const HOST: &str = "go.example.com";
const PAGE: &str = "https://www.example.com/sale";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1";
const PIXEL: &str = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Mobile Safari/537.36";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0";

async fn set(caller: &Caller, body: &Value) -> Reply {
    caller.patch(&format!("/v1/domains/{HOST}"), body).await
}

/// A domain of A's follows long links to these hosts.
async fn following(world: &World, hosts: &[&str]) {
    world.own_domain(&world.a, HOST, Role::Primary).await;
    let changed = set(&world.a, &json!({"long_links": true, "allowed_hosts": hosts})).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
}

/// The path of a long link with these parameters.
fn long(pairs: &[(&str, &str)]) -> String {
    format!("/?{}", url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}

async fn visit(caller: &Caller, agent: &str, path: &str) -> Reply {
    let ask = caller.ask_without_key(Method::GET, path).header("host", HOST).header("user-agent", agent);
    ask.header("accept", "text/html,application/xhtml+xml,*/*;q=0.8").send().await
}

async fn open(caller: &Caller, agent: &str, path: &str) -> String {
    let reply = visit(caller, agent, path).await;
    format!("{} {}", reply.status, reply.header("location")).trim_end().to_owned()
}

#[tokio::test]
async fn an_update_has_its_rules() {
    let world = spawn().await;
    world.claim_domain(&world.a, HOST, Role::Primary).await;
    let many: Vec<_> = (0..51).map(|at| format!("h{at}.example.com")).collect();
    for (body, expected) in [
        (json!({"long_links": null}), "400 bad_request long_links"),
        (json!({"long_links": "yes"}), "400 bad_request long_links"),
        (json!({"allowed_hosts": "www.example.com"}), "400 bad_request allowed_hosts"),
        (json!({"allowed_hosts": [1]}), "400 bad_request allowed_hosts[0]"),
        (json!({"allowed_hosts": ["www.example.com", "https://example.com"]}), "400 invalid_domain allowed_hosts[1]"),
        (json!({"allowed_hosts": ["*.example.com"]}), "400 invalid_domain allowed_hosts[0]"),
        (json!({"allowed_hosts": ["127.0.0.1"]}), "400 invalid_domain allowed_hosts[0]"),
        (json!({"allowed_hosts": ["localhost"]}), "400 invalid_domain allowed_hosts[0]"),
        (json!({"allowed_hosts": ["www.example.com:443"]}), "400 invalid_domain allowed_hosts[0]"),
        (json!({"allowed_hosts": many}), "400 invalid_domain allowed_hosts"),
    ] {
        assert_eq!(set(&world.a, &body).await.outcome(), expected, "{body}");
    }
    let stored = async || {
        let listed = world.a.get("/v1/domains").await.json()[0].clone();
        (listed["long_links"].clone(), listed["allowed_hosts"].clone())
    };
    assert_eq!(stored().await, (json!(false), json!([])), "nothing of a refused update is stored");
    let hosts = json!(["WWW.example.com.", "apps.apple.com", "www.example.com"]);
    let sorted = json!(["apps.apple.com", "www.example.com"]);
    for (body, follows, shown) in [
        (json!({"allowed_hosts": hosts}), json!(false), sorted.clone()),
        (json!({"long_links": true}), json!(true), sorted.clone()),
        (json!({"root_url": "https://www.example.com/"}), json!(true), sorted),
        (json!({"allowed_hosts": null, "long_links": false}), json!(false), json!([])),
    ] {
        let changed = set(&world.a, &body).await;
        assert_eq!((changed.status, changed.json()), (200, world.a.get("/v1/domains").await.json()[0].clone()));
        assert_eq!(stored().await, (follows, shown), "{body}");
    }
    assert_eq!(set(&world.b, &json!({"long_links": true})).await.outcome(), "404 not_found");
}

/// Whatever is not allowed is a link that does not exist, for people and programs alike.
#[tokio::test]
async fn only_allowed_targets_are_followed() {
    let world = spawn().await;
    following(&world, &["www.example.com"]).await;
    let page = ("link", PAGE);
    for (pairs, expected) in [
        (&[page][..], "302 https://www.example.com/sale"),
        (&[page, ("utm_source", "poster")], "302 https://www.example.com/sale?utm_source=poster"),
        (&[page, ("other", "1"), ("efr", "1")], "302 https://www.example.com/sale"),
        (&[("link", "https://WWW.Example.com:8443/a?b=c#d")], "302 https://www.example.com:8443/a?b=c#d"),
        (&[("link", "https://example.com/")], "404"),
        (&[("link", "https://evil.example.net/")], "404"),
        (&[("link", "https://www.example.com.evil.example.net/")], "404"),
        (&[("link", "https://www.example.com@evil.example.net/")], "404"),
        (&[("link", "https://evil.example.net/?https://www.example.com/")], "404"),
        (&[("link", "//evil.example.net/")], "404"),
        (&[("link", "javascript:alert(1)")], "404"),
        (&[("link", "data:text/html,x")], "404"),
        (&[("link", "myapp://www.example.com/")], "404"),
        (&[("link", "https://127.0.0.1/")], "404"),
        (&[("link", "https://www.example.com/\u{1}")], "404"),
        (&[("link", "")], "404"),
        (&[page, ("afl", "https://evil.example.net/")], "404"),
        (&[page, ("ifl", "javascript:alert(1)")], "404"),
        (&[page, ("isi", "1x")], "404"),
        (&[page, ("apn", "a b")], "404"),
    ] {
        for agent in [FIREFOX, IPHONE, PIXEL] {
            assert_eq!(open(&world.nobody, agent, &long(pairs)).await, expected, "{pairs:?}");
        }
        let program = world.nobody.ask_without_key(Method::GET, &long(pairs));
        let program = program.header("host", HOST).header("accept", "application/json").send().await;
        let outcome = if expected == "404" { "404 not_found" } else { "200" };
        assert_eq!(program.outcome(), outcome, "{pairs:?}");
    }
    for repeated in ["link=a&link=b", "link=a&afl=b&afl=b", "link=a&isi=1&isi=1", "efr=1&efr=1&link=a"] {
        let reply = visit(&world.nobody, FIREFOX, &format!("/?{repeated}")).await;
        assert!(reply.outcome().starts_with("400 bad_request"), "{repeated} {}", reply.text());
    }
    // On other paths and hosts, and on a domain that does not follow them, it is no long link.
    let path = long(&[page]);
    assert_eq!(open(&world.nobody, FIREFOX, &path.replace("/?", "/nowhere?")).await, "404");
    world.own_domain(&world.b, "b.example.net", Role::Primary).await;
    for host in ["b.example.net", "other.example.net"] {
        let reply = world.nobody.browse(Method::GET, &path).header("host", host).send().await;
        assert_eq!(reply.status, 404, "{host}");
    }
    assert_eq!(set(&world.a, &json!({"long_links": false})).await.status, 200);
    assert_eq!(open(&world.nobody, FIREFOX, &path).await, "404");
    world.expect_clicks(&[]).await;
}

/// A long link that is not followed is an unknown link, and not the domain's own page.
#[tokio::test]
async fn a_long_link_that_is_not_followed_leads_where_unknown_links_do() {
    let world = spawn().await;
    following(&world, &["www.example.com"]).await;
    let urls = json!({"root_url": "https://www.example.com/", "not_found_url": "https://www.example.com/missing"});
    assert_eq!(set(&world.a, &urls).await.status, 200);
    let refused = long(&[("link", "https://evil.example.net/")]);
    assert_eq!(open(&world.nobody, FIREFOX, &refused).await, "302 https://www.example.com/missing");
    assert_eq!(open(&world.nobody, FIREFOX, "/").await, "302 https://www.example.com/");
    assert_eq!(open(&world.nobody, FIREFOX, "/?utm_source=x").await, "302 https://www.example.com/");
    assert_eq!(open(&world.nobody, FIREFOX, &long(&[("link", PAGE)])).await, format!("302 {PAGE}"));
}

#[tokio::test]
async fn phones_go_to_stores_and_fallbacks_that_are_allowed() {
    let world = spawn().await;
    following(&world, &["www.example.com"]).await;
    let apps = [("link", PAGE), ("apn", "com.example.app"), ("ibi", "com.example.app"), ("isi", "123456789")];
    let direct: Vec<_> = apps.into_iter().chain([("efr", "1")]).collect();
    for agent in [IPHONE, PIXEL, FIREFOX] {
        assert_eq!(open(&world.nobody, agent, &long(&apps)).await, format!("302 {PAGE}"), "no store is allowed");
    }
    let hosts = ["www.example.com", "apps.apple.com", "play.google.com"];
    assert_eq!(set(&world.a, &json!({"allowed_hosts": hosts})).await.status, 200);
    let play = "https://play.google.com/store/apps/details?id=com.example.app";
    // Anybody can write a long link, so it leads to no app but the account's own.
    let fingerprint = ["AB"; 32].join(":");
    let android =
        |package: &str| json!({"platform": "android", "package_name": package, "sha256_fingerprints": [fingerprint]});
    assert_eq!(world.a.post("/v1/apps", &android("com.example.other")).await.status, 201);
    for agent in [IPHONE, PIXEL] {
        assert_eq!(open(&world.nobody, agent, &long(&direct)).await, format!("302 {PAGE}"), "no such app");
    }
    assert_eq!(world.a.post("/v1/apps", &android("com.example.app")).await.status, 201);
    let ios = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    assert_eq!(world.a.post("/v1/apps", &ios).await.status, 201);
    assert_eq!(open(&world.nobody, IPHONE, &long(&direct)).await, "302 https://apps.apple.com/app/id123456789");
    assert_eq!(
        open(&world.nobody, PIXEL, &long(&direct)).await,
        format!("302 {play}"),
        "no link to name in a referrer"
    );
    assert_eq!(open(&world.nobody, FIREFOX, &long(&direct)).await, format!("302 {PAGE}"));
    for agent in [IPHONE, PIXEL] {
        let fallback: Vec<_> = direct
            .iter()
            .copied()
            .chain([("ifl", "https://www.example.com/ios"), ("afl", "https://www.example.com/android")])
            .collect();
        let expected = if agent == IPHONE { "ios" } else { "android" };
        let found = open(&world.nobody, agent, &long(&fallback)).await;
        assert_eq!(found, format!("302 https://www.example.com/{expected}"));
    }
    // Without efr=1, there is a page with a preview, whose buttons lead to the store and to the app.
    let preview = [("st", "<b>Sale</b>"), ("sd", "50 % off"), ("si", "https://www.example.com/sale.png")];
    let shared: Vec<_> = apps.into_iter().chain(preview).collect();
    let page = visit(&world.nobody, PIXEL, &long(&shared)).await;
    let text = page.text();
    assert_eq!((page.status, page.header("cache-control")), (200, "no-store"), "{text}");
    assert!(text.contains("intent://www.example.com/sale#Intent;scheme=https;package=com.example.app;"), "{text}");
    assert!(text.contains("50 % off") && text.contains("https://www.example.com/sale.png"), "{text}");
    assert!(!text.contains("<b>Sale"), "{text}");
    let other = long(&[("link", PAGE), ("isi", "1"), ("st", "Sale"), ("si", "https://evil.example.net/x.png")]);
    let text = visit(&world.nobody, IPHONE, &other).await.text();
    assert!(text.contains("Sale") && !text.contains("https://evil"), "{text}");
    world.expect_clicks(&[]).await;
}

/// L19: a listed target is not followed, nor one that a link of the account was taken down for; here the list took it
/// down, which then no longer has it.
#[tokio::test]
async fn l19_what_links_may_not_lead_to_long_links_may_not_either() {
    let list = ThreatList::of("other.example.com");
    let world = spawn_with(|config| config.threat_list = Some(list.file())).await;
    following(&world, &["www.example.com"]).await;
    world.a.make_of(&json!({"custom_id": "bait", "web_url": PAGE})).await;
    let to = |url: &str| long(&[("link", url)]);
    let other = "https://www.example.com/other";
    for text in [PAGE, "other.example.com"] {
        list.say(text);
        looked(&world, "the list applies", async || {
            // Other accounts may lead to what is no longer listed.
            let is_open = text == PAGE || world.b.post("/v1/links", &json!({"web_url": PAGE})).await.status == 201;
            is_open && world.a.get("/v1/links/bait").await.member("status") == "flagged"
        })
        .await;
        assert_eq!(open(&world.nobody, FIREFOX, &to(PAGE)).await, "404");
        let fallback = [("link", other), ("afl", PAGE)];
        assert_eq!(open(&world.nobody, PIXEL, &long(&fallback)).await, "404");
        assert_eq!(open(&world.nobody, FIREFOX, &to(other)).await, format!("302 {other}"));
    }
}

/// While an account is suspended, its long links are disabled as its links are.
#[tokio::test]
async fn long_links_of_a_suspended_account_are_disabled() {
    let world = spawn().await;
    following(&world, &["www.example.com"]).await;
    let (tenant, path) = (world.a.tenant.to_string(), long(&[("link", PAGE)]));
    let opens = async |expected: &str| {
        let what = "the node follows";
        eventually(what, PATIENCE, || async { open(&world.nobody, FIREFOX, &path).await == expected }).await;
    };
    opens(&format!("302 {PAGE}")).await;
    suspend(&world, &tenant).await;
    opens("410").await;
    resume(&world, &tenant).await;
    opens(&format!("302 {PAGE}")).await;
}

/// L24: a change of the allowed hosts reaches the other node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_allowed_hosts_reach_the_other_node() {
    let world = spawn_nodes(2).await;
    following(&world, &["www.example.com"]).await;
    let there = world.at(1, &world.nobody);
    let path = long(&[("link", PAGE)]);
    for (hosts, expected) in [(json!(["www.example.com"]), format!("302 {PAGE}")), (json!([]), "404".to_owned())] {
        assert_eq!(set(&world.a, &json!({"allowed_hosts": hosts})).await.status, 200);
        assert_eq!(open(&world.nobody, FIREFOX, &path).await, expected);
        eventually("the other node follows", PATIENCE, || async { open(&there, FIREFOX, &path).await == expected })
            .await;
    }
}
