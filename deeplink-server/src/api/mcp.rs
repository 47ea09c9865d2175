//! `POST /mcp`: the tools of `deeplink-mcp` over the streamable HTTP transport of the Model Context Protocol. Each message is
//! answered in JSON, by itself: there are no sessions and no streams.
//!
//! A tool's request passes through the routes of the operations with the credential and address of the message, so that
//! the same rules, limits and records apply. `/mcp` is not among these routes, so that no message can cause another one.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use deeplink_core::routes::Route;
use deeplink_mcp::{Api, Tools};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use tower::ServiceExt;

use crate::error::{ApiError, Record};
use crate::http::auth::LinkWriter;
use crate::http::client_ip::Peer;
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::http::{NO_STORE, csrf, request_id};
use crate::state::{App, Shared};

/// The path of the endpoint.
pub(crate) const PATH: &str = "/mcp";

/// What a tool's request keeps of the message: who sent it, from where, with what program, and the ID in the log.
const CARRIED: [HeaderName; 4] =
    [header::AUTHORIZATION, header::USER_AGENT, HeaderName::from_static("x-forwarded-for"), request_id::HEADER];
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
    let tools = Tools::new(Operations::new(app, operations, &parts)?);
    let message = message(&parts)?;
    let body = json_body(Request::from_parts(parts, body), BODY_LIMIT).await?;
    // The library would refuse what is no JSON object, but not in the form of our errors.
    parse::<IgnoredAny>(&body)?;

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

/// The operations, called in this process for the sender of a message.
#[derive(Clone)]
struct Operations {
    router: Router,
    headers: HeaderMap,
    peer: Option<Peer>,
}

impl Operations {
    fn new(app: &App, router: Router, message: &Parts) -> Result<Self, ApiError> {
        let mut headers = HeaderMap::new();
        for name in CARRIED {
            for value in message.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        let host = HeaderValue::from_str(app.public_url.host_str().unwrap_or_default());
        headers.insert(header::HOST, host.map_err(|error| ApiError::Internal(error.to_string()))?);
        Ok(Self { router, headers, peer: message.extensions.get().copied() })
    }
}

impl Api for Operations {
    async fn send(&self, _route: Route, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, String> {
        let mut request = request.map(Body::from);
        request.headers_mut().extend(self.headers.clone());
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        let mut response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
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
