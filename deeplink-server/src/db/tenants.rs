//! Accounts, and the counters of their links and domains.

use deeplink_core::domain::MAX_DOMAINS;
use deeplink_core::id::TenantId;
use deeplink_core::plan::{PlanBasis, Tier};
use deeplink_core::time::Timestamp;
use deeplink_core::user::MAX_PEOPLE;
use sha2::{Digest, Sha256};
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// The columns that decide which plan is in effect.
#[derive(Debug, FromRow)]
pub(super) struct PlanColumns {
    plan_tier: String,
    comp_tier: Option<String>,
    subscription_status: Option<String>,
    past_due_since: Option<i64>,
}

impl PlanColumns {
    pub(super) fn basis(&self) -> PlanBasis {
        PlanBasis {
            comp: self.comp_tier.as_deref().map(Tier::from),
            subscribed: Tier::from(self.plan_tier.as_str()),
            status: self.subscription_status.as_deref().map(Into::into),
            past_due_since: self.past_due_since.map(Timestamp::from_millis),
        }
    }

    fn tier(&self, now: Timestamp) -> Tier {
        self.basis().effective_tier(now)
    }
}

/// A raised counter, with the plan that limits it.
#[derive(FromRow)]
struct RaisedCount {
    count: i64,
    #[sqlx(flatten)]
    plan: PlanColumns,
}

/// The result of counting against a plan's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Within the limit.
    Within,
    /// Over the limit; the caller must refuse the write, which rolls the count back.
    Over {
        /// The plan's limit.
        limit: i64,
        /// The count before.
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
    const SQL: &str = "INSERT INTO tenants (id, created_at, account) VALUES ($1, $2, $3)";
    execute!(db, SQL; tenant.as_str(), now.as_millis(), account_number(tenant))?;
    Ok(())
}

/// The number for a new account in tables of counts, beyond those that a migration gave: even and negative. Two accounts
/// would have to share 61 bits of a hash to get the same one, and then the second is not stored.
fn account_number(tenant: &TenantId) -> i64 {
    const BELOW: i64 = 1 << 62;
    let hash = Sha256::digest(tenant.as_str());
    let bits = hash.iter().take(8).fold(0_i64, |bits, byte| bits << 8 | i64::from(*byte));
    -(BELOW + (bits & (BELOW - 2)))
}

/// Whether a report is on the whole of an account rather than on links, whose positions are not negative.
pub(crate) fn is_account(links: &[i64]) -> bool {
    links.first().is_some_and(|link| *link < 0)
}

/// The number of an account in tables of counts.
pub(crate) async fn account(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<i64>, DbError> {
    const SQL: &str = "SELECT account FROM tenants WHERE id = $1";
    let found: Option<Option<i64>> =
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    Ok(found.flatten())
}

/// Deletes an account that this write created but that has no user.
pub(crate) async fn delete_empty(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM tenants WHERE id = $1";
    execute!(db, SQL; tenant.as_str())?;
    Ok(())
}

/// The first two accounts, or fewer if there are no more.
pub(crate) async fn first_two(db: &mut Conn<'_>) -> Result<Vec<TenantId>, DbError> {
    const SQL: &str = "SELECT id FROM tenants WHERE deleted_at IS NULL ORDER BY id LIMIT 2";
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).fetch_all(c).await)?;
    found.iter().map(|id| id.parse().map_err(|_| DbError::corrupt("tenants", "id", id))).collect()
}

/// Whether the deletion of an account has begun.
pub(crate) async fn is_deleted(db: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND deleted_at IS NOT NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// Counts `links` new links. The row stays locked until the write ends, so the count is exact under concurrency.
/// `enforced_at` is the time at which the plan limits them; `None`: plans are not enforced.
pub(crate) async fn count_links(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    links: i64,
    enforced_at: Option<Timestamp>,
) -> Result<Counted, DbError> {
    const SQL: &str = "
        UPDATE tenants SET link_count = link_count + $2 WHERE id = $1
        RETURNING link_count AS count, plan_tier, comp_tier, subscription_status, past_due_since";
    let found: Option<RaisedCount> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(links).fetch_optional(c).await)?;
    let raised = found.ok_or_else(|| missing(tenant))?;
    let limit = enforced_at.and_then(|now| raised.plan.tier(now).limits().max_links);
    Ok(Counted::of(raised.count, links, limit))
}

/// Subtracts deleted links from the count.
pub(crate) async fn uncount_links(db: &mut Conn<'_>, tenant: &TenantId, links: i64) -> Result<(), DbError> {
    const SQL: &str = "UPDATE tenants SET link_count = link_count - $2 WHERE id = $1";
    execute!(db, SQL; tenant.as_str(), links)?;
    Ok(())
}

/// Locks the account's row until the write ends, so that counts are exact.
pub(crate) async fn lock(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    const SQL: &str = "UPDATE tenants SET link_count = link_count WHERE id = $1";
    execute!(db, SQL; tenant.as_str())?;
    Ok(())
}

/// The number of users that an account can have. `enforced_at` is as for [`count_links`].
pub(crate) async fn max_people(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    enforced_at: Option<Timestamp>,
) -> Result<i64, DbError> {
    let Some(now) = enforced_at else { return Ok(MAX_PEOPLE) };
    Ok(at_most(MAX_PEOPLE, tier_of(db, tenant, now).await?.limits().max_team_members))
}

/// An account's limit by its plan, where no account can have more than `most`.
fn at_most(most: i64, plan: Option<i64>) -> i64 {
    plan.map_or(most, |plan| plan.min(most))
}

async fn tier_of(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<Tier, DbError> {
    const SQL: &str = "
        SELECT plan_tier, comp_tier, subscription_status, past_due_since FROM tenants WHERE id = $1";
    let plan: Option<PlanColumns> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    plan.map(|plan| plan.tier(now)).ok_or_else(|| missing(tenant))
}

/// A credential named an account that has no row.
pub(crate) fn missing(tenant: &TenantId) -> DbError {
    DbError::corrupt("tenants", "id", tenant.as_str())
}

/// Counts a new domain, as [`count_links`] counts links. No account has more than [`MAX_DOMAINS`].
pub(crate) async fn count_domain(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    enforced_at: Option<Timestamp>,
) -> Result<Counted, DbError> {
    const SQL: &str = "
        UPDATE tenants SET domain_count = domain_count + 1 WHERE id = $1
        RETURNING domain_count AS count, plan_tier, comp_tier, subscription_status, past_due_since";
    let found: Option<RaisedCount> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    let raised = found.ok_or_else(|| missing(tenant))?;
    let plan = enforced_at.and_then(|now| raised.plan.tier(now).limits().max_domains);
    Ok(Counted::of(raised.count, 1, Some(at_most(MAX_DOMAINS, plan))))
}

/// Subtracts deleted domains and claims from the count. With 0 it only locks the row.
pub(crate) async fn uncount_domains(db: &mut Conn<'_>, tenant: &TenantId, domains: i64) -> Result<(), DbError> {
    const SQL: &str = "UPDATE tenants SET domain_count = domain_count - $2 WHERE id = $1";
    execute!(db, SQL; tenant.as_str(), domains)?;
    Ok(())
}

/// Counts `events` new events in this calendar month. The month's row stays locked until the write ends, so the count is
/// exact under concurrency. Only if plans are enforced.
pub(crate) async fn count_events(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    now: Timestamp,
    events: i64,
) -> Result<Counted, DbError> {
    const COUNT: &str = "
        INSERT INTO tenant_months (tenant_id, month, events) VALUES ($1, $2, $3)
        ON CONFLICT (tenant_id, month) DO UPDATE SET events = tenant_months.events + excluded.events
        RETURNING events";
    let count: i64 = on!(db, c => sqlx::query_scalar(COUNT)
        .bind(tenant.as_str()).bind(now.month().as_millis()).bind(events).fetch_one(c).await)?;
    Ok(Counted::of(count, events, tier_of(db, tenant, now).await?.limits().max_events_per_month))
}

/// An account's usage of what plans limit, and what onboarding needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The plan in effect.
    pub(crate) tier: Tier,
    pub(crate) links: i64,
    /// Since the start of the calendar month. Counted only if plans are enforced.
    pub(crate) events_this_month: i64,
    pub(crate) domains: i64,
    pub(crate) verified_domains: i64,
    /// Including invited users.
    pub(crate) people: i64,
    /// The account's own secret keys.
    pub(crate) keys: i64,
    pub(crate) webhooks: i64,
}

#[derive(FromRow)]
struct UsageRow {
    links: i64,
    events: i64,
    domains: i64,
    verified_domains: i64,
    people: i64,
    keys: i64,
    webhooks: i64,
    #[sqlx(flatten)]
    plan: PlanColumns,
}

/// Reads an account's usage.
pub(crate) async fn usage(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<Usage, DbError> {
    const SQL: &str = "
        SELECT plan_tier, comp_tier, subscription_status, past_due_since, link_count AS links, domain_count AS domains,
            COALESCE((SELECT events FROM tenant_months WHERE tenant_id = $1 AND month = $2), 0) AS events,
            (SELECT COUNT(*) FROM domains WHERE tenant_id = $1 AND verified_at IS NOT NULL) AS verified_domains,
            (SELECT COUNT(*) FROM users WHERE tenant_id = $1) AS people,
            (SELECT COUNT(*) FROM secret_keys WHERE tenant_id = $1 AND affiliate_id IS NULL) AS keys,
            (SELECT COUNT(*) FROM webhooks WHERE tenant_id = $1) AS webhooks
        FROM tenants WHERE id = $1";
    let found: Option<UsageRow> = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(now.month().as_millis()).fetch_optional(c).await)?;
    let row = found.ok_or_else(|| missing(tenant))?;
    Ok(Usage {
        tier: row.plan.tier(now),
        links: row.links,
        events_this_month: row.events,
        domains: row.domains,
        verified_domains: row.verified_domains,
        people: row.people,
        keys: row.keys,
        webhooks: row.webhooks,
    })
}
