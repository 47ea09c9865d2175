//! Refused input, of which nothing is stored.

use deeplink_core::time::Timestamp;
use http::Method;
use serde_json::{Value, json};

use super::{attribute, convert, converted, identify, touch};
use deeplink_testing::{Reply, World, spawn};

/// Sets the value at a path such as `context.os`; `Null` removes the member.
fn with(mut body: Value, path: &str, value: &Value) -> Value {
    match path.split_once('.') {
        Some((outer, inner)) => body[outer] = json!({ inner: value }),
        None => body[path] = value.clone(),
    }
    body
}

fn without(mut body: Value, path: &str) -> Value {
    body.as_object_mut().expect("an object").remove(path);
    body
}

async fn refused(world: &World, method: &Method, path: &str, body: &Value, expected: &str) {
    let reply = world.a.ask(method.clone(), path).json(body).send().await;
    assert_eq!(reply.outcome(), expected, "{path} {body}");
}

/// Invalid values of a required text.
fn no_texts(longest: usize) -> Vec<Value> {
    let long = "é".repeat(longest + 1);
    let mut cases = vec![json!(null), json!(5), json!(true), json!([]), json!({}), json!(["a"])];
    cases.extend(["", " ", "\t\n", "a\u{0}", "a\nb", "\u{85}x", &long].map(|text| json!(text)));
    cases
}

/// X9, X1: a field that is blank, too long, of another type or contains control characters is refused by its name, and
/// nothing is stored.
#[tokio::test]
async fn x9_malformed_reports_name_their_field_and_leave_nothing() {
    let world = spawn().await;
    world.a.make("spring").await;
    world.b.make("foreign").await;
    let before = world.db.dump_without_clicks().await;
    for (method, path, body, fields) in [
        (Method::POST, "/v1/lifecycle/click", json!({"link_id": "spring"}), &["link_id"][..]),
        (Method::POST, "/v1/lifecycle/attribute", touch("spring", "one"), &["link_id", "install_id", "app_version"]),
        (Method::PUT, "/v1/lifecycle/identify", json!({"install_id": "i", "user_id": "u"}), &["install_id", "user_id"]),
        (Method::PUT, "/v1/attribution/link", json!({"install_id": "i", "user_id": "u"}), &["install_id", "user_id"]),
    ] {
        for field in fields {
            let expected = format!("400 bad_request {field}");
            refused(&world, &method, path, &without(body.clone(), field), &expected).await;
            for value in no_texts(255) {
                refused(&world, &method, path, &with(body.clone(), field, &value), &expected).await;
            }
        }
    }
    let attribute = |path: &str, value: Value| with(touch("spring", "one"), path, &value);
    for value in [json!(5), json!("x"), json!([]), json!(["1.0"]), json!(true)] {
        refused(
            &world,
            &Method::POST,
            "/v1/lifecycle/attribute",
            &attribute("context", value),
            "400 bad_request context",
        )
        .await;
    }
    for field in [
        "app_version",
        "device_manufacturer",
        "device_model",
        "locale",
        "os",
        "os_version",
        "platform",
        "region",
        "timezone",
    ] {
        let path = format!("context.{field}");
        for value in [json!(5), json!({}), json!("a\u{1b}"), json!("x".repeat(256))] {
            let body = attribute(&path, value);
            refused(&world, &Method::POST, "/v1/lifecycle/attribute", &body, &format!("400 bad_request {path}")).await;
        }
    }
    for link in ["foreign", "nowhere", "Spring", "not an id", &"x".repeat(255)] {
        for path in ["/v1/lifecycle/click", "/v1/lifecycle/attribute"] {
            refused(&world, &Method::POST, path, &touch(link, "one"), "404 not_found").await;
        }
    }
    assert_eq!(world.db.dump_without_clicks().await, before);
    // The longest allowed.
    let longest = "é".repeat(255);
    let mut body = touch("spring", &longest);
    body["app_version"] = json!(longest);
    body["context"] = json!({"os": longest, "device_model": null});
    assert_eq!(world.a.post("/v1/lifecycle/attribute", &body).await.status, 200);
    assert_eq!(identify(&world.a, &longest, &longest).await.status, 200);
    world.expect_clicks(&[]).await;
}

/// X11: a repeated member is ambiguous.
#[tokio::test]
async fn x11_repeated_members_are_refused() {
    let world = spawn().await;
    world.a.make("spring").await;
    let before = world.db.dump_without_clicks().await;
    for (method, path, body, expected) in [
        (Method::POST, "/v1/lifecycle/click", r#"{"link_id":"spring","link_id":"spring"}"#, "400 bad_request link_id"),
        (
            Method::POST,
            "/v1/lifecycle/attribute",
            r#"{"link_id":"spring","install_id":"a","install_id":"b","app_version":"1"}"#,
            "400 bad_request install_id",
        ),
        (
            Method::POST,
            "/v1/lifecycle/attribute",
            r#"{"link_id":"spring","install_id":"a","app_version":"1","context":{"os":"a","os":"b"}}"#,
            "400 bad_request os",
        ),
        (
            Method::PUT,
            "/v1/lifecycle/identify",
            r#"{"install_id":"a","user_id":"a","user_id":"b"}"#,
            "400 bad_request user_id",
        ),
        (Method::POST, "/v1/lifecycle/convert", r#"{"user_id":"a","type":"a","type":"b"}"#, "400 parse_error type"),
        (
            Method::POST,
            "/v1/lifecycle/convert",
            r#"{"user_id":"a","type":"a","metadata":{"a":1,"a":2}}"#,
            "400 parse_error metadata",
        ),
    ] {
        let reply = world.a.ask(method, path).body(body).send().await;
        assert_eq!(reply.outcome(), expected, "{body}");
    }
    assert_eq!(world.db.dump_without_clicks().await, before);
}

fn purchase(path: &str, value: &Value) -> Value {
    with(json!({"user_id": "ann", "type": "purchase"}), path, value)
}

async fn parse_errors(world: &World, path: &str, values: &[Value]) {
    for value in values {
        let reply = convert(&world.a, &purchase(path, value)).await;
        assert_eq!(reply.outcome(), format!("400 parse_error {path}"), "{path} {value}");
    }
}

/// C5: amounts are integers within ±(2^53 - 1) in a currency of ISO 4217; times are between 400 days ago and 5 minutes
/// ahead. The default is the service's time.
#[tokio::test]
async fn c5_amounts_currencies_and_times() {
    let world = spawn().await;
    let before = world.db.dump().await;
    let amount = |cents: Value, currency: Value| json!({"user_id": "a", "type": "t", "amount_cents": cents, "currency": currency});
    for cents in [
        json!(1.5),
        json!(5.0),
        json!("5"),
        json!(1_u64 << 53),
        json!(-(1_i64 << 53)),
        json!(u64::MAX),
        json!([]),
        json!(true),
    ] {
        assert_eq!(
            convert(&world.a, &amount(cents.clone(), json!("EUR"))).await.outcome(),
            "400 parse_error amount_cents",
            "{cents}"
        );
    }
    for cents in ["1e400", "9223372036854775808", "-9223372036854775809", "1e2"] {
        let body = format!(r#"{{"user_id":"a","type":"t","currency":"EUR","amount_cents":{cents}}}"#);
        let reply = world.a.ask(Method::POST, "/v1/lifecycle/convert").body(body).send().await;
        assert_eq!(reply.outcome().split(' ').take(2).collect::<Vec<_>>(), ["400", "parse_error"], "{cents}");
    }
    for currency in [json!("usd"), json!("XYZ"), json!("EURO"), json!(""), json!(" EUR"), json!(978), json!(null)] {
        let reply = convert(&world.a, &amount(json!(5), currency.clone())).await;
        assert_eq!(reply.outcome(), "400 parse_error currency", "{currency}");
    }
    parse_errors(&world, "amount_cents", &[]).await;
    assert_eq!(convert(&world.a, &purchase("currency", &json!("EUR"))).await.outcome(), "400 parse_error amount_cents");
    let now = world.clock.now();
    let (earliest, latest) = (now.plus_days(-400), now.plus_millis(300_000));
    parse_errors(
        &world,
        "occurred_at",
        &[
            json!(earliest.plus_millis(-1)),
            json!(latest.plus_millis(1)),
            json!("9999-12-31T23:59:59Z"),
            json!("yesterday"),
            json!("2026-11-20"),
            json!("2026-11-20T09:30:00"),
            json!(1_795_167_000_000_i64),
            json!(""),
            json!({}),
        ],
    )
    .await;
    assert_eq!(world.db.dump().await, before);
    for (cents, currency) in [(0, "EUR"), ((1_i64 << 53) - 1, "JPY"), (1 - (1_i64 << 53), "USD")] {
        assert_eq!(converted(&world.a, &amount(json!(cents), json!(currency))).await, "unattributed");
    }
    for moment in [earliest, latest] {
        assert_eq!(converted(&world.a, &purchase("occurred_at", &json!(moment))).await, "unattributed");
    }
    let at = "SELECT at FROM conversions WHERE conversion_type = 'plain'";
    let plain = json!({"user_id": "a", "type": "plain", "occurred_at": null, "amount_cents": null, "currency": null, "metadata": null, "idempotency_key": null});
    assert_eq!(converted(&world.a, &plain).await, "unattributed");
    assert_eq!(Timestamp::from_millis(world.db.number(at).await), now);
}

/// Every error in a conversion is a `parse_error`, and nothing is stored.
#[tokio::test]
async fn malformed_conversions_are_parse_errors() {
    let world = spawn().await;
    let before = world.db.dump().await;
    let raw = async |body: &[u8]| -> Reply {
        world.a.ask(Method::POST, "/v1/lifecycle/convert").body(body.to_vec()).send().await
    };
    let deep = format!(r#"{{"user_id":"a","type":"t","metadata":{}1{}}}"#, r#"{"a":"#.repeat(40), "}".repeat(40));
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"null",
        b"\"x\"",
        b"{} {}",
        b"{\"user_id\":\"\xff\"}",
        br#"{"user_id":"\ud800"}"#,
        deep.as_bytes(),
    ] {
        assert_eq!(raw(body).await.json()["code"], "parse_error", "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(raw(b"{}").await.outcome(), "400 parse_error user_id");
    assert_eq!(raw(br#"{"user_id":"a"}"#).await.outcome(), "400 parse_error type");
    parse_errors(&world, "user_id", &no_texts(255)).await;
    parse_errors(&world, "type", &no_texts(64)).await;
    parse_errors(&world, "idempotency_key", &no_texts(256)[1..]).await;
    let large = json!({"a": "x".repeat(1_017)});
    assert_eq!(large.to_string().len(), 1_025);
    let many: serde_json::Map<String, Value> = (0..65).map(|at| (at.to_string(), json!(1))).collect();
    parse_errors(
        &world,
        "metadata",
        &[
            json!([]),
            json!("x"),
            json!(5),
            json!([{}]),
            large,
            Value::Object(many),
            json!({"a": "b\u{0}"}),
            json!({"a\n": 1}),
        ],
    )
    .await;
    assert_eq!(world.db.dump().await, before);
    let body = json!({
        "user_id": "é".repeat(255), "type": "é".repeat(64), "idempotency_key": "é".repeat(256),
        "metadata": {"a": "x".repeat(1_016)},
    });
    assert_eq!(converted(&world.a, &body).await, "unattributed");
    assert_eq!(attribute(&world.a, "nowhere", "one").await.outcome(), "404 not_found");
}
