//! Wallets that pay for single requests, and their accounts.

use deeplink_core::id::{AuditEntryId, TenantId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;

use super::audit::{self, By};
use super::{Conn, DbError, execute, on, tenants};

/// A wallet's namespace and address, in the form in which they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wallet<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) address: &'a str,
}

/// The account of a wallet.
pub(crate) async fn tenant_of(db: &mut Conn<'_>, wallet: Wallet<'_>) -> Result<Option<TenantId>, DbError> {
    const SQL: &str = "SELECT tenant_id FROM wallets WHERE namespace = $1 AND address = $2";
    let found: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(wallet.namespace).bind(wallet.address).fetch_optional(c).await)?;
    found.map(|id| id.parse().map_err(|_| DbError::corrupt("wallets", "tenant_id", &id))).transpose()
}

/// Whether an account is a wallet's.
pub(crate) async fn has(db: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM wallets WHERE tenant_id = $1)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// Creates the account of a wallet that has none. `false` if it has another: an earlier request created that.
pub(crate) async fn ensure(
    db: &mut Conn<'_>,
    wallet: Wallet<'_>,
    tenant: &TenantId,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "INSERT INTO wallets (namespace, address, tenant_id, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (namespace, address) DO NOTHING";
    if let Some(known) = tenant_of(db, wallet).await? {
        return Ok(known == *tenant);
    }
    tenants::insert(db, tenant, now).await?;
    let is_first = execute!(db, SQL; wallet.namespace, wallet.address, tenant.as_str(), now.as_millis())? == 1;
    if is_first {
        let id = AuditEntryId::new(now, &mut Random::system());
        audit::opened(db, id, tenant, By::Wallet(wallet.address.to_owned())).await?;
    } else {
        tenants::delete_empty(db, tenant).await?;
    }
    Ok(is_first)
}
