//! Events, stored in the transaction that publishes them.
//!
//! Events and the clicks of the log share one order of positions, and no position is assigned below one that may have been
//! read, so a reader by position misses nothing. On SQLite the one writer assigns it with the event, in the order of
//! commits. On PostgreSQL that would make every report wait for the log, so positions are assigned shortly after the
//! commit, in the order of publication; a click that is stored in between comes first.

mod clicks;
mod conversions;
mod identities;
mod log;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deeplink_core::event::{Event, EventData, EventKind};
use deeplink_core::id::{AffiliateId, DeliveryId, EventId, TenantId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use sqlx::QueryBuilder;

pub(crate) use clicks::{publish_clicks, unpublished_clicks};
pub(super) use conversions::{publish_conversion, publish_conversions};
pub(super) use identities::{publish_attribute, publish_identify};
pub(crate) use log::{LogPage, log, remove_of_plan, remove_old};
pub(crate) use stream::{ReaderPosition, StreamEvent, Wanted, find, page};

use super::clicks::{AppendPosition, Head, position_at};
use super::deliveries::{self, NewDelivery};
use super::rows::chunks;
use super::webhooks::{self, Subscriber};
use super::{Conn, DbError, on};

/// How far back the stream reaches, in hours.
pub(crate) const STREAM_HOURS: i64 = 24;
/// How long an event without deliveries is kept at least, in hours: an hour longer, for readers that are catching up.
const RETENTION_HOURS: i64 = STREAM_HOURS + 1;
/// Maximum events that one write numbers.
const MAX_NUMBERED: i64 = 1_000;

/// Publishes the events of one write, and notes whether there were any.
#[derive(Debug)]
pub(crate) struct Publisher {
    head: Arc<Head>,
    random: Arc<Mutex<Random>>,
    now: Timestamp,
    kept_until: Timestamp,
    has_events: AtomicBool,
    has_deliveries: AtomicBool,
}

impl Publisher {
    /// Events that are on their way to a webhook are kept until `kept_until`.
    pub(crate) fn new(head: Arc<Head>, random: Arc<Mutex<Random>>, now: Timestamp, kept_until: Timestamp) -> Self {
        let [has_events, has_deliveries] = [false; 2].map(AtomicBool::new);
        Self { head, random, now, kept_until, has_events, has_deliveries }
    }

    /// The time of the write.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Until when an event is kept.
    fn kept_until(&self, has_deliveries: bool) -> i64 {
        let for_readers = self.now.plus_millis(RETENTION_HOURS * 3_600_000);
        if has_deliveries { self.kept_until.max(for_readers) } else { for_readers }.as_millis()
    }

    /// Whether an event was published.
    pub(crate) fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Relaxed)
    }

    /// Whether one of them has a delivery.
    pub(crate) fn has_deliveries(&self) -> bool {
        self.has_deliveries.load(Ordering::Relaxed)
    }

    fn draw<T>(&self, draw: impl FnOnce(Timestamp, &mut Random) -> T) -> T {
        draw(self.now, &mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An event to publish.
#[derive(Debug)]
struct NewEvent {
    id: EventId,
    body: String,
    /// The affiliate of the credited link, for webhooks that want one affiliate's conversions.
    affiliate: Option<AffiliateId>,
}

impl NewEvent {
    fn new(id: EventId, data: &EventData, affiliate: Option<AffiliateId>) -> Option<Self> {
        Some(Self { id, body: Event::body(data)?, affiliate })
    }

    /// Whether it is sent to a webhook that subscribes to its kind.
    fn suits(&self, webhook: &Subscriber) -> bool {
        webhook.affiliate.is_none() || webhook.affiliate == self.affiliate
    }
}

/// A row to store.
struct Row<'a> {
    id: &'a EventId,
    tenant: &'a TenantId,
    kind: i64,
    position: EventPosition,
    body: &'a str,
    kept_until: i64,
}

/// An event's position, or since when it has been waiting for one.
#[derive(Clone, Copy)]
enum EventPosition {
    At(i64),
    WaitsSince(Timestamp),
}

impl EventPosition {
    /// `events.position` and `events.waits_since`.
    fn columns(self) -> (Option<i64>, Option<i64>) {
        match self {
            Self::At(position) => (Some(position), None),
            Self::WaitsSince(since) => (None, Some(since.as_millis())),
        }
    }
}

/// Stores events of one kind and their deliveries.
async fn publish(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    tenant: &TenantId,
    kind: &EventKind,
    events: &[NewEvent],
) -> Result<(), DbError> {
    if events.is_empty() {
        return Ok(());
    }
    let mut webhooks = webhooks::subscribers(db, tenant, kind).await?;
    if *kind != EventKind::Conversion {
        // Other kinds are not filtered by affiliate.
        for webhook in &mut webhooks {
            webhook.affiliate = None;
        }
    }
    let first = first_position(db, publisher, events.len()).await?;
    let positions =
        (0..).map(|nth| first.map_or(EventPosition::WaitsSince(publisher.now), |first| EventPosition::At(first + nth)));
    let rows: Vec<Row<'_>> = events
        .iter()
        .zip(positions)
        .map(|(event, position)| Row {
            id: &event.id,
            tenant,
            kind: kind.code().map_or(0, i64::from),
            position,
            body: &event.body,
            kept_until: publisher.kept_until(webhooks.iter().any(|webhook| event.suits(webhook))),
        })
        .collect();
    insert(db, &rows).await?;
    let wanted = |event| webhooks.iter().filter(move |webhook| NewEvent::suits(event, webhook));
    let pairs: Vec<_> =
        events.iter().flat_map(|event| wanted(event).map(move |webhook| (&event.id, tenant, webhook))).collect();
    insert_deliveries(db, publisher, &pairs).await?;
    publisher.has_events.store(true, Ordering::Relaxed);
    if !pairs.is_empty() {
        publisher.has_deliveries.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Stores a delivery of each event to its webhook.
async fn insert_deliveries(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    pairs: &[(&EventId, &TenantId, &Subscriber)],
) -> Result<(), DbError> {
    let ids: Vec<DeliveryId> =
        publisher.draw(|now, random| pairs.iter().map(|_| DeliveryId::new(now, random)).collect());
    let deliveries: Vec<NewDelivery<'_>> = pairs
        .iter()
        .zip(&ids)
        .map(|(&(event, tenant, webhook), id)| NewDelivery {
            id,
            tenant,
            webhook: &webhook.id,
            turn: webhook.turn,
            event,
            is_dropped: webhook.is_full,
            now: publisher.now,
        })
        .collect();
    deliveries::insert(db, &deliveries).await
}

/// The first of `count` positions after the log's end; on PostgreSQL they are assigned later.
async fn first_position(db: &mut Conn<'_>, publisher: &Publisher, count: usize) -> Result<Option<i64>, DbError> {
    const MARK: &str = "UPDATE click_marks SET position = $1 WHERE name = 'head'";
    let Conn::Sqlite(conn) = db else { return Ok(None) };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let to = AppendPosition { after: position_at(publisher.now.as_millis()), gap: 0 };
    let first = publisher.head.advance(conn, to, count).await?;
    // For the next process, and for readers of the log's end.
    sqlx::query(MARK).bind(first + count - 1).execute(&mut **conn).await?;
    Ok(Some(first))
}

/// Stores rows.
async fn insert(db: &mut Conn<'_>, rows: &[Row<'_>]) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO events (id, tenant_id, kind, position, waits_since, body, kept_until) ";
    for chunk in chunks(rows) {
        on!(db, c => {
            let mut query = QueryBuilder::new(SQL);
            query.push_values(chunk, |mut values, row| {
                let (position, waits_since) = row.position.columns();
                values
                    .push_bind(row.id.as_str())
                    .push_bind(row.tenant.as_str())
                    .push_bind(row.kind)
                    .push_bind(position)
                    .push_bind(waits_since)
                    .push_bind(row.body)
                    .push_bind(row.kept_until);
            });
            query.build().execute(c).await.map(|_| ())
        })
        .map_err(DbError::drawn)?;
    }
    Ok(())
}

/// Stores a sample event for testing a webhook. Its position is 0, so the stream does not send it.
pub(crate) async fn insert_sample(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &EventId,
    event: &Event,
    kept_until: Timestamp,
) -> Result<(), DbError> {
    let row = Row {
        id,
        tenant,
        kind: event.kind.code().map_or(0, i64::from),
        position: EventPosition::At(0),
        body: &event.raw,
        kept_until: kept_until.as_millis(),
    };
    insert(db, &[row]).await
}

/// Assigns committed events their positions after the end of the log, on PostgreSQL. `true` if more may be left.
pub(crate) async fn assign_positions(db: &mut Conn<'_>, now: Timestamp) -> Result<bool, DbError> {
    // The row of the head stays locked until COMMIT, so no event is numbered below one that others see; the second
    // statement sees what was committed by then, and no other node numbers it. Events of one user and one write are in
    // the order of their kinds: a binding before the conversions that it made events.
    const HEAD: &str = "
        UPDATE click_marks SET position = CASE WHEN position >= $1 THEN position ELSE $1 END
        WHERE name = 'head' RETURNING position";
    const NUMBER: &str = "
        WITH due AS (
            SELECT id, ROW_NUMBER() OVER (ORDER BY waits_since, kind, id) AS nth FROM (
                SELECT id, waits_since, kind FROM events WHERE position IS NULL
                ORDER BY waits_since, kind, id LIMIT $2) AS waiting
        ), numbered AS (
            UPDATE events SET position = $1 + due.nth, waits_since = NULL FROM due WHERE events.id = due.id RETURNING due.nth
        )
        UPDATE click_marks SET position = position + (SELECT COUNT(*) FROM numbered) WHERE name = 'head'
        RETURNING position - $1";
    let Conn::Postgres(conn) = db else { return Ok(false) };
    let end: i64 = sqlx::query_scalar(HEAD).bind(position_at(now.as_millis())).fetch_one(&mut **conn).await?;
    let numbered: i64 = sqlx::query_scalar(NUMBER).bind(end).bind(MAX_NUMBERED).fetch_one(&mut **conn).await?;
    Ok(numbered == MAX_NUMBERED)
}

/// Whether an event waits for its position.
pub(crate) async fn has_unassigned(db: &mut Conn<'_>) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM events WHERE position IS NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).fetch_one(c).await)?)
}

/// Deletes some copies of clicks, samples and events that have left the log, which no delivery needs any more; see
/// [`super::expired`]. Other events stay in the log: see [`remove_old`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM events WHERE kept_until <= $1 AND id IN (
        SELECT id FROM events WHERE kept_until <= $1 AND (kind = 0 OR position <= 0) LIMIT $2)";
