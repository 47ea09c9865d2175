//! Error messages.

use std::io::{Read, Write};
use std::net::TcpListener;

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, Nobody, with_links};

fn taken() -> Double {
    Double::new(|_| Answer::error(409, "link_id_taken", "the ID \"spring-42\" is already in use"))
}

#[test]
fn people_read_code_message_hint_and_request_id() {
    let ran = Dl::at(&taken().url).run("links create https://example.com --id spring-42");
    insta::assert_snapshot!(ran, @r#"
    --- stderr
    error[link_id_taken]: the ID "spring-42" is already in use (HTTP 409)
      hint: dl links get spring-42 shows it; choose another --id, or use --if-not-exists
      request id: req-1
    --- exit 6
    "#);
}

/// R12: the error says that the operator suspended the account, and what can be done about it.
#[test]
fn r12_a_suspended_account_is_said_in_words() {
    let double = Double::new(|_| {
        let message =
            "this account is suspended by the operator of this service; you can read its data, but not change anything";
        Answer::error(403, "account_suspended", message)
    });
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("links create https://example.com"), @r#"
    --- stderr
    error[account_suspended]: this account is suspended by the operator of this service; you can read its data, but not change anything (HTTP 403)
      hint: contact the operator of this service, who can resume the account
      request id: req-1
    --- exit 4
    "#);
    assert_eq!(dl.run("links delete spring-42 --yes -o json").error()["code"], "account_suspended");
}

#[test]
fn programs_read_one_json_line() {
    for line in [
        "links create https://example.com --id spring-42 -o json",
        "links create https://example.com --id spring-42 --output=jsonl",
    ] {
        let ran = Dl::at(&taken().url).run(line);
        assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("", 1));
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.stderr, @r#"{"error":{"code":"link_id_taken","message":"the ID \"spring-42\" is already in use (HTTP 409)","status":409,"request_id":"req-1","field":null,"hint":"dl links get spring-42 shows it; choose another --id, or use --if-not-exists","retryable":false}}"#);
        }
    }
}

#[test]
fn rows_of_a_refused_batch_are_items() {
    let double = Double::new(|_| {
        Answer::json(
            400,
            &serde_json::json!({
                "error": "1 row is wrong", "code": "invalid_batch", "request_id": "req-2",
                "errors": [{"index": 1, "code": "link_id_taken", "message": "the id is in use", "custom_id": "spring-2"}],
            }),
        )
    });
    let dl = Dl::at(&double.url);
    dl.file("t.json", r#"{"web_url": "https://example.com"}"#);
    insta::assert_snapshot!(dl.run("links bulk --template t.json --ids spring-1,spring-2"), @r#"
    --- stderr
    error[invalid_batch]: 1 row is wrong (HTTP 400)
      row 1 "spring-2": the id is in use [link_id_taken]
      request id: req-2
    --- exit 3
    "#);
    let error = dl.run("links bulk --template t.json --ids spring-1,spring-2 -o json").error();
    assert_eq!(
        error["items"][0],
        serde_json::json!({"index": 1, "id": "spring-2", "code": "link_id_taken", "message": "the id is in use"})
    );
}

#[test]
fn errors_before_any_request_are_json_too() {
    let dl = Dl::at("http://127.0.0.1:1");
    for (line, code, exit) in [
        ("links create ftp://x -o json", "invalid_url", 3),
        ("links list --nothing -o json", "usage", 2),
        ("links update spring-42 -o json", "usage", 2),
        ("links list --fields nothing -o json", "usage", 2),
        ("ping -o json --retries 0", "cannot_connect", 9),
    ] {
        let ran = dl.run(line);
        assert_eq!((ran.code, ran.error()["code"].as_str()), (Some(exit), Some(code)), "{line}: {ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    }
    let dl = dl.env("DL_OUTPUT", "json").env("DL_NO_INPUT", "maybe");
    assert_eq!(dl.run("ping").error()["code"], "usage");
    let dl = Dl::new().stored("default", "http://127.0.0.1:1", deeplink_testing::dl::KEY);
    dl.run("config set output json").ok();
    assert_eq!(dl.run("links get spring-42 --retries 0").error()["code"], "cannot_connect");
}

#[test]
fn the_field_at_fault_is_named() {
    let error = Dl::at("http://127.0.0.1:1").run("links create --title ' ' -o json").error();
    assert_eq!(
        (error["code"].as_str(), error["field"].as_str()),
        (Some("invalid_social_preview"), Some("social_preview"))
    );
}

#[test]
fn what_may_have_happened_is_said() {
    let double = Double::new(|_| Answer::error(500, "internal", "internal"));
    let error = Dl::at(&double.url).env("DL_RETRIES", "0").run("links create https://example.com -o json").error();
    assert_eq!(error["retryable"], true);
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("may have been applied")), "{error}");
}

#[test]
fn a_proxy_page_keeps_its_status() {
    let double = Double::new(|_| Answer::new(502, "<html><h1>Bad gateway</h1>").header("content-type", "text/html"));
    let ran = Dl::at(&double.url).env("DL_RETRIES", "0").run("links get spring-42");
    assert!(ran.fails(9).contains("(HTTP 502)"), "{ran}");
}

/// Another server's 404: it says nothing about links, and its logs do not have the request.
#[test]
fn a_404_of_another_server_is_not_the_services() {
    let double = Double::new(|_| Answer::new(404, "<h1>Not Found</h1>").header("content-type", "text/html"));
    let dl = Dl::at(&double.url);
    for line in ["links get spring-42", "ping", "tags delete poster --yes", "api GET /v1/links/spring-42"] {
        let ran = dl.run(line);
        assert_eq!(
            ran.fails(5),
            "error: the service returned Not Found (HTTP 404)\n  hint: this does not look like a deeplink service; \
             check --base-url\n",
            "{line}"
        );
    }
}

/// The hint is about what is wrong, and never the command that has just failed.
#[test]
fn a_service_that_cannot_be_reached_gets_the_hint_that_helps() {
    let nobody = Nobody::at_a_port();
    let hint = |dl: &Dl, line: &str| {
        let ran = dl.run(&format!("{line} --retries 0"));
        ran.fails(9).lines().filter_map(|line| line.strip_prefix("  hint: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    for line in ["links list", "ping"] {
        assert_eq!(hint(&Dl::at(&nobody.url), line), ["is the server running?"]);
    }
    // A server that ends every handshake.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let dl = Dl::at(&url);
    let network = "check --base-url and the network";
    assert_eq!(hint(&dl, "links list"), [format!("{network}, then try again, for example with dl ping")]);
    assert_eq!(hint(&dl, "ping"), [network]);
    let dl = Dl::new().env("DL_API_KEY", deeplink_testing::dl::KEY);
    assert_eq!(
        hint(&dl, &format!("links list --base-url {url}")),
        [format!("{network}, then try again, for example with dl ping --base-url {url}")]
    );
}

#[test]
fn https_to_a_port_of_plain_http_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            // What a server of plain HTTP says to a handshake.
            assert!(stream.read(&mut [0; 16_384]).is_ok_and(|read| read > 0));
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").expect("written");
            open.push(stream);
        }
    });
    let ran = Dl::at(&format!("https://127.0.0.1:{port}")).env("DL_RETRIES", "0").run("links list");
    assert!(ran.fails(9).contains("  hint: the server may be using plain HTTP on this port: try http://\n"), "{ran}");
}

#[test]
fn quiet_leaves_errors_and_stdout() {
    let double = with_links(3);
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("links list").stdout, dl.run("links list -q").stdout);
    assert_eq!(dl.run("links list -q --status expired").stderr, "");
    assert_eq!(dl.run("ping -q").stderr.lines().next(), Some("error[not_found]: there is no such link (HTTP 404)"));
}

#[test]
fn a_missing_file_is_named() {
    let dl = Dl::at("http://127.0.0.1:1");
    for line in [
        "links import missing.csv",
        "links create --from-file missing.json",
        "links bulk --template missing.json --count 1",
    ] {
        let ran = dl.run(line);
        assert!(ran.fails(2).contains("missing.") && ran.stderr.contains("no such file or directory"), "{line}: {ran}");
    }
}

#[test]
fn a_file_of_wrong_json_names_line_and_column() {
    let dl = Dl::at("http://127.0.0.1:1");
    dl.file("link.json", "{\n  \"web_url\": 42\n}\n");
    assert!(
        dl.run("links create --from-file link.json")
            .fails(3)
            .starts_with("error[bad_request]: link.json:2:15: invalid type")
    );
}

/// Many tools have `--json` without fields, and `--template`: the error names what `dl` has.
#[test]
fn flags_of_other_tools_are_explained() {
    for line in ["stats spring-42 --json", "links list --json", "links list --json --limit 5"] {
        let ran = Dl::new().run(line);
        assert!(
            ran.fails(2).contains("\n  tip: for JSON with all fields, use '-o json'; with some of them, "),
            "{line}: {ran}"
        );
    }
    let ran = Dl::new().run("links list --template x");
    assert!(ran.fails(2).contains("\n  tip: to render results with a template, use '--render "), "{ran}");
    assert!(!ran.stderr.contains("-- --template"), "{ran}");
}

/// The services that an export may come from are named where one is missing.
#[test]
fn an_import_without_a_service_lists_the_services() {
    let ran = Dl::new().run("import links.csv");
    assert!(ran.fails(2).contains("--from <SERVICE>"), "{ran}");
    assert!(ran.says("tip: SERVICE is one of bitly, dub, shlink, branch, firebase, csv; csv is for any"), "{ran}");
    assert!(Dl::new().run("import --from nothing links.csv").fails(2).contains("bitly, dub, shlink, branch"));
}

/// What was not found is looked for by its name.
#[test]
fn a_link_that_is_not_found_can_be_searched_for() {
    let double = Double::new(|_| Answer::error(404, "not_found", "not found"));
    let dl = Dl::at(&double.url);
    for line in ["links get nope-1", "links update nope-1 --cta x", "links stats nope-1", "links qr nope-1 --out q.png"]
    {
        let ran = dl.run(line);
        assert!(ran.fails(5).contains("error[not_found]: no link with ID nope-1 (HTTP 404)"), "{line}: {ran}");
        assert!(ran.says("hint: dl links list --search nope-1 looks for it"), "{line}: {ran}");
    }
    let found = deeplink_testing::double::with_links(1);
    assert_eq!(Dl::at(&found.url).run("links list --search link -o id").ok(), "link-0000\n");
    assert_eq!(found.only().query("q"), Some("link"));
}
