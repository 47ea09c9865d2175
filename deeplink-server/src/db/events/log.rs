//! The log of an account's events, a page at a time, oldest first.

use std::time::{Duration, Instant};

use deeplink_core::event::{Event, StoredEvent};
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

/// Removes the oldest events up to the position `until`. What a delivery still needs only leaves the log: at position -1 it
/// goes once it is not needed any more. Clicks are removed from their own log. `true` when there may be more.
pub(crate) async fn remove_old(db: &mut Conn<'_>, until: i64, now: Timestamp) -> Result<bool, DbError> {
    const NEXT: &str = "
        SELECT MAX(position), CAST(COUNT(*) AS BIGINT) FROM (
            SELECT position FROM events WHERE position > 0 AND kind <> 0 AND position <= $1 ORDER BY position LIMIT $2
        ) AS oldest";
    const LEAVE: &str = "
        UPDATE events SET position = -1 WHERE position > 0 AND kind <> 0 AND position <= $1 AND kept_until > $2";
    // The time is looked at again: on PostgreSQL a replay may need one meanwhile.
    const REMOVE: &str = "DELETE FROM events WHERE position > 0 AND kind <> 0 AND position <= $1 AND kept_until <= $2";
    let (to, found): (Option<i64>, i64) =
        on!(db, c => sqlx::query_as(NEXT).bind(until).bind(EVENTS).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(false) };
    execute!(db, LEAVE; to, now.as_millis())?;
    execute!(db, REMOVE; to, now.as_millis())?;
    Ok(found == EVENTS)
}

/// Removes the oldest of those that belong to accounts on this plan or one that keeps them no longer.
///
/// As for clicks, each plan has a mark of its own, so that the events of the others are looked at once.
pub(crate) async fn remove_of_plan(
    db: &mut Conn<'_>,
    plan: &Tier,
    until: i64,
    now: Timestamp,
) -> Result<bool, DbError> {
    const NEXT: &str = "
        SELECT (SELECT position FROM click_marks WHERE name = $3), MAX(position), CAST(COUNT(*) AS BIGINT) FROM (
            SELECT position FROM events
            WHERE position > 0 AND kind <> 0 AND position > (SELECT position FROM click_marks WHERE name = $3)
                AND position <= $1
            ORDER BY position LIMIT $2
        ) AS oldest";
    const MARK: &str = "UPDATE click_marks SET position = $1 WHERE name = $2 AND position < $1";
    let mark = format!("events:{plan}");
    let (after, to, found): (i64, Option<i64>, i64) =
        on!(db, c => sqlx::query_as(NEXT).bind(until).bind(EVENTS).bind(&mark).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(false) };
    let passed = format!(
        "position > 0 AND kind <> 0 AND position > $1 AND position <= $2 AND NOT {}",
        keeps_longer(plan, "events.tenant_id")
    );
    execute!(db, MARK; to, &mark)?;
    // Built only from our own text, like the next one.
    let leave = AssertSqlSafe(format!("UPDATE events SET position = -1 WHERE {passed} AND kept_until > $4"));
    execute!(db, leave; after, to, past_due_since(now), now.as_millis())?;
    let remove = AssertSqlSafe(format!("DELETE FROM events WHERE {passed} AND kept_until <= $4"));
    execute!(db, remove; after, to, past_due_since(now), now.as_millis())?;
    Ok(found == EVENTS)
}
