//! Publishable keys of apps and web pages. Only their hashes are stored.

use deeplink_core::domain::DomainName;
use deeplink_core::id::{PublishableKeyId, TenantId};
use deeplink_core::publishable_key::PublishableKeyDetail;
use deeplink_core::secret::PublishableKey;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, execute, on};
use crate::caller::{Actor, Caller};

/// A key to store; only its hash is stored.
#[derive(Debug, Clone)]
pub(crate) struct NewPublishableKey {
    pub(crate) id: PublishableKeyId,
    pub(crate) tenant: TenantId,
    pub(crate) domain: DomainName,
    pub(crate) key: PublishableKey,
    pub(crate) created_at: Timestamp,
}

/// Stores a key.
pub(crate) async fn insert(db: &mut Conn<'_>, key: &NewPublishableKey) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO publishable_keys (id, tenant_id, domain, key_hash, key_prefix, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    execute!(db, SQL;
        key.id.as_str(), key.tenant.as_str(), key.domain.as_str(), key.key.hash(), key.key.shown_prefix(),
        key.created_at.as_millis())?;
    Ok(())
}

/// The number of an account's keys.
pub(crate) async fn count(db: &mut Conn<'_>, tenant: &TenantId) -> Result<i64, DbError> {
    const SQL: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM publishable_keys WHERE tenant_id = $1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

#[derive(FromRow)]
struct Row {
    id: String,
    key_prefix: String,
    domain: String,
    created_at: i64,
}

impl TryFrom<Row> for PublishableKeyDetail {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        Ok(Self {
            id: row.id.parse().map_err(|_| DbError::corrupt("publishable_keys", "id", &row.id))?,
            key_prefix: row.key_prefix,
            domain: row.domain,
            created_at: Timestamp::from_millis(row.created_at),
        })
    }
}

/// An account's keys, newest first.
pub(crate) async fn list(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    span: &Span,
) -> Result<Vec<PublishableKeyDetail>, DbError> {
    const SQL: &str =
        newest_first!("SELECT id, key_prefix, domain, created_at FROM publishable_keys WHERE tenant_id = $3");
    let rows: Vec<Row> = pages::read(db, SQL, PublishableKeyId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(PublishableKeyDetail::try_from).collect()
}

/// One of an account's keys.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &PublishableKeyId,
) -> Result<Option<PublishableKeyDetail>, DbError> {
    const SQL: &str = "
        SELECT id, key_prefix, domain, created_at FROM publishable_keys WHERE tenant_id = $1 AND id = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(PublishableKeyDetail::try_from).transpose()
}

/// The caller that a key authenticates, by its hash. `None` while its domain is not verified by its account.
pub(crate) async fn by_hash(db: &mut Conn<'_>, hash: &str) -> Result<Option<Caller>, DbError> {
    const SQL: &str = "
        SELECT k.id, k.tenant_id, t.suspended_at IS NOT NULL FROM publishable_keys k
        JOIN tenants t ON t.id = k.tenant_id
        JOIN domains d ON d.tenant_id = k.tenant_id AND d.domain = k.domain
        WHERE k.key_hash = $1 AND d.verified_at IS NOT NULL";
    let row: Option<(String, String, bool)> = on!(db, c => sqlx::query_as(SQL).bind(hash).fetch_optional(c).await)?;
    row.map(|(id, tenant, is_suspended)| {
        let corrupt = |column| DbError::corrupt("publishable_keys", column, &id);
        Ok(Caller {
            by: Actor::Page(id.parse().map_err(|_| corrupt("id"))?),
            tenant: tenant.parse().map_err(|_| corrupt("tenant_id"))?,
            affiliate: None,
            is_suspended,
        })
    })
    .transpose()
}

/// Deletes a key and returns its hash and its domain; `None` if the account has none with this id.
pub(crate) async fn delete(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &PublishableKeyId,
) -> Result<Option<(String, String)>, DbError> {
    const SQL: &str = "DELETE FROM publishable_keys WHERE tenant_id = $1 AND id = $2 RETURNING key_hash, domain";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?)
}
