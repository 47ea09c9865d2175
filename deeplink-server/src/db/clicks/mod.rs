//! The click log: appending to it, storing what spill files kept, and taking old clicks away.
//!
//! A click has no key of its own. What is stored exactly once is a batch: its first position, decided before COMMIT,
//! tells afterwards whether it is there ([`is_stored`]); for spill files it is the count that moves with their clicks
//! ([`claim_spilled`]).

mod batch;
mod hours;
mod sweep;

pub(crate) use batch::{NewText, insert, insert_texts};
pub(crate) use hours::{Folded, fold, hourly};
pub(crate) use sweep::{forget_spills, remove_clicks, remove_texts};

use super::{Conn, DbError, on};

/// The first 16 bytes of the SHA-256 of a text.
pub(crate) type Hash = [u8; 16];

/// Bits of a position below the milliseconds.
const COUNT_BITS: u32 = 20;

/// A click to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewClick {
    /// `links.position`.
    pub(crate) link: i64,
    /// Unix milliseconds.
    pub(crate) at: i64,
    pub(crate) kind: u8,
    pub(crate) platform: u8,
    pub(crate) agent: Option<Hash>,
    pub(crate) referer: Option<Hash>,
}

/// The place in the log before which nothing stands that happened at `millis` or later.
pub(crate) fn place(millis: i64) -> i64 {
    millis.clamp(0, i64::MAX >> (COUNT_BITS + 1)) << COUNT_BITS
}

/// Where the log ends, on SQLite: the one writer keeps it, so a batch needs no statement for it. 0 until it is read.
#[derive(Debug, Default)]
pub(crate) struct Head(std::sync::atomic::AtomicI64);

impl Head {
    /// The first of `count` new positions, all of them larger than `base`.
    async fn draw(&self, conn: &mut sqlx::SqliteConnection, base: i64, count: i64) -> Result<i64, DbError> {
        use std::sync::atomic::Ordering::Relaxed;
        // Jobs run one after the other, on the writer's task alone.
        let mut end = self.0.load(Relaxed);
        if end == 0 {
            const SQL: &str = "
                SELECT MAX(position) FROM
                    (SELECT MAX(position) AS position FROM clicks UNION ALL SELECT position FROM click_marks) AS places";
            end = sqlx::query_scalar(SQL).fetch_one(conn).await?;
        }
        let first = end.max(base) + 1;
        // A batch that is rolled back leaves a gap, which means nothing.
        self.0.store(first + count - 1, Relaxed);
        Ok(first)
    }
}

/// Whether a batch is in the log, by its first position. Waits for a transaction that may still be storing it.
pub(crate) async fn is_stored(db: &mut Conn<'_>, first: i64) -> Result<bool, DbError> {
    const SQL: &str = "SELECT COUNT(*) FROM clicks WHERE position = $1";
    let found: i64 = on!(db, c => sqlx::query_scalar(SQL).bind(first).fetch_one(c).await)?;
    Ok(found > 0)
}

/// Waits until no other transaction appends to the log, and lets none append before this one ends.
pub(crate) async fn hold_log(db: &mut Conn<'_>) -> Result<(), DbError> {
    const SQL: &str = "UPDATE click_marks SET position = position WHERE name = 'head'";
    on!(db, c => sqlx::query(SQL).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// What became of a claim on the next clicks of a spill file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// They are to be stored in this transaction.
    Yours,
    /// So many of the file's clicks are stored already.
    Stored(i64),
}

/// Notes that the clicks of spill file `number` from the `from`-th up to the `to`-th are stored with this transaction.
pub(crate) async fn claim_spilled(
    db: &mut Conn<'_>,
    number: i64,
    from: i64,
    to: i64,
    now: i64,
) -> Result<Claim, DbError> {
    const ADD: &str = "
        INSERT INTO click_spills (number, stored, created_at) VALUES ($1, 0, $2) ON CONFLICT (number) DO NOTHING";
    const MOVE: &str = "UPDATE click_spills SET stored = $3 WHERE number = $1 AND stored = $2";
    const READ: &str = "SELECT stored FROM click_spills WHERE number = $1";
    on!(db, c => sqlx::query(ADD).bind(number).bind(now).execute(c).await.map(|_| ()))?;
    let moved =
        on!(db, c => sqlx::query(MOVE).bind(number).bind(from).bind(to).execute(c).await.map(|d| d.rows_affected()))?;
    if moved == 1 {
        return Ok(Claim::Yours);
    }
    let stored = on!(db, c => sqlx::query_scalar(READ).bind(number).fetch_one(c).await)?;
    Ok(Claim::Stored(stored))
}
