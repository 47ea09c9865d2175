//! Single-use tokens sent by mail; only their hashes are stored.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::secret::Token;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use sqlx::FromRow;

use super::people::Entered;
use super::{Conn, DbError, execute, on, users};

/// The only purpose for which a token is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Confirms the address of a sign-up.
    Signup,
    /// Accepts an invitation into a team.
    Invite,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Signup => "signup",
            Self::Invite => "invite",
        }
    }
}

/// Stores a token of a user.
pub(crate) async fn insert(
    db: &mut Conn<'_>,
    token: &Token,
    purpose: Purpose,
    tenant: &TenantId,
    user: &UserId,
    expires_at: Timestamp,
) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO tokens (hash, purpose, tenant_id, user_id, expires_at) VALUES ($1, $2, $3, $4, $5)";
    execute!(db, SQL; token.hash(), purpose.as_str(), tenant.as_str(), user.as_str(), expires_at.as_millis())?;
    Ok(())
}

#[derive(FromRow)]
struct Row {
    user_id: String,
    tenant_id: String,
}

/// The account of a token, without consuming it.
pub(crate) async fn tenant_of(
    db: &mut Conn<'_>,
    hash: &str,
    purpose: Purpose,
    now: Timestamp,
) -> Result<Option<TenantId>, DbError> {
    const SQL: &str = "SELECT tenant_id FROM tokens WHERE hash = $1 AND purpose = $2 AND expires_at > $3";
    let id: Option<String> = on!(db, c => sqlx::query_scalar(SQL)
        .bind(hash).bind(purpose.as_str()).bind(now.as_millis()).fetch_optional(c).await)?;
    id.map(|id| id.parse().map_err(|_| DbError::corrupt("tokens", "tenant_id", hash))).transpose()
}

/// Consumes a token and returns its user. Of concurrent callers one succeeds. All users with the email address are
/// locked until the write ends.
pub(crate) async fn consume(
    db: &mut Conn<'_>,
    hash: &str,
    purpose: Purpose,
    now: Timestamp,
) -> Result<Option<Entered>, DbError> {
    const FIND: &str = "
        SELECT u.email FROM tokens t JOIN users u ON u.id = t.user_id
        WHERE t.hash = $1 AND t.purpose = $2 AND t.expires_at > $3";
    const USE: &str = "DELETE FROM tokens WHERE hash = $1 RETURNING user_id, tenant_id";
    let corrupt = |column| DbError::corrupt("tokens", column, hash);
    let email: Option<String> = on!(db, c => sqlx::query_scalar(FIND)
        .bind(hash).bind(purpose.as_str()).bind(now.as_millis()).fetch_optional(c).await)?;
    let Some(email) = email else { return Ok(None) };
    users::lock_address(db, &email.parse().map_err(|_| corrupt("user_id"))?).await?;
    let row: Option<Row> = on!(db, c => sqlx::query_as(USE).bind(hash).fetch_optional(c).await)?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Entered {
        tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
        user: row.user_id.parse().map_err(|_| corrupt("user_id"))?,
    }))
}

/// Deletes a user's tokens of one purpose.
pub(crate) async fn end(db: &mut Conn<'_>, user: &UserId, purpose: Purpose) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM tokens WHERE user_id = $1 AND purpose = $2";
    execute!(db, SQL; user.as_str(), purpose.as_str())?;
    Ok(())
}

/// Deletes the tokens of unverified sign-ups and invitations of an address after it was verified elsewhere.
pub(crate) async fn lapse(db: &mut Conn<'_>, email: &Email) -> Result<(), DbError> {
    const SQL: &str = "
        DELETE FROM tokens WHERE user_id IN (SELECT id FROM users WHERE email = $1 AND NOT verified)";
    execute!(db, SQL; email.as_str())?;
    Ok(())
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM tokens WHERE expires_at <= $1 AND hash IN (SELECT hash FROM tokens WHERE expires_at <= $1 LIMIT $2)";
