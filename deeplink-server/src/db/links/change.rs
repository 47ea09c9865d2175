//! Changes and deletions of links.

use deeplink_core::id::TenantId;
use deeplink_core::link::{LinkPatch, LinkStatus};
use deeplink_core::time::Timestamp;
use sqlx::AssertSqlSafe;

use super::super::link_history::Change;
use super::super::sets::{padded_texts, placeholders};
use super::super::{Conn, DbError, aliases, execute, link_history, on, tags};
use super::{Columns, Link, find};

/// The links of an account with the IDs in a list that follows. `created_at` is in no index: SQLite would else prefer one that
/// has every column of a statement to that of the IDs, and read all links of the account.
pub(in crate::db) const WITH_IDS: &str = "tenant_id = $1 AND deleted_at IS NULL AND created_at >= 0 AND link_id IN";

/// Locks the rows of these links, up to 100, so that no update of one comes between, and marks them as changed. The caller has
/// locked the account.
pub(crate) async fn lock_many(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    ids: &[&str],
    now: Timestamp,
) -> Result<(), DbError> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids = padded_texts(ids);
    // Built only from our own text.
    let sql =
        AssertSqlSafe(format!("UPDATE links SET updated_at = $2 WHERE {WITH_IDS} ({})", placeholders(3, ids.len())));
    on!(db, c => ids.iter().fold(sqlx::query(sql).bind(tenant.as_str()).bind(now.as_millis()), |query, id| query.bind(*id))
        .execute(c).await.map(drop))?;
    Ok(())
}

/// The outcome of an update.
#[derive(Debug)]
pub(crate) enum Updated {
    /// The link as it is now.
    Link(Box<Link>),
    /// There is no such link.
    NoLink,
    /// The operator has disabled it, so the owner cannot change this field.
    TakenDown(&'static str),
}

/// Applies a patch.
pub(crate) async fn update(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    patch: &LinkPatch,
    change: &Change,
) -> Result<Updated, DbError> {
    let Some(before) = find_locked(db, tenant, link_id, change.at).await? else { return Ok(Updated::NoLink) };
    if patch.enabled == Some(true) && before.is_taken_down {
        return Ok(Updated::TakenDown("enabled"));
    }
    let is_renamed = patch.aliases.as_ref().is_some_and(|aliases| *aliases != before.content.aliases);
    // Its other addresses show the notice, too, and none of them is to be free for another link.
    if is_renamed && before.is_taken_down {
        return Ok(Updated::TakenDown("aliases"));
    }
    let mut link = before.clone();
    apply(patch.clone(), &mut link);
    link.updated_at = change.at;
    let is_retagged = patch.tags.as_ref().is_some_and(|tags| *tags != before.content.tags);
    if is_retagged || is_renamed || link.content != before.content {
        link_history::record(db, std::slice::from_ref(&before), change).await?;
    }
    store(db, &link).await?;
    Ok(Updated::Link(Box::new(link)))
}

/// One link of a tenant. Locks its row on PostgreSQL, so that two changes cannot overwrite each other, and marks it as
/// changed.
async fn find_locked(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    now: Timestamp,
) -> Result<Option<Link>, DbError> {
    const LOCK: &str = "
        UPDATE links SET updated_at = $3 WHERE tenant_id = $1 AND link_id = $2 AND deleted_at IS NULL";
    let locked = execute!(db, LOCK; tenant.as_str(), link_id, now.as_millis())?;
    if locked == 0 { Ok(None) } else { find(db, tenant, link_id).await }
}

/// Stores a link whose row is locked, except for its tags and aliases.
pub(crate) async fn store(db: &mut Conn<'_>, link: &Link) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE links SET ios_deep_link = $3, ios_store_url = $4, android_deep_link = $5, android_store_url = $6,
            web_url = $7, metadata = $8, agent_context = $9, social_preview = $10, updated_at = $11, name = $12,
            expired_url = $13, expires_at = $14, owner_expires_at = $15, rule_expires_at = $16, enabled = $17,
            status = $18, qr = $19, imported_clicks = $20
        WHERE tenant_id = $1 AND link_id = $2";
    let (content, columns) = (&link.content, Columns::of(&link.content)?);
    let to = &content.destinations;
    execute!(db, SQL;
        link.tenant.as_str(), link.link_id.as_str(), to.ios_deep_link.as_deref(), to.ios_store_url.as_deref(),
        to.android_deep_link.as_deref(), to.android_store_url.as_deref(), to.web_url.as_deref(),
        columns.metadata.as_deref(), columns.agent_context.as_deref(), columns.social_preview.as_deref(),
        link.updated_at.as_millis(), content.name.as_deref(), content.expired_url.as_deref(),
        link.expires_at.map(Timestamp::as_millis), content.expires_at.map(Timestamp::as_millis),
        link.rule_expires_at.map(Timestamp::as_millis), !content.is_disabled,
        link.status.as_ref().map(LinkStatus::as_str), columns.qr.as_deref(), content.imported_clicks)?;
    Ok(())
}

/// Applies a patch to a link, except for its tags and aliases.
pub(crate) fn apply(patch: LinkPatch, link: &mut Link) {
    let stored = link.content.destinations.as_mut().into_array();
    for (change, stored) in patch.destinations.into_array().into_iter().zip(stored) {
        change.apply(stored);
    }
    patch.metadata.apply(&mut link.content.metadata);
    patch.agent_context.apply(&mut link.content.agent_context);
    patch.social_preview.apply(&mut link.content.social_preview);
    patch.name.apply(&mut link.content.name);
    patch.expired_url.apply(&mut link.content.expired_url);
    patch.imported_clicks.apply(&mut link.content.imported_clicks);
    patch.qr.apply(&mut link.content.qr);
    let (mut owner, rule) = (link.content.expires_at, link.rule_end());
    patch.expires_at.apply(&mut owner);
    link.set_ends(owner, rule);
    if let Some(enabled) = patch.enabled {
        link.set_enabled(enabled);
    }
}

/// Whether a link was taken down and then deleted, so that it keeps its ID.
pub(crate) async fn is_hidden(db: &mut Conn<'_>, tenant: &TenantId, link_id: &str) -> Result<bool, DbError> {
    const SQL: &str = "
        SELECT EXISTS (SELECT 1 FROM links
            WHERE tenant_id = $1 AND link_id = $2 AND deleted_at IS NOT NULL AND alias_of IS NULL)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(link_id).fetch_one(c).await)?)
}

/// Deletes a link. Its clicks stay counted under its position, and later conversions are still credited to its
/// affiliate. A link that was taken down keeps its row and its id, which only an operator can free. `false` if it does
/// not exist. The caller has locked the account, so the link cannot be enabled meanwhile.
pub(crate) async fn delete(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    change: &Change,
) -> Result<bool, DbError> {
    const HIDE: &str = "
        UPDATE links SET deleted_at = $3
        WHERE tenant_id = $1 AND link_id = $2 AND taken_down AND deleted_at IS NULL RETURNING position";
    let Some(before) = find_locked(db, tenant, link_id, change.at).await? else { return Ok(false) };
    link_history::record(db, std::slice::from_ref(&before), change).await?;
    let now = change.at;
    // The guard on `taken_down` settles a race with flagging: PostgreSQL checks it again after waiting for the row's lock.
    if remove(db, tenant, link_id, now).await? {
        return Ok(true);
    }
    let hidden: Option<i64> = on!(db, c => sqlx::query_scalar(HIDE)
        .bind(tenant.as_str()).bind(link_id).bind(now.as_millis()).fetch_optional(c).await)?;
    let Some(position) = hidden else { return Ok(false) };
    tags::take(db, position).await?;
    Ok(true)
}

/// Removes the row of a link that is not taken down. The caller has locked the account.
pub(in crate::db) async fn remove(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "
        DELETE FROM links WHERE tenant_id = $1 AND link_id = $2 AND NOT taken_down AND alias_of IS NULL
        RETURNING position, affiliate_id, EXISTS (SELECT 1 FROM link_tags m WHERE m.link = position),
            EXISTS (SELECT 1 FROM links a WHERE a.alias_of = links.position)";
    const KEEP: &str = "
        INSERT INTO deleted_links (position, tenant_id, link_id, deleted_at, affiliate_id) VALUES ($1, $2, $3, $4, $5)";
    let gone: Option<(i64, Option<String>, bool, bool)> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(link_id).fetch_optional(c).await)?;
    let Some((position, affiliate, has_tags, has_aliases)) = gone else { return Ok(false) };
    execute!(db, KEEP; position, tenant.as_str(), link_id, now.as_millis(), affiliate.as_deref())?;
    if has_tags {
        tags::take(db, position).await?;
    }
    if has_aliases {
        aliases::take_all(db, position).await?;
    }
    Ok(true)
}
