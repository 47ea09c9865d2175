//! Settings: what programs and support ask for about the account, and who is signed in.

use askama::Template;
use axum::extract::State;
use http::StatusCode;

use super::PageResult;
use super::frame::{Frame, Section, answer};
use super::person::Person;
use super::time::DisplayTime;
use crate::state::Shared;

#[derive(Template)]
#[template(path = "pages/settings.html")]
struct SettingsPage<'a> {
    frame: &'a Frame,
    account: &'a str,
    created: DisplayTime,
    email: &'a str,
    is_owner: bool,
    /// The service's URL.
    base: &'a str,
}

/// The settings.
pub(super) async fn show(State(app): State<Shared>, person: Person) -> PageResult {
    let frame = Frame::of(&app, &person, Section::SETTINGS, "Settings");
    let page = SettingsPage {
        frame: &frame,
        account: person.who.tenant.as_str(),
        created: person.who.tenant_created_at.into(),
        email: &person.who.email,
        is_owner: person.who.is_owner,
        base: app.public_url.as_str().trim_end_matches('/'),
    };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}
