//! Unused magic links; only the hashes of their tokens are stored.

use deeplink_core::secret::Token;
use deeplink_core::session::NextPath;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// A magic link to store; only the token's hash is stored.
#[derive(Debug, Clone)]
pub(crate) struct SignIn {
    pub(crate) token: Token,
    pub(crate) email: Email,
    /// The page to open afterwards, if any.
    pub(crate) next: Option<NextPath>,
    pub(crate) expires_at: Timestamp,
}

/// Stores a magic link.
pub(crate) async fn insert(db: &mut Conn<'_>, sign_in: &SignIn) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO sign_ins (hash, email, next, expires_at) VALUES ($1, $2, $3, $4)";
    execute!(db, SQL;
        sign_in.token.hash(), sign_in.email.as_str(), sign_in.next.as_ref().map(NextPath::as_str),
        sign_in.expires_at.as_millis())?;
    Ok(())
}

/// Whether a magic link still works, without consuming it.
pub(crate) async fn exists(db: &mut Conn<'_>, hash: &str, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "SELECT hash FROM sign_ins WHERE hash = $1 AND expires_at > $2";
    let found: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(hash).bind(now.as_millis()).fetch_optional(c).await)?;
    Ok(found.is_some())
}

#[derive(FromRow)]
struct Row {
    email: String,
    next: Option<String>,
}

/// Consumes a magic link and returns the email address and the page to open. Of concurrent callers one succeeds.
pub(crate) async fn consume(
    db: &mut Conn<'_>,
    hash: &str,
    now: Timestamp,
) -> Result<Option<(Email, Option<NextPath>)>, DbError> {
    const SQL: &str = "DELETE FROM sign_ins WHERE hash = $1 AND expires_at > $2 RETURNING email, next";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(hash).bind(now.as_millis()).fetch_optional(c).await)?;
    let Some(row) = row else { return Ok(None) };
    let email = row.email.parse().map_err(|_| DbError::corrupt("sign_ins", "email", hash))?;
    Ok(Some((email, row.next.as_deref().map(NextPath::read))))
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM sign_ins WHERE expires_at <= $1 AND hash IN (SELECT hash FROM sign_ins WHERE expires_at <= $1 LIMIT $2)";
