//! From the log into counts: the hours and days of each link, and with them what a plan's month has used up.

use std::collections::BTreeMap;

use deeplink_core::time::Timestamp;

use super::super::{Conn, DbError, on};

/// Clicks of one fold. More would hold back the clicks that wait to be stored meanwhile.
const FOLD: i64 = 8_192;

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

/// Adds the next clicks of the log to the counts, and with `months` to what their accounts had in a month. The counts and
/// the mark of what they hold move together.
pub(crate) async fn fold(db: &mut Conn<'_>, months: bool) -> Result<Folded, DbError> {
    // What is visible ends where the head is in the same snapshot, because the head's row is locked from the moment a
    // position is given out until its transaction ends. So there is nothing still to come below the last one found.
    const NEXT: &str = "
        SELECT (SELECT position FROM click_marks WHERE name = 'folded'), MAX(position), CAST(COUNT(*) AS BIGINT) FROM (
            SELECT position FROM clicks
            WHERE position > (SELECT position FROM click_marks WHERE name = 'folded')
            ORDER BY position LIMIT $1
        ) AS next";
    const MOVE: &str = "UPDATE click_marks SET position = $2 WHERE name = 'folded' AND position = $1";
    let (from, to, found): (i64, Option<i64>, i64) = on!(db, c => sqlx::query_as(NEXT).bind(FOLD).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(Folded::All) };
    // Whoever moves the mark has the right to add; another node waits here and then finds it moved.
    let moved = on!(db, c => sqlx::query(MOVE).bind(from).bind(to).execute(c).await.map(|done| done.rows_affected()))?;
    if moved == 0 {
        return Ok(Folded::Elsewhere);
    }
    for statement in [HOURS, DAYS, FACETS, FACET_DAYS] {
        on!(db, c => sqlx::query(statement).bind(from).bind(to).execute(c).await.map(|_| ()))?;
    }
    if months {
        // Last, because conversions wait for the same rows.
        add_to_months(db, from, to).await?;
    }
    Ok(if found < FOLD { Folded::All } else { Folded::More })
}

const HOURS: &str = "
    INSERT INTO click_hours (link, hour, kind, clicks, first_position, last_position, first_at, last_at)
    SELECT link, at - at % 3600000, kind, COUNT(*), MIN(position), MAX(position), MIN(at), MAX(at)
    FROM clicks WHERE position > $1 AND position <= $2
    GROUP BY link, at - at % 3600000, kind ORDER BY link, at - at % 3600000, kind
    ON CONFLICT (link, hour, kind) DO UPDATE SET
        clicks = click_hours.clicks + excluded.clicks,
        last_position = excluded.last_position,
        first_at = CASE WHEN excluded.first_at < click_hours.first_at THEN excluded.first_at ELSE click_hours.first_at END,
        last_at = CASE WHEN excluded.last_at > click_hours.last_at THEN excluded.last_at ELSE click_hours.last_at END";

const DAYS: &str = "
    INSERT INTO click_days (link, day, kind, clicks)
    SELECT link, at - at % 86400000, kind, COUNT(*) FROM clicks WHERE position > $1 AND position <= $2
    GROUP BY link, at - at % 86400000, kind ORDER BY link, at - at % 86400000, kind
    ON CONFLICT (link, day, kind) DO UPDATE SET clicks = click_days.clicks + excluded.clicks";

// The clicks are grouped by referer before its host is looked up, so that this is done once for a group.
const FACETS: &str = "
    INSERT INTO click_facets (link, hour, platform, host, clicks, first_position, last_position, first_at, last_at)
    SELECT link, hour, platform, COALESCE(t.host, ''), CAST(SUM(clicks) AS BIGINT), MIN(first_position),
        MAX(last_position), MIN(first_at), MAX(last_at)
    FROM (
        SELECT link, at - at % 3600000 AS hour, platform, referer, COUNT(*) AS clicks, MIN(position) AS first_position,
            MAX(position) AS last_position, MIN(at) AS first_at, MAX(at) AS last_at
        FROM clicks WHERE position > $1 AND position <= $2 AND kind IN (0, 3)
        GROUP BY link, at - at % 3600000, platform, referer
    ) AS g LEFT JOIN visitor_texts t ON t.hash = g.referer
    GROUP BY link, hour, platform, COALESCE(t.host, '') ORDER BY link, hour, platform, COALESCE(t.host, '')
    ON CONFLICT (link, hour, platform, host) DO UPDATE SET
        clicks = click_facets.clicks + excluded.clicks,
        last_position = excluded.last_position,
        first_at = CASE WHEN excluded.first_at < click_facets.first_at
            THEN excluded.first_at ELSE click_facets.first_at END,
        last_at = CASE WHEN excluded.last_at > click_facets.last_at THEN excluded.last_at ELSE click_facets.last_at END";

const FACET_DAYS: &str = "
    INSERT INTO click_facet_days (link, day, platform, host, clicks)
    SELECT link, day, platform, COALESCE(t.host, ''), CAST(SUM(clicks) AS BIGINT)
    FROM (
        SELECT link, at - at % 86400000 AS day, platform, referer, COUNT(*) AS clicks
        FROM clicks WHERE position > $1 AND position <= $2 AND kind IN (0, 3)
        GROUP BY link, at - at % 86400000, platform, referer
    ) AS g LEFT JOIN visitor_texts t ON t.hash = g.referer
    GROUP BY link, day, platform, COALESCE(t.host, '') ORDER BY link, day, platform, COALESCE(t.host, '')
    ON CONFLICT (link, day, platform, host) DO UPDATE SET clicks = click_facet_days.clicks + excluded.clicks";

/// Counts the clicks of people and agents between two positions to the months of their accounts.
async fn add_to_months(db: &mut Conn<'_>, from: i64, to: i64) -> Result<(), DbError> {
    const READ: &str = "
        SELECT COALESCE(l.tenant_id, d.tenant_id), g.day, g.clicks FROM (
            SELECT link, at - at % 86400000 AS day, COUNT(*) AS clicks FROM clicks
            WHERE position > $1 AND position <= $2 AND kind IN (0, 3) GROUP BY link, at - at % 86400000
        ) AS g LEFT JOIN links l ON l.position = g.link LEFT JOIN deleted_links d ON d.position = g.link
        WHERE l.tenant_id IS NOT NULL OR d.tenant_id IS NOT NULL";
    const ADD: &str = "
        INSERT INTO tenant_months (tenant_id, month, events) VALUES ($1, $2, $3)
        ON CONFLICT (tenant_id, month) DO UPDATE SET events = tenant_months.events + excluded.events";
    let rows: Vec<(String, i64, i64)> = on!(db, c => sqlx::query_as(READ).bind(from).bind(to).fetch_all(c).await)?;
    // In the order of their keys, so that two transactions never wait for each other.
    let mut months = BTreeMap::new();
    for (tenant, day, clicks) in rows {
        *months.entry((tenant, Timestamp::from_millis(day).month().as_millis())).or_insert(0) += clicks;
    }
    for ((tenant, month), clicks) in months {
        on!(db, c => sqlx::query(ADD).bind(&tenant).bind(month).bind(clicks).execute(c).await.map(|_| ()))?;
    }
    Ok(())
}
