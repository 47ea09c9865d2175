//! Deletes what is past its retention, in small batches so that clicks are not delayed.

use deeplink_core::plan::{PAST_DUE_DAYS, Tier};
use deeplink_core::time::Timestamp;
use sqlx::AssertSqlSafe;

use super::super::{Conn, DbError, execute, on};

/// Clicks of one batch.
const CLICKS: i64 = 1_024;
/// Counts of one batch.
const FACETS: i64 = 512;
/// Texts of one batch.
const TEXTS: i64 = 500;

/// Removes the oldest clicks up to the position `until`. `true` if there may be more.
pub(crate) async fn remove_clicks(db: &mut Conn<'_>, until: i64) -> Result<bool, DbError> {
    const NEXT: &str = "
        SELECT MAX(position), CAST(COUNT(*) AS BIGINT) FROM (
            SELECT position FROM clicks
            WHERE position <= $1 ORDER BY position LIMIT $2
        ) AS oldest";
    const MARK: &str = "UPDATE click_marks SET position = $1 WHERE name = 'removed' AND position < $1";
    const REMOVE: &str = "DELETE FROM clicks WHERE position <= $1";
    let (to, found): (Option<i64>, i64) =
        on!(db, c => sqlx::query_as(NEXT).bind(until).bind(CLICKS).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(false) };
    execute!(db, MARK; to)?;
    execute!(db, REMOVE; to)?;
    Ok(found == CLICKS)
}

/// Removes the oldest clicks up to the position `until` that belong to accounts on this plan or one that keeps clicks no
/// longer. `true` if there may be more.
///
/// Each plan has its own mark, so that clicks of other plans are scanned only once. Clicks that were kept because their
/// account had a larger plan are removed when that plan's mark passes them. The plan in effect is that of
/// [`PlanBasis::effective_tier`](deeplink_core::plan::PlanBasis::effective_tier).
pub(crate) async fn remove_clicks_of_plan(
    db: &mut Conn<'_>,
    plan: &Tier,
    until: i64,
    now: Timestamp,
) -> Result<bool, DbError> {
    const NEXT: &str = "
        SELECT (SELECT position FROM click_marks WHERE name = $3), MAX(position), CAST(COUNT(*) AS BIGINT) FROM (
            SELECT position FROM clicks
            WHERE position > (SELECT position FROM click_marks WHERE name = $3) AND position <= $1
            ORDER BY position LIMIT $2
        ) AS oldest";
    const MARK: &str = "UPDATE click_marks SET position = $1 WHERE name = $2 AND position < $1";
    let mark = format!("removed:{plan}");
    let (after, to, found): (i64, Option<i64>, i64) =
        on!(db, c => sqlx::query_as(NEXT).bind(until).bind(CLICKS).bind(&mark).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(false) };
    let kept = keeps_longer(
        plan,
        "COALESCE((SELECT tenant_id FROM links l WHERE l.position = clicks.link),
            (SELECT tenant_id FROM deleted_links d WHERE d.position = clicks.link))",
    );
    let remove = format!("DELETE FROM clicks WHERE position > $1 AND position <= $2 AND NOT {kept}");
    let past_due = past_due_since(now);
    execute!(db, MARK; to, &mark)?;
    // Built only from our own text.
    execute!(db, AssertSqlSafe(remove); after, to, past_due)?;
    Ok(found == CLICKS)
}

/// The condition that an account's plan keeps clicks longer than this one does; `$3` is [`past_due_since`].
pub(in super::super) fn keeps_longer(plan: &Tier, tenant: &str) -> String {
    // An unknown plan counts as the smallest one, as does that of a link without an account.
    let keeps = |tier: &Tier| tier.limits().analytics_retention_days.unwrap_or(i64::MAX);
    let longer = Tier::ALL.iter().filter(|tier| keeps(tier) > keeps(plan)).map(|tier| format!("'{tier}'"));
    let longer = longer.collect::<Vec<_>>().join(", ");
    format!(
        "EXISTS (SELECT 1 FROM tenants
            WHERE (comp_tier IN ({longer}) OR plan_tier IN ({longer}) AND (subscription_status IS NULL
                    OR subscription_status = 'active' OR subscription_status = 'past_due' AND past_due_since > $3))
                AND id = {tenant})"
    )
}

/// The earliest time since which a payment may be due without ending the plan, in unix milliseconds.
pub(in super::super) fn past_due_since(now: Timestamp) -> i64 {
    now.plus_days(-PAST_DUE_DAYS).as_millis()
}

/// Removes texts that no click has referred to since `before`. `true` if there may be more.
pub(crate) async fn remove_texts(db: &mut Conn<'_>, before: i64) -> Result<bool, DbError> {
    // The outer condition is checked again after waiting for a lock: a text that was used in the meantime stays.
    const SQL: &str = "
        DELETE FROM visitor_texts WHERE used_at < $1
            AND hash IN (SELECT hash FROM visitor_texts WHERE used_at < $1 ORDER BY used_at LIMIT $2)";
    let removed = execute!(db, SQL; before, TEXTS)?;
    Ok(i64::try_from(removed) == Ok(TEXTS))
}

/// Removes counts by platform, host and country: hours before the first time, and days before the second. `true` if
/// there may be more.
pub(crate) async fn remove_facets(db: &mut Conn<'_>, hours: i64, days: i64) -> Result<bool, DbError> {
    const HOURS: &str = "
        DELETE FROM click_facets WHERE (link, hour, platform, host) IN (
            SELECT link, hour, platform, host FROM click_facets WHERE hour < $1 ORDER BY hour LIMIT $2)";
    const DAYS: &str = "
        DELETE FROM click_facet_days WHERE (link, day, platform, host) IN (
            SELECT link, day, platform, host FROM click_facet_days WHERE day < $1 ORDER BY day LIMIT $2)";
    const COUNTRY_HOURS: &str = "
        DELETE FROM click_countries WHERE (link, hour, country) IN (
            SELECT link, hour, country FROM click_countries WHERE hour < $1 ORDER BY hour LIMIT $2)";
    const COUNTRY_DAYS: &str = "
        DELETE FROM click_country_days WHERE (link, day, country) IN (
            SELECT link, day, country FROM click_country_days WHERE day < $1 ORDER BY day LIMIT $2)";
    for (sql, before) in [(HOURS, hours), (DAYS, days), (COUNTRY_HOURS, hours), (COUNTRY_DAYS, days)] {
        let removed = execute!(db, sql; before, FACETS)?;
        if i64::try_from(removed) == Ok(FACETS) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the state of segments that were loaded to their end, and last used before `before` and more than `age`
/// milliseconds before the latest use of any, so that no change of the clock removes the state of a segment in use.
pub(crate) async fn forget_journals(db: &mut Conn<'_>, before: i64, age: i64) -> Result<(), DbError> {
    const SQL: &str = "
        DELETE FROM click_journals
        WHERE finished = 1 AND used_at < $1 AND used_at < (SELECT MAX(used_at) FROM click_journals) - $2";
    execute!(db, SQL; before, age)?;
    Ok(())
}
