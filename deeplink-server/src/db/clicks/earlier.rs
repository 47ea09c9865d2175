//! Clicks of versions without a journal: those of the log after the mark `folded` are not in the counts.

use sqlx::FromRow;

use super::super::{Conn, DbError, execute, on};
use super::add::{Group, add_counts};

/// Clicks that are counted at a time.
const MAX_CLICKS: i64 = 8_192;

/// Identifies a batch of clicks in the log by the position and content of its first click.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBatch {
    pub(crate) position: i64,
    pub(crate) link: i64,
    pub(crate) at: i64,
}

/// Whether a batch is in the log.
pub(crate) async fn is_stored(db: &mut Conn<'_>, batch: StoredBatch) -> Result<bool, DbError> {
    const SQL: &str = "SELECT COUNT(*) FROM clicks WHERE position = $1 AND link = $2 AND at = $3";
    let found: i64 = on!(db, c => sqlx::query_scalar(SQL)
        .bind(batch.position).bind(batch.link).bind(batch.at)
        .fetch_one(c).await)?;
    Ok(found > 0)
}

/// Clicks of the log that follow the mark and are to be counted.
#[derive(Debug)]
pub(crate) struct Uncounted {
    from: i64,
    /// The position of the last one; `None` if there are none and never will be.
    to: Option<i64>,
    groups: Vec<Group>,
}

#[derive(FromRow)]
struct Row {
    position: i64,
    link: i64,
    at: i64,
    kind: i64,
    platform: i64,
    host: String,
}

/// The next clicks that are not counted yet. `None` if the mark was removed: later clicks are counted when they are stored.
pub(crate) async fn next_uncounted(db: &mut Conn<'_>) -> Result<Option<Uncounted>, DbError> {
    const MARK: &str = "SELECT position FROM click_marks WHERE name = 'folded'";
    const NEXT: &str = "
        SELECT position, link, at, kind, platform, COALESCE(t.host, '') AS host
        FROM clicks c LEFT JOIN visitor_texts t ON t.hash = c.referer
        WHERE position > $1 ORDER BY position LIMIT $2";
    let from: Option<i64> = on!(db, c => sqlx::query_scalar(MARK).fetch_optional(c).await)?;
    let Some(from) = from else { return Ok(None) };
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(NEXT).bind(from).bind(MAX_CLICKS).fetch_all(c).await)?;
    let small = |number: i64| u8::try_from(number).unwrap_or(u8::MAX);
    let group = |row: &Row| Group {
        link: row.link,
        hour: row.at - row.at.rem_euclid(3_600_000),
        kind: small(row.kind),
        platform: small(row.platform),
        agent_code: 0,
        country: 0,
        host: row.host.clone(),
        clicks: 1,
        first_at: row.at,
        last_at: row.at,
    };
    let groups = rows.iter().map(group).collect();
    Ok(Some(Uncounted { from, to: rows.last().map(|row| row.position), groups }))
}

/// Counts them and moves the mark, or removes it if nothing follows.
pub(crate) async fn count_earlier(db: &mut Conn<'_>, clicks: &Uncounted, months: bool) -> Result<(), DbError> {
    const MOVE: &str = "UPDATE click_marks SET position = $2 WHERE name = 'folded' AND position = $1";
    const END: &str = "DELETE FROM click_marks WHERE name = 'folded' AND position = $1";
    match clicks.to {
        None => execute!(db, END; clicks.from)?,
        // Another node may have counted them.
        Some(to) if execute!(db, MOVE; clicks.from, to)? == 0 => 0,
        Some(_) => add_counts(db, &clicks.groups, months).await.map(|()| 1)?,
    };
    Ok(())
}
