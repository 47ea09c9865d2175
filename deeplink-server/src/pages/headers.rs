//! Responses of the pages on the service's own host, and their headers.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::secret::Random;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

use super::PageResult;
use crate::error::ApiError;
pub(super) use crate::http::redirect::see_other;
use crate::state::App;

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// The URL of such a page can hold a token, which must not reach other sites.
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// A new nonce: 128 bits in base64.
pub(crate) fn nonce(app: &App) -> String {
    STANDARD.encode(app.random(Random::bytes::<16>))
}

/// The headers of every page; `nonce` is fresh for each response and is the one given to its template. No script runs
/// and nothing is fetched from other hosts. Browsers also apply `form-action` to redirects after a form;
/// `forms_lead_to` has further sources for it, each after a space.
pub(crate) fn headers(app: &App, nonce: &str, forms_lead_to: &str) -> [(HeaderName, HeaderValue); 6] {
    let website = app.config.marketing_url_at(&app.public_url).origin().ascii_serialization();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; img-src 'self' data:; form-action 'self' {website}{forms_lead_to}; \
         base-uri 'none'; frame-ancestors 'none'"
    );
    // A nonce is base64. If it ever were something else, nothing would be allowed rather than everything.
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

/// A page as a response; `render` is given the nonce.
pub(crate) fn page(app: &App, status: StatusCode, render: impl FnOnce(&str) -> askama::Result<String>) -> Response {
    let nonce = nonce(app);
    match render(&nonce) {
        Ok(page) => {
            let mut response = Response::new(Body::from(page));
            *response.status_mut() = status;
            response.headers_mut().extend(headers(app, &nonce, ""));
            response
        }
        Err(error) => ApiError::Internal(error.to_string()).into_response(),
    }
}

/// The response to a form that deletes: a redirect to the list with a notice. It is no error if the thing no longer
/// exists: the form may have been submitted twice.
pub(super) fn after_deletion(deleted: Result<(), ApiError>, list: &str, done: &str) -> PageResult {
    match deleted {
        Ok(()) => Ok(see_other(&format!("{list}?done={done}"))),
        Err(error) if error.is_not_found() => Ok(see_other(&format!("{list}?done=gone"))),
        Err(error) => Err(error),
    }
}
