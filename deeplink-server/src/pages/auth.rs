//! The pages that mailed links lead to: each is one form with one button.

use std::sync::LazyLock;

use askama::Template;
use axum::response::Response;
use deeplink_core::session::NextPath;
use http::StatusCode;

use super::headers::page;
use crate::state::App;
use crate::visit::page::{BASE_CSS, compact_css};

static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../templates/auth/token.css")]));

#[derive(Template)]
#[template(path = "auth/token.html")]
struct TokenPage<'a> {
    nonce: &'a str,
    css: &'static str,
    title: &'a str,
    says: &'a str,
    button: &'static str,
    otherwise: &'static str,
    /// A path of lines in a square of 24 units.
    sign: &'static str,
    action: &'static str,
    token: &'a str,
    next: Option<&'a str>,
}

const KEY: &str = "M15.5 3a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M11.6 12.4 3 21M6 18l2.5 2.5M16.8 7.2v.1";
const PEOPLE: &str = "M9 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8M2 20.5c.6-3.6 3.4-5.5 7-5.5s6.4 1.9 7 5.5M19 8v6M16 11h6";

/// The page of a link that signs in.
pub(crate) fn sign_in(app: &App, token: &str, next: Option<&NextPath>) -> Response {
    page(app, StatusCode::OK, |nonce| sign_in_page(nonce, &app.service_host, token, next.map(NextPath::as_str)))
}

fn sign_in_page(nonce: &str, host: &str, token: &str, next: Option<&str>) -> askama::Result<String> {
    let says = format!("One more step, and you are signed in to {host}.");
    TokenPage {
        nonce,
        css: &CSS,
        title: "Sign in",
        says: &says,
        button: "Continue",
        otherwise: "If you did not ask for this, close this page.",
        sign: KEY,
        action: "/v1/auth/callback",
        token,
        next,
    }
    .render()
}

/// The page of an invitation.
pub(crate) fn invitation(app: &App, token: &str) -> Response {
    page(app, StatusCode::OK, |nonce| invitation_page(nonce, &app.service_host, token))
}

fn invitation_page(nonce: &str, host: &str, token: &str) -> askama::Result<String> {
    let says = format!("You are invited to a team at {host}. Join it, then sign in with the address that was invited.");
    TokenPage {
        nonce,
        css: &CSS,
        title: "Join the team",
        says: &says,
        button: "Accept invitation",
        otherwise: "If you do not want to join, close this page.",
        sign: PEOPLE,
        action: "/v1/auth/verify",
        token,
        next: None,
    }
    .render()
}
