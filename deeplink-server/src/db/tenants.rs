//! Accounts, and the counters that move with their links and domains.

use deeplink_core::id::TenantId;
use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;

use super::{Conn, DbError, on};

/// What became of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// There is room.
    Within,
    /// The plan has no room; the write must be refused, which takes the count back.
    Over {
        /// How many the plan includes.
        limit: i64,
        /// How many there were before.
        current: i64,
    },
}

impl Counted {
    fn of(count: i64, new: i64, limit: Option<i64>) -> Self {
        match limit {
            Some(limit) if count > limit => Self::Over { limit, current: count - new },
            _ => Self::Within,
        }
    }
}

/// Stores a new account on the free plan.
pub(crate) async fn insert(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO tenants (id, created_at) VALUES ($1, $2)";
    on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(now.as_millis()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Takes back an account that this write stored and that got nobody.
pub(crate) async fn delete_empty(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM tenants WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Whether there is any account.
pub(crate) async fn any(db: &mut Conn<'_>) -> Result<bool, DbError> {
    const SQL: &str = "SELECT id FROM tenants LIMIT 1";
    Ok(on!(db, c => sqlx::query_scalar::<_, String>(SQL).fetch_optional(c).await)?.is_some())
}

/// Counts `links` new links. The row stays held until the write ends, so the count is exact however many write at once.
/// Whether the plan's limit holds is the caller's setting.
pub(crate) async fn count_links(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    links: i64,
    enforce: bool,
) -> Result<Counted, DbError> {
    const SQL: &str = "
        UPDATE tenants SET link_count = link_count + $2 WHERE id = $1
        RETURNING link_count, plan_tier";
    let found: Option<(i64, String)> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(links).fetch_optional(c).await)?;
    let (count, tier) = found.ok_or_else(|| DbError::corrupt("tenants", "id", tenant.as_str()))?;
    let limit = Tier::from(tier.as_str()).limits().max_links.filter(|_| enforce);
    Ok(Counted::of(count, links, limit))
}

/// Takes links that were deleted off the count.
pub(crate) async fn uncount_links(db: &mut Conn<'_>, tenant: &TenantId, links: i64) -> Result<(), DbError> {
    const SQL: &str = "UPDATE tenants SET link_count = link_count - $2 WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(links).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Holds the account's row until the write ends, so that what is counted of the account is exact.
pub(crate) async fn hold(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    const SQL: &str = "UPDATE tenants SET link_count = link_count WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// How many people an account's plan includes.
pub(crate) async fn max_people(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<i64>, DbError> {
    const SQL: &str = "SELECT plan_tier FROM tenants WHERE id = $1";
    let tier: Option<String> = on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    let tier = tier.ok_or_else(|| DbError::corrupt("tenants", "id", tenant.as_str()))?;
    Ok(Tier::from(tier.as_str()).limits().max_team_members)
}

/// Counts a new domain, as [`count_links`] counts links.
pub(crate) async fn count_domain(db: &mut Conn<'_>, tenant: &TenantId, enforce: bool) -> Result<Counted, DbError> {
    const SQL: &str = "
        UPDATE tenants SET domain_count = domain_count + 1 WHERE id = $1
        RETURNING domain_count, plan_tier";
    let found: Option<(i64, String)> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    let (count, tier) = found.ok_or_else(|| DbError::corrupt("tenants", "id", tenant.as_str()))?;
    Ok(Counted::of(count, 1, Tier::from(tier.as_str()).limits().max_domains.filter(|_| enforce)))
}

/// Takes domains that are given up, or claims that ended, off the count. With 0 it only holds the row.
pub(crate) async fn uncount_domains(db: &mut Conn<'_>, tenant: &TenantId, domains: i64) -> Result<(), DbError> {
    const SQL: &str = "UPDATE tenants SET domain_count = domain_count - $2 WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(tenant.as_str()).bind(domains).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Counts `events` new events of the month that begins then. The month's row stays held until the write ends, so the count
/// is exact however many write at once. Only where plans limit.
pub(crate) async fn count_events(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    month: Timestamp,
    events: i64,
) -> Result<Counted, DbError> {
    const COUNT: &str = "
        INSERT INTO tenant_months (tenant_id, month, events) VALUES ($1, $2, $3)
        ON CONFLICT (tenant_id, month) DO UPDATE SET events = tenant_months.events + excluded.events
        RETURNING events";
    const TIER: &str = "SELECT plan_tier FROM tenants WHERE id = $1";
    let count: i64 = on!(db, c => sqlx::query_scalar(COUNT)
        .bind(tenant.as_str()).bind(month.as_millis()).bind(events).fetch_one(c).await)?;
    let tier: Option<String> = on!(db, c => sqlx::query_scalar(TIER).bind(tenant.as_str()).fetch_optional(c).await)?;
    let tier = tier.ok_or_else(|| DbError::corrupt("tenants", "id", tenant.as_str()))?;
    Ok(Counted::of(count, events, Tier::from(tier.as_str()).limits().max_events_per_month))
}

/// How much an account has of what a plan counts, and of what it begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) tier: Tier,
    pub(crate) links: i64,
    pub(crate) domains: i64,
    pub(crate) verified_domains: i64,
    /// Those who were invited, too.
    pub(crate) people: i64,
    /// Secret keys of its own.
    pub(crate) keys: i64,
}

/// Reads how much an account has.
pub(crate) async fn usage(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Usage, DbError> {
    const SQL: &str = "
        SELECT plan_tier, link_count, domain_count,
            (SELECT COUNT(*) FROM domains WHERE tenant_id = $1 AND verified_at IS NOT NULL),
            (SELECT COUNT(*) FROM users WHERE tenant_id = $1),
            (SELECT COUNT(*) FROM secret_keys WHERE tenant_id = $1 AND affiliate_id IS NULL)
        FROM tenants WHERE id = $1";
    let found: Option<(String, i64, i64, i64, i64, i64)> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    let (tier, links, domains, verified_domains, people, keys) =
        found.ok_or_else(|| DbError::corrupt("tenants", "id", tenant.as_str()))?;
    Ok(Usage { tier: Tier::from(tier.as_str()), links, domains, verified_domains, people, keys })
}
