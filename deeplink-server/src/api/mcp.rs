//! `POST /mcp`: the tools of `deeplink-mcp` over the streamable HTTP transport of the Model Context Protocol. Each message is
//! answered in JSON, by itself: there are no sessions and no streams.
//!
//! A tool's request passes through the routes of the operations with the credential and address of the message, so that
//! the same rules, limits and records apply. `/mcp` is not among these routes, so that no message can cause another one.

use std::collections::HashSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use deeplink_core::routes::{self, Route};
use deeplink_mcp::{Api, Tools};
use futures_util::FutureExt;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tower::ServiceExt;

use crate::country::Countries;
use crate::error::{ApiError, Record};
use crate::http::auth::LinkWriter;
use crate::http::client_ip::Peer;
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::http::listen::Repeatable;
use crate::http::{NO_STORE, csrf, request_id};
use crate::state::{App, Shared};

/// The path of the endpoint.
pub(crate) const PATH: &str = "/mcp";

/// What a tool's request keeps of the message: who sent it, from where, with what program, whether it is a repetition, and
/// the ID in the log.
const CARRIED: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::USER_AGENT,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("idempotency-key"),
    request_id::HEADER,
];
/// The media types that the transport requires of clients. Responses here are always JSON, so `Accept` is not checked.
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The route, which is no operation: its messages have a protocol of their own. Tools call the operations of the router.
pub(crate) fn route(operations: Router) -> Router<Shared> {
    let answer =
        move |State(app): State<Shared>, request: Request| async move { answer(&app, operations, request).await };
    Router::new().route("/mcp", post(answer))
}

async fn answer(app: &Shared, operations: Router, request: Request) -> Result<Response, ApiError> {
    // The protocol requires this, so that a page that rebinds its name to this address cannot send messages.
    if csrf::is_cross_site(app, request.headers()) {
        return Err(ApiError::csrf_rejected());
    }
    let (mut parts, body) = request.into_parts();
    // A message alone changes nothing. Whether its sender may change something is up to the operation that a tool calls.
    let method = std::mem::replace(&mut parts.method, Method::GET);
    let LinkWriter(_) = LinkWriter::from_request_parts(&mut parts, app).await?;
    parts.method = method;
    let operations = Operations::new(app, operations, &parts)?;
    let has_changed = Arc::clone(&operations.has_changed);
    let tools = Tools::new(operations);
    let message = message(&parts)?;
    let body = json_body(Request::from_parts(parts, body), BODY_LIMIT).await?;
    // The library would refuse what is no JSON object, but not in the form of our errors.
    parse::<Unambiguous>(&body)?;

    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts();
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(tools.clone()), sessions, config);
    let response = service.handle(message.map(|()| Full::new(body))).await;
    let (mut parts, body) = response.into_parts();
    let body = collected(body).await.map_err(|why| ApiError::Internal(format!("a response to a message: {why}")))?;
    if !body.is_empty() && parts.headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
        return Err(refusal(parts.status, &String::from_utf8_lossy(&body)));
    }
    parts.headers.extend([NO_STORE]);
    if !has_changed.load(Ordering::Relaxed) {
        parts.extensions.insert(Repeatable);
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// The head of a message for the library: what the protocol defines, without the credential.
fn message(parts: &Parts) -> Result<http::Request<()>, ApiError> {
    let mut message = http::Request::post(PATH).body(()).map_err(|error| ApiError::Internal(error.to_string()))?;
    let headers = parts.headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
    for (name, value) in headers {
        message.headers_mut().append(name, value.clone());
    }
    // The host was checked before.
    message.headers_mut().extend([
        (header::HOST, HeaderValue::from_static("localhost")),
        (header::ACCEPT, ACCEPTED),
        (header::CONTENT_TYPE, JSON),
    ]);
    Ok(message)
}

/// What the library refuses with a text instead of an error of the protocol.
fn refusal(status: StatusCode, text: &str) -> ApiError {
    match status {
        StatusCode::BAD_REQUEST => ApiError::bad_request(text.trim_start_matches("Bad Request: ")),
        // It could not be read, although it is JSON.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ApiError::bad_request("the body must be one JSON-RPC message of MCP"),
        _ => ApiError::Internal(format!("the MCP library responded with {status}: {text}")),
    }
}

async fn collected(body: impl http_body::Body<Data = Bytes, Error: std::fmt::Display>) -> Result<Bytes, String> {
    body.collect().await.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string())
}

/// Any JSON whose objects have each name once. Of two members with one name, the library would take the last (X11).
struct Unambiguous;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Unambiguous {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            names.insert(name);
            members.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// The operations, called in this process for the sender of a message.
#[derive(Clone)]
struct Operations {
    router: Router,
    headers: HeaderMap,
    peer: Option<Peer>,
    /// Whether an operation was called that may have changed or counted something.
    has_changed: Arc<AtomicBool>,
}

impl Operations {
    fn new(app: &App, router: Router, message: &Parts) -> Result<Self, ApiError> {
        let country = match &app.countries {
            Countries::Header(name) => Some(name),
            Countries::File(_) | Countries::None => None,
        };
        let mut headers = HeaderMap::new();
        for name in CARRIED.iter().chain(country) {
            for value in message.headers.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let host = HeaderValue::from_str(app.public_url.host_str().unwrap_or_default());
        headers.insert(header::HOST, host.map_err(|error| ApiError::Internal(error.to_string()))?);
        Ok(Self { router, headers, peer: message.extensions.get().copied(), has_changed: Arc::default() })
    }
}

impl Api for Operations {
    async fn send(&self, route: Route, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, String> {
        // A click is stored, too.
        if route.method != "GET" || route == routes::RESOLVE {
            self.has_changed.store(true, Ordering::Relaxed);
        }
        let mut request = request.map(Body::from);
        request.headers_mut().extend(self.headers.clone());
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        // The library runs a call in a task of its own, and would wait forever for one that panicked.
        let answer = AssertUnwindSafe(self.router.clone().oneshot(request)).catch_unwind();
        let mut response = match answer.await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => ApiError::Internal("a handler panicked".into()).into_response(),
        };
        let record = response.extensions_mut().remove::<Record>();
        let (parts, body) = response.into_parts();
        let body = match record {
            Some(record) => record.into_bytes(request_id::of(&self.headers).to_str().unwrap_or_default()),
            None => collected(body).await?,
        };
        Ok(http::Response::from_parts(parts, body))
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::*;

    fn operations(router: Router) -> Operations {
        Operations { router, headers: HeaderMap::new(), peer: None, has_changed: Arc::default() }
    }

    async fn sent(operations: &Operations, route: Route) -> (u16, String) {
        let request = http::Request::builder().method(route.method).uri("/r/a").body(Bytes::new());
        let response = operations.send(route, request.expect("a request")).await.expect("a response");
        (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
    }

    /// X3: a handler that panics is an error of one call.
    #[tokio::test]
    async fn x3_a_panic_is_an_error_of_one_call() {
        async fn panics() -> &'static str {
            panic!("a secret of the inside")
        }
        let (status, body) = sent(&operations(Router::new().route("/r/a", get(panics))), routes::GET_LINK).await;
        assert_eq!(status, 500);
        assert!(body.contains("\"code\":\"internal\"") && !body.contains("a secret of the inside"), "{body}");
    }

    /// R4: only what changed or counted nothing can be repeated, and thus be dropped when too much is unread.
    #[tokio::test]
    async fn r4_calls_that_only_read_can_be_repeated() {
        for (route, has_changed) in [
            (routes::LIST_LINKS, false),
            (routes::LINK_QR, false),
            (routes::RESOLVE, true),
            (routes::CREATE_LINK, true),
            (routes::UPDATE_LINK, true),
            (routes::DELETE_LINK, true),
        ] {
            let operations = operations(Router::new());
            assert_eq!(sent(&operations, route).await.0, 404);
            assert_eq!(operations.has_changed.load(Ordering::Relaxed), has_changed, "{}", route.operation);
        }
    }

    /// X11: of two members with one name, none is taken.
    #[test]
    fn x11_repeated_names_are_refused() {
        for (body, field) in [
            (r#"{"a": 1, "b": {"a": [{"c": null}, {"c": -1.5}]}, "c": "a"}"#, None),
            (r#"{"a": 1, "b": 2, "a": 1}"#, Some("a")),
            (r#"{"params": {"arguments": {"web_url": "a", "web_url": "b"}}}"#, Some("web_url")),
            (r#"{"a": [{}, {"b": true, "\u0062": true}]}"#, Some("b")),
        ] {
            let refused = match parse::<Unambiguous>(body.as_bytes()) {
                Ok(_) => None,
                Err(ApiError::Invalid(invalid)) => invalid.field,
                Err(other) => panic!("{body}: {other}"),
            };
            assert_eq!(refused.as_deref(), field, "{body}");
        }
    }
}
