//! Lists of links: parameters, pages, and the links of a list that have these IDs.

use axum::Json;
use axum::extract::State;
use deeplink_core::error::ErrorBody;
use deeplink_core::link::{LinkFilter, LinkList, LinkSort, LinkStatus};
use deeplink_core::page::{self, MAX_LIMIT};
use futures_util::FutureExt;

use crate::caller::Caller;
use crate::db::link_list::{self, Found, ListRequest};
use crate::db::links::{self, Link};
use crate::db::{DbError, clicks, domains, link_history, link_search, tenants};
use crate::error::ApiError;
use crate::http::auth::LinkWriter;
use crate::http::cursor::{Cursor, LinkCursor};
use crate::http::documented::AnyKey;
use crate::http::extract::Query;
use crate::state::{App, SEARCHED_ROWS, Shared};

/// Lists links.
///
/// Newest first, unless `sort` is `oldest`. A cursor contains its list's filters and order, and may be sent alone.
#[utoipa::path(
    get, path = "/v1/links", operation_id = "list_links", tag = "links", security(("secret_key" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Links per page", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"),
        ("affiliate_id" = Option<String>, Query, description = "Only this affiliate's links", pattern = "^aff_[0-9a-f]{24}$"),
        ("status" = Option<LinkStatus>, Query, description = "Only links with this status. `deleted` lists the deleted links that can be restored; without it, they are not listed. A page of deleted links may be short or empty and still have a `next_cursor`"),
        ("enabled" = Option<bool>, Query, description = "Only links that their owner has enabled (`true`) or disabled (`false`), whatever their `status`. A page may be short or empty and still have a `next_cursor`"),
        ("domain" = Option<String>, Query, description = "Only links whose `url` has this host, such as `go.example.com`: case-insensitive, without a port. Most links have the account's primary domain in their `url`. A page may be short or empty and still have a `next_cursor`"),
        ("created_after" = Option<String>, Query, description = "Only links created after this time (RFC 3339)", format = DateTime),
        ("created_before" = Option<String>, Query, description = "Only links created before this time (RFC 3339)", format = DateTime),
        ("id_prefix" = Option<String>, Query, description = "Only links whose ID starts with this text, case-sensitive"),
        ("q" = Option<String>, Query, description = "Only links that contain this text (at most 2,048 characters, case-insensitive) in the ID, aliases, name, tags, URLs, preview title or metadata. A page may be short or empty and still have a `next_cursor`"),
        ("tag" = Option<Vec<String>>, Query, description = "Only links with this tag; if repeated, only links with all of these tags, at most 20", max_items = 20),
        ("sort" = Option<LinkSort>, Query, description = "Order by creation: `newest` first (default) or `oldest` first"),
    ),
    responses(
        (status = 200, description = "One page", body = LinkList),
        AnyKey,
        (status = 400, description = "A parameter is malformed, or the cursor belongs to a different list", body = ErrorBody),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    query: Query,
) -> Result<Json<LinkList>, ApiError> {
    let limit = page::limit(query.one("limit")?, page::DEFAULT_LIMIT)?;
    let asked = read_filter(&query)?;
    let cursor = query.one("cursor")?;
    caller.form_is_valid()?;
    list_for(&app, &caller, asked, cursor, limit).await.map(Json)
}

/// A page of the links that the caller sees, with their details.
pub(crate) async fn list_for(
    app: &App,
    caller: &Caller,
    asked: LinkFilter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<LinkList, ApiError> {
    let found = page_of(app, caller, asked, cursor, limit).await?;
    let (primary, now) = (found.primary, app.clock.now());
    let links = found.links.into_iter().map(|link| app.detail(link, primary.as_deref(), now)).collect();
    Ok(LinkList { links, next_cursor: found.next_cursor })
}

/// One page of a list, as stored.
pub(crate) struct LinkPage {
    pub(crate) links: Vec<Link>,
    /// The tenant's primary domain, used in their addresses.
    pub(crate) primary: Option<String>,
    /// Where the next page begins.
    pub(crate) next_cursor: Option<String>,
}

/// Reads one page of a caller's links.
pub(crate) async fn page_of(
    app: &App,
    caller: &Caller,
    asked: LinkFilter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<LinkPage, ApiError> {
    let (filter, last) = match cursor {
        None => (asked, None),
        Some(text) => {
            let cursor = LinkCursor::read(text, &app.vault, caller)?;
            if asked != LinkFilter::new() && !cursor.is_of(&asked) {
                return Err(LinkCursor::filter_mismatch());
            }
            (cursor.filter, Some(cursor.last))
        }
    };
    let (now, service_host) = (app.clock.now(), app.service_host.clone());
    let mut scoped = filter.clone();
    if let Some(own) = &caller.affiliate {
        if filter.affiliate_id.as_deref().is_some_and(|other| other != own.as_str()) {
            return Ok(LinkPage { links: Vec::new(), primary: None, next_cursor: None });
        }
        if !filter.tags.is_empty() {
            // Tags are for the owner alone.
            return Ok(LinkPage { links: Vec::new(), primary: None, next_cursor: None });
        }
        scoped.affiliate_id = Some(own.as_str().to_owned());
    }
    let is_affiliate = caller.affiliate.is_some();
    let is_search = link_search::is_needed(&scoped);
    let is_deleted = scoped.status == Some(LinkStatus::Deleted);
    let is_wide = is_search || is_deleted || is_sparse(&scoped);
    let rows = if is_wide { SEARCHED_ROWS } else { 1 };
    let list = app.report_of_rows(caller, rows, move |mut db, tenant| {
        async move {
            let primary = domains::primary_of(&mut db, &tenant).await?;
            let default_host = primary.as_deref().unwrap_or(&service_host);
            let list = ListRequest { tenant: &tenant, is_affiliate, filter: &scoped, default_host, last, limit, now };
            let found = if is_deleted {
                link_history::deleted(&mut db, &list).await?
            } else if is_search {
                link_search::search(&mut db, &list).await?
            } else {
                link_list::page(&mut db, &list).await?
            };
            Ok::<_, DbError>((found, primary))
        }
        .boxed()
    });
    let (Found { links: mut found, stopped_at }, primary) = list.await?;
    if is_affiliate {
        found.iter_mut().for_each(Link::hide_from_affiliate);
    }
    let next = stopped_at.map(|last| LinkCursor { last, filter }.write(&app.vault, caller));
    let next_cursor = next.transpose()?;
    Ok(LinkPage { links: found, primary, next_cursor })
}

/// Whether a list may read the index entries of all links, or all links with a tag, to find a few: no index is ordered
/// by these filters, or answers tags together with other filters. Nearly all links of an account may have expired.
fn is_sparse(filter: &LinkFilter) -> bool {
    let is_timed = matches!(filter.status, Some(LinkStatus::Active | LinkStatus::Expired));
    let is_few = is_timed || filter.id_prefix.as_deref().is_some_and(|prefix| !prefix.is_empty());
    let others = [filter.status.is_some(), filter.affiliate_id.is_some()];
    is_few || filter.tags.len() > 1 || (filter.tags.len() == 1 && others.contains(&true))
}

/// Those of the account's links with the most clicks in a window, at most 100, that match a filter of the owner's, in no
/// order.
pub(crate) async fn most_clicked(
    app: &App,
    caller: &Caller,
    window: [i64; 2],
    filter: LinkFilter,
) -> Result<LinkPage, ApiError> {
    let (now, service_host) = (app.clock.now(), app.service_host.clone());
    app.clicks.counted().await;
    let found = app.report(caller, move |mut db, tenant| {
        async move {
            let primary = domains::primary_of(&mut db, &tenant).await?;
            let Some(account) = tenants::account(&mut db, &tenant).await? else { return Ok((Vec::new(), primary)) };
            let most = clicks::most_clicked(&mut db, account, window, MAX_LIMIT as usize).await?;
            let ids: Vec<&str> = most.iter().map(|(_, id, _)| id.as_str()).collect();
            let mut links = links::find_many(&mut db, &tenant, &ids).await?;
            let (default_host, filter) = (primary.as_deref().unwrap_or(&service_host), &filter);
            let (is_affiliate, last, limit) = (false, None, MAX_LIMIT);
            let list = ListRequest { tenant: &tenant, is_affiliate, filter, default_host, last, limit, now };
            let text = filter.q.as_deref().unwrap_or_default().to_lowercase();
            links.retain(|link| list.matches(link, &text));
            Ok::<_, DbError>((links, primary))
        }
        .boxed()
    });
    let (links, primary) = found.await?;
    Ok(LinkPage { links, primary, next_cursor: None })
}

fn read_filter(query: &Query) -> Result<LinkFilter, ApiError> {
    let mut filter = LinkFilter::new();
    filter.affiliate_id = query.one("affiliate_id")?.map(str::to_owned);
    filter.status = query.one("status")?.map(LinkStatus::from);
    filter.enabled = query.parsed("enabled", "true or false", |text| text.parse().ok())?;
    filter.domain = query.one("domain")?.map(str::to_owned);
    filter.created_after = query.moment("created_after")?;
    filter.created_before = query.moment("created_before")?;
    filter.id_prefix = query.one("id_prefix")?.map(str::to_owned);
    filter.q = query.one("q")?.map(str::to_owned);
    filter.tags = query.every("tag").map(str::to_owned).collect();
    filter.sort = query.one("sort")?.map(LinkSort::from);
    Ok(filter.check()?)
}
