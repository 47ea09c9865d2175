//! Hosts and what a tenant shows of itself: its verified domains.

use deeplink_core::id::TenantId;
use sqlx::FromRow;

use super::{Conn, DbError, on};
use crate::cache::Face;
use crate::state::Host;

/// The tenant that has verified a host name.
pub(crate) async fn find(db: &mut Conn<'_>, name: &str) -> Result<Option<Host>, DbError> {
    const SQL: &str = "SELECT tenant_id, role FROM domains WHERE domain = $1 AND verified_at IS NOT NULL";
    let row: Option<(String, String)> = on!(db, c => sqlx::query_as(SQL).bind(name).fetch_optional(c).await)?;
    row.map(|(tenant, role)| {
        let tenant = tenant.parse().map_err(|_| DbError::corrupt("domains", "tenant_id", name))?;
        Ok(Host { tenant, alternate: role == "alternate" })
    })
    .transpose()
}

#[derive(FromRow)]
struct Row {
    domain: String,
    role: String,
}

/// What a tenant shows of itself, and its oldest verified primary domain. `None` for a tenant without a verified domain.
pub(crate) async fn face_of(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<(Face, Option<String>)>, DbError> {
    const SQL: &str = "
        SELECT domain, role FROM domains WHERE tenant_id = $1 AND verified_at IS NOT NULL ORDER BY created_at, id";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let of = |role: &str| rows.iter().find(|row| row.role == role).map(|row| row.domain.clone());
    let (primary, alternate) = (of("primary"), of("alternate"));
    let domain = primary.clone().or_else(|| rows.first().map(|row| row.domain.clone()));
    Ok(Some((Face { domain, alternate }, primary)))
}
