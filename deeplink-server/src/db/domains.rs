//! Custom domains: claimed by any number of accounts, verified by at most one. Verification and re-checks are in
//! `domain_proofs`.

use deeplink_core::domain::{DomainChange, DomainName, DomainRole};
use deeplink_core::id::{DomainId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, assignment, execute, on, tenants};

/// A claimed or verified domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) id: DomainId,
    pub(crate) tenant: TenantId,
    pub(crate) name: DomainName,
    pub(crate) role: DomainRole,
    pub(crate) is_verified: bool,
    /// The required value of the TXT record.
    pub(crate) token: String,
    pub(crate) created_at: Timestamp,
    /// Where people who open `/` are sent.
    pub(crate) root_url: Option<String>,
    /// Where people who open a link that does not exist are sent.
    pub(crate) not_found_url: Option<String>,
    /// Whether it follows long links, and the hosts that they may lead to.
    pub(crate) long_links: bool,
    pub(crate) allowed_hosts: Vec<String>,
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
    root_url: Option<String>,
    not_found_url: Option<String>,
    long_links: bool,
    allowed_hosts: Option<String>,
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
            root_url: row.root_url,
            not_found_url: row.not_found_url,
            long_links: row.long_links,
            allowed_hosts: hosts_of(row.allowed_hosts.as_deref()).ok_or_else(|| corrupt("allowed_hosts"))?,
        })
    }
}

/// The hosts of a column.
pub(super) fn hosts_of(json: Option<&str>) -> Option<Vec<String>> {
    json.map_or_else(|| Some(Vec::new()), |json| serde_json::from_str(json).ok())
}

/// The account's verified primary domain, or the oldest of several.
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

/// Whether the account has a verified alternate domain; it can have one.
pub(crate) async fn has_alternate(db: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, DbError> {
    const SQL: &str = "
        SELECT EXISTS (SELECT 1 FROM domains WHERE tenant_id = $1 AND role = 'alternate' AND verified_at IS NOT NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// Locks a name until the write ends, so that a claim and a verification of the same name are serialized. Locked before
/// the rows of tenants. SQLite has one writer and needs no lock.
pub(crate) async fn lock_name(db: &mut Conn<'_>, name: &DomainName) -> Result<(), DbError> {
    const POSTGRES: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    if let Conn::Postgres(conn) = db {
        sqlx::query(POSTGRES).bind(name.as_str()).execute(&mut **conn).await?;
    }
    Ok(())
}

/// Stores a claim; the caller has locked the name and counted it. `false`: the account claims it already, or an account has
/// verified it.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &Domain) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO domains (id, tenant_id, domain, role, verification_token, claimed_at, created_at)
        SELECT $1, $2, $3, $4, $5, $6, $6
        WHERE NOT EXISTS (SELECT 1 FROM domains WHERE domain = $3 AND verified_at IS NOT NULL)
        ON CONFLICT DO NOTHING";
    let rows = execute!(db, SQL;
        new.id.as_str(), new.tenant.as_str(), new.name.as_str(), new.role.as_str(), &new.token,
        new.created_at.as_millis())?;
    Ok(rows == 1)
}

/// An account's domains, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId, span: &Span) -> Result<Vec<Domain>, DbError> {
    const SQL: &str = newest_first!(
        "SELECT id, tenant_id, domain, role, verified_at, verification_token, created_at, root_url, not_found_url,
            long_links, allowed_hosts
        FROM domains WHERE tenant_id = $3"
    );
    let rows: Vec<Row> = pages::read(db, SQL, DomainId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(Domain::try_from).collect()
}

/// An account's domain by name.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, name: &DomainName) -> Result<Option<Domain>, DbError> {
    const SQL: &str = "
        SELECT id, tenant_id, domain, role, verified_at, verification_token, created_at, root_url, not_found_url,
            long_links, allowed_hosts
        FROM domains WHERE tenant_id = $1 AND domain = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(name.as_str()).fetch_optional(c).await)?;
    row.map(Domain::try_from).transpose()
}

/// Changes where a domain sends people who open no link, and its long links; gives the changed domain. `None`: the account has no such domain.
pub(crate) async fn update(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    name: &DomainName,
    change: &DomainChange,
) -> Result<Option<Domain>, DbError> {
    const SQL: &str = "
        UPDATE domains SET root_url = CASE WHEN $3 THEN $4 ELSE root_url END,
            not_found_url = CASE WHEN $5 THEN $6 ELSE not_found_url END,
            long_links = COALESCE($7, long_links), allowed_hosts = COALESCE($8, allowed_hosts)
        WHERE tenant_id = $1 AND domain = $2
        RETURNING id, tenant_id, domain, role, verified_at, verification_token, created_at, root_url, not_found_url,
            long_links, allowed_hosts";
    let hosts = change.allowed_hosts.as_ref().map(serde_json::to_string).transpose();
    let hosts = hosts.map_err(|_| DbError::corrupt("domains", "allowed_hosts", name.as_str()))?;
    let [root, not_found] = [&change.root_url, &change.not_found_url].map(assignment);
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(name.as_str())
        .bind(root.0).bind(root.1).bind(not_found.0).bind(not_found.1)
        .bind(change.long_links).bind(hosts)
        .fetch_optional(c).await)?;
    row.map(Domain::try_from).transpose()
}

/// Deletes a domain; the caller has lowered the count. `false`: there was none.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, name: &DomainName) -> Result<bool, DbError> {
    const SQL: &str = "DELETE FROM domains WHERE tenant_id = $1 AND domain = $2";
    let rows = execute!(db, SQL; tenant.as_str(), name.as_str())?;
    Ok(rows == 1)
}

/// Some accounts with claims that have been unverified since a time.
pub(crate) async fn with_lapsed_claims(db: &mut Conn<'_>, since: Timestamp) -> Result<Vec<TenantId>, DbError> {
    const SQL: &str = "
        SELECT DISTINCT tenant_id FROM domains
        WHERE verified_at IS NULL AND claimed_at <= $1 ORDER BY tenant_id LIMIT 100";
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).bind(since.as_millis()).fetch_all(c).await)?;
    found.iter().map(|id| id.parse().map_err(|_| DbError::corrupt("domains", "tenant_id", id))).collect()
}

/// Deletes an account's claims that have been unverified since a time.
pub(crate) async fn lapse(db: &mut Conn<'_>, tenant: &TenantId, since: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM domains WHERE tenant_id = $1 AND verified_at IS NULL AND claimed_at <= $2";
    // The tenant's row is locked before domains' rows, as everywhere.
    tenants::uncount_domains(db, tenant, 0).await?;
    let removed = execute!(db, SQL; tenant.as_str(), since.as_millis())?;
    tenants::uncount_domains(db, tenant, i64::try_from(removed).unwrap_or(0)).await
}
