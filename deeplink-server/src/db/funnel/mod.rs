//! What links led to, read from touches and credits. Each query uses an index on link and time, so it reads only its
//! window.

use std::collections::BTreeMap;
use std::{iter, mem};

use deeplink_core::funnel::{ConversionSum, Credit, Funnel, Revenue};
use deeplink_core::id::TenantId;
use deeplink_core::zone::Day;
use sqlx::AssertSqlSafe;

use super::links::WITH_IDS;
use super::sets::{padded, padded_length, placeholders};
use super::tenants::is_account;
use super::{Conn, DbError, on};

/// Represents the whole window among its spans.
const WINDOW: i64 = -1;

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// `links.position` of each link, at most 100; or `tenants.account`, alone.
    pub(crate) links: &'a [i64],
    /// Unix milliseconds, included.
    pub(crate) from: i64,
    /// Unix milliseconds, included.
    pub(crate) to: i64,
    pub(crate) credit: &'a Credit,
}

/// What counts are broken down by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split<'a> {
    Nothing,
    /// By intervals of this many milliseconds; the key is the start.
    Time(i64),
    /// By the days of a time zone that the window touches; the key is the start.
    Days(&'a [Run]),
    /// The key is `links.position`.
    Link,
    /// The same, without the totals, which take longer.
    LinksAlone,
}

/// Consecutive days of the same length, in unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    start: i64,
    end: i64,
    width: i64,
}

impl Run {
    /// Groups days, in order, by length: there are few runs, because clocks change on few days.
    pub(crate) fn of(days: &[Day]) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for day in days {
            let (start, end) = (day.start.as_millis(), day.end.as_millis());
            match runs.last_mut() {
                Some(run) if run.end == start && run.width == end - start => run.end = end,
                _ => runs.push(Self { start, end, width: end - start }),
            }
        }
        runs
    }
}

impl Split<'_> {
    /// The expression that rows are grouped by.
    fn key(self) -> String {
        match self {
            Self::Nothing => "CAST(0 AS BIGINT)".into(),
            Self::Time(width) => format!("at - at % {width}"),
            Self::Days(runs) => {
                // Without the run's own start, so that consecutive windows have the same statement.
                let start =
                    |Run { start, width, .. }: &Run| format!("at - (at - {}) % {width}", start.rem_euclid(*width));
                let Some((last, others)) = runs.split_last() else { return Self::Nothing.key() };
                let others: Vec<String> =
                    others.iter().map(|run| format!("WHEN at < {} THEN {}", run.end, start(run))).collect();
                if others.is_empty() {
                    start(last)
                } else {
                    format!("CASE {} ELSE {} END", others.join(" "), start(last))
                }
            }
            Self::Link | Self::LinksAlone => "link".into(),
        }
    }

    /// The part of the window in each interval: the interval's key, and the first and last millisecond.
    fn spans(self, scope: Scope<'_>) -> Vec<(i64, i64, i64)> {
        let (from, to) = (scope.from, scope.to);
        let runs = match self {
            Self::Time(width) => vec![Run { start: from - from.rem_euclid(width), end: to.saturating_add(1), width }],
            Self::Days(runs) => runs.to_vec(),
            Self::Nothing | Self::Link | Self::LinksAlone => Vec::new(),
        };
        let starts = |Run { start, end, width }: Run| {
            let next = move |start: &i64| start.checked_add(width).filter(|start| *start < end);
            iter::successors((start < end).then_some(start), next).map(move |start| (start, start + width - 1))
        };
        let spans = runs.into_iter().flat_map(starts).map(|(start, last)| (start, start.max(from), last.min(to)));
        spans.filter(|(_, begin, end)| begin <= end).collect()
    }

    fn is_by_link(self) -> bool {
        matches!(self, Self::Link | Self::LinksAlone)
    }

    /// The start of the interval within which repeated openings of an install count once.
    fn begin(self) -> String {
        match self {
            Self::Time(_) | Self::Days(_) => {
                let key = self.key();
                format!("CASE WHEN {key} < $1 THEN $1 ELSE {key} END")
            }
            Self::Nothing | Self::Link | Self::LinksAlone => "$1".into(),
        }
    }
}

/// Counts of all links together, and of each group, without clicks.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) total: Funnel,
    pub(crate) groups: BTreeMap<i64, Funnel>,
    /// By currency; added to the counts once it is complete.
    revenue: BTreeMap<String, i128>,
    revenue_of_groups: BTreeMap<(i64, String), i128>,
}

impl Tally {
    fn add_revenue(&mut self, key: i64, currency: String, sum: i128) {
        *self.revenue.entry(currency.clone()).or_default() += sum;
        *self.revenue_of_groups.entry((key, currency)).or_default() += sum;
    }

    fn finished(mut self) -> Self {
        let revenue = |(currency, sum)| Revenue::new(currency, clamped(sum));
        self.total.revenue = mem::take(&mut self.revenue).into_iter().map(revenue).collect();
        for ((key, currency), sum) in mem::take(&mut self.revenue_of_groups) {
            self.groups.entry(key).or_default().revenue.push(revenue((currency, sum)));
        }
        self
    }
}

/// The positions of the caller's own links with these ids; unknown and foreign ones are absent.
pub(crate) async fn positions(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link_ids: &[&str],
) -> Result<BTreeMap<String, i64>, DbError> {
    let Some(last) = link_ids.last() else { return Ok(BTreeMap::new()) };
    // Padded like a set of numbers.
    let size = padded_length(link_ids.len());
    let sql = format!("SELECT link_id, position FROM links WHERE {WITH_IDS} ({})", placeholders(2, size));
    let found: Vec<(String, i64)> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(tenant.as_str());
        for id in link_ids.iter().chain(std::iter::repeat_n(last, size - link_ids.len())) {
            query = query.bind(*id);
        }
        query.fetch_all(c).await
    })?;
    Ok(found.into_iter().collect())
}

/// The clicks that a previous service counted for the link at this position.
pub(crate) async fn imported_clicks(db: &mut Conn<'_>, link: i64) -> Result<Option<i64>, DbError> {
    const SQL: &str = "SELECT imported_clicks FROM links WHERE position = $1";
    let found: Option<Option<i64>> = on!(db, c => sqlx::query_scalar(SQL).bind(link).fetch_optional(c).await)?;
    Ok(found.flatten())
}

/// Installs and conversions that are credited to the links.
pub(crate) async fn tally(db: &mut Conn<'_>, scope: Scope<'_>, split: Split<'_>) -> Result<Tally, DbError> {
    let mut tally = Tally::default();
    if scope.links.is_empty() {
        return Ok(tally);
    }
    if is_account(scope.links) {
        match sums::tally(db, scope, split).await? {
            Some(sums) => tally = sums,
            None => rows::add(db, scope, split, &mut tally).await?,
        }
        tally.total.returning_users.engaged = sums::opened(db, scope).await?;
    } else {
        add_touches(db, scope, split, &mut tally).await?;
        credits::add(db, scope, split, &mut tally).await?;
        revenue::add(db, scope, split, &mut tally).await?;
    }
    Ok(tally.finished())
}

/// Numbers joined by commas. The database returns them as one text, because a row for each is several times slower.
fn numbers(text: Option<&str>) -> Vec<i64> {
    let mut numbers: Vec<i64> = text.unwrap_or_default().split(',').filter_map(|number| number.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Counts distinct numbers.
#[derive(Default)]
struct Distinct(Vec<i64>);

impl Distinct {
    /// Adds numbers and returns how many of them are distinct.
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

/// Installs that the links opened, first and again. The touch that opens an install is its last touch at that moment,
/// so only the install's first touch has to be checked. A touch stores when its link last opened the install again;
/// only with several links can an install be counted twice.
async fn add_touches(db: &mut Conn<'_>, scope: Scope<'_>, split: Split<'_>, tally: &mut Tally) -> Result<(), DbError> {
    let links = padded(scope.links);
    if links.len() > 1 && split != Split::LinksAlone {
        return add_distinct_touches(db, scope, split, &links, tally).await;
    }
    let spans = split.spans(scope);
    let length = padded_length(spans.len());
    let bounds = spans.iter().flat_map(|(_, begin, end)| [*begin, *end]);
    // The spans that the list is padded with are empty.
    let padding = iter::repeat_n([1, 0], length - spans.len()).flatten();
    let values: Vec<i64> = links.iter().copied().chain(bounds).chain(padding).collect();
    let sql = each_sql(scope.credit, links.len(), length);
    for (link, nth, installed, opened) in read::<(i64, i64, i64, i64)>(db, sql, scope, &values).await? {
        let first = if *scope.credit == Credit::FirstTouch { 0 } else { installed };
        let add = |funnel: &mut Funnel| {
            funnel.new_users.installed += installed;
            funnel.returning_users.engaged += opened - first;
        };
        let span = usize::try_from(nth).ok().and_then(|nth| spans.get(nth));
        if let Some((key, ..)) = span.filter(|_| installed + opened > 0) {
            add(tally.groups.entry(*key).or_default());
        } else if nth == WINDOW {
            add(&mut tally.total);
            if split.is_by_link() {
                add(tally.groups.entry(link).or_default());
            }
        }
    }
    Ok(())
}

async fn add_distinct_touches(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    split: Split<'_>,
    links: &[i64],
    tally: &mut Tally,
) -> Result<(), DbError> {
    for (key, installed) in read::<(i64, i64)>(db, firsts_sql(split, links.len()), scope, links).await? {
        tally.groups.entry(key).or_default().new_users.installed = installed;
        tally.total.new_users.installed += installed;
    }
    let mut total = Distinct::default();
    let again: Vec<(i64, i64, Option<String>)> =
        read(db, again_sql(scope.credit, split, links.len()), scope, links).await?;
    for (key, opened, installs) in again {
        let distinct = total.add(installs.as_deref());
        tally.groups.entry(key).or_default().returning_users.engaged =
            if split == Split::Link { opened } else { distinct };
    }
    tally.total.returning_users.engaged = total.count();
    Ok(())
}

/// Conversions of an account's users that no link is credited with, by type, and their revenue.
pub(crate) async fn unattributed(db: &mut Conn<'_>, scope: Scope<'_>) -> Result<Funnel, DbError> {
    let links: Vec<i64> = scope.links.iter().map(|account| account - 1).collect();
    Ok(tally(db, Scope { links: &links, ..scope }, Split::Nothing).await?.total)
}

async fn read<T>(db: &mut Conn<'_>, sql: String, scope: Scope<'_>, links: &[i64]) -> Result<Vec<T>, DbError>
where
    T: for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>
        + for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>
        + Send
        + Unpin,
{
    credits::read(db, sql, scope, links, &[]).await
}

/// Installs that the links opened first.
fn firsts_sql(split: Split<'_>, links: usize) -> String {
    let (links, key) = (placeholders(3, links), split.key());
    format!(
        "SELECT {key}, COUNT(*) FROM touches WHERE link IN ({links}) AND number = 1 AND at >= $1 AND at <= $2 GROUP BY 1"
    )
}

/// How many installs each link opened first, and how many distinct installs it opened, in the window and in each of
/// `spans` spans of it; the latter include the first openings, unless the first touch is credited. Counting adjacent
/// rows of an index is several times faster than reading them.
fn each_sql(credit: &Credit, links: usize, spans: usize) -> String {
    let number = |number: usize| format!("CAST(${number} AS BIGINT)");
    let asked = (3..3 + links).map(|nth| format!("({})", number(nth))).collect::<Vec<_>>().join(", ");
    let span = |nth: usize| {
        let begin = 3 + links + 2 * nth;
        format!(", ({nth}, {}, {})", number(begin), number(begin + 1))
    };
    let spans: String = (0..spans).map(span).collect();
    let count =
        |which: &str| format!("(SELECT COUNT(*) FROM touches WHERE link = own_link AND at <= span_end AND {which})");
    let firsts = count("at >= span_begin AND number = 1");
    let again = if *credit == Credit::FirstTouch {
        count(
            "at >= span_begin AND number > 1 AND first_link = own_link \
             AND (opened_before IS NULL OR opened_before < span_begin)",
        )
    } else {
        let repeated = count("opened_before >= span_begin AND opened_before <= span_end");
        format!("{} - {repeated}", count("at >= span_begin"))
    };
    format!(
        "WITH links_asked (own_link) AS (SELECT DISTINCT * FROM (VALUES {asked}) AS named), \
         spans (nth, span_begin, span_end) AS (VALUES (CAST({WINDOW} AS BIGINT), CAST($1 AS BIGINT), CAST($2 AS BIGINT)){spans}) \
         SELECT own_link, nth, {firsts}, {again} FROM links_asked CROSS JOIN spans"
    )
}

/// Installs that the links opened again: the number, since one link never counts an install twice, and their ids.
fn again_sql(credit: &Credit, split: Split<'_>, links: usize) -> String {
    let (links, key, begin) = (placeholders(3, links), split.key(), split.begin());
    let (count, credited) = if *credit == Credit::FirstTouch {
        ("SUM(CASE WHEN first_link = link THEN 1 ELSE 0 END)", format!(" AND first_link IN ({links})"))
    } else {
        ("COUNT(*)", String::new())
    };
    format!(
        "SELECT {key}, CAST({count} AS BIGINT), string_agg(CAST(install AS TEXT), ',') FROM touches \
         WHERE link IN ({links}) AND number > 1 AND at >= $1 AND at <= $2 \
         AND (opened_before IS NULL OR opened_before < {begin}){credited} GROUP BY 1"
    )
}

/// All effects of one link by last touch: installs that it opened first, installs that were bound to a user.
pub(crate) async fn installs_of(db: &mut Conn<'_>, link: i64) -> Result<(i64, i64), DbError> {
    // First touches have their own index, so later ones are not scanned.
    const SQL: &str = "
        SELECT (SELECT COUNT(*) FROM touches WHERE link = $1 AND number = 1),
            (SELECT COUNT(*) FROM install_credits WHERE link = $1 AND is_last = TRUE)";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(link).fetch_one(c).await)?)
}

/// All conversions of one link by last touch: by type and currency, with all but the largest types together.
pub(crate) async fn conversions_of(db: &mut Conn<'_>, link: i64) -> Result<Vec<ConversionSum>, DbError> {
    // In two halves, because the database fails if a sum overflows.
    let few = labels::of_link(db, link).await?;
    let sql = format!(
        "SELECT {} AS label, v.currency, COUNT(*), CAST(SUM(v.amount_cents >> 32) AS BIGINT),
            CAST(SUM(v.amount_cents & 4294967295) AS BIGINT)
        FROM conversion_credits k JOIN conversions v ON v.position = k.conversion
        WHERE k.link = $1 AND k.is_last = TRUE GROUP BY 1, 2",
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
        ConversionSum::new(conversion_type, count, high.zip(low).map(|halves| clamped(exact(halves))), currency)
    });
    Ok(sums.collect())
}

/// A sum from its two halves.
fn exact((high, low): (i64, i64)) -> i128 {
    (i128::from(high) << 32) + i128::from(low)
}

/// A sum, limited to the range of the type.
fn clamped(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

mod changes;
mod credits;
mod labels;
mod revenue;
mod rows;
mod sums;

pub(super) use changes::{Changes, Conversion};

#[cfg(test)]
mod tests;
