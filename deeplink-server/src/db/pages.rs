//! Pages of lists in the order of ids, newest first; ids sort by creation time. Rows added or deleted meanwhile move no
//! other row to another page.

use sqlx::FromRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::{Conn, DbError, on};

/// Which rows of a list are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Only rows older than the one with this id.
    pub(crate) before: Option<String>,
    /// At most this many.
    pub(crate) rows: i64,
}

impl Span {
    /// The newest rows.
    pub(crate) fn newest(rows: i64) -> Self {
        Self { before: None, rows }
    }
}

/// A statement that reads a page: what it selects, and from where. `$1` and `$2` are bound to the page.
macro_rules! newest_first {
    ($select:expr) => {
        concat!($select, " AND id < $1 ORDER BY id DESC LIMIT $2")
    };
}
pub(super) use newest_first;

/// Reads a page with a statement of [`newest_first`]. `prefix` is the ids' prefix, and `owner` is bound from `$3` on.
pub(super) async fn read<R>(
    db: &mut Conn<'_>,
    sql: &'static str,
    prefix: &str,
    owner: &[&str],
    span: &Span,
) -> Result<Vec<R>, DbError>
where
    R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin,
{
    // No id contains this digit; it sorts after all of theirs.
    let end = format!("{prefix}_g");
    let before = span.before.as_deref().unwrap_or(&end);
    Ok(on!(db, c => {
        let page = sqlx::query_as(sql).bind(before).bind(span.rows);
        owner.iter().fold(page, |page, id| page.bind(*id)).fetch_all(c).await
    })?)
}
