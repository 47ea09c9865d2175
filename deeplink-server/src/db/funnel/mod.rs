//! What links led to, from the rows that say whom to credit. Each question is answered by an index that begins with the
//! link and the moment, so it reads what lies in its window and nothing else.

use std::collections::BTreeMap;

use deeplink_core::funnel::{ConversionSum, Credit, Funnel};
use deeplink_core::id::TenantId;
use sqlx::AssertSqlSafe;

use super::sets::{padded, places};
use super::{Conn, DbError, on};

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// `links.position` of each link, at most 100.
    pub(crate) links: &'a [i64],
    /// Unix milliseconds, included.
    pub(crate) from: i64,
    /// Unix milliseconds, included.
    pub(crate) to: i64,
    pub(crate) credit: &'a Credit,
}

/// What counts are broken down by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    Nothing,
    /// By stretches of so many milliseconds; the key is the start.
    Time(i64),
    /// The key is `links.position`.
    Link,
}

impl Split {
    /// What rows are grouped by.
    fn key(self) -> String {
        match self {
            Self::Nothing => "CAST(0 AS BIGINT)".into(),
            Self::Time(width) => format!("at - at % {width}"),
            Self::Link => "link".into(),
        }
    }

    /// From when on an install that a link opened again counts: once in each stretch of time.
    fn begin(self) -> String {
        match self {
            Self::Time(width) => format!("CASE WHEN at - at % {width} < $1 THEN $1 ELSE at - at % {width} END"),
            Self::Nothing | Self::Link => "$1".into(),
        }
    }
}

/// Counts of all links together, and of each group. Clicks are not among them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) total: Funnel,
    pub(crate) groups: BTreeMap<i64, Funnel>,
}

/// Where the caller's own links of these ids stand; unknown and foreign ones are absent.
pub(crate) async fn positions(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_ids: &[&str],
) -> Result<BTreeMap<String, i64>, DbError> {
    let Some(last) = link_ids.last() else { return Ok(BTreeMap::new()) };
    // As many parameters as a set of numbers would have.
    let size = padded(&vec![0; link_ids.len()]).len();
    let sql = format!("SELECT link_id, position FROM links WHERE tenant_id = $1 AND link_id IN ({})", places(2, size));
    let found: Vec<(String, i64)> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(tenant.as_str());
        for id in link_ids.iter().chain(std::iter::repeat_n(last, size - link_ids.len())) {
            query = query.bind(*id);
        }
        query.fetch_all(c).await
    })?;
    Ok(found.into_iter().collect())
}

/// Installs and conversions that the links are credited with.
pub(crate) async fn tally(db: &mut Conn<'_>, scope: Scope<'_>, split: Split) -> Result<Tally, DbError> {
    let mut tally = Tally::default();
    if scope.links.is_empty() {
        return Ok(tally);
    }
    add_touches(db, scope, split, &mut tally).await?;
    for credits in [&BINDINGS, &CONVERSIONS] {
        let once = scope.links.len() == 1 || *scope.credit != Credit::Touched;
        let rows = labels::credits(db, scope, credits, split, once).await?;
        add_credits(rows, once, credits, &mut tally);
    }
    Ok(tally)
}

/// Numbers joined by commas. They leave the database as one text, because a row for each costs several times as much.
fn numbers(text: Option<&str>) -> Vec<i64> {
    let mut numbers: Vec<i64> = text.unwrap_or_default().split(',').filter_map(|number| number.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// How many different numbers there are.
#[derive(Default)]
struct Distinct(Vec<i64>);

impl Distinct {
    /// Adds numbers and says how many of them are different.
    fn add(&mut self, text: Option<&str>) -> i64 {
        let numbers = numbers(text);
        let count = length(&numbers);
        self.0.extend(numbers);
        count
    }

    fn count(mut self) -> i64 {
        self.0.sort_unstable();
        self.0.dedup();
        length(&self.0)
    }
}

fn length(numbers: &[i64]) -> i64 {
    i64::try_from(numbers.len()).unwrap_or(i64::MAX)
}

/// Rows of a key and a label: how many there are, or which.
type Row = (i64, String, i64, Option<String>);

/// Installs that the links opened, first and again. What opened an install is the latest touch at that moment and one of
/// them, so only the first touch has to be looked at. A touch says when its link opened the install again before; only
/// several links can count an install twice.
async fn add_touches(db: &mut Conn<'_>, scope: Scope<'_>, split: Split, tally: &mut Tally) -> Result<(), DbError> {
    let links = padded(scope.links);
    let alone = scope.links.len() == 1 && split == Split::Nothing;
    let mut total = Distinct::default();
    for (key, installed, opened, installs) in touches(db, scope, split, alone, &links).await? {
        let distinct = total.add(installs.as_deref());
        let engaged = if alone || split == Split::Link { opened } else { distinct };
        let group = tally.groups.entry(key).or_default();
        (group.new_users.installed, group.returning_users.engaged) = (installed, engaged);
        tally.total.new_users.installed += installed;
        if alone {
            tally.total.returning_users.engaged = engaged;
        }
    }
    if !alone {
        tally.total.returning_users.engaged = total.count();
    }
    Ok(())
}

async fn touches(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    split: Split,
    alone: bool,
    links: &[i64],
) -> Result<Vec<(i64, i64, i64, Option<String>)>, DbError> {
    let sql = touches_sql(scope.credit, split, alone, links.len());
    Ok(on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(scope.from).bind(scope.to);
        for link in links {
            query = query.bind(*link);
        }
        query.fetch_all(c).await
    })?)
}

fn touches_sql(credit: &Credit, split: Split, alone: bool, links: usize) -> String {
    let (links, key, begin) = (places(3, links), split.key(), split.begin());
    let is_first = *credit == Credit::FirstTouch;
    let opened = format!("number > 1 AND (opened_before IS NULL OR opened_before < {begin})");
    let (own, any) = if is_first {
        (format!("{opened} AND first_link = link"), format!("{opened} AND first_link IN ({links})"))
    } else {
        (opened.clone(), opened)
    };
    // One link never counts an install twice, be it alone or a group.
    let count = if alone || split == Split::Link {
        format!("CAST(COALESCE(SUM(CASE WHEN {own} THEN 1 ELSE 0 END), 0) AS BIGINT)")
    } else {
        "CAST(0 AS BIGINT)".to_owned()
    };
    let which = if alone {
        "CAST(NULL AS TEXT)".to_owned()
    } else {
        format!("string_agg(CASE WHEN {any} THEN CAST(install AS TEXT) END, ',')")
    };
    let group = if split == Split::Nothing { String::new() } else { format!(" GROUP BY {key}") };
    format!(
        "SELECT {key}, CAST(COALESCE(SUM(CASE WHEN number = 1 THEN 1 ELSE 0 END), 0) AS BIGINT), {count}, {which} \
         FROM touches WHERE link IN ({links}) AND at >= $1 AND at <= $2{group}"
    )
}

/// A table of credits.
struct Credits {
    table: &'static str,
    label: &'static str,
    /// What a link is credited with.
    of: &'static str,
    /// Where a label is counted.
    place: for<'a> fn(&'a mut Funnel, &str) -> Option<&'a mut i64>,
}

const BINDINGS: Credits = Credits {
    table: "install_credits",
    label: "CAST(bound_as AS TEXT)",
    of: "install",
    place: |funnel, label| match label {
        "0" => Some(&mut funnel.new_users.identified),
        "1" => Some(&mut funnel.returning_users.reinstalled),
        "2" => Some(&mut funnel.returning_users.new_device),
        _ => None,
    },
};

const CONVERSIONS: Credits = Credits {
    table: "conversion_credits",
    label: "conversion_type",
    of: "conversion",
    place: |funnel, label| Some(funnel.conversions.entry(label.to_owned()).or_insert(0)),
};

/// Bindings or conversions. One has one first and one last link, so it is counted twice only where every link counts.
fn add_credits(rows: Vec<Row>, once: bool, credits: &Credits, tally: &mut Tally) {
    let mut totals: BTreeMap<String, Distinct> = BTreeMap::new();
    for (key, label, count, which) in rows {
        let count = if once { count } else { totals.entry(label.clone()).or_default().add(which.as_deref()) };
        if let Some(place) = (credits.place)(tally.groups.entry(key).or_default(), &label) {
            *place += count;
        }
        if let Some(place) = (credits.place)(&mut tally.total, &label).filter(|_| once) {
            *place += count;
        }
    }
    for (label, total) in totals {
        if let Some(place) = (credits.place)(&mut tally.total, &label) {
            *place = total.count();
        }
    }
}

/// The condition that a link is credited.
fn credited(credit: &Credit) -> &'static str {
    match credit {
        Credit::FirstTouch => " AND is_first",
        Credit::Touched => "",
        _ => " AND is_last",
    }
}

fn credits_sql(credits: &Credits, label: &str, credit: &Credit, split: Split, once: bool, links: usize) -> String {
    let Credits { table, of, .. } = credits;
    let (links, key, credited) = (places(3, links), split.key(), credited(credit));
    let which = if once { "CAST(NULL AS TEXT)".to_owned() } else { format!("string_agg(CAST({of} AS TEXT), ',')") };
    let group = if split == Split::Nothing { label.to_owned() } else { format!("{key}, {label}") };
    format!(
        "SELECT {key}, {label}, COUNT(*), {which} FROM {table} \
         WHERE link IN ({links}) AND at >= $1 AND at <= $2{credited} GROUP BY {group}"
    )
}

/// All that one link led to, ever, by its last touch: installs that it opened first, installs that were bound to a user.
pub(crate) async fn installs_of(db: &mut Conn<'_>, link: i64) -> Result<(i64, i64), DbError> {
    // The first touches have an index of their own, so those that open an install again are not walked.
    const SQL: &str = "
        SELECT (SELECT COUNT(*) FROM touches WHERE link = $1 AND number = 1),
            (SELECT COUNT(*) FROM install_credits WHERE link = $1 AND is_last)";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(link).fetch_one(c).await)?)
}

/// Conversions of one link, ever, by its last touch: by type and currency, with what is not among the largest types
/// together.
pub(crate) async fn conversions_of(db: &mut Conn<'_>, link: i64) -> Result<Vec<ConversionSum>, DbError> {
    // In halves, because a database refuses a sum that has no room.
    let few = labels::of_link(db, link).await?;
    let sql = format!(
        "SELECT {} AS label, v.currency, COUNT(*), CAST(SUM(v.amount_cents >> 32) AS BIGINT),
            CAST(SUM(v.amount_cents & 4294967295) AS BIGINT)
        FROM conversion_credits k JOIN conversions v ON v.position = k.conversion
        WHERE k.link = $1 AND k.is_last GROUP BY 1, 2",
        labels::label("k.conversion_type", 2, few.as_ref().map(Vec::len))
    );
    type Sum = (String, Option<String>, i64, Option<i64>, Option<i64>);
    let mut sums: Vec<Sum> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(link);
        for kind in few.iter().flatten() {
            query = query.bind(kind);
        }
        query.fetch_all(c).await
    })?;
    sums.sort();
    let sums = sums.into_iter().map(|(conversion_type, currency, count, high, low)| {
        ConversionSum::new(conversion_type, count, high.zip(low).map(whole), currency)
    });
    Ok(sums.collect())
}

/// A sum of its halves, at the end of the range if it lies beyond.
fn whole((high, low): (i64, i64)) -> i64 {
    let sum = (i128::from(high) << 32) + i128::from(low);
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

mod labels;

#[cfg(test)]
mod tests;
