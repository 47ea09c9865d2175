//! Where a domain sends people who open `/` or a link that does not exist.

use http::Method;
use serde_json::{Value, json};

use crate::suspension::{resume, suspend};
use crate::threats::{ThreatList, looked};
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{Caller, Reply, Role, World, eventually, spawn, spawn_nodes, spawn_with};

const HOST: &str = "go.example.com";
const ROOT: &str = "https://www.example.com/";
const MISSING: &str = "https://www.example.com/missing?from=go";
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0";

async fn set(caller: &Caller, host: &str, body: &Value) -> Reply {
    caller.ask(Method::PATCH, &format!("/v1/domains/{host}")).json(body).send().await
}

/// Sets both URLs of a domain of A's.
async fn spawn_with_both() -> World {
    let world = spawn().await;
    world.own_domain(&world.a, HOST, Role::Primary).await;
    let changed = set(&world.a, HOST, &json!({"root_url": ROOT, "not_found_url": MISSING})).await;
    assert_eq!((changed.status, changed.member("root_url")), (200, ROOT.to_owned()), "{}", changed.text());
    world
}

async fn open(caller: &Caller, host: &str, path: &str) -> String {
    let reply = caller.browse(Method::GET, path).header("host", host).send().await;
    format!("{} {}", reply.status, reply.header("location")).trim_end().to_owned()
}

#[tokio::test]
async fn an_update_has_its_rules() {
    let world = spawn().await;
    world.claim_domain(&world.a, HOST, Role::Primary).await;
    for (body, expected) in [
        (json!({}), "400 empty_update"),
        (json!({"role": "alternate"}), "400 empty_update"),
        (json!({"root_url": 1}), "400 bad_request root_url"),
        (json!({"root_url": ""}), "400 invalid_url root_url"),
        (json!({"root_url": "www.example.com"}), "400 invalid_url root_url"),
        (json!({"root_url": "myapp://home"}), "400 invalid_url root_url"),
        (json!({"root_url": "javascript:alert(1)"}), "400 invalid_url root_url"),
        (json!({"root_url": "https://127.0.0.1/"}), "400 invalid_url root_url"),
        (json!({"root_url": "https://user@example.com/"}), "400 invalid_url root_url"),
        (json!({"root_url": format!("https://example.com/{}", "a".repeat(2_048))}), "400 invalid_url root_url"),
        (json!({"root_url": ROOT, "not_found_url": "https://localhost/"}), "400 invalid_url not_found_url"),
        (json!({"root_url": "https://GO.example.com"}), "400 invalid_url root_url"),
        (json!({"not_found_url": "http://go.example.com:8080/?x"}), "400 invalid_url not_found_url"),
    ] {
        assert_eq!(set(&world.a, HOST, &body).await.outcome(), expected, "{body}");
    }
    let stored = async || {
        let listed = world.a.get("/v1/domains").await.json()[0].clone();
        (listed["root_url"].clone(), listed["not_found_url"].clone())
    };
    assert_eq!(stored().await, (Value::Null, Value::Null), "nothing of a refused update is stored");
    for (body, root, missing) in [
        (json!({"root_url": "HTTPS://www.Example.com"}), json!(ROOT), Value::Null),
        (json!({"not_found_url": MISSING}), json!(ROOT), json!(MISSING)),
        (json!({"root_url": null, "verified": true, "domain": "x"}), Value::Null, json!(MISSING)),
        (json!({"root_url": "https://go.example.com/home"}), json!("https://go.example.com/home"), json!(MISSING)),
        (json!({"root_url": null, "not_found_url": null}), Value::Null, Value::Null),
    ] {
        let changed = set(&world.a, "GO.example.com.", &body).await;
        assert_eq!((changed.status, changed.json()["verified"].clone()), (200, json!(false)), "{body}");
        assert_eq!(
            (changed.json()["root_url"].clone(), changed.json()["not_found_url"].clone()),
            (root, missing),
            "{body}"
        );
        assert_eq!(changed.json(), world.a.get("/v1/domains").await.json()[0], "as in the list");
    }
    for host in ["nowhere.example.com", "not_a_name", "*"] {
        assert_eq!(set(&world.a, host, &json!({"root_url": ROOT})).await.outcome(), "404 not_found", "{host}");
    }
    assert_eq!(set(&world.b, HOST, &json!({"root_url": ROOT})).await.outcome(), "404 not_found");
}

/// Who is a person is decided as for the page that they would see otherwise: by an `Accept` that names HTML.
#[tokio::test]
async fn people_are_sent_there_and_programs_get_their_404() {
    let world = spawn_with_both().await;
    world.a.make("here").await;
    let page = "404 text/html; charset=utf-8";
    let json = "404 application/json";
    let (root, missing) = (format!("302 {ROOT}"), format!("302 {MISSING}"));
    let preview = "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)";
    let crawler = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    for (method, path, accept, agent, expected) in [
        ("GET", "/", BROWSER, FIREFOX, &*root),
        ("GET", "/?utm_source=poster", BROWSER, FIREFOX, &root),
        ("HEAD", "/", BROWSER, FIREFOX, &root),
        ("GET", "/nowhere", BROWSER, FIREFOX, &missing),
        ("GET", "/r/nowhere", BROWSER, FIREFOX, &missing),
        ("HEAD", "/nowhere", BROWSER, FIREFOX, &missing),
        ("GET", "/a/b/c", BROWSER, FIREFOX, &missing),
        ("GET", "/ab", BROWSER, FIREFOX, &missing),
        ("GET", "/here/", BROWSER, FIREFOX, &missing),
        ("GET", "/v1/links", BROWSER, FIREFOX, &missing),
        ("GET", "/account", BROWSER, FIREFOX, &missing),
        ("GET", "/nowhere", "text/html", "curl/8.5.0", &missing),
        ("GET", "/", BROWSER, crawler, &root),
        ("GET", "/nowhere", "text/html, application/json;q=0.9", FIREFOX, &missing),
        ("GET", "/", "*/*", "curl/8.5.0", json),
        ("GET", "/nowhere", "*/*", "curl/8.5.0", json),
        ("GET", "/", "", "", json),
        ("GET", "/", "*/*", preview, json),
        ("GET", "/nowhere", "*/*", FIREFOX, json),
        ("GET", "/", "application/json", FIREFOX, json),
        ("GET", "/nowhere", "application/json, text/html", FIREFOX, json),
        ("GET", "/favicon.ico", "image/avif,image/webp,*/*;q=0.8", FIREFOX, json),
        ("GET", "/favicon.ico", BROWSER, FIREFOX, page),
        ("GET", "/robots.txt", BROWSER, crawler, page),
        ("GET", "/apple-touch-icon.png", BROWSER, FIREFOX, page),
        ("GET", "/apple-touch-icon-120x120-precomposed.png", BROWSER, FIREFOX, page),
        ("GET", "/robots.txt.bak", BROWSER, FIREFOX, &missing),
        ("GET", "/.well-known/assetlinks.json", BROWSER, FIREFOX, json),
        ("GET", "/.well-known/other", BROWSER, FIREFOX, json),
        ("POST", "/", BROWSER, FIREFOX, "405 application/json"),
        ("GET", "/here", BROWSER, FIREFOX, "302 https://example.com/here"),
    ] {
        let ask = world.nobody.ask_without_key(method.parse().expect("a method"), path).header("host", HOST);
        let reply = ask.header("accept", accept).header("user-agent", agent).send().await;
        let shown = [reply.header("location"), reply.header("content-type")].into_iter().find(|text| !text.is_empty());
        let what = format!("{method} {path} {accept} {agent}");
        assert_eq!(format!("{} {}", reply.status, shown.unwrap_or_default()), *expected, "{what}");
        if reply.status == 302 {
            assert!(reply.body.is_empty(), "{what}");
            assert_eq!(reply.header("vary"), "Accept, User-Agent, Sec-CH-UA-Platform", "{what}");
            assert_eq!((reply.header("cache-control"), reply.header("set-cookie")), ("no-store", ""), "{what}");
        }
    }
    // Other hosts are as before, also the other URL of the same domain once one is taken away.
    assert_eq!(open(&world.nobody, "other.example.com", "/nowhere").await, "404");
    assert_eq!(open(&world.nobody, "localhost", "/nowhere").await, "404");
    assert_eq!(set(&world.a, HOST, &json!({"root_url": null})).await.status, 200);
    let bare = world.nobody.browse(Method::GET, "/").header("host", HOST).send().await;
    assert_eq!(format!("{} {}", bare.status, bare.header("content-type")), page);
    assert!(bare.text().contains("Link not found"), "{}", bare.text());
    assert_eq!(open(&world.nobody, HOST, "/nowhere").await, missing);
    world.expect_clicks(&[(0, 1)]).await;
}

/// A link that is taken down, has ended or was deleted is no reason to look into the notices: only the deleted one does not
/// exist.
#[tokio::test]
async fn a_link_that_exists_keeps_its_notice() {
    let world = spawn_with_both().await;
    for (id, status) in [("flagged", 200), ("disabled", 410)] {
        world.a.make(id).await;
        world.db.execute(format!("UPDATE links SET status = '{id}' WHERE link_id = '{id}'")).await;
        assert_eq!(open(&world.nobody, HOST, &format!("/{id}")).await, status.to_string());
    }
    world.a.make("deleted").await;
    assert_eq!(world.a.delete("/v1/links/deleted").await.status, 204);
    assert_eq!(open(&world.nobody, HOST, "/deleted").await, format!("302 {MISSING}"));
}

#[tokio::test]
async fn nobody_is_sent_in_a_circle() {
    let world = spawn_with_both().await;
    let own = json!({"root_url": "https://go.example.com/home", "not_found_url": "https://go.example.com/lost"});
    assert_eq!(set(&world.a, HOST, &own).await.status, 200);
    for (path, expected) in [
        ("/", "302 https://go.example.com/home"),
        ("/home", "302 https://go.example.com/lost"),
        ("/lost", "404"),
        ("/lost?again", "404"),
    ] {
        assert_eq!(open(&world.nobody, HOST, path).await, expected, "{path}");
    }
    world.a.make("lost").await;
    assert_eq!(open(&world.nobody, HOST, "/lost").await, "302 https://example.com/lost");
}

/// Before its proof a domain sends nobody anywhere, nor after its end; another account that claims it has its own.
#[tokio::test]
async fn only_a_verified_domain_sends_people() {
    let world = spawn().await;
    let token = world.claim_domain(&world.a, HOST, Role::Alternate).await;
    assert_eq!(set(&world.a, HOST, &json!({"root_url": ROOT})).await.status, 200);
    assert_eq!(open(&world.nobody, HOST, "/").await, "404");
    world.dns.txt(&super::proof_of(HOST), &[&token]);
    assert_eq!(super::verify(&world.a, HOST).await["verified"], true);
    assert_eq!(open(&world.nobody, HOST, "/").await, format!("302 {ROOT}"));
    assert_eq!(world.a.delete(&format!("/v1/domains/{HOST}")).await.status, 204);
    assert_eq!(open(&world.nobody, HOST, "/").await, "404");
    world.own_domain(&world.b, HOST, Role::Primary).await;
    assert_eq!(open(&world.nobody, HOST, "/").await, "404");
}

/// L24: a change shows at once on the node, and within five seconds on others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_redirects_reach_the_other_node() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, HOST, Role::Primary).await;
    let there = world.at(1, &world.nobody);
    for url in [json!(ROOT), json!("https://other.example.com/"), Value::Null] {
        let expected = url.as_str().map_or("404".to_owned(), |url| format!("302 {url}"));
        open(&there, HOST, "/").await;
        assert_eq!(set(&world.a, HOST, &json!({"root_url": url})).await.status, 200);
        assert_eq!(open(&world.nobody, HOST, "/").await, expected, "at once here");
        eventually("it is so there", PATIENCE, || async { open(&there, HOST, "/").await == expected }).await;
    }
}

/// L19: a listed URL is refused, and one that is listed later is not used.
#[tokio::test]
async fn l19_nobody_is_sent_to_a_listed_page() {
    let list = ThreatList::of("bad.example.com\n");
    let world = spawn_with(|config| config.threat_list = Some(list.file())).await;
    world.own_domain(&world.a, HOST, Role::Primary).await;
    for field in ["root_url", "not_found_url"] {
        let refused = set(&world.a, HOST, &json!({field: "https://a.bad.example.com/"})).await;
        assert_eq!(refused.outcome(), format!("400 threat_detected {field}"));
    }
    assert_eq!(set(&world.a, HOST, &json!({"root_url": ROOT, "not_found_url": MISSING})).await.status, 200);
    assert_eq!(open(&world.nobody, HOST, "/").await, format!("302 {ROOT}"));
    list.say("www.example.com\n");
    looked(&world, "the list applies", async || open(&world.nobody, HOST, "/").await == "404").await;
    assert_eq!(open(&world.nobody, HOST, "/nowhere").await, "404");
}

/// What a link of the account was taken down for is refused, and no longer used where it was set before; here the list took
/// it down, which then no longer has it.
#[tokio::test]
async fn nobody_is_sent_where_a_link_was_taken_down() {
    let list = ThreatList::of("");
    let world = spawn_with(|config| config.threat_list = Some(list.file())).await;
    for (caller, host) in [(&world.a, HOST), (&world.b, "b.example.com")] {
        world.own_domain(caller, host, Role::Primary).await;
        assert_eq!(set(caller, host, &json!({"root_url": ROOT, "not_found_url": MISSING})).await.status, 200);
    }
    world.a.make_of(&json!({"custom_id": "bait", "web_url": ROOT})).await;
    for (text, expected) in [(ROOT, "404".to_owned()), ("# nothing", format!("302 {ROOT}"))] {
        list.say(text);
        let opens = async || open(&world.nobody, "b.example.com", "/").await == expected;
        looked(&world, "the list applies", opens).await;
        let is_flagged = async || world.a.get("/v1/links/bait").await.member("status") == "flagged";
        looked(&world, "the link is flagged", is_flagged).await;
    }
    // Look-ups are fresh for five seconds.
    world.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(open(&world.nobody, HOST, "/").await, "404");
    assert_eq!(open(&world.nobody, HOST, "/nowhere").await, format!("302 {MISSING}"), "another page");
    assert_eq!(
        set(&world.a, HOST, &json!({"not_found_url": ROOT})).await.outcome(),
        "400 threat_detected not_found_url"
    );
    assert_eq!(set(&world.b, "b.example.com", &json!({"root_url": ROOT})).await.status, 200, "for others it is a page");
}

/// While an account is suspended, its domains send nobody anywhere.
#[tokio::test]
async fn a_suspended_account_sends_nobody() {
    let world = spawn_with_both().await;
    let tenant = world.a.tenant.to_string();
    let expected = format!("302 {ROOT}");
    assert_eq!(open(&world.nobody, HOST, "/").await, expected);
    suspend(&world, &tenant).await;
    let opens = async |expected: &str| {
        eventually("the node follows", PATIENCE, || async { open(&world.nobody, HOST, "/").await == expected }).await;
    };
    opens("404").await;
    assert_eq!(set(&world.a, HOST, &json!({"root_url": ROOT})).await.outcome(), "403 account_suspended");
    resume(&world, &tenant).await;
    opens(&expected).await;
}
