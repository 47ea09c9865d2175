//! Events in their order, for readers of the stream and of the log: clicks from the log, others from their table.

use deeplink_core::event::{EventKind, click_position};
use deeplink_core::id::{EventId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::{AssertSqlSafe, FromRow};

use super::super::clicks::{head, position_at};
use super::super::sets::placeholders;
use super::super::{Conn, DbError, on};
use super::STREAM_HOURS;
use super::clicks::{COLUMNS, Click, KINDS, OWNERS, TEXTS, window};

/// Maximum clicks of the log that one page scans, of all tenants, and maximum other events of those that read.
const MAX_SCANNED: i64 = 4_096;
/// Maximum clicks and maximum other events on one page: texts of visitors may be long, and a page is held in memory.
const MAX_PER_PAGE: i64 = 256;

/// Milliseconds that a reader's clock may be ahead.
const MAX_SKEW: i64 = 60_000;

/// An event as the stream sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamEvent {
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
    fn event(self) -> Result<StreamEvent, DbError> {
        let corrupt = |column| DbError::corrupt("events", column, &self.id);
        Ok(StreamEvent {
            position: self.position,
            id: self.id.parse().map_err(|_| corrupt("id"))?,
            tenant: self.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            kind: u8::try_from(self.kind).ok().and_then(EventKind::from_code).ok_or_else(|| corrupt("kind"))?,
            body: self.body,
        })
    }
}

/// Where a reader resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReaderPosition {
    /// The position of the event, or of the oldest that the stream still sends.
    At(i64),
    /// There was no such event.
    Unknown,
}

/// Where a reader resumes after an event.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &EventId,
    now: Timestamp,
) -> Result<ReaderPosition, DbError> {
    // A sample event, which tests a webhook, has position 0.
    const SQL: &str = "SELECT position FROM events WHERE id = $1 AND tenant_id = $2 AND position > 0";
    let since = now.plus_millis(-STREAM_HOURS * 3_600_000).as_millis();
    let (oldest, end) = (position_at(since), head(db).await?);
    let stored: Option<i64> =
        on!(db, c => sqlx::query_scalar(SQL).bind(id.as_str()).bind(tenant.as_str()).fetch_optional(c).await)?;
    let position = match stored.or_else(|| click_position(id)) {
        // The log may end before an old position, if retention has deleted all of it.
        Some(position) if position <= end.max(oldest) => position,
        // A place after the last event, up to now: nothing was stored since.
        Some(_) if stored.is_none() && id.millis() <= now.plus_millis(MAX_SKEW).as_millis() => end,
        // Its retention is over, so its position is no longer known.
        None if id.millis() < since => oldest,
        _ => return Ok(ReaderPosition::Unknown),
    };
    Ok(ReaderPosition::At(position.max(oldest).min(end)))
}

/// Which events are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) tenants: &'a [&'a TenantId],
    /// Without clicks, the log of clicks is not read.
    pub(crate) kinds: &'a [EventKind],
    /// Only clicks on this link; other events are not filtered by it.
    pub(crate) clicked: Option<&'a str>,
}

/// Events after a position, in their order, and the position up to which the page is complete.
pub(crate) async fn page(
    db: &mut Conn<'_>,
    wanted: Wanted<'_>,
    (after, upto): (i64, i64),
) -> Result<(Vec<StreamEvent>, i64), DbError> {
    let has_clicks = wanted.kinds.contains(&EventKind::Click);
    let clicked = if has_clicks { window(db, after, upto, MAX_SCANNED).await? } else { None };
    let upto = match clicked {
        Some((end, MAX_SCANNED)) => end,
        _ => upto,
    };
    let upto = scanned(db, wanted, after, upto).await?;
    let mut events = others(db, wanted, after, upto).await?;
    let mut upto = end_of(&events, upto);
    if clicked.is_some() {
        let clicks = clicks(db, wanted, after, upto).await?;
        upto = end_of(&clicks, upto);
        events.retain(|event| event.position <= upto);
        events.extend(clicks);
        events.sort_unstable_by_key(|event| event.position);
    }
    Ok((events, upto))
}

/// The position up to which a page is complete: its last row, if there may be more.
fn end_of(rows: &[StreamEvent], upto: i64) -> i64 {
    let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= MAX_PER_PAGE);
    rows.last().filter(|_| is_full).map_or(upto, |last| last.position)
}

/// The position up to which one page scans events other than clicks, of which few may be of the wanted kinds.
async fn scanned(db: &mut Conn<'_>, wanted: Wanted<'_>, after: i64, upto: i64) -> Result<i64, DbError> {
    if EventKind::ALL[1..].iter().all(|kind| wanted.kinds.contains(kind)) || *wanted.kinds == [EventKind::Click] {
        return Ok(upto);
    }
    let sql = format!(
        "SELECT MAX(position), COUNT(*) FROM (SELECT position FROM events
            WHERE tenant_id IN ({}) AND position > $1 AND position <= $2 ORDER BY position LIMIT $3) AS next",
        placeholders(4, wanted.tenants.len())
    );
    let (end, count): (Option<i64>, i64) = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(upto).bind(MAX_SCANNED);
        for tenant in wanted.tenants {
            query = query.bind(tenant.as_str());
        }
        query.fetch_one(c).await
    })?;
    Ok(end.filter(|_| count == MAX_SCANNED).unwrap_or(upto))
}

async fn others(db: &mut Conn<'_>, wanted: Wanted<'_>, after: i64, upto: i64) -> Result<Vec<StreamEvent>, DbError> {
    let codes = wanted.kinds.iter().filter(|kind| **kind != EventKind::Click).filter_map(EventKind::code);
    let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
    if codes.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT id, tenant_id, kind, position, body FROM events
        WHERE tenant_id IN ({}) AND position > $1 AND position <= $2 AND kind IN ({}) ORDER BY position LIMIT $3",
        placeholders(4, wanted.tenants.len()),
        codes.join(", ")
    );
    let rows: Vec<Other> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(upto).bind(MAX_PER_PAGE);
        for tenant in wanted.tenants {
            query = query.bind(tenant.as_str());
        }
        query.fetch_all(c).await
    })?;
    rows.into_iter().map(Other::event).collect()
}

async fn clicks(db: &mut Conn<'_>, wanted: Wanted<'_>, after: i64, upto: i64) -> Result<Vec<StreamEvent>, DbError> {
    let on_link = if wanted.clicked.is_some() { "AND COALESCE(l.link_id, d.link_id) = $4" } else { "" };
    let sql = format!(
        "SELECT {COLUMNS} FROM clicks c {OWNERS} {TEXTS}
        WHERE c.position > $1 AND c.position <= $2 AND {KINDS} {on_link} AND COALESCE(l.tenant_id, d.tenant_id) IN ({})
        ORDER BY c.position LIMIT $3",
        placeholders(if wanted.clicked.is_some() { 5 } else { 4 }, wanted.tenants.len())
    );
    let rows: Vec<Click> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(upto).bind(MAX_PER_PAGE);
        if let Some(link) = wanted.clicked {
            query = query.bind(link);
        }
        for tenant in wanted.tenants {
            query = query.bind(tenant.as_str());
        }
        query.fetch_all(c).await
    })?;
    let event = |click: Click| {
        let position = click.position;
        let (id, tenant, body) = click.into_event()?;
        Ok(StreamEvent { position, id, tenant, kind: EventKind::Click, body })
    };
    rows.into_iter().map(event).collect()
}
