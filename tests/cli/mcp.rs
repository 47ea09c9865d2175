//! `dl mcp`: one JSON message a line, on stdin and stdout.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::Server;
use deeplink_testing::dl::{Dl, Ran};
use deeplink_testing::double::{Answer, Double, Nobody};

/// Messages as a client sends them: it introduces itself, then calls tools, whose messages have their position as ID.
fn session(calls: &[(&str, Value)]) -> String {
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let mut lines = String::new();
    let mut line = |message: Value| writeln!(lines, "{message}").expect("a string grows");
    line(json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": client}));
    line(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    line(json!({"jsonrpc": "2.0", "id": "tools", "method": "tools/list"}));
    for (at, (name, arguments)) in calls.iter().enumerate() {
        let params = json!({"name": name, "arguments": arguments});
        line(json!({"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": params}));
    }
    lines
}

/// The answers by the IDs of their messages. Nothing else is printed.
fn answers(ran: &Ran) -> BTreeMap<String, Value> {
    let answer = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ran}"));
        (
            answer["id"].to_string(),
            if answer["error"].is_null() { answer["result"].clone() } else { answer["error"].clone() },
        )
    };
    ran.ok().lines().map(answer).collect()
}

#[test]
fn tools_send_the_requests_of_their_operations() {
    let double = Double::new(|request| match request.line().as_str() {
        "GET /v1/links/spring-42/qr.png" => Answer::new(200, "picture").header("content-type", "image/png"),
        "GET /v1/links/nowhere" => Answer::error(404, "not_found", "no link with ID nowhere"),
        "DELETE /v1/links/spring-42" => Answer::new(204, ""),
        "GET /v1/domains" => Answer::new(200, "[]"),
        _ => Answer::json(200, &json!({"line": request.line()})),
    });
    let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
    let link = || json!({"link_id": "spring-42"});
    let text = |value: &Value| json!({"isError": false, "structuredContent": value, "content": [{"type": "text", "text": value.to_string()}]});
    let line = |line: &str| text(&json!({"line": line}));
    let cases = [
        ("create_link", json!({"web_url": "https://example.com/"}), "POST /v1/links", line("POST /v1/links")),
        (
            "update_link",
            json!({"link_id": "spring-42", "name": null}),
            "PUT /v1/links/spring-42",
            line("PUT /v1/links/spring-42"),
        ),
        ("delete_link", link(), "DELETE /v1/links/spring-42", text(&json!({"deleted": true}))),
        ("get_link", link(), "GET /v1/links/spring-42", line("GET /v1/links/spring-42")),
        ("list_links", json!({"q": "spring"}), "GET /v1/links?q=spring", line("GET /v1/links")),
        ("resolve_link", link(), "GET /r/spring-42", line("GET /r/spring-42")),
        (
            "explain_link",
            json!({"link_id": "spring-42", "os": "iOS"}),
            "GET /v1/links/spring-42/explain?os=iOS",
            line("GET /v1/links/spring-42/explain"),
        ),
        (
            "link_qr",
            link(),
            "GET /v1/links/spring-42/qr.png",
            json!({"isError": false, "content": [{"type": "image", "data": "cGljdHVyZQ==", "mimeType": "image/png"}]}),
        ),
        (
            "report",
            json!({"link_ids": ["a", "b"]}),
            "GET /v1/analytics/stats?link_ids=a%2Cb",
            line("GET /v1/analytics/stats"),
        ),
        ("list_domains", json!({}), "GET /v1/domains", text(&json!({"items": [], "next_cursor": null}))),
        ("list_tags", json!({}), "GET /v1/tags", line("GET /v1/tags")),
    ];
    for (tool, arguments, sent, result) in cases {
        let before = double.requests().len();
        let answers = answers(&dl.run_with("mcp", &session(&[(tool, arguments)])));
        assert_eq!(answers["0"], result, "{tool}");
        let requests = double.requests().split_off(before);
        let [request] = &requests[..] else { panic!("{tool}: {requests:?}") };
        assert_eq!(format!("{} {}", request.method, request.target), sent, "{tool}");
        // A public operation gets no key.
        assert_eq!(request.header("authorization").is_some(), tool != "resolve_link", "{tool}");
        assert_eq!(request.header("accept"), Some("application/json"), "{tool}");
        // A repeated request would not create a second link.
        assert_eq!(request.header("idempotency-key").is_some(), tool == "create_link", "{tool}");
    }
}

#[test]
fn a_client_is_told_the_tools_and_what_was_refused() {
    let double = Double::new(|_| Answer::error(404, "not_found", "no link with ID nowhere"));
    let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
    let calls = [
        ("get_link", json!({"link_id": "nowhere"})),
        ("get_link", json!({})),
        ("get_link", json!({"link_id": "a", "url": "b"})),
        ("drop_everything", json!({})),
    ];
    let seen = answers(&dl.run_with("mcp", &session(&calls)));
    assert_eq!(seen["\"hello\""]["serverInfo"]["name"], "deeplink");
    let tools = seen["\"tools\""]["tools"].as_array().expect("tools");
    assert!(tools.len() == 11 && tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "{tools:?}");
    let error = |at: &str| (seen[at]["isError"].clone(), seen[at]["structuredContent"].clone());
    let refused = json!({"error": "no link with ID nowhere", "code": "not_found", "request_id": "req-1"});
    assert_eq!(error("0"), (json!(true), refused));
    let missing = json!({"error": "link_id is required", "code": "bad_request", "field": "link_id"});
    assert_eq!(error("1"), (json!(true), missing));
    assert_eq!(error("2").1["field"], "url");
    assert_eq!(seen["3"]["code"], -32602);
    assert_eq!(double.lines(), ["GET /v1/links/nowhere"], "what is wrong is not sent");

    let nobody = Nobody::at_a_port();
    let away = Dl::at(&nobody.url).env("DL_RETRIES", "0").run_with("mcp", &session(&[("list_tags", json!({}))]));
    let result = &answers(&away)["0"];
    assert_eq!((&result["isError"], &result["structuredContent"]), (&json!(true), &Value::Null));
}

#[test]
fn it_ends_with_its_input_and_needs_a_key() {
    let double = Double::new(|_| Answer::new(200, "{}"));
    assert_eq!(Dl::at(&double.url).run("mcp").ok(), "");
    let without = Dl::new().env("DL_BASE_URL", &double.url).run_with("mcp", &session(&[]));
    assert!(without.fails(4).starts_with("error[") && without.stdout.is_empty(), "{without}");
    // Stdin has the messages, so that no key can be read from it.
    let key_too = Dl::at(&double.url).run_with("mcp --api-key-file -", &session(&[]));
    assert!(key_too.fails(2).contains("both read stdin") && key_too.stdout.is_empty(), "{key_too}");
    assert!(double.requests().is_empty());
}

/// Nothing waits for the answer to a call that its client no longer wants.
#[test]
fn a_cancelled_call_ends() {
    let double = Double::new(|_| Answer::new(200, "{}").after(Duration::from_secs(20)));
    let mut lines = session(&[("list_tags", json!({}))]);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}});
    writeln!(lines, "{cancelled}").expect("a string grows");
    let began = Instant::now();
    let seen = answers(&Dl::at(&double.url).run_with("mcp", &lines));
    assert!(seen.contains_key("\"tools\"") && !seen.contains_key("0"), "{seen:?}");
    // Answers under way when stdin ends have five seconds.
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// Against the real service, with an account's key and with an affiliate's credential.
#[test]
fn an_agent_makes_a_link_and_finds_it() {
    let server = Server::start();
    let dl = server.user("you");
    let link = json!({"custom_id": "spring-42", "web_url": "https://example.com/p/42"});
    let made = answers(&dl.run_with("mcp", &session(&[("create_link", link)])));
    assert_eq!(made["0"]["structuredContent"]["url"], format!("{}/r/spring-42", server.url));
    let calls = [
        ("list_links", json!({"q": "P/42"})),
        ("resolve_link", json!({"link_id": "spring-42"})),
        ("link_qr", json!({"link_id": "spring-42", "format": "svg"})),
        ("report", json!({})),
    ];
    let seen = answers(&dl.run_with("mcp", &session(&calls)));
    assert_eq!(seen["0"]["structuredContent"]["links"][0]["link_id"], "spring-42");
    assert_eq!(seen["1"]["structuredContent"]["web_url"], "https://example.com/p/42");
    assert!(seen["2"]["content"][0]["text"].as_str().is_some_and(|svg| svg.contains("<svg")), "{seen:?}");
    assert_eq!(seen["3"]["isError"], false);
    let (partner, _) = server.affiliate(&dl);
    let theirs = answers(&partner.run_with("mcp", &session(&[("report", json!({})), ("list_links", json!({}))])));
    assert_eq!(theirs["0"]["structuredContent"]["code"], "forbidden_scope");
    assert_eq!(theirs["1"]["structuredContent"]["links"], json!([]));
}
