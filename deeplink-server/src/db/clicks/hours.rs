//! Counts of clicks: by link, hour and kind for what is folded, straight from the log for the rest.

use std::collections::{BTreeMap, HashMap};

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::ClickKind;
use sqlx::FromRow;

use super::super::{Conn, DbError, on};
use super::place;

/// Clicks of one fold. More would hold back the clicks that wait to be stored meanwhile.
const FOLD: i64 = 8_192;
/// Milliseconds of an hour.
const HOUR: i64 = 3_600_000;

/// What a fold found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    /// Everything is in the counts.
    All,
    /// More waits.
    More,
    /// Another node is at it.
    Elsewhere,
}

/// Adds the next clicks of the log to the hours. The hours and the mark of what they hold move together.
pub(crate) async fn fold(db: &mut Conn<'_>) -> Result<Folded, DbError> {
    // What is visible ends where the head is in the same snapshot, because the head's row is locked from the moment a
    // position is given out until its transaction ends. So there is nothing still to come below the last one found.
    const NEXT: &str = "
        SELECT (SELECT position FROM click_marks WHERE name = 'folded'), MAX(position), CAST(COUNT(*) AS BIGINT) FROM (
            SELECT position FROM clicks
            WHERE position > (SELECT position FROM click_marks WHERE name = 'folded')
            ORDER BY position LIMIT $1
        ) AS next";
    const MOVE: &str = "UPDATE click_marks SET position = $2 WHERE name = 'folded' AND position = $1";
    const ADD: &str = "
        INSERT INTO click_hours (link, hour, kind, clicks, first_position, last_position, first_at, last_at)
        SELECT link, at - at % 3600000, kind, COUNT(*), MIN(position), MAX(position), MIN(at), MAX(at)
        FROM clicks WHERE position > $1 AND position <= $2
        GROUP BY link, at - at % 3600000, kind ORDER BY link, at - at % 3600000, kind
        ON CONFLICT (link, hour, kind) DO UPDATE SET
            clicks = click_hours.clicks + excluded.clicks,
            last_position = excluded.last_position,
            first_at = CASE WHEN excluded.first_at < click_hours.first_at
                THEN excluded.first_at ELSE click_hours.first_at END,
            last_at = CASE WHEN excluded.last_at > click_hours.last_at
                THEN excluded.last_at ELSE click_hours.last_at END";
    let (from, to, found): (i64, Option<i64>, i64) = on!(db, c => sqlx::query_as(NEXT).bind(FOLD).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(Folded::All) };
    // Whoever moves the mark has the right to add; another node waits here and then finds it moved.
    let moved = on!(db, c => sqlx::query(MOVE).bind(from).bind(to).execute(c).await.map(|done| done.rows_affected()))?;
    if moved == 0 {
        return Ok(Folded::Elsewhere);
    }
    on!(db, c => sqlx::query(ADD).bind(from).bind(to).execute(c).await.map(|_| ()))?;
    Ok(if found < FOLD { Folded::All } else { Folded::More })
}

/// Clicks of one link, of one kind, in one hour.
#[derive(Debug, Clone, Copy, FromRow)]
struct Count {
    hour: i64,
    kind: i64,
    clicks: i64,
    /// When the first and the last of them happened.
    first_at: i64,
    last_at: i64,
    /// Between which positions of the log they stand; null when they were counted in the log, inside the window.
    first_position: Option<i64>,
    last_position: Option<i64>,
}

/// Clicks of a link, of one kind or, without one, of the kinds that the funnel counts (people and agents), which happened
/// from `from` to `to`, both included: by the start of their hour. Hours without any may be absent.
///
/// Hours that lie inside the window come from the counts, and so do those at its ends whose clicks all lie on one side
/// of the end. Otherwise the log is read from the first to the last of them. Once retention has taken one of them from
/// the log, such an hour counts whole if its first click lies in the window.
pub(crate) async fn hourly(
    db: &mut Conn<'_>,
    link: i64,
    (from, to): (i64, i64),
    kind: Option<ClickKind>,
) -> Result<BTreeMap<i64, i64>, DbError> {
    let kinds = kind.map_or([ClickKind::Human, ClickKind::Agent], |kind| [kind; 2]);
    let mut hours = BTreeMap::new();
    for count in counts(db, link, (from, to), kinds).await? {
        let clicks = match (count.first_position, count.last_position) {
            _ if from <= count.first_at && count.last_at <= to => count.clicks,
            _ if count.last_at < from || to < count.first_at => 0,
            (Some(first), Some(last)) => match count_part(db, link, &count, (from, to), (first, last)).await? {
                Some(clicks) => clicks,
                None if from <= count.first_at => count.clicks,
                None => 0,
            },
            _ => 0,
        };
        *hours.entry(count.hour).or_insert(0) += clicks;
    }
    Ok(hours)
}

/// The counts of the hours that the window touches. One statement, so that no click is missed or counted twice while a
/// fold goes on.
async fn counts(
    db: &mut Conn<'_>,
    link: i64,
    (from, to): (i64, i64),
    kinds: [ClickKind; 2],
) -> Result<Vec<Count>, DbError> {
    const SQL: &str = "
        SELECT hour, kind, clicks, first_at, last_at, first_position, last_position FROM click_hours
        WHERE link = $1 AND hour >= $4 AND hour <= $3 AND (kind = $5 OR kind = $6)
        UNION ALL
        SELECT at - at % 3600000, kind, COUNT(*), MIN(at), MAX(at), NULL, NULL FROM clicks
        WHERE position > (SELECT position FROM click_marks WHERE name = 'folded')
            AND link = $1 AND at >= $2 AND at <= $3 AND (kind = $5 OR kind = $6)
        GROUP BY at - at % 3600000, kind";
    let first_hour = from - from.rem_euclid(HOUR);
    let [one, other] = kinds.map(|kind| i64::from(kind.code()));
    Ok(on!(db, c => sqlx::query_as(SQL)
        .bind(link).bind(from).bind(to).bind(first_hour).bind(one).bind(other)
        .fetch_all(c).await)?)
}

/// How many clicks of an hour that is folded lie in the window. What is folded never changes, so this need not see what
/// [`counts`] saw. `None` when some of them are gone from the log.
async fn count_part(
    db: &mut Conn<'_>,
    link: i64,
    hour: &Count,
    (from, to): (i64, i64),
    (first, last): (i64, i64),
) -> Result<Option<i64>, DbError> {
    const REMOVED: &str = "SELECT position FROM click_marks WHERE name = 'removed'";
    let (from, to) = (from.max(hour.hour), to.min(hour.hour + HOUR - 1));
    let (mut clicks, mut after) = (0, (first - 1).max(place(from)));
    loop {
        let (found, end) = count_slice(db, link, hour.kind, (from, to), (after, last)).await?;
        clicks += found;
        match end {
            Some(end) => after = end,
            None => break,
        }
    }
    let removed: i64 = on!(db, c => sqlx::query_scalar(REMOVED).fetch_one(c).await)?;
    Ok((removed < first).then_some(clicks))
}

/// Counts in the next rows of the log after `after` and up to `until`; with the last position read, unless that was the
/// end. In slices, so that a long hour neither holds a snapshot for long nor cannot be broken off.
async fn count_slice(
    db: &mut Conn<'_>,
    link: i64,
    kind: i64,
    (from, to): (i64, i64),
    (after, until): (i64, i64),
) -> Result<(i64, Option<i64>), DbError> {
    const ROWS: i64 = 200_000;
    const SQL: &str = "
        SELECT MAX(position), CAST(COUNT(*) AS BIGINT), CAST(COALESCE(SUM(
            CASE WHEN link = $3 AND kind = $4 AND at >= $5 AND at <= $6 THEN 1 ELSE 0 END), 0) AS BIGINT)
        FROM (
            SELECT position, link, kind, at FROM clicks
            WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $7
        ) AS slice";
    let (last, rows, found): (Option<i64>, i64, i64) = on!(db, c => sqlx::query_as(SQL)
        .bind(after).bind(until).bind(link).bind(kind).bind(from).bind(to).bind(ROWS)
        .fetch_one(c).await)?;
    Ok((found, last.filter(|_| rows == ROWS)))
}

/// Clicks that the funnel counts, of each link of a tenant whose position is between two (both included), since the start
/// of the hour of a moment. Links without any are absent.
pub(crate) async fn counts_since(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    (first, last): (i64, i64),
    since: Timestamp,
) -> Result<HashMap<i64, i64>, DbError> {
    // One statement, so that no click is missed or counted twice while a fold goes on.
    const SQL: &str = "
        SELECT link, CAST(SUM(clicks) AS BIGINT) FROM (
            SELECT h.link AS link, h.clicks AS clicks
            FROM links l JOIN click_hours h ON h.link = l.position
            WHERE l.tenant_id = $1 AND l.position >= $2 AND l.position <= $3
                AND h.hour >= $4 AND (h.kind = $5 OR h.kind = $6)
            UNION ALL
            SELECT c.link, 1
            FROM clicks c JOIN links l ON l.position = c.link
            WHERE c.position > (SELECT position FROM click_marks WHERE name = 'folded')
                AND l.tenant_id = $1 AND l.position >= $2 AND l.position <= $3
                AND c.at >= $4 AND (c.kind = $5 OR c.kind = $6)
        ) AS counted GROUP BY link";
    let since = since.as_millis() - since.as_millis().rem_euclid(HOUR);
    let [one, other] = [ClickKind::Human, ClickKind::Agent].map(|kind| i64::from(kind.code()));
    let counts: Vec<(i64, i64)> = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(first).bind(last).bind(since).bind(one).bind(other)
        .fetch_all(c).await)?;
    Ok(counts.into_iter().collect())
}
