//! Links in the database: the row, the claim on the service's own host, the list by position.

use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::link::{Destinations, LinkFilter, LinkPatch, LinkStatus, NewLink};
use deeplink_core::metadata::Metadata;
use deeplink_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{FromRow, QueryBuilder};

use super::{Conn, DbError, on};

/// A stored link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) tenant: TenantId,
    pub(crate) link_id: String,
    pub(crate) position: i64,
    pub(crate) claimed: bool,
    pub(crate) made_under: Option<String>,
    pub(crate) content: NewLink,
    pub(crate) status: Option<LinkStatus>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl Link {
    /// The status at a moment.
    pub(crate) fn status_at(&self, now: Timestamp) -> LinkStatus {
        LinkStatus::at(self.status.as_ref(), self.expires_at, now)
    }
}

#[derive(FromRow)]
struct Row {
    tenant_id: String,
    link_id: String,
    position: i64,
    claimed: bool,
    made_under: Option<String>,
    ios_deep_link: Option<String>,
    ios_store_url: Option<String>,
    android_deep_link: Option<String>,
    android_store_url: Option<String>,
    web_url: Option<String>,
    metadata: Option<String>,
    agent_context: Option<String>,
    social_preview: Option<String>,
    affiliate_id: Option<String>,
    status: Option<String>,
    expires_at: Option<i64>,
    created_at: i64,
    updated_at: i64,
}

fn json<T: DeserializeOwned>(text: Option<&str>, column: &'static str, id: &str) -> Result<Option<T>, DbError> {
    text.map(serde_json::from_str).transpose().map_err(|_| DbError::corrupt("links", column, id))
}

impl TryFrom<Row> for Link {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let id = &row.link_id;
        let corrupt = |column| DbError::corrupt("links", column, id);
        let mut content = NewLink::default();
        content.destinations = Destinations {
            ios_deep_link: row.ios_deep_link,
            ios_store_url: row.ios_store_url,
            android_deep_link: row.android_deep_link,
            android_store_url: row.android_store_url,
            web_url: row.web_url,
        };
        content.agent_context = json(row.agent_context.as_deref(), "agent_context", id)?;
        content.social_preview = json(row.social_preview.as_deref(), "social_preview", id)?;
        content.metadata = row.metadata.map(Metadata::from_stored);
        content.affiliate_id =
            row.affiliate_id.map(|text| text.parse()).transpose().map_err(|_| corrupt("affiliate_id"))?;
        Ok(Self {
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            position: row.position,
            claimed: row.claimed,
            made_under: row.made_under,
            content,
            status: row.status.as_deref().map(LinkStatus::from),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            created_at: Timestamp::from_millis(row.created_at),
            updated_at: Timestamp::from_millis(row.updated_at),
            link_id: row.link_id,
        })
    }
}

/// What a new link says, as the columns hold it.
pub(crate) struct Columns {
    pub(crate) metadata: Option<String>,
    pub(crate) agent_context: Option<String>,
    pub(crate) social_preview: Option<String>,
}

impl Columns {
    /// The columns of checked content. JSON of our own types cannot fail to be written; if it did, nothing is stored.
    pub(crate) fn of(content: &NewLink) -> Result<Self, DbError> {
        Ok(Self {
            metadata: content.metadata.as_ref().map(|metadata| metadata.as_str().to_owned()),
            agent_context: content.agent_context.as_ref().map(|value| text(value, "agent_context")).transpose()?,
            social_preview: content.social_preview.as_ref().map(|value| text(value, "social_preview")).transpose()?,
        })
    }
}

fn text<T: Serialize>(value: &T, column: &'static str) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|_| DbError::corrupt("links", column, "new"))
}

/// What became of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is stored.
    Yes,
    /// The tenant uses this id already, or needs the claim and somebody holds it.
    Taken,
    /// Another node drew the same position in the same millisecond: draw again.
    Collided,
}

/// Stores a new link, with the claim on the service's host when nobody holds it. `must_claim` refuses a link that would
/// have no address without it.
pub(crate) async fn insert(db: &mut Conn<'_>, link: &Link, must_claim: bool) -> Result<Inserted, DbError> {
    const SQL: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, made_under, ios_deep_link, ios_store_url,
            android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id,
            expires_at, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16)
        ON CONFLICT DO NOTHING";
    let columns = Columns::of(&link.content)?;
    let to = &link.content.destinations;
    let claims: &[bool] = if must_claim { &[true] } else { &[true, false] };
    for claimed in claims {
        let made_under = if *claimed { None } else { link.made_under.as_deref() };
        let stored = on!(db, c => sqlx::query(SQL)
            .bind(link.tenant.as_str())
            .bind(&link.link_id)
            .bind(link.position)
            .bind(claimed)
            .bind(made_under)
            .bind(to.ios_deep_link.as_deref())
            .bind(to.ios_store_url.as_deref())
            .bind(to.android_deep_link.as_deref())
            .bind(to.android_store_url.as_deref())
            .bind(to.web_url.as_deref())
            .bind(columns.metadata.as_deref())
            .bind(columns.agent_context.as_deref())
            .bind(columns.social_preview.as_deref())
            .bind(link.content.affiliate_id.as_ref().map(AffiliateId::as_str))
            .bind(link.expires_at.map(Timestamp::as_millis))
            .bind(link.created_at.as_millis())
            .execute(c).await.map(|done| done.rows_affected()))?;
        if stored == 1 {
            return Ok(Inserted::Yes);
        }
    }
    if is_taken(db, link.tenant.as_str(), &link.link_id, must_claim).await? {
        Ok(Inserted::Taken)
    } else {
        Ok(Inserted::Collided)
    }
}

/// Whether an id is taken. Two look-ups, each on its own index: as one condition they would scan the table.
pub(super) const HOLDS: &str = "
    SELECT CASE WHEN EXISTS (SELECT 1 FROM links WHERE tenant_id = $2 AND link_id = $1) THEN TRUE
        WHEN $3 THEN EXISTS (SELECT 1 FROM links WHERE link_id = $1 AND claimed) ELSE FALSE END";

/// Whether an id cannot be given to a link of this tenant: it has it, or, where the claim matters, somebody holds it.
pub(crate) async fn is_taken(
    db: &mut Conn<'_>,
    tenant: &str,
    link_id: &str,
    claim_matters: bool,
) -> Result<bool, DbError> {
    Ok(on!(db, c => sqlx::query_scalar(HOLDS).bind(link_id).bind(tenant).bind(claim_matters).fetch_one(c).await)?)
}

/// A row of a batch that could not be stored.
pub(crate) type TakenRows = Vec<usize>;

/// Stores many links in one statement. The result lists the rows (by index) whose id is taken; when it is not empty
/// the caller must undo the transaction. All rows share tenant and time.
pub(crate) async fn insert_many(db: &mut Conn<'_>, links: &[Link]) -> Result<TakenRows, DbError> {
    // One array a column, because that is what both databases unpack fastest; the statements differ in how.
    let json = serde_json::to_string(&links.iter().map(row_json).collect::<Result<Vec<_>, _>>()?)
        .map_err(|_| DbError::corrupt("links", "batch", "new"))?;
    let Some(first) = links.first() else { return Ok(Vec::new()) };
    const SQLITE: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, ios_deep_link, ios_store_url,
            android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id,
            expires_at, created_at, updated_at)
        SELECT $1, value ->> 0, value ->> 1, TRUE, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
            value ->> 7, value ->> 8, value ->> 9, value ->> 10, $2, $3, $3
        FROM json_each($4) WHERE TRUE
        ON CONFLICT DO NOTHING RETURNING position";
    const POSTGRES: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, ios_deep_link, ios_store_url,
            android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id,
            expires_at, created_at, updated_at)
        SELECT $1, value ->> 0, CAST(value ->> 1 AS BIGINT), TRUE, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
            value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, $2, $3, $3
        FROM json_array_elements(CAST($4 AS JSON)) AS rows (value)
        ON CONFLICT DO NOTHING RETURNING position";
    let expires_at = first.expires_at.map(Timestamp::as_millis);
    let created_at = first.created_at.as_millis();
    let stored: Vec<i64> = match db {
        Conn::Sqlite(conn) => {
            sqlx::query_scalar(SQLITE)
                .bind(first.tenant.as_str())
                .bind(expires_at)
                .bind(created_at)
                .bind(json)
                .fetch_all(&mut **conn)
                .await?
        }
        Conn::Postgres(conn) => {
            sqlx::query_scalar(POSTGRES)
                .bind(first.tenant.as_str())
                .bind(expires_at)
                .bind(created_at)
                .bind(json)
                .fetch_all(&mut **conn)
                .await?
        }
    };
    if stored.len() == links.len() {
        return Ok(Vec::new());
    }
    let stored: std::collections::HashSet<i64> = stored.into_iter().collect();
    Ok((0..).zip(links).filter(|(_, link)| !stored.contains(&link.position)).map(|(index, _)| index).collect())
}

type RowJson<'a> = (
    &'a str,
    i64,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<&'a str>,
);

fn row_json(link: &Link) -> Result<RowJson<'_>, DbError> {
    let columns = Columns::of(&link.content)?;
    let to = &link.content.destinations;
    Ok((
        &link.link_id,
        link.position,
        to.ios_deep_link.as_deref(),
        to.ios_store_url.as_deref(),
        to.android_deep_link.as_deref(),
        to.android_store_url.as_deref(),
        to.web_url.as_deref(),
        columns.metadata,
        columns.agent_context,
        columns.social_preview,
        link.content.affiliate_id.as_ref().map(AffiliateId::as_str),
    ))
}

const COLUMNS: &str = "tenant_id, link_id, position, claimed, made_under, ios_deep_link, ios_store_url, \
    android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id, status, \
    expires_at, created_at, updated_at";

/// One link of a tenant.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, link_id: &str) -> Result<Option<Link>, DbError> {
    const SQL: &str = "
        SELECT tenant_id, link_id, position, claimed, made_under, ios_deep_link, ios_store_url, android_deep_link,
            android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id, status, expires_at,
            created_at, updated_at
        FROM links WHERE tenant_id = $1 AND link_id = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(link_id).fetch_optional(c).await)?;
    row.map(Link::try_from).transpose()
}

/// The link that holds an id on the service's own host.
pub(crate) async fn find_claimed(db: &mut Conn<'_>, link_id: &str) -> Result<Option<Link>, DbError> {
    const SQL: &str = "
        SELECT tenant_id, link_id, position, claimed, made_under, ios_deep_link, ios_store_url, android_deep_link,
            android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id, status, expires_at,
            created_at, updated_at
        FROM links WHERE link_id = $1 AND claimed";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(link_id).fetch_optional(c).await)?;
    row.map(Link::try_from).transpose()
}

/// Up to `limit` links of a tenant that pass the filter, newest first, that are older than `before`.
pub(crate) async fn list(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    filter: &LinkFilter,
    before: Option<i64>,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Link>, DbError> {
    let rows: Vec<Row> = match db {
        Conn::Sqlite(conn) => {
            list_query(tenant, filter, before, limit, now).build_query_as().fetch_all(&mut **conn).await?
        }
        Conn::Postgres(conn) => {
            list_query(tenant, filter, before, limit, now).build_query_as().fetch_all(&mut **conn).await?
        }
    };
    rows.into_iter().map(Link::try_from).collect()
}

fn list_query<DB: sqlx::Database>(
    tenant: &TenantId,
    filter: &LinkFilter,
    before: Option<i64>,
    limit: u32,
    now: Timestamp,
) -> QueryBuilder<DB>
where
    String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
{
    let mut query = QueryBuilder::new("SELECT ");
    query.push(COLUMNS).push(" FROM links WHERE tenant_id = ").push_bind(tenant.as_str().to_owned());
    if let Some(before) = before {
        query.push(" AND position < ").push_bind(before);
    }
    if let Some(affiliate) = &filter.affiliate_id {
        query.push(" AND affiliate_id = ").push_bind(affiliate.clone());
    }
    match &filter.status {
        None => {}
        Some(LinkStatus::Active) => {
            query.push(" AND status IS NULL AND (expires_at IS NULL OR expires_at > ");
            query.push_bind(now.as_millis()).push(")");
        }
        Some(LinkStatus::Expired) => {
            query.push(" AND status IS NULL AND expires_at <= ").push_bind(now.as_millis());
        }
        Some(set) => {
            query.push(" AND status = ").push_bind(set.as_str().to_owned());
        }
    }
    if let Some(after) = filter.created_after {
        query.push(" AND created_at > ").push_bind(after.as_millis());
    }
    if let Some(before) = filter.created_before {
        query.push(" AND created_at < ").push_bind(before.as_millis());
    }
    if let Some(prefix) = filter.q.as_deref().filter(|prefix| !prefix.is_empty()) {
        query.push(" AND link_id >= ").push_bind(prefix.to_owned());
        if let Some(end) = after_prefix(prefix) {
            query.push(" AND link_id < ").push_bind(end);
        }
    }
    query.push(" ORDER BY position DESC LIMIT ").push_bind(i64::from(limit));
    query
}

/// The first text that sorts after everything that starts with `prefix`, in byte order.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // The surrogates are no characters, so the one after U+D7FF is U+E000.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

/// Changes what a patch names; `None` when the link is gone.
pub(crate) async fn update(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    patch: &LinkPatch,
    now: Timestamp,
) -> Result<Option<Link>, DbError> {
    const SQL: &str = "
        UPDATE links SET ios_deep_link = $3, ios_store_url = $4, android_deep_link = $5, android_store_url = $6,
            web_url = $7, metadata = $8, agent_context = $9, social_preview = $10, updated_at = $11
        WHERE tenant_id = $1 AND link_id = $2";
    // Holds the row on PostgreSQL, so that two updates of different fields cannot undo each other.
    const HOLD: &str = "UPDATE links SET updated_at = $3 WHERE tenant_id = $1 AND link_id = $2";
    let held = on!(db, c => sqlx::query(HOLD).bind(tenant.as_str()).bind(link_id).bind(now.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    if held == 0 {
        return Ok(None);
    }
    let Some(mut link) = find(db, tenant, link_id).await? else { return Ok(None) };
    let patch = patch.clone();
    let to = &mut link.content.destinations;
    patch.ios_deep_link.apply(&mut to.ios_deep_link);
    patch.ios_store_url.apply(&mut to.ios_store_url);
    patch.android_deep_link.apply(&mut to.android_deep_link);
    patch.android_store_url.apply(&mut to.android_store_url);
    patch.web_url.apply(&mut to.web_url);
    patch.metadata.apply(&mut link.content.metadata);
    patch.agent_context.apply(&mut link.content.agent_context);
    patch.social_preview.apply(&mut link.content.social_preview);
    link.updated_at = now;
    let columns = Columns::of(&link.content)?;
    let to = &link.content.destinations;
    on!(db, c => sqlx::query(SQL)
        .bind(tenant.as_str())
        .bind(link_id)
        .bind(to.ios_deep_link.as_deref())
        .bind(to.ios_store_url.as_deref())
        .bind(to.android_deep_link.as_deref())
        .bind(to.android_store_url.as_deref())
        .bind(to.web_url.as_deref())
        .bind(columns.metadata.as_deref())
        .bind(columns.agent_context.as_deref())
        .bind(columns.social_preview.as_deref())
        .bind(now.as_millis())
        .execute(c).await.map(|_| ()))?;
    Ok(Some(link))
}

/// Deletes a link; its clicks stay countable under its position, and what it leads to later is still its affiliate's. `false`
/// when it is gone already.
pub(crate) async fn delete(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_id: &str,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "DELETE FROM links WHERE tenant_id = $1 AND link_id = $2 RETURNING position, affiliate_id";
    const KEEP: &str = "
        INSERT INTO deleted_links (position, tenant_id, link_id, deleted_at, affiliate_id) VALUES ($1, $2, $3, $4, $5)";
    let gone: Option<(i64, Option<String>)> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(link_id).fetch_optional(c).await)?;
    let Some((position, affiliate)) = gone else { return Ok(false) };
    on!(db, c => sqlx::query(KEEP)
        .bind(position).bind(tenant.as_str()).bind(link_id).bind(now.as_millis()).bind(affiliate.as_deref())
        .execute(c).await.map(|_| ()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_bounds_of_a_prefix_hold_exactly_what_starts_with_it(prefix in ".{1,4}", other in ".{0,6}") {
            let end = after_prefix(&prefix);
            let inside = other.as_str() >= prefix.as_str() && end.as_deref().is_none_or(|end| other.as_str() < end);
            proptest::prop_assert_eq!(inside, other.starts_with(&prefix));
        }
    }
}
