//! Which operations pages of other origins may call: those that a publishable key reaches, which every page can carry.
//! Browsers send no cookie along, and are not asked to.

use axum::body::Body;
use axum::response::Response;
use deeplink_core::routes::{self, Credential, Route};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};

use crate::service::RouteName;

const ANYBODY: HeaderValue = HeaderValue::from_static("*");
const MAY_SEND: HeaderValue = HeaderValue::from_static("authorization, content-type, idempotency-key");
const MAY_READ: HeaderValue =
    HeaderValue::from_static("Retry-After, X-Request-Id, Idempotency-Replayed, Deprecation, Link");
const DAY: HeaderValue = HeaderValue::from_static("86400");

/// The operation of a path, if pages of other origins may call it.
pub(crate) fn open(path: &str) -> Option<Route> {
    let of_pages = |route: &Route| matches!(route.credential, Credential::SdkKey | Credential::PublishableKey);
    routes::ALL.iter().copied().filter(of_pages).find(|route| route.path == path)
}

/// What a browser asks before it lets a page call.
pub(crate) fn preflight(route: Route) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.extensions_mut().insert(RouteName(route.path));
    let headers = response.headers_mut();
    let method = HeaderValue::from_static(route.method);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, MAY_SEND);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, DAY);
    response
}

/// Lets pages of every origin read an answer.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYBODY);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, MAY_READ);
}
