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
mod tables;

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::visitor::{Form, wants_json};
use http::StatusCode;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    VARY,
};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, OnceCell};
use tokio::task::{spawn_blocking, yield_now};

use self::site::{CSS, HOME, SEARCH, SITE, Site};
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::http::fixed::Fixed;
use crate::http::host::OnServiceHost;
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
fn headers() -> [(HeaderName, HeaderValue); 3] {
    [
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ]
}

fn fixed(html: String) -> Fixed {
    headers().into_iter().fold(Fixed::new(html, HTML), |page, (name, value)| page.with(name, value))
}

/// Everything that is served. The first requests wait for it while it is rendered in a thread of its own: that takes longer
/// than a thread that serves requests may be kept, and a process that is never asked for it does without.
async fn site() -> Result<&'static Site, ApiError> {
    static RENDERED: OnceCell<&Site> = OnceCell::const_new();
    let rendered = RENDERED.get_or_try_init(|| spawn_blocking(|| LazyLock::force(&SITE))).await;
    rendered.copied().map_err(|error| ApiError::Internal(error.to_string()))
}

/// The pages of the documentation.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/docs", get(show))
        .route("/docs/", get(|| async { see_other(HOME) }))
        .route("/docs/reference", get(show))
        .route("/docs/reference/", get(show))
        .route("/docs/reference/{tag}", get(show))
        .route("/docs/reference/{tag}/", get(show))
        .route("/docs/search", get(find))
        .route("/docs/{guide}", get(show))
        .route("/docs/{guide}/", get(show))
}

async fn show(State(app): State<Shared>, request: Request) -> Response {
    let site = match site().await {
        Ok(site) => site,
        Err(error) => return error.into_response(),
    };
    let path = request.uri().path();
    if let Some(page) = site.pages.get(path) {
        return page.answer(request.headers());
    }
    // As the file is named in the repository, or as a directory.
    let other = path.strip_suffix(".md").or_else(|| path.strip_suffix('/'));
    match other.filter(|path| *path == SEARCH || site.pages.contains_key(*path)) {
        Some(path) => match request.uri().query() {
            Some(query) => see_other(&format!("{path}?{query}")),
            None => see_other(path),
        },
        None => unknown(app, site, request).await,
    }
}

/// The answer to a path that is no page: for a browser on the service's host, one with the contents and the search.
async fn unknown(app: Shared, site: &Site, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let is_browser = wants_json(parts.headers.get_all(ACCEPT)) == (Form::Html { explicit: true });
    if !is_browser || OnServiceHost::from_request_parts(&mut parts, &app).await.is_err() {
        return missing::show(State(app), Request::from_parts(parts, body)).await;
    }
    let told = [(CONTENT_TYPE, HTML), (VARY, HeaderValue::from_static("Accept"))];
    let headers: HeaderMap = headers().into_iter().chain(told).collect();
    (StatusCode::NOT_FOUND, headers, site.missing.clone()).into_response()
}

async fn find(query: Query) -> Result<Response, ApiError> {
    let words = search::words(query.every("q").next().unwrap_or_default());
    let html = results(site().await?, &words).await.map_err(|error| ApiError::Internal(error.to_string()))?;
    let headers: HeaderMap = headers().into_iter().chain([(CONTENT_TYPE, HTML)]).collect();
    Ok((headers, html).into_response())
}

/// The page with what was found. One search runs at a time, after whatever else is ready, because anybody may search, and a
/// search takes longer than a redirect.
async fn results(site: &Site, words: &[String]) -> askama::Result<String> {
    let _turn = TURN.lock().await;
    yield_now().await;
    site.results(words)
}

static TURN: Mutex<()> = Mutex::const_new(());

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt, poll};

    use super::*;

    #[tokio::test]
    async fn rendering_does_not_keep_the_thread_that_serves() {
        assert!(site().now_or_never().is_none(), "the first request waits");
        assert!(site().await.expect("the site").pages.contains_key(HOME));
        assert!(site().now_or_never().is_some(), "later ones do not");
    }

    /// R1: searches run one at a time, and others have their turn before each.
    #[tokio::test]
    async fn r1_searches_run_after_whatever_is_ready() {
        let (site, words) = (site().await.expect("the site"), search::words("link"));
        let (mut first, mut second) = (pin!(results(site, &words)), pin!(results(site, &words)));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        assert!(poll!(&mut second).is_pending(), "it waits for the first");
        assert!(first.await.expect("a page").contains("<mark>"));
        assert!(second.await.is_ok());
    }
}
