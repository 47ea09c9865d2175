//! Codes that were mailed to confirm a new secret key. One that was tried too often stays until its end, so that its end
//! bounds how often can be guessed.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use sqlx::FromRow;

use super::{Conn, DbError, on};

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

/// Stores a request in the place of one that has ended. Until when one is pending, if one is: then nothing is stored.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewRequest<'_>) -> Result<Option<Timestamp>, DbError> {
    const SQL: &str = "
        INSERT INTO key_requests (tenant_id, email, user_id, code_mac, attempts, expires_at)
        VALUES ($1, $2, $3, $4, 0, $5)
        ON CONFLICT (tenant_id, email) DO UPDATE
        SET user_id = excluded.user_id, code_mac = excluded.code_mac, attempts = 0, expires_at = excluded.expires_at
        WHERE key_requests.expires_at <= $6";
    const PENDING: &str = "SELECT expires_at FROM key_requests WHERE tenant_id = $1 AND email = $2";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(new.tenant.as_str()).bind(new.email.as_str()).bind(new.user.as_str()).bind(new.code_mac)
        .bind(new.expires_at.as_millis()).bind(new.now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    if rows == 1 {
        return Ok(None);
    }
    let until: i64 = on!(db, c => sqlx::query_scalar(PENDING)
        .bind(new.tenant.as_str()).bind(new.email.as_str()).fetch_one(c).await)?;
    Ok(Some(Timestamp::from_millis(until)))
}

/// A request whose code somebody tries.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    /// How often it has been tried, this time included.
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

/// Counts a try, and gives what it is about. `None`: no code is pending.
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

/// Removes a request whose code was right.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, email: &Email) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM key_requests WHERE tenant_id = $1 AND email = $2";
    on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(email.as_str()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Takes away some rows whose time is over; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM key_requests WHERE expires_at <= $1 AND (tenant_id, email) IN
        (SELECT tenant_id, email FROM key_requests WHERE expires_at <= $1 LIMIT $2)";
