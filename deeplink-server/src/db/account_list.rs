//! Accounts as the operator looks at them.

use deeplink_core::id::TenantId;
use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::tenants::PlanColumns;
use super::{Conn, DbError, on};

/// An account in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) tenant: TenantId,
    /// The owner's email address, else the oldest member's.
    pub(crate) email: Option<String>,
    /// The address of the wallet that owns the account.
    pub(crate) wallet: Option<String>,
    pub(crate) links: i64,
    /// The plan in effect.
    pub(crate) plan: Tier,
    pub(crate) created_at: Timestamp,
    pub(crate) suspended_at: Option<Timestamp>,
    /// Its name.
    pub(crate) name: Option<String>,
    /// When it will be deleted.
    pub(crate) deletes_at: Option<Timestamp>,
}

#[derive(FromRow)]
struct Row {
    id: String,
    email: Option<String>,
    wallet: Option<String>,
    link_count: i64,
    created_at: i64,
    suspended_at: Option<i64>,
    name: Option<String>,
    deletes_at: Option<i64>,
    #[sqlx(flatten)]
    plan: PlanColumns,
}

impl Row {
    fn account(self, now: Timestamp) -> Result<Account, DbError> {
        Ok(Account {
            tenant: self.id.parse().map_err(|_| DbError::corrupt("tenants", "id", &self.id))?,
            email: self.email,
            wallet: self.wallet,
            links: self.link_count,
            plan: self.plan.basis().effective_tier(now),
            created_at: Timestamp::from_millis(self.created_at),
            suspended_at: self.suspended_at.map(Timestamp::from_millis),
            name: self.name,
            deletes_at: self.deletes_at.map(Timestamp::from_millis),
        })
    }
}

/// Reads the accounts that match a condition.
macro_rules! select_where {
    ($condition:literal) => {
        concat!(
            "SELECT t.id, t.link_count, t.created_at, t.suspended_at, t.name, t.deletes_at, t.plan_tier, t.comp_tier, t.subscription_status,
                t.past_due_since, w.address AS wallet,
                (SELECT u.email FROM users u WHERE u.tenant_id = t.id
                    ORDER BY u.is_owner DESC, u.verified DESC, u.id LIMIT 1) AS email
            FROM tenants t LEFT JOIN wallets w ON w.tenant_id = t.id WHERE ",
            $condition
        )
    };
}

/// Up to `limit` accounts with an id after this one, the oldest first.
pub(crate) async fn after(db: &mut Conn<'_>, id: &str, limit: i64, now: Timestamp) -> Result<Vec<Account>, DbError> {
    const SQL: &str = select_where!("t.id > $1 AND t.deleted_at IS NULL ORDER BY t.id LIMIT $2");
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(id).bind(limit).fetch_all(c).await)?;
    rows.into_iter().map(|row| row.account(now)).collect()
}

/// One account.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<Option<Account>, DbError> {
    const SQL: &str = select_where!("t.id = $1 AND (t.deleted_at IS NULL OR t.deletes_at IS NOT NULL)");
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    row.map(|row| row.account(now)).transpose()
}
