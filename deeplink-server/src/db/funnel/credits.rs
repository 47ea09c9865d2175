//! Bindings and conversions credited to links.

use std::collections::BTreeMap;

use deeplink_core::funnel::{Credit, Funnel};
use sqlx::AssertSqlSafe;

use super::super::{Conn, DbError, on};
use super::{Distinct, Scope, Split, Tally, labels};

/// A table of credits. Its index is ordered by link, side and label, and then by time.
pub(super) struct Credits {
    table: &'static str,
    column: &'static str,
    /// The expression for a bucket's label.
    pub(super) label: &'static str,
    /// The column of what is credited.
    of: &'static str,
    /// The counter of a label.
    pub(super) counter: for<'a> fn(&'a mut Funnel, &str) -> Option<&'a mut i64>,
}

pub(super) const BINDINGS: Credits = Credits {
    table: "install_credits",
    column: "bound_as",
    label: "CAST(bucket_label AS TEXT)",
    of: "install",
    counter: |funnel, label| match label {
        "0" => Some(&mut funnel.new_users.identified),
        "1" => Some(&mut funnel.returning_users.reinstalled),
        "2" => Some(&mut funnel.returning_users.new_device),
        _ => None,
    },
};

pub(super) const CONVERSIONS: Credits = Credits {
    table: "conversion_credits",
    column: "conversion_type",
    label: "bucket_label",
    of: "conversion",
    counter: |funnel, label| Some(funnel.conversions.entry(label.to_owned()).or_insert(0)),
};

/// Rows of a key and a label: the number of credits, or their ids.
pub(super) type Row = (i64, String, i64, Option<String>);

/// Adds bindings and conversions to the counts. Each has one first and one last link, so it can be counted twice only
/// if every link is credited.
pub(super) async fn add(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    split: Split<'_>,
    tally: &mut Tally,
) -> Result<(), DbError> {
    let once = scope.links.len() == 1 || *scope.credit != Credit::Touched || split == Split::LinksAlone;
    for credits in [&BINDINGS, &CONVERSIONS] {
        let rows = labels::credits(db, scope, credits, split, once).await?;
        add_rows(rows, once, credits, tally);
    }
    Ok(())
}

fn add_rows(rows: Vec<Row>, once: bool, credits: &Credits, tally: &mut Tally) {
    let mut totals: BTreeMap<String, Distinct> = BTreeMap::new();
    for (key, label, count, which) in rows {
        let count = if once { count } else { totals.entry(label.clone()).or_default().add(which.as_deref()) };
        if let Some(counter) = (credits.counter)(tally.groups.entry(key).or_default(), &label) {
            *counter += count;
        }
        if let Some(counter) = (credits.counter)(&mut tally.total, &label).filter(|_| once) {
            *counter += count;
        }
    }
    for (label, total) in totals {
        if let Some(counter) = (credits.counter)(&mut tally.total, &label) {
            *counter = total.count();
        }
    }
}

/// The sides of a credit: last touch, first touch.
fn sides(credit: &Credit) -> &'static str {
    match credit {
        Credit::FirstTouch => "(TRUE, TRUE), (FALSE, TRUE)",
        Credit::Touched => "(TRUE, TRUE), (TRUE, FALSE), (FALSE, TRUE), (FALSE, FALSE)",
        _ => "(TRUE, TRUE), (TRUE, FALSE)",
    }
}

impl Credits {
    /// Finds the buckets that contain credits: one for each link, side and label. One index search finds the next
    /// label, and a bucket's entries in a window are adjacent, so they are counted without being read or sorted.
    fn buckets(&self, credit: &Credit, links: usize) -> String {
        let Self { table, column, .. } = self;
        let links: Vec<String> = (3..3 + links).map(|number| format!("(CAST(${number} AS BIGINT))")).collect();
        let next = |of: &str, beyond: &str| {
            format!(
                "(SELECT c.{column} FROM {table} c WHERE c.link = {of}_link AND c.is_last = {of}_last \
                 AND c.is_first = {of}_first{beyond} ORDER BY c.{column} LIMIT 1)"
            )
        };
        // UNION removes duplicate links.
        format!(
            "WITH RECURSIVE links_asked (own_link) AS (VALUES {links}), sides (own_last, own_first) AS (VALUES {sides}), \
             buckets (bucket_link, bucket_last, bucket_first, bucket_label) AS ( \
             SELECT own_link, own_last, own_first, {first} FROM links_asked CROSS JOIN sides \
             UNION SELECT bucket_link, bucket_last, bucket_first, {beyond} FROM buckets WHERE bucket_label IS NOT NULL)",
            links = links.join(", "),
            sides = sides(credit),
            first = next("own", ""),
            beyond = next("bucket", &format!(" AND c.{column} > bucket_label"))
        )
    }

    /// The credits of a bucket in the window.
    fn in_bucket(&self) -> String {
        let Self { table, column, .. } = self;
        format!(
            "{table} c WHERE c.link = bucket_link AND c.is_last = bucket_last AND c.is_first = bucket_first \
             AND c.{column} = bucket_label AND c.at >= $1 AND c.at <= $2"
        )
    }

    /// Numbers of credits by key and label, or their ids.
    pub(super) fn sql(&self, label: &str, credit: &Credit, split: Split<'_>, once: bool, links: usize) -> String {
        let buckets = self.buckets(credit, links);
        let value = if once { "COUNT(*)".into() } else { format!("string_agg(CAST(c.{} AS TEXT), ',')", self.of) };
        let in_bucket = self.in_bucket();
        if let Split::Time(_) | Split::Days(_) = split {
            let value =
                if once { format!("{value}, CAST(NULL AS TEXT)") } else { format!("CAST(0 AS BIGINT), {value}") };
            return format!(
                "{buckets} SELECT {key}, {label}, {value} FROM buckets CROSS JOIN {in_bucket} GROUP BY 1, 2",
                key = split.key()
            );
        }
        let (key, value_of_all, some) = (
            if split.is_by_link() { "bucket_link" } else { "CAST(0 AS BIGINT)" },
            if once {
                "CAST(SUM(value) AS BIGINT), CAST(NULL AS TEXT)"
            } else {
                "CAST(0 AS BIGINT), string_agg(value, ',')"
            },
            if once { "SUM(value) > 0" } else { "COUNT(value) > 0" },
        );
        format!(
            "{buckets} SELECT {key}, label, {value_of_all} FROM ( \
             SELECT bucket_link, {label} AS label, (SELECT {value} FROM {in_bucket}) AS value \
             FROM buckets WHERE bucket_label IS NOT NULL) AS counts GROUP BY 1, 2 HAVING {some}"
        )
    }

    /// The labels with the most credits.
    pub(super) fn largest_sql(&self, credit: &Credit, links: usize, most: usize) -> String {
        format!(
            "{buckets} SELECT label FROM (SELECT {label} AS label, (SELECT COUNT(*) FROM {in_bucket}) AS counted \
             FROM buckets WHERE bucket_label IS NOT NULL) AS counts \
             GROUP BY label HAVING SUM(counted) > 0 ORDER BY SUM(counted) DESC, label LIMIT {most}",
            buckets = self.buckets(credit, links),
            label = self.label,
            in_bucket = self.in_bucket()
        )
    }
}

/// Reads rows; binds the window, the links and the labels in this order.
pub(super) async fn read<T>(
    db: &mut Conn<'_>,
    sql: String,
    scope: Scope<'_>,
    links: &[i64],
    named: &[String],
) -> Result<Vec<T>, DbError>
where
    T: for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>
        + for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>
        + Send
        + Unpin,
{
    Ok(on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(scope.from).bind(scope.to);
        for link in links {
            query = query.bind(*link);
        }
        for label in named {
            query = query.bind(label);
        }
        query.fetch_all(c).await
    })?)
}
