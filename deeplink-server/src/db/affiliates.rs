//! Partners. Their credentials are in `keys`.

use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::time::Timestamp;

use super::{Conn, DbError, on};

/// A partner to store, active from the start.
#[derive(Debug, Clone)]
pub(crate) struct NewAffiliate {
    pub(crate) id: AffiliateId,
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    /// The account's own name for the partner.
    pub(crate) partner_key: String,
    pub(crate) created_at: Timestamp,
}

/// Whether an affiliate's credentials work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AffiliateStatus {
    /// They do.
    Active,
    /// They do not.
    Disabled,
}

impl AffiliateStatus {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }
}

/// Stores a partner. `false`: the account already has one with this partner key.
pub(crate) async fn insert(db: &mut Conn<'_>, affiliate: &NewAffiliate) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $6)
        ON CONFLICT (tenant_id, partner_key) DO NOTHING";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(affiliate.id.as_str()).bind(affiliate.tenant.as_str()).bind(affiliate.name.as_str())
        .bind(affiliate.partner_key.as_str()).bind(AffiliateStatus::Active.as_str())
        .bind(affiliate.created_at.as_millis()).execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Sets an affiliate's status. `false`: the account has no such affiliate.
pub(crate) async fn set_status(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: &AffiliateId,
    status: AffiliateStatus,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "UPDATE affiliates SET status = $3, updated_at = $4 WHERE tenant_id = $1 AND id = $2";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(tenant.as_str()).bind(affiliate.as_str()).bind(status.as_str()).bind(now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Whether an affiliate is the account's.
pub(crate) async fn belongs(db: &mut Conn<'_>, tenant: &TenantId, affiliate: &AffiliateId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT id FROM affiliates WHERE tenant_id = $1 AND id = $2";
    let found: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(affiliate.as_str()).fetch_optional(c).await)?;
    Ok(found.is_some())
}
