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
    // The end of a window is one row, the last of its limit.
    let filter = every().enabled(false);
    let list = &list_of(&tenant, &filter);
    let window = Window { list, tags: &[], last: None, until: None, limit: 500 };
    let mut reader = scratch.db.read().await.expect("a reader");
    let mut db = reader.conn();
    let ends = on!(&mut db, c => window.end().build_query_scalar().fetch_all(c).await);
    let whole = LinkFilter::new();
    let page = page(&mut db, &ListRequest { limit: 500, ..list_of(&tenant, &whole) }).await.expect("a page");
    let ends: Vec<i64> = ends.expect("an end");
    assert_eq!(ends, Vec::from_iter(page.stopped_at));
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

fn list_of<'a>(tenant: &'a TenantId, filter: &'a LinkFilter) -> ListRequest<'a> {
    let (is_affiliate, default_host, limit) = (false, HOST, 51);
    ListRequest { tenant, is_affiliate, filter, default_host, last: None, limit, now: now() }
}

async fn plan(
    scratch: &Scratch,
    tenant: &TenantId,
    filter: &LinkFilter,
    tags: &[i64],
    [last, until]: [Option<i64>; 2],
) -> Vec<String> {
    let list = &list_of(tenant, filter);
    let window = Window { list, tags, last, until, limit: list.limit };
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
