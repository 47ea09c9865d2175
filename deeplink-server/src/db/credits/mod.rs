//! Links credited with users' conversions.
//!
//! The work of one write is bounded, however many rows a user has: only the latest bound installs count, a conversion credits
//! a limited number of links, and a limited number of conversions are re-credited at a time. The rest is recorded in
//! `credit_work` and continued by a later write. All functions here require the user's row to be locked.

use deeplink_core::id::TenantId;
use sqlx::FromRow;

use super::events::{self, Publisher};
use super::funnel::Changes;
use super::{Conn, DbError, conversions, execute, on};

/// Maximum conversions that one write re-credits; fewer if each takes many lookups.
const MAX_RECREDITED: i64 = 500;
/// Approximate lookups of installs or links in one such write.
const MAX_LOOKUPS: i64 = 2_000;
/// Minimum conversions that one such write re-credits.
const MIN_RECREDITED: i64 = 20;
/// Users with unfinished work that are read at a time.
const USERS_PER_READ: i64 = 1_000;

/// A point in the order of a user's conversions: by time, then by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromRow)]
pub(crate) struct Point {
    pub(super) at: i64,
    pub(super) position: i64,
}

impl Point {
    /// Before all conversions at or after this time.
    fn before(at: i64) -> Self {
        Self { at, position: i64::MIN }
    }
}

/// Conversions of a user after one point and up to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) user: i64,
    pub(super) after: Point,
    pub(super) upto: Point,
}

/// Credits links and the account with a new conversion, of a known user, that is stored with its first and last touch.
pub(super) async fn credit_one(db: &mut Conn<'_>, user: i64, at: i64, position: i64) -> Result<(), DbError> {
    let after = Point { at, position: position.saturating_sub(1) };
    credit_range(db, Range { user, after, upto: Point { at, position } }).await
}

/// Credits the links that touched before the conversions of a range, and the account, for conversions without credits.
async fn credit_range(db: &mut Conn<'_>, Range { user, after, upto }: Range) -> Result<(), DbError> {
    const SQL: &str = "
        WITH touched AS (
            SELECT l.link, MIN(l.first_at) AS first_at,
                MAX(CASE WHEN l.last_opened_at > l.first_at THEN l.last_opened_at ELSE l.first_at END) AS latest_at
            FROM (SELECT position FROM installs WHERE app_user = $1 AND first_link IS NOT NULL
                    ORDER BY bound_at DESC, position DESC LIMIT 100) AS i
                JOIN install_links l ON l.install = i.position AND l.credited = TRUE
            GROUP BY l.link ORDER BY latest_at DESC, l.link LIMIT 100),
        due AS (
            SELECT position, at, conversion_type, first_link, last_link, amount_cents, currency FROM conversions
            WHERE app_user = $1 AND (at, position) > ($2, $3) AND (at, position) <= ($4, $5)),
        chain AS (
            SELECT d.*, d.first_link AS link, 1 AS is_end, 0 AS latest_at FROM due d WHERE d.first_link IS NOT NULL
            UNION ALL SELECT d.*, d.last_link, 1, 0 FROM due d WHERE d.last_link <> d.first_link
            UNION ALL SELECT d.*, t.link, 0, t.latest_at FROM due d JOIN touched t ON t.first_at <= d.at
                WHERE t.link <> d.first_link AND t.link <> d.last_link),
        ranked AS (
            SELECT chain.*,
                ROW_NUMBER() OVER (PARTITION BY position ORDER BY is_end DESC, latest_at DESC, link) AS nth
            FROM chain)
        INSERT INTO conversion_credits (link, at, conversion_type, is_first, is_last, conversion, amount_cents, currency)
        SELECT link, at, conversion_type, link = first_link, link = last_link, position, amount_cents, currency
        FROM ranked WHERE nth <= 100
        UNION ALL SELECT CASE WHEN d.first_link IS NULL THEN t.account - 1 ELSE t.account END,
            d.at, d.conversion_type, TRUE, TRUE, d.position, d.amount_cents, d.currency
        FROM due d CROSS JOIN app_users u JOIN tenants t ON t.id = u.tenant_id
        WHERE u.position = $1 AND t.account IS NOT NULL";
    execute!(db, SQL; user, after.at, after.position, upto.at, upto.position)?;
    Ok(())
}

/// Re-credits a user's conversions after new touches, and creates events for those that have none yet. `true`: some
/// are left for later. Usually there is nothing to do: a conversion is newer than the touches before it, unless it arrived
/// before its user was known or a clock was changed.
pub(crate) async fn credit_since(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    user: i64,
    since: i64,
) -> Result<bool, DbError> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM conversions WHERE app_user = $1 AND at >= $2)";
    if !on!(db, c => sqlx::query_scalar::<_, bool>(ANY).bind(user).bind(since).fetch_one(c).await)? {
        return Ok(false);
    }
    let since = Point::before(since);
    match remaining(db, user).await? {
        None => continue_work(db, publisher, user, Remaining { point: since, again_at: None }, false).await,
        // Unfinished work is completed first: with frequent new bindings it would never complete otherwise.
        Some(mut remaining) => {
            if since < remaining.point {
                remaining.again_at = Some(remaining.again_at.map_or(since.at, |at| at.min(since.at)));
            }
            continue_work(db, publisher, user, remaining, true).await
        }
    }
}

/// Continues the unfinished work of a user; `true` if more is left.
pub(crate) async fn resume(db: &mut Conn<'_>, publisher: &Publisher, user: i64) -> Result<bool, DbError> {
    conversions::lock(db, user).await?;
    match remaining(db, user).await? {
        Some(remaining) => continue_work(db, publisher, user, remaining, true).await,
        None => Ok(false),
    }
}

/// A user with unfinished work.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// `app_users.position`.
    pub(crate) position: i64,
    pub(crate) tenant: TenantId,
}

/// Some users with unfinished work.
pub(crate) async fn unfinished(db: &mut Conn<'_>) -> Result<Vec<Unfinished>, DbError> {
    const SQL: &str = "
        SELECT w.app_user, u.tenant_id FROM credit_work w JOIN app_users u ON u.position = w.app_user
        ORDER BY w.app_user LIMIT $1";
    let rows: Vec<(i64, String)> = on!(db, c => sqlx::query_as(SQL).bind(USERS_PER_READ).fetch_all(c).await)?;
    let read = |(position, tenant): (i64, String)| {
        let tenant = tenant.parse().map_err(|_| DbError::corrupt("app_users", "tenant_id", &tenant))?;
        Ok(Unfinished { position, tenant })
    };
    rows.into_iter().map(read).collect()
}

/// The unfinished work of a user.
#[derive(Debug, Clone, Copy)]
struct Remaining {
    /// Conversions after this point are to be re-credited.
    point: Point,
    /// Then those from this time on once more, because of new touches meanwhile.
    again_at: Option<i64>,
}

async fn remaining(db: &mut Conn<'_>, user: i64) -> Result<Option<Remaining>, DbError> {
    const SQL: &str = "SELECT since_at, since_position, again_at FROM credit_work WHERE app_user = $1";
    let row: Option<(i64, i64, Option<i64>)> = on!(db, c => sqlx::query_as(SQL).bind(user).fetch_optional(c).await)?;
    Ok(row.map(|(at, position, again_at)| Remaining { point: Point { at, position }, again_at }))
}

/// Does as much as one write may, and records the rest.
async fn continue_work(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    user: i64,
    from: Remaining,
    noted: bool,
) -> Result<bool, DbError> {
    const NOTE: &str = "
        INSERT INTO credit_work (app_user, since_at, since_position, again_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (app_user) DO UPDATE SET since_at = excluded.since_at, since_position = excluded.since_position,
            again_at = excluded.again_at";
    const END: &str = "DELETE FROM credit_work WHERE app_user = $1";
    let remaining = match (credit_some(db, publisher, user, from.point).await?, from.again_at) {
        (Some(point), again_at) => Some(Remaining { point, again_at }),
        (None, Some(at)) => Some(Remaining { point: Point::before(at), again_at: None }),
        (None, None) => None,
    };
    if let Some(Remaining { point, again_at }) = remaining {
        execute!(db, NOTE; user, point.at, point.position, again_at)?;
    } else if noted {
        execute!(db, END; user)?;
    }
    Ok(remaining.is_some())
}

/// The first touch of an install.
#[derive(FromRow)]
struct FirstTouch {
    install: i64,
    at: Option<i64>,
    link: Option<i64>,
}

/// Re-credits some conversions. Returns the point to continue from, if more may be left.
async fn credit_some(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    user: i64,
    after: Point,
) -> Result<Option<Point>, DbError> {
    const FIRSTS: &str = "
        SELECT i.position AS install,
            (SELECT t.at FROM touches t WHERE t.install = i.position ORDER BY t.at, t.number LIMIT 1) AS at,
            (SELECT t.link FROM touches t WHERE t.install = i.position ORDER BY t.at, t.number LIMIT 1) AS link
        FROM installs i WHERE i.app_user = $1 AND i.first_link IS NOT NULL ORDER BY i.bound_at DESC, i.position DESC LIMIT 100";
    const LINKS: &str = "
        SELECT COUNT(*) FROM (
            SELECT DISTINCT l.link
            FROM (SELECT position FROM installs WHERE app_user = $1 AND first_link IS NOT NULL
                    ORDER BY bound_at DESC, position DESC LIMIT 100) AS i
                JOIN install_links l ON l.install = i.position AND l.credited = TRUE
            LIMIT 100) AS links";
    const TO_CREDIT: &str = "
        SELECT at, position FROM conversions WHERE app_user = $1 AND (at, position) > ($2, $3)
        ORDER BY at, position LIMIT $4";
    const FORGET: &str = "
        DELETE FROM conversion_credits WHERE conversion IN (
            SELECT position FROM conversions
            WHERE app_user = $1 AND (at, position) > ($2, $3) AND (at, position) <= ($4, $5))";
    let firsts: Vec<FirstTouch> = on!(db, c => sqlx::query_as(FIRSTS).bind(user).fetch_all(c).await)?;
    let links: i64 = on!(db, c => sqlx::query_scalar(LINKS).bind(user).fetch_one(c).await)?;
    let installs = i64::try_from(firsts.len()).unwrap_or(i64::MAX);
    let most = (MAX_LOOKUPS / links.max(installs).max(1)).clamp(MIN_RECREDITED, MAX_RECREDITED);
    let due: Vec<Point> = on!(db, c => sqlx::query_as(TO_CREDIT)
        .bind(user).bind(after.at).bind(after.position).bind(most).fetch_all(c).await)?;
    let Some(&upto) = due.last() else { return Ok(None) };
    let range = Range { user, after, upto };
    let first = firsts.iter().filter_map(|first| Some(((first.at?, first.install), first.link?))).min();
    let mut changes = Changes::default();
    changes.conversions(db, range, -1).await?;
    execute!(db, FORGET; user, after.at, after.position, upto.at, upto.position)?;
    settle(db, range, first.map(|((at, _), link)| (at, link))).await?;
    credit_range(db, range).await?;
    changes.conversions(db, range, 1).await?;
    events::publish_conversions(db, publisher, range).await?;
    changes.store(db).await?;
    Ok((i64::try_from(due.len()).unwrap_or(i64::MAX) == most).then_some(upto))
}

/// Finds the first and the last touch of each conversion of a range, by index lookups. `first` is the time and the link of
/// the user's first touch.
async fn settle(db: &mut Conn<'_>, range: Range, first: Option<(i64, i64)>) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE conversions SET
            first_link = CASE WHEN at >= $6 THEN $7 END,
            last_link = (
                SELECT t.link FROM touches t
                WHERE t.at <= conversions.at AND t.install = (
                    SELECT position FROM (
                        SELECT i.position, (SELECT MAX(l.at) FROM touches l
                            WHERE l.install = i.position AND l.at <= conversions.at) AS last_at
                        FROM installs i WHERE i.app_user = $1 AND i.first_link IS NOT NULL
                        ORDER BY i.bound_at DESC, i.position DESC LIMIT 100) AS ends
                    WHERE last_at IS NOT NULL ORDER BY last_at DESC, position DESC LIMIT 1)
                ORDER BY t.at DESC, t.number DESC LIMIT 1)
        WHERE app_user = $1 AND (at, position) > ($2, $3) AND (at, position) <= ($4, $5)";
    let Range { user, after, upto } = range;
    let (first_at, first_link) = first.unzip();
    execute!(db, SQL; user, after.at, after.position, upto.at, upto.position, first_at, first_link)?;
    Ok(())
}

#[cfg(test)]
mod tests;
