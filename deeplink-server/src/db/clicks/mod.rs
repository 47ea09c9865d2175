//! The click log: appends clicks, counts them, and deletes old ones.
//!
//! A click has no key of its own. It is stored exactly once because the offset in the node's journal moves in the same
//! transaction (`journals`).

mod add;
mod batch;
mod counts;
mod cut;
mod earlier;
mod hosts;
mod journals;
mod links;
mod sweep;

use std::sync::atomic::{AtomicI64, Ordering};

use sqlx::SqliteConnection;

pub(crate) use add::{Group, add_counts};
pub(crate) use batch::{NewText, insert, insert_texts, known_texts};
pub(crate) use counts::{By, Kinds, Scope, count, count_by_host};
pub(crate) use earlier::{StoredBatch, count_earlier, is_stored, next_uncounted};
pub(crate) use hosts::OTHER;
pub(crate) use journals::{
    Claim, JournalState, claim_count, claim_piece, end_journal, finish_journal, forget_journal, journal_state,
    note_counted,
};
#[cfg(test)]
pub(crate) use links::candidates;
pub(crate) use links::{ClickedLink, most_clicked};
pub(crate) use sweep::{forget_journals, remove_clicks, remove_clicks_of_plan, remove_facets, remove_texts};
pub(super) use sweep::{keeps_longer, past_due_since};

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
    /// [`UserAgent::code`](deeplink_core::visitor::UserAgent::code); 0 if unknown.
    pub(crate) agent_code: u32,
    /// [`Country::code`](deeplink_core::visitor::Country::code).
    pub(crate) country: u16,
    pub(crate) agent: Option<Hash>,
    pub(crate) referer: Option<Hash>,
}

/// Where clicks go in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendPosition {
    /// No position is smaller.
    pub(crate) after: i64,
    /// How many positions stay free before the first: a random number below [`MAX_GAP`].
    pub(crate) gap: i64,
}

/// Limit of [`AppendPosition::gap`]: a second has room for thousands of batches before positions run ahead of the
/// clock.
pub(crate) const MAX_GAP: u64 = 1 << 16;

/// The position before which the log has no click from `millis` or later.
pub(crate) fn position_at(millis: i64) -> i64 {
    millis.clamp(0, i64::MAX >> (COUNT_BITS + 1)) << COUNT_BITS
}

/// The end of the log on SQLite: the only writer keeps it in memory, so a batch needs no statement for it.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// 0 until it is read.
    end: AtomicI64,
}

impl Head {
    /// The last position that was drawn; 0 before the first.
    pub(crate) fn end(&self) -> i64 {
        self.end.load(Ordering::Relaxed)
    }

    /// The first of `count` new positions.
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
        // A batch that is rolled back leaves a gap, which is harmless.
        self.end.store(before + count, Ordering::Relaxed);
        Ok(before + 1)
    }
}

/// The last position of the log: committed rows are at or before it, later ones after it. For writes as well as reads.
pub(crate) async fn head(db: &mut Conn<'_>) -> Result<i64, DbError> {
    // On SQLite, the mark is only the position of the last event that is not a click.
    const SQL: &str = "
        SELECT MAX(position) FROM (
            SELECT MAX(position) AS position FROM clicks
            UNION ALL SELECT position FROM click_marks WHERE name = 'head') AS places";
    Ok(on!(db, c => sqlx::query_scalar(SQL).fetch_one(c).await)?)
}
