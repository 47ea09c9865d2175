//! A mock transport for tests: prepared responses, and a record of the requests.
//!
//! ```
//! use deeplink_client::mock::{MockTransport, fixtures};
//! use deeplink_client::{Client, CreateLink, SecretKey};
//! use http::Method;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let mock = MockTransport::new()
//!     .on(Method::POST, "/v1/links").status(429).retry_after(0).json(201, fixtures::created_link("spring-42"));
//! let dl = Client::builder("https://api.example.com")
//!     .secret_key(SecretKey::new("dl_live_…"))
//!     .transport(mock.clone())
//!     .build()?;
//! let made = dl.links().create(&CreateLink::new().custom_id("spring-42")).await?;
//! assert_eq!(made.link_id, "spring-42");
//! assert_eq!(mock.calls().len(), 2);
//! mock.assert_used();
//! # Ok::<(), deeplink_client::Error>(()) }).unwrap();
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use serde::Serialize;

use crate::transport::{BodyStream, BoxFuture, Failure, Transport, TransportError};

pub mod fixtures;

/// Prepared responses. Clones share their state.
///
/// Responses of one method and path are given in the order in which they were prepared; the last one repeats.
/// A request without a prepared response panics.
#[derive(Clone, Default)]
pub struct MockTransport(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    routes: Vec<Route>,
    /// The route that responses are being prepared for.
    current: usize,
    calls: Vec<MockCall>,
    unmatched: Vec<String>,
}

struct Route {
    method: Method,
    path: String,
    replies: VecDeque<Reply>,
    used: usize,
    prepared: usize,
}

#[derive(Clone)]
enum Reply {
    Answer { status: StatusCode, headers: HeaderMap, body: Bytes, delay: Duration },
    Fail(Failure),
    Silence,
}

/// A request as it would have gone over the wire.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MockCall {
    /// The method.
    pub method: Method,
    /// The full URL.
    pub uri: http::Uri,
    /// All headers, the credential included.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl MockCall {
    /// A header as text; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
    }
}

impl MockTransport {
    /// A mock without any responses.
    pub fn new() -> Self {
        Self::default()
    }

    fn edit(self, edit: impl FnOnce(&mut State)) -> Self {
        edit(&mut self.lock());
        self
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares the following responses for this method and path. `{…}` in the path matches any one segment; a path with
    /// `?` is compared including the query, one without ignores the query.
    #[must_use]
    pub fn on(self, method: Method, path: &str) -> Self {
        self.edit(|state| {
            let known = state.routes.iter().position(|route| route.method == method && route.path == path);
            state.current = known.unwrap_or_else(|| {
                state.routes.push(Route {
                    method,
                    path: path.to_owned(),
                    replies: VecDeque::new(),
                    used: 0,
                    prepared: 0,
                });
                state.routes.len() - 1
            });
        })
    }

    fn reply(self, reply: Reply) -> Self {
        self.edit(|state| {
            let current = state.current;
            let route = state.routes.get_mut(current).expect("call `on` first: it sets what the response is for");
            route.replies.push_back(reply);
            route.prepared += 1;
        })
    }

    /// A response with a JSON body.
    ///
    /// # Panics
    /// When `body` cannot be written as JSON.
    #[must_use]
    pub fn json(self, status: u16, body: impl Serialize) -> Self {
        let body = serde_json::to_vec(&body).expect("the body can be written as JSON");
        self.bytes(status, "application/json", body)
    }

    /// A response with any body.
    ///
    /// # Panics
    /// When `status` is not an HTTP status.
    #[must_use]
    pub fn bytes(self, status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let status = StatusCode::from_u16(status).expect("an HTTP status");
        let answer = Reply::Answer { status, headers: HeaderMap::new(), body: body.into(), delay: Duration::ZERO };
        if content_type.is_empty() {
            self.reply(answer)
        } else {
            self.reply(answer).header("content-type", content_type)
        }
    }

    /// A response without a body.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        self.bytes(status, "", Bytes::new())
    }

    /// Adds a header to the last response.
    ///
    /// # Panics
    /// When the name or the value is not valid in a header.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.edit(|state| {
            let current = state.current;
            if let Some(Reply::Answer { headers, .. }) = state.routes[current].replies.back_mut() {
                let name: HeaderName = name.parse().expect("the name of a header");
                headers.insert(name, HeaderValue::try_from(value).expect("the value of a header"));
            }
        })
    }

    /// Adds `Retry-After` in seconds to the last response.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.header("retry-after", &seconds.to_string())
    }

    /// Delays the last response.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        self.edit(|state| {
            let current = state.current;
            if let Some(Reply::Answer { delay, .. }) = state.routes[current].replies.back_mut() {
                *delay = wait;
            }
        })
    }

    /// A timeout instead of a response.
    #[must_use]
    pub fn timeout(self) -> Self {
        self.reply(Reply::Fail(Failure::Timeout))
    }

    /// A broken connection instead of a response.
    #[must_use]
    pub fn reset(self) -> Self {
        self.reply(Reply::Fail(Failure::Broken))
    }

    /// A failed connection instead of a response.
    #[must_use]
    pub fn unreachable(self) -> Self {
        self.reply(Reply::Fail(Failure::Connect))
    }

    /// A response that never arrives.
    #[must_use]
    pub fn silence(self) -> Self {
        self.reply(Reply::Silence)
    }

    /// Every request so far.
    pub fn calls(&self) -> Vec<MockCall> {
        self.lock().calls.clone()
    }

    /// Asserts that every prepared response has been given.
    ///
    /// # Panics
    /// When one has not, or when a request had no prepared response.
    pub fn assert_used(&self) {
        let state = self.lock();
        assert!(state.unmatched.is_empty(), "no response was prepared for {:?}", state.unmatched);
        for route in &state.routes {
            let (method, path, used, prepared) = (&route.method, &route.path, route.used, route.prepared);
            assert!(
                used >= prepared,
                "{method} {path}: {prepared} responses were prepared, but {used} requests were received"
            );
        }
    }

    /// Asserts how many requests with this method and path were received.
    ///
    /// # Panics
    /// When the number differs.
    pub fn assert_calls(&self, method: &Method, path: &str, expected: usize) {
        let state = self.lock();
        let came = state.calls.iter().filter(|call| call.method == method && matches(path, call.path())).count();
        assert_eq!(came, expected, "requests of {method} {path}");
    }
}

/// Whether a request's path matches a pattern.
fn matches(pattern: &str, asked: &str) -> bool {
    if pattern.contains('?') {
        return pattern == asked;
    }
    let path = asked.split('?').next().unwrap_or_default();
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(wanted), Some(segment)) if wanted == segment => {}
            (Some(wanted), Some(segment)) if wanted.starts_with('{') && !segment.is_empty() => {}
            _ => return false,
        }
    }
}

impl Transport for MockTransport {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<BodyStream>, TransportError>> {
        let (parts, body) = request.into_parts();
        let call = MockCall { method: parts.method, uri: parts.uri, headers: parts.headers, body };
        let mut state = self.lock();
        let asked = call.path().to_owned();
        let route = state
            .routes
            .iter_mut()
            .filter(|route| route.method == call.method && matches(&route.path, &asked))
            .max_by_key(|route| (route.path.contains('?'), !route.path.contains('{')));
        let reply = route.and_then(|route| {
            route.used += 1;
            if route.replies.len() > 1 { route.replies.pop_front() } else { route.replies.front().cloned() }
        });
        let label = format!("{} {asked}", call.method);
        if reply.is_none() {
            state.unmatched.push(label.clone());
        }
        state.calls.push(call);
        drop(state);
        let reply = reply.unwrap_or_else(|| panic!("no response was prepared for {label}"));
        Box::pin(async move {
            match reply {
                Reply::Answer { status, headers, body, delay } => {
                    tokio::time::sleep(delay).await;
                    let body: BodyStream = Box::pin(stream::iter([Ok(body)]));
                    let mut response = Response::new(body);
                    *response.status_mut() = status;
                    *response.headers_mut() = headers;
                    Ok(response)
                }
                Reply::Fail(failure) => Err(TransportError::new(failure, "prepared by the mock")),
                Reply::Silence => std::future::pending().await,
            }
        })
    }
}

impl std::fmt::Debug for MockTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockTransport").field("calls", &self.lock().calls.len()).finish_non_exhaustive()
    }
}

/// Runs an example of the documentation against a mock that responds to every operation with its fixture.
#[doc(hidden)]
pub fn example<F>(run: impl FnOnce(crate::Client) -> F)
where
    F: Future<Output = Result<(), Box<dyn std::error::Error>>>,
{
    let mock = fixtures::every_operation();
    let client = crate::Client::builder("https://api.example.com")
        .secret_key(crate::SecretKey::new("dl_live_…"))
        .transport(mock)
        .build()
        .expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(client)).expect("the example runs");
}
