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
/// Events other than clicks on one page.
const OTHERS: i64 = 512;

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
    const SQL: &str = "SELECT position FROM events WHERE id = $1 AND tenant_id = $2 AND position IS NOT NULL";
    let oldest = place(now.plus_millis(-STREAM_HOURS * 3_600_000).as_millis());
    let stored: Option<i64> =
        on!(db, c => sqlx::query_scalar(SQL).bind(id.as_str()).bind(tenant.as_str()).fetch_optional(c).await)?;
    let position = match stored.or_else(|| click_position(id)) {
        Some(position) if position <= head(db).await? => position,
        // What was kept for its time is gone, and so is the place that it had.
        None if id.millis() < now.plus_millis(-STREAM_HOURS * 3_600_000).as_millis() => oldest,
        _ => return Ok(Found::Unknown),
    };
    Ok(Found::At(position.max(oldest)))
}

/// Events of some tenants behind a place, in their order, and the place up to which these are all.
pub(crate) async fn page(
    db: &mut Conn<'_>,
    tenants: &[&TenantId],
    after: i64,
    upto: i64,
) -> Result<(Vec<Told>, i64), DbError> {
    let clicked = window(db, after, upto, LOOKED_AT).await?;
    let mut upto = match clicked {
        Some((end, LOOKED_AT)) => end,
        _ => upto,
    };
    let mut told = others(db, tenants, after, upto).await?;
    if i64::try_from(told.len()).is_ok_and(|count| count == OTHERS)
        && let Some(last) = told.last()
    {
        upto = last.position;
    }
    if clicked.is_some() {
        told.extend(clicks(db, tenants, after, upto).await?);
        told.sort_unstable_by_key(|told| told.position);
    }
    Ok((told, upto))
}

async fn others(db: &mut Conn<'_>, tenants: &[&TenantId], after: i64, upto: i64) -> Result<Vec<Told>, DbError> {
    let sql = format!(
        "SELECT id, tenant_id, kind, position, body FROM events
        WHERE tenant_id IN ({}) AND position > $1 AND position <= $2 AND kind <> 0 ORDER BY position LIMIT $3",
        places(4, tenants.len())
    );
    let rows: Vec<Other> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(upto).bind(OTHERS);
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
        WHERE c.position > $1 AND c.position <= $2 AND {KINDS} AND COALESCE(l.tenant_id, d.tenant_id) IN ({})",
        places(3, tenants.len())
    );
    let rows: Vec<Click> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(upto);
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
