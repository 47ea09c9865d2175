//! Replies stored by `Idempotency-Key`: the key is claimed at the start of a transaction, the reply is stored before COMMIT.

use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// Retention of replies.
pub(crate) const RETENTION_MILLIS: i64 = 24 * 3_600_000;

/// A reply as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

/// The outcome of claiming a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The first request with the key: do the work.
    First,
    /// A repeated request, with its stored reply.
    Again(Reply),
    /// A different request with the same key.
    Other,
}

#[derive(FromRow)]
struct Row {
    request: String,
    status: Option<i64>,
    location: Option<String>,
    body: Option<String>,
    expires_at: i64,
}

impl Row {
    /// What a request with the key gets.
    fn judged(self, id: &str, request: &str) -> Result<Claim, DbError> {
        if self.request != request {
            return Ok(Claim::Other);
        }
        let status = self.status.and_then(|status| u16::try_from(status).ok());
        match (status, self.body) {
            (Some(status), Some(body)) => Ok(Claim::Again(Reply { status, location: self.location, body })),
            _ => Err(DbError::corrupt("replies", "body", id)),
        }
    }
}

/// Looks up the reply to an earlier request with a key, without claiming it.
pub(crate) async fn find(db: &mut Conn<'_>, id: &str, request: &str, now: Timestamp) -> Result<Claim, DbError> {
    const SQL: &str =
        "SELECT request, status, location, body, expires_at FROM replies WHERE id = $1 AND expires_at > $2";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(id).bind(now.as_millis()).fetch_optional(c).await)?;
    row.map_or(Ok(Claim::First), |row| row.judged(id, request))
}

/// Claims a key for a request. On PostgreSQL a concurrent claim waits here until the first transaction ends.
pub(crate) async fn claim(db: &mut Conn<'_>, id: &str, request: &str, now: Timestamp) -> Result<Claim, DbError> {
    const INSERT: &str =
        "INSERT INTO replies (id, request, expires_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
    const SELECT: &str = "SELECT request, status, location, body, expires_at FROM replies WHERE id = $1";
    const RENEW: &str = "UPDATE replies SET request = $2, expires_at = $3, status = NULL, location = NULL, body = NULL
        WHERE id = $1 AND expires_at <= $4";
    let until = now.plus_millis(RETENTION_MILLIS).as_millis();
    let inserted = execute!(db, INSERT; id, request, until)?;
    if inserted == 1 {
        return Ok(Claim::First);
    }
    let row: Option<Row> = on!(db, c => sqlx::query_as(SELECT).bind(id).fetch_optional(c).await)?;
    match row {
        Some(row) if row.expires_at > now.as_millis() => row.judged(id, request),
        _ => {
            let renewed = execute!(db, RENEW; id, request, until, now.as_millis())?;
            // Another request has renewed it, or a sweep has deleted it: the write is retried.
            if renewed == 1 { Ok(Claim::First) } else { Err(DbError::Deadlock("an expired reply was renewed".into())) }
        }
    }
}

/// Stores the reply of a claimed key.
pub(crate) async fn keep(db: &mut Conn<'_>, id: &str, reply: &Reply) -> Result<(), DbError> {
    const SQL: &str = "UPDATE replies SET status = $2, location = $3, body = $4 WHERE id = $1";
    execute!(db, SQL; id, i64::from(reply.status), reply.location.as_deref(), &reply.body)?;
    Ok(())
}

/// Releases a claimed key, for refusals that are committed with their changes.
pub(crate) async fn release(db: &mut Conn<'_>, id: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM replies WHERE id = $1";
    execute!(db, SQL; id)?;
    Ok(())
}

/// The prefix of a body that is stored sealed, because it contains a secret. No JSON starts like this. `sealed` skips it.
pub(crate) const SEALED: &str = "sealed ";

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM replies WHERE expires_at <= $1 AND id IN (SELECT id FROM replies WHERE expires_at <= $1 LIMIT $2)";
