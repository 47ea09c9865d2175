//! What the operator sets on a link: flagged, disabled, or neither; and what the operator's threat list flags.

use deeplink_core::id::TenantId;
use deeplink_core::link::{Destinations, LinkStatus};
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
    let stored = Some(status.as_str()).filter(|_| *status != LinkStatus::Active);
    let rows = on!(db, c => sqlx::query(UPDATE)
        .bind(tenant.as_str()).bind(link_id).bind(stored).bind(now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    if rows == 0 {
        return Ok(false);
    }
    tell(db, tenant, link_id, status, reason, now).await?;
    Ok(true)
}

/// Keeps the reason of a change and tells other nodes of it.
async fn tell(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    status: &LinkStatus,
    reason: &str,
    now: Timestamp,
) -> Result<(), DbError> {
    const KEEP: &str = "
        INSERT INTO link_status_changes (tenant_id, link_id, status, reason, changed_at)
        VALUES ($1, $2, $3, $4, $5)";
    on!(db, c => sqlx::query(KEEP)
        .bind(tenant.as_str()).bind(link_id).bind(status.as_str()).bind(reason).bind(now.as_millis())
        .execute(c).await.map(|_| ()))?;
    notices::link_changed(db, tenant, link_id).await
}

/// An active link and where it leads.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) tenant: TenantId,
    pub(crate) link_id: String,
    pub(crate) position: i64,
    pub(crate) to: Destinations,
}

type ActiveRow = (String, String, i64, Option<String>, Option<String>, Option<String>, Option<String>, Option<String>);

/// The next links of all tenants that are active and stand after a position, in the order of positions.
pub(crate) async fn active_after(
    db: &mut Conn<'_>,
    position: i64,
    limit: i64,
    now: Timestamp,
) -> Result<Vec<Active>, DbError> {
    const SQL: &str = "
        SELECT tenant_id, link_id, position, ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url
        FROM links
        WHERE position > $1 AND status IS NULL AND (expires_at IS NULL OR expires_at > $2)
        ORDER BY position LIMIT $3";
    let rows: Vec<ActiveRow> = on!(db, c => sqlx::query_as(SQL)
        .bind(position).bind(now.as_millis()).bind(limit).fetch_all(c).await)?;
    let active = rows.into_iter().map(|(tenant, link_id, position, ios, ios_store, android, android_store, web)| {
        let tenant = tenant.parse().map_err(|_| DbError::corrupt("links", "tenant_id", link_id.clone()))?;
        let to = Destinations {
            ios_deep_link: ios,
            ios_store_url: ios_store,
            android_deep_link: android,
            android_store_url: android_store,
            web_url: web,
        };
        Ok(Active { tenant, link_id, position, to })
    });
    active.collect()
}

/// A link to be flagged, because it leads to `url`.
#[derive(Debug)]
pub(crate) struct Threat {
    pub(crate) tenant: TenantId,
    pub(crate) link_id: String,
    pub(crate) position: i64,
    pub(crate) url: String,
    pub(crate) reason: String,
}

/// Flags a link if it still is what it was: the same one, with no status set, and leading there. `false` if not.
pub(crate) async fn flag(db: &mut Conn<'_>, threat: &Threat, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE links SET status = 'flagged', updated_at = $5
        WHERE tenant_id = $1 AND link_id = $2 AND position = $3 AND status IS NULL
            AND $4 IN (ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url)";
    let Threat { tenant, link_id, position, url, reason } = threat;
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(tenant.as_str()).bind(link_id).bind(*position).bind(url).bind(now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    if rows == 0 {
        return Ok(false);
    }
    tell(db, tenant, link_id, &LinkStatus::Flagged, reason, now).await?;
    Ok(true)
}
