//! The history of links: what each was before a change, by whom it was changed, and links that were deleted.

use deeplink_core::audit::AuditActor;
use deeplink_core::id::TenantId;
use deeplink_core::link::{DELETED_DAYS, LinkChange, LinkContent, LinkStatus, LinkVersion, MAX_VERSIONS, NewLink};
use deeplink_core::qr::QrOptions;
use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, FromRow};

use super::audit::By;
use super::link_list::{Found, ListRequest};
use super::links::Link;
use super::pages::Span;
use super::{Conn, DbError, aliases, execute, on};

/// A change of links: what, by whom and when.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) change: LinkChange,
    pub(crate) by: By,
    /// Whether several links are changed by one request.
    pub(crate) is_bulk: bool,
    pub(crate) at: Timestamp,
}

/// What is stored of a version.
#[derive(Serialize, Deserialize)]
struct Stored {
    content: LinkContent,
    /// The text of a look that this version does not know, which its content is without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unknown_qr: Option<String>,
    claimed: bool,
    made_under: Option<String>,
    rule_expires_at: Option<Timestamp>,
    created_at: Timestamp,
}

/// Links whose versions are stored by one statement, the most first.
const TOGETHER: [usize; 3] = [25, 5, 1];

/// Stores what links are, before they are changed. Their rows or their account's is locked, and none is there twice.
pub(crate) async fn record(db: &mut Conn<'_>, before: &[Link], change: &Change) -> Result<(), DbError> {
    const PRUNE: &str = "DELETE FROM link_versions WHERE link = $1 AND version <= $2";
    let mut rest = before;
    while let Some(count) = TOGETHER.into_iter().find(|count| *count <= rest.len()) {
        let (links, others) = rest.split_at(count);
        rest = others;
        for (link, version) in insert(db, links, change).await? {
            if version > MAX_VERSIONS {
                execute!(db, PRUNE; link, version - MAX_VERSIONS)?;
            }
        }
    }
    Ok(())
}

/// Stores a version of each of these links, and returns their positions and the number of the version.
async fn insert(db: &mut Conn<'_>, links: &[Link], change: &Change) -> Result<Vec<(i64, i64)>, DbError> {
    let Some(first) = links.first() else { return Ok(Vec::new()) };
    let row = |nth: usize| {
        let [link, link_id, content] = [9, 10, 11].map(|column| format!("${}", column + 3 * nth));
        format!(
            "({link}, COALESCE((SELECT MAX(version) FROM link_versions WHERE link = {link}), 0) + 1, $1, {link_id}, $2, $3, $4, \
             COALESCE((SELECT key_prefix FROM secret_keys WHERE id = $5), (SELECT email FROM users WHERE id = $5), $6), $7, \
             {content}, $8)"
        )
    };
    // Built only from our own text.
    let sql = AssertSqlSafe(format!(
        "INSERT INTO link_versions (link, version, tenant_id, link_id, changed_at, change, actor_type, actor, bulk, content, gone_at) \
         VALUES {} RETURNING link, version",
        (0..links.len()).map(row).collect::<Vec<_>>().join(", ")
    ));
    let contents = links.iter().map(content).collect::<Result<Vec<_>, _>>()?;
    let (kind, id, name) = change.by.columns();
    let gone_at = (change.change == LinkChange::Deleted).then(|| change.at.as_millis());
    Ok(on!(db, c => {
        let query = sqlx::query_as(sql).bind(first.tenant.as_str()).bind(change.at.as_millis())
            .bind(change.change.as_str()).bind(kind.as_str()).bind(id).bind(name).bind(change.is_bulk).bind(gone_at);
        let rows = links.iter().zip(contents);
        let query = rows.fold(query, |query, (link, content)| query.bind(link.position).bind(&link.link_id).bind(content));
        query.fetch_all(c).await
    })?)
}

/// What is stored of a link, in JSON.
fn content(before: &Link) -> Result<String, DbError> {
    let corrupt = || DbError::corrupt("link_versions", "content", &before.link_id);
    let mut content = LinkContent::from(before.content.clone());
    let unknown = content.qr.take_if(|look| look.are_unknown());
    let stored = Stored {
        content,
        unknown_qr: unknown.map(|look| look.to_stored()).transpose().map_err(|_| corrupt())?,
        claimed: before.claimed,
        made_under: before.made_under.clone(),
        rule_expires_at: before.rule_end(),
        created_at: before.created_at,
    };
    serde_json::to_string(&stored).map_err(|_| corrupt())
}

#[derive(FromRow)]
struct VersionRow {
    version: i64,
    changed_at: i64,
    change: String,
    actor_type: String,
    actor: Option<String>,
    bulk: bool,
    content: String,
}

/// A page of a link's versions, newest first, each with its number as text.
pub(crate) async fn list(db: &mut Conn<'_>, link: i64, span: &Span) -> Result<Vec<(String, LinkVersion)>, DbError> {
    const SQL: &str = "
        SELECT version, changed_at, change, actor_type, actor, bulk, content FROM link_versions
        WHERE link = $1 AND version < $2 ORDER BY version DESC LIMIT $3";
    let before = span.before.as_deref().and_then(|text| text.parse().ok()).unwrap_or(i64::MAX);
    let rows: Vec<VersionRow> =
        on!(db, c => sqlx::query_as(SQL).bind(link).bind(before).bind(span.rows).fetch_all(c).await)?;
    let versions = rows.into_iter().map(|row| {
        let key = row.version.to_string();
        let mut content = stored(&row.content, &key)?.content;
        // Its options cannot be shown.
        content.qr.take_if(|look| look.are_unknown());
        let version = LinkVersion::new(
            u64::try_from(row.version).unwrap_or_default(),
            LinkChange::from(row.change.as_str()),
            Timestamp::from_millis(row.changed_at),
            AuditActor::from(row.actor_type.as_str()),
            row.actor,
            row.bulk,
            content,
        );
        Ok((key, version))
    });
    versions.collect()
}

fn stored(content: &str, version: &str) -> Result<Stored, DbError> {
    let corrupt = |_| DbError::corrupt("link_versions", "content", version);
    let mut stored: Stored = serde_json::from_str(content).map_err(corrupt)?;
    match stored.unknown_qr.take() {
        // A newer version may know it.
        Some(text) => stored.content.qr = QrOptions::of_stored(&text).map_err(corrupt)?,
        // Of one that was not known, versions once had an empty look.
        None => drop(stored.content.qr.take_if(|look| *look == QrOptions::new())),
    }
    Ok(stored)
}

#[derive(FromRow)]
struct LinkRow {
    link: i64,
    link_id: String,
    changed_at: i64,
    content: String,
}

impl LinkRow {
    /// The link as it was.
    fn link(self, tenant: &TenantId) -> Result<Link, DbError> {
        let stored = stored(&self.content, &self.link_id)?;
        let content = stored.content.into_stored();
        let owner_end = content.expires_at;
        let mut link = Link::new(tenant.clone(), self.link_id, content, stored.created_at);
        (link.position, link.claimed, link.made_under) = (self.link, stored.claimed, stored.made_under);
        link.updated_at = Timestamp::from_millis(self.changed_at);
        link.set_ends(owner_end, stored.rule_expires_at);
        Ok(link)
    }
}

/// What a link was before its last change of content that can be undone: aliases that another link has by now are left out.
pub(crate) async fn find_other(
    db: &mut Conn<'_>,
    (tenant, link): (&TenantId, i64),
    content: &NewLink,
) -> Result<Option<Link>, DbError> {
    const SQL: &str = "
        SELECT link, link_id, changed_at, content FROM link_versions WHERE link = $1 ORDER BY version DESC";
    let rows: Vec<LinkRow> = on!(db, c => sqlx::query_as(SQL).bind(link).fetch_all(c).await)?;
    let same = LinkContent::from(content.clone());
    for row in rows {
        let mut found = row.link(tenant)?;
        let aliases = std::mem::take(&mut found.content.aliases);
        found.content.aliases = aliases::available(db, tenant, aliases, &content.aliases).await?;
        // Its ID and its affiliate are no part of that.
        let mut other = LinkContent::from(found.content.clone());
        other.affiliate_id.clone_from(&same.affiliate_id);
        if other != same {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What a link was before one of its changes, by default the last.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    (tenant, link): (&TenantId, i64),
    version: Option<i64>,
) -> Result<Option<Link>, DbError> {
    const SQL: &str = "
        SELECT link, link_id, changed_at, content FROM link_versions
        WHERE link = $1 AND version = COALESCE($2, (SELECT MAX(version) FROM link_versions WHERE link = $1))";
    let row: Option<LinkRow> = on!(db, c => sqlx::query_as(SQL).bind(link).bind(version).fetch_optional(c).await)?;
    row.map(|row| row.link(tenant)).transpose()
}

/// The first moment of deletions that can still be undone.
fn first_gone(now: Timestamp) -> i64 {
    now.plus_days(-DELETED_DAYS).as_millis()
}

/// The position of the link that was last deleted under an id, if it can be restored.
pub(crate) async fn find_deleted(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    now: Timestamp,
) -> Result<Option<i64>, DbError> {
    const SQL: &str = "
        SELECT link FROM link_versions WHERE tenant_id = $1 AND gone_at > $3 AND link_id = $2
        ORDER BY gone_at DESC, link DESC LIMIT 1";
    Ok(on!(db, c => sqlx::query_scalar(SQL)
        .bind(tenant.as_str()).bind(link_id).bind(first_gone(now)).fetch_optional(c).await)?)
}

/// Marks a deleted link as restored. Clicks find its row again under the same position.
pub(crate) async fn bring_back(db: &mut Conn<'_>, link: i64) -> Result<(), DbError> {
    const VERSIONS: &str = "UPDATE link_versions SET gone_at = NULL WHERE link = $1 AND gone_at IS NOT NULL";
    const DELETED: &str = "DELETE FROM deleted_links WHERE position = $1";
    execute!(db, VERSIONS; link)?;
    execute!(db, DELETED; link)?;
    Ok(())
}

/// Deleted links that one statement reads.
const WINDOW: u32 = 200;
/// Most deleted links that one page looks at.
const MAX_LOOKED_AT: u32 = 5_000;

/// Reads deleted links: of those that had one ID the last one, unless a link has it now, as its own or as an alias.
macro_rules! deleted_links {
    ($after:literal, $order:literal) => {
        concat!(
            "SELECT v.link, v.link_id, v.changed_at, v.content FROM link_versions v
            WHERE v.tenant_id = $1 AND v.gone_at > $2 AND ",
            $after,
            " AND NOT EXISTS (SELECT 1 FROM links l
                    WHERE l.tenant_id = $1 AND l.link_id = v.link_id
                        AND (l.deleted_at IS NULL OR l.alias_of IS NOT NULL))
                AND NOT EXISTS (SELECT 1 FROM link_versions later
                    WHERE later.tenant_id = $1 AND later.link_id = v.link_id
                        AND (later.gone_at > v.gone_at OR later.gone_at = v.gone_at AND later.link > v.link))
            ORDER BY ",
            $order,
            " LIMIT $4"
        )
    };
}

/// The next deleted links of a list, up to its limit. An affiliate, who is not shown names and tags, finds nothing by
/// them.
pub(crate) async fn deleted(db: &mut Conn<'_>, list: &ListRequest<'_>) -> Result<Found, DbError> {
    const NEWEST: &str = deleted_links!("v.link < $3", "v.link DESC");
    const OLDEST: &str = deleted_links!("v.link > $3", "v.link");
    let ListRequest { tenant, filter, limit, .. } = *list;
    let (sql, start) = if filter.is_oldest_first() { (OLDEST, i64::MIN) } else { (NEWEST, i64::MAX) };
    let text = filter.q.as_deref().unwrap_or_default().to_lowercase();
    let (mut links, mut after, mut looked_at) = (Vec::new(), list.last.unwrap_or(start), 0);
    loop {
        let rows: Vec<LinkRow> = on!(db, c => sqlx::query_as(sql)
            .bind(tenant.as_str()).bind(first_gone(list.now)).bind(after).bind(i64::from(WINDOW)).fetch_all(c).await)?;
        // A shorter window is the last one.
        let last = rows.last().filter(|_| rows.len() == WINDOW as usize).map(|row| row.link);
        for row in rows {
            let mut link = row.link(tenant)?;
            link.status = Some(LinkStatus::Deleted);
            if list.is_affiliate {
                link.hide_from_affiliate();
            }
            if list.matches(&link, &text) {
                links.push(link);
            }
        }
        looked_at += WINDOW;
        let is_full = links.len() > limit as usize;
        let Some(next) = last.filter(|_| !is_full && looked_at < MAX_LOOKED_AT) else {
            return Ok(Found::of(links, limit, last));
        };
        after = next;
        tokio::task::yield_now().await;
    }
}

/// Deletes the versions of links that can no longer be restored; the last one of a link, which has `gone_at`, at the end.
pub(crate) const EXPIRED: &str = "
    DELETE FROM link_versions WHERE (link, version) IN (
        SELECT v.link, v.version FROM link_versions gone JOIN link_versions v ON v.link = gone.link
        WHERE gone.gone_at <= $1 - 2592000000 ORDER BY gone.gone_at, v.link, v.version LIMIT $2)";
const _: () = assert!(DELETED_DAYS * 86_400_000 == 2_592_000_000, "what EXPIRED says");
