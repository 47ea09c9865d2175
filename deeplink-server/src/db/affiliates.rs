//! Affiliates. Their credentials are in `keys`. Deleted affiliates are kept, because links refer to them, but never returned.

use deeplink_core::affiliate::{AffiliateChange, AffiliateDetail, AffiliateName, AffiliateStatus, PartnerKey};
use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, execute, on};

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

/// Stores an affiliate; `false` if another one of the account has the partner key.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewAffiliate) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)
        VALUES ($1, $2, $3, $4, 'active', $5, $5) ON CONFLICT (tenant_id, partner_key) DO NOTHING";
    let rows = execute!(db, SQL;
        new.id.as_str(), new.tenant.as_str(), new.name.as_str(), new.partner_key.as_str(),
        new.created_at.as_millis())?;
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

/// The number of an account's affiliates.
pub(crate) async fn count(db: &mut Conn<'_>, tenant: &TenantId) -> Result<i64, DbError> {
    const SQL: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM affiliates WHERE tenant_id = $1 AND deleted_at IS NULL";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// An account's affiliates, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId, span: &Span) -> Result<Vec<AffiliateDetail>, DbError> {
    const SQL: &str = newest_first!(
        "SELECT id, name, partner_key, status, created_at, updated_at FROM affiliates
        WHERE tenant_id = $3 AND deleted_at IS NULL"
    );
    let rows: Vec<Row> = pages::read(db, SQL, AffiliateId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(AffiliateDetail::try_from).collect()
}

/// An account's affiliate by id.
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

/// Updates an affiliate and returns it.
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

/// Deletes an affiliate, frees its partner key and returns its name; `None` if there is none. Its credentials are
/// deleted separately, by `keys::delete_all_of`.
pub(crate) async fn delete(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &AffiliateId,
    now: Timestamp,
) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        UPDATE affiliates SET status = 'deleted', deleted_at = $3, updated_at = $3, partner_key = partner_key || ':' || id
        WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING name";
    Ok(on!(db, c => sqlx::query_scalar(SQL)
        .bind(tenant.as_str()).bind(id.as_str()).bind(now.as_millis()).fetch_optional(c).await)?)
}

/// Locks an affiliate's row until the write ends, so that counts are exact; `false` if there is none.
pub(crate) async fn lock(db: &mut Conn<'_>, tenant: &TenantId, id: &AffiliateId) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE affiliates SET status = status WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL";
    let rows = execute!(db, SQL; tenant.as_str(), id.as_str())?;
    Ok(rows == 1)
}

/// Whether the account has this affiliate.
pub(crate) async fn belongs(db: &mut Conn<'_>, tenant: &TenantId, affiliate: &AffiliateId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT id FROM affiliates WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL";
    let found: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(affiliate.as_str()).fetch_optional(c).await)?;
    Ok(found.is_some())
}
