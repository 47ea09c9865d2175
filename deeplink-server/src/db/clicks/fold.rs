//! From the log into counts: the hours and days of each link, and with them what a plan's month has used up.
//!
//! What is folded is grouped by a reader, in one pass over the log for all counts, and then added by the writer, which is
//! held only for as many rows as there are groups.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use deeplink_core::time::Timestamp;
use deeplink_core::visitor::ClickKind;
use sqlx::{FromRow, PgConnection, SqliteConnection};

use super::super::{Conn, DbError, execute, on};
use super::batch::{MAX_ROWS, SizedStatements, count};
use super::hosts::{self, Named, OTHER};

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// What a fold adds, and where in the log that was.
#[derive(Debug)]
pub(crate) struct Batch {
    from: i64,
    to: i64,
    /// Whether the log goes on after it.
    pub(crate) is_full: bool,
    rollups: [BTreeMap<Key, Sum>; 4],
    months: BTreeMap<(String, i64), i64>,
}

/// Link, time, kind or platform, and host.
type Key = (i64, i64, i64, String);

/// Clicks, between which positions they stand, and when the first and the last happened.
#[derive(Debug, Clone, Copy)]
struct Sum {
    clicks: i64,
    first_position: i64,
    last_position: i64,
    first_at: i64,
    last_at: i64,
}

/// Clicks that are alike, of a stretch of the log.
#[derive(Debug, FromRow)]
pub(crate) struct Group {
    pub(crate) link: i64,
    /// Unix milliseconds of its start.
    pub(crate) hour: i64,
    pub(crate) kind: i64,
    pub(crate) platform: i64,
    /// Of the referer; empty when there is none.
    pub(crate) host: String,
    pub(crate) clicks: i64,
    pub(crate) first_position: i64,
    pub(crate) last_position: i64,
    pub(crate) first_at: i64,
    pub(crate) last_at: i64,
}

/// A table of counts.
struct Rollup {
    table: &'static str,
    time: &'static str,
    /// By platform and host rather than by kind.
    has_facets: bool,
    /// Whether it says where in the log its clicks stand.
    has_positions: bool,
}

const ROLLUPS: [Rollup; 4] = [
    Rollup { table: "click_hours", time: "hour", has_facets: false, has_positions: true },
    Rollup { table: "click_days", time: "day", has_facets: false, has_positions: false },
    Rollup { table: "click_facets", time: "hour", has_facets: true, has_positions: true },
    Rollup { table: "click_facet_days", time: "day", has_facets: true, has_positions: false },
];

/// Groups the next clicks of the log that stand before a position, at most `limit` of them; with `months` also by account
/// and month. `None` when all of them are in the counts.
///
/// What it reads beside the log may be newer than the mark. Then somebody else has moved the mark, and nothing of this
/// batch is stored.
pub(crate) async fn next_fold(
    db: &mut Conn<'_>,
    before: i64,
    limit: i64,
    months: bool,
) -> Result<Option<Batch>, DbError> {
    // What is visible ends where the head is in the same snapshot, because the head's row is locked from the moment a
    // position is given out until its transaction ends. So there is nothing still to come below the last one found.
    const NEXT: &str = "
        SELECT (SELECT position FROM click_marks WHERE name = 'folded'), MAX(position), CAST(COUNT(*) AS BIGINT) FROM (
            SELECT position FROM clicks
            WHERE position > (SELECT position FROM click_marks WHERE name = 'folded') AND position < $2
            ORDER BY position LIMIT $1
        ) AS next";
    // Grouped by referer before its host is looked up, so that this is done once for a group.
    const GROUP: &str = "
        SELECT link, hour, kind, platform, COALESCE(t.host, '') AS host, clicks, first_position, last_position, first_at,
            last_at
        FROM (
            SELECT link, at - at % 3600000 AS hour, kind, platform, referer, COUNT(*) AS clicks,
                MIN(position) AS first_position, MAX(position) AS last_position, MIN(at) AS first_at, MAX(at) AS last_at
            FROM clicks WHERE position > $1 AND position <= $2
            GROUP BY link, at - at % 3600000, kind, platform, referer
        ) AS g LEFT JOIN visitor_texts t ON t.hash = g.referer";
    let (from, to, found): (i64, Option<i64>, i64) =
        on!(db, c => sqlx::query_as(NEXT).bind(limit).bind(before).fetch_one(c).await)?;
    let Some(to) = to else { return Ok(None) };
    let groups: Vec<Group> = on!(db, c => sqlx::query_as(GROUP).bind(from).bind(to).fetch_all(c).await)?;
    let without_room = hosts::without_room(db, from, to).await?;
    let months = if months { months_of(db, from, to).await? } else { BTreeMap::new() };
    Ok(Some(Batch { from, to, is_full: found == limit, rollups: sums(groups, &without_room), months }))
}

/// A fold of what was grouped already: all that stands in the log between the mark and `last`, where nothing stands before
/// `first` that is not in the counts. `None` when the mark is beyond that, and the log has to be read.
pub(crate) async fn fold_gathered(
    db: &mut Conn<'_>,
    groups: Vec<Group>,
    (first, last): (i64, i64),
    months: bool,
) -> Result<Option<Batch>, DbError> {
    const MARK: &str = "SELECT position FROM click_marks WHERE name = 'folded'";
    let from: i64 = on!(db, c => sqlx::query_scalar(MARK).fetch_one(c).await)?;
    if from >= first {
        return Ok(None);
    }
    let names_hosts = groups.iter().any(|group| !group.host.is_empty());
    let without_room = if names_hosts { hosts::without_room(db, from, last).await? } else { HashSet::new() };
    let months = if months { months_of(db, from, last).await? } else { BTreeMap::new() };
    Ok(Some(Batch { from, to: last, is_full: false, rollups: sums(groups, &without_room), months }))
}

/// The rows that groups come to in each table.
fn sums(groups: Vec<Group>, without_room: &HashSet<Named>) -> [BTreeMap<Key, Sum>; 4] {
    let mut rollups: [BTreeMap<Key, Sum>; 4] = Default::default();
    for group in groups {
        let Group { link, hour, kind, platform, host, clicks, first_position, last_position, first_at, last_at } =
            group;
        let sum = Sum { clicks, first_position, last_position, first_at, last_at };
        let day = hour - hour.rem_euclid(DAY);
        let [hours, days, facets, facet_days] = &mut rollups;
        add(hours, (link, hour, kind, String::new()), sum);
        add(days, (link, day, kind, String::new()), sum);
        if u8::try_from(kind).ok().and_then(ClickKind::from_code).is_some_and(ClickKind::in_funnel) {
            let mut named = (link, day, host);
            if without_room.contains(&named) {
                OTHER.clone_into(&mut named.2);
            }
            add(facet_days, (link, day, platform, named.2.clone()), sum);
            add(facets, (link, hour, platform, named.2), sum);
        }
    }
    rollups
}

fn add(rows: &mut BTreeMap<Key, Sum>, key: Key, sum: Sum) {
    let join = |known: &mut Sum| {
        known.clicks += sum.clicks;
        known.first_position = known.first_position.min(sum.first_position);
        known.last_position = known.last_position.max(sum.last_position);
        known.first_at = known.first_at.min(sum.first_at);
        known.last_at = known.last_at.max(sum.last_at);
    };
    rows.entry(key).and_modify(join).or_insert(sum);
}

/// Clicks of people and agents between two positions, by their account and month.
async fn months_of(db: &mut Conn<'_>, from: i64, to: i64) -> Result<BTreeMap<(String, i64), i64>, DbError> {
    const SQL: &str = "
        SELECT COALESCE(l.tenant_id, d.tenant_id), g.day, g.clicks FROM (
            SELECT link, at - at % 86400000 AS day, COUNT(*) AS clicks FROM clicks
            WHERE position > $1 AND position <= $2 AND kind IN (0, 3) GROUP BY link, at - at % 86400000
        ) AS g LEFT JOIN links l ON l.position = g.link LEFT JOIN deleted_links d ON d.position = g.link
        WHERE l.tenant_id IS NOT NULL OR d.tenant_id IS NOT NULL";
    let rows: Vec<(String, i64, i64)> = on!(db, c => sqlx::query_as(SQL).bind(from).bind(to).fetch_all(c).await)?;
    let mut months = BTreeMap::new();
    for (tenant, day, clicks) in rows {
        *months.entry((tenant, Timestamp::from_millis(day).month().as_millis())).or_insert(0) += clicks;
    }
    Ok(months)
}

/// Adds a batch to the counts. The counts and the mark of what they hold move together. `false` when somebody else has
/// folded meanwhile, and nothing is added.
pub(crate) async fn store_fold(db: &mut Conn<'_>, batch: &Batch) -> Result<bool, DbError> {
    const MOVE: &str = "UPDATE click_marks SET position = $2 WHERE name = 'folded' AND position = $1";
    // Whoever moves the mark has the right to add; another node waits here and then finds it moved.
    let (from, to) = (batch.from, batch.to);
    let moved = execute!(db, MOVE; from, to)?;
    if moved == 0 {
        return Ok(false);
    }
    for (nth, rows) in batch.rollups.iter().enumerate() {
        let rows: Vec<(&Key, &Sum)> = rows.iter().collect();
        match db {
            Conn::Sqlite(c) => store_on_sqlite(c, nth, &rows).await?,
            Conn::Postgres(c) => store_on_postgres(c, nth, &rows).await?,
        }
    }
    // Last, because conversions wait for the same rows.
    store_months(db, &batch.months).await?;
    Ok(true)
}

/// Adds to the months of accounts, in the order of their keys.
async fn store_months(db: &mut Conn<'_>, months: &BTreeMap<(String, i64), i64>) -> Result<(), DbError> {
    const INTO: &str = "tenant_months (tenant_id, month, events)";
    const THEN: &str = "ON CONFLICT (tenant_id, month) DO UPDATE SET events = tenant_months.events + excluded.events";
    static SQLITE: LazyLock<SizedStatements> = LazyLock::new(|| SizedStatements::new(INTO, 3, THEN));
    static POSTGRES: LazyLock<String> = LazyLock::new(|| {
        format!("INSERT INTO {INTO} SELECT * FROM unnest($1::TEXT[], $2::BIGINT[], $3::BIGINT[]) {THEN}")
    });
    let rows: Vec<(&str, i64, i64)> =
        months.iter().map(|((tenant, month), clicks)| (tenant.as_str(), *month, *clicks)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    match db {
        Conn::Sqlite(c) => {
            for rows in rows.chunks(MAX_ROWS) {
                let mut query = sqlx::query(SQLITE.for_rows(rows.len())).bind(count(rows.len()));
                for (tenant, month, clicks) in rows {
                    query = query.bind(*tenant).bind(month).bind(clicks);
                }
                query.execute(&mut **c).await?;
            }
        }
        Conn::Postgres(c) => {
            sqlx::query(sqlx::AssertSqlSafe(POSTGRES.as_str()))
                .bind(rows.iter().map(|row| row.0).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.1).collect::<Vec<_>>())
                .bind(rows.iter().map(|row| row.2).collect::<Vec<_>>())
                .execute(&mut **c)
                .await?;
        }
    }
    Ok(())
}

impl Rollup {
    /// Table and columns, with the types that PostgreSQL needs to know.
    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let mut columns = vec![("link", "BIGINT"), (self.time, "BIGINT")];
        if self.has_facets {
            columns.extend([("platform", "BIGINT"), ("host", "TEXT")]);
        } else {
            columns.push(("kind", "BIGINT"));
        }
        columns.push(("clicks", "BIGINT"));
        if self.has_positions {
            columns.extend(["first_position", "last_position", "first_at", "last_at"].map(|name| (name, "BIGINT")));
        }
        columns
    }

    fn target(&self) -> String {
        let names: Vec<_> = self.columns().iter().map(|column| column.0).collect();
        format!("{} ({})", self.table, names.join(", "))
    }

    /// What becomes of a row that is there.
    fn then(&self) -> String {
        let Self { table, time, .. } = self;
        let by = if self.has_facets { "platform, host" } else { "kind" };
        let mut sets = vec![format!("clicks = {table}.clicks + excluded.clicks")];
        if self.has_positions {
            sets.push("last_position = excluded.last_position".into());
            for (name, is_better) in [("first_at", "<"), ("last_at", ">")] {
                sets.push(format!(
                    "{name} = CASE WHEN excluded.{name} {is_better} {table}.{name} \
                     THEN excluded.{name} ELSE {table}.{name} END"
                ));
            }
        }
        format!("ON CONFLICT (link, {time}, {by}) DO UPDATE SET {}", sets.join(", "))
    }
}

async fn store_on_sqlite(c: &mut SqliteConnection, nth: usize, rows: &[(&Key, &Sum)]) -> Result<(), DbError> {
    static SQL: LazyLock<[SizedStatements; 4]> = LazyLock::new(|| {
        ROLLUPS.map(|rollup| SizedStatements::new(&rollup.target(), rollup.columns().len(), &rollup.then()))
    });
    for rows in rows.chunks(MAX_ROWS) {
        let mut query = sqlx::query(SQL[nth].for_rows(rows.len())).bind(count(rows.len()));
        for ((link, time, kind, host), sum) in rows {
            query = query.bind(link).bind(time).bind(kind);
            if ROLLUPS[nth].has_facets {
                query = query.bind(host);
            }
            query = query.bind(sum.clicks);
            if ROLLUPS[nth].has_positions {
                query = query.bind(sum.first_position).bind(sum.last_position).bind(sum.first_at).bind(sum.last_at);
            }
        }
        query.execute(&mut *c).await?;
    }
    Ok(())
}

async fn store_on_postgres(c: &mut PgConnection, nth: usize, rows: &[(&Key, &Sum)]) -> Result<(), DbError> {
    static SQL: LazyLock<[String; 4]> = LazyLock::new(|| {
        ROLLUPS.map(|rollup| {
            let columns = rollup.columns();
            let arrays = columns.iter().enumerate().map(|(at, (_, kind))| format!("${}::{kind}[]", at + 1));
            let arrays = arrays.collect::<Vec<_>>().join(", ");
            format!("INSERT INTO {} SELECT * FROM unnest({arrays}) {}", rollup.target(), rollup.then())
        })
    });
    let keys = |value: fn(&Key) -> i64| rows.iter().map(|(key, _)| value(key)).collect::<Vec<_>>();
    let sums = |value: fn(&Sum) -> i64| rows.iter().map(|(_, sum)| value(sum)).collect::<Vec<_>>();
    // Made above from constants alone.
    let query = sqlx::query(sqlx::AssertSqlSafe(SQL[nth].as_str()));
    let mut query = query.bind(keys(|key| key.0)).bind(keys(|key| key.1)).bind(keys(|key| key.2));
    if ROLLUPS[nth].has_facets {
        query = query.bind(rows.iter().map(|(key, _)| key.3.as_str()).collect::<Vec<_>>());
    }
    query = query.bind(sums(|sum| sum.clicks));
    if ROLLUPS[nth].has_positions {
        query = query.bind(sums(|sum| sum.first_position)).bind(sums(|sum| sum.last_position));
        query = query.bind(sums(|sum| sum.first_at)).bind(sums(|sum| sum.last_at));
    }
    query.execute(c).await?;
    Ok(())
}
