//! Leases: which of several nodes sends a tenant's deliveries. A lease avoids duplicate work; updates are guarded by
//! the number of attempts before them.

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;

use super::super::{Conn, DbError, execute, on};
use super::latest_plausible;

/// The other node that has a tenant's lease.
pub(crate) async fn holder_of(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    holder: &str,
    now: Timestamp,
) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT holder FROM delivery_leases
        WHERE tenant_id = $1 AND holder <> $2 AND expires_at > $3 AND expires_at <= $4";
    Ok(on!(db, c => sqlx::query_scalar(SQL)
        .bind(tenant.as_str()).bind(holder).bind(now.as_millis()).bind(latest_plausible(now))
        .fetch_optional(c).await)?)
}

/// Acquires a tenant's lease until a time, if it is free, expired, or the holder's own. `false`: another node has it.
pub(crate) async fn take_lease(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    holder: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO delivery_leases (tenant_id, holder, expires_at) VALUES ($1, $2, $4)
        ON CONFLICT (tenant_id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
            WHERE delivery_leases.holder = excluded.holder OR delivery_leases.expires_at <= $3
                OR delivery_leases.expires_at > $5";
    let rows = execute!(db, SQL; tenant.as_str(), holder, now.as_millis(), until.as_millis(), latest_plausible(now))?;
    Ok(rows == 1)
}

/// Releases a tenant's lease, or all that the holder has.
pub(crate) async fn release_leases(db: &mut Conn<'_>, holder: &str, tenant: Option<&TenantId>) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM delivery_leases WHERE holder = $1 AND ($2 = '' OR tenant_id = $2)";
    let tenant = tenant.map_or("", TenantId::as_str);
    execute!(db, SQL; holder, tenant)?;
    Ok(())
}
