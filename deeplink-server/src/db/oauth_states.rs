//! Sign-ins that an identity provider was asked for. Each is used once, by the browser that began it.

use deeplink_core::secret::Token;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, on};

/// A sign-in that begins.
#[derive(Debug, Clone)]
pub(crate) struct NewState {
    pub(crate) state: Token,
    pub(crate) provider: &'static str,
    /// What the browser's cookie holds.
    pub(crate) browser: Token,
    /// The verifier of the challenge that the provider was told, sealed.
    pub(crate) sealed: String,
    pub(crate) next: String,
    pub(crate) expires_at: Timestamp,
}

/// A sign-in whose answer came.
#[derive(Debug, FromRow)]
pub(crate) struct Begun {
    pub(crate) provider: String,
    pub(crate) browser_hash: String,
    pub(crate) sealed: String,
    pub(crate) next: String,
}

/// Stores a sign-in that begins.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewState) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO oauth_states (hash, provider, browser_hash, sealed, next, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    on!(db, c => sqlx::query(SQL)
        .bind(new.state.hash()).bind(new.provider).bind(new.browser.hash()).bind(&*new.sealed).bind(&*new.next)
        .bind(new.expires_at.as_millis()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Uses a state up, by its hash. `None`: there is none, or not in time.
pub(crate) async fn consume(db: &mut Conn<'_>, hash: &str, now: Timestamp) -> Result<Option<Begun>, DbError> {
    const SQL: &str = "
        DELETE FROM oauth_states WHERE hash = $1 AND expires_at > $2
        RETURNING provider, browser_hash, sealed, next";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(hash).bind(now.as_millis()).fetch_optional(c).await)?)
}

/// Takes away some rows whose time is over; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM oauth_states WHERE expires_at <= $1 AND hash IN (SELECT hash FROM oauth_states WHERE expires_at <= $1 LIMIT $2)";
