//! What a report reads, and its sums at the limits. Their correctness is tested from outside, against a model.

use deeplink_core::time::Timestamp;

use super::credits::{BINDINGS, CONVERSIONS};
use super::*;
use crate::db::tests::Scratch;

#[test]
fn sums_beyond_the_range_stay_at_its_end() {
    let halves = |amounts: &[i64]| {
        let (high, low) = (amounts.iter().map(|a| a >> 32).sum(), amounts.iter().map(|a| a & 0xffff_ffff).sum());
        clamped(exact((high, low)))
    };
    let most = (1_i64 << 53) - 1;
    assert_eq!(halves(&[1, -1, 5]), 5);
    assert_eq!(halves(&[-7]), -7);
    assert_eq!(halves(&[most, -most, most]), most);
    assert_eq!(halves(&vec![most; 1_025]), i64::MAX);
    assert_eq!(halves(&vec![-most; 1_025]), i64::MIN);
    assert_eq!(halves(&vec![most; 1_024]), most * 1_024);
}

#[test]
fn numbers_are_counted_once() {
    let mut distinct = Distinct::default();
    assert_eq!((distinct.add(Some("3,1,3")), distinct.add(None), distinct.add(Some("1,2"))), (2, 0, 2));
    assert_eq!(distinct.count(), 3);
}

/// A report reads only touches and credits of its own links and window: each question searches an index for its link
/// and times, and the index has all the needed columns.
#[tokio::test]
async fn reports_read_their_window_in_an_index_and_nothing_else() {
    let scratch = Scratch::new().await;
    if !scratch.db.is_sqlite() {
        // PostgreSQL plans by the tables' contents; the indexes are the same.
        return;
    }
    let mut reader = scratch.db.read().await.expect("a reader");
    for links in [1, 4, 100] {
        for credit in Credit::ALL {
            let days = [(0, 23), (23, 47), (47, 71)].map(|(start, end)| {
                let [start, end] = [start, end].map(|hour: i64| Timestamp::from_millis(hour * 3_600_000));
                Day { start, end, date: String::new() }
            });
            let runs = Run::of(&days);
            assert_eq!(runs.len(), 2);
            for split in [
                Split::Nothing,
                Split::Link,
                Split::LinksAlone,
                Split::Time(86_400_000),
                Split::Time(3_600_000),
                Split::Days(&runs),
            ] {
                let once = links == 1 || *credit != Credit::Touched || split == Split::LinksAlone;
                let in_window =
                    |index: &str| format!("SEARCH touches USING COVERING INDEX {index} (link=? AND at>? AND at<?)");
                let bucket = "link=? AND is_last=? AND is_first=?";
                let in_buckets = |table: &str, label: &str| {
                    let step = format!("SEARCH c USING COVERING INDEX {table}_link ({bucket}");
                    let ends =
                        [")".to_owned(), format!(" AND {label}>?)"), format!(" AND {label}=? AND at>? AND at<?)")];
                    ends.map(|end| format!("{step}{end}")).to_vec()
                };
                let statements = [
                    (firsts_sql(split, links), vec![in_window("touches_first")]),
                    (again_sql(credit, split, links), vec![in_window("touches_link")]),
                    (
                        each_sql(credit, links, 4),
                        vec![
                            in_window("touches_link"),
                            in_window("touches_first"),
                            "SEARCH touches USING COVERING INDEX touches_in_between (link=? AND opened_before>? AND opened_before<?)"
                                .into(),
                        ],
                    ),
                    (
                        BINDINGS.sql(BINDINGS.label, credit, split, once, links),
                        in_buckets("install_credits", "bound_as"),
                    ),
                    (
                        CONVERSIONS.sql(CONVERSIONS.label, credit, split, once, links),
                        in_buckets("conversion_credits", "conversion_type"),
                    ),
                    (
                        revenue::sql(credit, split, links),
                        vec![
                            "SEARCH conversion_credits USING COVERING INDEX conversion_credits_revenue (link=? AND at>? AND at<?)"
                                .into(),
                        ],
                    ),
                    (CONVERSIONS.largest_sql(credit, links, 200), in_buckets("conversion_credits", "conversion_type")),
                ];
                for (sql, allowed) in statements {
                    let plan = plan(&mut reader.conn(), &sql).await;
                    let reads: Vec<_> =
                        plan.iter().filter(|step| step.contains("INDEX") || step.contains("touches")).collect();
                    assert!(!reads.is_empty() && reads.iter().all(|step| allowed.contains(step)), "{sql}\n{plan:#?}");
                    let scans = plan.iter().filter_map(|step| step.strip_prefix("SCAN "));
                    let buckets = ["buckets", "links_asked", "spans", "named", "sides", "counts", "credited"];
                    let mut tables = scans.filter(|of| !buckets.contains(of) && !of.contains("CONSTANT ROW"));
                    assert_eq!(tables.next(), None, "{sql}\n{plan:#?}");
                }
            }
        }
    }
}

/// A report on the whole account reads sums inside its window, and single rows of the account at both its ends.
#[tokio::test]
async fn reports_on_accounts_read_sums_and_few_rows() {
    let scratch = Scratch::new().await;
    if !scratch.db.is_sqlite() {
        return;
    }
    let mut reader = scratch.db.read().await.expect("a reader");
    let sums = "SEARCH account_sums USING INDEX sqlite_autoindex_account_sums_1 (account=? AND width=? AND effect=? AND start>? AND start<?)";
    let touches = "SEARCH touches USING COVERING INDEX touches_account (account=? AND at>? AND at<?)";
    let before =
        "SEARCH touches USING COVERING INDEX touches_before (account=? AND account_before>? AND account_before<?)";
    let split = Split::Time(86_400_000);
    for (sql, search) in [
        (sums::sums_sql(86_400_000, split), sums),
        (sums::opened_sql(86_400_000, split), sums),
        (sums::OPENED_BEFORE.to_owned(), sums),
        (sums::OPENED_BEGINNING.to_owned(), before),
        (rows::touches_sql(split), touches),
        (rows::OPENED.to_owned(), touches),
    ] {
        let plan = plan(&mut reader.conn(), &sql).await;
        let reads = plan.iter().filter(|step| step.starts_with("SEARCH") || step.starts_with("SCAN"));
        assert_eq!(reads.collect::<Vec<_>>(), [search], "{sql}\n{plan:#?}");
    }
}

async fn plan(db: &mut Conn<'_>, sql: &str) -> Vec<String> {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let Conn::Sqlite(conn) = db else { return Vec::new() };
    let steps: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut **conn).await.expect("a plan");
    steps.into_iter().map(|step| step.3).collect()
}
