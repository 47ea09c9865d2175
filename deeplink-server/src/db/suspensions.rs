//! Accounts that the operator suspended: their credentials may read only, their links show visitors that they are disabled,
//! and their deliveries wait.

use deeplink_core::audit::AuditAction;
use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;

use super::audit::NewEntry;
use super::{Conn, DbError, execute, notices, on, tenants};

/// The outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    /// It was made.
    Yes,
    /// The account is in that state already.
    Already,
    /// There is no such account.
    NoAccount,
}

/// Suspends an account. Nothing else changes, so that [`resume`] restores everything as it was.
pub(crate) async fn suspend(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<Changed, DbError> {
    const SQL: &str = "UPDATE tenants SET suspended_at = $2 WHERE id = $1 AND suspended_at IS NULL";
    let rows = execute!(db, SQL; tenant.as_str(), now.as_millis())?;
    changed(db, rows, Change { tenant, status: "suspended", action: AuditAction::AccountSuspended, reason, now }).await
}

/// Ends the suspension of an account.
pub(crate) async fn resume(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<Changed, DbError> {
    // The suspension does not count towards the days of failures after which a webhook is paused, or until a scheduled
    // deletion.
    const LATER: &str = "
        UPDATE webhooks SET failing_since = failing_since + $2 - (SELECT suspended_at FROM tenants WHERE id = $1)
        WHERE tenant_id = $1 AND EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND suspended_at IS NOT NULL AND deleted_at IS NULL)";
    const SQL: &str = "
        UPDATE tenants SET deletes_at = deletes_at + $2 - suspended_at, suspended_at = NULL
        WHERE id = $1 AND suspended_at IS NOT NULL AND deleted_at IS NULL";
    tenants::lock(db, tenant).await?;
    execute!(db, LATER; tenant.as_str(), now.as_millis())?;
    let rows = execute!(db, SQL; tenant.as_str(), now.as_millis())?;
    changed(db, rows, Change { tenant, status: "active", action: AuditAction::AccountResumed, reason, now }).await
}

struct Change<'a> {
    tenant: &'a TenantId,
    status: &'static str,
    action: AuditAction,
    reason: Option<&'a str>,
    now: Timestamp,
}

/// Records a change and notifies the nodes.
async fn changed(db: &mut Conn<'_>, rows: u64, change: Change<'_>) -> Result<Changed, DbError> {
    const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1)";
    const RECORD: &str = "
        INSERT INTO tenant_status_changes (tenant_id, status, reason, changed_at) VALUES ($1, $2, $3, $4)";
    let Change { tenant, status, action, reason, now } = change;
    if rows == 0 {
        let exists: bool = on!(db, c => sqlx::query_scalar(EXISTS).bind(tenant.as_str()).fetch_one(c).await)?;
        return Ok(if exists { Changed::Already } else { Changed::NoAccount });
    }
    // The column takes no null.
    execute!(db, RECORD; tenant.as_str(), status, reason.unwrap_or_default(), now.as_millis())?;
    NewEntry::by_operator(tenant.clone(), action, now).of(tenant, reason).store(db).await?;
    notices::account_changed(db, tenant).await?;
    Ok(Changed::Yes)
}

/// Whether an account is suspended; `false` if it does not exist.
pub(crate) async fn is_suspended(db: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND suspended_at IS NOT NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// The reason of the operator's last change to an account's state; `None` if there was no change, or none was given.
pub(crate) async fn last_reason(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT reason FROM tenant_status_changes WHERE tenant_id = $1 ORDER BY changed_at DESC LIMIT 1";
    let last: Option<String> = on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    Ok(last.filter(|reason| !reason.is_empty()))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::db::deliveries;
    use crate::db::tests::{Scratch, now};

    const HOOK: &str = "wh_000000000000000000000000";

    /// Setting an account to the same state twice changes it once; the reason of the last change is kept; and the time
    /// in which a webhook was sent nothing does not count towards its days of failures. No delivery is due meanwhile, also to
    /// a reader that has the webhook from before.
    #[tokio::test]
    async fn r12_a_suspension_is_set_once_and_its_time_counts_for_nothing() {
        let scratch = Scratch::new().await;
        let tenant = scratch.tenant("a@example.com").await;
        scratch
            .execute(format!(
                "INSERT INTO webhooks (id, tenant_id, url, kinds, active, sealed, clicks_after, failing_since, created_at,
                    updated_at)
                 VALUES ('{HOOK}', '{tenant}', 'https://example.com/', 1, TRUE, '', 0, {}, 0, 0)",
                now().as_millis() - 500
            ))
            .await;
        scratch
            .execute(format!(
                "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, state, tries, due_at, log, created_at)
                 VALUES ('dlv_1', '{tenant}', '{HOOK}', 'evt_1', 0, 0, 0, '[]', 0)"
            ))
            .await;
        // A deletion that is scheduled waits as long.
        let at = now().as_millis() + 3_000;
        scratch.execute(format!("UPDATE tenants SET deletes_at = {at}")).await;
        let hook = HOOK.parse().expect("an id");
        for (suspends, at, reason, changed) in [
            (false, 0, Some("no need"), Changed::Already),
            (true, 0, Some("phishing"), Changed::Yes),
            (true, 1_000, Some("again"), Changed::Already),
            (false, 7_000, Some("explained"), Changed::Yes),
            (false, 8_000, None, Changed::Already),
        ] {
            let (of, at) = (tenant.clone(), now().plus_millis(at));
            let set = scratch.write(move |tx| {
                let of = of.clone();
                async move {
                    if suspends { suspend(tx, &of, reason, at).await } else { resume(tx, &of, reason, at).await }
                }
                .boxed()
            });
            assert_eq!(set.await, changed, "{reason:?}");
            let mut reader = scratch.db.read().await.expect("a reader");
            let due = deliveries::due(&mut reader.conn(), &hook, now(), 10).await.expect("an answer");
            assert_eq!(due.len(), usize::from(!suspends), "{reason:?}");
        }
        let nobody = "tnt_000000000000000000000000".parse::<TenantId>().expect("an id");
        let missing = scratch.write(move |tx| {
            let nobody = nobody.clone();
            async move { suspend(tx, &nobody, Some("a reason"), now()).await }.boxed()
        });
        assert_eq!(missing.await, Changed::NoAccount);
        let mut reader = scratch.db.read().await.expect("a reader");
        assert_eq!(last_reason(&mut reader.conn(), &tenant).await.expect("an answer").as_deref(), Some("explained"));
        let since: i64 = on!(&mut reader.conn(), c => {
            sqlx::query_scalar("SELECT failing_since FROM webhooks").fetch_one(c).await
        })
        .expect("a moment");
        assert_eq!(since, now().as_millis() + 6_500, "half a second before, and seven later");
        let deletes: Option<i64> = on!(&mut reader.conn(), c => {
            sqlx::query_scalar("SELECT deletes_at FROM tenants").fetch_one(c).await
        })
        .expect("a moment");
        assert_eq!(deletes, Some(now().as_millis() + 10_000));
    }
}
