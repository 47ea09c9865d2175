//! What holds for every answer to any request. Each answer that a test sees passes through here.

use deeplink_core::error::ErrorCode;
use deeplink_core::routes::{self, Credential};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde_json::Value;

use super::operations;

/// Fails unless an answer keeps the promises that all answers make.
pub(crate) fn check(
    method: &Method,
    uri: &Uri,
    asked_host: Option<&str>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) {
    let path = uri.path();
    let what =
        format!("{method} {path} -> {status} {headers:?} {}", String::from_utf8_lossy(&body[..body.len().min(600)]));
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().expect("a header is ASCII"));
    let is_html = text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html"));
    let own_host = asked_host.is_none_or(|host| host == "localhost");
    let is_visit = path.starts_with("/r/") || !own_host;
    let is_account =
        own_host && is_html && (matches!(path, "/signin" | "/signin/once") || path.starts_with("/account"));

    // X12: nosniff everywhere; pages run only what their nonce or hash names and cannot be framed.
    assert_eq!(text(header::X_CONTENT_TYPE_OPTIONS), Some("nosniff"), "{what}");
    assert!(headers.contains_key("x-request-id"), "{what}");
    if is_html {
        let policy = text(header::CONTENT_SECURITY_POLICY).unwrap_or_default();
        // The documentation is rendered once, so its style is named by a hash.
        let may_be_hash = status == StatusCode::OK || policy.contains("'sha256-");
        let is_docs = own_host && path.starts_with("/docs") && may_be_hash;
        let named = if is_docs { "'sha256-" } else { "'nonce-" };
        for part in ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", named] {
            assert!(policy.contains(part), "{part} {what}");
        }
    }
    // X13: a web page of another origin may read what is public anyway, and every answer to what it reports with a
    // publishable key.
    let is_open = own_host && is_of_pages(path);
    assert!(!is_open || headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), "{what}");
    if headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        let is_description = own_host && path == "/openapi.json";
        assert!(is_open || is_description || is_visit && !is_html && status != StatusCode::FOUND, "{what}");
        assert_eq!(text(header::ACCESS_CONTROL_ALLOW_ORIGIN), Some("*"), "{what}");
        assert!(!headers.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS), "{what}");
    }
    // The association files are the same operation on every host.
    if (own_host || path.starts_with("/.well-known/"))
        && status != StatusCode::METHOD_NOT_ALLOWED
        && let Some(operation) = operations::of(method, path)
    {
        assert!(operation.statuses.contains(&status.as_u16()), "this status is not documented: {what}");
        operations::met(operation, status);
    }
    if *method == Method::HEAD {
        assert!(body.is_empty(), "an answer to HEAD has no body: {what}");
    }
    // X8: an answer that asks for a retry says when, in whole seconds.
    let code = if status.as_u16() >= 400 {
        let is_missing = is_html && status == StatusCode::NOT_FOUND;
        let is_page = is_visit && is_html || is_account || is_missing;
        error_code(method, is_page, path == "/mcp", status, headers, body, &what)
    } else {
        None
    };
    // A page has no error code; it says in words what is not configured.
    let is_not_set_up = code.as_ref().is_some_and(ErrorCode::is_not_configured)
        || is_account && String::from_utf8_lossy(body).contains("is not set up on this service");
    let retryable =
        status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE && !is_not_set_up;
    if retryable {
        let seconds: u64 = text(header::RETRY_AFTER).and_then(|wait| wait.parse().ok()).unwrap_or(0);
        assert!(seconds >= 1, "{what}");
    }
    if status == StatusCode::UNAUTHORIZED {
        assert_eq!(text(header::WWW_AUTHENTICATE), Some("Bearer"), "{what}");
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        assert!(text(header::ALLOW).is_some_and(|methods| !methods.is_empty()), "{what}");
    }
    if status == StatusCode::CREATED {
        assert!(headers.contains_key(header::LOCATION), "{what}");
    }
}

/// Whether an operation accepts a publishable key.
fn is_of_pages(path: &str) -> bool {
    let takes_one = |credential| matches!(credential, Credential::SdkKey | Credential::PublishableKey);
    routes::ALL.iter().any(|route| route.path == path && takes_one(route.credential))
}

/// X1: an error is JSON with a known code that has this status; only visits, and unknown paths to a browser, answer with
/// pages instead.
fn error_code(
    method: &Method,
    is_page: bool,
    is_mcp: bool,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    what: &str,
) -> Option<ErrorCode> {
    assert_ne!(status, StatusCode::UNPROCESSABLE_ENTITY, "{what}");
    if is_page || *method == Method::HEAD {
        return None;
    }
    assert_eq!(headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes), Some(&b"application/json"[..]), "{what}");
    let record: Value = serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {what}"));
    // An error of MCP, which has a form of its own.
    if is_mcp && record["jsonrpc"] == "2.0" {
        return None;
    }
    let code = ErrorCode::from(record["code"].as_str().unwrap_or_else(|| panic!("no code: {what}")));
    assert_eq!(code.status(), Some(status.as_u16()), "{what}");
    assert!(record["error"].as_str().is_some_and(|text| !text.is_empty()), "{what}");
    assert_eq!(
        record["request_id"].as_str().map(str::as_bytes),
        headers.get("x-request-id").map(HeaderValue::as_bytes),
        "{what}"
    );
    // X2: internal failures are not disclosed.
    if status.is_server_error() {
        let keys: Vec<_> = record.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["error", "code", "request_id"], "{what}");
        let said = record["error"].as_str().unwrap_or_default().to_ascii_lowercase();
        for word in ["sql", "select", "insert", "table", "postgres", "panic", "/", "127.0.0.1"] {
            assert!(!said.contains(word), "{word}: {what}");
        }
    }
    Some(code)
}
