//! Custom domains: claimed by any number of accounts, verified by one. How a claim is proved and kept is in
//! `domain_proofs`.

use deeplink_core::domain::{DomainName, DomainRole};
use deeplink_core::id::{DomainId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, on, tenants};

/// A claim, or what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) id: DomainId,
    pub(crate) tenant: TenantId,
    pub(crate) name: DomainName,
    pub(crate) role: DomainRole,
    pub(crate) is_verified: bool,
    /// What the TXT record must say.
    pub(crate) token: String,
    pub(crate) created_at: Timestamp,
}

#[derive(FromRow)]
pub(super) struct Row {
    id: String,
    tenant_id: String,
    domain: String,
    role: String,
    verified_at: Option<i64>,
    verification_token: String,
    created_at: i64,
}

impl TryFrom<Row> for Domain {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("domains", column, &row.id);
        Ok(Self {
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            name: row.domain.parse().map_err(|_| corrupt("domain"))?,
            role: DomainRole::from(row.role.as_str()),
            is_verified: row.verified_at.is_some(),
            created_at: Timestamp::from_millis(row.created_at),
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            token: row.verification_token,
        })
    }
}

/// The account's verified primary domain; with several, the oldest.
pub(crate) async fn primary_of(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT domain FROM domains
        WHERE tenant_id = $1 AND role = 'primary' AND verified_at IS NOT NULL
        ORDER BY created_at, id LIMIT 1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_optional(c).await)?)
}

/// Whether the account has a domain of this name, verified or not.
pub(crate) async fn is_claimed_by(db: &mut Conn<'_>, tenant: &TenantId, name: &DomainName) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM domains WHERE tenant_id = $1 AND domain = $2)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(name.as_str()).fetch_one(c).await)?)
}

/// Whether the account has the one verified alternate domain that it can have.
pub(crate) async fn has_alternate(db: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, DbError> {
    const SQL: &str = "
        SELECT EXISTS (SELECT 1 FROM domains WHERE tenant_id = $1 AND role = 'alternate' AND verified_at IS NOT NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// Holds a name until the write ends: a claim and the proof of another cannot pass each other unseen. Comes before the
/// rows of tenants. SQLite has one writer, so there nothing needs to be held.
pub(crate) async fn hold_name(db: &mut Conn<'_>, name: &DomainName) -> Result<(), DbError> {
    const POSTGRES: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    if let Conn::Postgres(conn) = db {
        sqlx::query(POSTGRES).bind(name.as_str()).execute(&mut **conn).await?;
    }
    Ok(())
}

/// Stores a claim; the caller holds the name and has counted it. `false`: the account claims the name already, or somebody has verified it.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &Domain) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO domains (id, tenant_id, domain, role, verification_token, claimed_at, created_at)
        SELECT $1, $2, $3, $4, $5, $6, $6
        WHERE NOT EXISTS (SELECT 1 FROM domains WHERE domain = $3 AND verified_at IS NOT NULL)
        ON CONFLICT DO NOTHING";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(new.id.as_str()).bind(new.tenant.as_str()).bind(new.name.as_str()).bind(new.role.as_str())
        .bind(&new.token).bind(new.created_at.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Every domain of an account, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<Domain>, DbError> {
    const SQL: &str = "
        SELECT id, tenant_id, domain, role, verified_at, verification_token, created_at
        FROM domains WHERE tenant_id = $1 ORDER BY created_at DESC, id DESC";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    rows.into_iter().map(Domain::try_from).collect()
}

/// An account's domain of this name.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, name: &DomainName) -> Result<Option<Domain>, DbError> {
    const SQL: &str = "
        SELECT id, tenant_id, domain, role, verified_at, verification_token, created_at
        FROM domains WHERE tenant_id = $1 AND domain = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(name.as_str()).fetch_optional(c).await)?;
    row.map(Domain::try_from).transpose()
}

/// Gives a domain up; the caller has taken it off the count. `false`: it was not there.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, name: &DomainName) -> Result<bool, DbError> {
    const SQL: &str = "DELETE FROM domains WHERE tenant_id = $1 AND domain = $2";
    let rows = on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(name.as_str())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Accounts with claims that nobody proved since a moment, some at a time.
pub(crate) async fn with_lapsed_claims(db: &mut Conn<'_>, since: Timestamp) -> Result<Vec<TenantId>, DbError> {
    const SQL: &str = "
        SELECT DISTINCT tenant_id FROM domains
        WHERE verified_at IS NULL AND claimed_at <= $1 ORDER BY tenant_id LIMIT 100";
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).bind(since.as_millis()).fetch_all(c).await)?;
    found.iter().map(|id| id.parse().map_err(|_| DbError::corrupt("domains", "tenant_id", id))).collect()
}

/// Removes an account's claims that nobody proved since a moment.
pub(crate) async fn lapse(db: &mut Conn<'_>, tenant: &TenantId, since: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM domains WHERE tenant_id = $1 AND verified_at IS NULL AND claimed_at <= $2";
    // The tenant's row before any domain's, as everywhere.
    tenants::uncount_domains(db, tenant, 0).await?;
    let removed = on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(since.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    tenants::uncount_domains(db, tenant, i64::try_from(removed).unwrap_or(0)).await
}
