//! The documentation at `/docs`: the guides, and the reference made from the OpenAPI document. Its pages have no script.
//!
//! All of them are rendered once, when the first is asked for, and are the same for everyone; only the search answers each
//! request by itself. Nothing here reads the database or needs a credential.

mod example;
mod guide;
mod markdown;
mod operation;
mod reference;
mod schema;
mod search;
mod site;

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use self::site::{CSS, HOME, SITE};
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::http::fixed::Fixed;
use crate::http::redirect::see_other;
use crate::pages::missing;
use crate::state::Shared;

/// The style is allowed by its hash, because a page that is rendered once cannot have a nonce.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(CSS.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Pages change only with a release: cached by browsers but always revalidated, so that a release is seen at once.
fn headers() -> [(HeaderName, HeaderValue); 2] {
    [(CONTENT_SECURITY_POLICY, POLICY.clone()), (CACHE_CONTROL, HeaderValue::from_static("no-cache"))]
}

fn fixed(html: String) -> Fixed {
    headers().into_iter().fold(Fixed::new(html, HTML), |page, (name, value)| page.with(name, value))
}

/// The pages of the documentation.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/docs", get(show))
        .route("/docs/", get(|| async { see_other(HOME) }))
        .route("/docs/reference", get(show))
        .route("/docs/reference/{tag}", get(show))
        .route("/docs/search", get(find))
        .route("/docs/{guide}", get(show))
}

async fn show(State(app): State<Shared>, request: Request) -> Response {
    match SITE.pages.get(request.uri().path()) {
        Some(page) => page.answer(request.headers()),
        None => missing::show(State(app), request).await,
    }
}

async fn find(query: Query) -> Response {
    let words = search::words(query.every("q").next().unwrap_or_default());
    match SITE.results(&words) {
        Ok(html) => {
            let headers = HeaderMap::from_iter(headers().into_iter().chain([(CONTENT_TYPE, HTML)]));
            (headers, html).into_response()
        }
        Err(error) => ApiError::Internal(error.to_string()).into_response(),
    }
}
