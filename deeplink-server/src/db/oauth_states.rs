//! OAuth sign-ins in progress. Each state is used once, by the browser that started the sign-in.

use deeplink_core::secret::Token;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// A sign-in to store.
#[derive(Debug, Clone)]
pub(crate) struct NewState {
    pub(crate) state: Token,
    pub(crate) provider: &'static str,
    /// The value of the browser's cookie.
    pub(crate) browser: Token,
    /// The PKCE verifier, sealed.
    pub(crate) sealed: String,
    pub(crate) next: String,
    pub(crate) expires_at: Timestamp,
}

/// A sign-in whose callback arrived.
#[derive(Debug, FromRow)]
pub(crate) struct Begun {
    pub(crate) provider: String,
    pub(crate) browser_hash: String,
    pub(crate) sealed: String,
    pub(crate) next: String,
}

/// Stores a sign-in.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewState) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO oauth_states (hash, provider, browser_hash, sealed, next, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    execute!(db, SQL;
        new.state.hash(), new.provider, new.browser.hash(), &*new.sealed, &*new.next, new.expires_at.as_millis())?;
    Ok(())
}

/// Consumes a state by its hash. `None`: unknown or expired.
pub(crate) async fn consume(db: &mut Conn<'_>, hash: &str, now: Timestamp) -> Result<Option<Begun>, DbError> {
    const SQL: &str = "
        DELETE FROM oauth_states WHERE hash = $1 AND expires_at > $2
        RETURNING provider, browser_hash, sealed, next";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(hash).bind(now.as_millis()).fetch_optional(c).await)?)
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM oauth_states WHERE expires_at <= $1 AND hash IN (SELECT hash FROM oauth_states WHERE expires_at <= $1 LIMIT $2)";
