//! What receivers are told, stored in the transaction of what it tells of.
//!
//! Every event has a place in one order with the clicks of the log, and none is given a place before what may have been
//! read, so whoever reads by position misses nothing. On SQLite the one writer gives the place with the event, in the order
//! of commits. On PostgreSQL that would make every report wait for the log, so events are numbered moments after their
//! commit, in the order in which they were told; a click that is stored in those moments comes before them.

mod clicks;
mod conversions;
mod identities;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deeplink_core::event::{Event, EventData, EventKind};
use deeplink_core::id::{AffiliateId, DeliveryId, EventId, TenantId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use sqlx::QueryBuilder;

pub(crate) use clicks::{next_clicks, tell_clicks};
pub(super) use conversions::{tell_one, tell_range};
pub(super) use identities::{tell_attribute, tell_identify};
pub(crate) use stream::{Found, Told, find, page};

use super::clicks::{Head, Place, place};
use super::deliveries::{self, NewDelivery};
use super::rows::pieces;
use super::webhooks::{self, Subscriber};
use super::{Conn, DbError, on};

/// How far back the stream reaches, in hours.
pub(crate) const STREAM_HOURS: i64 = 24;
/// How long an event is kept that only the stream tells, in hours: an hour more, for readers that are on their way.
const KEPT_HOURS: i64 = STREAM_HOURS + 1;
/// Events that one write numbers at most.
const NUMBERED: i64 = 1_000;

/// How one write tells of something, and whether it did.
#[derive(Debug)]
pub(crate) struct Telling {
    head: Arc<Head>,
    random: Arc<Mutex<Random>>,
    now: Timestamp,
    kept_until: Timestamp,
    is_told: AtomicBool,
    is_delivered: AtomicBool,
}

impl Telling {
    /// Events that are on their way to a webhook are kept until `kept_until`.
    pub(crate) fn new(head: Arc<Head>, random: Arc<Mutex<Random>>, now: Timestamp, kept_until: Timestamp) -> Self {
        let [is_told, is_delivered] = [false; 2].map(AtomicBool::new);
        Self { head, random, now, kept_until, is_told, is_delivered }
    }

    /// When it is told: now.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Until when an event is kept.
    fn kept_until(&self, is_delivered: bool) -> i64 {
        let for_readers = self.now.plus_millis(KEPT_HOURS * 3_600_000);
        if is_delivered { self.kept_until.max(for_readers) } else { for_readers }.as_millis()
    }

    /// Whether there is an event.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Whether one is on its way to a webhook.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_delivered.load(Ordering::Relaxed)
    }

    fn draw<T>(&self, draw: impl FnOnce(Timestamp, &mut Random) -> T) -> T {
        draw(self.now, &mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An event to tell.
#[derive(Debug)]
struct NewEvent {
    id: EventId,
    body: String,
    /// Whose link it is credited to, for webhooks that want one affiliate's conversions.
    affiliate: Option<AffiliateId>,
}

impl NewEvent {
    fn new(id: EventId, data: &EventData, affiliate: Option<AffiliateId>) -> Option<Self> {
        Some(Self { id, body: Event::body(data)?, affiliate })
    }

    /// Whether it is sent to a webhook that wants its kind.
    fn suits(&self, webhook: &Subscriber) -> bool {
        webhook.affiliate.is_none() || webhook.affiliate == self.affiliate
    }
}

/// A row to store.
struct Row<'a> {
    id: &'a EventId,
    tenant: &'a TenantId,
    kind: i64,
    position: Position,
    body: &'a str,
    kept_until: i64,
}

/// An event's place, or since when it waits for one.
#[derive(Clone, Copy)]
enum Position {
    At(i64),
    WaitsSince(Timestamp),
}

impl Position {
    /// `events.position` and `events.waits_since`.
    fn columns(self) -> (Option<i64>, Option<i64>) {
        match self {
            Self::At(position) => (Some(position), None),
            Self::WaitsSince(told) => (None, Some(told.as_millis())),
        }
    }
}

/// Stores events of one kind and their deliveries.
async fn tell(
    db: &mut Conn<'_>,
    telling: &Telling,
    tenant: &TenantId,
    kind: &EventKind,
    events: &[NewEvent],
) -> Result<(), DbError> {
    if events.is_empty() {
        return Ok(());
    }
    let mut webhooks = webhooks::subscribers(db, tenant, kind).await?;
    if *kind != EventKind::Conversion {
        // Other kinds are not narrowed.
        for webhook in &mut webhooks {
            webhook.affiliate = None;
        }
    }
    let first = first_position(db, telling, events.len()).await?;
    let positions = (0..).map(|nth| first.map_or(Position::WaitsSince(telling.now), |first| Position::At(first + nth)));
    let rows: Vec<Row<'_>> = events
        .iter()
        .zip(positions)
        .map(|(event, position)| Row {
            id: &event.id,
            tenant,
            kind: kind.code().map_or(0, i64::from),
            position,
            body: &event.body,
            kept_until: telling.kept_until(webhooks.iter().any(|webhook| event.suits(webhook))),
        })
        .collect();
    insert(db, &rows).await?;
    let wanted = |event| webhooks.iter().filter(move |webhook| NewEvent::suits(event, webhook));
    let pairs: Vec<_> = events.iter().flat_map(|event| wanted(event).map(move |webhook| (event, webhook))).collect();
    let ids: Vec<DeliveryId> = telling.draw(|now, random| pairs.iter().map(|_| DeliveryId::new(now, random)).collect());
    let deliveries: Vec<NewDelivery<'_>> = pairs
        .iter()
        .zip(&ids)
        .map(|((event, webhook), id)| NewDelivery {
            id,
            tenant,
            webhook: &webhook.id,
            turn: webhook.turn,
            event: &event.id,
            is_dropped: webhook.is_full,
            now: telling.now,
        })
        .collect();
    deliveries::insert_all(db, &deliveries).await?;
    telling.is_told.store(true, Ordering::Relaxed);
    if !deliveries.is_empty() {
        telling.is_delivered.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// The first of so many places behind the log's end; on PostgreSQL they are given later.
async fn first_position(db: &mut Conn<'_>, telling: &Telling, count: usize) -> Result<Option<i64>, DbError> {
    const MARK: &str = "UPDATE click_marks SET position = $1 WHERE name = 'head'";
    let Conn::Sqlite(conn) = db else { return Ok(None) };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let to = Place { after: place(telling.now.as_millis()), gap: 0 };
    let first = telling.head.advance(conn, to, count).await?;
    // So that the next process goes on behind it, and whoever asks for the end finds it.
    sqlx::query(MARK).bind(first + count - 1).execute(&mut **conn).await?;
    Ok(Some(first))
}

/// Stores rows.
async fn insert(db: &mut Conn<'_>, rows: &[Row<'_>]) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO events (id, tenant_id, kind, position, waits_since, body, kept_until) ";
    for piece in pieces(rows) {
        on!(db, c => {
            let mut query = QueryBuilder::new(SQL);
            query.push_values(piece, |mut values, row| {
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

/// Stores an event that was made up to try a webhook. Its place comes before all others, so the stream does not tell it.
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
        position: Position::At(0),
        body: &event.raw,
        kept_until: kept_until.as_millis(),
    };
    insert(db, &[row]).await
}

/// Gives committed events their places behind the end of the log, on PostgreSQL. `true` when more may be left.
pub(crate) async fn number(db: &mut Conn<'_>, now: Timestamp) -> Result<bool, DbError> {
    // The row of the head stays locked until COMMIT, so nothing is numbered below what others see; the second statement
    // sees what was committed by then, and nobody else numbers it. What one write told of one user is told in the order
    // of its kinds: a binding before the conversions that it made events.
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
    let end: i64 = sqlx::query_scalar(HEAD).bind(place(now.as_millis())).fetch_one(&mut **conn).await?;
    let numbered: i64 = sqlx::query_scalar(NUMBER).bind(end).bind(NUMBERED).fetch_one(&mut **conn).await?;
    Ok(numbered == NUMBERED)
}

/// Whether an event waits for its place.
pub(crate) async fn is_unnumbered(db: &mut Conn<'_>) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM events WHERE position IS NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).fetch_one(c).await)?)
}

/// Takes away some events whose time is over; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM events WHERE kept_until <= $1 AND id IN (SELECT id FROM events WHERE kept_until <= $1 LIMIT $2)";
