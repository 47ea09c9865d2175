//! What `dl` makes of JSON: YAML, the results of a jq program, and rendered templates.

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, with_links};

/// A service with one link, which has values that are easily changed on their way.
fn one() -> Double {
    let body = r#"{"link_id":"spring-42","url":"https://go.example.com/spring-42","web_url":null,"metadata":{"on":"yes","n":1e400,"at":"2026-11-20"},"tags":["a b","Größe"],"aliases":[],"status":"active","enabled":true,"created_at":"2026-11-20T09:30:00.000Z","updated_at":"2026-11-20T09:30:00.000Z"}"#;
    Double::new(move |_| Answer::new(200, body))
}

#[test]
fn yaml_has_the_values_of_the_json() {
    let dl = Dl::at(&one().url);
    insta::assert_snapshot!(dl.run("links get spring-42 -o yaml").ok(), @r#"
    link_id: spring-42
    url: https://go.example.com/spring-42
    web_url: null
    metadata:
      "on": "yes"
      "n": 1.0e+400
      at: "2026-11-20"
    tags:
      - a b
      - "Größe"
    aliases: []
    status: active
    enabled: true
    created_at: "2026-11-20T09:30:00.000Z"
    updated_at: "2026-11-20T09:30:00.000Z"
    "#);
    assert_eq!(dl.run("links get spring-42 -o yaml --fields tags").ok(), "tags:\n  - a b\n  - \"Größe\"\n");
}

#[test]
fn a_list_as_yaml_is_one_document() {
    let dl = Dl::at(&with_links(150).url);
    let all = dl.run("links list --all -o yaml --fields link_id,url");
    assert!(all.ok().starts_with("links:\n  - link_id: link-0000\n    url: https://go.example.com/link-0000\n  - "));
    assert!(all.ok().ends_with("/link-0149\nnext_cursor: null\n"), "{all}");
    assert_eq!(all.ok().matches("- link_id: ").count(), 150);
    assert!(dl.run("links list -o yaml").ok().ends_with("next_cursor: at-50\n"));
    assert!(dl.run("api GET /v1/links -o yaml").ok().ends_with("next_cursor: at-50\n"));
    let none = Dl::at(&with_links(0).url);
    assert_eq!(none.run("links list -o yaml").ok(), "links: []\nnext_cursor: null\n");
    let two = dl.run("links get link-0000 link-0001 -o yaml --fields link_id");
    assert_eq!(two.ok(), "- link_id: link-0000\n- link_id: link-0001\n");
    let held = dl.run("links create https://example.com -n -o yaml");
    assert!(held.ok().starts_with("method: POST\npath: /v1/links\nbody:\n  web_url: https://example.com\n"), "{held}");
}

/// Errors stay readable for programs: a line of JSON is YAML.
#[test]
fn an_error_under_yaml_is_json() {
    let ran = Dl::at("http://127.0.0.1:1").run("links get ? -o yaml");
    ran.fails(3);
    assert_eq!(ran.error()["code"], "invalid_id");
}

#[test]
fn jq_gets_each_record_and_prints_strings_raw() {
    let dl = Dl::at(&with_links(120).url);
    let urls = dl.run("links list --all --jq .url");
    assert_eq!(urls.ok().lines().count(), 120);
    assert!(urls.ok().starts_with("https://go.example.com/link-0000\nhttps://go.example.com/link-0001\n"), "{urls}");
    let picked = dl.run("links list --jq 'select(.link_id == \"link-0007\") | {link_id, tags}'");
    assert_eq!(picked.ok(), "{\"link_id\":\"link-0007\",\"tags\":[]}\n");
    assert_eq!(dl.run("links list --all --jq empty").ok(), "");
    let rows = dl.run(r#"links list --limit 1 --jq '[.link_id, "a\t\"\\", null, 7, true] | @tsv, @csv'"#);
    assert_eq!(rows.ok(), "link-0000\ta\\t\"\\\\\t\t7\ttrue\n\"link-0000\",\"a\t\"\"\\\",,7,true\n");
    let nested = dl.run("links list --jq '[{}] | @csv'");
    assert!(nested.fails(1).contains("{} is not valid in a CSV or TSV row"), "{nested}");
    let one = Dl::at(&one().url);
    assert_eq!(one.run("links get spring-42 --jq '.metadata.n, .tags[]'").ok(), "1e400\na b\nGröße\n");
}

/// With `-o json` or `--json`, the program gets the whole document, as with `gh`.
#[test]
fn jq_gets_whole_responses_on_request() {
    let dl = Dl::at(&with_links(120).url);
    assert_eq!(dl.run("links list --all -o json --jq '.links | length'").ok(), "120\n");
    let picked = dl.run("links list --limit 2 --json link_id --jq '.links, .next_cursor'");
    assert_eq!(picked.ok(), "[{\"link_id\":\"link-0000\"},{\"link_id\":\"link-0001\"}]\nat-2\n");
    assert_eq!(dl.run("links get link-0000 link-0001 -o json --jq '.[].link_id'").ok(), "link-0000\nlink-0001\n");
    // The format of the environment is not this command's.
    let dl = dl.env("DL_OUTPUT", "csv");
    assert_eq!(dl.run("links list --limit 1 --jq .link_id").ok(), "link-0000\n");
}

#[test]
fn a_template_gets_each_record() {
    let dl = Dl::at(&with_links(2).url);
    let lines = dl.run("links list --render '{{ link_id }} <{{ url }}> {{ name }}{{ tags | length }}'");
    let wanted = "link-0000 <https://go.example.com/link-0000> 0\nlink-0001 <https://go.example.com/link-0001> 0\n";
    assert_eq!(lines.ok(), wanted);
    let whole = dl.run("links list -o json --render '{% for link in links %}{{ link.link_id }},{% endfor %}'");
    assert_eq!(whole.ok(), "link-0000,link-0001,\n");
}

#[test]
fn the_body_of_a_raw_request_goes_through_a_program() {
    let dl = Dl::at(&with_links(120).url);
    assert_eq!(dl.run("api GET /v1/links --jq '.links[0].link_id'").ok(), "link-0000\n");
    assert_eq!(dl.run("api GET /v1/links --paginate --jq .link_id").ok().lines().count(), 120);
    assert_eq!(dl.run("api GET /v1/links --paginate -o json --jq '.links | length'").ok(), "120\n");
    assert!(dl.run("api GET /v1/links --paginate -o yaml").ok().ends_with("\nnext_cursor: null\n"));
    let refused = Double::new(|_| Answer::error(404, "not_found", "no link with id nope"));
    let ran = Dl::at(&refused.url).run("api GET /v1/links/nope --jq .link_id");
    assert!(ran.fails(5).contains("not_found") && ran.stdout.contains("\"code\":\"not_found\""), "{ran}");
}

#[test]
fn json_takes_fields() {
    let dl = Dl::at(&with_links(1).url);
    let short = dl.run("links list --json url,link_id");
    assert_eq!(short.ok(), dl.run("links list -o json --fields url,link_id").ok());
    assert_eq!(dl.run("links get link-0000 --json status").ok(), "{\"status\":\"active\"}\n");
    let ran = dl.run("links list --json nothing");
    assert!(ran.fails(2).contains("available fields: link_id, url, "), "{ran}");
}

/// What is wrong with a command line is said before anything is sent, with the place.
#[test]
fn wrong_programs_and_flags_that_clash_send_nothing() {
    let double = with_links(1);
    let dl = Dl::at(&double.url);
    for (line, says) in [
        ("links list --jq '.url |'", "--jq: expected term at the end of \".url |\""),
        ("links list --jq '.url | nothing'", "--jq: nothing/0 is not defined at column 8 of"),
        ("links create https://example.com --jq '.['", "--jq: expected closing bracket at the end of"),
        ("links list --render '{{ url'", "--render: syntax error: "),
        ("links list --render '{{ url | nothing }}'", "--render: unknown filter: "),
        ("links list --jq . --render x", "--jq and --render cannot be used together"),
        ("links list --jq . -o csv", "--jq and -o csv cannot be used together"),
        ("links list --jq . -o id", "--jq and -o id cannot be used together"),
        ("links list --render x -o yaml", "--render and -o yaml cannot be used together"),
        ("links list --json url -o csv", "--json and -o csv cannot be used together"),
        ("links list --json url --fields url", "--json and --fields cannot be used together"),
        ("links export --json url", "exports are CSV or JSONL"),
        ("links export --jq .url", "--jq and --render do not apply to exports"),
        ("account export --jq .url", "--jq and --render do not apply to exports"),
    ] {
        let ran = dl.run(line);
        assert!(ran.fails(2).contains(says) && ran.stderr.contains("hint"), "{line}: {ran}");
    }
    assert!(double.requests().is_empty());
    // What is wrong with a record is known only then.
    for line in ["links list --jq .url.host", "links list --render '{{ nothing }}'"] {
        let ran = dl.run(line);
        assert!(ran.fails(1).starts_with("error: --"), "{line}: {ran}");
    }
}

/// A program must not print the environment, which may hold a key.
#[test]
fn a_program_does_not_see_the_environment() {
    let ran = Dl::at(&with_links(1).url).run("links list --jq env");
    assert_eq!(ran.ok(), "null\n");
}
