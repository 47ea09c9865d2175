//! Publishes clicks to webhooks. The log is the record of a click; it becomes an event only if a webhook subscribes to it.

use std::collections::BTreeSet;

use deeplink_core::event::{ClickData, Event, EventData, click_event_id};
use deeplink_core::id::{EventId, TenantId};
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::Platform;
use sqlx::{AssertSqlSafe, FromRow};

use super::super::webhooks::Subscriber;
use super::super::{Conn, DbError, execute, on};
use super::{EventPosition, Publisher, Row, insert, insert_deliveries};

/// Maximum clicks of the log that one read scans, of all tenants.
const MAX_SCANNED: i64 = 4_096;
/// Maximum deliveries that one write stores, so that visits do not wait long for the writer.
const MAX_DELIVERIES: i64 = 512;

/// A click on an account's link, from the log and the link's row.
#[derive(Debug, FromRow)]
pub(super) struct Click {
    pub(super) position: i64,
    at: i64,
    platform: i64,
    agent: Option<String>,
    referer: Option<String>,
    pub(super) tenant_id: String,
    link_id: String,
}

impl Click {
    /// The event to publish: its id, account and body.
    pub(super) fn into_event(self) -> Result<(EventId, TenantId, String), DbError> {
        let corrupt = |column| DbError::corrupt("clicks", column, self.position.to_string());
        let tenant: TenantId = self.tenant_id.parse().map_err(|_| corrupt("link"))?;
        let platform = u8::try_from(self.platform).ok().and_then(Platform::from_code);
        let data = EventData::Click(ClickData {
            tenant_id: tenant.clone(),
            link_id: self.link_id,
            user_agent: self.agent,
            referer: self.referer,
            platform: platform.unwrap_or(Platform::Other).as_str().to_owned(),
            timestamp: Timestamp::from_millis(self.at),
        });
        let id = click_event_id(self.position);
        let body = Event::body(&data).ok_or(DbError::corrupt("clicks", "kind", id.as_str()))?;
        Ok((id, tenant, body))
    }
}

/// The columns of [`Click`], from the log as `c` and the tables that [`OWNERS`] and [`TEXTS`] join to it.
pub(super) const COLUMNS: &str = "
    c.position, c.at, c.platform, a.text AS agent, r.text AS referer,
    COALESCE(l.tenant_id, d.tenant_id) AS tenant_id, COALESCE(l.link_id, d.link_id) AS link_id";
/// Joins the present or former owner of a click's link.
pub(super) const OWNERS: &str = "
    LEFT JOIN links l ON l.position = c.link LEFT JOIN deleted_links d ON d.position = c.link";
/// Joins the visitor's texts. To be joined last, when the account is known.
pub(super) const TEXTS: &str = "
    LEFT JOIN visitor_texts a ON a.hash = c.agent LEFT JOIN visitor_texts r ON r.hash = c.referer";
/// Which clicks are published: those of people and of agents.
pub(super) const KINDS: &str = "c.kind IN (0, 3)";

/// A webhook that wants a click.
#[derive(FromRow)]
struct ClickSubscription {
    #[sqlx(flatten)]
    click: Click,
    webhook_id: String,
    turn: i64,
    is_full: bool,
}

/// Clicks to publish to webhooks, up to a position of the log.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The watermark as it was read.
    mark: i64,
    pub(crate) upto: i64,
    events: Vec<ClickEvent>,
    /// Whether the log may have more.
    pub(crate) may_have_more: bool,
}

/// An event and the webhooks that want it.
#[derive(Debug)]
struct ClickEvent {
    position: i64,
    id: EventId,
    tenant: TenantId,
    body: String,
    webhooks: Vec<Subscriber>,
}

impl Batch {
    /// Whether no webhook wants any of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Which accounts have an event.
    pub(crate) fn tenants(&self) -> BTreeSet<&TenantId> {
        self.events.iter().map(|event| &event.tenant).collect()
    }
}

/// The next clicks after `seen` that webhooks may want; `None` while no webhook wants any, and `Some(None)` while there
/// are none.
pub(crate) async fn unpublished_clicks(db: &mut Conn<'_>, seen: i64) -> Result<Option<Option<Batch>>, DbError> {
    const FROM: &str = "
        SELECT (SELECT position FROM click_marks WHERE name = 'told'),
            (SELECT MIN(clicks_after) FROM webhooks WHERE active = TRUE AND kinds % 2 = 1)";
    let (mark, after): (i64, Option<i64>) = on!(db, c => sqlx::query_as(FROM).fetch_one(c).await)?;
    let Some(after) = after else { return Ok(None) };
    // No webhook wants the clicks in between.
    let from = mark.max(after).max(seen);
    let Some((end, scanned)) = window(db, from, i64::MAX, MAX_SCANNED).await? else { return Ok(Some(None)) };
    let sql = format!(
        "SELECT {COLUMNS}, w.id AS webhook_id, w.turn, w.is_full FROM clicks c {OWNERS}
            JOIN webhooks w ON w.tenant_id = COALESCE(l.tenant_id, d.tenant_id)
                AND w.active = TRUE AND w.kinds % 2 = 1 AND w.clicks_after < c.position
            {TEXTS}
        WHERE c.position > $1 AND c.position <= $2 AND {KINDS} ORDER BY c.position, w.id LIMIT $3"
    );
    let mut subscriptions: Vec<ClickSubscription> = on!(db, c => sqlx::query_as(AssertSqlSafe(sql))
        .bind(from).bind(end).bind(MAX_DELIVERIES).fetch_all(c).await)?;
    let is_cut = i64::try_from(subscriptions.len()).unwrap_or(i64::MAX) == MAX_DELIVERIES;
    let mut upto = end;
    if is_cut && let Some(last) = subscriptions.last().map(|last| last.click.position) {
        // The last click may have more webhooks, so it is read again. An account has few webhooks, so there is one
        // before it.
        subscriptions.retain(|one| one.click.position < last);
        upto = subscriptions.last().map_or(from, |last| last.click.position);
    }
    Ok(Some(Some(Batch {
        mark,
        upto,
        events: click_events(subscriptions)?,
        may_have_more: is_cut || scanned == MAX_SCANNED,
    })))
}

/// The last of at most `most` clicks after one position and up to another, and their number; `None` if there are none.
pub(super) async fn window(db: &mut Conn<'_>, after: i64, upto: i64, most: i64) -> Result<Option<(i64, i64)>, DbError> {
    const SQL: &str = "
        SELECT MAX(position), COUNT(*) FROM (
            SELECT position FROM clicks WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $3) AS next";
    let (end, count): (Option<i64>, i64) =
        on!(db, c => sqlx::query_as(SQL).bind(after).bind(upto).bind(most).fetch_one(c).await)?;
    Ok(end.map(|end| (end, count)))
}

/// One event for each click, with all its webhooks.
fn click_events(subscriptions: Vec<ClickSubscription>) -> Result<Vec<ClickEvent>, DbError> {
    let mut click_events: Vec<ClickEvent> = Vec::new();
    let mut last = None;
    for ClickSubscription { click, webhook_id, turn, is_full } in subscriptions {
        let id = webhook_id.parse().map_err(|_| DbError::corrupt("webhooks", "id", &webhook_id))?;
        if last != Some(click.position) {
            last = Some(click.position);
            let position = click.position;
            let (event, tenant, body) = click.into_event()?;
            click_events.push(ClickEvent { position, id: event, tenant, body, webhooks: Vec::new() });
        }
        if let Some(event) = click_events.last_mut() {
            // Clicks are not filtered by affiliate.
            event.webhooks.push(Subscriber { id, affiliate: None, turn, is_full });
        }
    }
    Ok(click_events)
}

/// Stores the events and deliveries of clicks, and moves the watermark past them. `false`: another node has done it.
pub(crate) async fn publish_clicks(db: &mut Conn<'_>, batch: &Batch, publisher: &Publisher) -> Result<bool, DbError> {
    const MOVE: &str = "UPDATE click_marks SET position = $2 WHERE name = 'told' AND position = $1";
    let moved = execute!(db, MOVE; batch.mark, batch.upto)?;
    if moved == 0 {
        return Ok(false);
    }
    let until = publisher.kept_until(true);
    let rows: Vec<Row<'_>> = batch
        .events
        .iter()
        .map(|event| Row {
            id: &event.id,
            tenant: &event.tenant,
            kind: 0,
            position: EventPosition::At(event.position),
            body: &event.body,
            kept_until: until,
        })
        .collect();
    insert(db, &rows).await?;
    let pairs: Vec<_> = batch
        .events
        .iter()
        .flat_map(|event| event.webhooks.iter().map(move |webhook| (&event.id, &event.tenant, webhook)))
        .collect();
    insert_deliveries(db, publisher, &pairs).await?;
    Ok(true)
}
