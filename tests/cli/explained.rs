//! `dl links explain`: what it asks, and what it shows to programs and to people.

use serde_json::json;

use crate::screen::{Screen, plain};
use crate::server::Server;
use deeplink_client::SampleVisitor;
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Double, Request, explanation};

fn service() -> Double {
    Double::new(|_| explanation())
}

/// A parameter of a request, decoded.
fn asked(request: &Request, name: &str) -> Option<String> {
    let (_, query) = request.target.split_once('?')?;
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[test]
fn each_visitor_has_its_headers() {
    let double = service();
    let dl = Dl::at(&double.url);
    let names = SampleVisitor::ALL.map(|sample| (sample.name, sample));
    let others = [("ios", SampleVisitor::IPHONE), ("desktop", SampleVisitor::WINDOWS)];
    for (name, sample) in names.into_iter().chain(others) {
        let why = dl.run(&format!("links explain spring-42 --as {name} --fields as -o json"));
        assert_eq!(why.json(), json!({"as": sample.name}));
        let request = double.requests().pop().expect("a request");
        assert_eq!(request.line(), "GET /v1/links/spring-42/explain");
        assert_eq!(asked(&request, "user_agent").as_deref(), Some(sample.user_agent));
        assert_eq!(asked(&request, "accept").as_deref(), Some(sample.accept));
    }
    dl.run(
        "links explain spring-42 --user-agent 'A B' --accept text/plain --os Android --host go.example.com --redirect",
    )
    .ok();
    let request = double.requests().pop().expect("a request");
    for (name, value) in [
        ("user_agent", "A B"),
        ("accept", "text/plain"),
        ("os", "Android"),
        ("host", "go.example.com"),
        ("redirect", "1"),
    ] {
        assert_eq!(asked(&request, name).as_deref(), Some(value));
    }
    let sent = double.requests().len();
    for (line, code) in [
        ("links explain spring-42 --as toaster", 2),
        ("links explain spring-42 --as iphone --user-agent x", 2),
        ("links explain 'a b' --as iphone", 3),
        ("links explain spring-42 --os 'a\u{7f}'", 3),
    ] {
        dl.run(line).fails(code);
    }
    assert_eq!(double.requests().len(), sent, "what is wrong is not sent");
}

#[test]
fn without_a_visitor_the_devices_are_compared() {
    let double = service();
    let dl = Dl::at(&double.url);
    let compared = dl.run("links explain spring-42");
    let rows: Vec<&str> = compared.ok().lines().collect();
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[0], "iphone\tredirect\thttps://example.com/");
    let names = SampleVisitor::DEVICES.map(|device| device.name);
    let listed = dl.run("links explain spring-42 -o json").json();
    let listed: Vec<_> = listed.as_array().expect("a list").iter().map(|why| why["as"].clone()).collect();
    assert_eq!(listed, names.map(serde_json::Value::from));
    assert_eq!(double.requests().len(), 12);
    assert_eq!(dl.run("links explain spring-42 -o id").ok(), "spring-42\n", "one link has one ID");
    assert_eq!(double.requests().len(), 18);
    let held = dl.run("links explain spring-42 --dry-run");
    assert_eq!(held.ok().lines().count(), 6, "{held}");
    assert_eq!(double.requests().len(), 18);
}

/// A link may be given by its URL, as to `dl links resolve`; the service checks the host.
#[test]
fn a_url_is_explained_on_its_host() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (link, host) in [
        (format!("{}/r/spring-42", double.url), None),
        ("https://go.example.com/spring-42?a=b".to_owned(), Some("go.example.com")),
    ] {
        dl.run(&format!("explain {link} --as curl")).ok();
        let request = double.requests().pop().expect("a request");
        assert_eq!(request.line(), "GET /v1/links/spring-42/explain");
        assert_eq!(asked(&request, "host").as_deref(), host, "{link}");
    }
    assert!(dl.run("explain https://go.example.com/x/y/z").fails(3).contains("is not a link ID"));
    assert!(dl.run("explain https://go.example.com/spring-42 --host a.example").fails(2).contains("--host"));
}

#[test]
fn programs_get_what_the_service_answered() {
    let double = service();
    let dl = Dl::at(&double.url);
    let raw = dl.run("links explain spring-42 --as mac -o json").json();
    assert_eq!((raw["row"].as_str(), raw.get("as")), (Some("D14"), None));
    assert_eq!(raw["headers"]["location"], "https://example.com/");
    let fields = dl.run("links explain spring-42 --as mac --fields as,leads_to,row,counted");
    assert_eq!(fields.ok(), "mac\thttps://example.com/\tD14\thuman\n");
    let lines = dl.run("links explain spring-42 --as mac");
    assert!(lines.ok().starts_with("as\tmac\nleads_to\thttps://example.com/\noutcome\tredirect\n"), "{lines}");
}

#[test]
fn people_read_where_it_leads_and_why() {
    let double = service();
    let shown = |line: &str| plain(&Screen::open(Dl::at(&double.url), line).end().1);
    let text = shown("links explain spring-42 --as windows");
    for line in [
        "https://go.example.com/spring-42",
        "visitor     Windows PC (browser on windows)",
        "response    a redirect (HTTP 302)",
        "target      https://example.com/",
        "reason      The web page is the link's only destination, so everyone is redirected to it.",
        "counted as  human",
        "header      cache-control: no-store",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    assert!(!text.contains("decision"), "{text}");
    let text = shown("links explain spring-42 --as windows -v");
    assert!(text.contains("\ndecision    step 7, row D14\n"), "{text}");
    let text = shown("links explain spring-42");
    assert!(text.starts_with("VISITOR    RESPONSE  TARGET\niphone     redirect  https://"), "{text}");
    assert!(text.ends_with("note: add --as iphone to see why\n"), "{text}");
}

/// With a service: an app's link on two phones, and nothing is counted.
#[test]
fn a_link_to_an_app_is_explained() {
    let server = Server::start();
    let dl = server.user("you");
    dl.run(
        "links create https://example.com/ --id get-app --ios shop://promo/1 \
         --ios-store https://apps.apple.com/app/id1234567890",
    )
    .ok();
    let why = dl.run("links explain get-app --as iphone -o json").json();
    assert_eq!(why["target"], "shop://promo/1");
    assert_eq!(
        (&why["fallback"], &why["timer_ms"]),
        (&json!("https://apps.apple.com/app/id1234567890"), &json!(1_500))
    );
    assert_eq!(dl.run("links explain get-app --as ipad --fields leads_to,row").ok(), "shop://promo/1\tD11\n");
    assert_eq!(dl.run("links explain get-app --as mac --fields leads_to,row").ok(), "https://example.com/\tD11\n");
    assert_eq!(dl.run("links explain get-app --as android --fields leads_to,row").ok(), "https://example.com/\tD10\n");
    assert_eq!(dl.run("links explain get-app --as crawler --fields outcome,counted").ok(), "landing\tcrawler\n");
    dl.run("links explain nothing --as iphone").fails(5);
    assert_eq!(server.user("other").run("links explain get-app").code, Some(5));
    assert_eq!(dl.run("links stats get-app -o json").json()["click_count"], 0);
}
