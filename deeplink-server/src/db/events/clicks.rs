//! Clicks on their way to webhooks. The log is the record of a click; an event is made of one only where somebody wants it.

use std::collections::BTreeSet;

use deeplink_core::event::{ClickData, Event, EventData, click_event_id};
use deeplink_core::id::{DeliveryId, EventId, TenantId};
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::Platform;
use sqlx::{AssertSqlSafe, FromRow};

use super::super::deliveries::{self, NewDelivery};
use super::super::webhooks::Subscriber;
use super::super::{Conn, DbError, on};
use super::{Position, Row, Telling, insert};

/// Clicks of the log that one look passes at most, whoever's they are.
const LOOKED_AT: i64 = 4_096;
/// Deliveries of clicks that one look makes at most, so that visits do not wait long for the writer.
const MADE: i64 = 512;

/// A click of somebody's link, as the log and the link say it.
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
    /// What is told of it, and the event's id.
    pub(super) fn told(self) -> Result<(EventId, TenantId, String), DbError> {
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

/// The columns of [`Click`], from the log as `c` and what [`OWNERS`] and [`TEXTS`] join to it.
pub(super) const COLUMNS: &str = "
    c.position, c.at, c.platform, a.text AS agent, r.text AS referer,
    COALESCE(l.tenant_id, d.tenant_id) AS tenant_id, COALESCE(l.link_id, d.link_id) AS link_id";
/// Whose a click's link is or was.
pub(super) const OWNERS: &str = "
    LEFT JOIN links l ON l.position = c.link LEFT JOIN deleted_links d ON d.position = c.link";
/// What the visitor said. To be joined last, when it is known whom it is told to.
pub(super) const TEXTS: &str = "
    LEFT JOIN visitor_texts a ON a.hash = c.agent LEFT JOIN visitor_texts r ON r.hash = c.referer";
/// Which clicks are told of: those of people and of agents.
pub(super) const KINDS: &str = "c.kind IN (0, 3)";

/// A webhook that wants a click.
#[derive(FromRow)]
struct Wanted {
    #[sqlx(flatten)]
    click: Click,
    webhook_id: String,
    turn: i64,
    is_full: bool,
}

/// Clicks to tell webhooks of, up to a place in the log.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The mark as it was found.
    told: i64,
    pub(crate) upto: i64,
    events: Vec<Wish>,
    /// Whether the log goes on behind it.
    pub(crate) is_full: bool,
}

/// An event and the webhooks that want it.
#[derive(Debug)]
struct Wish {
    position: i64,
    id: EventId,
    tenant: TenantId,
    body: String,
    webhooks: Vec<Subscriber>,
}

impl Batch {
    /// Whether nobody wants any of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Who is told of something.
    pub(crate) fn tenants(&self) -> BTreeSet<&TenantId> {
        self.events.iter().map(|event| &event.tenant).collect()
    }
}

/// The next clicks that webhooks may want, none of them up to `seen`; `None` while no webhook wants any, and `Some(None)`
/// while there are none.
pub(crate) async fn next_clicks(db: &mut Conn<'_>, seen: i64) -> Result<Option<Option<Batch>>, DbError> {
    const FROM: &str = "
        SELECT (SELECT position FROM click_marks WHERE name = 'told'),
            (SELECT MIN(clicks_after) FROM webhooks WHERE active = TRUE AND kinds % 2 = 1)";
    let (told, after): (i64, Option<i64>) = on!(db, c => sqlx::query_as(FROM).fetch_one(c).await)?;
    let Some(after) = after else { return Ok(None) };
    // Nobody wanted what lies between.
    let from = told.max(after).max(seen);
    let Some((end, looked_at)) = window(db, from, i64::MAX, LOOKED_AT).await? else { return Ok(Some(None)) };
    let sql = format!(
        "SELECT {COLUMNS}, w.id AS webhook_id, w.turn, w.is_full FROM clicks c {OWNERS}
            JOIN webhooks w ON w.tenant_id = COALESCE(l.tenant_id, d.tenant_id)
                AND w.active = TRUE AND w.kinds % 2 = 1 AND w.clicks_after < c.position
            {TEXTS}
        WHERE c.position > $1 AND c.position <= $2 AND {KINDS} ORDER BY c.position, w.id LIMIT $3"
    );
    let mut wanted: Vec<Wanted> = on!(db, c => sqlx::query_as(AssertSqlSafe(sql))
        .bind(from).bind(end).bind(MADE).fetch_all(c).await)?;
    let is_cut = i64::try_from(wanted.len()).unwrap_or(i64::MAX) == MADE;
    let mut upto = end;
    if is_cut && let Some(last) = wanted.last().map(|wanted| wanted.click.position) {
        // The last click may have more webhooks: it comes again. An account has few, so there is one before it.
        wanted.retain(|wanted| wanted.click.position < last);
        upto = wanted.last().map_or(from, |wanted| wanted.click.position);
    }
    Ok(Some(Some(Batch { told, upto, events: wishes(wanted)?, is_full: is_cut || looked_at == LOOKED_AT })))
}

/// Where so many clicks behind a place end, up to another, and how many they are; `None` when there is none.
pub(super) async fn window(db: &mut Conn<'_>, after: i64, upto: i64, most: i64) -> Result<Option<(i64, i64)>, DbError> {
    const SQL: &str = "
        SELECT MAX(position), COUNT(*) FROM (
            SELECT position FROM clicks WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $3) AS next";
    let (end, count): (Option<i64>, i64) =
        on!(db, c => sqlx::query_as(SQL).bind(after).bind(upto).bind(most).fetch_one(c).await)?;
    Ok(end.map(|end| (end, count)))
}

/// One event for each click, whoever wants it.
fn wishes(wanted: Vec<Wanted>) -> Result<Vec<Wish>, DbError> {
    let mut wishes: Vec<Wish> = Vec::new();
    let mut last = None;
    for Wanted { click, webhook_id, turn, is_full } in wanted {
        let id = webhook_id.parse().map_err(|_| DbError::corrupt("webhooks", "id", &webhook_id))?;
        if last != Some(click.position) {
            last = Some(click.position);
            let position = click.position;
            let (event, tenant, body) = click.told()?;
            wishes.push(Wish { position, id: event, tenant, body, webhooks: Vec::new() });
        }
        if let Some(wish) = wishes.last_mut() {
            // Clicks are not narrowed.
            wish.webhooks.push(Subscriber { id, affiliate: None, turn, is_full });
        }
    }
    Ok(wishes)
}

/// Puts clicks on their way and moves the mark behind them. `false`: another node has done it.
pub(crate) async fn tell_clicks(db: &mut Conn<'_>, batch: &Batch, telling: &Telling) -> Result<bool, DbError> {
    const MOVE: &str = "UPDATE click_marks SET position = $2 WHERE name = 'told' AND position = $1";
    let moved = on!(db, c => sqlx::query(MOVE).bind(batch.told).bind(batch.upto)
        .execute(c).await.map(|done| done.rows_affected()))?;
    if moved == 0 {
        return Ok(false);
    }
    let until = telling.kept_until(true);
    let rows: Vec<Row<'_>> = batch
        .events
        .iter()
        .map(|event| Row {
            id: &event.id,
            tenant: &event.tenant,
            kind: 0,
            position: Position::At(event.position),
            body: &event.body,
            kept_until: until,
        })
        .collect();
    insert(db, &rows).await?;
    let pairs: Vec<_> =
        batch.events.iter().flat_map(|event| event.webhooks.iter().map(move |webhook| (event, webhook))).collect();
    let ids: Vec<DeliveryId> = telling.draw(|now, random| pairs.iter().map(|_| DeliveryId::new(now, random)).collect());
    let deliveries: Vec<NewDelivery<'_>> = pairs
        .iter()
        .zip(&ids)
        .map(|((event, webhook), id)| NewDelivery {
            id,
            tenant: &event.tenant,
            webhook: &webhook.id,
            turn: webhook.turn,
            event: &event.id,
            is_dropped: webhook.is_full,
            now: telling.now,
        })
        .collect();
    deliveries::insert_all(db, &deliveries).await?;
    Ok(true)
}
