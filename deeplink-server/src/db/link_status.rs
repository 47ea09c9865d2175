//! The status of links, as set by the operator or by the threat list.

use deeplink_core::audit::AuditAction;
use deeplink_core::destinations::Destinations;
use deeplink_core::id::TenantId;
use deeplink_core::link::{LinkChange, LinkStatus};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::audit::{By, NewEntry};
use super::link_history::Change;
use super::links::UrlColumns;
use super::{Conn, DbError, execute, link_history, links, notices, on, takedowns, tenants};

/// The owner of a link id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// No account has such a link.
    Nobody,
    /// This account: it has the id on the service's own host, or is the only one with it.
    One(TenantId),
    /// These accounts, and possibly more, each on their own hosts.
    Several(Vec<TenantId>),
}

/// The account of the link that has an id on the service's own host.
pub(crate) async fn holder(db: &mut Conn<'_>, link_id: &str) -> Result<Option<TenantId>, DbError> {
    const SQL: &str = "SELECT tenant_id FROM links WHERE link_id = $1 AND claimed";
    let found: Option<String> = on!(db, c => sqlx::query_scalar(SQL).bind(link_id).fetch_optional(c).await)?;
    found.map(|text| text.parse().map_err(|_| DbError::corrupt("links", "tenant_id", link_id))).transpose()
}

/// Finds the owner of a link that an operator identifies by id only.
pub(crate) async fn owner(db: &mut Conn<'_>, link_id: &str) -> Result<Owner, DbError> {
    // Scans the whole table: only operators need this, and an index would slow every create.
    const ALL: &str = "SELECT tenant_id FROM links WHERE link_id = $1 ORDER BY tenant_id LIMIT 20";
    if let Some(tenant) = holder(db, link_id).await? {
        return Ok(Owner::One(tenant));
    }
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(ALL).bind(link_id).fetch_all(c).await)?;
    let tenants = found.iter().map(|text| text.parse().map_err(|_| DbError::corrupt("links", "tenant_id", link_id)));
    let mut tenants: Vec<TenantId> = tenants.collect::<Result<_, _>>()?;
    Ok(match tenants.len() {
        0 => Owner::Nobody,
        1 => Owner::One(tenants.remove(0)),
        _ => Owner::Several(tenants),
    })
}

/// The outcome of setting a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusSet {
    /// The status is set.
    Yes,
    /// The status is reset, but its owner has the link switched off.
    OffByOwner,
    /// The status is reset; because the tenant had deleted the link, it is removed and its id is free.
    Freed,
    /// The account has no such link.
    NoLink,
}

/// A link whose status was set.
#[derive(FromRow)]
struct SetRow {
    position: i64,
    enabled: bool,
    deleted_at: Option<i64>,
    expired_url: Option<String>,
    #[sqlx(flatten)]
    urls: UrlColumns,
}

/// Sets or, with `Active`, resets what the operator says of a link, and records the reason; reset, the link is as its owner
/// has it. Any status may follow any other. While it is not `Active`, the link's destinations are refused to the account, and
/// its id stays taken when its tenant deletes it.
pub(crate) async fn set(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    status: &LinkStatus,
    reason: &str,
    now: Timestamp,
) -> Result<StatusSet, DbError> {
    const UPDATE: &str = "
        UPDATE links SET updated_at = $4, taken_down = CAST($3 AS TEXT) IS NOT NULL,
            status = CASE WHEN CAST($3 AS TEXT) IS NOT NULL THEN $3 WHEN NOT enabled THEN 'disabled' END
        WHERE tenant_id = $1 AND link_id = $2 AND alias_of IS NULL
        RETURNING position, enabled, deleted_at, expired_url, ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url";
    // Its tenant may be deleting or recreating the link.
    tenants::lock(db, tenant).await?;
    let stored = Some(status.as_str()).filter(|_| *status != LinkStatus::Active);
    let row: Option<SetRow> = on!(db, c => sqlx::query_as(UPDATE)
        .bind(tenant.as_str()).bind(link_id).bind(stored).bind(now.as_millis()).fetch_optional(c).await)?;
    let Some(row) = row else { return Ok(StatusSet::NoLink) };
    let mut outcome = StatusSet::Yes;
    if stored.is_some() {
        takedowns::block(db, tenant, row.position, row.urls.0.as_deref(), row.expired_url.as_deref()).await?;
    } else {
        takedowns::lift(db, row.position).await?;
        if !row.enabled {
            outcome = StatusSet::OffByOwner;
        }
        if row.deleted_at.is_some() {
            links::remove(db, tenant, link_id, now).await?;
            outcome = StatusSet::Freed;
        }
    }
    // Expired links of the account may send people there, or do so again.
    notices::tenant_changed(db, tenant).await?;
    record_change(db, tenant, link_id, status, reason, now).await?;
    Ok(outcome)
}

/// Why a link that is taken down was: the reason that was given last.
pub(crate) async fn reason(db: &mut Conn<'_>, tenant: &TenantId, link_id: &str) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT reason FROM link_status_changes WHERE tenant_id = $1 AND link_id = $2 AND status <> 'active'
        ORDER BY changed_at DESC LIMIT 1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(link_id).fetch_optional(c).await)?)
}

/// Records the reason of a change and notifies other nodes.
async fn record_change(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    status: &LinkStatus,
    reason: &str,
    now: Timestamp,
) -> Result<(), DbError> {
    const RECORD: &str = "
        INSERT INTO link_status_changes (tenant_id, link_id, status, reason, changed_at)
        VALUES ($1, $2, $3, $4, $5)";
    execute!(db, RECORD; tenant.as_str(), link_id, status.as_str(), reason, now.as_millis())?;
    let action = match status {
        LinkStatus::Flagged => AuditAction::LinkFlagged,
        LinkStatus::Active => AuditAction::LinkEnabled,
        _ => AuditAction::LinkDisabled,
    };
    NewEntry::by_operator(tenant.clone(), action, now).of(link_id, Some(reason)).store(db).await?;
    // The owner's settings are as they were. A link that its tenant has deleted has its last version.
    if let Some(link) = links::find(db, tenant, link_id).await? {
        let change = match status {
            LinkStatus::Flagged => LinkChange::Flagged,
            LinkStatus::Active => LinkChange::Enabled,
            _ => LinkChange::Disabled,
        };
        link_history::record(
            db,
            std::slice::from_ref(&link),
            &Change { change, by: By::Operator, is_bulk: false, at: now },
        )
        .await?;
    }
    notices::link_changed(db, tenant, link_id).await
}

/// An active link with its destinations.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) tenant: TenantId,
    pub(crate) link_id: String,
    pub(crate) position: i64,
    pub(crate) to: Destinations,
}

#[derive(FromRow)]
struct ActiveRow {
    tenant_id: String,
    link_id: String,
    position: i64,
    #[sqlx(flatten)]
    urls: UrlColumns,
}

impl ActiveRow {
    fn urls(&self) -> impl Iterator<Item = &str> {
        self.urls.0.as_deref().into_array().into_iter().flatten()
    }
}

/// The next active links of all tenants after a position, in the order of positions.
pub(crate) async fn active_after(
    db: &mut Conn<'_>,
    position: i64,
    limit: i64,
    now: Timestamp,
) -> Result<Vec<Active>, DbError> {
    const SQL: &str = "
        SELECT tenant_id, link_id, position, ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url
        FROM links
        WHERE position > $1 AND alias_of IS NULL AND status IS NULL AND (expires_at IS NULL OR expires_at > $2)
        ORDER BY position LIMIT $3";
    let rows: Vec<ActiveRow> = on!(db, c => sqlx::query_as(SQL)
        .bind(position).bind(now.as_millis()).bind(limit).fetch_all(c).await)?;
    let active = rows.into_iter().map(|ActiveRow { tenant_id, link_id, position, urls }| {
        let tenant = tenant_id.parse().map_err(|_| DbError::corrupt("links", "tenant_id", link_id.clone()))?;
        Ok(Active { tenant, link_id, position, to: urls.0 })
    });
    active.collect()
}

/// The ids of a tenant's active links that lead where a link of the tenant's was taken down.
pub(crate) async fn active_to_refused(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    now: Timestamp,
) -> Result<Vec<String>, DbError> {
    const PAGE: i64 = 1_000;
    const SQL: &str = "
        SELECT tenant_id, link_id, position, ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url
        FROM links
        WHERE tenant_id = $1 AND position > $2 AND alias_of IS NULL AND status IS NULL AND (expires_at IS NULL OR expires_at > $3)
        ORDER BY position LIMIT $4";
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let rows: Vec<ActiveRow> = on!(db, c => sqlx::query_as(SQL)
            .bind(tenant.as_str()).bind(after).bind(now.as_millis()).bind(PAGE).fetch_all(c).await)?;
        let Some(last) = rows.last() else { return Ok(found) };
        after = last.position;
        let blocked = takedowns::blocked(db, tenant, rows.iter().flat_map(ActiveRow::urls)).await?;
        let refused = rows.into_iter().filter(|row| row.urls().any(|url| blocked.refuses(url)));
        found.extend(refused.map(|row| row.link_id));
    }
}

/// A link to flag, because it leads to `url`.
#[derive(Debug)]
pub(crate) struct Threat {
    pub(crate) tenant: TenantId,
    pub(crate) link_id: String,
    pub(crate) position: i64,
    pub(crate) url: String,
    pub(crate) reason: String,
}

/// Flags a link if it is still the same one, active, and leading to the URL. `false` if not.
pub(crate) async fn flag(db: &mut Conn<'_>, threat: &Threat, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE links SET status = 'flagged', taken_down = TRUE, updated_at = $5
        WHERE tenant_id = $1 AND link_id = $2 AND position = $3 AND status IS NULL
            AND $4 IN (ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url)";
    let Threat { tenant, link_id, position, url, reason } = threat;
    // Its tenant may be creating a link to the same URL.
    tenants::lock(db, tenant).await?;
    let rows = execute!(db, SQL; tenant.as_str(), link_id, *position, url, now.as_millis())?;
    if rows == 0 {
        return Ok(false);
    }
    // Only the listed URL is refused, and it stays so after it is no longer listed.
    let listed = Destinations { web_url: Some(url.as_str()), ..Destinations::default() };
    takedowns::block(db, tenant, *position, listed, None).await?;
    record_change(db, tenant, link_id, &LinkStatus::Flagged, reason, now).await?;
    Ok(true)
}
