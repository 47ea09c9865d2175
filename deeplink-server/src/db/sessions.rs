//! Sessions of signed-in users. Only the hashes of their tokens are stored.

use std::sync::Arc;

use deeplink_core::id::{SessionId, TenantId, UserId};
use deeplink_core::secret::Token;
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};
use crate::caller::SignedIn;

/// A session to store; only the token's hash is stored.
#[derive(Debug, Clone)]
pub(crate) struct NewSession {
    pub(crate) id: SessionId,
    pub(crate) token: Token,
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Stores a session.
pub(crate) async fn insert(db: &mut Conn<'_>, session: &NewSession) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO sessions (id, token_hash, tenant_id, user_id, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    execute!(db, SQL;
        session.id.as_str(), session.token.hash(), session.tenant.as_str(), session.user.as_str(),
        session.created_at.as_millis(), session.expires_at.as_millis())?;
    Ok(())
}

#[derive(FromRow)]
struct Row {
    id: String,
    user_id: String,
    tenant_id: String,
    email: String,
    verified: bool,
    is_owner: bool,
    name: Option<String>,
    opened_at: i64,
    deletes_at: Option<i64>,
    time_zone: Option<String>,
    is_suspended: bool,
}

impl TryFrom<Row> for SignedIn {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("sessions", column, &row.id);
        Ok(Self {
            session: row.id.parse().map_err(|_| corrupt("id"))?,
            user: row.user_id.parse().map_err(|_| corrupt("user_id"))?,
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            email: row.email,
            verified: row.verified,
            is_owner: row.is_owner,
            tenant_name: row.name,
            tenant_created_at: Timestamp::from_millis(row.opened_at),
            tenant_deletes_at: row.deletes_at.map(Timestamp::from_millis),
            zone: row.time_zone.and_then(|name| Zone::named(&name)).unwrap_or_default(),
            is_suspended: row.is_suspended,
        })
    }
}

/// The user of a session, by the token's hash.
pub(crate) async fn by_hash(db: &mut Conn<'_>, hash: &str, now: Timestamp) -> Result<Option<Arc<SignedIn>>, DbError> {
    const SQL: &str = "
        SELECT s.id, s.user_id, s.tenant_id, u.email, u.verified, u.is_owner, t.name, t.created_at AS opened_at,
            t.deletes_at, t.time_zone, t.suspended_at IS NOT NULL AS is_suspended
        FROM sessions s JOIN users u ON u.id = s.user_id JOIN tenants t ON t.id = s.tenant_id
        WHERE s.token_hash = $1 AND s.expires_at > $2";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(hash).bind(now.as_millis()).fetch_optional(c).await)?;
    row.map(|row| SignedIn::try_from(row).map(Arc::new)).transpose()
}

/// Whether a session has not ended.
pub(crate) async fn is_live(db: &mut Conn<'_>, id: &SessionId, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = $1 AND expires_at > $2)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(id.as_str()).bind(now.as_millis()).fetch_one(c).await)?)
}

/// Ends a session; `false` if it had ended already.
pub(crate) async fn delete(db: &mut Conn<'_>, id: &SessionId) -> Result<bool, DbError> {
    const SQL: &str = "DELETE FROM sessions WHERE id = $1";
    let rows = execute!(db, SQL; id.as_str())?;
    Ok(rows == 1)
}

/// Ends the session of a token, by its hash.
pub(crate) async fn delete_by_hash(db: &mut Conn<'_>, hash: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM sessions WHERE token_hash = $1";
    execute!(db, SQL; hash)?;
    Ok(())
}

/// Ends all sessions of a user.
pub(crate) async fn delete_of(db: &mut Conn<'_>, user: &UserId) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM sessions WHERE user_id = $1";
    execute!(db, SQL; user.as_str())?;
    Ok(())
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM sessions WHERE expires_at <= $1 AND id IN (SELECT id FROM sessions WHERE expires_at <= $1 LIMIT $2)";
