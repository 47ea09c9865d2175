//! What an account sets for itself.

use deeplink_core::account::{Account, AccountChange};
use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, assignment, execute, on};

#[derive(FromRow)]
struct Row {
    name: Option<String>,
    time_zone: Option<String>,
    icon_url: Option<String>,
    theme_color: Option<String>,
    created_at: i64,
    deletes_at: Option<i64>,
}

impl Row {
    fn account(self, tenant: &TenantId) -> Account {
        let Self { name, time_zone, icon_url, theme_color, created_at, deletes_at } = self;
        let (created_at, deletes_at) = (Timestamp::from_millis(created_at), deletes_at.map(Timestamp::from_millis));
        Account::new(tenant.clone(), name, time_zone, icon_url, theme_color, created_at, deletes_at)
    }
}

/// The settings of an account.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Option<Account>, DbError> {
    const SQL: &str =
        "SELECT name, time_zone, icon_url, theme_color, created_at, deletes_at FROM tenants WHERE id = $1";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_optional(c).await)?;
    Ok(row.map(|row| row.account(tenant)))
}

/// Changes the settings of an account.
pub(crate) async fn update(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    change: &AccountChange,
) -> Result<Option<Account>, DbError> {
    const SQL: &str = "
        UPDATE tenants SET name = CASE WHEN $2 THEN $3 ELSE name END,
            time_zone = CASE WHEN $4 THEN $5 ELSE time_zone END,
            icon_url = CASE WHEN $6 THEN $7 ELSE icon_url END,
            theme_color = CASE WHEN $8 THEN $9 ELSE theme_color END
        WHERE id = $1
        RETURNING name, time_zone, icon_url, theme_color, created_at, deletes_at";
    let [name, zone, icon, colour] =
        [&change.name, &change.time_zone, &change.icon_url, &change.theme_color].map(assignment);
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str())
        .bind(name.0).bind(name.1).bind(zone.0).bind(zone.1)
        .bind(icon.0).bind(icon.1).bind(colour.0).bind(colour.1)
        .fetch_optional(c).await)?;
    Ok(row.map(|row| row.account(tenant)))
}

/// Whether a deletion was scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduled {
    Yes,
    /// It was scheduled before.
    Already,
    /// The account has a subscription that would be renewed.
    Subscribed,
    /// There is no such account.
    NoAccount,
}

/// Schedules the deletion of an account.
pub(crate) async fn schedule_deletion(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    at: Timestamp,
) -> Result<Scheduled, DbError> {
    const SQL: &str = "
        UPDATE tenants SET deletes_at = $2
        WHERE id = $1 AND deletes_at IS NULL AND deleted_at IS NULL
            AND (stripe_subscription IS NULL OR cancel_scheduled) AND stripe_rival IS NULL";
    const IS_SET: &str = "SELECT deletes_at IS NOT NULL OR deleted_at IS NOT NULL FROM tenants WHERE id = $1";
    if execute!(db, SQL; tenant.as_str(), at.as_millis())? == 1 {
        return Ok(Scheduled::Yes);
    }
    let is_set: Option<bool> = on!(db, c => sqlx::query_scalar(IS_SET).bind(tenant.as_str()).fetch_optional(c).await)?;
    Ok(match is_set {
        Some(true) => Scheduled::Already,
        Some(false) => Scheduled::Subscribed,
        None => Scheduled::NoAccount,
    })
}

/// Cancels the deletion of an account. `false`: none was scheduled, or it has begun.
pub(crate) async fn cancel_deletion(db: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, DbError> {
    const SQL: &str =
        "UPDATE tenants SET deletes_at = NULL WHERE id = $1 AND deletes_at IS NOT NULL AND deleted_at IS NULL";
    Ok(execute!(db, SQL; tenant.as_str())? == 1)
}
