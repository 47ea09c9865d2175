//! Links: rows, and claims of ids on the service's own host. Lists are in `link_list`.

use deeplink_core::destinations::Destinations;
use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::link::{Alias, LinkPatch, LinkStatus, NewLink, alias_set};
use deeplink_core::metadata::Metadata;
use deeplink_core::qr::QrOptions;
use deeplink_core::tag::{Tag, set_of};
use deeplink_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{AssertSqlSafe, FromRow};

use super::link_history::Change;
use super::sets::{padded_texts, placeholders};
use super::{Conn, DbError, aliases, execute, link_history, on, tags};

/// A stored link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) tenant: TenantId,
    pub(crate) link_id: String,
    pub(crate) position: i64,
    pub(crate) claimed: bool,
    pub(crate) made_under: Option<String>,
    /// As its owner set it; its `expires_at` is the owner's.
    pub(crate) content: NewLink,
    /// What the operator and the owner set; `None` if both let it work.
    pub(crate) status: Option<LinkStatus>,
    /// Whether the operator or the threat list flagged or disabled it.
    pub(crate) is_taken_down: bool,
    /// Whether its tenant deleted it after it was taken down: it keeps its id and shows the notice.
    pub(crate) is_deleted: bool,
    /// When it expires: the earlier of the owner's end and that of links without a verified domain.
    pub(crate) expires_at: Option<Timestamp>,
    /// The latter, if the owner set one too.
    pub(crate) rule_expires_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl Link {
    /// A link as it is created, without a position and without an end. Its content says whether it is enabled.
    pub(crate) fn new(tenant: TenantId, link_id: String, content: NewLink, created_at: Timestamp) -> Self {
        Self {
            tenant,
            link_id,
            position: 0,
            claimed: true,
            made_under: None,
            status: content.is_disabled.then_some(LinkStatus::Disabled),
            content,
            is_taken_down: false,
            is_deleted: false,
            expires_at: None,
            rule_expires_at: None,
            created_at,
            updated_at: created_at,
        }
    }

    /// The end of links without a verified domain, if it applies.
    pub(crate) fn rule_end(&self) -> Option<Timestamp> {
        if self.content.expires_at.is_some() { self.rule_expires_at } else { self.expires_at }
    }

    /// Sets both ends.
    pub(crate) fn set_ends(&mut self, owner: Option<Timestamp>, rule: Option<Timestamp>) {
        self.content.expires_at = owner;
        self.expires_at = owner.into_iter().chain(rule).min();
        self.rule_expires_at = owner.and(rule);
    }

    /// Enables or disables it for its owner. The operator's setting takes precedence.
    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        self.content.is_disabled = !enabled;
        if !self.is_taken_down {
            self.status = (!enabled).then_some(LinkStatus::Disabled);
        }
    }

    /// Removes what only its owner may see.
    pub(crate) fn hide_from_affiliate(&mut self) {
        self.content.name = None;
        self.content.tags.clear();
        self.content.imported_clicks = None;
    }

    /// The custom domain in its URL, given the account's primary one; `None`: the service's own host. A link without
    /// the claim on that host keeps the domain that it was made under.
    pub(crate) fn domain<'l>(&'l self, primary: Option<&'l str>) -> Option<&'l str> {
        if self.claimed { primary } else { self.made_under.as_deref().or(primary) }
    }

    /// The status at a time.
    pub(crate) fn status_at(&self, now: Timestamp) -> LinkStatus {
        LinkStatus::at(self.status.as_ref(), self.expires_at, now)
    }
}

/// The columns of a link's URLs.
pub(super) struct UrlColumns(pub(super) Destinations);

impl<'r, R: sqlx::Row> FromRow<'r, R> for UrlColumns
where
    &'static str: sqlx::ColumnIndex<R>,
    Option<String>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Destinations::<()>::default().try_map(|field, ()| row.try_get(field.name)).map(Self)
    }
}

#[derive(FromRow)]
pub(super) struct Row {
    tenant_id: String,
    link_id: String,
    position: i64,
    claimed: bool,
    made_under: Option<String>,
    #[sqlx(flatten)]
    urls: UrlColumns,
    metadata: Option<String>,
    agent_context: Option<String>,
    social_preview: Option<String>,
    affiliate_id: Option<String>,
    status: Option<String>,
    taken_down: bool,
    deleted_at: Option<i64>,
    expires_at: Option<i64>,
    created_at: i64,
    updated_at: i64,
    name: Option<String>,
    enabled: bool,
    owner_expires_at: Option<i64>,
    rule_expires_at: Option<i64>,
    expired_url: Option<String>,
    /// With commas between them.
    tags: Option<String>,
    /// With commas between them.
    aliases: Option<String>,
    /// The position of the link that it is an alias of.
    pub(super) alias_of: Option<i64>,
    qr: Option<String>,
    imported_clicks: Option<i64>,
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
        content.destinations = row.urls.0;
        content.agent_context = json(row.agent_context.as_deref(), "agent_context", id)?;
        content.social_preview = json(row.social_preview.as_deref(), "social_preview", id)?;
        let look = row.qr.as_deref().map(QrOptions::of_stored).transpose().map_err(|_| corrupt("qr"))?;
        content.qr = look.flatten();
        content.metadata = row.metadata.map(Metadata::from_stored);
        content.affiliate_id =
            row.affiliate_id.map(|text| text.parse()).transpose().map_err(|_| corrupt("affiliate_id"))?;
        (content.name, content.expired_url) = (row.name, row.expired_url);
        content.imported_clicks = row.imported_clicks;
        content.is_disabled = !row.enabled;
        content.expires_at = row.owner_expires_at.map(Timestamp::from_millis);
        content.tags =
            set_of(row.tags.iter().flat_map(|tags| tags.split(',')).map(|tag| Tag::of_stored(tag.to_owned())));
        let aliases = row.aliases.iter().flat_map(|aliases| aliases.split(','));
        content.aliases = alias_set(aliases.map(|alias| Alias::of_stored(alias.to_owned())));
        Ok(Self {
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            position: row.position,
            claimed: row.claimed,
            made_under: row.made_under,
            content,
            status: row.status.as_deref().map(LinkStatus::from),
            is_taken_down: row.taken_down,
            is_deleted: row.deleted_at.is_some(),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            rule_expires_at: row.rule_expires_at.map(Timestamp::from_millis),
            created_at: Timestamp::from_millis(row.created_at),
            updated_at: Timestamp::from_millis(row.updated_at),
            link_id: row.link_id,
        })
    }
}

/// The columns of a new link's content.
pub(crate) struct Columns {
    pub(crate) metadata: Option<String>,
    pub(crate) agent_context: Option<String>,
    pub(crate) social_preview: Option<String>,
    pub(crate) qr: Option<String>,
}

impl Columns {
    /// The columns of validated content. Serializing our own types cannot fail; if it did, nothing is stored.
    pub(crate) fn of(content: &NewLink) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("links", column, "new");
        Ok(Self {
            metadata: content.metadata.as_ref().map(|metadata| metadata.as_str().to_owned()),
            agent_context: content.agent_context.as_ref().map(|value| text(value, "agent_context")).transpose()?,
            social_preview: content.social_preview.as_ref().map(|value| text(value, "social_preview")).transpose()?,
            qr: content.qr.as_ref().map(QrOptions::to_stored).transpose().map_err(|_| corrupt("qr"))?,
        })
    }
}

fn text<T: Serialize>(value: &T, column: &'static str) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|_| DbError::corrupt("links", column, "new"))
}

/// The outcome of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The link is stored.
    Yes,
    /// The tenant has a link with this id already, or needs the claim and another tenant has it.
    Taken,
    /// Another node generated the same position in the same millisecond: generate a new one.
    Collided,
}

/// Stores a new link, with the claim on the service's host if that is free. `must_claim` refuses a link that would
/// have no URL without it.
pub(crate) async fn insert(db: &mut Conn<'_>, link: &Link, must_claim: bool) -> Result<Inserted, DbError> {
    const SQL: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, made_under, ios_deep_link, ios_store_url,
            android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id,
            expires_at, created_at, updated_at, name, expired_url, owner_expires_at, rule_expires_at, enabled, status, qr,
            imported_clicks)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16, $17, $18, $19, $20, $21, $22,
            $23, $24)
        ON CONFLICT DO NOTHING";
    let columns = Columns::of(&link.content)?;
    let to = &link.content.destinations;
    let claims: &[bool] = if must_claim { &[true] } else { &[true, false] };
    for claimed in claims {
        let made_under = if *claimed { None } else { link.made_under.as_deref() };
        let stored = execute!(db, SQL;
            link.tenant.as_str(), &link.link_id, link.position, claimed, made_under, to.ios_deep_link.as_deref(),
            to.ios_store_url.as_deref(), to.android_deep_link.as_deref(), to.android_store_url.as_deref(),
            to.web_url.as_deref(), columns.metadata.as_deref(), columns.agent_context.as_deref(),
            columns.social_preview.as_deref(), link.content.affiliate_id.as_ref().map(AffiliateId::as_str),
            link.expires_at.map(Timestamp::as_millis), link.created_at.as_millis(), link.content.name.as_deref(),
            link.content.expired_url.as_deref(), link.content.expires_at.map(Timestamp::as_millis),
            link.rule_expires_at.map(Timestamp::as_millis), !link.content.is_disabled,
            link.status.as_ref().map(LinkStatus::as_str), columns.qr.as_deref(), link.content.imported_clicks)?;
        if stored == 1 {
            return Ok(Inserted::Yes);
        }
    }
    let is_taken = is_taken(db, link.tenant.as_str(), &link.link_id, must_claim).await?;
    Ok(if is_taken { Inserted::Taken } else { Inserted::Collided })
}

/// Whether an id is taken. Two lookups, each on its own index: a single condition would scan the table.
pub(super) const IS_TAKEN: &str = "
    SELECT CASE WHEN EXISTS (SELECT 1 FROM links WHERE tenant_id = $2 AND link_id = $1) THEN TRUE
        WHEN $3 THEN EXISTS (SELECT 1 FROM links WHERE link_id = $1 AND claimed) ELSE FALSE END";

/// Whether an id is taken for this tenant: by its own link or, if the claim is needed, by any claim.
pub(crate) async fn is_taken(
    db: &mut Conn<'_>,
    tenant: &str,
    link_id: &str,
    claim_matters: bool,
) -> Result<bool, DbError> {
    Ok(on!(db, c => sqlx::query_scalar(IS_TAKEN).bind(link_id).bind(tenant).bind(claim_matters).fetch_one(c).await)?)
}

/// A row of a batch that could not be stored.
pub(crate) type TakenRows = Vec<usize>;

/// Stores many links in one statement. Returns the rows (by index) whose id is taken; if there are any,
/// the caller must roll back. All rows have the same tenant and time.
pub(crate) async fn insert_many(db: &mut Conn<'_>, links: &[Link]) -> Result<TakenRows, DbError> {
    // One array per column, which both databases unpack fastest; only the syntax differs.
    let json = serde_json::to_string(&links.iter().map(row_json).collect::<Result<Vec<_>, _>>()?)
        .map_err(|_| DbError::corrupt("links", "batch", "new"))?;
    let Some(first) = links.first() else { return Ok(Vec::new()) };
    const SQLITE: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, ios_deep_link, ios_store_url,
            android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id,
            name, expired_url, expires_at, owner_expires_at, rule_expires_at, enabled, status, qr, imported_clicks,
            created_at, updated_at)
        SELECT $1, value ->> 0, value ->> 1, TRUE, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
            value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14,
            value ->> 15, value ->> 16, value ->> 17, value ->> 18, value ->> 19, $2, $2
        FROM json_each($3) WHERE TRUE
        ON CONFLICT DO NOTHING RETURNING position";
    const POSTGRES: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, ios_deep_link, ios_store_url,
            android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id,
            name, expired_url, expires_at, owner_expires_at, rule_expires_at, enabled, status, qr, imported_clicks,
            created_at, updated_at)
        SELECT $1, value ->> 0, CAST(value ->> 1 AS BIGINT), TRUE, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
            value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12,
            CAST(value ->> 13 AS BIGINT), CAST(value ->> 14 AS BIGINT), CAST(value ->> 15 AS BIGINT),
            CAST(value ->> 16 AS BOOLEAN), value ->> 17, value ->> 18, CAST(value ->> 19 AS BIGINT), $2, $2
        FROM json_array_elements(CAST($3 AS JSON)) AS rows (value)
        ON CONFLICT DO NOTHING RETURNING position";
    let sql = match db {
        Conn::Sqlite(_) => SQLITE,
        Conn::Postgres(_) => POSTGRES,
    };
    let stored: Vec<i64> = on!(db, c => sqlx::query_scalar(sql)
        .bind(first.tenant.as_str()).bind(first.created_at.as_millis()).bind(json)
        .fetch_all(c).await)?;
    if stored.len() == links.len() {
        return Ok(Vec::new());
    }
    let stored: std::collections::HashSet<i64> = stored.into_iter().collect();
    Ok((0..).zip(links).filter(|(_, link)| !stored.contains(&link.position)).map(|(index, _)| index).collect())
}

/// A row of a batch as a JSON array: id, position, the columns of content, the ends, the owner's switch, the status, the
/// look of its QR codes, the imported clicks.
#[derive(Serialize)]
struct BatchRow<'a>(
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
    Option<&'a str>,
    Option<&'a str>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    bool,
    Option<&'a str>,
    Option<String>,
    Option<i64>,
);

fn row_json(link: &Link) -> Result<BatchRow<'_>, DbError> {
    let (content, columns) = (&link.content, Columns::of(&link.content)?);
    let [ios, ios_store, android, android_store, web] = content.destinations.as_deref().into_array();
    let [end, owner, rule] =
        [link.expires_at, content.expires_at, link.rule_expires_at].map(|end| end.map(Timestamp::as_millis));
    Ok(BatchRow(
        &link.link_id,
        link.position,
        ios,
        ios_store,
        android,
        android_store,
        web,
        columns.metadata,
        columns.agent_context,
        columns.social_preview,
        content.affiliate_id.as_ref().map(AffiliateId::as_str),
        content.name.as_deref(),
        content.expired_url.as_deref(),
        end,
        owner,
        rule,
        !content.is_disabled,
        link.status.as_ref().map(LinkStatus::as_str),
        columns.qr,
        content.imported_clicks,
    ))
}

/// Reads the links that match a condition; those for visitors, without their tags, aliases, imported clicks and the look of
/// their QR codes.
macro_rules! select_where {
    ($condition:literal) => {
        select_where!(
            "qr, imported_clicks, (SELECT string_agg(t.tag, ',') FROM link_tags m JOIN tags t ON t.number = m.tag
                WHERE m.link = links.position)",
            "(SELECT string_agg(a.link_id, ',') FROM links a WHERE a.alias_of = links.position)",
            $condition
        )
    };
    (visited: $condition:literal) => {
        select_where!(
            "CAST(NULL AS TEXT) AS qr, CAST(NULL AS BIGINT) AS imported_clicks, CAST(NULL AS TEXT)",
            "CAST(NULL AS TEXT)",
            $condition
        )
    };
    ($tags:literal, $aliases:literal, $condition:literal) => {
        concat!(
            "SELECT tenant_id, link_id, position, claimed, made_under, ios_deep_link, ios_store_url, android_deep_link,
                android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id, status, taken_down,
                deleted_at, expires_at, created_at, updated_at, name, enabled, owner_expires_at, rule_expires_at,
                expired_url, alias_of, ",
            $tags,
            " AS tags, ",
            $aliases,
            " AS aliases FROM links WHERE ",
            $condition
        )
    };
}
pub(super) use select_where;

/// One link of a tenant.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, link_id: &str) -> Result<Option<Link>, DbError> {
    const SQL: &str = select_where!("tenant_id = $1 AND link_id = $2 AND deleted_at IS NULL");
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(link_id).fetch_optional(c).await)?;
    row.map(Link::try_from).transpose()
}

/// Those of these links that exist, up to 100.
pub(crate) async fn find_many(db: &mut Conn<'_>, tenant: &TenantId, ids: &[&str]) -> Result<Vec<Link>, DbError> {
    const FIND: &str = select_where!("tenant_id = $1 AND deleted_at IS NULL AND link_id IN");
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids = padded_texts(ids);
    // Built only from our own text.
    let sql = AssertSqlSafe(format!("{FIND} ({})", placeholders(2, ids.len())));
    let rows: Vec<Row> = on!(db, c => ids.iter().fold(sqlx::query_as(sql).bind(tenant.as_str()), |query, id| query.bind(*id))
        .fetch_all(c).await)?;
    rows.into_iter().map(Link::try_from).collect()
}

/// The links of an account with the IDs in a list that follows. `created_at` is in no index: SQLite would else prefer one that
/// has every column of a statement to that of the IDs, and read all links of the account.
pub(super) const WITH_IDS: &str = "tenant_id = $1 AND deleted_at IS NULL AND created_at >= 0 AND link_id IN";

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
        link_history::record(db, &before, change).await?;
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
    link_history::record(db, &before, change).await?;
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
pub(super) async fn remove(
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
