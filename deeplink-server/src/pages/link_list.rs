//! The list of links, with their clicks.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use deeplink_core::link::LinkFilter;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;

use super::PageResult;
use super::chart::Count;
use super::frame::{Frame, Pager, Section, answer};
use super::link_filter::LinkListQuery;
use super::links::{Status, destination_of, name_of};
use super::person::Person;
use super::tags::{self, TagLink};
use crate::api;
use crate::api::link_list::LinkPage;
use crate::db::clicks::{self, By, Kinds, Scope};
use crate::db::{Conn, DbError};
use crate::error::ApiError;
use crate::http::cursor::{Cursor, LinkCursor};
use crate::http::extract::Query;
use crate::state::{App, Shared};

/// Links per page of the list.
const PAGE_SIZE: u32 = 25;
/// Days over which clicks are counted.
const DAYS: i64 = 30;

/// A link in a list.
pub(super) struct LinkRow {
    pub(super) id: String,
    /// The link's name, else its title.
    pub(super) name: Option<String>,
    /// Its first destination.
    pub(super) leads_to: Option<String>,
    pub(super) status: Status,
    pub(super) created: Timestamp,
    pub(super) clicks: Count,
    pub(super) tags: Vec<TagLink>,
}

#[derive(Template)]
#[template(path = "pages/links.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    links: Vec<LinkRow>,
    pager: Pager,
    list: LinkListQuery,
}

/// The list, or the part of it that the query asks for.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let cursor = query.one("cursor")?;
    let list = LinkListQuery::read(&app, &person, &query).await?;
    let mut filter = list.filter(app.clock.now(), &person.who.zone).check()?;
    let (links, next) = match cursor {
        Some(_) if list.is_by_clicks() => return Err(LinkCursor::filter_mismatch()),
        None if list.is_by_clicks() => (most_clicked(&app, &person, filter).await?, None),
        _ => {
            if let (Some(text), Some(created)) = (cursor, &mut filter.created_after) {
                // Since the cursor was issued, "the last 7 days" may have become other ones.
                let begun = LinkCursor::read(text, &app.vault, &person.caller)?;
                *created = begun.filter.created_after.unwrap_or(*created);
            }
            rows(&app, &person, filter, cursor).await?
        }
    };
    let frame = Frame::of(&app, &person, Section::LINKS, "Links").after(&query);
    let pager = Pager::new(list.href(), cursor, next);
    let pager = if list.is_oldest_first() { pager.oldest_first() } else { pager };
    Ok(answer(&app, StatusCode::OK, &frame, &ListPage { frame: &frame, links, pager, list }))
}

/// One page of links that match a filter, and the cursor of the next page.
pub(super) async fn rows(
    app: &App,
    person: &Person,
    filter: LinkFilter,
    cursor: Option<&str>,
) -> Result<(Vec<LinkRow>, Option<String>), ApiError> {
    let mut found = api::link_list::page_of(app, &person.caller, filter, cursor, PAGE_SIZE).await?;
    let next = found.next_cursor.take();
    Ok((counted(app, person, found).await?.into_iter().map(|(_, row)| row).collect(), next))
}

/// Those of the account's most clicked links that match a filter, the one with the most clicks first.
async fn most_clicked(app: &App, person: &Person, filter: LinkFilter) -> Result<Vec<LinkRow>, ApiError> {
    let found = api::link_list::most_clicked(app, &person.caller, window(app.clock.now()), filter).await?;
    let mut rows = counted(app, person, found).await?;
    rows.sort_by(|(clicks, row), (more, other)| more.cmp(clicks).then_with(|| row.id.cmp(&other.id)));
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The rows of some links, each after its clicks.
async fn counted(app: &App, person: &Person, found: LinkPage) -> Result<Vec<(i64, LinkRow)>, ApiError> {
    let now = app.clock.now();
    let positions: Vec<i64> = found.links.iter().map(|link| link.position).collect();
    app.clicks.counted().await;
    let counts = app
        .report(&person.caller, move |mut db, _| async move { recent_clicks(&mut db, &positions, now).await }.boxed());
    let counts = counts.await?;
    let rows = found.links.into_iter().map(|link| {
        let clicks = counts.get(&link.position).copied().unwrap_or(0);
        let link = app.detail(link, found.primary.as_deref(), now);
        let row = LinkRow {
            name: name_of(&link),
            leads_to: destination_of(&link),
            status: Status::from(&link.status),
            created: link.created_at,
            tags: tags::links_of(&link.tags),
            id: link.link_id,
            clicks: clicks.into(),
        };
        (clicks, row)
    });
    Ok(rows.collect())
}

/// Clicks of the last `DAYS` days, by `links.position`.
async fn recent_clicks(db: &mut Conn<'_>, links: &[i64], now: Timestamp) -> Result<BTreeMap<i64, i64>, DbError> {
    let [from, to] = window(now);
    clicks::count(db, Scope { links, from, to, kinds: Kinds::Funnel }, By::Link).await
}

/// The last `DAYS` days, from a whole hour: hours are read from the hourly counts, without the click log.
fn window(now: Timestamp) -> [i64; 2] {
    let from = now.plus_days(-DAYS).as_millis();
    [from - from.rem_euclid(3_600_000), i64::MAX]
}
