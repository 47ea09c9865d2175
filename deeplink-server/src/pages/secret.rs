//! The page that shows a new secret, this once.

use askama::Template;
use axum::response::Response;
use http::StatusCode;

use super::frame::{Frame, Section, answer};
use super::headers::see_other;
use super::person::Person;
use crate::state::App;

/// What a secret is for, and so which example the page shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// Authenticates API calls.
    ApiKey,
    /// Identifies apps and web pages that report events.
    PublishableKey,
    /// Verifies webhook signatures.
    WebhookSecret,
}

/// A new secret. The page is the form's own answer and is kept nowhere: to load it again sends the form again, which
/// leads to the list.
pub(super) struct Secret<'a> {
    pub(super) section: Section,
    pub(super) title: &'a str,
    pub(super) lead: &'a str,
    pub(super) kind: SecretKind,
    pub(super) back: &'a str,
    /// What the page behind says when the form was sent again, and nothing can be shown.
    pub(super) repeated: &'static str,
}

#[derive(Template)]
#[template(path = "pages/secret.html")]
struct SecretPage<'a> {
    frame: &'a Frame,
    page: &'a Secret<'a>,
    secret: &'a str,
    /// The service's URL.
    base: &'a str,
}

impl Secret<'_> {
    /// The page; without a secret, because the form was sent before, a redirect.
    pub(super) fn show(&self, app: &App, person: &Person, secret: Option<&str>) -> Response {
        let Some(secret) = secret else { return see_other(&format!("{}?done={}", self.back, self.repeated)) };
        let frame = Frame::of(app, person, self.section, self.title);
        let base = app.public_url.as_str().trim_end_matches('/');
        answer(app, StatusCode::OK, &frame, &SecretPage { frame: &frame, page: self, secret, base })
    }
}
