//! Every column that holds values sealed with the master keys: counted by key, and resealed, from this one list.
//!
//! A sealed value is the id of its key (8 hex digits), a dot and text; `vault` makes and opens it. A column that is missing
//! here would be lost when its key is removed, so tests look for sealed values everywhere else.

use super::{Conn, DbError, execute, on, vault_check};
use crate::config::is_key_id;

/// Values of one column that are read at once.
pub(crate) const PAGE: usize = 64;

/// A column with sealed values.
#[derive(Debug)]
pub(crate) struct SealedColumn {
    /// The table; values are bound to its name.
    pub(crate) table: &'static str,
    /// The column.
    pub(crate) name: &'static str,
    /// What one value and several values are called.
    words: [&'static str; 2],
    count: &'static str,
    page: &'static str,
    replace: &'static str,
}

/// Declares a column: `row` is the column that its values are bound to, `begin` the position of their first character,
/// and `only` selects them among other values.
macro_rules! column {
    ($table:literal, $name:literal, row $row:literal, begin $begin:literal, only $only:literal, $one:literal, $many:literal) => {
        SealedColumn {
            table: $table,
            name: $name,
            words: [$one, $many],
            count: concat!(
                "SELECT CASE WHEN substr(",
                $name,
                ", ",
                $begin,
                " + 8, 1) = '.' THEN substr(",
                $name,
                ", ",
                $begin,
                ", 8) END, CAST(COUNT(*) AS BIGINT) FROM ",
                $table,
                " WHERE ",
                $only,
                " GROUP BY 1 ORDER BY 1"
            ),
            page: concat!(
                "SELECT ",
                $row,
                ", substr(",
                $name,
                ", ",
                $begin,
                ") FROM ",
                $table,
                " WHERE ",
                $only,
                " AND substr(",
                $name,
                ", ",
                $begin,
                ", 9) = $1 AND ",
                $row,
                " > $2 ORDER BY ",
                $row,
                " LIMIT $3"
            ),
            // Text before a value is kept. A value that was changed since it was read is not replaced.
            replace: concat!(
                "UPDATE ",
                $table,
                " SET ",
                $name,
                " = substr(",
                $name,
                ", 1, ",
                $begin,
                " - 1) || $3 WHERE ",
                $row,
                " = $1 AND ",
                $only,
                " AND substr(",
                $name,
                ", ",
                $begin,
                ") = $2"
            ),
        }
    };
}

/// All columns with sealed values.
#[rustfmt::skip]
pub(crate) const COLUMNS: [SealedColumn; 11] = [
    column!("service", "value", row "name", begin "1", only "name = 'vault_check'", "check value", "check values"),
    column!("mails", "sealed", row "id", begin "1", only "TRUE", "queued email", "queued emails"),
    column!("certificates", "sealed_key", row "id", begin "1", only "TRUE", "certificate key", "certificate keys"),
    column!("acme_accounts", "sealed", row "directory", begin "1", only "TRUE", "ACME account", "ACME accounts"),
    column!("oauth_states", "sealed", row "hash", begin "1", only "TRUE", "sign-in in progress", "sign-ins in progress"),
    // The prefix is `replies::SEALED`.
    column!("replies", "body", row "id", begin "8", only "substr(body, 1, 7) = 'sealed '", "stored response", "stored responses"),
    column!("sources", "sealed", row "id", begin "1", only "TRUE", "source URL", "source URLs"),
    column!("payments", "payment", row "id", begin "1", only "payment IS NOT NULL", "payment to settle", "payments to settle"),
    column!("payments", "body", row "id", begin "1", only "body IS NOT NULL", "paid response", "paid responses"),
    column!("webhooks", "sealed", row "id", begin "1", only "TRUE", "webhook secret", "webhook secrets"),
    column!("webhooks", "sealed_before", row "id", begin "1", only "sealed_before IS NOT NULL", "previous webhook secret", "previous webhook secrets"),
];

impl SealedColumn {
    #[cfg(test)]
    pub(super) fn count_sql(&self) -> &'static str {
        self.count
    }

    #[cfg(test)]
    pub(super) fn page_sql(&self) -> &'static str {
        self.page
    }

    /// A number of its values in words.
    pub(crate) fn in_words(&self, values: i64) -> String {
        format!("{values} {}", self.words[usize::from(values != 1)])
    }
}

/// The sealed values of a database.
#[derive(Debug)]
pub(crate) struct SealedValues {
    /// The check value of the master keys, if a node has stored it.
    pub(crate) check: Option<String>,
    /// All of them, by column and key; `None` while migrations are pending, because tables may not exist yet.
    pub(crate) counts: Option<Vec<KeyCount>>,
}

impl SealedValues {
    /// Those of a database in which nothing is sealed.
    pub(crate) const NONE: Self = Self { check: None, counts: Some(Vec::new()) };
}

/// How many values of a column are sealed with one key.
#[derive(Debug)]
pub(crate) struct KeyCount {
    pub(crate) column: &'static SealedColumn,
    /// The key's id; `None` for values that do not name one, which no key opens.
    pub(crate) key: Option<String>,
    pub(crate) values: i64,
}

/// Reads the check value and counts the sealed values of every column by key.
pub(crate) async fn survey(db: &mut Conn<'_>) -> Result<SealedValues, DbError> {
    Ok(SealedValues { check: vault_check::find(db).await?, counts: Some(count(db).await?) })
}

async fn count(db: &mut Conn<'_>) -> Result<Vec<KeyCount>, DbError> {
    let mut counts = Vec::new();
    for column in &COLUMNS {
        let rows: Vec<(Option<String>, i64)> = on!(db, c => sqlx::query_as(column.count).fetch_all(c).await)?;
        for (key, values) in rows {
            counts.push(KeyCount { column, key: key.filter(|key| is_key_id(key)), values });
        }
    }
    Ok(counts)
}

/// Some values of a column that are sealed with a key, after a row and in the order of rows, each with the row that it
/// is bound to.
pub(crate) async fn page(
    db: &mut Conn<'_>,
    column: &SealedColumn,
    key: &str,
    after: &str,
) -> Result<Vec<(String, String)>, DbError> {
    let (begin, limit) = (format!("{key}."), i64::try_from(PAGE).unwrap_or(i64::MAX));
    Ok(on!(db, c => sqlx::query_as(column.page).bind(&begin).bind(after).bind(limit).fetch_all(c).await)?)
}

/// Replaces a value by the same one resealed; `false` if it was changed or deleted since it was read.
pub(crate) async fn replace(
    db: &mut Conn<'_>,
    column: &SealedColumn,
    row: &str,
    old: &str,
    new: &str,
) -> Result<bool, DbError> {
    let rows = execute!(db, column.replace; row, old, new)?;
    Ok(rows > 0)
}
