//! Confirmation codes mailed for new secret keys. A code that was tried too often is kept until it expires, so that the
//! number of guesses is limited.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// A request to store.
#[derive(Debug, Clone)]
pub(crate) struct NewRequest<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) email: &'a Email,
    pub(crate) user: &'a UserId,
    /// The code's keyed hash.
    pub(crate) code_mac: &'a str,
    pub(crate) now: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Stores a request, replacing an expired one. If one is pending, stores nothing and returns its expiry.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewRequest<'_>) -> Result<Option<Timestamp>, DbError> {
    const SQL: &str = "
        INSERT INTO key_requests (tenant_id, email, user_id, code_mac, attempts, expires_at)
        VALUES ($1, $2, $3, $4, 0, $5)
        ON CONFLICT (tenant_id, email) DO UPDATE
        SET user_id = excluded.user_id, code_mac = excluded.code_mac, attempts = 0, expires_at = excluded.expires_at
        WHERE key_requests.expires_at <= $6";
    const PENDING: &str = "SELECT expires_at FROM key_requests WHERE tenant_id = $1 AND email = $2";
    let rows = execute!(db, SQL;
        new.tenant.as_str(), new.email.as_str(), new.user.as_str(), new.code_mac, new.expires_at.as_millis(),
        new.now.as_millis())?;
    if rows == 1 {
        return Ok(None);
    }
    let until: i64 = on!(db, c => sqlx::query_scalar(PENDING)
        .bind(new.tenant.as_str()).bind(new.email.as_str()).fetch_one(c).await)?;
    Ok(Some(Timestamp::from_millis(until)))
}

/// A request after an attempt.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    /// Number of attempts, including this one.
    pub(crate) attempts: i64,
    pub(crate) user: UserId,
    pub(crate) code_mac: String,
    pub(crate) expires_at: Timestamp,
}

#[derive(FromRow)]
struct Row {
    attempts: i64,
    user_id: String,
    code_mac: String,
    expires_at: i64,
}

/// Counts an attempt and returns the request. `None`: no code is pending.
pub(crate) async fn attempt(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    email: &Email,
    now: Timestamp,
) -> Result<Option<Tried>, DbError> {
    const SQL: &str = "
        UPDATE key_requests SET attempts = attempts + 1 WHERE tenant_id = $1 AND email = $2 AND expires_at > $3
        RETURNING attempts, user_id, code_mac, expires_at";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(email.as_str()).bind(now.as_millis()).fetch_optional(c).await)?;
    row.map(|row| {
        Ok(Tried {
            user: row.user_id.parse().map_err(|_| DbError::corrupt("key_requests", "user_id", &row.user_id))?,
            attempts: row.attempts,
            code_mac: row.code_mac,
            expires_at: Timestamp::from_millis(row.expires_at),
        })
    })
    .transpose()
}

/// Deletes a request after its code was confirmed.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, email: &Email) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM key_requests WHERE tenant_id = $1 AND email = $2";
    execute!(db, SQL; tenant.as_str(), email.as_str())?;
    Ok(())
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM key_requests WHERE expires_at <= $1 AND (tenant_id, email) IN
        (SELECT tenant_id, email FROM key_requests WHERE expires_at <= $1 LIMIT $2)";
