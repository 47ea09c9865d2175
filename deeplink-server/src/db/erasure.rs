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
/// Clicks of the log that are looked at together.
const CLICKS: i64 = 20_000;
/// How long requests that began before a deletion may take, and other nodes may have cached its credentials.
const UNDER_WAY_MILLIS: i64 = 30_000;

const OF_ACCOUNT: &str = "tenant_id = $1";
const OF_NUMBER: &str = "account = $1";
const ITS_COUNTS: &str = "link IN ($1, $1 - 1)";
const SOME_LINKS: &str = "link IN (SELECT position FROM links WHERE tenant_id = $1 ORDER BY position LIMIT 100)";
const LINKS_GONE: &str =
    "link IN (SELECT position FROM deleted_links WHERE tenant_id = $1 ORDER BY position LIMIT 100)";
const SOME_INSTALLS: &str =
    "install IN (SELECT position FROM installs WHERE tenant_id = $1 ORDER BY install_id LIMIT 100)";
/// Through an index that the table has for its users.
const OF_PEOPLE: &str = "user_id IN (SELECT id FROM users WHERE tenant_id = $1)";
const SOME_USERS: &str = "app_user IN (SELECT position FROM app_users WHERE tenant_id = $1 ORDER BY user_id LIMIT 100)";

/// Tables in the order in which they are deleted, each with the condition on its rows. A table named in [`OWNERS`]
/// holds what the ones before it are about, chosen by the same condition, so after its rows the group begins again.
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
        ("sessions", OF_PEOPLE),
        ("tokens", OF_PEOPLE),
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
        ("qr_logos", OF_ACCOUNT),
        ("domains", OF_ACCOUNT),
        ("wallets", OF_ACCOUNT),
        ("conversion_keys", OF_ACCOUNT),
        ("blocked_destinations", OF_ACCOUNT),
        ("link_status_changes", OF_ACCOUNT),
        ("link_versions", OF_ACCOUNT),
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
        ("link_tags", SOME_LINKS),
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
                    SELECT position FROM app_users WHERE tenant_id = $1 ORDER BY user_id LIMIT 100)
                ORDER BY app_user, at, position LIMIT 100)",
        ),
        // The same conversions: the credits of the next ones follow.
        (
            "conversions",
            "position IN (SELECT position FROM conversions WHERE app_user IN (
                    SELECT position FROM app_users WHERE tenant_id = $1 ORDER BY user_id LIMIT 100)
                ORDER BY app_user, at, position LIMIT 100)",
        ),
        ("credit_work", SOME_USERS),
        ("app_users", "position IN (SELECT position FROM app_users WHERE tenant_id = $1 ORDER BY user_id LIMIT 100)"),
    ]),
    // What other rows name.
    of(&[
        ("tags", OF_ACCOUNT),
        ("affiliates", OF_ACCOUNT),
        // Made since the first group, while people could still sign in.
        ("sessions", OF_PEOPLE),
        ("tokens", OF_PEOPLE),
        ("key_requests", OF_ACCOUNT),
        ("users", OF_ACCOUNT),
        ("tenant_status_changes", OF_ACCOUNT),
        ("audit_log", OF_ACCOUNT),
    ]),
];

const OWNERS: [&str; 5] = ["links", "deleted_links", "installs", "conversions", "app_users"];

/// The progress of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The log of clicks is searched after this position.
    ClicksAfter(i64),
    /// Clicks at these positions, and some of those between them, are the account's.
    Clicks { from: i64, to: i64 },
    /// This table of this group is next.
    Table(usize, usize),
    /// All is deleted.
    Done,
}

impl Progress {
    pub(crate) const START: Self = Self::ClicksAfter(i64::MIN);
}

/// Accounts whose deletion is due, or was begun long enough ago. It waits while the operator has suspended the account,
/// and until its subscription is canceled.
pub(crate) async fn due(db: &mut Conn<'_>, now: Timestamp) -> Result<Vec<TenantId>, DbError> {
    const SQL: &str = "
        SELECT id FROM tenants
        WHERE deletes_at <= $1 AND (deleted_at <= $2 OR deleted_at IS NULL AND suspended_at IS NULL
            AND (stripe_subscription IS NULL OR cancel_scheduled) AND stripe_rival IS NULL)
        ORDER BY deletes_at, id LIMIT 100";
    let before = now.plus_millis(-UNDER_WAY_MILLIS);
    let found: Vec<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(now.as_millis()).bind(before.as_millis()).fetch_all(c).await)?;
    found.iter().map(|id| id.parse().map_err(|_| DbError::corrupt("tenants", "id", id))).collect()
}

/// Begins a deletion that is due: it can no longer be canceled, and the account is suspended until its rows are gone.
/// [`Scheduled::Already`]: it was begun before. `None`: it is no longer due.
pub(crate) async fn begin(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<Option<Scheduled>, DbError> {
    const IS_DUE: &str = "
        SELECT EXISTS (SELECT 1 FROM tenants
            WHERE id = $1 AND deletes_at <= $2 AND (deleted_at IS NOT NULL OR suspended_at IS NULL))";
    tenants::lock(db, tenant).await?;
    let is_due: bool =
        on!(db, c => sqlx::query_scalar(IS_DUE).bind(tenant.as_str()).bind(now.as_millis()).fetch_one(c).await)?;
    Ok(if is_due { Some(order(db, tenant, now).await?) } else { None })
}

/// The same, immediately, for the operator.
pub(crate) async fn order(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<Scheduled, DbError> {
    const SQL: &str = "
        UPDATE tenants SET deletes_at = CASE WHEN deletes_at < $2 THEN deletes_at ELSE $2 END,
            deleted_at = COALESCE(deleted_at, $2), suspended_at = COALESCE(suspended_at, $2)
        WHERE id = $1 AND (deleted_at IS NULL AND (stripe_subscription IS NULL OR cancel_scheduled) AND stripe_rival IS NULL
            OR deleted_at IS NOT NULL AND deletes_at IS NOT NULL)
        RETURNING deleted_at";
    const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND deleted_at IS NULL)";
    let since: Option<i64> =
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(now.as_millis()).fetch_optional(c).await)?;
    if let Some(since) = since {
        if since != now.as_millis() {
            return Ok(Scheduled::Already);
        }
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
            Progress::Clicks { from, to } => {
                let deleted = remove_clicks(db, tenant, from, to).await?;
                return Ok((deleted, Progress::ClicksAfter(to)));
            }
            Progress::Table(group, table) => (group, table),
            // The log is read outside of a write.
            Progress::ClicksAfter(_) | Progress::Done => return Ok((0, progress)),
        };
        let Some(Group { by_number, tables }) = GROUPS.get(group) else { return Ok((0, Progress::Done)) };
        let Some((name, condition)) = tables.get(table) else {
            progress = Progress::Table(group + 1, 0);
            continue;
        };
        let row = if matches!(db, Conn::Sqlite(_)) { "rowid" } else { "ctid" };
        // Built only from our own text.
        let sql =
            format!("DELETE FROM {name} WHERE {row} IN (SELECT {row} FROM {name} WHERE {condition} LIMIT {ROWS})");
        let sql = AssertSqlSafe(sql);
        let deleted = if *by_number { execute!(db, sql; number)? } else { execute!(db, sql; tenant.as_str())? };
        match deleted {
            0 => progress = Progress::Table(group, table + 1),
            _ => return Ok((deleted, Progress::Table(group, if OWNERS.contains(name) { 0 } else { table }))),
        }
    }
}

/// Whether a click is one of the links of an account.
const ITS_CLICK: &str = "
    (EXISTS (SELECT 1 FROM links l WHERE l.tenant_id = $1 AND l.position = clicks.link)
        OR EXISTS (SELECT 1 FROM deleted_links d WHERE d.tenant_id = $1 AND d.position = clicks.link))";

/// Searches the log of clicks after a position. It has no index on links, so it is read once, while the account's links
/// are there.
pub(crate) async fn find_clicks(db: &mut Conn<'_>, tenant: &TenantId, after: i64) -> Result<Progress, DbError> {
    const ANY: &str = "
        SELECT EXISTS (SELECT 1 FROM links WHERE tenant_id = $1)
            OR EXISTS (SELECT 1 FROM deleted_links WHERE tenant_id = $1)";
    const NEXT: &str = "
        SELECT MAX(position) FROM (SELECT position FROM clicks WHERE position > $1 ORDER BY position LIMIT $2) AS next";
    let any: bool = on!(db, c => sqlx::query_scalar(ANY).bind(tenant.as_str()).fetch_one(c).await)?;
    if !any {
        return Ok(Progress::Table(0, 0));
    }
    let to: Option<i64> = on!(db, c => sqlx::query_scalar(NEXT).bind(after).bind(CLICKS).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(Progress::Table(0, 0)) };
    // Built only from our own text.
    let its = AssertSqlSafe(format!(
        "SELECT MIN(position), MAX(position) FROM (SELECT position FROM clicks
            WHERE position > $2 AND position <= $3 AND {ITS_CLICK} ORDER BY position LIMIT {ROWS}) AS its"
    ));
    let found: (Option<i64>, Option<i64>) =
        on!(db, c => sqlx::query_as(its).bind(tenant.as_str()).bind(after).bind(to).fetch_one(c).await)?;
    Ok(match found {
        (Some(from), Some(to)) => Progress::Clicks { from, to },
        _ => Progress::ClicksAfter(to),
    })
}

async fn remove_clicks(db: &mut Conn<'_>, tenant: &TenantId, from: i64, to: i64) -> Result<u64, DbError> {
    let sql = AssertSqlSafe(format!("DELETE FROM clicks WHERE position >= $2 AND position <= $3 AND {ITS_CLICK}"));
    Ok(execute!(db, sql; tenant.as_str(), from, to)?)
}

/// Whether requests and counts that were under way when a deletion began are done.
pub(crate) async fn is_settled(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1 AND deleted_at <= $2)";
    let before = now.plus_millis(-UNDER_WAY_MILLIS).as_millis();
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(before).fetch_one(c).await)?)
}

/// Ends a deletion whose last pass found nothing: empties the account's own row. `false`: it began lately, so that
/// requests may still be under way, and there must be another pass. The nodes are told to forget what they cached meanwhile.
pub(crate) async fn finish(db: &mut Conn<'_>, tenant: &TenantId, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE tenants SET deletes_at = NULL, name = NULL, time_zone = NULL, icon_url = NULL, theme_color = NULL, account = NULL,
            plan_tier = 'free', comp_tier = NULL, subscription_status = NULL, past_due_since = NULL, current_period_end = NULL,
            cancel_scheduled = FALSE, stripe_customer = NULL, stripe_subscription = NULL, stripe_rival = NULL,
            billing_version = billing_version + 1, link_count = 0, domain_count = 0, lifting_since = NULL, lifted_to = NULL
        WHERE id = $1 AND deleted_at <= $2";
    let is_done = execute!(db, SQL; tenant.as_str(), now.plus_millis(-UNDER_WAY_MILLIS).as_millis())? == 1;
    if is_done {
        notices::tenant_changed(db, tenant).await?;
    }
    Ok(is_done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::tests::Scratch;

    /// Each table with rows of accounts is deleted from, and after rows that refer to its own.
    #[tokio::test]
    async fn each_table_of_accounts_is_deleted_from() {
        const COLUMNS: &str = "('tenant_id', 'account', 'link', 'install', 'app_user')";
        let scratch = Scratch::new().await;
        let mut reader = scratch.db.read().await.expect("a reader");
        let db = &mut reader.conn();
        let (of_accounts, references) = if scratch.db.is_sqlite() {
            (
                format!(
                    "SELECT DISTINCT t.name FROM sqlite_master t, pragma_table_info(t.name) c
                    WHERE t.type = 'table' AND c.name IN {COLUMNS} AND t.name <> 'tenants'"
                ),
                "SELECT t.name, k.\"table\" FROM sqlite_master t, pragma_foreign_key_list(t.name) k
                WHERE t.type = 'table' AND k.\"table\" <> 'tenants'",
            )
        } else {
            (
                format!(
                    "SELECT DISTINCT CAST(table_name AS TEXT) FROM information_schema.columns
                    WHERE table_schema = current_schema() AND column_name IN {COLUMNS} AND table_name <> 'tenants'"
                ),
                "SELECT CAST(conrelid::regclass AS TEXT), CAST(confrelid::regclass AS TEXT) FROM pg_constraint
                WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND confrelid <> 'tenants'::regclass",
            )
        };
        let order: Vec<&str> = GROUPS.iter().flat_map(|group| group.tables).map(|(table, _)| *table).collect();
        let found: Vec<String> =
            on!(db, c => sqlx::query_scalar(AssertSqlSafe(of_accounts)).fetch_all(c).await).expect("tables");
        assert!(found.len() > 30, "{found:?}");
        // The log is read by position.
        let missing: Vec<_> = found.iter().filter(|table| !order.contains(&&***table) && *table != "clicks").collect();
        assert!(missing.is_empty(), "{missing:?}");
        let references: Vec<(String, String)> =
            on!(db, c => sqlx::query_as(references).fetch_all(c).await).expect("references");
        let last = |table: &str| order.iter().rposition(|other| *other == table).expect("a table of the list");
        for (child, parent) in references {
            assert!(last(&child) < last(&parent), "{child} refers to {parent}");
        }
    }
}
