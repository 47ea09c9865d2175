//! What a report reads, and what its sums do at their ends. That they are right is shown from outside, against a model.

use super::*;
use crate::db::tests::Scratch;

#[test]
fn sums_beyond_the_range_stay_at_its_end() {
    let halves = |amounts: &[i64]| {
        let (high, low) = (amounts.iter().map(|a| a >> 32).sum(), amounts.iter().map(|a| a & 0xffff_ffff).sum());
        whole((high, low))
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

/// What a report reads of touches and credits depends on its own links and window alone: each question is a search of an
/// index for its link and moments, and the index holds all that is asked.
#[tokio::test]
async fn reports_read_their_window_in_an_index_and_nothing_else() {
    let scratch = Scratch::new().await;
    if !scratch.db.is_sqlite() {
        // PostgreSQL chooses by what is in the tables; the indexes are the same.
        return;
    }
    let mut reader = scratch.db.read().await.expect("a reader");
    for links in [1, 4, 100] {
        for credit in Credit::ALL {
            for split in [Split::Nothing, Split::Link, Split::Time(86_400_000), Split::Time(3_600_000)] {
                let alone = links == 1 && split == Split::Nothing;
                let once = links == 1 || *credit != Credit::Touched;
                let statements = [
                    ("touches", touches_sql(credit, split, alone, links)),
                    ("install_credits", credits_sql(&BINDINGS, BINDINGS.label, credit, split, once, links)),
                    ("conversion_credits", credits_sql(&CONVERSIONS, CONVERSIONS.label, credit, split, once, links)),
                ];
                for (table, sql) in statements {
                    let plan = plan(&mut reader.conn(), &sql).await;
                    let search = format!("SEARCH {table} USING COVERING INDEX {table}_link (link=? AND at>? AND at<?)");
                    let reads: Vec<_> = plan.iter().filter(|step| step.contains(table)).collect();
                    assert_eq!(reads, [&search], "{sql}\n{plan:?}");
                    assert!(!plan.iter().any(|step| step.starts_with("SCAN")), "{plan:?}");
                }
            }
        }
    }
}

async fn plan(db: &mut Conn<'_>, sql: &str) -> Vec<String> {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let Conn::Sqlite(conn) = db else { return Vec::new() };
    let steps: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut **conn).await.expect("a plan");
    steps.into_iter().map(|step| step.3).collect()
}
