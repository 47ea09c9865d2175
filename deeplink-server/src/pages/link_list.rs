//! The list of links, with their clicks. What is done to those that are selected in it is in [`super::selected_links`].

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use deeplink_core::link::{LinkDetail, LinkFilter};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::chart::Count;
use super::form::{Form, FormView, Kind, View};
use super::frame::{Frame, LINK_LIST, Pager, Section, answer};
use super::link_filter::LinkListQuery;
use super::links::{Status, destination_of, name_of};
use super::person::Person;
use super::tags::{self, TagLink};
use super::{PageResult, selected_links};
use crate::api;
use crate::api::link_list::LinkPage;
use crate::caller::Caller;
use crate::db::clicks::{self, By, Kinds, Scope};
use crate::db::{Conn, DbError};
use crate::error::ApiError;
use crate::http::cursor::{Cursor, LinkCursor};
use crate::http::extract::Query;
use crate::state::{App, Shared};

/// Links per page of the list.
pub(super) const PAGE_SIZE: u32 = 50;
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
    /// Whether it is selected, in a list where links can be.
    pub(super) selected: Option<bool>,
}

impl From<(i64, LinkDetail)> for LinkRow {
    /// The row of a link, which follows its clicks.
    fn from((clicks, link): (i64, LinkDetail)) -> Self {
        Self {
            name: name_of(&link),
            leads_to: destination_of(&link),
            status: Status::from(&link.status),
            created: link.created_at,
            tags: tags::links_of(&link.tags),
            id: link.link_id,
            clicks: clicks.into(),
            selected: None,
        }
    }
}

#[derive(Template)]
#[template(path = "pages/links.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    links: Vec<LinkRow>,
    pager: Pager,
    list: LinkListQuery,
    /// Whether the account has no links.
    is_blank: bool,
    /// Where the form for the selected links is submitted to.
    action: String,
    form: FormView,
}

/// The list, or the part of it that the query asks for.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    page(&app, &person, &query, &[], &View::Opened(Some(&query))).await
}

/// The list with the form for the selected links, and with these links selected.
pub(super) async fn page(
    app: &App,
    person: &Person,
    query: &Query,
    selected: &[String],
    view: &View<'_>,
) -> PageResult {
    let cursor = query.one("cursor")?;
    let list = LinkListQuery::read(app, person, query).await?;
    let mut filter = list.filter(app.clock.now(), &person.who.zone).check()?;
    let (mut links, next) = match cursor {
        Some(_) if list.is_by_clicks() => return Err(LinkCursor::filter_mismatch()),
        None if list.is_by_clicks() => {
            let most = most_clicked(app, &person.caller, filter).await?.into_iter().take(PAGE_SIZE as usize);
            (most.map(LinkRow::from).collect(), None)
        }
        _ => {
            if let (Some(text), Some(created)) = (cursor, &mut filter.created_after) {
                // Since the cursor was issued, "the last 7 days" may have become other ones.
                let begun = LinkCursor::read(text, &app.vault, &person.caller)?;
                *created = begun.filter.created_after.unwrap_or(*created);
            }
            rows(app, person, filter, cursor, PAGE_SIZE).await?
        }
    };
    for link in &mut links {
        link.selected = Some(selected.contains(&link.id));
    }
    let frame = Frame::of(app, person, Section::LINKS, "Links").with(&LINK_LIST).showing(view);
    let pager = Pager::new(list.href(), cursor, next);
    let pager = if list.is_oldest_first() { pager.oldest_first() } else { pager };
    let page = ListPage {
        frame: &frame,
        is_blank: links.is_empty() && cursor.is_none() && list.is_all(),
        action: list.href_at(selected_links::PATH, [("cursor", cursor)]),
        form: FormView::new(app, vec![selected_links::group()], &Form::default(), view),
        links,
        pager,
        list,
    };
    Ok(answer(app, view.outcome(), &frame, &page))
}

/// One page of links that match a filter, and the cursor of the next page.
pub(super) async fn rows(
    app: &App,
    person: &Person,
    filter: LinkFilter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<(Vec<LinkRow>, Option<String>), ApiError> {
    let mut found = api::link_list::page_of(app, &person.caller, filter, cursor, limit).await?;
    let next = found.next_cursor.take();
    Ok((counted(app, &person.caller, found).await?.into_iter().map(LinkRow::from).collect(), next))
}

/// Those of the account's most clicked links that match a filter, the one with the most clicks first, each after its clicks.
pub(super) async fn most_clicked(
    app: &App,
    caller: &Caller,
    filter: LinkFilter,
) -> Result<Vec<(i64, LinkDetail)>, ApiError> {
    let found = api::link_list::most_clicked(app, caller, window(app.clock.now()), filter).await?;
    let mut links = counted(app, caller, found).await?;
    links.sort_by(|(clicks, link), (more, other)| more.cmp(clicks).then_with(|| link.link_id.cmp(&other.link_id)));
    Ok(links)
}

/// Some links, each after its clicks.
async fn counted(app: &App, caller: &Caller, found: LinkPage) -> Result<Vec<(i64, LinkDetail)>, ApiError> {
    let now = app.clock.now();
    let positions: Vec<i64> = found.links.iter().map(|link| link.position).collect();
    app.clicks.counted().await;
    let counts =
        app.report(caller, move |mut db, _| async move { recent_clicks(&mut db, &positions, now).await }.boxed());
    let counts = counts.await?;
    let links = found.links.into_iter().map(|link| {
        let clicks = counts.get(&link.position).copied().unwrap_or(0);
        (clicks, app.detail(link, found.primary.as_deref(), now))
    });
    Ok(links.collect())
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
