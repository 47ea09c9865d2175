//! Custom domains: claimed by any number of accounts, verified by one.

use deeplink_core::id::TenantId;

use super::{Conn, DbError, on};

/// The account's verified primary domain; with several, the oldest.
pub(crate) async fn primary_of(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT domain FROM domains
        WHERE tenant_id = $1 AND role = 'primary' AND verified_at IS NOT NULL
        ORDER BY created_at, id LIMIT 1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_optional(c).await)?)
}
