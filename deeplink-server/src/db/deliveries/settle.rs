//! What became of attempts, stored many at a time.

use std::fmt::Write;
use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};

use super::super::{Conn, DbError};

/// What became of an attempt.
#[derive(Debug, Clone)]
pub(crate) struct Settled {
    pub(crate) id: String,
    /// Attempts before this one: it is noted once, whoever else may have tried.
    pub(crate) before: i64,
    /// Attempts with this one.
    pub(crate) tries: i64,
    /// 0 when there is to be another attempt, 1 when it arrived, 2 when it is given up, 3 when there is nothing to send.
    pub(crate) state: i64,
    /// When the next attempt is due.
    pub(crate) due_at: i64,
    /// All attempts.
    pub(crate) log: String,
}

/// Rows of the prepared statements on SQLite; rows that stay empty find nothing.
const SIZES: [usize; 3] = [4, 32, 256];
/// Most rows of one statement.
pub(crate) const MOST: usize = SIZES[SIZES.len() - 1];

/// What is stored. A delivery that was given up while its attempt was under way stays so, unless it arrived.
const CHANGE: &str = "
    UPDATE deliveries SET tries = new.tries, due_at = new.due_at, log = new.log,
        state = CASE WHEN deliveries.state = 3 AND new.state <> 1 THEN 3 ELSE new.state END
    FROM new WHERE deliveries.id = new.id AND deliveries.tries = new.before AND deliveries.state IN (0, 3)";

/// Stores what became of at most [`MOST`] attempts, in the order of their ids, so that two nodes never wait for each other.
pub(crate) async fn settle(db: &mut Conn<'_>, settled: &[Settled]) -> Result<(), DbError> {
    match db {
        Conn::Sqlite(c) => settle_on_sqlite(c, settled).await,
        Conn::Postgres(c) => settle_on_postgres(c, settled).await,
    }
}

async fn settle_on_sqlite(c: &mut SqliteConnection, settled: &[Settled]) -> Result<(), DbError> {
    // The parameters have no numbers, which SQLite would look up in a list.
    static SQL: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| {
        SIZES.map(|rows| {
            let mut sql = String::from("WITH new (id, before, tries, state, due_at, log) AS (VALUES ");
            for row in 0..rows {
                // Writing to a string does not fail.
                let _ = write!(sql, "{}(?,?,?,?,?,?)", if row == 0 { "" } else { "," });
            }
            sql + ")" + CHANGE
        })
    });
    for settled in settled.chunks(MOST) {
        let nth = SIZES.iter().position(|&size| settled.len() <= size).unwrap_or(SIZES.len() - 1);
        // Made above from constants alone.
        let mut query = sqlx::query(AssertSqlSafe(SQL[nth].as_str()));
        for one in settled {
            query = query
                .bind(one.id.as_str())
                .bind(one.before)
                .bind(one.tries)
                .bind(one.state)
                .bind(one.due_at)
                .bind(one.log.as_str());
        }
        query.execute(&mut *c).await?;
    }
    Ok(())
}

async fn settle_on_postgres(c: &mut PgConnection, settled: &[Settled]) -> Result<(), DbError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "WITH new (id, before, tries, state, due_at, log) AS (
                SELECT * FROM unnest($1::TEXT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::TEXT[])
            ) {CHANGE}"
        )
    });
    let column = |value: fn(&Settled) -> i64| settled.iter().map(value).collect::<Vec<_>>();
    // Made above from constants alone.
    sqlx::query(AssertSqlSafe(SQL.as_str()))
        .bind(settled.iter().map(|one| one.id.as_str()).collect::<Vec<_>>())
        .bind(column(|one| one.before))
        .bind(column(|one| one.tries))
        .bind(column(|one| one.state))
        .bind(column(|one| one.due_at))
        .bind(settled.iter().map(|one| one.log.as_str()).collect::<Vec<_>>())
        .execute(c)
        .await?;
    Ok(())
}
