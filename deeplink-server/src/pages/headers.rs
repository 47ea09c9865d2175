//! What all pages of the service's own host go out with, and how they go out.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::secret::Random;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

use crate::error::ApiError;
use crate::state::App;

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// An address of these pages can hold a token, so no other site learns it.
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// A new nonce: 128 bits in base64.
pub(crate) fn nonce(app: &App) -> String {
    STANDARD.encode(app.random(Random::bytes::<16>))
}

/// The headers of every page; `nonce` is fresh for each answer and is the one given to its template. Nothing runs and
/// nothing is fetched from elsewhere. Browsers apply `form-action` to where the answer to a form leads, too.
pub(crate) fn headers(app: &App, nonce: &str) -> [(HeaderName, HeaderValue); 6] {
    let website = app.config.marketing_url_at(&app.public_url).origin().ascii_serialization();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; img-src 'self' data:; form-action 'self' {website}; \
         base-uri 'none'; frame-ancestors 'none'"
    );
    // A nonce is base64. Should it ever be something else, nothing is allowed rather than everything.
    let policy = HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, NO_STORE),
        (REFERRER_POLICY, SAME_ORIGIN),
        (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]
}

/// A page as an answer; `render` is given the nonce.
pub(crate) fn page(app: &App, status: StatusCode, render: impl FnOnce(&str) -> askama::Result<String>) -> Response {
    let nonce = nonce(app);
    match render(&nonce) {
        Ok(page) => {
            let mut response = Response::new(Body::from(page));
            *response.status_mut() = status;
            response.headers_mut().extend(headers(app, &nonce));
            response
        }
        Err(error) => ApiError::Internal(error.to_string()).into_response(),
    }
}

/// The answer to a form that deletes: the list, with a word for what happened. What is not there any more needs no
/// second look: a button that was pressed twice did what it was pressed for.
pub(super) fn after_deletion(deleted: Result<(), ApiError>, list: &str, done: &str) -> Result<Response, ApiError> {
    match deleted {
        Ok(()) => Ok(see_other(&format!("{list}?done={done}"))),
        Err(error) if error.is_not_found() => Ok(see_other(&format!("{list}?done=gone"))),
        Err(error) => Err(error),
    }
}

/// The answer to a form: where its browser goes next.
pub(crate) fn see_other(location: &str) -> Response {
    let Ok(location) = HeaderValue::try_from(location) else {
        return ApiError::Internal("a place to go to is no header text".into()).into_response();
    };
    (StatusCode::SEE_OTHER, [(LOCATION, location), (CACHE_CONTROL, NO_STORE), (REFERRER_POLICY, SAME_ORIGIN)])
        .into_response()
}
