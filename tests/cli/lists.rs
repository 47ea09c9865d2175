//! Lists without filters: `dl` follows them from page to page and prints all items, in every form.

use deeplink_client::mock::fixtures;
use serde_json::{Value, json};

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, Request, affiliate, app, domain, history, link, secret_key, user};

use crate::reports::source;
use crate::screen::Screen;

const CREDENTIALS: &str = "/v1/affiliates/aff_0123456789abcdef01234567/credentials";

/// A command, the path that it reads, the body's member with the items (`None` for a bare array), the member that names
/// an item.
type List = (&'static str, &'static str, Option<&'static str>, &'static str);

const LISTS: [List; 9] = [
    ("affiliates list", "/v1/affiliates", Some("affiliates"), "id"),
    ("affiliates creds list aff_0123456789abcdef01234567", CREDENTIALS, Some("credentials"), "id"),
    ("apps list", "/v1/apps", None, "id"),
    ("audit list", "/v1/audit", Some("entries"), "id"),
    ("domains list", "/v1/domains", None, "domain"),
    ("pk list", "/v1/auth/publishable-keys", Some("keys"), "id"),
    ("sources list", "/v1/sources", Some("sources"), "id"),
    ("team list", "/v1/auth/users", Some("users"), "id"),
    ("webhooks list", "/v1/webhooks", Some("webhooks"), "id"),
];

fn name(at: usize) -> String {
    format!("item-{at}")
}

fn item(path: &str, at: usize) -> Value {
    let (mut item, id) = match path {
        "/v1/affiliates" => (affiliate(), "id"),
        "/v1/apps" => (app("ios"), "id"),
        "/v1/audit" => (json!(fixtures::audit_entry("you@example.com")), "id"),
        "/v1/domains" => (domain(at.is_multiple_of(2)), "domain"),
        "/v1/auth/publishable-keys" => (json!(fixtures::publishable_key_detail("go.example.com")), "id"),
        "/v1/sources" => (source("https://links.example.com"), "id"),
        "/v1/auth/users" => (user("you@example.com"), "id"),
        "/v1/webhooks" => (json!(fixtures::webhook_detail("https://hooks.example.com/")), "id"),
        _ => (secret_key(deeplink_testing::dl::OTHER_KEY, 3), "id"),
    };
    item[id] = name(at).into();
    item
}

/// Five of everything, at most two on a page. The `Link` to the next page of a bare array has another host, to which
/// nothing may be sent.
fn page(request: &Request) -> Answer {
    let path = request.path();
    let limit: usize = request.query("limit").and_then(|limit| limit.parse().ok()).expect("a limit");
    let begin: usize = request.query("cursor").map_or(0, |cursor| cursor.parse().expect("a cursor"));
    let end = (begin + limit.min(2)).min(5);
    let items: Vec<_> = (begin..end).map(|at| item(path, at)).collect();
    let next = (end < 5).then(|| end.to_string());
    let list = LISTS.iter().find(|list| list.1 == path).expect("a list");
    match (list.2, next) {
        (Some(items_of), next) => Answer::json(200, &json!({items_of: items, "next_cursor": next})),
        (None, None) => Answer::json(200, &json!(items)),
        (None, Some(next)) => {
            let link = format!("<http://127.0.0.1:1{path}?limit={limit}&cursor={next}>; rel=\"next\"");
            Answer::json(200, &json!(items)).header("link", &link)
        }
    }
}

/// A list's output as JSON, and its records.
fn records(whole: &Value, items: Option<&str>) -> Vec<Value> {
    if let Some(items) = items {
        let names: Vec<_> = whole.as_object().expect("an envelope").keys().collect();
        assert_eq!(names, [items, "next_cursor"]);
        return whole[items].as_array().expect("records").clone();
    }
    whole.as_array().expect("records").clone()
}

fn ids(records: &[Value], id: &str) -> Vec<String> {
    records.iter().map(|record| record[id].as_str().expect("an id").to_owned()).collect()
}

/// Limit and cursor of each request, which are all for this path.
fn asked(double: &Double, path: &str) -> Vec<String> {
    let told = |request: &Request| {
        assert_eq!(request.line(), format!("GET {path}"));
        format!("{} {}", request.query("limit").unwrap_or("-"), request.query("cursor").unwrap_or("-"))
    };
    double.requests().iter().map(told).collect()
}

/// A cursor is base64 for URLs, so that it may begin as a flag does.
#[test]
fn a_cursor_may_begin_with_a_dash() {
    let double = Double::new(|_| Answer::json(200, &json!({"links": [], "next_cursor": null})));
    Dl::at(&double.url).run("links list --cursor -xAbc").ok();
    assert_eq!(double.only().query("cursor"), Some("-xAbc"));
}

/// All pages of a list are printed as one, in every form; the key goes only to the service.
#[test]
fn r4_a_list_prints_all_its_pages() {
    for (line, path, items, id) in LISTS {
        let double = Double::new(page);
        let dl = Dl::at(&double.url);
        let all: Vec<_> = (0..5).map(name).collect();
        assert_eq!(dl.run(&format!("{line} -o id")).ok().lines().collect::<Vec<_>>(), all, "{line}");
        assert_eq!(asked(&double, path), ["100 -", "100 2", "100 4"], "{line}");

        let whole = dl.run(&format!("{line} -o json")).json();
        assert_eq!(ids(&records(&whole, items), id), all, "{line}");
        assert_eq!(whole.get("next_cursor"), items.map(|_| &Value::Null), "{line}");
        let lines: Vec<Value> = dl
            .run(&format!("{line} -o jsonl"))
            .ok()
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(ids(&lines, id), all, "{line}");
        let csv = dl.run(&format!("{line} -o csv --fields {id}"));
        assert_eq!(csv.ok(), format!("{id}\r\n{}\r\n", all.join("\r\n")), "{line}");
        let table = dl.run(&format!("{line} --fields {id}"));
        assert_eq!(table.ok().lines().collect::<Vec<_>>(), all, "{line}");
    }
}

/// Long lists can be printed in part; the output says that more is available, and its cursor.
#[test]
fn r4_a_list_prints_a_part() {
    for (line, path, items, id) in
        LISTS.into_iter().filter(|list| ["affiliates list", "domains list", "team list"].contains(&list.0))
    {
        let double = Double::new(page);
        let dl = Dl::at(&double.url);
        let part = dl.run(&format!("{line} --limit 3 -o json"));
        let (whole, left) = (part.json(), json!("3"));
        assert_eq!(ids(&records(&whole, items), id), [name(0), name(1), name(2)], "{line}");
        assert_eq!(whole.get("next_cursor"), items.map(|_| &left), "{line}");
        assert_eq!(part.says("more are available: a larger --limit, or --cursor 3"), items.is_none(), "{line}: {part}");
        assert_eq!(asked(&double, path), ["3 -", "1 2"], "{line}");
        assert_eq!(dl.run(&format!("{line} --cursor 3 -o id")).ok(), "item-3\nitem-4\n", "{line}");
        dl.run(&format!("{line} --limit 0")).fails(2);
    }
}

/// A service that names the same next page again is not followed forever.
#[test]
fn r4_a_list_that_repeats_a_page_ends() {
    let repeating = |request: &Request| match request.path() {
        "/v1/apps" => Answer::json(200, &json!([app("ios")])).header("link", "</v1/apps?cursor=2>; rel=next"),
        _ => Answer::json(200, &json!({"affiliates": [affiliate()], "next_cursor": "2"})),
    };
    let double = Double::new(repeating);
    for line in ["affiliates list", "apps list"] {
        let ran = Dl::at(&double.url).run(&format!("{line} -o id"));
        assert!(ran.fails(1).contains("the service returned the same page twice"), "{ran}");
    }
    assert_eq!(double.requests().len(), 4);
}

/// Unverified domains are reported once for the whole list, wherever they are in it.
#[test]
fn r4_what_is_not_verified_is_told_for_all_pages() {
    let double = Double::new(page);
    let ran = Dl::at(&double.url).run("domains list");
    assert!(ran.says("2 domains are not verified"), "{ran}");
}

/// At the limit of affiliates, the error says how to make room, and does not suggest a larger plan.
#[test]
fn r4_where_there_are_too_many_one_can_be_deleted() {
    let full = Double::new(|_| {
        let message = "the limit is 1000 affiliates, and this account has 1000; delete one first";
        Answer::error(402, "quota_exceeded", message)
    });
    let ran = Dl::at(&full.url).run("affiliates create --name Partner --partner-key partner");
    assert!(
        ran.fails(7).contains("delete one with dl affiliates delete") && ran.says("this account has 1000"),
        "{ran}"
    );
    assert!(!ran.stderr.contains("upgrade"), "{ran}");
}

/// On a terminal, each change is in words; programs get the service's.
#[test]
fn a_history_says_what_changed() {
    let double = Double::new(|request| match request.path() {
        "/v1/links/spring-42" => Answer::json(200, &link("spring-42")),
        _ => history(),
    });
    let dl = || Dl::at(&double.url).env("TERM", "xterm").env("NO_COLOR", "1");
    let text = Screen::sized(dl(), "links history spring-42", 120).end().1;
    let lines: Vec<&str> = text.lines().collect();
    let head: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(head, ["VERSION", "CHANGE", "TIME", "ACTOR", "PREVIOUS", "DESTINATION"], "{text}");
    assert!(lines[1].contains("3  Web page, agent context, metadata changed  "), "{text}");
    assert!(lines[1].contains("  dl_live_0123abcd  https://example.com/winter"), "{text}");
    assert_eq!(double.lines(), ["GET /v1/links/spring-42/history", "GET /v1/links/spring-42"]);
    let piped = dl().run("links history spring-42");
    assert!(piped.ok().starts_with("3\tupdated\t"), "{piped}");
}
