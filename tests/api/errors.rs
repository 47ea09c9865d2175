//! X1: every error is an error object. What holds for each answer is checked where it is received (`deeplink_testing`);
//! the tests here provoke the errors, except those of failures inside (`failures`).

use bytes::Bytes;
use deeplink_core::routes::{self, Credential};
use http::Method;
use serde_json::{Value, json};

use crate::lifecycle::page_of;
use deeplink_testing::{Ask, Caller, World, operations, spawn, wire};

/// Bodies that no operation accepts.
fn bad_bodies() -> Vec<(&'static str, Bytes)> {
    let deep = format!("{{\"metadata\":{}{}}}", "{\"a\":".repeat(100), "1".to_owned() + &"}".repeat(100));
    vec![
        ("empty", Bytes::new()),
        ("an opening brace", "{".into()),
        ("an array", "[]".into()),
        ("null", "null".into()),
        ("a string", "\"text\"".into()),
        ("a wrong type", r#"{"web_url":{},"template":1,"email":[],"name":[],"domain":1}"#.into()),
        ("a number beyond all numbers", r#"{"count":1e400,"template":{},"web_url":1e400,"email":1e400}"#.into()),
        ("no UTF-8", Bytes::from_static(b"{\"web_url\":\"\xff\xfe\",\"email\":\"\xff\"}")),
        ("a lone surrogate", r#"{"web_url":"\ud800","email":"\ud800","custom_ids":["\ud800"]}"#.into()),
        ("a duplicate key", r#"{"web_url":"a","web_url":"b","email":"a","email":"b","count":1,"count":2}"#.into()),
        ("trailing bytes", r"{} {}".into()),
        ("deep nesting", deep.into()),
        ("very deep nesting", "[".repeat(50_000).into()),
        ("a comment", r"{/**/}".into()),
    ]
}

/// Those that are objects nevertheless.
const OBJECTS: [&str; 4] = ["a wrong type", "a number beyond all numbers", "a lone surrogate", "a duplicate key"];

/// The path of an object of A's.
fn path_of(world: &World, operation: &operations::Operation, with: &Credentials) -> String {
    operation.at(match &operation.path {
        path if path.contains("{affiliate_id}") => world.a1.affiliate_id(),
        path if path.contains("{webhook_id}") => &with.webhook,
        path if path.contains("{domain}") => DOMAIN,
        _ => "spring-42",
    })
}

/// A domain of A's, which the publishable key is for.
const DOMAIN: &str = "pages.example.com";

/// The path of a source of A's.
async fn path_of_source(world: &World) -> String {
    let made = world.a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let address = made.member("webhook_url");
    address[address.find("/in/").expect("a token")..].to_owned()
}

/// Credentials of A's, and other objects of A's.
struct Credentials {
    session: String,
    webhook: String,
    /// A caller with a publishable key.
    page: Caller,
}

async fn credentials(world: &World) -> Credentials {
    Credentials {
        session: world.session_of(&world.a).await,
        webhook: world.a.post("/v1/webhooks", &hook()).await.member("id"),
        page: page_of(world, &world.a, DOMAIN).await,
    }
}

/// A request with a credential that reaches the operation.
fn ask(world: &World, operation: &operations::Operation, with: &Credentials) -> Ask {
    let path = path_of(world, operation, with);
    let method = operation.method.clone();
    let takes = |credential| routes::ALL.iter().any(|r| r.operation == operation.id && r.credential == credential);
    match (operation.is_public, operation.takes_session) {
        (true, _) => world.nobody.ask(method, &path),
        (_, true) => world.nobody.ask(method, &path).session(&with.session),
        _ if takes(Credential::PublishableKey) => with.page.ask(method, &path),
        _ => world.a.ask(method, &path),
    }
}

/// X1: each operation that takes a body refuses what is malformed with 400, another media type with 415 and too much
/// with 413, never with 422, and always with an error object.
#[tokio::test]
async fn x1_malformed_bodies_are_refused_alike_everywhere() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let with = &credentials(&world).await;
    let source = &path_of_source(&world).await;
    let ask = |world: &World, operation: &operations::Operation| match &*operation.id {
        "send_to_source" => world.nobody.ask(Method::POST, source),
        _ => ask(world, operation, with),
    };
    let with_body = operations::all().iter().filter(|operation| operation.has_body);
    assert!(with_body.clone().count() >= 4);
    for operation in with_body {
        for (name, body) in bad_bodies() {
            let reply = ask(&world, operation).body(body).send().await;
            // It has no fields to be wrong.
            let expected = match &*operation.id {
                "issue_secret_key" if OBJECTS.contains(&name) => [201, 409],
                "test_webhook" if OBJECTS.contains(&name) => [200, 200],
                "restore_link" if OBJECTS.contains(&name) => [404, 404],
                _ => [400, 400],
            };
            assert!(expected.contains(&reply.status), "{} with {name}: {}", operation.id, reply.text());
        }
        for media_type in [
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/jsonp",
            "json",
            "*/*",
            "",
        ] {
            let reply = ask(&world, operation).body_as(media_type, "{}").send().await;
            assert_eq!(reply.outcome(), "415 unsupported_media_type", "{} as {media_type:?}", operation.id);
        }
        let large = "x".repeat(1_100_000);
        assert_eq!(
            ask(&world, operation).body(large).send().await.outcome(),
            "413 payload_too_large",
            "{}",
            operation.id
        );
    }
}

/// X1: operations that take a form take nothing else, and no field twice. A malformed form has no token.
#[tokio::test]
async fn x1_malformed_forms_are_refused_alike_everywhere() {
    let world = spawn().await;
    let ask = |operation: &operations::Operation| world.nobody.ask(operation.method.clone(), &operation.path);
    let with_form = operations::all().iter().filter(|operation| operation.has_form);
    assert_eq!(with_form.clone().count(), 2);
    const FORM: &str = "application/x-www-form-urlencoded";
    for operation in with_form {
        for media_type in ["text/plain", "application/json", "multipart/form-data", "application/x-www-form", ""] {
            let reply = ask(operation).body_as(media_type, "token=a").send().await;
            assert_eq!(reply.outcome(), "415 unsupported_media_type", "{} as {media_type:?}", operation.id);
        }
        let large = ask(operation).body_as(FORM, "x".repeat(70_000)).send().await;
        assert_eq!(large.outcome(), "413 payload_too_large", "{}", operation.id);
        for twice in ["token=a&token=b", "token=&token=", "token=a&%74oken=b"] {
            let reply = ask(operation).body_as(FORM, twice).send().await;
            assert_eq!(reply.outcome(), "400 bad_request token", "{} with {twice}", operation.id);
        }
        for (name, body) in bad_bodies() {
            let is_large = body.len() > 4 << 10;
            let reply = ask(operation).body_as(FORM, body).send().await;
            if is_large {
                assert_eq!(reply.outcome(), "413 payload_too_large", "{} with {name}", operation.id);
                continue;
            }
            let leads_to = reply.header("location").rsplit('/').next().expect("a place").to_owned();
            let no_token = matches!(&*leads_to, "signin?error=link_expired" | "signin?error=invite_invalid");
            assert!(reply.status == 303 && no_token, "{} with {name}: {leads_to}", operation.id);
        }
    }
}

/// X1: a path that is not served is 404, a path served with another method 405 with `Allow`.
#[tokio::test]
async fn x1_unknown_paths_and_methods() {
    let world = spawn().await;
    for path in [
        "/nowhere",
        "/v1",
        "/v1/",
        "/v1/link",
        "/v1/links/",
        "/v1/links/a/b",
        "/v1/links/a/timeseries/",
        "/v2/links",
        "/V1/links",
        "/r",
        "/r/",
        "/r/spring-42/",
        "/r/spring-42/x",
        "/health/",
        "/metrics",
        "/admin",
        "/index.html",
        "/.env",
        "/docs/nothing",
        "/%2e%2e/etc/passwd",
        "/v1%2flinks",
        "/spring-42",
        "/openapi.yaml",
    ] {
        for caller in [&world.nobody, &world.a] {
            assert_eq!(caller.get(path).await.outcome(), "404 not_found", "{path}");
        }
    }
    for operation in operations::all() {
        let served: Vec<_> =
            operations::all().iter().filter(|other| other.path == operation.path).map(|other| &other.method).collect();
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            if served.contains(&&method) {
                continue;
            }
            let path = operation.at("spring-42");
            let reply = world.a.ask(method.clone(), &path).json(&json!({})).send().await;
            assert_eq!(reply.outcome(), "405 method_not_allowed", "{method} {path}");
            for other in &served {
                assert!(reply.header("allow").contains(other.as_str()), "{method} {path}: {}", reply.header("allow"));
            }
        }
    }
}

/// X1: checks come in one order: 404, 405, 401, 403, 415, 413, malformed 400, the object's 404, a field's 400.
#[tokio::test]
async fn x1_checks_come_in_their_order() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let huge = "x".repeat(2_000_000);
    let with = credentials(&world).await;
    for operation in operations::all().iter().filter(|operation| operation.has_body && !operation.is_public) {
        let path = path_of(&world, operation, &with);
        let everything_wrong = world.nobody.ask(operation.method.clone(), &path).body_as("text/plain", huge.clone());
        assert_eq!(everything_wrong.send().await.outcome(), "401 unauthorized", "{}", operation.id);
        let ask = || ask(&world, operation, &with);
        let wrong_kind = ask().body_as("text/plain", huge.clone());
        assert_eq!(wrong_kind.send().await.outcome(), "415 unsupported_media_type", "{}", operation.id);
        let too_large = ask().body(huge.clone());
        assert_eq!(too_large.send().await.outcome(), "413 payload_too_large", "{}", operation.id);
    }
    let post = |body: &str| world.a.ask(Method::POST, "/v1/links").body(body.to_owned());
    assert_eq!(post(r#"{"affiliate_id":"aff_0123456789abcdef01234567","web_url":1}"#).send().await.status, 400);
    // A field is checked before the account is looked up.
    let field = post(r#"{"affiliate_id":"aff_0123456789abcdef01234567","web_url":"x"}"#).send().await;
    assert_eq!(field.outcome(), "400 invalid_url web_url");
    let fields = post(r#"{"metadata":[],"web_url":"x","custom_id":"!"}"#).send().await;
    assert_eq!(
        fields.outcome(),
        "400 invalid_custom_id custom_id",
        "fields come in the order of the interface's table"
    );
}

/// X1: invalid percent escapes, invalid UTF-8 and malformed ids in a path are a 404.
#[tokio::test]
async fn x1_ids_that_cannot_be_are_simply_not_there() {
    let world = spawn().await;
    let kinds = ["{id}", "{token}", "{link_id}", "{affiliate_id}", "{key_id}", "{user_id}", "{webhook_id}"];
    for id in ["%ff", "%", "%zz", "a%00b", "%F0%9F%91%8B", "..%2f..", "a%2Fb", "-", "_", &"a".repeat(3_000)] {
        for operation in
            operations::all().iter().filter(|operation| kinds.iter().any(|kind| operation.path.contains(kind)))
        {
            let reply = ask_at(&world, operation, id).await;
            assert_eq!(reply, "404 not_found", "{} {id}", operation.id);
        }
    }
}

/// The message of a 404 said only that something was not found. It names the thing as asked for, if that could be one.
#[tokio::test]
async fn a_404_says_what_is_missing() {
    let world = spawn().await;
    let long = format!("/v1/links/{}", "a".repeat(3_000));
    let key = format!("/v1/auth/secret-keys/dl_live_{}", "0".repeat(48));
    for (method, path, message) in [
        (Method::GET, "/v1/links/nope", "no link with ID nope"),
        (Method::DELETE, "/v1/links/nope", "no link with ID nope"),
        (Method::PUT, "/v1/links/nope", "no link with ID nope"),
        (Method::GET, "/v1/links/nope/history", "no link with ID nope"),
        (Method::GET, "/v1/links/nope/qr.png", "no link with ID nope"),
        (Method::GET, "/v1/links/%ff", "no such link"),
        (Method::GET, "/v1/links/%3Cb%3E", "no such link"),
        (Method::GET, &long, "no such link"),
        (Method::PATCH, "/v1/domains/nope.localhost", "no domain nope.localhost"),
        (Method::DELETE, "/v1/domains/nope.localhost", "no domain nope.localhost"),
        (Method::POST, "/v1/domains/nope.localhost/verify", "no domain nope.localhost"),
        (
            Method::GET,
            "/v1/affiliates/aff_0123456789abcdef01234567",
            "no affiliate with ID aff_0123456789abcdef01234567",
        ),
        (Method::GET, "/v1/affiliates/aff_1/credentials", "no affiliate with ID aff_1"),
        (Method::DELETE, "/v1/affiliates/aff_1/credentials/key_1", "no credential with ID key_1 for this affiliate"),
        (Method::DELETE, "/v1/apps/app_1", "no app with ID app_1"),
        (Method::GET, "/v1/sources/src_1", "no source with ID src_1"),
        (Method::DELETE, "/v1/webhooks/wh_1", "no webhook with ID wh_1"),
        (Method::GET, "/v1/webhooks/wh_1/deliveries", "no webhook with ID wh_1"),
        (Method::POST, "/v1/webhooks/wh_1/deliveries/dlv_1/replay", "no delivery with ID dlv_1 for this webhook"),
        (Method::DELETE, "/v1/auth/users/usr_1", "no team member with ID usr_1"),
        (Method::DELETE, "/v1/auth/publishable-keys/pk_1", "no publishable key with ID pk_1"),
        (Method::DELETE, "/v1/auth/secret-keys/key_1", "no secret key with ID key_1"),
        (Method::DELETE, &key, "no such secret key"),
        (Method::DELETE, "/v1/tags/Sommer%2026", "no tag \"Sommer 26\""),
        (Method::GET, "/v1/qr-logos/nope", "no logo named nope"),
        (Method::DELETE, "/v1/qr-logos/No%2E", "no such logo"),
        (Method::GET, "/v1/nope", "not found"),
    ] {
        let ask = world.a.ask(method.clone(), path);
        let reply = match method {
            Method::PUT => ask.json(&json!({"web_url": "https://example.com/"})).send().await,
            Method::PATCH => ask.json(&json!({"root_url": null})).send().await,
            _ => ask.send().await,
        };
        assert_eq!(reply.outcome(), "404 not_found", "{method} {path}");
        assert_eq!(reply.member("error"), message, "{method} {path}");
    }
    let click = world.a.post("/v1/lifecycle/click", &json!({"link_id": "nope"})).await;
    assert_eq!((click.outcome(), click.member("error")), ("404 not_found".into(), "no link with this ID".into()));
}

async fn ask_at(world: &World, operation: &operations::Operation, id: &str) -> String {
    let ask = world.a.ask(operation.method.clone(), &operation.at(id));
    let ask = if operation.has_body { ask.json(&json!({"web_url": null})) } else { ask };
    ask.send().await.outcome()
}

/// L17: bodies are at most 64 KiB; larger ones are refused without being kept in memory.
#[tokio::test]
async fn l17_a_body_may_have_sixty_four_kibibytes() {
    let world = spawn().await;
    let padded = |bytes: usize| format!(r#"{{"padding":"{}"}}"#, "x".repeat(bytes - 14));
    for (bytes, expected) in
        [(64 << 10, "201"), ((64 << 10) + 1, "413 payload_too_large"), (10 << 20, "413 payload_too_large")]
    {
        assert_eq!(
            world.a.ask(Method::POST, "/v1/links").body(padded(bytes)).send().await.outcome(),
            expected,
            "{bytes}"
        );
    }
    // A body with a `Content-Length` is refused unread; one without it, once it is too large.
    let address = world.node(0).address;
    for (path, limit) in [("/v1/links", 64 << 10), ("/v1/links/bulk", 1 << 20)] {
        let head = |more: &str| {
            let key = world.a.key().expect("a key");
            format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n{more}\r\n\r\n"
            )
        };
        let declared = wire::send(address, head("Content-Length: 10485760").as_bytes()).await;
        assert_eq!(wire::status(&declared), 413, "{path}");
        let mut chunked = head("Transfer-Encoding: chunked").into_bytes();
        chunked.extend(format!("{:x}\r\n", limit + 1).bytes());
        chunked.extend(std::iter::repeat_n(b'[', limit + 1));
        let endless = wire::send(address, &chunked).await;
        assert_eq!(wire::status(&endless), 413, "{path}: a chunk that never ends");
    }
}

/// A compressed body is refused with the name of its coding; one that begins with a byte order mark is accepted.
#[tokio::test]
async fn codings_are_refused_and_byte_order_marks_are_not() {
    let world = spawn().await;
    let post = |body: &str| world.a.ask(Method::POST, "/v1/links").body(body.to_owned());
    for coding in ["gzip", "br", "x-unheard-of"] {
        let refused = post("{}").header("content-encoding", coding).send().await;
        assert_eq!(refused.outcome(), "415 unsupported_media_type");
        assert!(refused.member("error").contains(coding), "{}", refused.text());
    }
    assert_eq!(post("{}").header("content-encoding", "identity").send().await.outcome(), "201");
    assert_eq!(post("\u{feff}{}").send().await.outcome(), "201");
    assert_eq!(post("\u{feff}\u{feff}{}").send().await.outcome(), "400 bad_request");
    let form = world.nobody.ask(Method::POST, "/v1/auth/callback").form(&[("token", "t")]);
    assert_eq!(form.header("content-encoding", "gzip").send().await.outcome(), "415 unsupported_media_type");
}

/// R5: a form that signs in or accepts an invitation is at most 4 KiB.
#[tokio::test]
async fn r5_forms_of_sign_in_take_four_kibibytes() {
    let world = spawn().await;
    for path in ["/v1/auth/callback", "/v1/auth/verify", "/signin"] {
        for (padding, is_refused) in [((4 << 10) - 8, false), ((4 << 10) - 7, true)] {
            let form = world.nobody.ask(Method::POST, path).form(&[("padding", &"x".repeat(padding))]);
            assert_eq!(form.send().await.status == 413, is_refused, "{path} with {padding}");
        }
    }
}

/// A webhook to create.
pub(crate) fn hook() -> Value {
    json!({"url": "https://hooks.example.com/", "events": ["conversion"]})
}

/// L11: a request with two hosts is refused before anything else, on every route, also on the one that never uses the
/// host.
#[tokio::test]
async fn l11_two_hosts_are_refused_everywhere() {
    let world = spawn().await;
    let with = credentials(&world).await;
    for operation in operations::all() {
        let ask = ask(&world, operation, &with).header("host", "localhost").header("host", "localhost");
        assert_eq!(ask.json(&json!({})).send().await.outcome(), "400 bad_request", "{}", operation.id);
    }
}

#[tokio::test]
async fn a_request_has_an_id_and_keeps_a_sane_one() {
    let world = spawn().await;
    let with = async |id: &str| {
        let reply = world.nobody.ask(Method::GET, "/v1/links").header("x-request-id", id).send().await;
        (reply.header("x-request-id").to_owned(), reply.json()["request_id"].clone())
    };
    for sane in ["abc", "a-b_c.D9", &"x".repeat(128)] {
        assert_eq!(with(sane).await, (sane.to_owned(), Value::from(sane)));
    }
    for insane in ["", "a b", "a\tb", "<script>", "ü", "a,b", &"x".repeat(129)] {
        let (id, in_body) = with(insane).await;
        assert!(id != insane && id.len() == 16, "{insane} gave {id}");
        assert_eq!(in_body, Value::from(id));
    }
}
