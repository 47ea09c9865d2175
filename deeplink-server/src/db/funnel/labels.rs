//! Conversion types come from callers, so a report names only a limited number of them.

use std::collections::BTreeSet;

use sqlx::AssertSqlSafe;

use super::super::sets::{padded, placeholders};
use super::super::{Conn, DbError, on};
use super::credits::{Credits, Row, read};
use super::{Scope, Split};

/// The number of types that a report names, the most frequent ones. The others are counted together, as [`OTHER`].
pub(super) const MAX_TYPES: usize = 200;
pub(super) const OTHER: &str = "other";
/// If there are more rows than this, the types to name are looked up first.
pub(super) const MAX_ROWS: usize = 20_000;

/// Numbers of credits by key and label.
pub(super) async fn credits(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    credits: &Credits,
    split: Split<'_>,
    once: bool,
) -> Result<Vec<Row>, DbError> {
    let links = padded(scope.links);
    let sql = |label: &str| credits.sql(label, scope.credit, split, once, links.len());
    // Few accounts have more types than are named, so the others skip the query for the names.
    let all = format!("{} LIMIT {}", sql(credits.label), MAX_ROWS + 1);
    let rows: Vec<Row> = read(db, all, scope, &links, &[]).await?;
    let types: BTreeSet<&str> = rows.iter().map(|row| row.1.as_str()).collect();
    if rows.len() <= MAX_ROWS && types.len() <= MAX_TYPES {
        return Ok(rows);
    }
    let largest = credits.largest_sql(scope.credit, links.len(), MAX_TYPES);
    let named: Vec<(String,)> = read(db, largest, scope, &links, &[]).await?;
    let named: Vec<String> = named.into_iter().map(|row| row.0).collect();
    read(db, sql(&label(credits.label, 3 + links.len(), Some(named.len()))), scope, &links, &named).await
}

/// The types of the links' conversions that are named, if there are too many to name all.
pub(super) async fn of_link(db: &mut Conn<'_>, link: i64) -> Result<Option<Vec<String>>, DbError> {
    let sql = format!(
        "SELECT conversion_type FROM conversion_credits WHERE link = $1 AND is_last = TRUE \
         GROUP BY conversion_type ORDER BY COUNT(*) DESC, conversion_type LIMIT {}",
        MAX_TYPES + 1
    );
    let mut largest: Vec<String> = on!(db, c => sqlx::query_scalar(AssertSqlSafe(sql)).bind(link).fetch_all(c).await)?;
    Ok((largest.len() > MAX_TYPES).then(|| {
        largest.truncate(MAX_TYPES);
        largest
    }))
}

/// A label, or [`OTHER`] if it is not one of the `named` parameters from `$first` on.
pub(super) fn label(label: &str, first: usize, named: Option<usize>) -> String {
    let named = named.map(|count| placeholders(first, count));
    named.map_or_else(
        || label.to_owned(),
        |named| format!("CASE WHEN {label} IN ({named}) THEN {label} ELSE '{OTHER}' END"),
    )
}
