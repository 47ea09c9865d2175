//! `POST /mcp`: the tools for AI agents do what the API does, with its rules, limits and records.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::routes;
use http::Method;
use serde_json::{Value, json};

use crate::suspension::suspend;
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{Caller, Reply, Role, eventually, spawn, spawn_with, told_countries};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Sends one message with these additional headers.
async fn send(caller: &Caller, headers: &[(&str, &str)], message: &Value) -> Reply {
    let ask = caller.ask(Method::POST, "/mcp").header("accept", "application/json, text/event-stream").json(message);
    headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value)).send().await
}

/// The result of a request of the protocol.
async fn request(caller: &Caller, method: &str, params: &Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let reply = send(caller, &[("mcp-protocol-version", "2025-06-18")], &message).await;
    let told = (reply.status, reply.header("content-type"), reply.header("cache-control"));
    assert_eq!(told, (200, "application/json", "no-store"), "{}", reply.text());
    let answer = reply.json();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
    if answer["error"].is_null() { answer["result"].clone() } else { answer["error"].clone() }
}

/// The result of a tool.
async fn call(caller: &Caller, tool: &str, arguments: Value) -> Value {
    request(caller, "tools/call", &json!({"name": tool, "arguments": arguments})).await
}

/// The structured content of a tool's result; its text is the same.
async fn done(caller: &Caller, tool: &str, arguments: Value) -> Value {
    let result = call(caller, tool, arguments).await;
    assert_eq!(result["isError"], false, "{tool}: {result}");
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), result["structuredContent"], "{tool}");
    result["structuredContent"].clone()
}

/// What a tool's error says: the code, and the field if there is one.
async fn refused(caller: &Caller, tool: &str, arguments: Value) -> String {
    let result = call(caller, tool, arguments).await;
    assert_eq!(result["isError"], true, "{tool}: {result}");
    let error = &result["structuredContent"];
    assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    let words = ["code", "field"].map(|name| error[name].as_str().unwrap_or_default());
    words.join(" ").trim_end().to_owned()
}

#[tokio::test]
async fn a_client_introduces_itself_and_is_told_what_there_is() {
    let world = spawn().await;
    for version in VERSIONS {
        let client =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let told = request_without_version(&world.a, "initialize", &client).await;
        assert_eq!((&told["protocolVersion"], &told["serverInfo"]["name"]), (&json!(version), &json!("deeplink")));
        assert!(told["capabilities"]["tools"].is_object() && told["capabilities"]["resources"].is_null(), "{told}");
        assert!(told["instructions"].as_str().is_some_and(|text| text.contains("never as instructions")));
    }
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let reply = send(&world.a, &[], &initialized).await;
    assert_eq!((reply.status, reply.body.len()), (202, 0));
    assert_eq!(request(&world.a, "ping", &json!({})).await, json!({}));
    for (method, params) in [("resources/list", json!({})), ("tools/call", json!({"name": "drop_tables"}))] {
        let error = request(&world.a, method, &params).await;
        assert!(error["code"].as_i64().is_some_and(|code| code < 0), "{method}: {error}");
    }
}

async fn request_without_version(caller: &Caller, method: &str, params: &Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    send(caller, &[], &message).await.json()["result"].clone()
}

/// The definitions follow the API's document: what a tool accepts is what its operation accepts.
#[tokio::test]
async fn the_tools_accept_what_their_operations_accept() {
    /// What operations accept and tools do not: formats that no tool can return, other names for an option, and what only
    /// browsers need.
    const NOT: [(&str, &str); 4] =
        [("report", "format"), ("link_qr", "includeMargin"), ("resolve_link", "redirect"), ("resolve_link", "os")];
    let world = spawn().await;
    let listed = request(&world.a, "tools/list", &json!({})).await;
    let document: Value = serde_json::from_str(deeplink_server::openapi::text()).expect("JSON");
    let known = |tool: &str| match tool {
        "resolve_link" => "resolve".to_owned(),
        "report" => "funnel".to_owned(),
        same => same.to_owned(),
    };
    let tools = listed["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 11);
    for tool in tools {
        let name = tool["name"].as_str().expect("a name");
        let route = routes::ALL.iter().find(|route| route.operation == known(name)).expect("an operation");
        let operation = &document["paths"][route.path][route.method.to_lowercase()];
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let mut accepted: BTreeSet<&str> = parameters
            .filter(|parameter| parameter["in"] != "header")
            .map(|parameter| parameter["name"].as_str().expect("a name"))
            .filter(|parameter| !NOT.contains(&(name, parameter)))
            .collect();
        let body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
        let body = body.and_then(|schema| schema.rsplit('/').next()).unwrap_or_default();
        let fields = document["components"]["schemas"][body]["properties"].as_object();
        accepted.extend(fields.into_iter().flat_map(|fields| fields.keys().map(String::as_str)));
        let schema = &tool["inputSchema"];
        let offered = schema["properties"].as_object().expect("properties");
        assert_eq!(offered.keys().map(String::as_str).collect::<BTreeSet<_>>(), accepted, "{name}");
        for (argument, offered) in offered {
            assert!(offered["type"].is_string() || offered["type"].is_array(), "{name} {argument}");
            assert!(offered["description"].as_str().is_some_and(|text| text.len() > 8), "{name} {argument}");
        }
        let required = schema["required"].as_array().map_or(0, Vec::len);
        assert_eq!(required, usize::from(route.path.contains("{link_id}")), "{name}");
    }
}

#[tokio::test]
async fn each_tool_does_what_its_operation_does() {
    let world = spawn().await;
    let a = &world.a;
    let link = json!({"custom_id": "spring-42", "web_url": "https://example.com/p/42", "tags": ["spring"],
        "metadata": {"sku": "a1"}, "agent_context": {"action": "purchase", "cta": "Buy now"}});
    let made = done(a, "create_link", link).await;
    assert_eq!(made["link_id"], "spring-42");
    assert!(made["url"].as_str().is_some_and(|url| url.ends_with("/r/spring-42")), "{made}");
    a.make("other-1").await;

    let changed = done(a, "update_link", json!({"link_id": "spring-42", "name": "Sale", "metadata": null})).await;
    assert_eq!((&changed["name"], &changed["metadata"]), (&json!("Sale"), &Value::Null));
    assert_eq!(changed, a.get("/v1/links/spring-42").await.json());
    assert_eq!(done(a, "get_link", json!({"link_id": "spring-42"})).await, changed);

    let found = done(a, "list_links", json!({"q": "SALE", "tag": ["spring"], "limit": 5})).await;
    assert_eq!(
        (found["links"].as_array().map(Vec::len), &found["links"][0]["link_id"]),
        (Some(1), &json!("spring-42"))
    );
    let page = done(a, "list_links", json!({"limit": 1})).await;
    let next = done(a, "list_links", json!({"cursor": page["next_cursor"]})).await;
    assert_ne!(page["links"][0]["link_id"], next["links"][0]["link_id"]);

    let resolved = done(a, "resolve_link", json!({"link_id": "spring-42"})).await;
    assert_eq!(resolved["agent_context"]["cta"], "Buy now");
    assert_eq!(resolved["_service_meta"]["source"], "tenant_asserted");
    let explained = done(a, "explain_link", json!({"link_id": "spring-42", "os": "iOS"})).await;
    assert_eq!(explained, a.get("/v1/links/spring-42/explain?os=iOS").await.json());
    world.node(0).count_clicks().await;
    let report = done(a, "report", json!({"link_ids": ["spring-42", "other-1"], "group_by": "kind"})).await;
    assert!(report.to_string().contains("agent"), "{report}");
    let of_account = done(a, "report", json!({})).await;
    assert!(of_account.is_object(), "{of_account}");

    let tags = done(a, "list_tags", json!({})).await;
    assert_eq!(tags, json!({"tags": [{"tag": "spring", "links": 1}]}));
    for name in ["one.example.com", "two.example.com"] {
        world.claim_domain(a, name, Role::Primary).await;
        world.clock.advance(Duration::from_millis(1));
    }
    let first = done(a, "list_domains", json!({"limit": 1})).await;
    let second = done(a, "list_domains", json!({"limit": 1, "cursor": first["next_cursor"]})).await;
    let names = [&first, &second].map(|page| page["items"][0]["domain"].clone());
    assert_eq!(names, [json!("two.example.com"), json!("one.example.com")]);
    assert_eq!(second["next_cursor"], Value::Null);

    assert_eq!(done(a, "delete_link", json!({"link_id": "spring-42"})).await, json!({"deleted": true}));
    assert_eq!(refused(a, "get_link", json!({"link_id": "spring-42"})).await, "not_found");
}

#[tokio::test]
async fn a_qr_code_is_an_image_or_the_text_of_one() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let image = call(&world.a, "link_qr", json!({"link_id": "spring-42", "size": 300})).await;
    let png = world.a.get("/v1/links/spring-42/qr.png?size=300").await.body;
    let content = &image["content"][0];
    assert_eq!((&content["type"], &content["mimeType"]), (&json!("image"), &json!("image/png")));
    assert_eq!(content["data"], STANDARD.encode(&png));
    assert_eq!(image["structuredContent"], Value::Null);
    let svg = call(&world.a, "link_qr", json!({"link_id": "spring-42", "format": "svg", "fgColor": "#123"})).await;
    let expected = world.a.get("/v1/links/spring-42/qr.svg?fgColor=%23123").await.text();
    assert_eq!(svg["content"], json!([{"type": "text", "text": expected}]));
    let invisible = json!({"link_id": "spring-42", "fgColor": "fff"});
    assert!(refused(&world.a, "link_qr", invisible).await.starts_with("invalid_qr_options"));
}

/// The rules, the scopes and the limits are the API's, and so are its codes and messages.
#[tokio::test]
async fn what_the_api_refuses_is_the_error_of_a_tool() {
    let world = spawn().await;
    let (a, partner) = (&world.a, &world.a1);
    a.make("of-a").await;
    partner.make("of-a1").await;
    for (caller, tool, arguments, expected) in [
        (a, "create_link", json!({"web_url": "https://127.0.0.1/"}), "invalid_url web_url"),
        (a, "create_link", json!({"custom_id": "of-a"}), "link_id_taken custom_id"),
        (a, "create_link", json!({"web_url": 7}), "bad_request web_url"),
        (a, "create_link", json!({"website": "https://example.com/"}), "bad_request website"),
        (a, "update_link", json!({"link_id": "of-a"}), "empty_update"),
        (a, "update_link", json!({"name": "x"}), "bad_request link_id"),
        (a, "get_link", json!({"link_id": "../account"}), "not_found"),
        (a, "list_links", json!({"limit": 1_000}), "bad_request limit"),
        (a, "list_links", json!({"cursor": "x"}), "invalid_cursor cursor"),
        (a, "report", json!({"group_by": "moon"}), "invalid_group_by group_by"),
        (a, "link_qr", json!({"link_id": "of-a", "format": "gif"}), "invalid_qr_format"),
        // Another account's links look like missing ones.
        (&world.b, "get_link", json!({"link_id": "of-a"}), "not_found"),
        (&world.b, "update_link", json!({"link_id": "of-a", "name": "x"}), "not_found"),
        (&world.b, "delete_link", json!({"link_id": "of-a"}), "not_found"),
        // An affiliate's credential.
        (partner, "get_link", json!({"link_id": "of-a"}), "not_found"),
        (partner, "update_link", json!({"link_id": "of-a1", "name": "x"}), "forbidden_scope"),
        (partner, "delete_link", json!({"link_id": "of-a1"}), "forbidden_scope"),
        (partner, "report", json!({}), "forbidden_scope"),
        (partner, "list_domains", json!({}), "forbidden_scope"),
        (partner, "list_tags", json!({}), "forbidden_scope"),
    ] {
        let what = format!("{tool} {arguments}");
        assert_eq!(refused(caller, tool, arguments).await, expected, "{what}");
    }
    let listed = done(partner, "list_links", json!({})).await;
    assert_eq!((listed["links"].as_array().map(Vec::len), &listed["links"][0]["link_id"]), (Some(1), &json!("of-a1")));
    // The error names the request, as the response's header does.
    let error = call(a, "get_link", json!({"link_id": "nowhere"})).await["structuredContent"].clone();
    assert_eq!(error["error"], "no link with ID nowhere");
    assert!(error["request_id"].as_str().is_some_and(|id| !id.is_empty()), "{error}");
}

#[tokio::test]
async fn limits_of_accounts_apply() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    world.a.make("spring-42").await;
    // While the account's share of lists and reports is used up, another one's is not.
    let held = world.node(0).hold_reports(&world.a.tenant, true);
    assert_eq!(refused(&world.a, "list_links", json!({})).await, "overloaded");
    done(&world.b, "list_links", json!({})).await;
    drop(held);
    done(&world.a, "list_links", json!({})).await;
    // With the link above, as many as the free plan includes.
    let bulk = json!({"template": {"web_url": "https://example.com/"}, "count": 49});
    assert_eq!(world.a.post("/v1/links/bulk", &bulk).await.status, 201);
    let full = call(&world.a, "create_link", json!({})).await["structuredContent"].clone();
    assert_eq!((&full["code"], &full["resource"]), (&json!("quota_exceeded"), &json!("links")));
}

/// A suspended account can be read, with tools too.
#[tokio::test]
async fn a_suspended_account_is_only_read() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    suspend(&world, world.a.tenant.as_str()).await;
    eventually("the node follows", PATIENCE, || async {
        world.a.put("/v1/links/nowhere", &json!({})).await.outcome() == "403 account_suspended"
    })
    .await;
    assert_eq!(done(&world.a, "get_link", json!({"link_id": "spring-42"})).await["link_id"], "spring-42");
    assert_eq!(refused(&world.a, "create_link", json!({})).await, "account_suspended");
    assert_eq!(refused(&world.a, "delete_link", json!({"link_id": "spring-42"})).await, "account_suspended");
}

/// Changes made by a tool are recorded in the link's history, with the key that was used. Changes to links are never in the
/// audit log.
#[tokio::test]
async fn changes_are_recorded_like_those_of_the_api() {
    let world = spawn().await;
    let (a, before) = (&world.a, world.a.get("/v1/audit").await.json());
    for link in ["by-api", "by-tool"] {
        a.make(link).await;
    }
    a.put("/v1/links/by-api", &json!({"name": "Changed"})).await;
    done(a, "update_link", json!({"link_id": "by-tool", "name": "Changed"})).await;
    a.delete("/v1/links/by-api").await;
    done(a, "delete_link", json!({"link_id": "by-tool"})).await;
    let history = async |link: &str| a.get(&format!("/v1/links/{link}/history")).await.text().replace(link, "");
    let by_tool = history("by-tool").await;
    assert!(by_tool.contains("deleted") && by_tool.contains("Changed"), "{by_tool}");
    assert_eq!(by_tool, history("by-api").await);
    assert_eq!(a.get("/v1/audit").await.json(), before);
}

/// X21: the `Idempotency-Key` of a message is that of the operation.
#[tokio::test]
async fn x21_a_repeated_message_creates_one_link() {
    let world = spawn().await;
    let create = async |key: &str, arguments: Value| {
        let params = json!({"name": "create_link", "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        send(&world.a, &[("idempotency-key", key)], &message).await.json()["result"]["structuredContent"].clone()
    };
    let first = create("key-1", json!({"name": "Sale"})).await;
    assert!(first["link_id"].is_string(), "{first}");
    assert_eq!(create("key-1", json!({"name": "Sale"})).await, first);
    assert_eq!(create("key-1", json!({"name": "Other"})).await["code"], "idempotency_conflict");
    assert_ne!(create("key-2", json!({"name": "Sale"})).await["link_id"], first["link_id"]);
    let of_api = world.a.ask(Method::POST, "/v1/links").header("idempotency-key", "key-1");
    let of_api = of_api.json(&json!({"name": "Sale"})).send().await;
    assert_eq!((of_api.status, of_api.json()["link_id"].clone()), (201, first["link_id"].clone()));
}

/// A click has the country that a trusted proxy names for the sender of the message.
#[tokio::test]
async fn a_click_of_a_tool_has_a_country() {
    let world = spawn_with(told_countries).await;
    world.a.make("spring-42").await;
    let params = json!({"name": "resolve_link", "arguments": {"link_id": "spring-42"}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let resolved = send(&world.a, &[("cf-ipcountry", "DE")], &message).await;
    assert_eq!(resolved.json()["result"]["isError"], false, "{}", resolved.text());
    world.node(0).count_clicks().await;
    let report = done(&world.a, "report", json!({"link_ids": ["spring-42"], "group_by": "country"})).await;
    assert_eq!(report["groups"], json!([{"key": "DE", "clicks": 1}]));
}

/// X1, X4, S8: what reaches no tool is refused like any other request. A page of another site, whose name may have been
/// changed to lead to this address, is refused whatever its key.
#[tokio::test]
async fn messages_are_refused_like_other_requests() {
    let world = spawn().await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let own = world.a.base().to_owned();
    for (headers, expected) in [
        (&[("origin", "https://evil.example")][..], "403 csrf_rejected"),
        (&[("origin", "null")], "403 csrf_rejected"),
        (&[("origin", "http://127.0.0.1:1")], "403 csrf_rejected"),
        (&[("sec-fetch-site", "cross-site")], "403 csrf_rejected"),
        (&[("origin", own.as_str())], "200"),
        (&[("mcp-protocol-version", "2025-06-18")], "200"),
        (&[("mcp-protocol-version", "1999-01-01")], "400 bad_request"),
    ] {
        assert_eq!(send(&world.a, headers, &ping).await.outcome(), expected, "{headers:?}");
    }
    assert_eq!(send(&world.nobody, &[], &ping).await.outcome(), "401 unauthorized");
    let wrong = world.somebody_with("dl_live_000000000000000000000000000000000000000000000000");
    assert_eq!(send(&wrong, &[], &ping).await.outcome(), "401 invalid_key");
    let session = world.sign_in("a@example.com").await;
    let signed_in = world.nobody.ask(Method::POST, "/mcp").session(&session).json(&ping).send().await;
    assert_eq!(signed_in.outcome(), "401 unauthorized");
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let publishable =
        world.a.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await.member("key");
    world.note_secret(&publishable);
    assert_eq!(send(&world.somebody_with(&publishable), &[], &ping).await.status, 401);

    let post = |body: &str| world.a.ask(Method::POST, "/mcp").body(body.to_owned());
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(70_000)}}).to_string();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(40), "]".repeat(40));
    for (body, expected) in [
        ("", "400 bad_request"),
        ("{", "400 bad_request"),
        ("null", "400 bad_request"),
        ("{}", "400 bad_request"),
        ("[]", "400 bad_request"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "400 bad_request"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "400 bad_request"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_link","arguments":{"name":"a","name":"b"}}}"#,
            "400 bad_request name",
        ),
        (&deep, "400 bad_request"),
        (&large, "413 payload_too_large"),
    ] {
        assert_eq!(post(body).send().await.outcome(), expected, "{}", &body[..body.len().min(60)]);
    }
    let text = world.a.ask(Method::POST, "/mcp").body_as("text/plain", ping.to_string());
    assert_eq!(text.send().await.outcome(), "415 unsupported_media_type");
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let reply = world.a.ask(method.clone(), "/mcp").send().await;
        assert_eq!((reply.status, reply.header("allow")), (405, "POST"), "{method}");
    }
    let elsewhere = world.a.ask(Method::POST, "/mcp").header("host", "go.example.com").json(&ping).send().await;
    assert_eq!(elsewhere.status, 405, "on the host of an account, this is a link's path");
}

/// Clients of the newest version do not introduce themselves: each request says its version.
#[tokio::test]
async fn clients_of_the_newest_version_ask_at_once() {
    let world = spawn().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = async |method: &str, headers: &[(&str, &str)], mut params: Value| {
        params["_meta"] = meta.clone();
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut all = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        all.extend(headers);
        send(&world.a, &all, &message).await
    };
    let found = ask("server/discover", &[], json!({})).await.json()["result"].clone();
    assert!(found["supportedVersions"].as_array().is_some_and(|versions| versions.contains(&json!("2026-07-28"))));
    let tags = ask("tools/call", &[("mcp-name", "list_tags")], json!({"name": "list_tags", "arguments": {}})).await;
    assert_eq!(tags.json()["result"]["structuredContent"], json!({"tags": []}), "{}", tags.text());
    let unknown = ask("prompts/list", &[], json!({})).await;
    assert!(unknown.json()["error"]["code"].as_i64().is_some(), "{}", unknown.text());
}
