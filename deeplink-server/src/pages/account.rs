//! The account at a glance, and the way out of it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::link::LinkFilter;
use http::StatusCode;
use http::header::SET_COOKIE;

use super::chart::Numbers;
use super::form::Form;
use super::frame::{Frame, Section, answer};
use super::headers::see_other;
use super::person::Person;
use super::plan::{self, Plan};
use crate::api;
use crate::db::tenants;
use crate::error::ApiError;
use crate::http::auth::Caller;
use crate::http::extract::Query;
use crate::state::{App, Shared};

/// Something to begin with.
struct Step {
    is_done: bool,
    title: &'static str,
    text: &'static str,
    path: &'static str,
}

#[derive(Template)]
#[template(path = "pages/overview.html")]
struct Overview<'a> {
    frame: &'a Frame,
    /// Empty once all of them are done.
    steps: Vec<Step>,
    numbers: Numbers,
    plan: Plan,
    /// Where programs find the interface.
    base: &'a str,
}

/// Most links whose numbers the overview shows: as many as one report takes.
const MOST_LINKS: u32 = 100;

/// What all links of an account led to, or its newest where there are too many for one report.
async fn numbers_of(app: &App, caller: &Caller) -> Result<Numbers, ApiError> {
    let found = api::links::page_of(app, caller, LinkFilter::new(), None, MOST_LINKS).await?;
    let ids: Vec<String> = found.links.into_iter().map(|link| link.link_id).collect();
    let about = if found.next_cursor.is_some() { "Of your 100 newest links." } else { "" };
    Ok(if ids.is_empty() { Numbers::Unasked } else { Numbers::of(app, caller, about, &ids).await })
}

/// The overview.
pub(super) async fn show(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    let usage = tenants::usage(&mut app.db.read().await?.conn(), &person.caller.tenant).await?;
    let mut steps = vec![
        Step {
            is_done: usage.keys > 0,
            title: "Make a key",
            text: "Programs and the command line call this service with it.",
            path: "/account/keys",
        },
        Step {
            is_done: usage.links > 0,
            title: "Make a link",
            text: "One address that opens the right place on every device.",
            path: "/account/new-link",
        },
        Step {
            is_done: usage.verified_domains > 0,
            title: "Bring a domain",
            text: "Links under your own name, which apps open directly and which do not expire.",
            path: "/account/domains",
        },
    ];
    if steps.iter().all(|step| step.is_done) {
        steps.clear();
    }
    let frame = Frame::of(&app, &person, Section::OVERVIEW, "Overview").after(&query);
    let base = app.public_url.as_str().trim_end_matches('/');
    let numbers = numbers_of(&app, &person.caller).await?;
    let page = Overview { frame: &frame, steps, numbers, plan: plan::of(&app, &usage), base };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}

/// Ends the session.
pub(super) async fn sign_out(State(app): State<Shared>, person: Person, _: Form) -> Result<Response, ApiError> {
    let cleared = api::sessions::end(&app, &person.who).await?;
    let mut response = see_other("/signin?signed_out=1");
    response.headers_mut().insert(SET_COOKIE, cleared);
    Ok(response)
}
