//! Sources: the list with a form to add one, a source's URL, and deletion. The URL is a credential, so the list does
//! not show it; it is requested with a form, which no other site can submit.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::source::{CreateSource, MAX_SOURCE_NAME, SourceDetail, SourceUrl};
use deeplink_core::time::Timestamp;
use http::StatusCode;

use super::PageResult;
use super::confirm::Question;
use super::form::{Field, Form, FormView, Group, Kind, View, secret_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use crate::api;
use crate::http::extract::{Path, Query};
use crate::http::once::Answer;
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

const LIST: &str = "/account/sources";

struct SourceRow {
    id: String,
    name: String,
    /// The URL up to its token, or a text that it cannot be read.
    masked_url: String,
    created: Timestamp,
}

impl From<SourceDetail> for SourceRow {
    fn from(source: SourceDetail) -> Self {
        Self {
            id: source.id.to_string(),
            masked_url: source.webhook_url.map_or_else(|| "URL cannot be read".to_owned(), |url| url.masked()),
            created: source.created_at,
            name: source.name,
        }
    }
}

#[derive(Template)]
#[template(path = "pages/sources.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    sources: Vec<SourceRow>,
    form: FormView,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    list_page(&app, &person, View::Opened(Some(&query))).await
}

async fn list_page(app: &Shared, person: &Person, view: View<'_>) -> PageResult {
    let all = api::sources::list_for(app, &person.caller, PageRequest::at(None)).await?;
    let hint = "For your own reference. It is not part of the URL.";
    let name = Field::line("name", "Name", hint).required().max_length(MAX_SOURCE_NAME).placeholder("Shop");
    let form = FormView::new(app, vec![Group::plain(vec![name])], &Form::default(), &view);
    let frame = Frame::list(app, person, Section::SOURCES, &view);
    let sources = all.sources.into_iter().map(SourceRow::from).collect();
    Ok(answer(app, view.outcome(), &frame, &ListPage { frame: &frame, sources, form }))
}

#[derive(Template)]
#[template(path = "pages/source.html")]
struct SourcePage<'a> {
    frame: &'a Frame,
    /// `None` if it cannot be read.
    url: Option<&'a str>,
    id: &'a str,
}

fn source_page(app: &App, person: &Person, source: &SourceDetail) -> Response {
    let frame = Frame::of(app, person, Section::SOURCES, source.name.clone());
    let page =
        SourcePage { frame: &frame, url: source.webhook_url.as_ref().map(SourceUrl::expose), id: source.id.as_str() };
    answer(app, StatusCode::OK, &frame, &page)
}

/// Creates a source and shows its URL.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let once = secret_of(&person, "/account/sources", &form);
    let asked = CreateSource::custom(form.value("name"));
    match api::sources::create_for(&app, Arc::clone(&person.caller), once, asked).await {
        Ok(Answer { made: None, .. }) => Ok(see_other("/account/sources?done=source-made")),
        Ok(Answer { made: Some(made), .. }) => Ok(source_page(&app, &person, &made)),
        Err(error) => list_page(&app, &person, View::refused(&form, error)?).await,
    }
}

/// Shows a source's URL in response to a form.
pub(super) async fn reveal(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    Ok(source_page(&app, &person, &api::sources::find(&app, &person.caller, &id).await?))
}

/// Redirects to the list: the URL is shown only in response to a form, and a sign-in or a bookmark comes back without
/// one.
pub(super) async fn back() -> Response {
    see_other(LIST)
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let source = api::sources::find(&app, &person.caller, &id).await?;
    let lead = "Its URL stops accepting conversions immediately. Conversions already posted to it are kept. This cannot be undone.";
    Ok(Question::delete(Section::SOURCES, "source", &source.name, lead, Section::SOURCES.back())
        .ask(&app, &person, None))
}

/// Deletes a source.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    let deleted = api::sources::delete_for(&app, person.caller, &id).await;
    after_deletion(deleted, LIST, "source-deleted")
}
