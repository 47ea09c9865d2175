//! Signing in with an identity provider (RFC 6749, section 4.1, with PKCE, RFC 7636).
//!
//! A callback is accepted once, from the browser that started it, and only if the provider confirms it when queried.
//! Any failure of the callback redirects to `/signin` with an error code.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::secret::Token;
use deeplink_core::session::NextPath;
use deeplink_core::user::Email;
use deeplink_core::visitor::{Form, wants_json};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use subtle::ConstantTimeEq;
use tracing::Instrument;

use super::callback::{CLOSED, Entry};
use super::signin;
use crate::db::oauth_states::{self, Begun, NewState};
use crate::error::ApiError;
use crate::http::client_ip::{Peer, check_limit};
use crate::http::documented::Unavailable;
use crate::http::extract::{Path, Query};
use crate::http::host::OnServiceHost;
use crate::http::redirect::see_other;
use crate::http::session::{self, cookie};
use crate::http::{NO_STORE, misses};
use crate::outbound::providers::{Name, Unidentified};
use crate::shares::Share;
use crate::state::{App, Shared};

/// How long a person may take at the provider, in minutes.
const STATE_MINUTES: i64 = 10;

/// Redirects to an identity provider.
///
/// The state that is sent to the provider works only once, for ten minutes, and only in this browser, which is
/// identified by a cookie.
#[utoipa::path(
    get, path = "/v1/auth/oauth/{provider}/start", operation_id = "oauth_start", tag = "sessions",
    params(
        ("provider" = String, Path, description = "`google` or `github`", example = "google"),
        ("next" = Option<String>, Query, description = "Path on this service to redirect to afterwards; `/account` if absent or not on this service"),
    ),
    responses(
        (status = 302, description = "Redirect to the provider, with a state and a PKCE challenge (S256)", headers(("Location" = String), ("Set-Cookie" = String))),
        (status = 303, description = "If `Accept` includes HTML: no such provider, or it is not configured; redirect to `/signin?error=oauth_not_configured`", headers(("Location" = String))),
        (status = 400, description = "`next` is repeated", body = ErrorBody),
        (status = 404, description = "No such provider (`unknown_provider`)", body = ErrorBody),
        (status = 429, description = "Too many sign-ins from this IP address", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "The provider is not configured (`oauth_not_configured`), or retry after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn start(
    State(app): State<Shared>,
    _: OnServiceHost,
    Extension(Peer(peer)): Extension<Peer>,
    Path(provider): Path<String>,
    query: Query,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, _) = request.into_parts();
    let name = match named(&provider) {
        Ok(name) if app.providers.has(name) => name,
        // A person who follows an old button gets a page rather than JSON.
        _ if is_person(&parts.headers) => return Ok(see_other("/signin?error=oauth_not_configured")),
        Ok(_) => {
            return Err(ApiError::Plain(
                ErrorCode::OauthNotConfigured,
                "this provider is not configured on this service",
            ));
        }
        Err(unknown) => return Err(unknown),
    };
    check_limit(&app, (&app.limits.signins, signin::TOO_MANY), peer, &parts.headers)?;
    let next = query.one("next")?.map(NextPath::read).unwrap_or_default();
    if app.asked_host(peer, &parts)? != app.service_host {
        return elsewhere(&app, name, &next);
    }
    let [state, browser, verifier] = app.random(|random| [(); 3].map(|()| Token::generate(random)));
    let to = app.providers.address(name, &state, &verifier);
    let to = to.and_then(|url| HeaderValue::try_from(url.as_str()).ok());
    let to = to.ok_or_else(|| ApiError::Internal("the provider's address is not a valid header value".into()))?;
    let cookie = binding(&app, &state, browser.expose(), STATE_MINUTES * 60);
    let new = NewState {
        provider: name.as_str(),
        sealed: app.vault.seal("oauth_states", &state.hash(), verifier.expose().as_bytes()),
        next: next.to_string(),
        expires_at: app.clock.now().plus_millis(STATE_MINUTES * 60_000),
        state,
        browser,
    };
    app.db.write(Share::SignIns, new, |tx, new| oauth_states::insert(tx, new).boxed()).await?;
    Ok((StatusCode::FOUND, [(header::LOCATION, to), (header::SET_COOKIE, cookie), NO_STORE]).into_response())
}

/// Whether the client is a person's browser: its `Accept` names HTML.
fn is_person(headers: &HeaderMap) -> bool {
    wants_json(headers.get_all(header::ACCEPT)) == Form::Html { explicit: true }
}

/// Redirects to the same path at the public URL: a local service has several names, the provider redirects to one of
/// them, and cookies are stored per name.
fn elsewhere(app: &App, name: Name, next: &NextPath) -> Result<Response, ApiError> {
    let mut url = app.public_url.clone();
    url.set_path(&format!("/v1/auth/oauth/{}/start", name.as_str()));
    url.query_pairs_mut().append_pair("next", next.as_str());
    let to = HeaderValue::try_from(url.as_str()).map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok((StatusCode::FOUND, [(header::LOCATION, to), NO_STORE]).into_response())
}

/// Handles the callback of an identity provider.
///
/// Signs in a user whose address the provider has verified; if the address has no account, creates one. Every
/// failure redirects to `/signin?error=` with one of `oauth_denied`, `oauth_state_invalid`,
/// `oauth_provider_error`, `oauth_email_unverified`, `oauth_no_email`, `signup_closed`.
#[utoipa::path(
    get, path = "/v1/auth/oauth/{provider}/callback", operation_id = "oauth_callback", tag = "sessions",
    params(
        ("provider" = String, Path, description = "`google` or `github`", example = "google"),
        ("code" = Option<String>, Query, description = "The authorization code"),
        ("state" = Option<String>, Query, description = "The state from the start of the sign-in"),
        ("error" = Option<String>, Query, description = "Set by the provider if the sign-in failed"),
    ),
    responses(
        (status = 303, description = "Signed in, or redirect to `/signin?error=`", headers(("Location" = String), ("Set-Cookie" = String))),
        Unavailable,
        (status = 400, description = "A parameter is repeated", body = ErrorBody),
        (status = 404, description = "No such provider (`unknown_provider`)", body = ErrorBody),
    )
)]
pub(crate) async fn callback(
    State(app): State<Shared>,
    _: OnServiceHost,
    Path(provider): Path<String>,
    query: Query,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    let name = named(&provider)?;
    let answer = Answer {
        name,
        client: app.client_at(peer, request.headers()),
        code: query.one("code")?.unwrap_or_default().to_owned(),
        state: query.one("state")?.map(Token::new),
        error: query.one("error")?.map(str::to_owned),
    };
    let headers = request.into_parts().0.headers;
    // The state is used up: a browser that disconnects now could not retry, so the sign-in is completed without it.
    let settled = tokio::spawn(async move { answer.settle(&app, &headers).await }.in_current_span());
    settled.await.unwrap_or_else(|_| Err(ApiError::Internal("a sign-in panicked".into())))
}

fn named(provider: &str) -> Result<Name, ApiError> {
    Name::read(provider).ok_or(ApiError::Plain(ErrorCode::UnknownProvider, "unknown provider"))
}

/// Begins the session of a person whose address the provider vouches for.
async fn sign_in(app: &App, email: Email, next: &NextPath, headers: &HeaderMap) -> Result<Response, ApiError> {
    let entry = Arc::new(Entry::draw(app, headers));
    let entered = app
        .db
        .write(Share::SignIns, (Arc::clone(&entry), email), |tx, (entry, email)| entry.enter(tx, email).boxed())
        .await?;
    Ok(if entered { entry.signed_in(app, next) } else { see_other(CLOSED) })
}

/// The parameters that a provider sent a browser back with.
struct Answer {
    name: Name,
    client: IpAddr,
    code: String,
    state: Option<Token>,
    error: Option<String>,
}

impl Answer {
    async fn settle(self, app: &App, headers: &HeaderMap) -> Result<Response, ApiError> {
        let Some(state) = self.state.as_ref().filter(|state| state.is_well_formed()) else {
            return Ok(failed("oauth_state_invalid"));
        };
        let hash = state.hash();
        let now = app.clock.now();
        let begun =
            app.db.write(Share::SignIns, hash.clone(), move |tx, hash| oauth_states::consume(tx, hash, now).boxed());
        let begun = misses::look_up(app, self.client, false, begun).await?;
        let Some(begun) = begun.filter(|begun| self.is_of(begun, state, headers)) else {
            return Ok(failed("oauth_state_invalid"));
        };
        let mut response = match self.identified(app, &begun, &hash).await {
            Ok(email) => sign_in(app, email, &NextPath::read(&begun.next), headers).await?,
            Err(code) => failed(code),
        };
        // The cookie is no longer needed, whatever the outcome.
        response.headers_mut().append(header::SET_COOKIE, binding(app, state, "", 0));
        Ok(response)
    }

    /// Whether the sign-in was begun with this provider in this browser.
    fn is_of(&self, begun: &Begun, state: &Token, headers: &HeaderMap) -> bool {
        let Ok(Some(browser)) = cookie(headers, &binding_name(state)) else { return false };
        let is_same: bool = Token::new(browser).hash().as_bytes().ct_eq(begun.browser_hash.as_bytes()).into();
        is_same && begun.provider == self.name.as_str()
    }

    async fn identified(&self, app: &App, begun: &Begun, hash: &str) -> Result<Email, &'static str> {
        match self.error.as_deref() {
            Some("access_denied") => return Err("oauth_denied"),
            // The text is never shown: any site that sent the browser here may have written it.
            Some(_) => return Err("oauth_provider_error"),
            None => {}
        }
        let verifier = app.vault.open("oauth_states", hash, &begun.sealed).ok();
        let Some(verifier) = verifier.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|_| !self.code.is_empty())
        else {
            return Err("oauth_provider_error");
        };
        app.providers.identify(self.name, &self.code, &verifier).await.map_err(|why| {
            tracing::info!(provider = self.name.as_str(), %why, "OAuth sign-in failed");
            match why {
                Unidentified::Provider(_) => "oauth_provider_error",
                Unidentified::Unverified => "oauth_email_unverified",
                Unidentified::NoEmail => "oauth_no_email",
            }
        })
    }
}

fn failed(code: &'static str) -> Response {
    see_other(&format!("/signin?error={code}"))
}

/// Each sign-in has its own cookie, so that one browser can have several in progress, and none depends on a cookie
/// planted by someone else.
fn binding_name(state: &Token) -> String {
    format!("oauth_{}", &state.hash()[..12])
}

/// The cookie that binds a state to its browser. It must be sent when the provider redirects back, a navigation from
/// another site, so it is not `Strict`.
fn binding(app: &App, state: &Token, value: &str, max_age: i64) -> HeaderValue {
    session::cookie_header(app, &binding_name(state), value, "/v1/auth/oauth", max_age)
}
