//! What accounts pay: subscriptions, the operator's grants, and which of the processor's events took effect.
//!
//! To fetch a subscription, read the account first and store the result under the version read, so that an older fetch
//! never replaces a newer one.

use deeplink_core::billing::SubscriptionStatus;
use deeplink_core::id::TenantId;
use deeplink_core::plan::{PlanBasis, Tier};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::tenants::{self, PlanColumns};
use super::{Conn, DbError, execute, on};

/// Accounts per read of [`due`].
const ACCOUNTS: i64 = 64;

/// What an account pays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BillingAccount {
    pub(crate) tenant: TenantId,
    /// Increases with every change to the other fields.
    pub(crate) version: i64,
    /// What decides its plan.
    pub(crate) basis: PlanBasis,
    /// When the period that is paid for ends.
    pub(crate) current_period_end: Option<Timestamp>,
    /// Whether the subscription ends at the end of the current period.
    pub(crate) cancel_scheduled: bool,
    /// The processor's id of the account.
    pub(crate) customer: Option<String>,
    /// Its id of the subscription, until that ends.
    pub(crate) subscription: Option<String>,
    /// A second subscription, paid while the first one granted a plan.
    pub(crate) rival: Option<String>,
}

impl BillingAccount {
    /// The subscription, if it is paid, or its last payment failed lately.
    pub(crate) fn running_subscription(&self) -> Option<&str> {
        let runs = matches!(self.basis.status, Some(SubscriptionStatus::Active | SubscriptionStatus::PastDue));
        self.subscription.as_deref().filter(|_| runs)
    }

    /// Whether a subscription grants a plan.
    pub(crate) fn is_granted(&self, now: Timestamp) -> bool {
        self.subscription.is_some() && self.basis.grants(now)
    }
}

#[derive(FromRow)]
struct Row {
    id: String,
    billing_version: i64,
    current_period_end: Option<i64>,
    cancel_scheduled: bool,
    stripe_customer: Option<String>,
    stripe_subscription: Option<String>,
    stripe_rival: Option<String>,
    #[sqlx(flatten)]
    plan: PlanColumns,
}

impl Row {
    fn account(self) -> Result<BillingAccount, DbError> {
        Ok(BillingAccount {
            tenant: self.id.parse().map_err(|_| DbError::corrupt("tenants", "id", &self.id))?,
            version: self.billing_version,
            basis: self.plan.basis(),
            current_period_end: self.current_period_end.map(Timestamp::from_millis),
            cancel_scheduled: self.cancel_scheduled,
            customer: self.stripe_customer,
            subscription: self.stripe_subscription,
            rival: self.stripe_rival,
        })
    }
}

/// What an account pays.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<BillingAccount>, DbError> {
    const SQL: &str = "
        SELECT id, plan_tier, comp_tier, subscription_status, past_due_since, billing_version, current_period_end,
            cancel_scheduled, stripe_customer, stripe_subscription, stripe_rival
        FROM tenants WHERE id = $1 AND deleted_at IS NULL";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    row.map(Row::account).transpose()
}

/// The account with this id at the processor.
pub(crate) async fn by_customer(db: &mut Conn<'_>, customer: &str) -> Result<Option<BillingAccount>, DbError> {
    const SQL: &str = "
        SELECT id, plan_tier, comp_tier, subscription_status, past_due_since, billing_version, current_period_end,
            cancel_scheduled, stripe_customer, stripe_subscription, stripe_rival
        FROM tenants WHERE stripe_customer = $1 AND deleted_at IS NULL";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(customer).fetch_optional(c).await)?;
    row.map(Row::account).transpose()
}

/// Stores what an account pays, except the operator's grant. `false`: it changed since this version was read.
pub(crate) async fn store(db: &mut Conn<'_>, account: &BillingAccount) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE tenants SET plan_tier = $3, subscription_status = $4, past_due_since = $5, current_period_end = $6,
            cancel_scheduled = $7, stripe_customer = $8, stripe_subscription = $9, stripe_rival = $10,
            billing_version = billing_version + 1
        WHERE id = $1 AND billing_version = $2";
    let basis = &account.basis;
    let stored = execute!(db, SQL;
        account.tenant.as_str(), account.version, basis.subscribed.as_str(),
        basis.status.as_ref().map(SubscriptionStatus::as_str), basis.past_due_since.map(Timestamp::as_millis),
        account.current_period_end.map(Timestamp::as_millis), account.cancel_scheduled, account.customer.as_deref(),
        account.subscription.as_deref(), account.rival.as_deref())?;
    Ok(stored == 1)
}

/// Clears the processor's ids of an account and its subscriptions, and their states. Returns what was stored; `None`:
/// there is no such account.
pub(crate) async fn unsubscribe(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<BillingAccount>, DbError> {
    tenants::lock(db, tenant).await?;
    let Some(account) = find(db, tenant).await? else { return Ok(None) };
    let forgotten = BillingAccount {
        basis: PlanBasis {
            comp: account.basis.comp.clone(),
            subscribed: Tier::Free,
            status: None,
            past_due_since: None,
        },
        current_period_end: None,
        cancel_scheduled: false,
        customer: None,
        subscription: None,
        rival: None,
        ..account.clone()
    };
    store(db, &forgotten).await?;
    Ok(Some(account))
}

/// Grants an account a plan, or ends the grant. `false`: there is no such account.
pub(crate) async fn grant(db: &mut Conn<'_>, tenant: &TenantId, tier: Option<&Tier>) -> Result<bool, DbError> {
    const SQL: &str = "UPDATE tenants SET comp_tier = $2 WHERE id = $1";
    Ok(execute!(db, SQL; tenant.as_str(), tier.map(Tier::as_str))? == 1)
}

/// Accounts after this id, in the order of ids, with a subscription whose paid period is over or with a second one.
pub(crate) async fn due(
    db: &mut Conn<'_>,
    now: Timestamp,
    after: Option<&TenantId>,
) -> Result<Vec<BillingAccount>, DbError> {
    const SQL: &str = "
        SELECT id, plan_tier, comp_tier, subscription_status, past_due_since, billing_version, current_period_end,
            cancel_scheduled, stripe_customer, stripe_subscription, stripe_rival
        FROM tenants
        WHERE (stripe_subscription IS NOT NULL AND current_period_end <= $1 OR stripe_rival IS NOT NULL) AND id > $2
        ORDER BY id LIMIT $3";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL)
        .bind(now.as_millis()).bind(after.map_or("", TenantId::as_str)).bind(ACCOUNTS).fetch_all(c).await)?;
    rows.into_iter().map(Row::account).collect()
}

/// Whether an event has already taken effect.
pub(crate) async fn has_event(db: &mut Conn<'_>, id: &str) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM stripe_events WHERE id = $1)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(id).fetch_one(c).await)?)
}

/// Records that an event takes effect. `false`: it already had.
pub(crate) async fn note_event(db: &mut Conn<'_>, id: &str, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "INSERT INTO stripe_events (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
    Ok(execute!(db, SQL; id, now.as_millis())? == 1)
}

/// Deletes some events older than thirty days; see [`super::expired`].
pub(crate) const EXPIRED_EVENTS: &str = "
    DELETE FROM stripe_events WHERE created_at <= $1 - 2592000000 AND id IN
        (SELECT id FROM stripe_events WHERE created_at <= $1 - 2592000000 LIMIT $2)";
