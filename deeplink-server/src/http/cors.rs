//! CORS: pages of other origins may call the operations that accept a publishable key, without cookies.

use axum::body::Body;
use axum::response::Response;
use deeplink_core::routes::{self, Credential, Route};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};

use crate::metrics::RouteName;

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type, idempotency-key");
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Retry-After, X-Request-Id, Idempotency-Replayed, Deprecation, Link");
/// One day.
const MAX_AGE_SECS: HeaderValue = HeaderValue::from_static("86400");

/// The operation of a path, if it allows cross-origin calls.
pub(crate) fn allowed_route(path: &str) -> Option<Route> {
    let is_allowed = |route: &Route| matches!(route.credential, Credential::SdkKey | Credential::PublishableKey);
    routes::ALL.iter().copied().filter(is_allowed).find(|route| route.path == path)
}

/// The response to a preflight request.
pub(crate) fn preflight(route: Route) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.extensions_mut().insert(RouteName(route.path));
    let headers = response.headers_mut();
    let method = HeaderValue::from_static(route.method);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECS);
    response
}

/// Lets pages of any origin read a response.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
}
