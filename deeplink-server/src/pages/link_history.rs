//! The history of a link, with a button that restores each version, and the links that were deleted.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use deeplink_core::link::{DELETED_DAYS, LinkChange, LinkContent, LinkFilter, LinkStatus, LinkVersion, RestoreLink};
use deeplink_core::time::Timestamp;
use http::StatusCode;

use super::PageResult;
use super::audit::who;
use super::form::{Form, View, draw_id};
use super::frame::{Frame, Pager, Section, answer};
use super::headers::see_other;
use super::links::name_of;
use super::person::Person;
use crate::api;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::http::pages::PageRequest;
use crate::state::Shared;

/// Rows per page of each list.
const PAGE_SIZE: u32 = 25;

/// A version as the page shows it.
struct VersionRow {
    version: u64,
    change: &'static str,
    /// Whether it was one of several links.
    is_bulk: bool,
    by: String,
    at: Timestamp,
    /// The first destination before the change.
    led_to: Option<String>,
    name: Option<String>,
}

impl From<LinkVersion> for VersionRow {
    fn from(version: LinkVersion) -> Self {
        Self {
            version: version.version,
            change: word_of(&version.change),
            is_bulk: version.bulk,
            by: who(version.actor, &version.actor_type),
            at: version.changed_at,
            led_to: first_destination(&version.content).map(str::to_owned),
            name: version.content.name,
        }
    }
}

fn word_of(change: &LinkChange) -> &'static str {
    match change {
        LinkChange::Enabled => "Enabled",
        LinkChange::Disabled => "Disabled",
        LinkChange::Flagged => "Flagged as unsafe",
        LinkChange::Deleted => "Deleted",
        LinkChange::Restored => "Restored",
        _ => "Updated",
    }
}

fn first_destination(content: &LinkContent) -> Option<&str> {
    let [ios, ios_store, android, android_store, web] = content.destinations().into_array();
    [web, ios, android, ios_store, android_store].into_iter().find_map(Option::as_deref)
}

#[derive(Template)]
#[template(path = "pages/link_history.html")]
struct HistoryPage<'a> {
    frame: &'a Frame,
    id: &'a str,
    is_deleted: bool,
    versions: Vec<VersionRow>,
    pager: Pager,
    form_id: String,
    error: Option<String>,
}

/// The versions of a link, newest first.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    page(&app, &person, &id, View::Opened(Some(&query))).await
}

async fn page(app: &Shared, person: &Person, id: &str, view: View<'_>) -> PageResult {
    let cursor = view.cursor()?;
    let request = PageRequest::within(PAGE_SIZE, cursor);
    let found = api::link_history::list_for(app, &person.caller, id, request).await?;
    let is_deleted = match api::links::find(&mut app.db.read().await?.conn(), &person.caller, id).await {
        Ok(_) => false,
        Err(error) if error.is_not_found() => true,
        Err(error) => return Err(error),
    };
    let frame = Frame::of(app, person, Section::LINKS, format!("History of {id}")).showing(&view);
    let page = HistoryPage {
        frame: &frame,
        id,
        is_deleted,
        versions: found.versions.into_iter().map(VersionRow::from).collect(),
        pager: Pager::new(format!("/account/links/{id}/history"), cursor, found.next_cursor),
        form_id: draw_id(app),
        error: view.error().map(|error| error.text.clone()),
    };
    Ok(answer(app, view.outcome(), &frame, &page))
}

/// Restores a version, or what a deleted link was.
pub(super) async fn restore(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    let mut asked = RestoreLink::new();
    // Whatever is no number is no version's.
    asked.version = form.filled("version").map(|text| text.parse().unwrap_or(0));
    let path = format!("/account/links/{id}");
    let once = Once::form(&person.caller, &path, form.value("form"), form.value("version"));
    match api::link_history::restore_for(&app, Arc::clone(&person.caller), once, id.clone(), asked).await {
        Ok(_) => Ok(see_other(&format!("{path}?done=link-restored"))),
        Err(error) => page(&app, &person, &id, View::refused(None, error)?).await,
    }
}

/// A deleted link in the list.
struct DeletedRow {
    id: String,
    name: Option<String>,
    created: Timestamp,
    deleted: Timestamp,
}

#[derive(Template)]
#[template(path = "pages/deleted_links.html")]
struct DeletedPage<'a> {
    frame: &'a Frame,
    links: Vec<DeletedRow>,
    pager: Pager,
    days: i64,
    form_id: String,
}

/// The links that can still be restored, newest first.
pub(super) async fn deleted(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let cursor = query.one("cursor")?;
    let filter = LinkFilter::new().status(LinkStatus::Deleted);
    let found = api::links::list_for(&app, &person.caller, filter, cursor, PAGE_SIZE).await?;
    let frame = Frame::of(&app, &person, Section::LINKS, "Deleted links").after(&query);
    let links = found.links.into_iter().map(|link| DeletedRow {
        name: name_of(&link),
        created: link.created_at,
        deleted: link.updated_at,
        id: link.link_id,
    });
    let page = DeletedPage {
        frame: &frame,
        links: links.collect(),
        pager: Pager::new("/account/deleted-links", cursor, found.next_cursor),
        days: DELETED_DAYS,
        form_id: draw_id(&app),
    };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}
