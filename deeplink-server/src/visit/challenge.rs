//! Answers ACME challenges (http-01, RFC 8555, section 8.3): any node answers, over plain http, for the challenge's
//! name while its order is open. Otherwise the path does not exist.

use std::net::IpAddr;

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method};

use crate::db::acme;
use crate::error::ApiError;
use crate::http::misses;
use crate::state::App;

const PATH: &str = "/.well-known/acme-challenge/";
/// Longer than any CA's tokens.
const LONGEST_TOKEN: usize = 256;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The answer to a pending challenge. `None`: not such a request; it is handled like any other.
pub(crate) async fn answer(app: &App, peer: IpAddr, parts: &Parts) -> Option<Response> {
    app.config.tls.as_ref()?;
    let token = token(parts.uri.path())?;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return None;
    }
    match find(app, peer, parts, token).await {
        Ok(found) => Some(([(CONTENT_TYPE, TEXT), (CACHE_CONTROL, NO_STORE)], found?).into_response()),
        Err(error) => Some(error.into_response()),
    }
}

async fn find(app: &App, peer: IpAddr, parts: &Parts, token: &str) -> Result<Option<String>, ApiError> {
    let host = app.asked_host(peer, parts)?;
    let found =
        async { acme::find_challenge(&mut app.db.look_up().await?.conn(), token, &host, app.clock.now()).await };
    misses::look_up(app, app.client_at(peer, &parts.headers), false, found).await
}

/// The token in a path, if it is well-formed: base64url without padding.
fn token(path: &str) -> Option<&str> {
    let token = path.strip_prefix(PATH)?;
    let can_be = (1..=LONGEST_TOKEN).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    can_be.then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_with_a_token_is_asked_about() {
        assert_eq!(token("/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7-_9"), Some("LoqXcYV8q5ONbJQxbmR7-_9"));
        let long = format!("{PATH}{}", "a".repeat(LONGEST_TOKEN + 1));
        for path in [
            "/",
            "/.well-known/acme-challenge",
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/a/b",
            "/.well-known/acme-challenge/a%2Fb",
            "/.well-known/acme-challenge/a=",
            "/.well-known/assetlinks.json",
            "/r/.well-known/acme-challenge/abc",
            &long,
        ] {
            assert_eq!(token(path), None, "{path}");
        }
    }
}
