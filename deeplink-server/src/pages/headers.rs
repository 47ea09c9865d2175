//! Responses of the pages on the service's own host, and their headers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::secret::Random;
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
pub(super) fn nonce(app: &App) -> String {
    STANDARD.encode(app.random(Random::bytes::<16>))
}

/// What a page may do besides showing itself.
pub(super) struct Allowed<'a> {
    /// Whether the script with the page's nonce runs.
    pub(super) script: bool,
    /// Whether that script may send requests to this service.
    pub(super) connect: bool,
    /// Where forms may redirect to besides this service and its website, each after a space. Browsers apply
    /// `form-action` to redirects after a form too.
    pub(super) forms_lead_to: &'a str,
}

/// The headers of every page; `nonce` is fresh for each response and is the one given to its template. Nothing is
/// fetched from other hosts.
pub(super) fn headers(app: &App, nonce: &str, allowed: &Allowed<'_>) -> [(HeaderName, HeaderValue); 6] {
    let Allowed { script, connect, forms_lead_to } = allowed;
    let website = app.config.marketing_url_at(&app.public_url).origin().ascii_serialization();
    let scripts = if *script { format!("script-src 'nonce-{nonce}'; ") } else { String::new() };
    let requests = if *connect { "connect-src 'self'; " } else { "" };
    let policy = format!(
        "default-src 'none'; {scripts}{requests}style-src 'nonce-{nonce}'; img-src 'self' data:; \
         form-action 'self' {website}{forms_lead_to}; base-uri 'none'; frame-ancestors 'none'"
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

/// The response to a form that deletes: a redirect to the list with a notice. It is no error if the thing no longer
/// exists: the form may have been submitted twice.
pub(super) fn after_deletion(deleted: Result<(), ApiError>, list: &str, done: &str) -> PageResult {
    match deleted {
        Ok(()) => Ok(see_other(&format!("{list}?done={done}"))),
        Err(error) if error.is_not_found() => Ok(see_other(&format!("{list}?done=gone"))),
        Err(error) => Err(error),
    }
}
