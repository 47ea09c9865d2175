//! Results of attempts, stored many at a time.

use std::fmt::Write;
use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};

use super::super::{Conn, DbError};
use super::DeliveryState;

/// The changes to a delivery after an attempt, or because there is nothing to send.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryUpdate {
    pub(crate) id: String,
    /// Attempts before this one: if two nodes made the same attempt, the first result is stored.
    pub(crate) expected_attempts: i64,
    /// Attempts including this one.
    pub(crate) tries: i64,
    pub(crate) state: DeliveryState,
    /// When the next attempt is due.
    pub(crate) due_at: i64,
    /// All attempts, as [`AttemptRecord`](super::AttemptRecord)s.
    pub(crate) log: String,
}

/// Rows of the prepared statements on SQLite; unused rows match nothing.
const SIZES: [usize; 3] = [4, 32, 256];
/// Maximum rows of one statement.
pub(crate) const MAX_UPDATES: usize = SIZES[SIZES.len() - 1];

/// The end of the statements. A delivery that was canceled while an attempt was in flight stays so, unless that attempt
/// succeeded.
fn update_from_new() -> String {
    let (pending, delivered) = (DeliveryState::Pending.code(), DeliveryState::Delivered.code());
    let canceled = DeliveryState::Canceled.code();
    format!(
        "UPDATE deliveries SET tries = new.tries, due_at = new.due_at, log = new.log,
            state = CASE WHEN deliveries.state = {canceled} AND new.state <> {delivered} THEN {canceled} ELSE new.state END
        FROM new WHERE deliveries.id = new.id AND deliveries.tries = new.before
            AND deliveries.state IN ({pending}, {canceled})"
    )
}

/// Stores at most [`MAX_UPDATES`] results, in the order of their ids, so that two nodes never wait for each other.
pub(crate) async fn apply_updates(db: &mut Conn<'_>, updates: &[DeliveryUpdate]) -> Result<(), DbError> {
    match db {
        Conn::Sqlite(c) => apply_on_sqlite(c, updates).await,
        Conn::Postgres(c) => apply_on_postgres(c, updates).await,
    }
}

async fn apply_on_sqlite(c: &mut SqliteConnection, updates: &[DeliveryUpdate]) -> Result<(), DbError> {
    // The parameters have no numbers, which SQLite would look up in a list.
    static SQL: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| {
        SIZES.map(|rows| {
            let mut sql = String::from("WITH new (id, before, tries, state, due_at, log) AS (VALUES ");
            for row in 0..rows {
                // Writing to a string does not fail.
                let _ = write!(sql, "{}(?,?,?,?,?,?)", if row == 0 { "" } else { "," });
            }
            sql + ") " + &update_from_new()
        })
    });
    for updates in updates.chunks(MAX_UPDATES) {
        let nth = SIZES.iter().position(|&size| updates.len() <= size).unwrap_or(SIZES.len() - 1);
        // Built above from constants only.
        let mut query = sqlx::query(AssertSqlSafe(SQL[nth].as_str()));
        for one in updates {
            query = query
                .bind(one.id.as_str())
                .bind(one.expected_attempts)
                .bind(one.tries)
                .bind(one.state.code())
                .bind(one.due_at)
                .bind(one.log.as_str());
        }
        query.execute(&mut *c).await?;
    }
    Ok(())
}

async fn apply_on_postgres(c: &mut PgConnection, updates: &[DeliveryUpdate]) -> Result<(), DbError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "WITH new (id, before, tries, state, due_at, log) AS (
                SELECT * FROM unnest($1::TEXT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::TEXT[])
            ) {}",
            update_from_new()
        )
    });
    let column = |value: fn(&DeliveryUpdate) -> i64| updates.iter().map(value).collect::<Vec<_>>();
    // Built above from constants only.
    sqlx::query(AssertSqlSafe(SQL.as_str()))
        .bind(updates.iter().map(|one| one.id.as_str()).collect::<Vec<_>>())
        .bind(column(|one| one.expected_attempts))
        .bind(column(|one| one.tries))
        .bind(column(|one| one.state.code()))
        .bind(column(|one| one.due_at))
        .bind(updates.iter().map(|one| one.log.as_str()).collect::<Vec<_>>())
        .execute(c)
        .await?;
    Ok(())
}
