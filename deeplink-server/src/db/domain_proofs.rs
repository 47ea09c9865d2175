//! Domain ownership: verification of a claim, periodic re-checks, and loss.
//!
//! The invariant: at most one of all claims on a name is verified. On PostgreSQL, verification first locks the
//! rows of all tenants that claim the name, in the order of their ids; a unique index is the safeguard.

use deeplink_core::domain::{DomainName, DomainRole};
use deeplink_core::id::{DomainId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::domains::{self, Domain};
use super::{Conn, DbError, execute, notices, on, tenants};

/// Consecutive definite failures after which a domain becomes unverified.
const MAX_FAILURES: i64 = 3;
/// The minimum time over which they must extend.
const MIN_FAILING_MILLIS: i64 = 72 * 3_600_000;

/// The outcome of verifying a claim whose token was found in DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proved {
    /// The claim is now verified.
    Now {
        /// Whether it is the account's only verified primary domain, which its links now use.
        is_first_primary: bool,
    },
    /// It was verified already.
    Before,
    /// The claim was deleted.
    Gone,
    /// The claim was deleted and created again, with another token.
    Renewed,
    /// Another account has verified the name.
    Taken,
    /// The account has a verified alternate domain.
    AlternateLimit,
}

/// Verifies a claim whose token was found in DNS, and deletes other accounts' claims on the name.
pub(crate) async fn prove(
    db: &mut Conn<'_>,
    claim: &Domain,
    now: Timestamp,
    check_at: Timestamp,
) -> Result<Proved, DbError> {
    const SQL: &str = "
        UPDATE domains SET verified_at = $2, check_at = $3, failures = 0, failing_since = NULL
        WHERE id = $1 AND verified_at IS NULL";
    domains::lock_name(db, &claim.name).await?;
    lock_claimants(db, &claim.name).await?;
    let Some(current) = domains::find(db, &claim.tenant, &claim.name).await? else { return Ok(Proved::Gone) };
    if current.token != claim.token {
        return Ok(Proved::Renewed);
    }
    if current.is_verified {
        seen(db, &current.id, &current.token, check_at).await?;
        return Ok(Proved::Before);
    }
    if is_verified_by_another(db, &claim.tenant, &claim.name).await? {
        return Ok(Proved::Taken);
    }
    if current.role == DomainRole::Alternate && domains::has_alternate(db, &claim.tenant).await? {
        return Ok(Proved::AlternateLimit);
    }
    let had_primary = domains::primary_of(db, &claim.tenant).await?.is_some();
    execute!(db, SQL; current.id.as_str(), now.as_millis(), check_at.as_millis())?;
    end_other_claims(db, &claim.tenant, &claim.name).await?;
    notices::host_changed(db, &claim.name, &claim.tenant).await?;
    Ok(Proved::Now { is_first_primary: current.role == DomainRole::Primary && !had_primary })
}

/// Locks the rows of all tenants that claim a name. SQLite has one writer and needs no lock.
async fn lock_claimants(db: &mut Conn<'_>, name: &DomainName) -> Result<(), DbError> {
    // Locked against updates only: rows that refer to these tenants may still be written.
    const POSTGRES: &str = "
        SELECT id FROM tenants WHERE id IN (SELECT tenant_id FROM domains WHERE domain = $1)
        ORDER BY id FOR NO KEY UPDATE";
    if let Conn::Postgres(conn) = db {
        sqlx::query(POSTGRES).bind(name.as_str()).fetch_all(&mut **conn).await?;
    }
    Ok(())
}

async fn is_verified_by_another(db: &mut Conn<'_>, tenant: &TenantId, name: &DomainName) -> Result<bool, DbError> {
    const SQL: &str = "
        SELECT EXISTS (SELECT 1 FROM domains WHERE domain = $1 AND tenant_id <> $2 AND verified_at IS NOT NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(name.as_str()).bind(tenant.as_str()).fetch_one(c).await)?)
}

async fn end_other_claims(db: &mut Conn<'_>, tenant: &TenantId, name: &DomainName) -> Result<(), DbError> {
    const SQL: &str = "
        DELETE FROM domains WHERE domain = $1 AND tenant_id <> $2 AND verified_at IS NULL RETURNING tenant_id";
    let mut ended: Vec<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(name.as_str()).bind(tenant.as_str()).fetch_all(c).await)?;
    ended.sort_unstable();
    for id in ended {
        let other = id.parse().map_err(|_| DbError::corrupt("domains", "tenant_id", &id))?;
        tenants::uncount_domains(db, &other, 1).await?;
    }
    Ok(())
}

/// A verified domain, such as one that is due for a re-check.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) id: DomainId,
    pub(crate) tenant: TenantId,
    pub(crate) name: DomainName,
    pub(crate) token: String,
}

#[derive(FromRow)]
struct DueRow {
    id: String,
    tenant_id: String,
    domain: String,
    verification_token: String,
}

impl TryFrom<DueRow> for Due {
    type Error = DbError;

    fn try_from(row: DueRow) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("domains", column, &row.id);
        Ok(Self {
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            name: row.domain.parse().map_err(|_| corrupt("domain"))?,
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            token: row.verification_token,
        })
    }
}

/// Whether any re-check is due.
pub(crate) async fn any_due(db: &mut Conn<'_>, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM domains WHERE check_at <= $1)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(now.as_millis()).fetch_one(c).await)?)
}

/// Claims due re-checks until a time, so that no other node makes them meanwhile.
pub(crate) async fn claim_due(db: &mut Conn<'_>, now: Timestamp, until: Timestamp) -> Result<Vec<Due>, DbError> {
    const SQLITE: &str = "
        UPDATE domains SET check_at = $2
        WHERE id IN (SELECT id FROM domains WHERE check_at <= $1 ORDER BY check_at, id LIMIT 16)
        RETURNING id, tenant_id, domain, verification_token";
    // The same, with the clause that keeps nodes from waiting for each other.
    const POSTGRES: &str = "
        UPDATE domains SET check_at = $2
        WHERE id IN (SELECT id FROM domains WHERE check_at <= $1 ORDER BY check_at, id LIMIT 16 FOR UPDATE SKIP LOCKED)
        RETURNING id, tenant_id, domain, verification_token";
    let sql = if matches!(db, Conn::Sqlite(_)) { SQLITE } else { POSTGRES };
    let rows: Vec<DueRow> =
        on!(db, c => sqlx::query_as(sql).bind(now.as_millis()).bind(until.as_millis()).fetch_all(c).await)?;
    rows.into_iter().map(Due::try_from).collect()
}

/// Records that the token was found, and resets failures.
pub(crate) async fn seen(db: &mut Conn<'_>, id: &DomainId, token: &str, check_at: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE domains SET failures = 0, failing_since = NULL, check_at = $3
        WHERE id = $1 AND verification_token = $2 AND verified_at IS NOT NULL";
    execute!(db, SQL; id.as_str(), token, check_at.as_millis())?;
    Ok(())
}

/// Postpones a re-check that had no definite result.
pub(crate) async fn put_off(db: &mut Conn<'_>, due: &Due, check_at: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "UPDATE domains SET check_at = $2 WHERE id = $1 AND verified_at IS NOT NULL";
    execute!(db, SQL; due.id.as_str(), check_at.as_millis())?;
    Ok(())
}

/// Counts a definite failure of a re-check that was claimed until `until`. `true`: the limit is reached, and the domain
/// is unverified again.
pub(crate) async fn missed(
    db: &mut Conn<'_>,
    due: &Due,
    until: Timestamp,
    now: Timestamp,
    check_at: Timestamp,
) -> Result<bool, DbError> {
    // If a manual verification has set another time meanwhile, this failure is obsolete.
    const COUNT: &str = "
        UPDATE domains SET failures = failures + 1, failing_since = COALESCE(failing_since, $4), check_at = $5
        WHERE id = $1 AND verification_token = $2 AND check_at = $3 AND verified_at IS NOT NULL
        RETURNING failures, failing_since";
    let counted: Option<(i64, i64)> = on!(db, c => sqlx::query_as(COUNT)
        .bind(due.id.as_str()).bind(&due.token).bind(until.as_millis()).bind(now.as_millis())
        .bind(check_at.as_millis()).fetch_optional(c).await)?;
    match counted {
        Some((failures, since)) if failures >= MAX_FAILURES && now.as_millis() - since >= MIN_FAILING_MILLIS => {}
        _ => return Ok(false),
    }
    lose(db, due, now).await?;
    Ok(true)
}

/// Makes a verified domain unverified again.
async fn lose(db: &mut Conn<'_>, domain: &Due, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE domains SET verified_at = NULL, check_at = NULL, failures = 0, failing_since = NULL, claimed_at = $2
        WHERE id = $1";
    execute!(db, SQL; domain.id.as_str(), now.as_millis())?;
    notices::host_changed(db, &domain.name, &domain.tenant).await
}

/// Makes some of the verified names under `.localhost` unverified again.
pub(crate) async fn end_local(db: &mut Conn<'_>, now: Timestamp) -> Result<Vec<Due>, DbError> {
    const SQL: &str = "
        SELECT id, tenant_id, domain, verification_token FROM domains
        WHERE verified_at IS NOT NULL AND substr(domain, length(domain) - 9) = '.localhost' ORDER BY id LIMIT 100";
    let rows: Vec<DueRow> = on!(db, c => sqlx::query_as(SQL).fetch_all(c).await)?;
    let ended = rows.into_iter().map(Due::try_from).collect::<Result<Vec<_>, _>>()?;
    for domain in &ended {
        lose(db, domain, now).await?;
    }
    Ok(ended)
}
