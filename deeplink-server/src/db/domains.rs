//! Custom domains: claimed by any number of accounts, verified by one.

use deeplink_core::id::{DomainId, TenantId};
use deeplink_core::time::Timestamp;

use super::{Conn, DbError, on};

/// What a domain is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Links are made and resolved under it.
    Primary,
    /// A second address of the same links.
    Alternate,
}

impl Role {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Alternate => "alternate",
        }
    }
}

/// A claim to store, not verified yet.
#[derive(Debug, Clone)]
pub(crate) struct NewDomain {
    pub(crate) id: DomainId,
    pub(crate) tenant: TenantId,
    /// Lower-case A-label.
    pub(crate) domain: String,
    pub(crate) role: Role,
    pub(crate) created_at: Timestamp,
}

/// Stores a claim. `false`: the account has claimed this domain already.
pub(crate) async fn insert(db: &mut Conn<'_>, domain: &NewDomain) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO domains (id, tenant_id, domain, role, created_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant_id, domain) DO NOTHING";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(domain.id.as_str()).bind(domain.tenant.as_str()).bind(domain.domain.as_str())
        .bind(domain.role.as_str()).bind(domain.created_at.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Gives a claimed domain to the account. `false`: there is no such claim, or another account has the domain.
pub(crate) async fn verify(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    domain: &str,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE domains SET verified_at = $3
        WHERE tenant_id = $1 AND domain = $2
            AND NOT EXISTS (SELECT 1 FROM domains WHERE domain = $2 AND verified_at IS NOT NULL)";
    let rows = on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(domain).bind(now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// The account's verified primary domain; with several, the oldest.
pub(crate) async fn primary_of(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT domain FROM domains
        WHERE tenant_id = $1 AND role = 'primary' AND verified_at IS NOT NULL
        ORDER BY created_at, id LIMIT 1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_optional(c).await)?)
}
