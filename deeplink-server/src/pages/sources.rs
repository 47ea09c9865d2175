//! Sources: the list with the form for one more, a source's address, and the way to remove it. An address is a key, so the
//! list does not show it; to see it, somebody asks for it with a form, which no other site can send.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::source::{CreateSource, MAX_SOURCE_NAME, SourceDetail};
use http::StatusCode;

use super::confirm::Question;
use super::form::{Field, Form, Group, Kind, Trouble, draw_id, fill, secret_of, status_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::when::When;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::state::{App, Shared};

/// A source as the list shows it.
struct Shown {
    id: String,
    name: String,
    /// Up to its token.
    masked: String,
    created: When,
}

impl From<SourceDetail> for Shown {
    fn from(source: SourceDetail) -> Self {
        Self {
            id: source.id.to_string(),
            masked: source.webhook_url.masked(),
            created: source.created_at.into(),
            name: source.name,
        }
    }
}

#[derive(Template)]
#[template(path = "pages/sources.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    sources: Vec<Shown>,
    groups: Vec<Group>,
    form_id: String,
    trouble: Option<String>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    list_page(&app, &person, Some(&query), &Form::default(), None).await
}

async fn list_page(
    app: &Shared,
    person: &Person,
    query: Option<&Query>,
    form: &Form,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let all = api::sources::list_for(app, &person.caller).await?;
    let hint = "What you call it here. Its address does not show it.";
    let name = Field::line("name", "Name", hint).required().up_to(MAX_SOURCE_NAME).such_as("Shop");
    let mut groups = vec![Group::of("", "", vec![name])];
    let elsewhere = fill(&mut groups, form, trouble);
    let frame = Frame::of(app, person, Section::SOURCES, "Sources").failed(trouble.is_some()).after(query);
    let sources = all.sources.into_iter().map(Shown::from).collect();
    let page = ListPage { frame: &frame, sources, groups, form_id: draw_id(app), trouble: elsewhere };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

#[derive(Template)]
#[template(path = "pages/source.html")]
struct SourcePage<'a> {
    frame: &'a Frame,
    address: &'a str,
    id: &'a str,
}

fn source_page(app: &App, person: &Person, source: &SourceDetail) -> Response {
    let frame = Frame::of(app, person, Section::SOURCES, source.name.clone());
    let page = SourcePage { frame: &frame, address: source.webhook_url.expose(), id: source.id.as_str() };
    answer(app, StatusCode::OK, &frame, &page)
}

/// Makes a source and shows its address.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    let once = secret_of(&person, "/account/sources", &form);
    let asked = CreateSource::custom(form.value("name"));
    match api::sources::create_for(&app, Arc::clone(&person.caller), once, asked).await {
        Ok(made) if made.replayed => Ok(see_other("/account/sources?done=source-made")),
        Ok(made) => Ok(source_page(&app, &person, &made.said()?)),
        Err(error) => list_page(&app, &person, None, &form, Some(&Trouble::of(error)?)).await,
    }
}

/// Shows a source's address to whoever asks for it by a form.
pub(super) async fn reveal(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    Ok(source_page(&app, &person, &api::sources::find(&app, &person.caller, &id).await?))
}

/// Leads to the list: an address is shown to a form only, and a sign-in or a bookmark comes back without one.
pub(super) async fn back() -> Response {
    see_other("/account/sources")
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let source = api::sources::find(&app, &person.caller, &id).await?;
    let action = format!("/account/sources/{id}/delete");
    let question = Question {
        section: Section::SOURCES,
        title: "Delete this source?",
        name: &source.name,
        lead: "What is posted to its address is refused from now on. What it has reported stays. This cannot be taken back.",
        action: &action,
        submit: "Delete the source",
        back: "/account/sources",
    };
    Ok(question.ask(&app, &person, None))
}

/// Deletes a source.
pub(super) async fn delete(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    let deleted = api::sources::delete_for(&app, person.caller, &id).await;
    after_deletion(deleted, "/account/sources", "source-deleted")
}
