//! What all links of an account led to, from individual rows: only the account's links can open its installs.

use super::super::{Conn, DbError};
use super::{Scope, Split, Tally, credits, read, revenue};

/// Everything but the installs that links opened again in the whole window.
pub(super) async fn add(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    split: Split<'_>,
    tally: &mut Tally,
) -> Result<(), DbError> {
    for (key, installed, engaged) in read::<(i64, i64, i64)>(db, touches_sql(split), scope, scope.links).await? {
        tally.total.new_users.installed += installed;
        let group = tally.groups.entry(key).or_default();
        group.new_users.installed += installed;
        group.returning_users.engaged += engaged;
    }
    credits::add(db, scope, split, tally).await?;
    revenue::add(db, scope, split, tally).await
}

/// Installs that were opened for the first time, and again, in each group. An install counts with its first opening in
/// a group: the one without an earlier opening in that group.
pub(super) fn touches_sql(split: Split<'_>) -> String {
    format!(
        "SELECT {}, CAST(SUM(CASE WHEN number = 1 THEN 1 ELSE 0 END) AS BIGINT), \
         CAST(SUM(CASE WHEN number > 1 AND (account_before IS NULL OR account_before < {}) THEN 1 ELSE 0 END) AS BIGINT) \
         FROM touches WHERE account = $3 AND at >= $1 AND at <= $2 GROUP BY 1",
        split.key(),
        split.begin()
    )
}

/// The number of openings in the window, except installs' first, without an earlier one since `$4`.
pub(super) const OPENED: &str = "
    SELECT COUNT(*) FROM touches WHERE account = $3 AND at >= $1 AND at <= $2 AND number > 1
        AND (account_before IS NULL OR account_before < $4)";

/// How many installs were opened again in the window, without an earlier opening since `begin`.
pub(super) async fn opened(db: &mut Conn<'_>, scope: Scope<'_>, begin: i64) -> Result<i64, DbError> {
    let which = [scope.links, &[begin]].concat();
    let counted: Option<(i64,)> = read(db, OPENED.into(), scope, &which).await?.pop();
    Ok(counted.unwrap_or_default().0)
}
