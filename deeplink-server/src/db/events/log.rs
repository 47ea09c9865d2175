//! The log of an account's events, a page at a time, oldest first.

use std::time::{Duration, Instant};

use deeplink_core::event::{Event, StoredEvent};
use deeplink_core::id::EventId;
use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;
use sqlx::AssertSqlSafe;

use super::super::clicks::{head, keeps_longer, past_due_since, position_at};
use super::super::{Conn, DbError, execute, on};
use super::stream::{StreamEvent, Wanted, page};

/// How long one page begins new reads: a page is short where most of the log is other accounts'.
const MAX_TIME: Duration = Duration::from_millis(200);
/// Events that one write looks at.
const EVENTS: i64 = 512;

/// A page of the log.
pub(crate) struct LogPage {
    pub(crate) events: Vec<StoredEvent>,
    /// The position after which the next page begins; `None` at the end.
    pub(crate) stopped_at: Option<i64>,
}

/// At most `limit` events after a position that were stored before `to`. With a link, only those that name it.
pub(crate) async fn log(
    db: &mut Conn<'_>,
    wanted: Wanted<'_>,
    (after, to): (i64, Option<Timestamp>),
    limit: usize,
) -> Result<LogPage, DbError> {
    let began = Instant::now();
    let end = head(db).await?;
    let end = to.map_or(end, |to| end.min(position_at(to.as_millis())));
    let (mut events, mut reached) = (Vec::new(), after);
    while reached < end && events.len() < limit && began.elapsed() < MAX_TIME {
        let (found, upto) = page(db, wanted, (reached, end)).await?;
        reached = upto;
        for event in found {
            let StreamEvent { position, id, body, .. } = event;
            let event = Event::parse(body.as_bytes()).map_err(|_| DbError::corrupt("events", "body", id.as_str()))?;
            if wanted.clicked.is_none_or(|link| event.names_link(link)) {
                events.push((position, StoredEvent::new(id, event)));
            }
        }
    }
    if events.len() > limit {
        events.truncate(limit);
        reached = events.last().map_or(after, |(position, _)| *position);
    }
    let events = events.into_iter().map(|(_, event)| event).collect();
    Ok(LogPage { events, stopped_at: Some(reached).filter(|reached| *reached < end) })
}

/// Removes the oldest events that were published before a moment, unless a delivery needs them. Clicks are removed from their own
/// log. `true` when there may be more.
pub(crate) async fn remove_old(db: &mut Conn<'_>, before: Timestamp, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        DELETE FROM events WHERE id IN (
            SELECT id FROM events WHERE id < $1 AND kind <> 0 AND kept_until <= $2 ORDER BY id LIMIT $3)";
    let removed = execute!(db, SQL; first_of(before.as_millis()), now.as_millis(), EVENTS)?;
    Ok(i64::try_from(removed) == Ok(EVENTS))
}

/// Removes the oldest of those that belong to accounts on this plan or one that keeps them no longer.
///
/// As for clicks, each plan has a mark of its own, so that the events of the others are looked at once.
pub(crate) async fn remove_of_plan(
    db: &mut Conn<'_>,
    plan: &Tier,
    before: Timestamp,
    now: Timestamp,
) -> Result<bool, DbError> {
    const AFTER: &str = "SELECT position FROM click_marks WHERE name = $1";
    const NEXT: &str = "SELECT id FROM events WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
    const MARK: &str = "UPDATE click_marks SET position = $1 WHERE name = $2 AND position < $1";
    let mark = format!("events:{plan}");
    let after: i64 = on!(db, c => sqlx::query_scalar(AFTER).bind(&mark).fetch_one(c).await)?;
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(NEXT)
        .bind(first_of(after)).bind(first_of(before.as_millis())).bind(EVENTS).fetch_all(c).await)?;
    let Some(last) = found.last() else { return Ok(false) };
    let last: EventId = last.parse().map_err(|_| DbError::corrupt("events", "id", last))?;
    // All of its millisecond, so that the mark is a time.
    let to = last.millis() + 1;
    let remove = format!(
        "DELETE FROM events WHERE id >= $1 AND id < $2 AND kind <> 0 AND kept_until <= $4 AND NOT {}",
        keeps_longer(plan, "events.tenant_id")
    );
    execute!(db, MARK; to, &mark)?;
    // Made from words of our own.
    execute!(db, AssertSqlSafe(remove); first_of(after), first_of(to), past_due_since(now), now.as_millis())?;
    Ok(i64::try_from(found.len()) == Ok(EVENTS))
}

/// No id of this moment or later is smaller: an id begins with its time.
fn first_of(millis: i64) -> String {
    format!("{}_{:012x}", EventId::PREFIX, millis.max(0))
}
