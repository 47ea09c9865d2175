//! The log of events, for warehouses and for questions that no report answers.

use axum::Json;
use axum::extract::State;
use deeplink_core::error::ErrorBody;
use deeplink_core::event::{EventFilter, EventKind, EventList, MAX_EVENTS};
use deeplink_core::page;
use futures_util::FutureExt;

use crate::caller::Caller;
use crate::db::clicks::position_at;
use crate::db::events::{LogPage, Wanted, log};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::cursor::{Cursor, EventCursor};
use crate::http::documented::FullKey;
use crate::http::extract::Query;
use crate::state::{App, Shared};

/// Lists events, oldest first.
///
/// Returns clicks by people and agents, touches, bindings and conversions by known users, each with the body
/// that webhooks receive, in the order in which the service stored them. The order is the same for every
/// reader, and the events in a period do not change from one minute after it ends. Events are stored within about
/// a second of their `timestamp`; clicks may be stored later after a failure, and conversions once their user
/// is known. Events are kept as long as clicks. A page may be short or empty and still have a `next_cursor`; a
/// cursor contains the filters of its list and may be sent alone.
#[utoipa::path(
    get, path = "/v1/analytics/events", operation_id = "list_events", tag = "analytics", security(("secret_key" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Events per page, 100 by default", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"),
        ("kind" = Option<EventKind>, Query, description = "Only events of this kind"),
        ("link_id" = Option<String>, Query, description = "Only events that refer to this link: its clicks, installs opened from it, and conversions for which it was the first or last touch"),
        ("from" = Option<String>, Query, description = "Only events stored at this time or later (RFC 3339)", format = DateTime),
        ("to" = Option<String>, Query, description = "Only events stored before this time (RFC 3339)", format = DateTime),
    ),
    responses(
        (status = 200, description = "One page", body = EventList),
        FullKey,
        (status = 400, description = "A parameter is malformed, `kind` is unknown (`invalid_event`), or the cursor belongs to a different list (`invalid_cursor`)", body = ErrorBody),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<EventList>, ApiError> {
    let limit = page::limit_to(query.one("limit")?, page::MAX_LIMIT, MAX_EVENTS)?;
    let asked = read_filter(&query)?;
    let cursor = query.one("cursor")?;
    caller.form_is_valid()?;
    list_for(&app, &caller, asked, cursor, limit).await.map(Json)
}

fn read_filter(query: &Query) -> Result<EventFilter, ApiError> {
    let mut filter = EventFilter::new();
    filter.kind = query.one("kind")?.map(EventKind::named);
    filter.link_id = query.one("link_id")?.map(str::to_owned);
    filter.from = query.moment("from")?;
    filter.to = query.moment("to")?;
    filter.check()?;
    Ok(filter)
}

/// A page of the caller's events.
pub(crate) async fn list_for(
    app: &App,
    caller: &Caller,
    asked: EventFilter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<EventList, ApiError> {
    let (filter, after) = match cursor {
        None => {
            let from = asked.from.map_or(0, |from| position_at(from.as_millis()));
            (asked, from)
        }
        Some(text) => {
            let cursor = EventCursor::read(text, &app.vault, caller)?;
            if asked != EventFilter::new() && asked != cursor.filter {
                return Err(EventCursor::filter_mismatch());
            }
            (cursor.filter, cursor.after)
        }
    };
    let wanted = filter.clone();
    app.clicks.counted().await;
    let list = app.report(caller, move |mut db, tenant| {
        async move {
            let kinds = wanted.kind.as_ref().map_or(EventKind::ALL, std::slice::from_ref);
            let of = Wanted { tenants: &[&tenant], kinds, clicked: wanted.link_id.as_deref() };
            log(&mut db, of, (after, wanted.to), limit as usize).await
        }
        .boxed()
    });
    let LogPage { events, stopped_at } = list.await?;
    let next = stopped_at.map(|after| EventCursor { after, filter }.write(&app.vault, caller));
    Ok(EventList::new(events, next.transpose()?))
}
