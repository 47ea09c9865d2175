//! Secret keys: an account's own and its affiliates' credentials. Only their hashes are stored.

use deeplink_core::id::{AffiliateId, SecretKeyId, TenantId, UserId};
use deeplink_core::secret::SecretKey;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, on};
use crate::http::auth::{Actor, Caller};

/// A key to store; the key itself is in it only to be hashed.
#[derive(Debug, Clone)]
pub(crate) struct NewKey {
    pub(crate) id: SecretKeyId,
    pub(crate) tenant: TenantId,
    /// Set for an affiliate's credential.
    pub(crate) affiliate: Option<AffiliateId>,
    pub(crate) key: SecretKey,
    /// Who asked for it, where somebody did.
    pub(crate) created_by: Option<UserId>,
    pub(crate) created_at: Timestamp,
}

/// Stores a key.
pub(crate) async fn insert(db: &mut Conn<'_>, key: &NewKey) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO secret_keys (id, tenant_id, affiliate_id, key_hash, key_prefix, created_by, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    on!(db, c => sqlx::query(SQL)
        .bind(key.id.as_str()).bind(key.tenant.as_str()).bind(key.affiliate.as_ref().map(AffiliateId::as_str))
        .bind(key.key.hash()).bind(key.key.shown_prefix()).bind(key.created_by.as_ref().map(UserId::as_str))
        .bind(key.created_at.as_millis()).execute(c).await.map(|_| ()))?;
    Ok(())
}

#[derive(FromRow)]
struct Row {
    id: String,
    tenant_id: String,
    affiliate_id: Option<String>,
}

impl TryFrom<Row> for Caller {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("secret_keys", column, &row.id);
        Ok(Self {
            by: Actor::Key(row.id.parse().map_err(|_| corrupt("id"))?),
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            affiliate: row.affiliate_id.as_deref().map(str::parse).transpose().map_err(|_| corrupt("affiliate_id"))?,
        })
    }
}

/// Whom a key stands for, by its hash. The credentials of an affiliate that is not active stand for nobody.
pub(crate) async fn by_hash(db: &mut Conn<'_>, hash: &str) -> Result<Option<Caller>, DbError> {
    const SQL: &str = "
        SELECT k.id, k.tenant_id, k.affiliate_id FROM secret_keys k
        LEFT JOIN affiliates a ON a.id = k.affiliate_id
        WHERE k.key_hash = $1 AND (k.affiliate_id IS NULL OR a.status = 'active')";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(hash).fetch_optional(c).await)?;
    row.map(Caller::try_from).transpose()
}
