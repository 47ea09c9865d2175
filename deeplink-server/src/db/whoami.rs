//! Who a secret key acts for.

use deeplink_core::id::{SecretKeyId, TenantId};
use deeplink_core::session::MyTenant;
use deeplink_core::time::Timestamp;
use deeplink_core::whoami::{KeyScope, MyAffiliate, Whoami};
use sqlx::FromRow;

use super::tenants::PlanColumns;
use super::users::PLACEHOLDER;
use super::{Conn, DbError, on};

#[derive(FromRow)]
struct Row {
    id: String,
    key_prefix: String,
    name: Option<String>,
    opened_at: i64,
    deletes_at: Option<i64>,
    email: Option<String>,
    affiliate_id: Option<String>,
    affiliate_name: Option<String>,
    #[sqlx(flatten)]
    plan: PlanColumns,
}

/// Who one of an account's keys acts for; `None` if it was deleted.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    key: &SecretKeyId,
    now: Timestamp,
) -> Result<Option<Whoami>, DbError> {
    const SQL: &str = "
        SELECT k.id, k.key_prefix, t.name, t.created_at AS opened_at, t.deletes_at, k.affiliate_id, a.name AS affiliate_name,
            t.plan_tier, t.comp_tier, t.subscription_status, t.past_due_since,
            COALESCE((SELECT u.email FROM users u WHERE u.id = k.created_by),
                (SELECT u.email FROM users u WHERE u.tenant_id = t.id AND (u.verified OR u.is_owner)
                    ORDER BY u.is_owner DESC, u.verified DESC, u.id LIMIT 1)) AS email
        FROM secret_keys k JOIN tenants t ON t.id = k.tenant_id LEFT JOIN affiliates a ON a.id = k.affiliate_id
        WHERE k.tenant_id = $1 AND k.id = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(key.as_str()).fetch_optional(c).await)?;
    row.map(|row| row.whoami(tenant, now)).transpose()
}

impl Row {
    fn whoami(self, tenant: &TenantId, now: Timestamp) -> Result<Whoami, DbError> {
        let corrupt = |column| DbError::corrupt("secret_keys", column, &self.id);
        let id = self.id.parse().map_err(|_| corrupt("id"))?;
        let affiliate = match self.affiliate_id {
            Some(id) => Some(MyAffiliate {
                id: id.parse().map_err(|_| corrupt("affiliate_id"))?,
                name: self.affiliate_name.ok_or_else(|| corrupt("affiliate_id"))?,
            }),
            None => None,
        };
        // A partner learns nothing about the account's people and its plan.
        let is_own = affiliate.is_none();
        let tenant = MyTenant {
            id: tenant.clone(),
            name: self.name.filter(|_| is_own),
            created_at: Timestamp::from_millis(self.opened_at),
            deletes_at: self.deletes_at.filter(|_| is_own).map(Timestamp::from_millis),
        };
        let scope = if is_own { KeyScope::Account } else { KeyScope::Affiliate };
        let plan = is_own.then(|| self.plan.basis().effective_tier(now));
        let email = self.email.filter(|email| is_own && email != PLACEHOLDER);
        Ok(Whoami::new(email, tenant, plan, id, self.key_prefix, scope, affiliate))
    }
}
