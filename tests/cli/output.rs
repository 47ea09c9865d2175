//! The output formats. All but the table are stable.

use crate::screen::Screen;
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link, with_links};

#[test]
fn a_list_off_a_terminal_is_tab_separated_and_whole() {
    insta::assert_snapshot!(Dl::at(&with_links(2).url).run("links list").ok().replace('\t', "<TAB>"), @r"
    link-0000<TAB>https://go.example.com/link-0000<TAB>https://example.com/p/link-0000<TAB>active<TAB>2026-11-20T09:30:00.000Z
    link-0001<TAB>https://go.example.com/link-0001<TAB>https://example.com/p/link-0001<TAB>active<TAB>2026-11-20T09:30:00.000Z
    ");
}

/// RFC 4180 ends lines with CR LF. On a terminal they end with LF, in tables as in exports: control characters are shown as
/// escapes there, and a CR before each line break would be one.
#[test]
fn csv_on_a_terminal_has_no_escaped_line_ends() {
    let (links, reports) = (with_links(2), crate::reports::service());
    for (double, line, row) in [
        (&links, "links list -o csv", "\nlink-0001,"),
        (&links, "links export", "\nlink-0001,"),
        (&reports, "stats spring-42 --group-by day -o csv", "\n2026-11-20,120,31,12,2,1,9,3,2,1\n"),
    ] {
        let (code, text) = Screen::open(Dl::at(&double.url), line).end();
        assert!(code == Some(0) && text.contains(row), "{line}: {text:?}");
        assert!(!text.contains("\\u{d}") && !text.contains('\r'), "{line}: {text:?}");
    }
    assert!(Dl::at(&links.url).run("links export").ok().ends_with("\r\n"), "elsewhere it is as in the RFC");
}

#[test]
fn a_list_as_json_is_one_envelope() {
    let dl = Dl::at(&with_links(2).url);
    insta::assert_snapshot!(dl.run("links list -o json").ok(), @r#"{"links":[{"affiliate_id":null,"agent_context":{"action":"purchase","cta":"Buy now","description":null},"aliases":[],"android_deep_link":null,"android_store_url":null,"created_at":"2026-11-20T09:30:00.000Z","enabled":true,"expired_url":null,"expires_at":null,"imported_clicks":null,"ios_deep_link":null,"ios_store_url":null,"link_id":"link-0000","metadata":{"season":"spring"},"name":null,"owner_expires_at":null,"qr":null,"social_preview":null,"status":"active","tags":[],"updated_at":"2026-11-20T09:30:00.000Z","url":"https://go.example.com/link-0000","web_url":"https://example.com/p/link-0000"},{"affiliate_id":null,"agent_context":{"action":"purchase","cta":"Buy now","description":null},"aliases":[],"android_deep_link":null,"android_store_url":null,"created_at":"2026-11-20T09:30:00.000Z","enabled":true,"expired_url":null,"expires_at":null,"imported_clicks":null,"ios_deep_link":null,"ios_store_url":null,"link_id":"link-0001","metadata":{"season":"spring"},"name":null,"owner_expires_at":null,"qr":null,"social_preview":null,"status":"active","tags":[],"updated_at":"2026-11-20T09:30:00.000Z","url":"https://go.example.com/link-0001","web_url":"https://example.com/p/link-0001"}],"next_cursor":null}"#);
    assert_eq!(dl.run("links list -o json").json()["links"][1], link("link-0001"));
}

#[test]
fn pages_become_one_envelope_with_the_cursor_last() {
    let double = with_links(250);
    let dl = Dl::at(&double.url);
    let all = dl.run("links list --all -o json").json();
    assert_eq!((all["links"].as_array().map(Vec::len), &all["next_cursor"]), (Some(250), &serde_json::Value::Null));
    assert_eq!(double.requests().len(), 3);
    let some = dl.run("links list --limit 120 -o json");
    assert!(some.ok().ends_with("],\"next_cursor\":\"at-120\"}\n"), "{some}");
    assert_eq!(some.json()["links"].as_array().map(Vec::len), Some(120));
    let rest = dl.run("links list --cursor at-120 --all -o id");
    assert_eq!(rest.ok().lines().next(), Some("link-0120"));
    assert_eq!(rest.ok().lines().count(), 130);
}

#[test]
fn an_empty_list_has_every_form() {
    let dl = Dl::at(&with_links(0).url);
    assert_eq!(dl.run("links list -o json").ok(), "{\"links\":[],\"next_cursor\":null}\n");
    assert_eq!(dl.run("links list -o jsonl").ok(), "");
    assert_eq!(dl.run("links list -o id").ok(), "");
    assert_eq!(dl.run("links list -o csv --fields link_id,url").ok(), "link_id,url\r\n");
}

#[test]
fn jsonl_is_one_record_a_line() {
    insta::assert_snapshot!(Dl::at(&with_links(2).url).run("links list -o jsonl --fields link_id,metadata").ok(), @r#"
    {"link_id":"link-0000","metadata":{"season":"spring"}}
    {"link_id":"link-0001","metadata":{"season":"spring"}}
    "#);
}

#[test]
fn csv_has_a_header_and_the_parts_of_nested_objects() {
    insta::assert_snapshot!(Dl::at(&with_links(1).url).run("links list -o csv").ok().replace("\r\n", "<CRLF>\n"), @r#"
    link_id,url,ios_deep_link,ios_store_url,android_deep_link,android_store_url,web_url,metadata,agent.action,agent.cta,agent.description,social.title,social.description,social.image_url,affiliate_id,status,expires_at,created_at,updated_at,name,enabled,owner_expires_at,expired_url,tags,aliases,qr,imported_clicks<CRLF>
    link-0000,https://go.example.com/link-0000,,,,,https://example.com/p/link-0000,"{""season"":""spring""}",purchase,Buy now,,,,,,active,,2026-11-20T09:30:00.000Z,2026-11-20T09:30:00.000Z,,true,,,,,,<CRLF>
    "#);
}

#[test]
fn one_record_off_a_terminal_is_a_field_a_line() {
    insta::assert_snapshot!(Dl::at(&with_links(1).url).run("links get link-0000").ok().replace('\t', "<TAB>"), @r#"
    link_id<TAB>link-0000
    url<TAB>https://go.example.com/link-0000
    ios_deep_link<TAB>
    ios_store_url<TAB>
    android_deep_link<TAB>
    android_store_url<TAB>
    web_url<TAB>https://example.com/p/link-0000
    metadata<TAB>{"season":"spring"}
    agent.action<TAB>purchase
    agent.cta<TAB>Buy now
    agent.description<TAB>
    social.title<TAB>
    social.description<TAB>
    social.image_url<TAB>
    affiliate_id<TAB>
    status<TAB>active
    expires_at<TAB>
    created_at<TAB>2026-11-20T09:30:00.000Z
    updated_at<TAB>2026-11-20T09:30:00.000Z
    name<TAB>
    enabled<TAB>true
    owner_expires_at<TAB>
    expired_url<TAB>
    tags<TAB>
    aliases<TAB>
    qr<TAB>
    imported_clicks<TAB>
    "#);
}

#[test]
fn several_ids_as_json_are_an_array() {
    let dl = Dl::at(&with_links(2).url);
    let two = dl.run("links get link-0000 link-0001 -o json").json();
    assert_eq!(two, serde_json::json!([link("link-0000"), link("link-0001")]));
    let piped = dl.run_with("links get - -o json", "link-0001\n\n link-0000 \r\n").json();
    assert_eq!(piped, serde_json::json!([link("link-0001"), link("link-0000")]));
    assert_eq!(dl.run("links get link-0000 -o json").json(), link("link-0000"));
}

#[test]
fn fields_choose_and_order() {
    let dl = Dl::at(&with_links(1).url);
    assert_eq!(
        dl.run("links list --fields url,link_id,agent.cta").ok(),
        "https://go.example.com/link-0000\tlink-0000\tBuy now\n"
    );
    assert_eq!(dl.run("links list --fields status,link_id -o csv").ok(), "status,link_id\r\nactive,link-0000\r\n");
    assert_eq!(
        dl.run("links get link-0000 --fields agent_context,link_id -o json").ok(),
        "{\"agent_context\":{\"action\":\"purchase\",\"cta\":\"Buy now\",\"description\":null},\"link_id\":\"link-0000\"}\n"
    );
    let ran = dl.run("links list --fields link_id,nothing");
    assert!(
        ran.fails(2).contains("unknown field \"nothing\"")
            && ran.stderr.contains("hint: available fields: link_id, url, "),
        "{ran}"
    );
}

/// Fields may be separated by blanks, named twice, or named as the API names them.
#[test]
fn fields_are_found_by_every_name() {
    let body = r#"{"link_id":"one","url":"https://go.example.com/one","social_preview":{"title":"T"},"metadata":{"season":"spring"},"status":"active","enabled":true,"created_at":"2026-11-20T09:30:00.000Z","updated_at":"2026-11-20T09:30:00.000Z"}"#;
    let double = Double::new(move |_| Answer::new(200, body));
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("links get one --fields 'link_id, status'").ok(), "one\tactive\n");
    assert_eq!(
        dl.run("links get one --json link_id,link_id,status").ok(),
        "{\"link_id\":\"one\",\"status\":\"active\"}\n"
    );
    assert_eq!(
        dl.run("links get one --json social_preview.title,social.title,metadata.season,metadata.none").ok(),
        "{\"social_preview.title\":\"T\",\"metadata.season\":\"spring\",\"metadata.none\":null}\n"
    );
    assert_eq!(dl.run("links get one --json social.title").ok(), "{\"social.title\":\"T\"}\n");
    assert_eq!(
        dl.run("links get one -o csv --fields social_preview.title,metadata.season").ok(),
        "social_preview.title,metadata.season\r\nT,spring\r\n"
    );
    for line in ["--fields metadata.", "--json nothing", "--fields 'link_id,,url'"] {
        let ran = dl.run(&format!("links get one {line}"));
        assert!(ran.fails(2).contains("unknown field") && ran.stderr.contains("metadata.KEY"), "{ran}");
    }
}

/// JSON is the service's answer: unknown fields, the digits of numbers and the order of keys are kept.
#[test]
fn json_is_the_body_of_the_service() {
    let body = r#"{"link_id":"spring-42","url":"https://go.example.com/spring-42","later":{"b":1e400,"a":1.50},"metadata":{"z":1e400,"a":-0},"status":"resting","created_at":"2026-11-20T09:30:00.000Z","updated_at":"2026-11-20T09:30:00.000Z"}"#;
    let double = Double::new(move |_| Answer::new(200, body));
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("links get spring-42 -o json").ok().trim_end(), body);
    assert_eq!(dl.run("links get spring-42 -o jsonl").ok().trim_end(), body);
    assert!(dl.run("links get spring-42 -o csv").ok().contains("\"{\"\"z\"\":1e400,\"\"a\"\":-0}\""));
    assert!(dl.run("links get spring-42").ok().contains("status\tresting\n"));
}

#[test]
fn a_create_prints_one_line() {
    let double = Double::new(|_| {
        Answer::new(
            201,
            r#"{"link_id":"AB12CD34","url":"https://go.example.com/AB12CD34","expires_at":"2099-01-01T00:00:00.000Z"}"#,
        )
    });
    let dl = Dl::at(&double.url);
    let ran = dl.run("links create https://example.com");
    assert_eq!(ran.ok(), "https://go.example.com/AB12CD34\n");
    assert!(ran.stderr.starts_with("note: the link expires 2099-01-01 (2099-01-01T00:00:00.000Z)"), "{ran}");
    assert_eq!(dl.run("links create https://example.com -o id").ok(), "AB12CD34\n");
    assert_eq!(
        dl.run("links create https://example.com -o csv").ok(),
        "link_id,url,expires_at\r\nAB12CD34,https://go.example.com/AB12CD34,2099-01-01T00:00:00.000Z\r\n"
    );
    assert_eq!(dl.run("links create https://example.com -o json").json()["link_id"], "AB12CD34");
}

#[test]
fn a_delete_prints_what_is_gone() {
    let dl = Dl::at(&with_links(0).url);
    assert_eq!(dl.run("links delete spring-42").ok(), "spring-42\n");
    assert_eq!(dl.run("links delete spring-42 -o json").ok(), "{\"id\":\"spring-42\",\"deleted\":true}\n");
    assert_eq!(
        dl.run("links delete spring-1 spring-2 --yes -o json").ok(),
        "[{\"id\":\"spring-1\",\"deleted\":true},{\"id\":\"spring-2\",\"deleted\":true}]\n"
    );
}

/// Without a terminal a value is unchanged, but a tab or line break inside it cannot break the line.
#[test]
fn tab_separated_lines_stay_lines() {
    let double = Double::new(|_| {
        let mut link = link("spring-42");
        link["agent_context"]["description"] = "one\ntwo\tthree".into();
        Answer::json(200, &link)
    });
    let dl = Dl::at(&double.url);
    assert!(dl.run("links get spring-42").ok().contains("agent.description\tone\\ntwo\\tthree\n"));
    assert!(dl.run("links get spring-42 -o csv").ok().contains("\"one\ntwo\tthree\""));
}

#[test]
fn json_escapes_what_json_lets_through() {
    let double = Double::new(|_| {
        let mut link = link("spring-42");
        link["agent_context"]["cta"] = "a\u{7f}b\u{9b}c".into();
        Answer::json(200, &link)
    });
    assert!(Dl::at(&double.url).run("links get spring-42 -o json").ok().contains(r#""a\u007fb\u009bc""#));
}

#[test]
fn a_list_that_repeats_a_page_ends() {
    let double =
        Double::new(|_| Answer::json(200, &serde_json::json!({"links": [link("spring-42")], "next_cursor": "again"})));
    let ran = Dl::at(&double.url).run("links list --all -o id");
    assert!(ran.fails(1).contains("the service returned the same page twice"), "{ran}");
    assert_eq!(double.requests().len(), 2);
}
