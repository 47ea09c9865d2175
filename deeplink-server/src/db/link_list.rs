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

/// The columns that a search looks at.
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
    /// Whether a link, without what is hidden, matches the filter and contains this lowercase text. Its status is not
    /// compared.
    pub(crate) fn matches(&self, link: &Link, text: &str) -> bool {
        let (filter, content) = (self.filter, &link.content);
        let is_of = |affiliate: &String| content.affiliate_id.as_ref().is_some_and(|id| id.as_str() == affiliate);
        let has = |key: &String| content.tags.iter().any(|tag| tag.key() == key);
        filter.affiliate_id.as_ref().is_none_or(is_of)
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
        self.push_end(&mut query, position);
        query.push(")");
        if let Some((pattern, tags)) = pattern {
            let like = if DB::NAME == "SQLite" { "LIKE" } else { "ILIKE" };
            for (at, column) in SEARCHED.into_iter().enumerate() {
                query.push(if at == 0 { " AND (" } else { " OR " }).push(column).push(" ").push(like).push(" ");
                query.push_bind(pattern.to_owned()).push(r" ESCAPE '\'");
            }
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
        self.push_end(&mut query, position);
        query.push(" OFFSET ").push_bind(i64::from(self.limit) - 1);
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

    fn push_end<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>, position: &str)
    where
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        query.push(" ORDER BY ").push(position).push(" ").push(self.direction());
        query.push(" LIMIT ").push_bind(i64::from(self.limit));
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
mod tests {
    use deeplink_core::id::AffiliateId;
    use deeplink_core::link::LinkSort;
    use deeplink_core::secret::Random;
    use sqlx::{Connection, PgConnection};

    use super::*;
    use crate::db::tests::{Scratch, now};

    /// List filters use an index or bounds on `position`: no filter, alone or with an affiliate, reads a row that is
    /// not on the page.
    #[tokio::test]
    async fn r3_filters_are_answered_by_indexes() {
        let scratch = Scratch::new().await;
        let tenant = scratch.tenant("a@example.com").await;
        let other = scratch.tenant("b@example.com").await;
        let affiliate = AffiliateId::new(now(), &mut Random::system());
        // Enough rows for PostgreSQL to prefer an index: a quarter are the account's, except for a gap in the middle, and
        // half of those the affiliate's.
        scratch
            .execute(format!(
                "INSERT INTO affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)
                 VALUES ('{affiliate}', '{tenant}', 'Partner', 'partner', 'active', 0, 0)"
            ))
            .await;
        scratch
            .execute(format!(
                "WITH RECURSIVE numbers (number) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT number + 1 FROM numbers WHERE number < 40000)
                 INSERT INTO links (tenant_id, link_id, position, claimed, metadata, affiliate_id, status, expires_at, created_at, updated_at)
                 SELECT CASE WHEN {is_outside} AND number % 4 = 0 THEN '{tenant}' ELSE '{other}' END, 'link-' || number, {from} + number * {millisecond}, TRUE,
                    'a text that makes a row longer than its entry in an index',
                    CASE WHEN {is_outside} AND number % 8 = 0 THEN '{affiliate}' END, CASE WHEN number % 400 = 0 THEN 'flagged' END,
                    CASE WHEN number % 3 = 0 THEN number END, 0, 0 FROM numbers",
                is_outside = "number NOT BETWEEN 10001 AND 29999",
                from = first_of(now().as_millis()),
                millisecond = first_of(1),
            ))
            .await;
        // Each link has one of forty tags: the account's the tags 0, 4, 8 and so on.
        scratch
            .execute(format!(
                "INSERT INTO tags (number, tenant_id, key, tag)
                 SELECT position / {millisecond} - {at}, tenant_id, link_id, link_id FROM links
                 WHERE position < {from} + 40 * {millisecond}",
                at = now().as_millis(),
                from = first_of(now().as_millis()),
                millisecond = first_of(1),
            ))
            .await;
        scratch
            .execute(format!(
                "INSERT INTO link_tags (link, tag) SELECT position, (position / {millisecond} - {at}) % 40 FROM links",
                at = now().as_millis(),
                millisecond = first_of(1),
            ))
            .await;
        if let Some(url) = scratch.db.postgres_url() {
            // PostgreSQL does this itself from time to time; until then, an index alone cannot tell which rows are
            // visible. A vacuum leaves out what an older transaction, such as that of an autovacuum, may still see.
            const ALL_VISIBLE: &str =
                "SELECT BOOL_AND(relallvisible = relpages) FROM pg_class WHERE relname IN ('links', 'link_tags')";
            let mut conn = PgConnection::connect(url).await.expect("a connection");
            loop {
                sqlx::raw_sql("VACUUM ANALYZE links, link_tags").execute(&mut conn).await.expect("statistics");
                if sqlx::query_scalar(ALL_VISIBLE).fetch_one(&mut conn).await.expect("a table") {
                    break;
                }
            }
        }
        let every = LinkFilter::new;
        let middle = now().plus_millis(20_000);
        let of_status = |status: LinkStatus| every().status(status);
        for (filter, index) in [
            (every(), "links_newest"),
            (every().sort(LinkSort::Oldest), "links_newest"),
            (of_status(LinkStatus::Active), "links_newest"),
            (of_status(LinkStatus::Expired), "links_newest"),
            (of_status(LinkStatus::Flagged), "links_status"),
            (of_status(LinkStatus::Disabled), "links_status"),
            (every().created_after(middle), "links_newest"),
            (every().created_before(middle), "links_newest"),
            (of_status(LinkStatus::Flagged).created_before(middle), "links_status"),
            (of_status(LinkStatus::Flagged).created_after(middle).sort(LinkSort::Oldest), "links_status"),
        ] {
            for of in [None, Some(affiliate.as_str().to_owned())] {
                let index = match (&of, index) {
                    (None, index) => index,
                    (Some(_), "links_newest") => "links_affiliate",
                    (Some(_), _) => "links_affiliate_status",
                };
                let mut filter = filter.clone();
                filter.affiliate_id = of;
                let plan = plan(&scratch, &tenant, &filter, &[], [None; 2]).await;
                let positions: Vec<_> = plan.iter().filter(|step| step.contains(&format!("{index} "))).collect();
                let is_covering = |step: &str| step.contains("COVERING INDEX") || step.contains("Index Only Scan");
                assert!(positions.len() == 1 && is_covering(positions[0]), "{index} {filter:?}\n{plan:#?}");
                assert!(!plan.iter().any(is_scan), "{filter:?}\n{plan:#?}");
            }
        }
        // With a tag, the list is read from the links that have it, as far as an index alone tells them.
        for (filter, tags, is_covered) in [
            (every(), &[4][..], true),
            (every().created_before(middle), &[4], true),
            (every().sort(LinkSort::Oldest), &[4], true),
            (every(), &[4, 8], true),
            (of_status(LinkStatus::Active), &[4], false),
            (every().id_prefix("link-1"), &[4, 8], false),
        ] {
            let plan = plan(&scratch, &tenant, &filter, tags, [None; 2]).await;
            assert!(!plan.iter().any(is_scan), "{filter:?}\n{plan:#?}");
            let index = plan.iter().find(|step| step.contains("link_tags_tag "));
            let is_read = index.is_some_and(|step| step.contains("COVERING INDEX") || step.contains("Index Only Scan"));
            assert!(is_read || !is_covered, "{filter:?}\n{plan:#?}");
        }
        // Filters on rows read a part of the list, in its order, until the page is full.
        for (filter, tags) in [
            (every().enabled(true), &[][..]),
            (every().enabled(false), &[]),
            (every().enabled(false).sort(LinkSort::Oldest), &[]),
            (every().domain(HOST), &[]),
            (every().domain("other.example.com").sort(LinkSort::Oldest), &[]),
            (every().domain("other.example.com").affiliate_id(affiliate.as_str()), &[]),
            (of_status(LinkStatus::Flagged).enabled(false), &[]),
            (every().enabled(false), &[4, 8]),
        ] {
            let [near, begin, end] =
                if filter.is_oldest_first() { [2_000, 3_000, 39_000] } else { [38_000, 39_000, 3_000] };
            for window in [[None, Some(near)], [Some(begin), Some(end)]] {
                let bounds = window.map(|at| at.map(|at| first_of(now().plus_millis(at).as_millis())));
                let plan = plan(&scratch, &tenant, &filter, tags, bounds).await;
                assert!(!plan.iter().any(is_scan), "{filter:?} {window:?}\n{plan:#?}");
                assert!(is_of_account(&plan) || !tags.is_empty(), "{filter:?} {window:?}\n{plan:#?}");
            }
        }
    }

    const HOST: &str = "go.example.com";

    /// Whether one of the account's own indexes has the positions, and an index on positions alone finds single rows.
    fn is_of_account(plan: &[String]) -> bool {
        const OWN: [&str; 4] = ["links_newest ", "links_affiliate ", "links_status ", "links_affiliate_status "];
        let is_own = plan.iter().any(|step| OWN.iter().any(|index| step.contains(index)));
        let mut by_position = plan.windows(2).filter(|steps| steps[0].contains("links_position_key "));
        let is_row = |steps: &[String]| steps[1].contains("(\"position\" = ");
        is_own && by_position.all(is_row) && !plan.iter().any(|step| step.contains("Bitmap"))
    }

    /// Whether a step reads a whole table of links.
    #[expect(clippy::ptr_arg, reason = "it is given to iterators over texts")]
    fn is_scan(step: &String) -> bool {
        step.starts_with("SCAN") || step.contains("Seq Scan on link")
    }

    async fn plan(
        scratch: &Scratch,
        tenant: &TenantId,
        filter: &LinkFilter,
        tags: &[i64],
        [last, until]: [Option<i64>; 2],
    ) -> Vec<String> {
        let (is_affiliate, default_host, limit) = (false, HOST, 51);
        let list = &ListRequest { tenant, is_affiliate, filter, default_host, last: None, limit, now: now() };
        let window = Window { list, tags, last, until, limit };
        match scratch.db.read().await.expect("a reader").conn() {
            Conn::Sqlite(conn) => {
                let mut query = window.query("EXPLAIN QUERY PLAN ", None);
                let steps: Vec<(i64, i64, i64, String)> = query.build_query_as().fetch_all(conn).await.expect("a plan");
                steps.into_iter().map(|step| step.3 + " ").collect()
            }
            Conn::Postgres(conn) => {
                window.query("EXPLAIN ", None).build_query_scalar().fetch_all(conn).await.expect("a plan")
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn the_bounds_of_a_prefix_hold_exactly_what_starts_with_it(prefix in ".{1,4}", other in ".{0,6}") {
            let end = after_prefix(&prefix);
            let inside = other.as_str() >= prefix.as_str() && end.as_deref().is_none_or(|end| other.as_str() < end);
            proptest::prop_assert_eq!(inside, other.starts_with(&prefix));
        }
    }
}
