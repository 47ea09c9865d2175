//! Counts of clicks in any window: whole days and hours are read from rollups, and an hour at an end of the window from
//! the log. They are exact as long as the log has all clicks of such an hour, and all are counted in the rollups.

use std::collections::{BTreeMap, HashSet};

use deeplink_core::visitor::ClickKind;
use sqlx::{AssertSqlSafe, FromRow};

use super::super::sets::{padded, placeholders};
use super::super::{Conn, DbError, on};
use super::add::KINDS;
use super::cut;
use super::hosts::OTHER;

/// Milliseconds of an hour.
pub(super) const HOUR: i64 = 3_600_000;
/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Maximum hosts read by name: more than a report shows, because the hours at the ends of the window, which are added
/// later, may change their order a little.
const MAX_READ_HOSTS: i64 = 1_000;
/// The number of the row with the sum of all other hosts.
const REST: i64 = 1;

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// `links.position` of each link, at most 400; or `tenants.account`, alone.
    pub(crate) links: &'a [i64],
    /// Unix milliseconds, included.
    pub(crate) from: i64,
    /// Unix milliseconds, included.
    pub(crate) to: i64,
    pub(crate) kinds: Kinds,
}

/// Which clicks count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// Those of people and agents, which the funnel counts.
    Funnel,
    /// Those of one kind.
    One(ClickKind),
    All,
}

impl Kinds {
    /// For the WHERE clause, the kinds' numbers.
    pub(super) fn list(self) -> String {
        let all = ClickKind::ALL.into_iter();
        let these = all.filter(|kind| match self {
            Self::Funnel => kind.in_funnel(),
            Self::One(one) => *kind == one,
            Self::All => true,
        });
        these.map(|kind| kind.code().to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// What counts are grouped by. Only the funnel's clicks have platforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Nothing,
    /// By the day's start.
    Day,
    /// By the hour's start.
    Hour,
    /// By `links.position`.
    Link,
    Kind,
    /// By the platform's number; -1 for clicks from before it was counted.
    Platform,
    /// By the code of the user agent.
    UserAgent,
    /// By the code of the country; clicks without one are in no group.
    Country,
}

/// Clicks by group; groups without clicks may be absent.
pub(crate) async fn count(db: &mut Conn<'_>, scope: Scope<'_>, by: By) -> Result<BTreeMap<i64, i64>, DbError> {
    let key = match by {
        By::Nothing => Key::Nothing,
        By::Day => Key::Day,
        By::Hour => Key::Hour,
        By::Link => Key::Link,
        By::Kind => Key::Kind,
        By::Platform => Key::Platform,
        By::UserAgent => Key::UserAgent,
        By::Country => Key::Country,
    };
    let counted = count_keys(db, scope, key).await?;
    Ok(counted.into_iter().map(|((number, _), clicks)| (number, clicks)).collect())
}

/// Clicks of the funnel by the host of the referring page. If there are too many hosts, those with the fewest clicks
/// are counted together as `other`.
pub(crate) async fn count_by_host(db: &mut Conn<'_>, scope: Scope<'_>) -> Result<BTreeMap<String, i64>, DbError> {
    let counted = count_keys(db, scope, Key::Host).await?;
    let mut hosts = BTreeMap::new();
    for ((_, host), clicks) in counted {
        *hosts.entry(host).or_insert(0) += clicks;
    }
    Ok(hosts)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Nothing,
    Day,
    Hour,
    Link,
    Kind,
    Platform,
    Host,
    UserAgent,
    Country,
}

/// The tables that counts are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Visitors,
    /// By platform and host; only clicks in the funnel.
    Facets,
    /// By country; only clicks in the funnel.
    Countries,
}

impl Source {
    /// The table by hour and the one by day.
    fn tables(self) -> [&'static str; 2] {
        match self {
            Self::Visitors => ["click_hours", "click_days"],
            Self::Facets => ["click_facets", "click_facet_days"],
            Self::Countries => ["click_countries", "click_country_days"],
        }
    }

    /// Code, platform and host of a row by hour, with placeholders for columns it does not have. The code is that of
    /// the visitor or the country.
    pub(super) fn columns(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Visitors => ("visitor", "CAST(0 AS BIGINT)", "''"),
            Self::Facets => ("CAST(0 AS BIGINT)", "platform", "host"),
            Self::Countries => ("country", "CAST(0 AS BIGINT)", "''"),
        }
    }
}

impl Key {
    pub(super) fn source(self) -> Source {
        match self {
            Self::Platform | Self::Host => Source::Facets,
            Self::Country => Source::Countries,
            _ => Source::Visitors,
        }
    }

    /// The number and the text that a row is grouped by; `time` is its time column.
    fn columns(self, time: &str) -> (String, &'static str) {
        let number = match self {
            Self::Nothing | Self::Host => "CAST(0 AS BIGINT)".to_owned(),
            Self::Day => format!("{time} - {time} % {DAY}"),
            Self::Hour => format!("{time} - {time} % {HOUR}"),
            Self::Link => "link".to_owned(),
            Self::Kind => format!("visitor % {KINDS}"),
            Self::UserAgent => format!("visitor / {KINDS}"),
            Self::Platform => "platform".to_owned(),
            Self::Country => "country".to_owned(),
        };
        (number, if self == Self::Host { "host" } else { "''" })
    }

    /// The same for a cell.
    fn of(self, cell: &Cell) -> (i64, String) {
        let number = match self {
            Self::Nothing | Self::Host => 0,
            Self::Day => cell.hour - cell.hour % DAY,
            Self::Hour => cell.hour,
            Self::Link => cell.link,
            Self::Kind => cell.code % KINDS,
            Self::UserAgent => cell.code / KINDS,
            Self::Country => cell.code,
            Self::Platform => cell.platform,
        };
        (number, if self == Self::Host { cell.host.clone() } else { String::new() })
    }
}

/// A row of an hourly rollup at an end of the window or, if `is_cell` is 0, a sum of rows wholly inside the window.
#[derive(Debug, Clone, FromRow)]
pub(super) struct Cell {
    pub(super) is_cell: i64,
    /// What a sum is grouped by.
    pub(super) number: i64,
    pub(super) host: String,
    pub(super) clicks: i64,
    pub(super) link: i64,
    /// The visitor's or the country's; 0 if rows are by platform and host.
    pub(super) code: i64,
    /// 0 if rows are not by platform.
    pub(super) platform: i64,
    pub(super) hour: i64,
    /// The time of the first and the last click, and the range of their positions in the log.
    pub(super) first_at: i64,
    pub(super) last_at: i64,
    pub(super) first_position: i64,
    pub(super) last_position: i64,
}

impl Cell {
    pub(super) fn name(&self) -> Name {
        (self.link, self.code, self.platform, self.host.clone())
    }
}

/// The key of a row within an hour: link, code, platform and host.
pub(super) type Name = (i64, i64, i64, String);

/// The whole days and hours of a window, and the hours that it contains only a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    days: (i64, i64),
    hours: [(i64, i64); 2],
    cut: [i64; 2],
}

impl Parts {
    /// The end of each range is exclusive.
    fn of(scope: Scope<'_>, key: Key) -> Self {
        let (from, until) = (scope.from, scope.to.saturating_add(1));
        let down = |at: i64, width: i64| at - at.rem_euclid(width);
        let up = |at: i64, width: i64| down(at.saturating_add(width - 1), width);
        let (first, last) = (up(from, HOUR), down(until, HOUR));
        let days = (up(from, DAY), down(until, DAY));
        let cut = [from, until].map(|at| if at.rem_euclid(HOUR) == 0 { i64::MIN } else { down(at, HOUR) });
        if key == Key::Hour || days.0 >= days.1 {
            Self { days: (0, 0), hours: [(first, last), (0, 0)], cut }
        } else {
            Self { days, hours: [(first, days.0), (days.1, last)], cut }
        }
    }
}

async fn count_keys(db: &mut Conn<'_>, scope: Scope<'_>, key: Key) -> Result<BTreeMap<(i64, String), i64>, DbError> {
    let mut counted = BTreeMap::new();
    if scope.links.is_empty() || scope.from > scope.to {
        return Ok(counted);
    }
    debug_assert!(
        key.source() == Source::Visitors || scope.kinds == Kinds::Funnel,
        "only the funnel's clicks have these counts"
    );
    let rows = read(db, scope, key).await?;
    // If other hosts were summed up, a host without its own row may be among them.
    let has_rest = rows.iter().any(|row| row.is_cell == 0 && key == Key::Host && row.number == REST);
    let named: HashSet<String> =
        rows.iter().filter(|row| has_rest && row.is_cell == 0).map(|row| row.host.clone()).collect();
    // Of every cell: the log has the clicks of those that are wholly inside the window, too.
    let names: HashSet<(i64, Name)> =
        rows.iter().filter(|row| row.is_cell != 0).map(|row| (row.hour, row.name())).collect();
    let (mut cells, mut cut) = (Vec::new(), Vec::new());
    for row in rows {
        if row.is_cell == 0 {
            *counted.entry((row.number, row.host)).or_insert(0) += row.clicks;
        } else if scope.from <= row.first_at && row.last_at <= scope.to {
            cells.push((key.of(&row), row.clicks));
        } else if row.first_at <= scope.to && scope.from <= row.last_at {
            cut.push(row);
        }
    }
    let cut = cut::count(db, scope, key, cut, &names).await?;
    cells.extend(cut.iter().map(|(cell, clicks)| (key.of(cell), *clicks)));
    for ((number, host), clicks) in cells {
        let group = if has_rest && !named.contains(&host) { (REST, OTHER.to_owned()) } else { (number, host) };
        *counted.entry(group).or_insert(0) += clicks;
    }
    counted.retain(|_, clicks| *clicks != 0);
    Ok(counted)
}

/// The sums of whole days and hours inside the window, and the rows of the hours at its ends. One statement, and so one
/// snapshot.
async fn read(db: &mut Conn<'_>, scope: Scope<'_>, key: Key) -> Result<Vec<Cell>, DbError> {
    let links = padded(scope.links);
    let sql = statement(scope.kinds, key, links.len());
    let Parts { days, hours, cut } = Parts::of(scope, key);
    Ok(on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(days.0).bind(days.1);
        for (from, until) in hours {
            query = query.bind(from).bind(until);
        }
        query = query.bind(cut[0]).bind(cut[1]);
        for link in &links {
            query = query.bind(*link);
        }
        query.fetch_all(c).await
    })?)
}

fn statement(kinds: Kinds, key: Key, links: usize) -> String {
    let (links, kinds) = (placeholders(9, links), kinds.list());
    let [hours_of, days_of] = key.source().tables();
    let of_kinds = match key.source() {
        Source::Visitors => format!("AND visitor % {KINDS} IN ({kinds})"),
        _ => String::new(),
    };
    let sums = |table: &str, time: &str, from: u32| {
        let until = from + 1;
        let (number, host) = key.columns(time);
        format!(
            "SELECT CAST(0 AS BIGINT) AS is_cell, {number} AS number, {host} AS host, CAST(SUM(clicks) AS BIGINT) AS clicks, \
             {NONE} FROM {table} WHERE link IN ({links}) AND {time} >= ${from} AND {time} < ${until} {of_kinds}{}",
            key.group(time)
        )
    };
    let (code, platform, host) = key.source().columns();
    let cells = format!(
        "SELECT CAST(1 AS BIGINT), CAST(0 AS BIGINT), {host}, clicks, link, {code}, {platform}, hour, first_at, last_at, \
         first_position, last_position FROM {hours_of} WHERE link IN ({links}) AND hour IN ($7, $8) {of_kinds}"
    );
    let [days, hours, more] = [(days_of, "day", 1), (hours_of, "hour", 3), (hours_of, "hour", 5)]
        .map(|(table, time, from)| sums(table, time, from));
    let sums = format!("{days} UNION ALL {hours} UNION ALL {more}");
    if key == Key::Host {
        return largest_hosts(&sums, &cells);
    }
    // The sum of no rows is NULL, which is not a count.
    format!("SELECT * FROM ({sums} UNION ALL {cells}) AS counted WHERE clicks IS NOT NULL")
}

/// The hosts with the most clicks, and the sum of the others in a separate row with the number [`REST`].
fn largest_hosts(sums: &str, cells: &str) -> String {
    let clicks = "CAST(COALESCE(SUM(clicks), 0) AS BIGINT)";
    format!(
        "WITH hosts AS MATERIALIZED (
            SELECT host, {clicks} AS clicks FROM ({sums}) AS counted WHERE clicks IS NOT NULL GROUP BY host
        ), largest AS MATERIALIZED (SELECT host, clicks FROM hosts ORDER BY clicks DESC, host LIMIT {MAX_READ_HOSTS})
        SELECT CAST(0 AS BIGINT) AS is_cell, CAST(0 AS BIGINT) AS number, host, clicks, {NONE} FROM largest
        UNION ALL SELECT CAST(0 AS BIGINT), CAST({REST} AS BIGINT), '{OTHER}', rest.clicks, {NONE} FROM (
            SELECT (SELECT {clicks} FROM hosts) - (SELECT {clicks} FROM largest) AS clicks) AS rest WHERE rest.clicks > 0
        UNION ALL {cells}"
    )
}

/// The columns of a cell, as a sum fills them.
const NONE: &str = "CAST(0 AS BIGINT) AS link, CAST(0 AS BIGINT) AS code, CAST(0 AS BIGINT) AS platform, \
    CAST(0 AS BIGINT) AS hour, CAST(0 AS BIGINT) AS first_at, CAST(0 AS BIGINT) AS last_at, \
    CAST(0 AS BIGINT) AS first_position, CAST(0 AS BIGINT) AS last_position";

impl Key {
    /// The GROUP BY clause.
    fn group(self, time: &str) -> String {
        let (number, host) = self.columns(time);
        match self {
            Self::Nothing => String::new(),
            Self::Host => format!(" GROUP BY {host}"),
            _ => format!(" GROUP BY {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(from: i64, to: i64, key: Key) -> Parts {
        Parts::of(Scope { links: &[], from, to, kinds: Kinds::Funnel }, key)
    }

    #[test]
    fn a_window_is_days_then_hours_then_what_it_cuts() {
        let none = i64::MIN;
        let whole = parts(0, 2 * DAY - 1, Key::Nothing);
        assert_eq!(whole, Parts { days: (0, 2 * DAY), hours: [(0, 0), (2 * DAY, 2 * DAY)], cut: [none, none] });
        let ends = parts(HOUR + 1, 2 * DAY + HOUR, Key::Day);
        let hours = [(2 * HOUR, DAY), (2 * DAY, 2 * DAY + HOUR)];
        assert_eq!(ends, Parts { days: (DAY, 2 * DAY), hours, cut: [HOUR, 2 * DAY + HOUR] });
        let short = parts(HOUR + 1, HOUR + 5, Key::Link);
        assert!(short.hours[0].0 >= short.hours[0].1 && short.cut == [HOUR, HOUR], "{short:?}");
        assert_eq!(parts(0, 2 * DAY - 1, Key::Hour).hours[0], (0, 2 * DAY));
        assert_eq!(parts(-1, -1, Key::Nothing).cut, [-HOUR, none]);
    }
}
