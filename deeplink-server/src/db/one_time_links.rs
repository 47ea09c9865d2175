//! One-time links that the operator prints, to sign a person in to an account without an email. Only the hashes of their
//! tokens are stored.

use deeplink_core::id::TenantId;
use deeplink_core::secret::{Random, Token};
use deeplink_core::time::Timestamp;

use super::{Conn, DbError, execute, on};

/// How long a link works.
pub(crate) const LINK_HOURS: i64 = 24;

/// A link to store; only the token's hash is stored.
#[derive(Debug, Clone)]
pub(crate) struct OneTimeLink {
    pub(crate) token: Token,
    pub(crate) tenant: TenantId,
    pub(crate) expires_at: Timestamp,
}

impl OneTimeLink {
    /// Generates the token.
    pub(crate) fn draw(tenant: TenantId, now: Timestamp, random: &mut Random) -> Self {
        Self { token: Token::generate(random), tenant, expires_at: now.plus_millis(LINK_HOURS * 3_600_000) }
    }
}

/// Stores a link.
pub(crate) async fn insert(db: &mut Conn<'_>, link: &OneTimeLink) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO one_time_links (hash, tenant_id, expires_at) VALUES ($1, $2, $3)";
    execute!(db, SQL; link.token.hash(), link.tenant.as_str(), link.expires_at.as_millis())?;
    Ok(())
}

/// The account of a link, without consuming it.
pub(crate) async fn tenant_of(db: &mut Conn<'_>, hash: &str, now: Timestamp) -> Result<Option<TenantId>, DbError> {
    const SQL: &str = "SELECT tenant_id FROM one_time_links WHERE hash = $1 AND expires_at > $2";
    let id: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(hash).bind(now.as_millis()).fetch_optional(c).await)?;
    id.map(|id| id.parse().map_err(|_| DbError::corrupt("one_time_links", "tenant_id", hash))).transpose()
}

/// Consumes a link. Of concurrent callers one gets `true`.
pub(crate) async fn consume(db: &mut Conn<'_>, hash: &str, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "DELETE FROM one_time_links WHERE hash = $1 AND expires_at > $2";
    Ok(execute!(db, SQL; hash, now.as_millis())? == 1)
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM one_time_links
    WHERE expires_at <= $1 AND hash IN (SELECT hash FROM one_time_links WHERE expires_at <= $1 LIMIT $2)";
