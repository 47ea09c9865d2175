//! The script with which pages report events, and its types.

use std::sync::LazyLock;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::header::{CACHE_CONTROL, HeaderName};
use http::{HeaderMap, HeaderValue};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::fixed::Fixed;
use crate::state::Shared;

/// A file that pages of any origin can load, even with a strict cross-origin policy.
fn file(text: &'static str, media_type: &'static str) -> Fixed {
    Fixed::new(text, HeaderValue::from_static(media_type))
        .with(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"))
        .with(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin"))
}

static SCRIPT: LazyLock<Fixed> =
    LazyLock::new(|| file(include_str!("../../../sdk/deeplink.js"), "text/javascript; charset=utf-8"));
static TYPES: LazyLock<Fixed> =
    LazyLock::new(|| file(include_str!("../../../sdk/deeplink.d.ts"), "text/plain; charset=utf-8"));

/// The routes of the SDK.
pub(crate) fn files() -> OpenApiRouter<Shared> {
    let types = Router::new().route("/sdk/deeplink.d.ts", get(|asked: HeaderMap| async move { TYPES.answer(&asked) }));
    OpenApiRouter::new().routes(routes!(script)).merge(types.into())
}

/// Returns the script that web pages use to report events.
///
/// The script defines the global `deeplink`. Its types are at `/sdk/deeplink.d.ts`.
#[utoipa::path(
    get, path = "/sdk/deeplink.js", operation_id = "sdk_script", tag = "sdk",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the cached script")),
    responses(
        (status = 200, description = "The script", content_type = "text/javascript", body = String, headers(("ETag" = String))),
        (status = 304, description = "Not modified", headers(("ETag" = String))),
    )
)]
pub(crate) async fn script(asked: HeaderMap) -> Response {
    SCRIPT.answer(&asked)
}
