//! What a visit would get, and why: the same as it gets, without its click.

use std::collections::BTreeMap;

use deeplink_client::{ExplainQuery, ExplainedOutcome, Explanation, SampleVisitor};
use deeplink_core::secret::Random;
use deeplink_core::visitor::ClickKind;
use deeplink_doubles::decisions::{ANDROID, FIREFOX, IPHONE, LINUX, LISTED, MAC, WINDOWS, as_listed, destinations};
use deeplink_doubles::wait::PATIENCE;
use http::Method;
use serde_json::json;

use super::table::targets;
use crate::suspension::suspend;
use deeplink_testing::{Caller, Reply, Role, World, eventually, spawn};

const HOSTS: [Option<&str>; 4] = [None, Some("localhost"), Some("go.example.com"), Some("alt.example.com")];
const AGENTS: [&str; 8] =
    [IPHONE, ANDROID, FIREFOX, MAC, WINDOWS, LINUX, "curl/8.5.0", "Mozilla/5.0 (compatible; Somebot/1.0)"];
/// Links, and visits of each.
const LINKS: usize = 40;
const VISITS: usize = 12;

/// An account with a primary and an alternate domain.
async fn with_hosts(world: &World) {
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.own_domain(&world.b, "alt.example.com", Role::Alternate).await;
}

async fn why(of: &Caller, id: &str, query: &ExplainQuery) -> Explanation {
    of.links().explain(id, query).await.unwrap_or_else(|error| panic!("{error}: {query:?}"))
}

/// The visit that a query describes.
async fn visit(world: &World, own: &str, id: &str, query: &ExplainQuery) -> Reply {
    let host = query.host.as_deref().unwrap_or(own);
    let path = if host == "localhost" { format!("/r/{id}") } else { format!("/{id}") };
    let path = if query.redirect { format!("{path}?redirect=1") } else { path };
    let mut ask = world.nobody.ask(Method::GET, &path).header("host", host);
    ask = ask.header("user-agent", query.agent()).header("accept", query.accepted());
    if let Some(os) = &query.os {
        ask = ask.header("sec-ch-ua-platform", os);
    }
    ask.send().await
}

/// The explanation says what the visit got.
fn agree(why: &Explanation, got: &Reply, case: &str) {
    let case = format!("{case}\n{why:#?}\n{} {:?}\n{}", got.status, got.headers, got.text());
    assert_eq!(why.http_status, got.status, "{case}");
    for (name, value) in &why.headers {
        assert_eq!(got.header(name), value, "{name}: {case}");
    }
    let page: BTreeMap<_, _> = if why.outcome == ExplainedOutcome::Landing {
        targets(&got.text()).into_iter().collect()
    } else {
        BTreeMap::new()
    };
    let on_page = |name: &str| page.get(name).map(String::as_str);
    let location = Some(got.header("location")).filter(|location| !location.is_empty());
    assert_eq!(why.outcome == ExplainedOutcome::Redirect, location.is_some(), "{case}");
    assert_eq!(why.target.as_deref(), location.or(on_page("open")), "{case}");
    assert_eq!(why.ipad_target.as_deref(), on_page("ipad"), "{case}");
    assert_eq!(why.timer_ms.is_some(), on_page("timer").is_some(), "{case}");
    match (why.fallback.as_deref(), on_page("timer")) {
        (fallback, Some(timer)) => assert_eq!(fallback, Some(timer), "{case}"),
        // The browser's own: it is in the intent.
        (Some(fallback), None) => {
            let inside = why.target.as_deref().unwrap_or_default().replace(';', "&");
            let pairs = url::form_urlencoded::parse(inside.as_bytes());
            assert!(pairs.into_iter().any(|(name, url)| name == "S.browser_fallback_url" && url == fallback), "{case}");
        }
        (None, None) => {}
    }
    assert!(why.reason.ends_with('.'), "{case}");
}

/// A link with any destinations and texts.
async fn any_link(of: &Caller, id: &str, random: &mut Random) {
    let mut has = String::new();
    for name in [["IL", "IL*"], ["IS"; 2], ["AL", "AL*"], ["AS"; 2], ["W"; 2]] {
        if random.below(2) == 0 {
            has = format!("{has} {}", if random.below(4) == 0 { name[1] } else { name[0] });
        }
    }
    let [ios, ios_store, android, android_store, web] = destinations(&has);
    let preview = (random.below(3) == 0).then(|| json!({"title": "Sale"}));
    let body = json!({
        "custom_id": id, "ios_deep_link": ios, "ios_store_url": ios_store, "android_deep_link": android,
        "android_store_url": android_store, "web_url": web, "social_preview": preview, "enabled": random.below(12) > 0,
    });
    of.make_of(&body).await;
}

fn pick<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[usize::try_from(random.below(all.len() as u64)).expect("a small number")]
}

/// Any visitor, in any way.
fn any_query(random: &mut Random, hosts: &[Option<&str>]) -> ExplainQuery {
    let mut one_of = |all: &[&'static str]| pick(random, all);
    let agent = one_of(&AGENTS);
    let agent = match one_of(&["", "", "", "in app", "listed"]) {
        "in app" => format!("{agent} Instagram"),
        "listed" => as_listed(agent, one_of(&LISTED)),
        _ => agent.to_owned(),
    };
    let accept = one_of(&["text/html", "text/html", "text/html", "*/*", "application/json"]);
    let mut query = ExplainQuery::new().user_agent(agent).accept(accept);
    query.os = Some(one_of(&["", "", "", "\"Android\"", "iOS", "Windows", "Linux"]))
        .filter(|os| !os.is_empty())
        .map(str::to_owned);
    query.redirect = one_of(&["", "", "1"]) == "1";
    query.host = pick(random, hosts).map(str::to_owned);
    query
}

/// Over generated links and visitors: what is explained is what a visit gets, headers included, and it is counted as was
/// said. The explanations themselves are not counted.
#[tokio::test]
async fn an_explanation_is_what_a_visit_gets() {
    let world = spawn().await;
    with_hosts(&world).await;
    let seed = Random::system().below(1 << 40);
    let mut random = Random::seeded(seed);
    let mut counted = [0; 4];
    let mut rows = BTreeMap::new();
    for number in 0..LINKS {
        let (of, own, hosts) = match number % 2 {
            0 => (&world.a, "localhost", &HOSTS[..2]),
            _ => (&world.b, "go.example.com", &HOSTS[..]),
        };
        let id = format!("link-{number}");
        any_link(of, &id, &mut random).await;
        for _ in 0..VISITS {
            let query = any_query(&mut random, hosts);
            let why = why(of, &id, &query).await;
            let got = visit(&world, own, &id, &query).await;
            agree(&why, &got, &format!("seed {seed}, {id}: {query:?}"));
            if let Some(kind) = why.counted {
                counted[place(kind)] += 1;
            }
            *rows.entry(why.row).or_insert(0) += 1;
        }
    }
    assert!(rows.len() > 8, "seed {seed}: {rows:?}");
    let expected: Vec<_> = (0..).zip(counted).collect();
    world.expect_clicks(&expected).await;
}

/// The number of a kind in the click log.
const fn place(kind: ClickKind) -> usize {
    match kind {
        ClickKind::Human => 0,
        ClickKind::Preview => 1,
        ClickKind::Crawler => 2,
        ClickKind::Agent => 3,
    }
}

/// Each step of the decision before the landing page, for an iPhone.
#[tokio::test]
async fn every_step_is_explained() {
    let world = spawn().await;
    with_hosts(&world).await;
    let link = |id: &str, more: serde_json::Value| {
        let mut body = json!({"custom_id": id, "web_url": "https://example.com/", "ios_deep_link": "myapp://x"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let soon = world.clock.now().plus_days(1).to_string();
    for body in [
        link("usual", json!({})),
        link("web-only", json!({"ios_deep_link": null})),
        link("off", json!({"enabled": false})),
        link("ends", json!({"expires_at": soon})),
        link("moves-on", json!({"expires_at": soon, "expired_url": "https://example.com/over"})),
        link("flagged", json!({})),
    ] {
        world.b.make_of(&body).await;
    }
    world.db.execute("UPDATE links SET status = 'flagged' WHERE link_id = 'flagged'".to_owned()).await;
    world.clock.advance(std::time::Duration::from_hours(25));
    let iphone = || ExplainQuery::from(SampleVisitor::IPHONE);
    let cases = [
        ("usual", iphone(), 8, "landing", "The button links to the account's alternate domain"),
        (
            "usual",
            iphone().accept("application/json"),
            2,
            "json",
            "The client requests JSON, so it gets the link's data.",
        ),
        ("usual", ExplainQuery::from(SampleVisitor::AGENT), 4, "landing", "An AI agent always gets the landing page"),
        ("usual", iphone().host("alt.example.com"), 5, "redirect", "On the alternate domain, an installed app opens"),
        (
            "usual",
            ExplainQuery::new().os("Linux").user_agent("").redirect(),
            6,
            "redirect",
            "redirect=1 skips the landing page",
        ),
        ("web-only", iphone(), 7, "redirect", "The web page is the link's only destination"),
        ("off", iphone(), 3, "notice", "The link is disabled, so everyone gets a notice that it is not available."),
        (
            "off",
            iphone().accept("application/json"),
            2,
            "json",
            "The client requests JSON, but gets only the ID and the status",
        ),
        ("ends", iphone(), 3, "notice", "The link has expired, so everyone gets a notice."),
        ("moves-on", iphone(), 3, "redirect", "The link has expired, so everyone is redirected"),
        ("flagged", iphone(), 3, "notice", "The link was flagged as unsafe"),
    ];
    for (id, query, step, outcome, reason) in cases {
        let why = why(&world.b, id, &query).await;
        let case = format!("{id} {query:?}: {why:#?}");
        assert_eq!((why.step, why.outcome.as_str()), (step, outcome), "{case}");
        assert!(why.reason.starts_with(reason), "{case}");
        agree(&why, &visit(&world, "go.example.com", id, &query).await, &case);
    }
    suspend(&world, world.b.tenant.as_str()).await;
    eventually("the node follows", PATIENCE, || async { why(&world.b, "usual", &iphone()).await.step == 3 }).await;
    let why = why(&world.b, "usual", &iphone()).await;
    assert_eq!((why.step, why.outcome.as_str(), why.counted), (3, "notice", None));
    assert!(why.reason.starts_with("The operator of this service suspended the account"), "{why:?}");
}

/// The operator's reason for taking a link down is for those who see the whole account, and is not their own switch's.
#[tokio::test]
async fn a_takedown_is_explained_to_its_account() {
    let world = spawn().await;
    world.a1.make("phished").await;
    world.a.make("switched-off").await;
    let tenant = world.a.tenant.as_str();
    for (status, reason, at) in [("disabled", "spam", 1), ("flagged", "phishing", 2), ("active", "sorry", 3)] {
        let sql = format!(
            "INSERT INTO link_status_changes (tenant_id, link_id, status, reason, changed_at)
             VALUES ('{tenant}', 'phished', '{status}', '{reason}', {at})"
        );
        world.db.execute(sql).await;
    }
    assert_eq!(world.a.put("/v1/links/switched-off", &json!({"enabled": false})).await.status, 200);
    world.db.execute("UPDATE links SET status = 'flagged', taken_down = TRUE WHERE link_id = 'phished'").await;
    let flagged = "The link was flagged as unsafe, so everyone gets a warning, without a link to the destination.";
    let said = async |of: &Caller, id: &str| why(of, id, &ExplainQuery::new()).await.reason;
    assert_eq!(said(&world.a1, "phished").await, flagged);
    let own = "The link is disabled, so everyone gets a notice that it is not available.";
    assert_eq!(said(&world.a, "switched-off").await, own);
    assert_eq!(said(&world.a, "phished").await, format!("{flagged} The operator's reason: \"phishing\"."));
    let as_json = why(&world.a, "phished", &ExplainQuery::new().accept("application/json")).await.reason;
    assert!(as_json.ends_with("is not active. The operator's reason: \"phishing\"."), "{as_json}");

    world.db.execute("UPDATE links SET status = 'disabled' WHERE link_id = 'phished'").await;
    suspend(&world, world.a.tenant.as_str()).await;
    let suspended = "The operator of this service suspended the account";
    let says_so = async || said(&world.a, "phished").await.starts_with(suspended);
    eventually("the node follows", PATIENCE, says_so).await;
    assert!(!said(&world.a, "phished").await.contains("phishing"), "the reason is the link's and not the suspension's");
}

/// A link is found on its account's hosts; on the service's own, the id may be another account's.
#[tokio::test]
async fn a_link_that_is_not_found_says_where_it_is() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    for owner in [&world.a, &world.b] {
        owner.make("spring-42").await;
    }
    let html = || ExplainQuery::new();
    let there = why(&world.b, "spring-42", &html()).await;
    assert_eq!((there.url.as_str(), there.step), ("https://go.example.com/spring-42", 7));
    let not_there = why(&world.b, "spring-42", &html().host("LOCALHOST.")).await;
    assert_eq!((not_there.outcome.as_str(), not_there.step, not_there.http_status), ("not_found", 1, 404));
    assert_eq!(not_there.reason, "The link is available only on the account's domains, not on the service's own host.");
    assert_eq!((not_there.row, not_there.target, not_there.counted), (None, None, None));
    // A link keeps the host it was made under, also while that is gone.
    assert_eq!(world.b.delete("/v1/domains/go.example.com").await.status, 204);
    let gone = why(&world.b, "spring-42", &html()).await;
    assert_eq!((gone.outcome.as_str(), gone.http_status), ("not_found", 404));
    let expected = "go.example.com is not a verified domain of this account, so the link is not available there.";
    assert_eq!(gone.reason, expected);
    let got = visit(&world, "go.example.com", "spring-42", &html()).await;
    agree(&gone, &got, "a host that is gone");
}

/// Malformed questions name their parameter; a link that is not there comes first.
#[tokio::test]
async fn questions_are_refused_by_name() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.claim_domain(&world.a, "claimed.example.com", Role::Primary).await;
    world.a.make("spring-42").await;
    let long = format!("user_agent={}", "x".repeat(2_049));
    for (query, expected) in [
        (&*long, "400 bad_request user_agent"),
        ("user_agent=a%00b", "400 bad_request user_agent"),
        ("accept=text%2Fhtml%0d%0ax:%20y", "400 bad_request accept"),
        ("os=%7f", "400 bad_request os"),
        ("os=iOS&os=Android", "400 bad_request os"),
        ("redirect=true", "400 bad_request redirect"),
        ("host=", "400 bad_request host"),
        ("host=a%20b", "400 bad_request host"),
        // Another account's, one that is not verified, and nobody's are alike.
        ("host=go.example.com", "400 bad_request host"),
        ("host=claimed.example.com", "400 bad_request host"),
        ("host=nowhere.example.com", "400 bad_request host"),
    ] {
        let reply = world.a.get(&format!("/v1/links/spring-42/explain?{query}")).await;
        assert_eq!(reply.outcome(), expected, "{query}: {}", reply.text());
        let missing = world.a.get(&format!("/v1/links/nothing/explain?{query}")).await;
        assert_eq!(missing.outcome(), "404 not_found", "{query}");
    }
    // No words are too odd for a header's value.
    let odd = world.a.get("/v1/links/spring-42/explain?user_agent=%F0%9F%91%8B&accept=%C3%A9&os=&utm_source=x").await;
    assert_eq!((odd.status, &odd.json()["outcome"]), (200, &json!("redirect")), "{}", odd.text());
}
