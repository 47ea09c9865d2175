//! Certificates of verified domains and of the service's own host, and the names that need one.
//!
//! `own` is the service's host if it is served over TLS, else an empty string. A certificate for a name that is
//! neither is never found, so an account that loses a domain loses the certificate without another write.

use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// A certificate with its key, to store.
#[derive(Debug, Clone)]
pub(crate) struct NewCertificate {
    pub(crate) name: String,
    pub(crate) id: String,
    /// PEM.
    pub(crate) chain: String,
    /// The private key in PEM, sealed under the id.
    pub(crate) sealed_key: String,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    pub(crate) renew_at: Timestamp,
}

/// A stored certificate; without chain and key if the caller has them already.
#[derive(Debug, FromRow)]
pub(crate) struct StoredCertificate {
    pub(crate) id: String,
    pub(crate) chain: Option<String>,
    pub(crate) sealed_key: Option<String>,
}

/// The certificate to serve for a name. If it is still `known_id`, chain and key are not read again.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    name: &str,
    own: &str,
    known_id: Option<&str>,
) -> Result<Option<StoredCertificate>, DbError> {
    const SQL: &str = "
        SELECT id,
            CASE WHEN id = $3 THEN NULL ELSE chain END AS chain,
            CASE WHEN id = $3 THEN NULL ELSE sealed_key END AS sealed_key
        FROM certificates
        WHERE name = $1
            AND (name = $2 OR EXISTS (SELECT 1 FROM domains WHERE domain = $1 AND verified_at IS NOT NULL))";
    Ok(on!(db, c => sqlx::query_as(SQL)
        .bind(name).bind(own).bind(known_id.unwrap_or_default()).fetch_optional(c).await)?)
}

/// A name that needs a certificate now.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(crate) struct Due {
    pub(crate) name: String,
    /// The account; empty for the service's own host.
    pub(crate) tenant: String,
}

/// At most `max` names that need a certificate now, at most `max_per_tenant` of each tenant. Renewals come first,
/// soonest expiry first; then names without a certificate: never tried before failed, earliest verified first.
pub(crate) async fn due(
    db: &mut Conn<'_>,
    own: &str,
    now: Timestamp,
    max: i64,
    max_per_tenant: i64,
) -> Result<Vec<Due>, DbError> {
    const SQL: &str = "
        WITH names (name, tenant, since) AS (
            SELECT domain, tenant_id, verified_at FROM domains
            WHERE verified_at IS NOT NULL AND domain <> $2 AND substr(domain, length(domain) - 9) <> '.localhost'
            UNION ALL SELECT CAST($2 AS TEXT), '', 0 WHERE $2 <> ''
        ), due AS (
            SELECT names.name, names.tenant, ROW_NUMBER() OVER (
                ORDER BY CASE WHEN certificates.name IS NULL THEN 1 ELSE 0 END,
                    COALESCE(certificates.not_after, certificate_failures.again_at, 0), names.since, names.name
            ) AS urgency
            FROM names
            LEFT JOIN certificates ON certificates.name = names.name
            LEFT JOIN certificate_failures ON certificate_failures.name = names.name
            WHERE (certificates.renew_at IS NULL OR certificates.renew_at <= $1)
                AND (certificate_failures.again_at IS NULL OR certificate_failures.again_at <= $1)
        ), shared AS (
            SELECT name, tenant, urgency, ROW_NUMBER() OVER (PARTITION BY tenant ORDER BY urgency) AS rank_in_tenant FROM due
        )
        SELECT name, tenant FROM shared WHERE rank_in_tenant <= $4 ORDER BY urgency LIMIT $3";
    Ok(on!(db, c => sqlx::query_as(SQL)
        .bind(now.as_millis()).bind(own).bind(max).bind(max_per_tenant).fetch_all(c).await)?)
}

/// Stores a certificate, replacing the name's earlier one, and resets its failures.
pub(crate) async fn replace(db: &mut Conn<'_>, new: &NewCertificate, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO certificates (name, id, chain, sealed_key, not_before, not_after, renew_at, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (name) DO UPDATE SET
            id = excluded.id, chain = excluded.chain, sealed_key = excluded.sealed_key,
            not_before = excluded.not_before, not_after = excluded.not_after,
            renew_at = excluded.renew_at, created_at = excluded.created_at";
    const RESET: &str = "DELETE FROM certificate_failures WHERE name = $1";
    execute!(db, SQL;
        &new.name, &new.id, &new.chain, &new.sealed_key, new.not_before.as_millis(), new.not_after.as_millis(),
        new.renew_at.as_millis(), now.as_millis())?;
    execute!(db, RESET; &new.name)?;
    Ok(())
}

/// Makes certificates due whose keys are sealed with a lost master key.
pub(crate) async fn renew_sealed_with(db: &mut Conn<'_>, key: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE certificates SET renew_at = 0 WHERE substr(sealed_key, 1, 8) = $1";
    execute!(db, SQL; key)?;
    Ok(())
}

/// The number of consecutive failures for a name.
pub(crate) async fn failures(db: &mut Conn<'_>, name: &str) -> Result<i64, DbError> {
    const SQL: &str = "SELECT failures FROM certificate_failures WHERE name = $1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(name).fetch_optional(c).await)?.unwrap_or(0))
}

/// When a failed name is retried.
#[cfg(test)]
pub(crate) async fn again_at(db: &mut Conn<'_>, name: &str) -> Result<Option<Timestamp>, DbError> {
    const SQL: &str = "SELECT again_at FROM certificate_failures WHERE name = $1";
    let millis: Option<i64> = on!(db, c => sqlx::query_scalar(SQL).bind(name).fetch_optional(c).await)?;
    Ok(millis.map(Timestamp::from_millis))
}

/// Records a failure for a name, and when it is retried.
pub(crate) async fn note_failure(
    db: &mut Conn<'_>,
    name: &str,
    failures: i64,
    again_at: Timestamp,
    problem: &str,
) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO certificate_failures (name, failures, again_at, problem) VALUES ($1, $2, $3, $4)
        ON CONFLICT (name) DO UPDATE SET
            failures = excluded.failures, again_at = excluded.again_at, problem = excluded.problem";
    execute!(db, SQL; name, failures, again_at.as_millis(), problem)?;
    Ok(())
}

/// Deletes the certificates and failures of names that are no longer claimed. A domain that is currently unverified
/// keeps its certificate, unused: it may be verified again soon, and ACME servers limit how many they issue.
pub(crate) async fn sweep(db: &mut Conn<'_>, own: &str) -> Result<(), DbError> {
    const CERTIFICATES: &str = "
        DELETE FROM certificates WHERE name <> $1 AND name NOT IN (SELECT domain FROM domains)";
    const FAILURES: &str = "
        DELETE FROM certificate_failures
        WHERE name <> $1 AND name NOT IN (SELECT domain FROM domains WHERE verified_at IS NOT NULL)";
    for sql in [CERTIFICATES, FAILURES] {
        execute!(db, sql; own)?;
    }
    Ok(())
}
