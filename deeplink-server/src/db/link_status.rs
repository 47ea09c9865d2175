//! What the operator sets on a link: flagged, disabled, or neither.

use deeplink_core::id::TenantId;
use deeplink_core::link::LinkStatus;
use deeplink_core::time::Timestamp;

use super::{Conn, DbError, notices, on};

/// Whose a link id is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody has such a link.
    Nobody,
    /// This account: it holds the id on the service's own host, or is the only one with it.
    One(TenantId),
    /// These accounts, and perhaps more, each on their own hosts.
    Several(Vec<TenantId>),
}

/// Finds whose link an operator means by its id alone.
pub(crate) async fn owner(db: &mut Conn<'_>, link_id: &str) -> Result<Owner, DbError> {
    const CLAIM: &str = "SELECT tenant_id FROM links WHERE link_id = $1 AND claimed";
    // Reads the whole table: only operators ask this, and an index would slow every create.
    const ALL: &str = "SELECT tenant_id FROM links WHERE link_id = $1 ORDER BY tenant_id LIMIT 20";
    let claim: Option<String> = on!(db, c => sqlx::query_scalar(CLAIM).bind(link_id).fetch_optional(c).await)?;
    let found: Vec<String> = match claim {
        Some(tenant) => vec![tenant],
        None => on!(db, c => sqlx::query_scalar(ALL).bind(link_id).fetch_all(c).await)?,
    };
    let tenants = found.iter().map(|text| text.parse().map_err(|_| DbError::corrupt("links", "tenant_id", link_id)));
    let mut tenants: Vec<TenantId> = tenants.collect::<Result<_, _>>()?;
    Ok(match tenants.len() {
        0 => Owner::Nobody,
        1 => Owner::One(tenants.remove(0)),
        _ => Owner::Several(tenants),
    })
}

/// Sets or, with `Active`, takes back what the operator says of a link, and keeps the reason. `false`: the account has
/// no such link. Any status may follow any other.
pub(crate) async fn set(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    status: &LinkStatus,
    reason: &str,
    now: Timestamp,
) -> Result<bool, DbError> {
    const UPDATE: &str = "UPDATE links SET status = $3, updated_at = $4 WHERE tenant_id = $1 AND link_id = $2";
    const KEEP: &str = "
        INSERT INTO link_status_changes (tenant_id, link_id, status, reason, changed_at)
        VALUES ($1, $2, $3, $4, $5)";
    let stored = Some(status.as_str()).filter(|_| *status != LinkStatus::Active);
    let rows = on!(db, c => sqlx::query(UPDATE)
        .bind(tenant.as_str()).bind(link_id).bind(stored).bind(now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    if rows == 0 {
        return Ok(false);
    }
    on!(db, c => sqlx::query(KEEP)
        .bind(tenant.as_str()).bind(link_id).bind(status.as_str()).bind(reason).bind(now.as_millis())
        .execute(c).await.map(|_| ()))?;
    notices::link_changed(db, tenant, link_id).await?;
    Ok(true)
}
