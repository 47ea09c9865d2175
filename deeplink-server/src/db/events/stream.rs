//! Events in their order, for readers of the stream: clicks from the log, others from their table.

use deeplink_core::event::{EventKind, click_position};
use deeplink_core::id::{EventId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::{AssertSqlSafe, FromRow};

use super::super::clicks::{head, place};
use super::super::sets::places;
use super::super::{Conn, DbError, on};
use super::STREAM_HOURS;
use super::clicks::{COLUMNS, Click, KINDS, OWNERS, TEXTS, window};

/// Clicks of the log that one page passes at most, whoever's they are.
const LOOKED_AT: i64 = 4_096;
/// Clicks and other events on one page at most, of each: what a visitor said may be long, and a page is held in memory.
const MOST: i64 = 256;

/// An event as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) position: i64,
    pub(crate) id: EventId,
    pub(crate) tenant: TenantId,
    pub(crate) kind: EventKind,
    pub(crate) body: String,
}

#[derive(FromRow)]
struct Other {
    id: String,
    tenant_id: String,
    kind: i64,
    position: i64,
    body: String,
}

impl Other {
    fn told(self) -> Result<Told, DbError> {
        let corrupt = |column| DbError::corrupt("events", column, &self.id);
        Ok(Told {
            position: self.position,
            id: self.id.parse().map_err(|_| corrupt("id"))?,
            tenant: self.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            kind: u8::try_from(self.kind).ok().and_then(EventKind::from_code).ok_or_else(|| corrupt("kind"))?,
            body: self.body,
        })
    }
}

/// What a reader can have seen last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The place of the event, or of the oldest that the stream still tells.
    At(i64),
    /// There was no such event.
    Unknown,
}

/// Where a reader goes on that has seen an event.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, id: &EventId, now: Timestamp) -> Result<Found, DbError> {
    // One that was made up to try a webhook has place 0: it did not happen.
    const SQL: &str = "SELECT position FROM events WHERE id = $1 AND tenant_id = $2 AND position > 0";
    let since = now.plus_millis(-STREAM_HOURS * 3_600_000).as_millis();
    let (oldest, end) = (place(since), head(db).await?);
    let stored: Option<i64> =
        on!(db, c => sqlx::query_scalar(SQL).bind(id.as_str()).bind(tenant.as_str()).fetch_optional(c).await)?;
    let position = match stored.or_else(|| click_position(id)) {
        // The log may end before an old place, when retention has taken all of it.
        Some(position) if position <= end.max(oldest) => position,
        // What was kept for its time is gone, and so is the place that it had.
        None if id.millis() < since => oldest,
        _ => return Ok(Found::Unknown),
    };
    Ok(Found::At(position.max(oldest).min(end)))
}

/// Events of some tenants behind a place, in their order, and the place up to which these are all. Without `has_clicks`
/// clicks are left out, and the log is not looked at.
pub(crate) async fn page(
    db: &mut Conn<'_>,
    tenants: &[&TenantId],
    (after, upto): (i64, i64),
    has_clicks: bool,
) -> Result<(Vec<Told>, i64), DbError> {
    let clicked = if has_clicks { window(db, after, upto, LOOKED_AT).await? } else { None };
    let upto = match clicked {
        Some((end, LOOKED_AT)) => end,
        _ => upto,
    };
    let mut told = others(db, tenants, after, upto).await?;
    let mut upto = end_of(&told, upto);
    if clicked.is_some() {
        let clicks = clicks(db, tenants, after, upto).await?;
        upto = end_of(&clicks, upto);
        told.retain(|told| told.position <= upto);
        told.extend(clicks);
        told.sort_unstable_by_key(|told| told.position);
    }
    Ok((told, upto))
}

/// Up to where a page has everything: to its last row, if there may be more.
fn end_of(rows: &[Told], upto: i64) -> i64 {
    let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= MOST);
    rows.last().filter(|_| is_full).map_or(upto, |last| last.position)
}

async fn others(db: &mut Conn<'_>, tenants: &[&TenantId], after: i64, upto: i64) -> Result<Vec<Told>, DbError> {
    let sql = format!(
        "SELECT id, tenant_id, kind, position, body FROM events
        WHERE tenant_id IN ({}) AND position > $1 AND position <= $2 AND kind <> 0 ORDER BY position LIMIT $3",
        places(4, tenants.len())
    );
    let rows: Vec<Other> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(upto).bind(MOST);
        for tenant in tenants {
            query = query.bind(tenant.as_str());
        }
        query.fetch_all(c).await
    })?;
    rows.into_iter().map(Other::told).collect()
}

async fn clicks(db: &mut Conn<'_>, tenants: &[&TenantId], after: i64, upto: i64) -> Result<Vec<Told>, DbError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM clicks c {OWNERS} {TEXTS}
        WHERE c.position > $1 AND c.position <= $2 AND {KINDS} AND COALESCE(l.tenant_id, d.tenant_id) IN ({})
        ORDER BY c.position LIMIT $3",
        places(4, tenants.len())
    );
    let rows: Vec<Click> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(upto).bind(MOST);
        for tenant in tenants {
            query = query.bind(tenant.as_str());
        }
        query.fetch_all(c).await
    })?;
    let told = |click: Click| {
        let position = click.position;
        let (id, tenant, body) = click.told()?;
        Ok(Told { position, id, tenant, kind: EventKind::Click, body })
    };
    rows.into_iter().map(told).collect()
}
