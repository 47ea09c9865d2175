//! `dl api`: any request.

use serde_json::json;

use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{Answer, Double, with_links};

#[test]
fn fields_make_a_body_and_posts_are_keyed() {
    let double = Double::new(|_| Answer::new(201, r#"{"link_id":"x"}"#));
    let dl = Dl::at(&double.url);
    dl.file("agent.json", r#"{"cta": "Buy"}"#);
    let ran = dl.run("api post /v1/links -f web_url=https://example.com/?a=b -F 'metadata={\"n\": 1e400}' -F agent_context=@agent.json -H 'X-Trace: on'");
    assert_eq!(ran.ok(), r#"{"link_id":"x"}"#);
    let request = double.only();
    assert_eq!(
        request.body,
        r#"{"web_url":"https://example.com/?a=b","metadata":{"n": 1e400},"agent_context":{"cta": "Buy"}}"#
    );
    assert_eq!((request.header("content-type"), request.header("x-trace")), (Some("application/json"), Some("on")));
    assert!(request.header("idempotency-key").is_some());
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
}

#[test]
fn a_body_can_be_a_file_or_stdin() {
    let double = Double::new(|_| Answer::new(200, "{}"));
    let dl = Dl::at(&double.url);
    dl.file("body.json", "{\"a\": 1}\n");
    dl.run("api PUT /v1/links/x --input body.json").ok();
    dl.run_with("api PUT /v1/links/x --input -", "{\"a\":2}").ok();
    let bodies: Vec<String> = double.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, ["{\"a\": 1}\n", "{\"a\":2}"]);
}

#[test]
fn an_answer_that_is_no_success_is_printed_and_decides() {
    let double = Double::new(|_| Answer::error(409, "link_id_taken", "taken"));
    let ran = Dl::at(&double.url).run("api GET /v1/links");
    assert!(ran.fails(6).starts_with("error[link_id_taken]: taken (HTTP 409)"), "{ran}");
    assert!(ran.stdout.starts_with('{') && ran.stdout.contains("\"code\":\"link_id_taken\""), "{ran}");
}

#[test]
fn include_shows_status_and_headers() {
    let double = Double::new(|_| Answer::new(200, "{}").header("x-later", "yes"));
    let ran = Dl::at(&double.url).run("api GET /v1/links -i");
    assert!(
        ran.ok().starts_with("HTTP 200 OK\n")
            && ran.stdout.contains("x-later: yes\n")
            && ran.stdout.ends_with("\n\n{}"),
        "{ran}"
    );
}

#[test]
fn the_key_is_the_one_the_path_calls_for() {
    let double = Double::new(|_| Answer::new(200, "{}"));
    let dl = Dl::at(&double.url).env("DL_PUBLISHABLE_KEY", "pk_live_0123");
    let sent = |line: &str| {
        dl.run(line).ok();
        double.requests().last().expect("a request").header("authorization").map(str::to_owned)
    };
    assert_eq!(sent("api GET /openapi.json"), None);
    assert_eq!(sent("api GET /r/spring-42"), None);
    assert_eq!(sent("api GET /v1/later").as_deref(), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(sent("api GET /v1/links --auth none"), None);
    assert_eq!(sent("api GET /health --auth sk").as_deref(), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(sent("api POST /v1/later --auth pk").as_deref(), Some("Bearer pk_live_0123"));
    assert!(Dl::at(&double.url).run("api GET /v1/later --auth pk").fails(4).contains("DL_PUBLISHABLE_KEY"));
    assert_eq!(Dl::at(&double.url).env("DL_PUBLISHABLE_KEY", KEY).run("api GET /x --auth pk").code, Some(3));
}

#[test]
fn what_is_not_there_is_listed_by_its_own_command() {
    let double = Double::new(|_| Answer::error(404, "not_found", "there is no such app"));
    let dl = Dl::at(&double.url);
    assert!(dl.run("api DELETE /v1/apps/zzz").fails(5).contains("hint: dl apps list shows"));
    assert!(dl.run("api GET /v1/nothing").fails(5).contains("hint: dl api GET /openapi.json lists"));
}

#[test]
fn pages_are_joined() {
    let double = with_links(250);
    let dl = Dl::at(&double.url);
    let all = dl.run("api GET /v1/links --query limit=100 --paginate").json();
    assert_eq!((all["links"].as_array().map(Vec::len), &all["next_cursor"]), (Some(250), &json!(null)));
    assert!(double.requests().iter().all(|request| request.query("limit") == Some("100")));
    assert_eq!(dl.run("api GET /v1/links --paginate -o jsonl").ok().lines().count(), 250);
    dl.run("api DELETE /v1/links --paginate").fails(2);
}

#[test]
fn binary_answers_go_into_a_file() {
    let double = Double::new(|_| Answer::new(200, [0x89, b'P', b'N', b'G', 0xff]).header("content-type", "image/png"));
    let dl = Dl::at(&double.url);
    let output = dl.command("api GET /v1/links/x/qr.png").output().expect("dl runs");
    assert_eq!(output.stdout, [0x89, b'P', b'N', b'G', 0xff]);
}

#[test]
fn what_api_refuses() {
    let double = Double::new(|_| Answer::new(200, "{}"));
    let dl = Dl::at(&double.url);
    for line in [
        "api GET v1/links",
        "api GET //example.com/x",
        "api GET https://example.com/x",
        "api GET /v1/links -f a=b",
        "api POST /v1/links -F a={",
        "api POST /v1/links -f a",
        "api POST /v1/links --query a",
        "api GET /x -H nothing",
        "api GET /x -H 'AUTHORIZATION: Bearer x'",
        "api GET /x -H 'cookie: a=b'",
        "api POST /x -f a=b --input f",
    ] {
        assert_eq!(dl.run(line).code, Some(2), "{line}");
    }
    assert_eq!(dl.run("api GET /v1/../x").code, Some(3));
    assert!(double.requests().is_empty());
}
