//! Deletion of an account with everything in it, in batches, so that other writes do not wait long.
//!
//! Each batch locks the account's row, so that nodes that delete the same account take turns and each sees what the others
//! left. The row itself stays without its contents: to delete it, a database would look for rows that refer to it in whole
//! tables.

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use sqlx::AssertSqlSafe;

use super::account::Scheduled;
use super::{Conn, DbError, execute, notices, on, tenants};

/// Rows of one batch.
const ROWS: i64 = 500;
/// Clicks of the log that one batch looks at.
const CLICKS: i64 = 4_096;

const OF_ACCOUNT: &str = "tenant_id = $1";
const OF_NUMBER: &str = "account = $1";
const ITS_COUNTS: &str = "link IN ($1, $1 - 1)";
const SOME_LINKS: &str = "link IN (SELECT position FROM links WHERE tenant_id = $1 ORDER BY position LIMIT 100)";
const LINKS_GONE: &str =
    "link IN (SELECT position FROM deleted_links WHERE tenant_id = $1 ORDER BY position LIMIT 100)";
const SOME_INSTALLS: &str =
    "install IN (SELECT position FROM installs WHERE tenant_id = $1 ORDER BY install_id LIMIT 100)";
const SOME_USERS: &str = "app_user IN (SELECT position FROM app_users WHERE tenant_id = $1 ORDER BY user_id LIMIT 100)";

/// Tables in the order in which they are deleted, each with the condition on its rows. The last one holds what the others are
/// about, chosen by the same condition, so the group is repeated until that is empty.
struct Group {
    /// Whether `$1` is the account's number in tables of counts, rather than its id.
    by_number: bool,
    tables: &'static [(&'static str, &'static str)],
}

const fn of(tables: &'static [(&'static str, &'static str)]) -> Group {
    Group { by_number: false, tables }
}

const GROUPS: [Group; 7] = [
    of(&[
        ("sessions", OF_ACCOUNT),
        ("tokens", OF_ACCOUNT),
        ("key_requests", OF_ACCOUNT),
        ("one_time_links", OF_ACCOUNT),
        ("publishable_keys", OF_ACCOUNT),
        ("secret_keys", OF_ACCOUNT),
        ("deliveries", "webhook_id IN (SELECT id FROM webhooks WHERE tenant_id = $1)"),
        ("delivery_leases", OF_ACCOUNT),
        ("webhooks", OF_ACCOUNT),
        ("events", OF_ACCOUNT),
        ("sources", OF_ACCOUNT),
        ("apps", OF_ACCOUNT),
        ("domains", OF_ACCOUNT),
        ("wallets", OF_ACCOUNT),
        ("conversion_keys", OF_ACCOUNT),
        ("blocked_destinations", OF_ACCOUNT),
        ("link_status_changes", OF_ACCOUNT),
        ("tenant_months", OF_ACCOUNT),
    ]),
    Group {
        by_number: true,
        tables: &[
            ("account_sums", OF_NUMBER),
            ("account_links", OF_NUMBER),
            ("click_hours", ITS_COUNTS),
            ("click_days", ITS_COUNTS),
            ("click_facets", ITS_COUNTS),
            ("click_facet_days", ITS_COUNTS),
            ("click_countries", ITS_COUNTS),
            ("click_country_days", ITS_COUNTS),
        ],
    },
    of(&[
        ("click_hours", SOME_LINKS),
        ("click_days", SOME_LINKS),
        ("click_facets", SOME_LINKS),
        ("click_facet_days", SOME_LINKS),
        ("click_countries", SOME_LINKS),
        ("click_country_days", SOME_LINKS),
        ("links", "position IN (SELECT position FROM links WHERE tenant_id = $1 ORDER BY position LIMIT 100)"),
    ]),
    of(&[
        ("click_hours", LINKS_GONE),
        ("click_days", LINKS_GONE),
        ("click_facets", LINKS_GONE),
        ("click_facet_days", LINKS_GONE),
        ("click_countries", LINKS_GONE),
        ("click_country_days", LINKS_GONE),
        (
            "deleted_links",
            "position IN (SELECT position FROM deleted_links WHERE tenant_id = $1 ORDER BY position LIMIT 100)",
        ),
    ]),
    of(&[
        ("touches", SOME_INSTALLS),
        ("install_links", SOME_INSTALLS),
        ("install_credits", SOME_INSTALLS),
        ("installs", "position IN (SELECT position FROM installs WHERE tenant_id = $1 ORDER BY install_id LIMIT 100)"),
    ]),
    of(&[
        (
            "conversion_credits",
            "conversion IN (SELECT position FROM conversions WHERE app_user IN (
                SELECT position FROM app_users WHERE tenant_id = $1 ORDER BY user_id LIMIT 100))",
        ),
        ("conversions", SOME_USERS),
        ("credit_work", SOME_USERS),
        ("app_users", "position IN (SELECT position FROM app_users WHERE tenant_id = $1 ORDER BY user_id LIMIT 100)"),
    ]),
    // What other rows name.
    of(&[
        ("affiliates", OF_ACCOUNT),
        ("users", OF_ACCOUNT),
        ("tenant_status_changes", OF_ACCOUNT),
        ("audit_log", OF_ACCOUNT),
    ]),
];

/// How far a deletion has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The log of clicks is searched after this position.
    Clicks(i64),
    /// This table of this group is next.
    Table(usize, usize),
    /// All is deleted.
    Done,
}

impl Progress {
    pub(crate) const START: Self = Self::Clicks(i64::MIN);
}

/// Accounts whose deletion is due, or was begun.
pub(crate) async fn due(db: &mut Conn<'_>, now: Timestamp) -> Result<Vec<TenantId>, DbError> {
    const SQL: &str = "SELECT id FROM tenants WHERE deletes_at <= $1 ORDER BY deletes_at, id LIMIT 100";
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).bind(now.as_millis()).fetch_all(c).await)?;
    found.iter().map(|id| id.parse().map_err(|_| DbError::corrupt("tenants", "id", id))).collect()
}

/// Begins a deletion that is due: from now on it cannot be canceled, and the account is suspended until its rows are gone.
/// `false`: it is not due, or waits until the account's subscription is canceled.
pub(crate) async fn begin(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<bool, DbError> {
    const IS_DUE: &str = "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND deletes_at <= $2)";
    tenants::lock(db, tenant).await?;
    let is_due: bool =
        on!(db, c => sqlx::query_scalar(IS_DUE).bind(tenant.as_str()).bind(now.as_millis()).fetch_one(c).await)?;
    Ok(is_due && order(db, tenant, now).await? == Scheduled::Yes)
}

/// The same now, when it is the operator's wish.
pub(crate) async fn order(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<Scheduled, DbError> {
    const SQL: &str = "
        UPDATE tenants SET deletes_at = CASE WHEN deletes_at < $2 THEN deletes_at ELSE $2 END,
            deleted_at = COALESCE(deleted_at, $2),
            suspended_at = COALESCE(suspended_at, $2)
        WHERE id = $1 AND (deleted_at IS NULL OR deletes_at IS NOT NULL)
            AND (stripe_subscription IS NULL OR cancel_scheduled) AND stripe_rival IS NULL";
    const EXISTS: &str = "
        SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND (deleted_at IS NULL OR deletes_at IS NOT NULL))";
    if execute!(db, SQL; tenant.as_str(), now.as_millis())? == 1 {
        notices::account_changed(db, tenant).await?;
        return Ok(Scheduled::Yes);
    }
    let exists: bool = on!(db, c => sqlx::query_scalar(EXISTS).bind(tenant.as_str()).fetch_one(c).await)?;
    Ok(if exists { Scheduled::Subscribed } else { Scheduled::NoAccount })
}

/// Deletes some rows of an account: returns how many, and what comes next.
pub(crate) async fn step(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    mut progress: Progress,
) -> Result<(u64, Progress), DbError> {
    tenants::lock(db, tenant).await?;
    let number = tenants::account(db, tenant).await?;
    loop {
        let (group, table) = match progress {
            Progress::Clicks(after) => return clicks(db, tenant, after).await,
            Progress::Table(group, table) => (group, table),
            Progress::Done => return Ok((0, Progress::Done)),
        };
        let Some(Group { by_number, tables }) = GROUPS.get(group) else { return Ok((0, Progress::Done)) };
        let Some((name, condition)) = tables.get(table) else {
            progress = Progress::Table(group + 1, 0);
            continue;
        };
        let row = if matches!(db, Conn::Sqlite(_)) { "rowid" } else { "ctid" };
        // Made from words of our own.
        let sql =
            format!("DELETE FROM {name} WHERE {row} IN (SELECT {row} FROM {name} WHERE {condition} LIMIT {ROWS})");
        let sql = AssertSqlSafe(sql);
        let deleted = if *by_number { execute!(db, sql; number)? } else { execute!(db, sql; tenant.as_str())? };
        let is_last = table + 1 == tables.len();
        match deleted {
            0 => progress = Progress::Table(group, table + 1),
            // There may be more of what the group is about.
            _ => return Ok((deleted, Progress::Table(group, if is_last { 0 } else { table }))),
        }
    }
}

/// Deletes an account's clicks from the log, which has no index on links: it is read once, while the links are there.
async fn clicks(db: &mut Conn<'_>, tenant: &TenantId, after: i64) -> Result<(u64, Progress), DbError> {
    const ANY: &str = "
        SELECT EXISTS (SELECT 1 FROM links WHERE tenant_id = $1)
            OR EXISTS (SELECT 1 FROM deleted_links WHERE tenant_id = $1)";
    const NEXT: &str = "
        SELECT MAX(position) FROM (SELECT position FROM clicks WHERE position > $1 ORDER BY position LIMIT $2) AS next";
    const REMOVE: &str = "
        DELETE FROM clicks WHERE position > $1 AND position <= $2
            AND (EXISTS (SELECT 1 FROM links l WHERE l.tenant_id = $3 AND l.position = clicks.link)
                OR EXISTS (SELECT 1 FROM deleted_links d WHERE d.tenant_id = $3 AND d.position = clicks.link))";
    let tables = Progress::Table(0, 0);
    let any: bool = on!(db, c => sqlx::query_scalar(ANY).bind(tenant.as_str()).fetch_one(c).await)?;
    if !any {
        return Ok((0, tables));
    }
    let to: Option<i64> = on!(db, c => sqlx::query_scalar(NEXT).bind(after).bind(CLICKS).fetch_one(c).await)?;
    let Some(to) = to else { return Ok((0, tables)) };
    Ok((execute!(db, REMOVE; after, to, tenant.as_str())?, Progress::Clicks(to)))
}

/// Empties the account's own row, after all others were deleted.
pub(crate) async fn finish(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE tenants SET deletes_at = NULL, name = NULL, time_zone = NULL, icon_url = NULL, theme_color = NULL, account = NULL,
            plan_tier = 'free', comp_tier = NULL, subscription_status = NULL, past_due_since = NULL, current_period_end = NULL,
            cancel_scheduled = FALSE, stripe_customer = NULL, stripe_subscription = NULL,
            billing_version = billing_version + 1, link_count = 0, domain_count = 0, lifting_since = NULL, lifted_to = NULL
        WHERE id = $1 AND deleted_at IS NOT NULL";
    execute!(db, SQL; tenant.as_str())?;
    notices::account_changed(db, tenant).await
}
