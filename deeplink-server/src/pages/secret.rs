//! The page that shows a new secret once.

use askama::Template;
use axum::response::Response;
use http::StatusCode;

use super::frame::{Back, Frame, Section, answer};
use super::headers::see_other;
use super::person::Person;
use crate::state::App;

/// The kind of secret, which determines the example that the page shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// Authenticates API calls.
    ApiKey,
    /// Identifies apps and web pages that report events.
    PublishableKey,
    /// Verifies webhook signatures.
    WebhookSecret,
}

/// A new secret. The page is the direct response to the form and is not stored: reloading it submits the form again,
/// which redirects to the list.
pub(super) struct Secret<'a> {
    pub(super) section: Section,
    pub(super) title: &'a str,
    pub(super) lead: &'a str,
    pub(super) kind: SecretKind,
    pub(super) back: Back<'a>,
    /// The notice on the list when the form was submitted again, and nothing can be shown.
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
    /// The page; a redirect if there is no secret because the form was submitted before.
    pub(super) fn show(&self, app: &App, person: &Person, secret: Option<&str>) -> Response {
        let Some(secret) = secret else { return see_other(&format!("{}?done={}", self.back.path, self.repeated)) };
        let frame = Frame::of(app, person, self.section, self.title);
        let base = app.public_url.as_str().trim_end_matches('/');
        answer(app, StatusCode::OK, &frame, &SecretPage { frame: &frame, page: self, secret, base })
    }
}
