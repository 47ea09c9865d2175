//! What all links of an account led to, summed up by hour and by day ([`super::changes`]). A report adds the sums of
//! the hours or days that are wholly inside its window, and reads individual rows at both ends of it.

use std::collections::BTreeSet;

use deeplink_core::funnel::Funnel;

use super::super::{Conn, DbError};
use super::credits::{BINDINGS, CONVERSIONS};
use super::labels::MAX_TYPES;
use super::{Run, Scope, Split, Tally, exact, read, rows};

pub(super) const HOUR: i64 = 3_600_000;
pub(super) const DAY: i64 = 86_400_000;
/// Sums by hour store the hour of the previous opening only if it is at most this old, as long as a day can be.
pub(super) const MAX_LAG: i64 = 25 * HOUR;
/// In place of the time of the previous opening, if there is none.
pub(super) const NEVER: i64 = -1;
/// Maximum sums that a report reads: more than it needs, unless there are too many conversion types.
const MAX_SUMS: usize = 200_000;

// The kinds of sums: `account_sums.effect`.
pub(super) const INSTALLED: i64 = 0;
pub(super) const OPENED: i64 = 1;
pub(super) const BOUND: i64 = 2;
pub(super) const CONVERTED: i64 = 3;
pub(super) const REVENUE: i64 = 4;

/// The groups of a report that are wholly inside its window, and the width of their sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Middle {
    from: i64,
    /// Exclusive.
    until: i64,
    width: i64,
}

impl Middle {
    /// `None` if there are none, or if they do not consist of whole hours.
    fn of(scope: Scope<'_>, split: Split<'_>) -> Option<Self> {
        let (from, until) = (scope.from, scope.to.saturating_add(1));
        let whole = |width: i64| {
            let down = |at: i64| at - at.rem_euclid(width);
            Self { from: down(from.saturating_add(width - 1)), until: down(until), width }
        };
        let middle = match split {
            Split::Nothing | Split::Time(DAY) => whole(DAY),
            Split::Time(HOUR) => whole(HOUR),
            Split::Days(runs) => Self::of_days(runs, from, until)?,
            Split::Time(_) | Split::Link | Split::LinksAlone => return None,
        };
        (middle.from < middle.until).then_some(middle)
    }

    fn of_days(runs: &[Run], from: i64, until: i64) -> Option<Self> {
        let is_whole = |run: &Run| run.start % HOUR == 0 && run.width % HOUR == 0 && run.width <= MAX_LAG;
        let (first, last) = (runs.first()?, runs.last()?);
        let from = if first.start < from { first.start + first.width } else { first.start };
        let until = if last.end > until { last.end - last.width } else { last.end };
        runs.iter().all(is_whole).then_some(Self { from, until, width: HOUR })
    }

    /// The same as a window with an exclusive end, as statements on sums expect.
    fn scope(self, scope: Scope<'_>) -> Scope<'_> {
        Scope { from: self.from, to: self.until, ..scope }
    }

    /// The parts of the window before and after it.
    fn edges(self, scope: Scope<'_>) -> impl Iterator<Item = Scope<'_>> {
        let edges = [Scope { to: self.from - 1, ..scope }, Scope { from: self.until, ..scope }];
        edges.into_iter().filter(|edge| edge.from <= edge.to)
    }
}

/// Key, effect, label, count, and the two halves of the sum of amounts.
type Row = (i64, i64, String, i64, i64, i64);

/// Everything but the installs that links opened again in the whole window. `None` if individual rows must be read.
pub(super) async fn tally(db: &mut Conn<'_>, scope: Scope<'_>, split: Split<'_>) -> Result<Option<Tally>, DbError> {
    let Some(middle) = Middle::of(scope, split) else { return Ok(None) };
    let mut tally = Tally::default();
    let sums: Vec<Row> = read(db, sums_sql(middle.width, split), middle.scope(scope), scope.links).await?;
    if sums.len() > MAX_SUMS {
        return Ok(None);
    }
    for sum in sums {
        tally.add_sum(sum);
    }
    if split != Split::Nothing {
        let opened: Vec<(i64, i64)> =
            read(db, opened_sql(middle.width, split), middle.scope(scope), scope.links).await?;
        for (key, opened) in opened {
            tally.groups.entry(key).or_default().returning_users.engaged += opened;
        }
    }
    for edge in middle.edges(scope) {
        rows::add(db, edge, split, &mut tally).await?;
    }
    // With more types, the ones to name can only be determined from individual rows.
    let types: BTreeSet<&String> = tally.total.conversions.keys().collect();
    Ok((types.len() <= MAX_TYPES).then_some(tally))
}

impl Tally {
    fn add_sum(&mut self, (key, effect, label, count, high, low): Row) {
        let counter: for<'a> fn(&'a mut Funnel, &str) -> Option<&'a mut i64> = match effect {
            INSTALLED => |funnel, _| Some(&mut funnel.new_users.installed),
            BOUND => BINDINGS.counter,
            CONVERTED => CONVERSIONS.counter,
            REVENUE => return self.add_revenue(key, label, exact((high, low))),
            _ => return,
        };
        for funnel in [&mut self.total, self.groups.entry(key).or_default()] {
            if let Some(counter) = counter(funnel, &label) {
                *counter += count;
            }
        }
    }
}

/// The number of openings in whole days, except installs' first, without an earlier one since the day `$4`.
pub(super) const OPENED_BEFORE: &str = "
    SELECT CAST(COALESCE(SUM(count), 0) AS BIGINT) FROM account_sums
    WHERE account = $3 AND width = 86400000 AND effect = 1 AND start >= $1 AND start < $2 AND since < $4";
/// The number of openings whose previous one was between `$4` and `$5`.
pub(super) const OPENED_BEGINNING: &str = "
    SELECT COUNT(*) FROM touches
    WHERE account = $3 AND account_before >= $4 AND account_before < $5 AND at >= $1 AND at < $2";

/// How many installs links of the account opened again in the window.
pub(super) async fn opened(db: &mut Conn<'_>, scope: Scope<'_>) -> Result<i64, DbError> {
    let Some(middle) = Middle::of(scope, Split::Nothing) else { return rows::opened(db, scope, scope.from).await };
    // No previous opening is stored as -1, which is before any time.
    let day = (scope.from - scope.from.rem_euclid(DAY)).max(0);
    let (inside, since) = (middle.scope(scope), |more: &[i64]| [scope.links, more].concat());
    let mut counts: Vec<(i64,)> = read(db, OPENED_BEFORE.into(), inside, &since(&[day])).await?;
    if day < scope.from {
        counts.extend(read::<(i64,)>(db, OPENED_BEGINNING.into(), inside, &since(&[day, scope.from])).await?);
    }
    let mut opened = counts.iter().map(|count| count.0).sum();
    for edge in middle.edges(scope) {
        opened += rows::opened(db, edge, scope.from).await?;
    }
    Ok(opened)
}

/// Sums by key, effect and label.
pub(super) fn sums_sql(width: i64, split: Split<'_>) -> String {
    format!(
        "SELECT {key}, effect, label, CAST(SUM(count) AS BIGINT), CAST(SUM(high) AS BIGINT), CAST(SUM(low) AS BIGINT) \
         FROM (SELECT start AS at, effect, label, count, high, low FROM account_sums \
            WHERE account = $3 AND width = {width} AND effect IN ({INSTALLED}, {BOUND}, {CONVERTED}, {REVENUE}) \
                AND start >= $1 AND start < $2) AS inside \
         GROUP BY 1, 2, 3 HAVING SUM(count) > 0 LIMIT {}",
        MAX_SUMS + 1,
        key = split.key(),
    )
}

/// Installs that were opened again in each group.
pub(super) fn opened_sql(width: i64, split: Split<'_>) -> String {
    format!(
        "SELECT {key}, CAST(SUM(count) AS BIGINT) FROM (SELECT start AS at, since, count FROM account_sums \
            WHERE account = $3 AND width = {width} AND effect = {OPENED} AND start >= $1 AND start < $2) AS inside \
         WHERE since < {key} GROUP BY 1",
        key = split.key(),
    )
}
