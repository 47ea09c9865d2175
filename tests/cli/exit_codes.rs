//! One exit code for each kind of outcome.

use std::time::Duration;

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link, many_links, with_links};

/// The exit code for each HTTP status, with the error code that usually comes with it.
const STATUSES: &[(u16, &str, i32)] = &[
    (400, "bad_request", 3),
    (401, "invalid_key", 4),
    (402, "quota_exceeded", 7),
    (403, "forbidden_scope", 4),
    (403, "account_suspended", 4),
    (404, "not_found", 5),
    (405, "method_not_allowed", 1),
    (409, "link_id_taken", 6),
    (413, "payload_too_large", 3),
    (415, "unsupported_media_type", 3),
    (429, "rate_limited", 8),
    (500, "internal", 9),
    (502, "made_later", 9),
    (503, "database_unavailable", 9),
    (503, "sessions_not_configured", 9),
    (504, "made_later", 9),
];

#[test]
fn each_status_has_its_code() {
    for &(status, code, exit) in STATUSES {
        let double = Double::new(move |_| Answer::error(status, code, "no"));
        let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
        for line in [
            "links get spring-42",
            "links create https://example.com",
            "links qr spring-42",
            "links qr spring-42 --show",
            "api GET /v1/links",
            "whoami",
        ] {
            let ran = dl.run(line);
            assert_eq!(ran.code, Some(exit), "{status} {line}: {ran}");
            assert!(ran.stderr.starts_with(&format!("error[{code}]: no")), "{status} {line}: {ran}");
            assert!(
                ran.stderr.contains(&format!("(HTTP {status})")) && ran.stderr.contains("request id: req-1"),
                "{ran}"
            );
        }
    }
}

#[test]
fn a_redirect_is_an_unexpected_failure() {
    let double = Double::new(|_| Answer::new(302, "").header("location", "https://example.com/"));
    let ran = Dl::at(&double.url).run("links get spring-42");
    assert!(ran.fails(1).contains("dl does not follow redirects"), "{ran}");
    assert_eq!(double.requests().len(), 1);
}

#[test]
fn no_usable_answer_is_9() {
    let ran = Dl::at("http://127.0.0.1:1").env("DL_RETRIES", "0").run("ping");
    assert!(ran.fails(9).starts_with("error[cannot_connect]: cannot connect to http://127.0.0.1:"), "{ran}");

    let reset = Double::new(|_| Answer::reset());
    let ran = Dl::at(&reset.url).run("ping --retries 0");
    assert!(ran.fails(9).starts_with("error[connection_broken]:"), "{ran}");

    let slow = Double::new(|_| Answer::new(200, r#"{"status":"ok"}"#).after(Duration::from_secs(20)));
    let ran = Dl::at(&slow.url).run("ping --timeout 300ms");
    assert!(ran.fails(9).starts_with("error[timeout]: no response from http://127.0.0.1:"), "{ran}");
}

#[test]
fn an_answer_that_cannot_be_read_is_1() {
    let double = Double::new(|_| Answer::new(200, "<html>").header("content-type", "text/html"));
    assert!(Dl::at(&double.url).run("links get spring-42").fails(1).starts_with("error[unexpected_answer]:"));
}

#[test]
fn several_ids_that_end_alike_keep_their_code() {
    let double = with_links(2);
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("links get link-0000 link-0001").code, Some(0));
    assert!(dl.run("links get nope-1 nope-2").fails(5).ends_with("error: 2 of 2 failed\n"));
}

/// A line for each ID is enough: what they have in common is said once, and the request IDs with -v.
#[test]
fn several_ids_that_fail_have_a_line_each() {
    let refused: Vec<_> = (0..3)
        .map(|at| serde_json::json!({"index": at, "code": "not_found", "message": "no link with this ID"}))
        .collect();
    let double = Double::new(move |_| {
        Answer::json(
            400,
            &serde_json::json!({"error": "3 rows are invalid", "code": "invalid_batch", "errors": refused}),
        )
    });
    let ran = Dl::at(&double.url).run_with("links delete - --yes", "nope-1\nnope-2\nnope-3\n");
    let lines: Vec<&str> = ran.fails(5).lines().collect();
    assert_eq!(lines.len(), 5, "{ran}");
    assert!(
        lines[0].starts_with("error[not_found]: nope-1: ") && lines[1].starts_with("  hint: dl links list"),
        "{ran}"
    );
    assert!(lines[2].starts_with("error[not_found]: nope-2: ") && lines[3].contains("nope-3: "), "{ran}");
    assert_eq!(lines[4], "error: 3 of 3 failed");
}

#[test]
fn several_ids_that_end_differently_are_10_and_all_are_tried() {
    let double = with_links(2);
    let ran = Dl::at(&double.url).run("links get nope link-0000 link-0001 -o id");
    assert_eq!(ran.fails(10).lines().last(), Some("error: 1 of 3 failed"), "{ran}");
    assert_eq!(ran.stdout, "link-0000\nlink-0001\n");
    assert_eq!(double.requests().len(), 3);

    let double = Double::new(|request| match request.path() {
        "/v1/links/a-1" => Answer::error(404, "not_found", "no"),
        _ => Answer::error(403, "forbidden_scope", "no"),
    });
    assert_eq!(Dl::at(&double.url).run("links get a-1 b-1").code, Some(10));
}

#[test]
fn deleting_several_deletes_all_that_exist() {
    let double = Double::new(|request| many_links(request, &["gone"]).expect("a request for many links"));
    let ran = Dl::at(&double.url).run("links delete spring-1 gone spring-2 --yes -o jsonl");
    assert_eq!(ran.code, Some(10));
    assert_eq!(ran.stdout, "{\"id\":\"spring-1\",\"deleted\":true}\n{\"id\":\"spring-2\",\"deleted\":true}\n");
    assert_eq!(ran.error()["items"][0]["id"], "gone");
    assert_eq!(ran.error()["items"][0]["code"], "not_found");
    assert_eq!(double.requests().len(), 2);
}

#[test]
fn retries_are_counted_and_429_waits_as_asked() {
    let double = Double::new(|_| Answer::error(429, "rate_limited", "slow down").header("retry-after", "1"));
    let start = std::time::Instant::now();
    assert!(Dl::at(&double.url).run("links get spring-42 --retries 1").fails(8).contains("try again in 1 s"));
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(double.requests().len(), 2);

    let double = Double::new(|_| Answer::error(503, "database_unavailable", "no").header("retry-after", "0"));
    Dl::at(&double.url).run("links get spring-42").fails(9);
    assert_eq!(double.requests().len(), 3, "2 further attempts unless said otherwise");
}

#[test]
fn an_empty_list_is_success() {
    let ran = Dl::at(&with_links(0).url).run("links list");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert!(ran.stderr.contains("no links; dl links create URL"), "{ran}");
    let ran = Dl::at(&with_links(0).url).run("links list --q nothing");
    assert!(ran.code == Some(0) && ran.stderr.contains("no links match"), "{ran}");
}

#[test]
fn wrong_input_is_3_and_nothing_is_sent() {
    let double = Double::new(|_| Answer::json(201, &link("x")));
    let dl = Dl::at(&double.url);
    for (line, code) in [
        ("links create ftp://example.com", "invalid_url"),
        ("links create https://10.0.0.1", "invalid_url"),
        ("links create https://example.com --id ab", "invalid_custom_id"),
        ("links create https://example.com --id signin", "invalid_custom_id"),
        ("links create --ios javascript:1", "invalid_url"),
        ("links create --meta-json '[1]'", "invalid_metadata"),
        ("links create --meta-json '{'", "invalid_metadata"),
        ("links create --meta a=1 --meta a=2", "bad_request"),
        ("links create --action purchse", "invalid_agent_context"),
        ("links create --title ' '", "invalid_social_preview"),
        ("links create --affiliate aff_1", "affiliate_not_found"),
        ("links update spring-42 --web example.com", "invalid_url"),
        ("links timeseries spring-42 --from 500d", "bad_request"),
        ("signup --email you", "invalid_email"),
        ("apps add ios --bundle-id app --team-id ABCDE12345", "invalid_bundle_id"),
        ("apps add ios --bundle-id com.example.app --team-id abcde12345", "invalid_team_id"),
        ("apps add ios --bundle-id ' ' --team-id ABCDE12345", "missing_fields"),
        ("apps add ios --bundle-id a.b --team-id ABCDE12345 --theme blue", "invalid_theme_color"),
        ("apps add ios --bundle-id a.b --team-id ABCDE12345 --icon http://10.0.0.1/i.png", "invalid_icon_url"),
        ("apps add android --package app --sha256 00", "invalid_fingerprint"),
        ("domains add https://go.example.com", "invalid_domain"),
        ("doctor --host https://go.example.com", "invalid_domain"),
    ] {
        let ran = dl.run(line);
        assert!(ran.fails(3).starts_with(&format!("error[{code}]: ")), "{line}: {ran}");
    }
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}

#[test]
fn wrong_usage_is_2_and_nothing_is_sent() {
    let double = Double::new(|_| Answer::json(200, &link("x")));
    let dl = Dl::at(&double.url);
    for line in [
        "",
        "nothing",
        "links",
        "links create --nothing",
        "links list --limit 0",
        "links list --limit ten",
        "links create https://example.com --web https://example.com",
        "links update spring-42",
        "links get",
        "links update spring-42 --web https://example.com --unset web",
        "links list --all --limit 5",
        "links create https://example.com --if-not-exists",
        "links create --meta a",
        "links list -o xml",
        "links list --timeout 5",
        "links delete spring-1 spring-2",
        "links list --base-url ftp://example.com",
        "links list --base-url http://example.com",
        "links list --base-url https://me@example.com",
        "links list -q -v",
        "links bulk --template t.json",
        "links import missing.csv",
        "login",
        "api GET //example.com",
        "api GET https://example.com/",
        "api 'G T' /v1/links",
        "profile use nowhere",
        "config set output xml",
        "config set base_url example.com",
        "links create --from-file missing.json",
        "--api-key-file missing.txt links list",
        "links list --fields link_id,nothing",
        "help nothing",
        "apps add",
        "apps add ios --bundle-id com.example.app",
        "apps add android --package com.example.app",
        "apps delete app_0123456789abcdef01234567",
        "domains delete go.example.com",
        "domains add go.example.com --role owner",
        "domains verify go.example.com --wait 5",
        "wellknown",
        "wellknown google",
        "doctor --connect-to go.example.com",
        "doctor --apple-cdn ftp://example.com",
        "doctor --root-certificate missing.pem",
    ] {
        assert_eq!(dl.run(line).code, Some(2), "{line}: {}", dl.run(line));
    }
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}
