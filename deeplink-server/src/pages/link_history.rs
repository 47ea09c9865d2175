//! The history of a link, with a button that restores each version, and the links that were deleted.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use deeplink_core::link::{DELETED_DAYS, LinkContent, LinkFilter, LinkStatus, LinkVersion, RestoreLink};
use deeplink_core::time::Timestamp;
use http::StatusCode;

use super::PageResult;
use super::audit::who;
use super::form::{Form, View, draw_id};
use super::frame::{Frame, Pager, Section, answer};
use super::headers::see_other;
use super::links::{destination_of, name_of};
use super::person::Person;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::http::pages::PageRequest;
use crate::state::Shared;
use crate::{api, db};

/// Rows per page of each list.
const PAGE_SIZE: u32 = 25;

/// A version as the page shows it.
struct VersionRow {
    version: u64,
    /// What was done: of an update, the fields that it changed.
    change: String,
    /// The fields that restoring a version changed.
    changed: Option<String>,
    /// Whether the change was part of a bulk request.
    is_bulk: bool,
    by: String,
    at: Timestamp,
    /// The first destination before the change.
    led_to: Option<String>,
    name: Option<String>,
}

impl VersionRow {
    /// A version, and what the link was after its change.
    fn of(version: LinkVersion, after: Option<&LinkContent>) -> Self {
        let (change, changed) = version.in_words(after);
        Self {
            version: version.version,
            change,
            changed,
            is_bulk: version.bulk,
            by: who(version.actor, &version.actor_type),
            at: version.changed_at,
            led_to: first_destination(&version.content).map(str::to_owned),
            name: version.content.name,
        }
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
    let (is_deleted, mut after) = standing(app, person, id, found.versions.first()).await?;
    let versions = found.versions.into_iter().map(|version| {
        let newer = after.replace(version.content.clone());
        VersionRow::of(version, newer.as_ref())
    });
    let frame = Frame::of(app, person, Section::LINKS, format!("History of {id}")).showing(&view);
    let page = HistoryPage {
        frame: &frame,
        id,
        is_deleted,
        versions: versions.collect(),
        pager: Pager::new(format!("/account/links/{id}/history"), cursor, found.next_cursor),
        form_id: draw_id(app),
        error: view.error().map(|error| error.text.clone()),
    };
    Ok(answer(app, view.outcome(), &frame, &page))
}

/// Whether a link is deleted, and its content after the newest change on a page: the content before the next change or,
/// if there is none, its current content. A deleted link has none.
async fn standing(
    app: &Shared,
    person: &Person,
    id: &str,
    newest: Option<&LinkVersion>,
) -> Result<(bool, Option<LinkContent>), ApiError> {
    let mut reader = app.db.read().await?;
    let conn = &mut reader.conn();
    let tenant = &person.caller.tenant;
    let link = match api::links::find(conn, &person.caller, id).await {
        Ok(link) => Some(link),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    let position = match &link {
        Some(link) => Some(link.position),
        None => db::link_history::find_deleted(conn, tenant, id, app.clock.now()).await?,
    };
    let next = newest.and_then(|version| i64::try_from(version.version).ok()).map(|version| version.saturating_add(1));
    // Read after the link, so that a change in the meantime is not taken for a part of the newest one.
    let next = match position.zip(next) {
        Some((position, next)) => db::link_history::find(conn, (tenant, position), Some(next)).await?,
        None => None,
    };
    let is_deleted = link.is_none();
    Ok((is_deleted, next.or(link).map(|link| link.content.into())))
}

/// Restores a version, or a deleted link.
pub(super) async fn restore(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    let mut asked = RestoreLink::new();
    // Text that is not a number matches no version.
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
    let found = api::link_list::list_for(&app, &person.caller, filter, cursor, PAGE_SIZE).await?;
    let frame = Frame::of(&app, &person, Section::LINKS, "Deleted links").after(&query);
    let links = found.links.into_iter().map(|link| DeletedRow {
        name: name_of(&link).or_else(|| destination_of(&link)),
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
