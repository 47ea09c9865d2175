//! Lists of links, newest first. Filters are evaluated on index entries, and rows are read only for the page.

use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::link::{LinkFilter, LinkStatus};
use deeplink_core::time::Timestamp;
use sqlx::QueryBuilder;

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
    /// The position before which to go on; `None` at the end.
    pub(crate) stopped_at: Option<i64>,
}

impl Found {
    /// The first `limit` of these links; if there are no more of them, the list goes on before `stopped_at`.
    pub(super) fn of(mut links: Vec<Link>, limit: u32, stopped_at: Option<i64>) -> Self {
        let limit = limit as usize;
        let is_full = links.len() > limit;
        links.truncate(limit);
        let stopped_at = if is_full { links.last().map(|link| link.position) } else { stopped_at };
        Self { links, stopped_at }
    }
}

/// Up to `limit` links of a tenant that match the filter and are older than `before`, newest first. The creation time
/// is taken from the position: on a node whose clock was set back, that is the later of the two times.
pub(crate) async fn page(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    filter: &LinkFilter,
    before: Option<i64>,
    limit: u32,
    now: Timestamp,
) -> Result<Found, DbError> {
    let Some(tags) = tags::filtered(db, tenant, &filter.tags).await? else { return Ok(Found::default()) };
    // One more than requested tells whether there is a next page.
    let request = ListRequest { tenant, filter, tags: &tags, before, limit: limit + 1, now };
    let rows: Vec<Row> = on!(db, c => request.query("", None).build_query_as().fetch_all(c).await)?;
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

/// Which links of a list are read.
pub(super) struct ListRequest<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) filter: &'a LinkFilter,
    /// The numbers of the filter's tags; the list is read from the links that have the first.
    pub(super) tags: &'a [i64],
    pub(super) before: Option<i64>,
    pub(super) limit: u32,
    pub(super) now: Timestamp,
}

impl ListRequest<'_> {
    /// The statement that reads the rows, after `prefix`: those that the filter lets pass and, if there is a pattern,
    /// that have a text like it or one of these tags.
    pub(super) fn query<DB: sqlx::Database>(&self, prefix: &str, pattern: Option<(&str, &[i64])>) -> QueryBuilder<DB>
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        // A subquery for the positions, so that an index alone answers it.
        let mut query = QueryBuilder::new(format!("{prefix}{}", select_where!("position IN (")));
        self.push_positions(&mut query);
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
        query.push(" ORDER BY position DESC");
        query
    }

    /// The statement that finds the position of the last link, if there are as many as `limit`.
    pub(super) fn last<DB: sqlx::Database>(&self) -> QueryBuilder<DB>
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let mut query = QueryBuilder::new("");
        self.push_positions(&mut query);
        query.push(" OFFSET ").push_bind(i64::from(self.limit) - 1);
        query
    }

    fn push_positions<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>)
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let position = self.push_source(query);
        if let Some(affiliate) = &self.filter.affiliate_id {
            query.push(" AND affiliate_id = ").push_bind(affiliate.clone());
        }
        self.push_bounds(query, position);
        self.push_status(query);
        if let Some(prefix) = self.filter.id_prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            query.push(" AND link_id >= ").push_bind(prefix.to_owned());
            if let Some(end) = after_prefix(prefix) {
                query.push(" AND link_id < ").push_bind(end);
            }
        }
        query.push(" ORDER BY ").push(position).push(" DESC LIMIT ").push_bind(i64::from(self.limit));
    }

    /// What the list is read from, in the order of positions: all links of the tenant, or those with a tag. Returns the column
    /// that has the position.
    fn push_source<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>) -> &'static str
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let Some((tag, others)) = self.tags.split_first() else {
            query.push("SELECT position FROM links WHERE deleted_at IS NULL AND tenant_id = ");
            query.push_bind(self.tenant.as_str().to_owned());
            return "position";
        };
        let LinkFilter { affiliate_id, status, id_prefix, .. } = self.filter;
        if affiliate_id.is_none() && status.is_none() && id_prefix.is_none() {
            query.push("SELECT has.link FROM link_tags has WHERE has.tag = ").push_bind(*tag);
        } else {
            // The order of a cross join is that of SQLite's loops.
            query.push(
                "SELECT has.link FROM link_tags has CROSS JOIN links WHERE links.position = has.link AND has.tag = ",
            );
            query.push_bind(*tag).push(" AND deleted_at IS NULL AND tenant_id = ");
            query.push_bind(self.tenant.as_str().to_owned());
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
        let created_before = self.filter.created_before.map(|moment| first_of(moment.as_millis()));
        if let Some(end) = self.before.into_iter().chain(created_before).min() {
            query.push(" AND ").push(position).push(" < ").push_bind(end);
        }
        if let Some(after) = self.filter.created_after {
            let first = first_of(after.as_millis().saturating_add(1));
            query.push(" AND ").push(position).push(" >= ").push_bind(first);
        }
    }

    fn push_status<DB: sqlx::Database>(&self, query: &mut QueryBuilder<DB>)
    where
        String: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
        i64: sqlx::Type<DB> + for<'q> sqlx::Encode<'q, DB>,
    {
        let now = self.now.as_millis();
        match &self.filter.status {
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
        // Enough rows for PostgreSQL to prefer an index: a quarter are the account's, and half of those the
        // affiliate's.
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
                 SELECT CASE WHEN number % 4 = 0 THEN '{tenant}' ELSE '{other}' END, 'link-' || number, {from} + number * {millisecond}, TRUE,
                    'a text that makes a row longer than its entry in an index',
                    CASE WHEN number % 8 = 0 THEN '{affiliate}' END, CASE WHEN number % 400 = 0 THEN 'flagged' END,
                    CASE WHEN number % 3 = 0 THEN number END, 0, 0 FROM numbers",
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
            (of_status(LinkStatus::Active), "links_newest"),
            (of_status(LinkStatus::Expired), "links_newest"),
            (of_status(LinkStatus::Flagged), "links_status"),
            (of_status(LinkStatus::Disabled), "links_status"),
            (every().created_after(middle), "links_newest"),
            (every().created_before(middle), "links_newest"),
            (of_status(LinkStatus::Flagged).created_before(middle), "links_status"),
        ] {
            for of in [None, Some(affiliate.as_str().to_owned())] {
                let index = match (&of, index) {
                    (None, index) => index,
                    (Some(_), "links_newest") => "links_affiliate",
                    (Some(_), _) => "links_affiliate_status",
                };
                let mut filter = filter.clone();
                filter.affiliate_id = of;
                let plan = plan(&scratch, &tenant, &filter, &[]).await;
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
            (every(), &[4, 8], true),
            (of_status(LinkStatus::Active), &[4], false),
            (every().id_prefix("link-1"), &[4, 8], false),
        ] {
            let plan = plan(&scratch, &tenant, &filter, tags).await;
            assert!(!plan.iter().any(is_scan), "{filter:?}\n{plan:#?}");
            let index = plan.iter().find(|step| step.contains("link_tags_tag "));
            let is_read = index.is_some_and(|step| step.contains("COVERING INDEX") || step.contains("Index Only Scan"));
            assert!(is_read || !is_covered, "{filter:?}\n{plan:#?}");
        }
    }

    /// Whether a step reads a whole table of links.
    #[expect(clippy::ptr_arg, reason = "it is given to iterators over texts")]
    fn is_scan(step: &String) -> bool {
        step.starts_with("SCAN") || step.contains("Seq Scan on link")
    }

    async fn plan(scratch: &Scratch, tenant: &TenantId, filter: &LinkFilter, tags: &[i64]) -> Vec<String> {
        let request = ListRequest { tenant, filter, tags, before: None, limit: 51, now: now() };
        match scratch.db.read().await.expect("a reader").conn() {
            Conn::Sqlite(conn) => {
                let mut query = request.query("EXPLAIN QUERY PLAN ", None);
                let steps: Vec<(i64, i64, i64, String)> = query.build_query_as().fetch_all(conn).await.expect("a plan");
                steps.into_iter().map(|step| step.3 + " ").collect()
            }
            Conn::Postgres(conn) => {
                request.query("EXPLAIN ", None).build_query_scalar().fetch_all(conn).await.expect("a plan")
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
