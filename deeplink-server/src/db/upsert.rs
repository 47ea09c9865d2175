//! Storing many rows at once, which add to those that are there. The statements differ between the databases, because what is
//! cheapest differs: on SQLite rows of parameters, on PostgreSQL arrays.

use sqlx::AssertSqlSafe;

use super::{Conn, DbError};

/// Rows of the prepared statements on SQLite. A batch takes the smallest that holds it; rows that stay empty cost
/// nothing but the reset of their parameters.
const SIZES: [usize; 4] = [16, 64, 256, 1_024];

/// One statement for each of [`SIZES`]. Its first parameter is the number of rows that count. The parameters have no
/// numbers: SQLite looks a numbered one up in a list, which for thousands of them takes longer than storing the rows.
pub(super) struct SizedStatements([String; SIZES.len()]);

impl SizedStatements {
    /// A statement that inserts rows with this number of columns; `then` says what to do on a conflict.
    pub(super) fn new(into: &str, columns: usize, then: &str) -> Self {
        let row = format!("({})", vec!["?"; columns].join(","));
        Self(SIZES.map(|rows| {
            let values = vec![row.as_str(); rows].join(",");
            format!(
                "WITH rows (count) AS (SELECT ?) INSERT INTO {into} SELECT * FROM (VALUES {values}) \
                 WHERE true LIMIT (SELECT count FROM rows) {then}"
            )
        }))
    }

    /// The smallest statement that takes this number of rows.
    pub(super) fn for_rows(&'static self, rows: usize) -> AssertSqlSafe<&'static str> {
        let nth = SIZES.iter().position(|&size| rows <= size).unwrap_or(SIZES.len() - 1);
        // Made above from constants alone.
        AssertSqlSafe(self.0[nth].as_str())
    }
}

/// Most rows of one statement.
pub(super) const MAX_ROWS: usize = SIZES[SIZES.len() - 1];

pub(super) fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The values of a column, one for each row.
pub(super) enum Column<'a> {
    Numbers(Vec<i64>),
    Texts(Vec<&'a str>),
}

impl Column<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }
}

/// The statements that store rows of a table.
pub(super) struct Upsert {
    sqlite: SizedStatements,
    postgres: String,
}

impl Upsert {
    /// Stores rows of these columns, each with its type on PostgreSQL; `then` says what to do on a conflict.
    pub(super) fn new(table: &str, columns: &[(&str, &str)], then: &str) -> Self {
        let names: Vec<&str> = columns.iter().map(|column| column.0).collect();
        let into = format!("{table} ({})", names.join(", "));
        let arrays = columns.iter().enumerate().map(|(at, (_, kind))| format!("${}::{kind}[]", at + 1));
        let arrays = arrays.collect::<Vec<_>>().join(", ");
        Self {
            sqlite: SizedStatements::new(&into, columns.len(), then),
            postgres: format!("INSERT INTO {into} SELECT * FROM unnest({arrays}) {then}"),
        }
    }

    /// Stores rows, given by their columns. They come in the order of their keys, each once, because several writes may wait
    /// for each other at them.
    pub(super) async fn store(&'static self, db: &mut Conn<'_>, columns: &[Column<'_>]) -> Result<(), DbError> {
        let rows = columns.first().map_or(0, Column::rows);
        match db {
            _ if rows == 0 => {}
            Conn::Sqlite(c) => {
                for start in (0..rows).step_by(MAX_ROWS) {
                    let end = rows.min(start + MAX_ROWS);
                    let mut query = sqlx::query(self.sqlite.for_rows(end - start)).bind(count(end - start));
                    for row in start..end {
                        for column in columns {
                            query = match column {
                                Column::Numbers(numbers) => query.bind(numbers[row]),
                                Column::Texts(texts) => query.bind(texts[row]),
                            };
                        }
                    }
                    query.execute(&mut **c).await?;
                }
            }
            Conn::Postgres(c) => {
                // Made above from constants alone.
                let mut query = sqlx::query(AssertSqlSafe(self.postgres.as_str()));
                for column in columns {
                    query = match column {
                        Column::Numbers(numbers) => query.bind(numbers),
                        Column::Texts(texts) => query.bind(texts),
                    };
                }
                query.execute(&mut **c).await?;
            }
        }
        Ok(())
    }
}
