//! One request from its head to its response: which half of the service handles it, and what every response carries.
//!
//! Visits bypass the router: they are most of the traffic, and only their path is matched. Everything else is in the
//! route table of `routes.rs`.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::ErrorCode;
use deeplink_core::x402::{RECEIPT_V1, RECEIPT_V2};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use tower::ServiceExt;

use crate::api::earlier;
use crate::error::{ApiError, Record};
use crate::http::anonymous::Anonymous;
use crate::http::client_ip::Peer;
use crate::http::listen::{Excess, Repeatable, RequestBody, StrangersLimits, Unread};
use crate::http::{cors, host, request_id};
use crate::metrics::RouteName;
use crate::state::{App, Shared};
use crate::visit::{self, VisitedHost, association, challenge};

/// The service of one connection.
#[derive(Clone)]
pub(crate) struct Service {
    app: Shared,
    router: Router,
    peer: IpAddr,
    unread: Unread,
}

impl Service {
    pub(crate) fn new(app: Shared, router: Router, peer: SocketAddr, unread: Unread) -> Self {
        Self { app, router, peer: peer.ip(), unread }
    }
}

impl hyper::service::Service<Request<RequestBody>> for Service {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, request: Request<RequestBody>) -> Self::Future {
        let app = Arc::clone(&self.app);
        let peer = self.peer;
        let unread = self.unread.clone();
        if request.uri().path().starts_with("/r/") {
            return async move {
                let (parts, _) = request.into_parts();
                let answer = async {
                    match unread.turn().await {
                        Ok(()) => visit::answer(&app, peer, &parts).await,
                        Err(excess) => too_much_unread(excess).into_response(),
                    }
                };
                Ok(visited(&app, &unread, &parts.headers, answer).await)
            }
            .boxed();
        }
        let router = self.router.clone();
        async move {
            let (parts, body) = request.into_parts();
            let place = match unread.turn().await {
                Ok(()) => place(&app, peer, &parts).await,
                Err(excess) => Err(too_much_unread(excess)),
            };
            match place {
                Ok(place @ VisitedHost::Custom(_)) if is_visit(&parts.method, parts.uri.path()) => {
                    let answer = visit::answer_at(&app, peer, &parts, Ok(place));
                    Ok(visited(&app, &unread, &parts.headers, answer).await)
                }
                place => {
                    let answer = rest(app, router, peer, parts, body, place, &unread);
                    Ok(answer.await)
                }
            }
        }
        .boxed()
    }
}

/// A visit has no log line: there are too many of them, and each is a row in the click log.
async fn visited(app: &App, unread: &Unread, headers: &HeaderMap, answer: impl Future<Output = Response>) -> Response {
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    let response = answer.unwrap_or_else(|_| panicked().into_response());
    // Its click is stored, so it is sent however much is unread.
    let response = unread.admit(response, false).unwrap_or_else(|excess| too_much_unread(excess).into_response());
    app.metrics.visit(response.status());
    dressed(app, response, request_id::of(headers))
}

/// Whose host the request names. `/health` is the same on all hosts, so that probes can use addresses.
async fn place(app: &App, peer: IpAddr, parts: &Parts) -> Result<VisitedHost, ApiError> {
    if parts.uri.path() == "/health" { Ok(VisitedHost::Service) } else { visit::visited_host(app, peer, parts).await }
}

/// Whether a request on a tenant's host is for a link, or looks like one: a person then sees a page.
fn is_visit(method: &Method, path: &str) -> bool {
    let is_top_level = path.strip_prefix('/').is_some_and(|segment| !segment.contains('/'));
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_top_level || (is_read && path.starts_with('/') && !path.starts_with("/.well-known/"))
}

fn too_much_unread(excess: Excess) -> ApiError {
    let message = match excess {
        Excess::OfAddress => "too many unread responses for your IP address; read them first",
        Excess::OfAccount => "too many unread responses for your account; read them first",
        Excess::OfAll => "the server is holding too many unread responses",
    };
    ApiError::TryLater(ErrorCode::Overloaded, message, 1)
}

fn panicked() -> ApiError {
    ApiError::Internal("a handler panicked".into())
}

/// Everything but visits: a tenant's host serves its association files, every other host the API.
async fn rest(
    app: Shared,
    router: Router,
    peer: IpAddr,
    mut parts: Parts,
    body: RequestBody,
    place: Result<VisitedHost, ApiError>,
    unread: &Unread,
) -> Response {
    let started = app.clock.monotonic_millis();
    let id = request_id::of(&parts.headers);
    let method = parts.method.clone();
    // A tenant's host has none of these paths.
    let is_ours = !matches!(place, Ok(VisitedHost::Custom(_)));
    let open = cors::allowed_route(parts.uri.path()).filter(|_| is_ours);
    let successor = earlier::successor(parts.uri.path()).filter(|_| is_ours);
    let limits = parts.extensions.remove::<StrangersLimits>();
    let anonymous = Anonymous::new(&app.anonymous_bodies, unread.share(), limits);
    let holder = Arc::clone(anonymous.holder());
    let span = tracing::info_span!("request", request_id = id.to_str().unwrap_or_default());
    let answer = async {
        if let Err(error) = host::at_most_one(&parts.headers) {
            return error.into_response();
        }
        if let Some(answer) = challenge::answer(&app, peer, &parts).await {
            return answer;
        }
        match place {
            Err(error) => error.into_response(),
            // CONNECT names no path that the router could match.
            Ok(_) if parts.method == Method::CONNECT => ApiError::MethodNotAllowed(Some("GET, HEAD")).into_response(),
            Ok(place @ VisitedHost::Custom(_))
                if matches!(parts.uri.path(), association::APPLE | association::GOOGLE) =>
            {
                association::answer(&app, &place, &parts).boxed().await
            }
            Ok(VisitedHost::Custom(_)) => ApiError::not_found().into_response(),
            Ok(VisitedHost::Service | VisitedHost::Unknown) => {
                parts.extensions.insert(anonymous);
                if let Some(route) = open.filter(|_| parts.method == Method::OPTIONS) {
                    return cors::preflight(route);
                }
                parts.extensions.insert(Peer(peer));
                // So that inner layers use the same request id.
                parts.headers.insert(request_id::HEADER, id.clone());
                let request = Request::from_parts(parts, Body::new(body));
                match router.oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
        }
    };
    use tracing::Instrument;
    let response = AssertUnwindSafe(answer.instrument(span.clone())).catch_unwind().await;
    let response = span.in_scope(|| response.unwrap_or_else(|_| panicked().into_response()));
    // Only where nothing was changed or paid for, so that the request can be repeated.
    let is_paid = [RECEIPT_V1, RECEIPT_V2].iter().any(|name| response.headers().contains_key(*name));
    let changed_nothing = matches!(method, Method::GET | Method::HEAD)
        || response.status().is_client_error()
        || response.extensions().get::<Repeatable>().is_some();
    let may_drop = changed_nothing && !is_paid;
    let admitted = unread.of(holder.get()).admit(response, may_drop);
    let mut response = admitted.unwrap_or_else(|excess| too_much_unread(excess).into_response());
    if open.is_some() {
        cors::allow(response.headers_mut());
    }
    if let Some(successor) = successor {
        earlier::mark(&mut response, successor);
    }
    let millis = app.clock.monotonic_millis().saturating_sub(started);
    let route = response.extensions().get::<RouteName>().map_or("other", |route| route.0);
    app.metrics.request(&method, route, response.status(), millis);
    span.in_scope(|| tracing::info!(%method, route, status = response.status().as_u16(), millis, "responded"));
    dressed(&app, response, id)
}

const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds what every response carries.
fn dressed(app: &App, mut response: Response, id: HeaderValue) -> Response {
    if let Some(record) = response.extensions_mut().remove::<Record>() {
        let body = record.into_bytes(id.to_str().unwrap_or_default());
        response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
        *response.body_mut() = Body::from(body);
    }
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    if app.is_https {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::watch;

    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::http::listen::{self, Limits, Stop};
    use crate::start::start;

    /// Sends one request and reads one answer, on a connection that stays.
    async fn exchange(socket: &mut TcpStream, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("the request goes out");
        let (mut answer, mut chunk) = (String::new(), [0; 1024]);
        loop {
            let read = tokio::time::timeout(Duration::from_secs(5), socket.read(&mut chunk)).await;
            let read = read.expect("an answer in time").expect("an answer");
            assert_ne!(read, 0, "the connection was closed: {answer}");
            answer.push_str(&String::from_utf8_lossy(&chunk[..read]));
            if let Some((_, body)) = answer.split_once("\r\n\r\n")
                && body.ends_with('}')
            {
                return answer;
            }
        }
    }

    /// R4: a refusal for unread responses says whose they are, and when to retry.
    #[test]
    fn r4_refusals_say_who_must_read() {
        for (excess, message) in [
            (Excess::OfAddress, "too many unread responses for your IP address; read them first; try again in 1 s"),
            (Excess::OfAccount, "too many unread responses for your account; read them first; try again in 1 s"),
            (Excess::OfAll, "the server is holding too many unread responses; try again in 1 s"),
        ] {
            let refused = too_much_unread(excess);
            assert_eq!((refused.to_string().as_str(), refused.status().as_u16()), (message, 503));
            assert_eq!(refused.retry_after(), Some(1));
        }
    }

    /// X3: a handler that panics is a 500 with our record; the process and the connection live.
    #[tokio::test]
    async fn x3_a_panic_is_an_error_of_one_request() {
        let home = tempfile::tempdir().expect("a directory");
        let running = start(Config::for_tests(home.path()), Clock::system()).await.expect("the service starts");
        async fn panics() -> &'static str {
            panic!("a secret of the inside")
        }
        let router = Router::new().route("/v1/panic", get(panics)).route("/v1/fine", get(|| async { "{}" }));
        let listener = listen::bind(([127, 0, 0, 1], 0).into()).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, stopping) = watch::channel(Stop::Not);
        let app = Arc::clone(running.app());
        let serving = tokio::spawn(async move {
            listen::serve(listener, Limits::default(), stopping, |peer, unread| {
                Service::new(Arc::clone(&app), router.clone(), peer, unread)
            })
            .await
        });

        let mut socket = TcpStream::connect(address).await.expect("a connection");
        for _ in 0..3 {
            let answer = exchange(&mut socket, "/v1/panic").await;
            assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("\"code\":\"internal\""), "{answer}");
            assert!(!answer.contains("a secret of the inside"), "{answer}");
            assert!(exchange(&mut socket, "/v1/fine").await.starts_with("HTTP/1.1 200 "));
        }
        stop.send_replace(Stop::AtOnce);
        serving.await.expect("the listener ends");
        running.ask_to_stop(Stop::AtOnce);
        running.stopped().await;
    }
}
