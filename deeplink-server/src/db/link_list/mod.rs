//! Lists of links, by creation. Filters are evaluated on index entries, and rows are read only for the page; filters
//! that need more than that are evaluated by a search.

use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::link::{LinkFilter, LinkStatus};
use deeplink_core::time::Timestamp;
use sqlx::QueryBuilder;

use super::link_search::contains;
use super::links::{Link, Row, select_where};
use super::sets::padded;
use super::{Conn, DbError, on, tags};

/// Bits of a position below its milliseconds.
pub(crate) const POSITION_BITS: u32 = 21;

/// The columns that a search looks at, besides tags and aliases.
const SEARCHED: [&str; 10] = [
    "link_id",
    "name",
    "web_url",
    "ios_deep_link",
    "android_deep_link",
    "ios_store_url",
    "android_store_url",
    "expired_url",
    "social_preview",
    "metadata",
];

/// The first position of a millisecond, saturating if that is too early or late to have one.
fn first_of(millis: i64) -> i64 {
    millis.saturating_mul(1 << POSITION_BITS)
}

/// A part of a list.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) links: Vec<Link>,
    /// The position after which, in the order of the list, to go on; `None` at the end.
    pub(crate) stopped_at: Option<i64>,
}

impl Found {
    /// The first `limit` of these links; if there are no more of them, the list goes on after `stopped_at`.
    pub(super) fn of(mut links: Vec<Link>, limit: u32, stopped_at: Option<i64>) -> Self {
        let limit = limit as usize;
        let is_full = links.len() > limit;
        links.truncate(limit);
        let stopped_at = if is_full { links.last().map(|link| link.position) } else { stopped_at };
        Self { links, stopped_at }
    }
}

/// Which links are listed, and to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListRequest<'a> {
    pub(crate) tenant: &'a TenantId,
    /// Whether an affiliate asks, who is not shown names and tags.
    pub(crate) is_affiliate: bool,
    pub(crate) filter: &'a LinkFilter,
    /// The host in the URLs of links without one of their own.
    pub(crate) default_host: &'a str,
    /// The position of the last link that was looked at; `None` at the start of the list.
    pub(crate) last: Option<i64>,
    pub(crate) limit: u32,
    pub(crate) now: Timestamp,
}

impl ListRequest<'_> {
    /// Whether a link, without what is hidden, matches the filter and contains this lowercase text.
    pub(crate) fn matches(&self, link: &Link, text: &str) -> bool {
        let (filter, content) = (self.filter, &link.content);
        let is_of = |affiliate: &String| content.affiliate_id.as_ref().is_some_and(|id| id.as_str() == affiliate);
        let has = |key: &String| content.tags.iter().any(|tag| tag.key() == key);
        filter.affiliate_id.as_ref().is_none_or(is_of)
            && filter.status.as_ref().is_none_or(|status| *status == link.status_at(self.now))
            && filter.enabled.is_none_or(|enabled| enabled != content.is_disabled)
            && filter.domain.as_deref().is_none_or(|host| link.domain(Some(self.default_host)) == Some(host))
            && filter.created_after.is_none_or(|moment| link.created_at > moment)
            && filter.created_before.is_none_or(|moment| link.created_at < moment)
            && filter.id_prefix.as_ref().is_none_or(|prefix| link.link_id.starts_with(prefix))
            && filter.tags.iter().all(has)
            && contains(link, text)
    }
}

/// The next links of a list, up to its limit, for a filter that needs no search. The creation time is taken from the
/// position: on a node whose clock was set back, that is the later of the two times.
pub(crate) async fn page(db: &mut Conn<'_>, list: &ListRequest<'_>) -> Result<Found, DbError> {
    let ListRequest { tenant, filter, last, limit, .. } = *list;
    let Some(tags) = tags::filtered(db, tenant, &filter.tags).await? else { return Ok(Found::default()) };
    // One more than requested tells whether there is a next page.
    let window = Window { list, tags: &tags, last, until: None, limit: limit + 1 };
    let rows: Vec<Row> = on!(db, c => window.query("", None).build_query_as().fetch_all(c).await)?;
    let links = rows.into_iter().map(Link::try_from).collect::<Result<_, _>>()?;
    Ok(Found::of(links, limit, None))
}

/// The positions of an affiliate's newest links, at most `limit`.
pub(crate) async fn positions_of(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    affiliate: &AffiliateId,
    limit: i64,
) -> Result<Vec<i64>, DbError> {
    const SQL: &str = "
        SELECT position FROM links WHERE affiliate_id = $2 AND tenant_id = $1 AND deleted_at IS NULL
        ORDER BY position DESC LIMIT $3";
    Ok(on!(db, c => sqlx::query_scalar(SQL)
        .bind(tenant.as_str()).bind(affiliate.as_str()).bind(limit).fetch_all(c).await)?)
}

/// The links of a list that one statement reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) list: &'a ListRequest<'a>,
    /// The numbers of the filter's tags; the list is read from the links that have the first.
    pub(super) tags: &'a [i64],
    /// The position after which it begins, in the order of the list.
    pub(super) last: Option<i64>,
    /// The position that it ends with; `None`: at the end of the list.
    pub(super) until: Option<i64>,
    pub(super) limit: u32,
}

impl Window<'_> {
    /// The statement that reads the rows, after `prefix`: those that the filter lets pass and, if there is a pattern,
    /// that have a text like it or one of these tags.
    pub(super) fn query<DB: sqlx::Database>(&self, prefix: &str, pattern: Option<(&str, &[i64])>) -> QueryBuilder<DB>
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        // A subquery for the positions, so that an index alone answers it.
        let mut query = QueryBuilder::new(format!("{prefix}{}", select_where!("position IN (")));
        let position = self.push_positions(&mut query);
        self.push_row_filters(&mut query);
        self.push_order(&mut query, position);
        query.push(" LIMIT ").push_bind(i64::from(self.limit)).push(")");
        if let Some((pattern, tags)) = pattern {
            let like = if DB::NAME == "SQLite" { "LIKE" } else { "ILIKE" };
            for (at, column) in SEARCHED.into_iter().enumerate() {
                query.push(if at == 0 { " AND (" } else { " OR " }).push(column).push(" ").push(like).push(" ");
                query.push_bind(pattern.to_owned()).push(r" ESCAPE '\'");
            }
            query.push(" OR EXISTS (SELECT 1 FROM links a WHERE a.alias_of = links.position AND a.link_id ");
            query.push(like).push(" ").push_bind(pattern.to_owned()).push(r" ESCAPE '\')");
            if !tags.is_empty() {
                query.push(" OR EXISTS (SELECT 1 FROM link_tags m WHERE m.link = links.position AND m.tag IN (");
                let mut list = query.separated(", ");
                for number in padded(tags) {
                    list.push_bind(number);
                }
                list.push_unseparated("))");
            }
            query.push(")");
        }
        query.push(" ORDER BY position ").push(self.direction());
        query
    }

    /// The statement that finds the position of the last link, if there are as many as `limit`, before filters on rows.
    pub(super) fn end<DB: sqlx::Database>(&self) -> QueryBuilder<DB>
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let mut query = QueryBuilder::new("");
        let position = self.push_positions(&mut query);
        self.push_order(&mut query, position);
        query.push(" LIMIT 1 OFFSET ").push_bind(i64::from(self.limit) - 1);
        query
    }

    /// The positions of the links that pass the filters on index entries. Returns the column that has them.
    fn push_positions<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>) -> &'static str
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let filter = self.list.filter;
        let position = self.push_source(query);
        if let Some(affiliate) = &filter.affiliate_id {
            query.push(" AND affiliate_id = ").push_bind(affiliate.clone());
        }
        self.push_bounds(query, position);
        self.push_status(query);
        if let Some(prefix) = filter.id_prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            query.push(" AND link_id >= ").push_bind(prefix.to_owned());
            if let Some(end) = after_prefix(prefix) {
                query.push(" AND link_id < ").push_bind(end);
            }
        }
        position
    }

    /// The filters on columns that no index has.
    fn push_row_filters<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>)
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        // PostgreSQL would find positions by them, among those of all accounts; it does not with a subquery for each row.
        const IN_ROW: [&str; 2] = ["(SELECT ", " FROM links r WHERE r.position = links.position)"];
        let [row, end] = if DB::NAME == "SQLite" { ["(", ")"] } else { IN_ROW };
        if let Some(enabled) = self.list.filter.enabled {
            // A link without a status is enabled: rows are read only for index entries with one.
            let [entry, of] =
                if enabled { ["status IS NULL OR ", "enabled"] } else { ["status IS NOT NULL AND ", "NOT enabled"] };
            query.push(" AND (").push(entry).push(row).push(of).push(end).push(")");
        }
        if let Some(host) = &self.list.filter.domain {
            // As `Link::domain` has it.
            let is_default = host == self.list.default_host;
            let of = if is_default { "claimed OR made_under IS NULL OR" } else { "NOT claimed AND" };
            query.push(" AND ").push(row).push(of).push(" made_under = ").push_bind(host.clone()).push(end);
        }
    }

    fn push_order<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>, position: &str) {
        query.push(" ORDER BY ").push(position).push(" ").push(self.direction());
    }

    fn direction(&self) -> &'static str {
        if self.list.filter.is_oldest_first() { "ASC" } else { "DESC" }
    }

    /// What the list is read from, in the order of positions: all links of the tenant, or those with a tag. Returns the column
    /// that has the position.
    fn push_source<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>) -> &'static str
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let tenant = self.list.tenant.as_str();
        let Some((tag, others)) = self.tags.split_first() else {
            query.push("SELECT position FROM links WHERE deleted_at IS NULL AND tenant_id = ");
            query.push_bind(tenant.to_owned());
            return "position";
        };
        let LinkFilter { affiliate_id, status, enabled, domain, id_prefix, .. } = self.list.filter;
        let is_all = affiliate_id.is_none() && status.is_none() && id_prefix.is_none();
        if is_all && enabled.is_none() && domain.is_none() {
            query.push("SELECT has.link FROM link_tags has WHERE has.tag = ").push_bind(*tag);
        } else {
            // The order of a cross join is that of SQLite's loops.
            query.push(
                "SELECT has.link FROM link_tags has CROSS JOIN links WHERE links.position = has.link AND has.tag = ",
            );
            query.push_bind(*tag).push(" AND deleted_at IS NULL AND tenant_id = ");
            query.push_bind(tenant.to_owned());
        }
        for other in others {
            query.push(" AND EXISTS (SELECT 1 FROM link_tags o WHERE o.link = has.link AND o.tag = ");
            query.push_bind(*other).push(")");
        }
        "has.link"
    }

    fn push_bounds<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>, position: &str)
    where
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let filter = self.list.filter;
        let next = |position: i64| position.saturating_add(1);
        let [from, end] = if filter.is_oldest_first() {
            [self.last.map(next), self.until.map(next)]
        } else {
            [self.until, self.last]
        };
        let created_after = filter.created_after.map(|moment| first_of(moment.as_millis().saturating_add(1)));
        let created_before = filter.created_before.map(|moment| first_of(moment.as_millis()));
        if let Some(from) = from.max(created_after) {
            query.push(" AND ").push(position).push(" >= ").push_bind(from);
        }
        if let Some(end) = end.into_iter().chain(created_before).min() {
            query.push(" AND ").push(position).push(" < ").push_bind(end);
        }
    }

    fn push_status<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>)
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let now = self.list.now.as_millis();
        match &self.list.filter.status {
            None => query,
            Some(LinkStatus::Active) => {
                query.push(" AND status IS NULL AND (expires_at IS NULL OR expires_at > ").push_bind(now).push(")")
            }
            Some(LinkStatus::Expired) => query.push(" AND status IS NULL AND expires_at <= ").push_bind(now),
            Some(set) => query.push(" AND status = ").push_bind(set.as_str().to_owned()),
        };
    }
}

/// The first text in byte order after all texts that start with `prefix`.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Surrogates are not characters, so U+D7FF is followed by U+E000.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests;
