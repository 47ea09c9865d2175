//! Secret keys: an account's own and its affiliates' credentials. Only their hashes are stored.

use deeplink_core::id::{AffiliateId, SecretKeyId, TenantId, UserId};
use deeplink_core::secret::SecretKey;
use deeplink_core::secret_key::SecretKeyDetail;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, execute, on};
use crate::caller::{Actor, Caller};
use crate::uses::USE_MILLIS;

/// A key to store; only its hash is stored.
#[derive(Debug, Clone)]
pub(crate) struct NewKey {
    pub(crate) id: SecretKeyId,
    pub(crate) tenant: TenantId,
    /// Set for an affiliate's credential.
    pub(crate) affiliate: Option<AffiliateId>,
    pub(crate) key: SecretKey,
    /// The user who created it, if any.
    pub(crate) created_by: Option<UserId>,
    pub(crate) created_at: Timestamp,
}

/// Stores a key.
pub(crate) async fn insert(db: &mut Conn<'_>, key: &NewKey) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO secret_keys (id, tenant_id, affiliate_id, key_hash, key_prefix, created_by, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    execute!(db, SQL;
        key.id.as_str(), key.tenant.as_str(), key.affiliate.as_ref().map(AffiliateId::as_str), key.key.hash(),
        key.key.shown_prefix(), key.created_by.as_ref().map(UserId::as_str), key.created_at.as_millis())?;
    Ok(())
}

/// The caller that a key authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyUse {
    pub(crate) caller: Caller,
    pub(crate) last_used_at: Option<Timestamp>,
}

#[derive(FromRow)]
struct Row {
    id: String,
    tenant_id: String,
    affiliate_id: Option<String>,
    last_used_at: Option<i64>,
    is_suspended: bool,
}

impl TryFrom<Row> for Caller {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("secret_keys", column, &row.id);
        Ok(Self {
            by: Actor::Key(row.id.parse().map_err(|_| corrupt("id"))?),
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            affiliate: row.affiliate_id.as_deref().map(str::parse).transpose().map_err(|_| corrupt("affiliate_id"))?,
            is_suspended: row.is_suspended,
        })
    }
}

/// The caller that a key authenticates, by its hash. Credentials of inactive affiliates do not authenticate.
pub(crate) async fn by_hash(db: &mut Conn<'_>, hash: &str) -> Result<Option<KeyUse>, DbError> {
    const SQL: &str = "
        SELECT k.id, k.tenant_id, k.affiliate_id, k.last_used_at, t.suspended_at IS NOT NULL AS is_suspended
        FROM secret_keys k JOIN tenants t ON t.id = k.tenant_id
        LEFT JOIN affiliates a ON a.id = k.affiliate_id
        WHERE k.key_hash = $1 AND (k.affiliate_id IS NULL OR a.status = 'active')";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(hash).fetch_optional(c).await)?;
    let known = |row: Row| {
        let last_used_at = row.last_used_at.map(Timestamp::from_millis);
        Caller::try_from(row).map(|caller| KeyUse { caller, last_used_at })
    };
    row.map(known).transpose()
}

/// Whether a key exists.
pub(crate) async fn exists(db: &mut Conn<'_>, tenant: &TenantId, id: &SecretKeyId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM secret_keys WHERE tenant_id = $1 AND id = $2)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_one(c).await)?)
}

/// The number of an account's own keys, or of an affiliate's.
pub(crate) async fn count(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: Option<&AffiliateId>,
) -> Result<i64, DbError> {
    const SQL: &str = "
        SELECT CAST(COUNT(*) AS BIGINT) FROM secret_keys
        WHERE tenant_id = $1 AND affiliate_id IS NOT DISTINCT FROM $2";
    Ok(on!(db, c => sqlx::query_scalar(SQL)
        .bind(tenant.as_str()).bind(affiliate.map(AffiliateId::as_str)).fetch_one(c).await)?)
}

#[derive(FromRow)]
struct ListRow {
    id: String,
    key_prefix: String,
    created_by: Option<String>,
    created_at: i64,
    last_used_at: Option<i64>,
}

impl TryFrom<ListRow> for SecretKeyDetail {
    type Error = DbError;

    fn try_from(row: ListRow) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("secret_keys", column, &row.id);
        Ok(Self {
            created_by: row.created_by.as_deref().map(str::parse).transpose().map_err(|_| corrupt("created_by"))?,
            created_at: Timestamp::from_millis(row.created_at),
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            key_prefix: row.key_prefix,
        })
    }
}

/// An account's own keys, or an affiliate's, newest first.
pub(crate) async fn list(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: Option<&AffiliateId>,
    span: &Span,
) -> Result<Vec<SecretKeyDetail>, DbError> {
    const OWN: &str = newest_first!(
        "SELECT id, key_prefix, created_by, created_at, last_used_at FROM secret_keys
        WHERE tenant_id = $3 AND affiliate_id IS NULL"
    );
    const OF_AFFILIATE: &str = newest_first!(
        "SELECT id, key_prefix, created_by, created_at, last_used_at FROM secret_keys
        WHERE tenant_id = $3 AND affiliate_id = $4"
    );
    let (tenant, prefix) = (tenant.as_str(), SecretKeyId::PREFIX);
    let rows: Vec<ListRow> = match affiliate {
        None => pages::read(db, OWN, prefix, &[tenant], span).await?,
        Some(id) => pages::read(db, OF_AFFILIATE, prefix, &[tenant, id.as_str()], span).await?,
    };
    rows.into_iter().map(SecretKeyDetail::try_from).collect()
}

/// One of an account's own keys, or of an affiliate's.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: Option<&AffiliateId>,
    id: &SecretKeyId,
) -> Result<Option<SecretKeyDetail>, DbError> {
    const SQL: &str = "
        SELECT id, key_prefix, created_by, created_at, last_used_at FROM secret_keys
        WHERE tenant_id = $1 AND affiliate_id IS NOT DISTINCT FROM $2 AND id = $3";
    let row: Option<ListRow> = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(affiliate.map(AffiliateId::as_str)).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(SecretKeyDetail::try_from).transpose()
}

/// Deletes one of an account's own keys, or of an affiliate's, and returns its hash and how it is shown; `None` if there
/// is none.
pub(crate) async fn delete(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: Option<&AffiliateId>,
    id: &SecretKeyId,
) -> Result<Option<(String, String)>, DbError> {
    const SQL: &str = "
        DELETE FROM secret_keys WHERE tenant_id = $1 AND affiliate_id IS NOT DISTINCT FROM $2 AND id = $3
        RETURNING key_hash, key_prefix";
    Ok(on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(affiliate.map(AffiliateId::as_str)).bind(id.as_str()).fetch_optional(c).await)?)
}

/// Deletes all keys of an affiliate and returns their hashes.
pub(crate) async fn delete_all_of(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: &AffiliateId,
) -> Result<Vec<String>, DbError> {
    const SQL: &str = "DELETE FROM secret_keys WHERE tenant_id = $1 AND affiliate_id = $2 RETURNING key_hash";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(affiliate.as_str()).fetch_all(c).await)?)
}

/// The hashes of an affiliate's keys.
pub(crate) async fn hashes_of(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: &AffiliateId,
) -> Result<Vec<String>, DbError> {
    const SQL: &str = "SELECT key_hash FROM secret_keys WHERE tenant_id = $1 AND affiliate_id = $2";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(affiliate.as_str()).fetch_all(c).await)?)
}

/// Stores when a key was used, unless a time close to it is stored already.
pub(crate) async fn used(db: &mut Conn<'_>, id: &SecretKeyId, at: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE secret_keys SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)";
    let before = at.plus_millis(-USE_MILLIS);
    execute!(db, SQL; id.as_str(), at.as_millis(), before.as_millis())?;
    Ok(())
}
