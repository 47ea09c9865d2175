//! Partners. Their credentials are in `keys`. A deleted one stays, because links name it, and is seen nowhere.

use deeplink_core::affiliate::{AffiliateChange, AffiliateDetail, AffiliateName, AffiliateStatus, PartnerKey};
use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, on};

/// An affiliate to store.
#[derive(Debug, Clone)]
pub(crate) struct NewAffiliate {
    pub(crate) id: AffiliateId,
    pub(crate) tenant: TenantId,
    pub(crate) name: AffiliateName,
    pub(crate) partner_key: PartnerKey,
    pub(crate) created_at: Timestamp,
}

impl NewAffiliate {
    /// The affiliate as it is shown.
    pub(crate) fn detail(&self) -> AffiliateDetail {
        AffiliateDetail {
            id: self.id.clone(),
            name: self.name.as_str().to_owned(),
            partner_key: self.partner_key.to_string(),
            status: AffiliateStatus::Active,
            created_at: self.created_at,
            updated_at: self.created_at,
        }
    }
}

/// Stores an affiliate; `false` when another of the account has its partner key.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewAffiliate) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)
        VALUES ($1, $2, $3, $4, 'active', $5, $5) ON CONFLICT (tenant_id, partner_key) DO NOTHING";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(new.id.as_str()).bind(new.tenant.as_str()).bind(new.name.as_str()).bind(new.partner_key.as_str())
        .bind(new.created_at.as_millis()).execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

#[derive(FromRow)]
struct Row {
    id: String,
    name: String,
    partner_key: String,
    status: String,
    created_at: i64,
    updated_at: i64,
}

impl TryFrom<Row> for AffiliateDetail {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        Ok(Self {
            id: row.id.parse().map_err(|_| DbError::corrupt("affiliates", "id", &row.id))?,
            name: row.name,
            partner_key: row.partner_key,
            status: AffiliateStatus::from(row.status.as_str()),
            created_at: Timestamp::from_millis(row.created_at),
            updated_at: Timestamp::from_millis(row.updated_at),
        })
    }
}

/// An account's affiliates, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<AffiliateDetail>, DbError> {
    const SQL: &str = "
        SELECT id, name, partner_key, status, created_at, updated_at FROM affiliates
        WHERE tenant_id = $1 AND deleted_at IS NULL ORDER BY created_at DESC, id DESC";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    rows.into_iter().map(AffiliateDetail::try_from).collect()
}

/// An account's affiliate of this id.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &AffiliateId,
) -> Result<Option<AffiliateDetail>, DbError> {
    const SQL: &str = "
        SELECT id, name, partner_key, status, created_at, updated_at FROM affiliates
        WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(AffiliateDetail::try_from).transpose()
}

/// Changes an affiliate and gives it as it is then.
pub(crate) async fn update(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &AffiliateId,
    change: &AffiliateChange,
    now: Timestamp,
) -> Result<Option<AffiliateDetail>, DbError> {
    const SQL: &str = "
        UPDATE affiliates SET name = COALESCE($3, name), status = COALESCE($4, status), updated_at = $5
        WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL
        RETURNING id, name, partner_key, status, created_at, updated_at";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(id.as_str()).bind(change.name.as_ref().map(AffiliateName::as_str))
        .bind(change.status.as_ref().map(AffiliateStatus::as_str)).bind(now.as_millis()).fetch_optional(c).await)?;
    row.map(AffiliateDetail::try_from).transpose()
}

/// Deletes an affiliate, whose partner key is free from then on; `false` when it is not there. Its credentials go with it,
/// by `keys::delete_all_of`.
pub(crate) async fn delete(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &AffiliateId,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE affiliates SET status = 'deleted', deleted_at = $3, updated_at = $3, partner_key = partner_key || ':' || id
        WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(tenant.as_str()).bind(id.as_str()).bind(now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Holds an affiliate's row until the write ends, so that what is counted of it is exact; `false` when it is not there.
pub(crate) async fn hold(db: &mut Conn<'_>, tenant: &TenantId, id: &AffiliateId) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE affiliates SET status = status WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL";
    let rows = on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(id.as_str())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Whether an affiliate is the account's.
pub(crate) async fn belongs(db: &mut Conn<'_>, tenant: &TenantId, affiliate: &AffiliateId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT id FROM affiliates WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL";
    let found: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(affiliate.as_str()).fetch_optional(c).await)?;
    Ok(found.is_some())
}
