//! Who sends a tenant's deliveries, where several nodes could. A lease saves double work; what an attempt changes is guarded
//! by the number of attempts before it.

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;

use super::super::{Conn, DbError, on};
use super::farthest;

/// Who else has a tenant's lease.
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
        .bind(tenant.as_str()).bind(holder).bind(now.as_millis()).bind(farthest(now))
        .fetch_optional(c).await)?)
}

/// Takes a tenant's lease that is free, over, or the holder's own, until then. `false`: somebody else has it.
pub(crate) async fn take(
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
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(tenant.as_str()).bind(holder).bind(now.as_millis()).bind(until.as_millis()).bind(farthest(now))
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Gives a tenant's lease back, or all that the holder has.
pub(crate) async fn give_back(db: &mut Conn<'_>, holder: &str, tenant: Option<&TenantId>) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM delivery_leases WHERE holder = $1 AND ($2 = '' OR tenant_id = $2)";
    let tenant = tenant.map_or("", TenantId::as_str);
    on!(db, c => sqlx::query(SQL).bind(holder).bind(tenant).execute(c).await.map(|_| ()))?;
    Ok(())
}
