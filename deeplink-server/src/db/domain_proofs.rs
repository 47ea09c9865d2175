//! Who owns a domain: the proof that makes a claim the only one, the re-checks that keep it, and its loss.
//!
//! The invariant: of all claims on a name at most one is verified. On PostgreSQL everybody who is about to prove one
//! first holds the rows of all tenants that claim the name, in the order of their ids; a unique index stands behind that.

use deeplink_core::domain::{DomainName, DomainRole};
use deeplink_core::id::{DomainId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::domains::{self, Domain};
use super::{Conn, DbError, notices, on, tenants};

/// So many definite failures in a row cost a verified domain.
const FATAL_FAILURES: i64 = 3;
/// For how long they must have lasted.
const FAILING_MILLIS: i64 = 72 * 3_600_000;

/// What became of a claim whose token stood in DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proved {
    /// It is verified now.
    Now {
        /// Whether it is the account's only verified primary domain, which its links now live on.
        is_first_primary: bool,
    },
    /// It was verified before.
    Before,
    /// There is no such claim any more.
    Gone,
    /// It was given up and made again, with another token.
    Renewed,
    /// Another account has verified the name.
    Taken,
    /// The account has a verified alternate domain.
    AlternateLimit,
}

/// Makes a claim whose token was seen in DNS the only one on its name. Other accounts' claims on it end.
pub(crate) async fn prove(
    db: &mut Conn<'_>,
    claim: &Domain,
    now: Timestamp,
    check_at: Timestamp,
) -> Result<Proved, DbError> {
    const SQL: &str = "
        UPDATE domains SET verified_at = $2, check_at = $3, failures = 0, failing_since = NULL
        WHERE id = $1 AND verified_at IS NULL";
    domains::hold_name(db, &claim.name).await?;
    hold_claimants(db, &claim.name).await?;
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
    on!(db, c => sqlx::query(SQL)
        .bind(current.id.as_str()).bind(now.as_millis()).bind(check_at.as_millis())
        .execute(c).await.map(|_| ()))?;
    end_other_claims(db, &claim.tenant, &claim.name).await?;
    notices::host_changed(db, &claim.name, &claim.tenant).await?;
    Ok(Proved::Now { is_first_primary: current.role == DomainRole::Primary && !had_primary })
}

/// Holds the rows of all tenants that claim a name. SQLite has one writer, so there nothing needs to be held.
async fn hold_claimants(db: &mut Conn<'_>, name: &DomainName) -> Result<(), DbError> {
    // Held against changes only: rows that name one of these tenants may be written meanwhile.
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

/// A verified domain whose DNS is to be asked again.
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

/// Takes re-checks that are due, until then: no other node makes them meanwhile.
pub(crate) async fn claim_due(db: &mut Conn<'_>, now: Timestamp, until: Timestamp) -> Result<Vec<Due>, DbError> {
    const SQLITE: &str = "
        UPDATE domains SET check_at = $2
        WHERE id IN (SELECT id FROM domains WHERE check_at <= $1 ORDER BY check_at, id LIMIT 16)
        RETURNING id, tenant_id, domain, verification_token";
    // The same claim, with the clause that lets two nodes pass each other.
    const POSTGRES: &str = "
        UPDATE domains SET check_at = $2
        WHERE id IN (SELECT id FROM domains WHERE check_at <= $1 ORDER BY check_at, id LIMIT 16 FOR UPDATE SKIP LOCKED)
        RETURNING id, tenant_id, domain, verification_token";
    let sql = if matches!(db, Conn::Sqlite(_)) { SQLITE } else { POSTGRES };
    let rows: Vec<DueRow> =
        on!(db, c => sqlx::query_as(sql).bind(now.as_millis()).bind(until.as_millis()).fetch_all(c).await)?;
    rows.into_iter().map(Due::try_from).collect()
}

/// The token was seen: whatever failed before is forgotten.
pub(crate) async fn seen(db: &mut Conn<'_>, id: &DomainId, token: &str, check_at: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE domains SET failures = 0, failing_since = NULL, check_at = $3
        WHERE id = $1 AND verification_token = $2 AND verified_at IS NOT NULL";
    on!(db, c => sqlx::query(SQL).bind(id.as_str()).bind(token).bind(check_at.as_millis())
        .execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Nobody could say anything: the domain stays what it is and is asked for again.
pub(crate) async fn put_off(db: &mut Conn<'_>, due: &Due, check_at: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "UPDATE domains SET check_at = $2 WHERE id = $1 AND verified_at IS NOT NULL";
    on!(db, c => sqlx::query(SQL).bind(due.id.as_str()).bind(check_at.as_millis()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Counts a definite failure of a re-check that was claimed until `until`. `true`: it was one too many, and the domain
/// is a claim again.
pub(crate) async fn missed(
    db: &mut Conn<'_>,
    due: &Due,
    until: Timestamp,
    now: Timestamp,
    check_at: Timestamp,
) -> Result<bool, DbError> {
    // A verify by hand that came in between has set another time, and then this failure is of the past.
    const COUNT: &str = "
        UPDATE domains SET failures = failures + 1, failing_since = COALESCE(failing_since, $4), check_at = $5
        WHERE id = $1 AND verification_token = $2 AND check_at = $3 AND verified_at IS NOT NULL
        RETURNING failures, failing_since";
    const LOSE: &str = "
        UPDATE domains SET verified_at = NULL, check_at = NULL, failures = 0, failing_since = NULL, claimed_at = $2
        WHERE id = $1";
    let counted: Option<(i64, i64)> = on!(db, c => sqlx::query_as(COUNT)
        .bind(due.id.as_str()).bind(&due.token).bind(until.as_millis()).bind(now.as_millis())
        .bind(check_at.as_millis()).fetch_optional(c).await)?;
    match counted {
        Some((failures, since)) if failures >= FATAL_FAILURES && now.as_millis() - since >= FAILING_MILLIS => {}
        _ => return Ok(false),
    }
    on!(db, c => sqlx::query(LOSE).bind(due.id.as_str()).bind(now.as_millis()).execute(c).await.map(|_| ()))?;
    notices::host_changed(db, &due.name, &due.tenant).await?;
    Ok(true)
}
