//! Partners. Their credentials are in `keys`.

use deeplink_core::id::{AffiliateId, TenantId};

use super::{Conn, DbError, on};

/// Whether an affiliate is the account's.
pub(crate) async fn belongs(db: &mut Conn<'_>, tenant: &TenantId, affiliate: &AffiliateId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT id FROM affiliates WHERE tenant_id = $1 AND id = $2";
    let found: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(affiliate.as_str()).fetch_optional(c).await)?;
    Ok(found.is_some())
}
