//! How much of each segment of the nodes' journals is in the database. This state commits together with the clicks, so
//! that every click is stored and counted exactly once.

use super::super::{Conn, DbError, execute, on};

/// How much of a segment the database has; offsets are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalState {
    /// The offset up to which its clicks are in the log.
    pub(crate) loaded: u64,
    /// The offset up to which all clicks are counted.
    pub(crate) counted: u64,
    /// The offset up to which clicks on links up to `counted_link` are counted; 0 if no count was begun.
    pub(crate) counting: u64,
    pub(crate) counted_link: i64,
}

impl JournalState {
    /// The state of an unread segment whose first record is at `offset`.
    pub(crate) fn beginning(offset: u64) -> Self {
        Self { loaded: offset, counted: offset, counting: 0, counted_link: i64::MIN }
    }
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is to be stored in this transaction.
    Yours,
    /// It is already stored.
    Stored,
    /// The database has the segment up to another offset.
    Other,
}

fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

fn unsigned(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or(0)
}

/// How much of a segment the database has; `None` if nothing.
pub(crate) async fn journal_state(db: &mut Conn<'_>, segment: i64) -> Result<Option<JournalState>, DbError> {
    const SQL: &str = "SELECT loaded, counted, counting, counted_link FROM click_journals WHERE segment = $1";
    let found: Option<(i64, i64, i64, i64)> = on!(db, c => sqlx::query_as(SQL).bind(segment).fetch_optional(c).await)?;
    Ok(found.map(|(loaded, counted, counting, counted_link)| JournalState {
        loaded: unsigned(loaded),
        counted: unsigned(counted),
        counting: unsigned(counting),
        counted_link,
    }))
}

/// Records that this transaction stores a segment's clicks between two offsets. If the segment is not loaded exactly up
/// to the first one, returns the offset up to which it is.
pub(crate) async fn claim_piece(
    db: &mut Conn<'_>,
    segment: i64,
    beginning: JournalState,
    (from, to): (u64, u64),
    now: i64,
) -> Result<Option<u64>, DbError> {
    const MOVE: &str = "UPDATE click_journals SET loaded = $3, used_at = $4 WHERE segment = $1 AND loaded = $2";
    const ADD: &str = "
        INSERT INTO click_journals (segment, loaded, counted, counting, counted_link, used_at)
        VALUES ($1, $3, $2, 0, $4, $5) ON CONFLICT (segment) DO NOTHING";
    if execute!(db, MOVE; segment, signed(from), signed(to), now)? == 1 {
        return Ok(None);
    }
    if let Some(state) = journal_state(db, segment).await? {
        return Ok(Some(state.loaded));
    }
    if from != beginning.loaded {
        // A crash of the database has undone the earlier commits.
        return Ok(Some(0));
    }
    let added = execute!(db, ADD; segment, signed(from), signed(to), i64::MIN, now)?;
    Ok((added == 0).then_some(0))
}

/// The same for the counts.
pub(crate) async fn claim_count(
    db: &mut Conn<'_>,
    segment: i64,
    before: JournalState,
    after: JournalState,
) -> Result<Claim, DbError> {
    const MOVE: &str = "
        UPDATE click_journals SET counted = $5, counting = $6, counted_link = $7
        WHERE segment = $1 AND counted = $2 AND counting = $3 AND counted_link = $4";
    let moved = execute!(db, MOVE;
        segment,
        signed(before.counted), signed(before.counting), before.counted_link,
        signed(after.counted), signed(after.counting), after.counted_link)?;
    if moved == 1 {
        return Ok(Claim::Yours);
    }
    let is_stored =
        journal_state(db, segment).await?.is_some_and(|now| JournalState { loaded: now.loaded, ..after } == now);
    Ok(if is_stored { Claim::Stored } else { Claim::Other })
}

/// Records that this transaction counts a segment's clicks up to an offset.
pub(crate) async fn note_counted(db: &mut Conn<'_>, segment: i64, to: u64) -> Result<(), DbError> {
    const SQL: &str = "UPDATE click_journals SET counted = $2 WHERE segment = $1";
    execute!(db, SQL; segment, signed(to))?;
    Ok(())
}

/// Whether the database has this much of a segment; a crash may have undone some of it. This always changes a row, so that
/// the commit waits for the disk: SQLite writes and syncs nothing if no row changes.
pub(crate) async fn finish_journal(db: &mut Conn<'_>, segment: i64, state: JournalState) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE click_journals SET used_at = used_at + 1 WHERE segment = $1 AND loaded = $2 AND counted = $3";
    Ok(execute!(db, SQL; segment, signed(state.loaded), signed(state.counted))? == 1)
}

/// Records that a segment's file is gone, so that its state can be removed later.
pub(crate) async fn end_journal(db: &mut Conn<'_>, segment: i64) -> Result<(), DbError> {
    const SQL: &str = "UPDATE click_journals SET finished = 1 WHERE segment = $1";
    execute!(db, SQL; segment)?;
    Ok(())
}

/// Removes the state of a segment that was only in memory, and so will never be read again.
pub(crate) async fn forget_journal(db: &mut Conn<'_>, segment: i64) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM click_journals WHERE segment = $1";
    execute!(db, SQL; segment)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::db::tests::Scratch;
    use crate::shares::Share;

    async fn version(db: &mut Conn<'_>) -> i64 {
        on!(db, c => sqlx::query_scalar("PRAGMA data_version").fetch_one(c).await).expect("a number")
    }

    /// A segment is removed once this has committed, so that it must write: only a commit that writes is synced, and with it
    /// the clicks before it.
    #[tokio::test]
    async fn finishing_a_journal_writes() {
        let scratch = Scratch::new().await;
        if !scratch.db.is_sqlite() {
            // PostgreSQL writes a row that stays the same.
            return;
        }
        let row = "INSERT INTO click_journals (segment, loaded, counted, counting, counted_link, used_at)
            VALUES (7, 40, 40, 0, 0, 1)";
        scratch.execute(row.to_owned()).await;
        let mut reader = scratch.db.read().await.expect("a reader");
        let state = journal_state(&mut reader.conn(), 7).await.expect("a state").expect("a row");
        let before = version(&mut reader.conn()).await;
        let touched = scratch.db.write(Share::Clicks, state, |tx, state| finish_journal(tx, 7, *state).boxed());
        assert!(touched.await.expect("a write"));
        assert_ne!(version(&mut reader.conn()).await, before, "nothing was written");
    }
}
