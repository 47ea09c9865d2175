//! Who is signed in: the cookie `session_token`. [`Session`] in a handler's signature is the permission.
//!
//! A browser sends a cookie with every request, whichever site caused it. So session operations also check with
//! [`super::csrf`] where a request comes from, and no other operation accepts the cookie.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use deeplink_core::secret::Token;
use deeplink_core::session::{COOKIE, SESSION_SECS};
use http::header::{AUTHORIZATION, COOKIE as COOKIES};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use super::anonymous::Anonymous;
use super::auth::admit;
use super::misses;
use crate::caller::SignedIn;
use crate::db::sessions;
use crate::error::ApiError;
use crate::state::{App, Shared};

/// The session of an operation for programs; a request without one is refused.
pub(crate) struct Session(pub(crate) Arc<SignedIn>);

impl FromRequestParts<Shared> for Session {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let EndingSession(who) = EndingSession::from_request_parts(parts, app).await?;
        admit(who.is_suspended, &parts.method)?;
        Ok(Self(who))
    }
}

/// The session of a request that may also come from a suspended account, such as signing out.
pub(crate) struct EndingSession(pub(crate) Arc<SignedIn>);

impl FromRequestParts<Shared> for EndingSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        // A key takes precedence over the cookie, and no key is a session.
        if parts.headers.contains_key(AUTHORIZATION) {
            return Err(ApiError::invalid_key());
        }
        let Presented::One(token) = presented(&parts.headers) else { return Err(ApiError::no_session()) };
        let who = find(app, parts, &token).await?.ok_or_else(ApiError::no_session)?;
        Anonymous::end(parts, app, &who.tenant)?;
        Ok(Self(who))
    }
}

/// The session token in a request's cookies.
#[derive(Debug)]
pub(crate) enum Presented {
    /// Nothing.
    None,
    /// A token, valid or not.
    One(Token),
    /// Two tokens: it is unclear which one is meant.
    Several,
}

/// The session token among a request's cookies (RFC 6265, section 5.4).
pub(crate) fn presented(headers: &HeaderMap) -> Presented {
    match cookie(headers, COOKIE) {
        Ok(None) => Presented::None,
        Ok(Some(value)) => Presented::One(Token::new(value)),
        Err(()) => Presented::Several,
    }
}

/// The value of a cookie; an error when it occurs more than once.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let pairs =
        headers.get_all(COOKIES).iter().filter_map(|value| value.to_str().ok()).flat_map(|line| line.split(';'));
    let mut values = pairs.filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    let first = values.next();
    if values.next().is_some() { Err(()) } else { Ok(first) }
}

/// The user who is signed in with a token.
pub(crate) async fn find(app: &App, parts: &Parts, token: &Token) -> Result<Option<Arc<SignedIn>>, ApiError> {
    if !token.is_well_formed() {
        return Ok(None);
    }
    let (hash, now) = (token.hash(), app.clock.now());
    let found = async { sessions::by_hash(&mut app.db.look_up().await?.conn(), &hash, now).await };
    misses::look_up_token(app, app.client_of(parts), &hash, found).await
}

/// The cookie that begins a session.
pub(crate) fn set_cookie(app: &App, token: &Token) -> HeaderValue {
    cookie_header(app, COOKIE, token.expose(), "/", SESSION_SECS)
}

/// The cookie that ends one: the same attributes, because browsers keep cookies apart by them.
pub(crate) fn clear_cookie(app: &App) -> HeaderValue {
    cookie_header(app, COOKIE, "", "/", 0)
}

/// A cookie of this host (RFC 6265) that scripts do not see and other sites' requests do not carry, navigations aside;
/// `max_age` in seconds.
pub(crate) fn cookie_header(app: &App, name: &str, value: &str, path: &str, max_age: i64) -> HeaderValue {
    let secure = if app.is_https { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}");
    // Values are hex, so this is always header text.
    let mut header = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    header.set_sensitive(true);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others_and_never_chosen_between_two() {
        for (lines, expected) in [
            (&[][..], Ok(None)),
            (&["session_token=a"], Ok(Some("a"))),
            (&["x=1; session_token=a; y=2"], Ok(Some("a"))),
            (&["x=1", "session_token=a"], Ok(Some("a"))),
            (&["session_token="], Ok(Some(""))),
            (&["xsession_token=a; session_tokens=b; SESSION_TOKEN=c"], Ok(None)),
            (&["session_token=a; session_token=a"], Err(())),
            (&["session_token=a", "session_token=b"], Err(())),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIES, line.parse().expect("a header"));
            }
            assert_eq!(cookie(&headers, COOKIE), expected, "{lines:?}");
        }
    }
}
