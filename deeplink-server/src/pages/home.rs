//! The home page of the service, or the redirect to the operator's own.

use askama::Template;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::visitor::{Form, wants_json};
use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, HeaderValue, LOCATION};

use super::frame::{Frame, answer};
use super::missing;
use super::person::MaybeSignedIn;
use super::signin::is_set_up;
use crate::api::one_time_links::is_first_account_unclaimed;
use crate::error::ApiError;
use crate::http::host::OnServiceHost;
use crate::state::{App, Shared};

#[derive(Template)]
#[template(path = "pages/home.html")]
struct HomePage<'a> {
    frame: &'a Frame,
    /// Where the service is reached, without the last slash.
    base: &'a str,
    /// Whether people have a key from the first start, and no mail to sign in with.
    has_first_key: bool,
    /// Whether the first start may have printed one.
    prints_first_key: bool,
    /// Where people sign in or, once they are, find their account, and the label of that button.
    next: Option<(&'static str, &'static str)>,
    /// Whether the account of the first start waits for its owner.
    is_unclaimed: bool,
    /// Whether a new address gets a new account.
    is_open: bool,
}

/// The page. A program that asks for JSON is told where the API is described, with the 404 of a path that has nothing.
pub(super) async fn show(State(app): State<Shared>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let is_here = OnServiceHost::from_request_parts(&mut parts, &app).await.is_ok();
    let response = match wants_json(parts.headers.get_all(ACCEPT)) {
        _ if !is_here => return missing::answer(&app, &mut parts).await,
        Form::Json => {
            ApiError::no_such("not found: / has no API; see /openapi.json or, for language models, /llms.txt")
                .into_response()
        }
        Form::Html { .. } => match &app.config.home_url {
            Some(url) => found(url.as_str()),
            None => {
                let Ok(MaybeSignedIn(who)) = MaybeSignedIn::from_request_parts(&mut parts, &app).await;
                page(&app, who.is_some()).await
            }
        },
    };
    missing::negotiated(response)
}

fn found(url: &str) -> Response {
    let Ok(location) = HeaderValue::try_from(url) else {
        return ApiError::Internal("DEEPLINK_HOME_URL is not a valid header value".into()).into_response();
    };
    let headers = [(LOCATION, location), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (StatusCode::FOUND, headers).into_response()
}

async fn page(app: &App, is_signed_in: bool) -> Response {
    let frame = Frame::alone(app, "Home").with_script();
    let next = if is_signed_in {
        Some(("/account", "Go to your account"))
    } else {
        is_set_up(app).then_some(("/signin", "Sign in"))
    };
    let has_first_key = app.is_loopback || !is_set_up(app);
    let prints_first_key = app.config.first_account;
    let base = app.public_url.as_str().trim_end_matches('/');
    let is_unclaimed = !is_signed_in && is_first_account_unclaimed(app).await;
    let is_open = app.config.signup_open;
    let page = HomePage { frame: &frame, base, has_first_key, prints_first_key, next, is_unclaimed, is_open };
    answer(app, StatusCode::OK, &frame, &page)
}
