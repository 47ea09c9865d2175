//! Health checks, and the small files that crawlers and security researchers look for.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::health::Health;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use lettre::message::Mailbox;
use url::Url;

use crate::db::vault_check;
use crate::error::ApiError;
use crate::http::fixed::Fixed;
use crate::state::{App, Shared};

/// Reports whether the process is responding.
///
/// Does not query the database, so it distinguishes a stuck process from a database outage.
#[utoipa::path(
    get, path = "/health", operation_id = "health", tag = "service",
    responses((status = 200, description = "The process is responding", body = Health))
)]
pub(crate) async fn health() -> Json<Health> {
    Json(Health::new("ok"))
}

/// Reports whether requests can be served: the database responds and the process is not shutting down.
#[utoipa::path(
    get, path = "/ready", operation_id = "ready", tag = "service",
    responses(
        (status = 200, description = "Ready", body = Health),
        (status = 503, description = "Not ready", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn ready(State(app): State<Shared>) -> Result<Json<Health>, ApiError> {
    readiness(&app).await
}

/// The answer of `/ready`, on either listener.
pub(crate) async fn readiness(app: &App) -> Result<Json<Health>, ApiError> {
    if app.stopping.load(Ordering::Relaxed) {
        return Err(ApiError::Plain(ErrorCode::DatabaseUnavailable, "the service is stopping"));
    }
    let read = async { vault_check::find(&mut app.db.read().await?.conn()).await };
    match tokio::time::timeout(app.config.database_timeout, read).await {
        Ok(Ok(_)) => Ok(Json(Health::new("ready"))),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ApiError::Plain(ErrorCode::DatabaseUnavailable, "the database is not responding")),
    }
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Files that are not operations.
pub(crate) fn files() -> Router<Shared> {
    Router::new().route("/robots.txt", get(robots)).route("/.well-known/security.txt", get(security))
}

/// Links may be crawled, so that their previews work, and so may the documentation, which `/llms.txt` refers to; the API is not for
/// indexing.
static ROBOTS: LazyLock<Fixed> = LazyLock::new(|| {
    Fixed::new("User-agent: *\nAllow: /r/\nAllow: /docs\nDisallow: /docs/search\nDisallow: /v1/\n", TEXT)
        .with(CACHE_CONTROL, AN_HOUR)
});

async fn robots(asked: HeaderMap) -> Response {
    ROBOTS.answer(&asked)
}

/// Where to report a vulnerability (RFC 9116).
async fn security(State(app): State<Shared>) -> Response {
    const DAY: i64 = 86_400_000;
    // A future time that stays the same for a day, so that caches agree.
    let now = app.clock.now();
    let expires = now.plus_millis(-now.as_millis().rem_euclid(DAY)).plus_days(365);
    let contact = contact(app.config.mail_from.as_ref(), &app.public_url);
    let base = app.public_url.as_str().trim_end_matches('/');
    let body = format!(
        "Contact: mailto:{contact}\nExpires: {expires}\nPreferred-Languages: en\n\
         Canonical: {base}/.well-known/security.txt\n"
    );
    ([(CONTENT_TYPE, TEXT), (CACHE_CONTROL, AN_HOUR)], body).into_response()
}

/// The operator's address for mails, else the mailbox that RFC 2142 reserves for this.
fn contact(mail_from: Option<&Mailbox>, public_url: &Url) -> String {
    match mail_from {
        Some(from) => from.email.to_string(),
        None => format!("security@{}", public_url.domain().unwrap_or("localhost")),
    }
}
