//! The click log: appending to it, storing what spill files kept, and taking old clicks away.
//!
//! A click has no key of its own. What is stored exactly once is a batch: its [`Mark`], decided before COMMIT, tells
//! afterwards whether it is there ([`is_stored`]); for spill files it is the count that moves with their clicks
//! ([`claim_spilled`]).

mod batch;
mod counts;
mod cut;
mod fold;
mod hosts;
mod sweep;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use sqlx::SqliteConnection;

pub(crate) use batch::{NewText, fits_statement, insert, insert_by_statement, insert_texts};
pub(crate) use counts::{By, Kinds, Scope, count, count_by_host};
pub(crate) use fold::{Batch, Group, fold_gathered, next_fold, store_fold};
pub(crate) use hosts::OTHER;
pub(crate) use sweep::{forget_spills, remove_clicks, remove_clicks_of_plan, remove_facets, remove_texts};

use super::{Conn, DbError, execute, on};

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

/// How a batch is recognised in the log: by where and what its first click is.
///
/// A position is not given out twice, unless a transaction that took it is rolled back. Then the next batch takes
/// another one, because of the gap that each batch leaves at random, and because the clock has moved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    pub(crate) position: i64,
    pub(crate) link: i64,
    pub(crate) at: i64,
}

/// Where clicks go in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendPosition {
    /// No position is smaller.
    pub(crate) after: i64,
    /// How many positions stay free before the first: a random number below [`MAX_GAP`].
    pub(crate) gap: i64,
}

/// Some thousands of batches fit into a second in which the clock stands still, before positions run ahead of it.
pub(crate) const MAX_GAP: u64 = 1 << 16;

/// The position before which the log has nothing that happened at `millis` or later.
pub(crate) fn position_at(millis: i64) -> i64 {
    millis.clamp(0, i64::MAX >> (COUNT_BITS + 1)) << COUNT_BITS
}

/// Where the log ends, on SQLite: the one writer keeps it, so a batch needs no statement for it.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// 0 until it is read.
    end: AtomicI64,
    /// How often positions were drawn, for whatever became of them.
    draws: AtomicU64,
}

impl Head {
    /// The last position that was drawn; 0 before the first.
    pub(crate) fn end(&self) -> i64 {
        self.end.load(Ordering::Relaxed)
    }

    /// How often positions were drawn. Two batches whose draws follow each other have nothing between them in the log.
    pub(crate) fn draws(&self) -> u64 {
        self.draws.load(Ordering::Relaxed)
    }

    /// The first of `count` new positions of clicks.
    async fn draw(&self, conn: &mut SqliteConnection, to: AppendPosition, count: i64) -> Result<i64, sqlx::Error> {
        self.draws.fetch_add(1, Ordering::Relaxed);
        self.advance(conn, to, count).await
    }

    /// The first of `count` new positions, which need not be clicks.
    pub(super) async fn advance(
        &self,
        conn: &mut SqliteConnection,
        to: AppendPosition,
        count: i64,
    ) -> Result<i64, sqlx::Error> {
        // Jobs run one after the other, on the writer's task alone.
        let mut end = self.end();
        if end == 0 {
            const SQL: &str = "
                SELECT MAX(position) FROM
                    (SELECT MAX(position) AS position FROM clicks UNION ALL SELECT position FROM click_marks) AS places";
            end = sqlx::query_scalar(SQL).fetch_one(conn).await?;
        }
        let before = end.max(to.after) + to.gap;
        // A batch that is rolled back leaves a gap, which means nothing.
        self.end.store(before + count, Ordering::Relaxed);
        Ok(before + 1)
    }
}

/// The last position of the log: what is committed is at or before it, what comes later after it. In a write as well as in
/// a read.
pub(crate) async fn head(db: &mut Conn<'_>) -> Result<i64, DbError> {
    // On SQLite the mark is only the position of the last event that is no click.
    const SQL: &str = "
        SELECT MAX(position) FROM (
            SELECT MAX(position) AS position FROM clicks
            UNION ALL SELECT position FROM click_marks WHERE name = 'head') AS places";
    Ok(on!(db, c => sqlx::query_scalar(SQL).fetch_one(c).await)?)
}

/// Whether a batch is in the log. See [`lock_log`].
pub(crate) async fn is_stored(db: &mut Conn<'_>, batch: Mark) -> Result<bool, DbError> {
    const SQL: &str = "SELECT COUNT(*) FROM clicks WHERE position = $1 AND link = $2 AND at = $3";
    let found: i64 = on!(db, c => sqlx::query_scalar(SQL)
        .bind(batch.position).bind(batch.link).bind(batch.at)
        .fetch_one(c).await)?;
    Ok(found > 0)
}

/// Waits until no other transaction appends to the log, and lets none append before this one ends.
pub(crate) async fn lock_log(db: &mut Conn<'_>) -> Result<(), DbError> {
    const SQL: &str = "UPDATE click_marks SET position = position WHERE name = 'head'";
    execute!(db, SQL)?;
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
    execute!(db, ADD; number, now)?;
    let moved = execute!(db, MOVE; number, from, to)?;
    if moved == 1 {
        return Ok(Claim::Yours);
    }
    let stored = on!(db, c => sqlx::query_scalar(READ).bind(number).fetch_one(c).await)?;
    Ok(Claim::Stored(stored))
}
