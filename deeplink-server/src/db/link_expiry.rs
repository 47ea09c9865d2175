//! Removes the expiry of an account's links when it verifies its first primary domain. An end that the owner set stays.
//!
//! An account can have a million links, and a single statement for all would block every other write. So links
//! are updated in batches in the order of their positions; the progress is stored in the tenant's row, so that any node can
//! continue. Whether a link had expired is decided by the time of the verification, not of the batch.

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;

use super::{Conn, DbError, execute, notices, on};

/// Links updated by one write.
pub(crate) const BATCH: u16 = 500;

/// Records that the expiry of an account's links is to be removed. New links have none from now on.
pub(crate) async fn begin(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "UPDATE tenants SET lifting_since = $2, lifted_to = -1 WHERE id = $1";
    execute!(db, SQL; tenant.as_str(), now.as_millis())?;
    Ok(())
}

/// Updates some links of an account; `true` if more may be left.
pub(crate) async fn lift(db: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, DbError> {
    // An update, because it also locks the row: two nodes may find the same work.
    const BEGUN: &str = "
        UPDATE tenants SET lifted_to = lifted_to WHERE id = $1 AND lifting_since IS NOT NULL
        RETURNING lifting_since, lifted_to";
    const END: &str = "
        SELECT position FROM links WHERE tenant_id = $1 AND position > $2 ORDER BY position LIMIT 1 OFFSET $3";
    const LIFT: &str = "
        UPDATE links SET expires_at = owner_expires_at, rule_expires_at = NULL
        WHERE tenant_id = $1 AND position > $2 AND position <= $3 AND NOT taken_down
            AND (rule_expires_at > $4 OR owner_expires_at IS NULL AND expires_at > $4)";
    const NOTE: &str = "
        UPDATE tenants SET lifted_to = $2, lifting_since = CASE WHEN $3 THEN lifting_since END WHERE id = $1";
    let begun: Option<(i64, i64)> = on!(db, c => sqlx::query_as(BEGUN).bind(tenant.as_str()).fetch_optional(c).await)?;
    let Some((since, from)) = begun else { return Ok(false) };
    let last = i64::from(BATCH - 1);
    let end: Option<i64> = on!(db, c => sqlx::query_scalar(END)
        .bind(tenant.as_str()).bind(from).bind(last).fetch_optional(c).await)?;
    let (to, more) = (end.unwrap_or(i64::MAX), end.is_some());
    execute!(db, LIFT; tenant.as_str(), from, to, since)?;
    execute!(db, NOTE; tenant.as_str(), to, more)?;
    notices::tenant_changed(db, tenant).await?;
    Ok(more)
}

/// Accounts whose links are not all updated yet, because a process ended midway.
pub(crate) async fn unfinished(db: &mut Conn<'_>) -> Result<Vec<TenantId>, DbError> {
    const SQL: &str = "SELECT id FROM tenants WHERE lifting_since IS NOT NULL ORDER BY id LIMIT 16";
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).fetch_all(c).await)?;
    found.iter().map(|id| id.parse().map_err(|_| DbError::corrupt("tenants", "id", id))).collect()
}
