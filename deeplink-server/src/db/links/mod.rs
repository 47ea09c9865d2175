//! Links: rows, and claims of ids on the service's own host. Lists are in `link_list`.

mod change;
mod insert;

use deeplink_core::destinations::Destinations;
use deeplink_core::id::TenantId;
use deeplink_core::link::{Alias, LinkStatus, NewLink, alias_set};
use deeplink_core::metadata::Metadata;
use deeplink_core::qr::QrOptions;
use deeplink_core::tag::{Tag, set_of};
use deeplink_core::time::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::{AssertSqlSafe, FromRow};

use super::sets::{padded_texts, placeholders};
use super::{Conn, DbError, on};

pub(crate) use change::{Updated, apply, delete, is_hidden, lock_many, store, update};
pub(super) use change::{WITH_IDS, remove};
#[cfg(test)]
pub(super) use insert::IS_TAKEN;
pub(crate) use insert::{Columns, Inserted, insert, insert_many, is_taken};

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
