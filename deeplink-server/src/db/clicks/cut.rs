//! Counts from the log the clicks of an hour that are inside a window which begins or ends within that hour.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::{AssertSqlSafe, FromRow};

use super::super::sets::{padded, placeholders};
use super::super::tenants::is_account;
use super::super::{Conn, DbError, on};
use super::add::KINDS;
use super::counts::{Cell, HOUR, Key, Kinds, Name, Scope, Source};
use super::hosts::OTHER;
use super::{head, position_at};

/// A window that ends less than this before the newest click ends now. Other nodes count the clicks that they store within
/// this time. In milliseconds.
const NOW: i64 = 10_000;

/// How many clicks of each cell are in the window. If the window ends now, clicks that another node has stored and not
/// counted yet may be mistaken for clicks of the cells.
pub(super) async fn count(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    key: Key,
    cells: Vec<Cell>,
    names: &HashSet<(i64, Name)>,
) -> Result<Vec<(Cell, i64)>, DbError> {
    let mut hours: BTreeMap<i64, Vec<Cell>> = BTreeMap::new();
    for cell in cells {
        hours.entry(cell.hour).or_default().push(cell);
    }
    let mut counted = Vec::new();
    for (hour, cells) in hours {
        let hour = Hour { start: hour, cells: &cells, names };
        let inside = match beside_edge(db, scope, key, hour).await? {
            Some(inside) => inside,
            None => of_all(db, scope, key, hour).await?,
        };
        counted.extend(cells.into_iter().zip(inside));
    }
    Ok(counted)
}

/// The cells of an hour that the window cuts, and the names of all cells by hour.
#[derive(Clone, Copy)]
struct Hour<'a> {
    start: i64,
    cells: &'a [Cell],
    names: &'a HashSet<(i64, Name)>,
}

/// The clicks of an hour's cells in the window, from the part of the log after the window's edge in that hour. A
/// click's position is never before its time, so all clicks after the edge are in that part: at the window's start they
/// are counted, and at its end they are subtracted, unless some that are not counted yet may be among them: then those
/// before the edge are counted. `None` if retention may have removed clicks of that part.
async fn beside_edge(db: &mut Conn<'_>, scope: Scope<'_>, key: Key, of: Hour<'_>) -> Result<Option<Vec<i64>>, DbError> {
    let (hour, cells) = (of.start, of.cells);
    let (first, last) = span(cells);
    let begins = scope.from > hour;
    let edge = if begins { scope.from } else { scope.to.saturating_add(1) };
    let newest = head(db).await?;
    let is_open = newest < position_at(hour + HOUR + NOW);
    if !begins && is_open && newest >= position_at(edge.saturating_add(NOW)) {
        return before_edge(db, scope, key, of, newest).await;
    }
    let after = position_at(edge).max(first - 1);
    // If the window begins and ends in the same hour, its start is the edge.
    let until = if begins { scope.to.min(hour + HOUR - 1) } else { hour + HOUR - 1 };
    let found = scan(db, scope.kinds, key, of, (after, last), [(hour, hour + HOUR - 1), (edge, until)]).await?;
    if removed(db).await?.is_some_and(|removed| after < removed) {
        return Ok(None);
    }
    let found = |cell: &Cell| found.get(&cell.name()).map_or(0, |found| found.1);
    let inside = |cell: &Cell| if begins { found(cell) } else { (cell.clicks - found(cell)).max(0) };
    Ok(Some(cells.iter().map(inside).collect()))
}

/// The clicks of an hour's cells up to the window's end, which is in that hour, whether they are counted or not. `None` if
/// retention may have removed some.
async fn before_edge(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    key: Key,
    of: Hour<'_>,
    newest: i64,
) -> Result<Option<Vec<i64>>, DbError> {
    let (after, inside) = (position_at(of.start), (of.start, scope.to));
    let found = scan(db, scope.kinds, key, of, (after, newest), [inside, inside]).await?;
    if removed(db).await?.is_some_and(|removed| after < removed) {
        return Ok(None);
    }
    let inside = |cell: &Cell| found.get(&cell.name()).map_or(0, |found| found.1);
    Ok(Some(of.cells.iter().map(inside).collect()))
}

/// Up to where retention has removed clicks from the log. It is read after a scan, so that it covers everything that was
/// removed before.
async fn removed(db: &mut Conn<'_>) -> Result<Option<i64>, DbError> {
    const REMOVED: &str = "SELECT MAX(position) FROM click_marks WHERE SUBSTR(name, 1, 7) = 'removed'";
    Ok(on!(db, c => sqlx::query_scalar(REMOVED).fetch_one(c).await)?)
}

/// The same from all the clicks of the cells. Once retention has removed one of a cell's clicks from the log, the whole
/// cell counts if its first click is in the window.
async fn of_all(db: &mut Conn<'_>, scope: Scope<'_>, key: Key, of: Hour<'_>) -> Result<Vec<i64>, DbError> {
    let (hour, cells) = (of.start, of.cells);
    let (first, last) = span(cells);
    let window = (scope.from, scope.to);
    let found = scan(db, scope.kinds, key, of, (first - 1, last), [(hour, hour + HOUR - 1), window]).await?;
    let inside = |cell: &Cell| match found.get(&cell.name()) {
        Some(&(all, inside)) if all == cell.clicks => inside,
        _ if scope.from <= cell.first_at => cell.clicks,
        _ => 0,
    };
    Ok(cells.iter().map(inside).collect())
}

/// The first and the last position of cells.
fn span(cells: &[Cell]) -> (i64, i64) {
    let first = cells.iter().map(|cell| cell.first_position).min().unwrap_or(0);
    (first, cells.iter().map(|cell| cell.last_position).max().unwrap_or(0))
}

#[derive(FromRow)]
struct Part {
    link: i64,
    code: i64,
    platform: i64,
    host: String,
    clicks: i64,
    /// How many of them are in the inner range.
    inside: i64,
}

/// Clicks of the cells in a part of the log, by cell name: those in the first range of times, and those in the second,
/// which is inside the first. Ranges include both ends. A host that no cell names counts as `other`.
async fn scan(
    db: &mut Conn<'_>,
    kinds: Kinds,
    key: Key,
    of: Hour<'_>,
    (after, last): (i64, i64),
    [all, inner]: [(i64, i64); 2],
) -> Result<HashMap<Name, (i64, i64)>, DbError> {
    let mut links: Vec<i64> = of.cells.iter().map(|cell| cell.link).collect();
    links.sort_unstable();
    links.dedup();
    let links = padded(&links);
    let (mut code, platform, mut host) = key.source().columns();
    let (visitor, mut join) = (format!("kind + {KINDS} * agent_code"), "");
    let by = match key.source() {
        Source::Visitors => {
            code = &visitor;
            "kind, agent_code".to_owned()
        }
        Source::Facets => {
            (join, host) = ("LEFT JOIN visitor_texts t ON t.hash = clicks.referer", "COALESCE(t.host, '')");
            format!("platform, {host}")
        }
        Source::Countries => code.to_owned(),
    };
    let of_account = is_account(&links);
    let these = if of_account { String::new() } else { format!("AND link IN ({})", placeholders(7, links.len())) };
    let mut sql = format!(
        "SELECT link, {code} AS code, {platform} AS platform, {host} AS host, COUNT(*) AS clicks, \
         CAST(SUM(CASE WHEN at >= $3 AND at <= $4 THEN 1 ELSE 0 END) AS BIGINT) AS inside FROM clicks {join} \
         WHERE position > $1 AND position <= $2 AND at >= $5 AND at <= $6 \
         {these} AND kind IN ({}) GROUP BY link, {by}",
        kinds.list()
    );
    if of_account {
        // The log contains links only. Their accounts are looked up once per link, not once per click.
        let own = |table: &str| {
            format!(
                "EXISTS (SELECT 1 FROM {table} o JOIN tenants a ON a.id = o.tenant_id \
                 WHERE o.position = counted.link AND a.account = $7)"
            )
        };
        sql = format!(
            "SELECT CAST($7 AS BIGINT) AS link, code, platform, host, CAST(SUM(clicks) AS BIGINT) AS clicks, \
             CAST(SUM(inside) AS BIGINT) AS inside FROM ({sql}) AS counted \
             WHERE {} OR {} GROUP BY code, platform, host",
            own("links"),
            own("deleted_links")
        );
    }
    let parts: Vec<Part> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(last).bind(inner.0).bind(inner.1)
            .bind(all.0).bind(all.1);
        for link in &links {
            query = query.bind(*link);
        }
        query.fetch_all(c).await
    })?;
    let mut found: HashMap<Name, (i64, i64)> = HashMap::new();
    for part in parts {
        let mut name = (of.start, (part.link, part.code, part.platform, part.host));
        if !of.names.contains(&name) {
            OTHER.clone_into(&mut name.1.3);
        }
        let sum = found.entry(name.1).or_default();
        *sum = (sum.0 + part.clicks, sum.1 + part.inside);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::tests::Scratch;

    /// A count reads the whole hour only if retention has removed clicks of it. The marks of readers of the log, which
    /// are at its end, do not cause that.
    #[tokio::test]
    async fn an_hour_is_counted_beside_its_edge_unless_clicks_were_removed() {
        const BEGIN: i64 = 10 * HOUR;
        let scratch = Scratch::new().await;
        let [early, late] = [BEGIN + 1_000, BEGIN + HOUR - 1_000].map(|at| (position_at(at) + 1, at));
        for (position, at) in [early, late] {
            let click = "INSERT INTO clicks (position, link, at, kind, platform)";
            scratch.execute(format!("{click} VALUES ({position}, 1, {at}, 0, 4)")).await;
        }
        let cell = Cell {
            is_cell: 1,
            number: 0,
            host: String::new(),
            clicks: 2,
            link: 1,
            code: 0,
            platform: 0,
            hour: BEGIN,
            first_at: early.1,
            last_at: late.1,
            first_position: early.0,
            last_position: late.0,
        };
        let scope = Scope { links: &[1], from: BEGIN + HOUR / 2, to: BEGIN + 24 * HOUR, kinds: Kinds::All };
        let (key, cells) = (Key::Nothing, [cell]);
        let names = HashSet::from([(BEGIN, cells[0].name())]);
        let of = Hour { start: BEGIN, cells: &cells, names: &names };
        for (mark, expected) in [("head", Some(vec![1])), ("told", Some(vec![1])), ("removed:pro", None)] {
            let end = position_at(BEGIN + HOUR);
            scratch.execute(format!("UPDATE click_marks SET position = {end} WHERE name = '{mark}'")).await;
            let mut reader = scratch.db.read().await.expect("a reader");
            let counted = beside_edge(&mut reader.conn(), scope, key, of).await.expect("a count");
            assert_eq!(counted, expected, "{mark}");
        }
    }

    /// Clicks that another node has stored and not counted yet are no reason to show fewer clicks in a window that ended
    /// before, in the same hour.
    #[tokio::test]
    async fn uncounted_clicks_after_a_window_are_not_subtracted_from_it() {
        const BEGIN: i64 = 10 * HOUR;
        let scratch = Scratch::new().await;
        let times = [BEGIN + 1_000, BEGIN + 2_000, BEGIN + HOUR / 2, BEGIN + HOUR / 2 + 1];
        for at in times {
            let (click, position) = ("INSERT INTO clicks (position, link, at, kind, platform)", position_at(at) + 1);
            scratch.execute(format!("{click} VALUES ({position}, 1, {at}, 0, 4)")).await;
        }
        // The first three are counted; the head covers the last one.
        let cell = Cell {
            is_cell: 1,
            number: 0,
            host: String::new(),
            clicks: 3,
            link: 1,
            code: 0,
            platform: 0,
            hour: BEGIN,
            first_at: times[0],
            last_at: times[2],
            first_position: position_at(times[0]) + 1,
            last_position: position_at(times[3]) + 1,
        };
        let to = BEGIN + HOUR / 4;
        let scope = Scope { links: &[1], from: BEGIN - HOUR, to, kinds: Kinds::All };
        let mut reader = scratch.db.read().await.expect("a reader");
        let names = HashSet::from([(BEGIN, cell.name())]);
        let counted = count(&mut reader.conn(), scope, Key::Nothing, vec![cell], &names).await.expect("a count");
        assert_eq!(counted.iter().map(|(_, inside)| *inside).collect::<Vec<_>>(), [2]);
    }
}
