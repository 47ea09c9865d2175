//! The script that pages report with, and its types.

use std::sync::LazyLock;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use tower_http::compression::CompressionLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::etag::{matches, tag_of};
use crate::state::Shared;

/// A file of the SDK.
struct File {
    text: &'static str,
    media_type: &'static str,
    /// Weak, because it goes out compressed or not.
    tag: String,
}

impl File {
    fn of(text: &'static str, media_type: &'static str) -> Self {
        let tag = tag_of(Sha256::new_with_prefix(text));
        Self { text, media_type, tag: format!("W/{tag}") }
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        const ANY_PAGE: HeaderValue = HeaderValue::from_static("cross-origin");
        let known = matches(asked, self.tag.trim_start_matches("W/"));
        let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { self.text.into_response() };
        let headers = response.headers_mut();
        if !known {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        }
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(ETAG, tag);
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        // Pages of any origin load it, also those that let nothing else in.
        headers.insert(HeaderName::from_static("cross-origin-resource-policy"), ANY_PAGE);
        response
    }
}

static SCRIPT: LazyLock<File> =
    LazyLock::new(|| File::of(include_str!("../../../sdk/deeplink.js"), "text/javascript; charset=utf-8"));
static TYPES: LazyLock<File> =
    LazyLock::new(|| File::of(include_str!("../../../sdk/deeplink.d.ts"), "text/plain; charset=utf-8"));

/// The routes of the SDK.
pub(crate) fn files() -> OpenApiRouter<Shared> {
    let types = Router::new().route("/sdk/deeplink.d.ts", get(|asked: HeaderMap| async move { TYPES.answer(&asked) }));
    OpenApiRouter::new().routes(routes!(script)).merge(types.into()).layer(CompressionLayer::new())
}

/// The script that pages report with.
///
/// It gives the global `deeplink`. `/sdk/deeplink.d.ts` has its types.
#[utoipa::path(
    get, path = "/sdk/deeplink.js", operation_id = "sdk_script", tag = "sdk",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the script that is there already")),
    responses(
        (status = 200, description = "The script", content_type = "text/javascript", body = String, headers(("ETag" = String))),
        (status = 304, description = "It has not changed", headers(("ETag" = String))),
    )
)]
pub(crate) async fn script(asked: HeaderMap) -> Response {
    SCRIPT.answer(&asked)
}
