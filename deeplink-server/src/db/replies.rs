//! Replies kept for `Idempotency-Key`: claimed first, in the transaction of the effect, and filled before it commits.

use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, on};

/// How long a reply is kept.
pub(crate) const KEPT_MILLIS: i64 = 24 * 3_600_000;

/// A reply as it went out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

/// What a key means when a request comes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The first request with it: do the work.
    First,
    /// The same request again: this was the reply.
    Again(Reply),
    /// Another request under the same key.
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

/// Claims a key for a request. On PostgreSQL a second claim waits here until the first transaction ends.
pub(crate) async fn claim(db: &mut Conn<'_>, id: &str, request: &str, now: Timestamp) -> Result<Claim, DbError> {
    const INSERT: &str =
        "INSERT INTO replies (id, request, expires_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
    const SELECT: &str = "SELECT request, status, location, body, expires_at FROM replies WHERE id = $1";
    const RENEW: &str = "UPDATE replies SET request = $2, expires_at = $3, status = NULL, location = NULL, body = NULL
        WHERE id = $1 AND expires_at <= $4";
    let until = now.plus_millis(KEPT_MILLIS).as_millis();
    let inserted = on!(db, c => sqlx::query(INSERT).bind(id).bind(request).bind(until)
        .execute(c).await.map(|done| done.rows_affected()))?;
    if inserted == 1 {
        return Ok(Claim::First);
    }
    let row: Option<Row> = on!(db, c => sqlx::query_as(SELECT).bind(id).fetch_optional(c).await)?;
    match row {
        Some(row) if row.expires_at > now.as_millis() => {
            if row.request != request {
                return Ok(Claim::Other);
            }
            let status = row.status.and_then(|status| u16::try_from(status).ok());
            match (status, row.body) {
                (Some(status), Some(body)) => Ok(Claim::Again(Reply { status, location: row.location, body })),
                _ => Err(DbError::corrupt("replies", "body", id)),
            }
        }
        _ => {
            let renewed = on!(db, c => sqlx::query(RENEW).bind(id).bind(request).bind(until).bind(now.as_millis())
                .execute(c).await.map(|done| done.rows_affected()))?;
            // Another request renewed it, or a sweep took it away meanwhile: the write begins again and sees that.
            if renewed == 1 { Ok(Claim::First) } else { Err(DbError::Deadlock("an expired reply was renewed".into())) }
        }
    }
}

/// Keeps the reply of a claimed key.
pub(crate) async fn keep(db: &mut Conn<'_>, id: &str, reply: &Reply) -> Result<(), DbError> {
    const SQL: &str = "UPDATE replies SET status = $2, location = $3, body = $4 WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(id).bind(i64::from(reply.status)).bind(reply.location.as_deref())
        .bind(&reply.body).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Gives a claimed key back, where a refusal is committed with what it changed.
pub(crate) async fn release(db: &mut Conn<'_>, id: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM replies WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(id).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// What stands before a body that is kept sealed, because it shows a secret. No JSON begins like this.
pub(crate) const SEALED: &str = "sealed ";

/// Every sealed reply's id and what is sealed in it, so that a new server key can take over.
pub(crate) async fn all_sealed(db: &mut Conn<'_>) -> Result<Vec<(String, String)>, DbError> {
    const SQL: &str = "SELECT id, substr(body, 8) FROM replies WHERE substr(body, 1, 7) = 'sealed ' ORDER BY id";
    Ok(on!(db, c => sqlx::query_as(SQL).fetch_all(c).await)?)
}

/// Replaces what is sealed in a reply.
pub(crate) async fn reseal(db: &mut Conn<'_>, id: &str, sealed: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE replies SET body = 'sealed ' || $2 WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(id).bind(sealed).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Takes away some rows whose time is over; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM replies WHERE expires_at <= $1 AND id IN (SELECT id FROM replies WHERE expires_at <= $1 LIMIT $2)";
