//! Which links of an account have the most clicks. A day names some hundreds of its links, found by sample and hold (Estan and
//! Varghese, "New directions in traffic measurement and accounting", 2002): a link with many clicks is among them all but
//! surely, and what it costs does not depend on how many links there are. They are candidates only: how many clicks each has
//! is read from its own counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, FromRow};

use super::super::sets::padded_length;
use super::super::{Conn, DbError, on};
use super::add::{DAY, Group};
use super::batch::{MAX_ROWS, SizedStatements, count};

/// Links of a day that are named in any case. Each time that as many more are named, a click is [`LESS`] times less likely to
/// name another one.
const ROOM: usize = 200;
const LESS: u64 = 16;
/// Maximum links that a day names.
const MAX_NAMED: usize = 4 * ROOM;
/// Links that a report looks at.
const MAX_CANDIDATES: i64 = 100;
/// Days of accounts that are looked up at one time.
const MAX_DAYS: usize = 100;

/// An account, a day and a link.
type Key = (i64, i64, i64);

/// Adds the funnel's clicks to the links that their days name. `groups` come with the number of their account.
pub(super) async fn add<'a>(db: &mut Conn<'_>, groups: impl Iterator<Item = (i64, &'a Group)>) -> Result<(), DbError> {
    let mut clicked: BTreeMap<Key, (i64, i64)> = BTreeMap::new();
    for (account, group) in groups.filter(|(_, group)| group.in_funnel()) {
        let (clicks, _) = clicked.entry((account, group.day(), group.link)).or_insert((0, group.first_at));
        *clicks += group.clicks;
    }
    let mut days: Vec<(i64, i64)> = clicked.keys().map(|(account, day, _)| (*account, *day)).collect();
    days.dedup();
    let mut named = HashMap::new();
    for days in days.chunks(MAX_DAYS) {
        named.extend(named_links(db, days).await?);
    }
    let rows: Vec<(Key, i64)> = clicked
        .into_iter()
        .filter_map(|(key, (clicks, first_at))| {
            let (account, day, link) = key;
            let named: &mut HashSet<i64> = named.entry((account, day)).or_default();
            if !named.contains(&link) {
                is_sampled(named.len(), link, first_at, clicks).then(|| named.insert(link))?;
            }
            Some((key, clicks))
        })
        .collect();
    store(db, &rows).await
}

/// Whether a link is named from now on, where so many are. The same links come out whenever the same clicks are counted.
fn is_sampled(named: usize, link: i64, first_at: i64, clicks: i64) -> bool {
    let Ok(times) = u32::try_from(named / ROOM) else { return false };
    let mixed = (link.cast_unsigned() ^ first_at.cast_unsigned().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    named < MAX_NAMED && (mixed >> 32) % LESS.pow(times) < clicks.unsigned_abs()
}

#[derive(FromRow)]
struct Named {
    account: i64,
    day: i64,
    link: i64,
}

async fn named_links(db: &mut Conn<'_>, days: &[(i64, i64)]) -> Result<HashMap<(i64, i64), HashSet<i64>>, DbError> {
    let length = padded_length(days.len());
    let pairs = (0..length).map(|nth| format!("(${}, ${})", 2 * nth + 1, 2 * nth + 2)).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "WITH asked (account, day) AS (VALUES {pairs})
        SELECT DISTINCT n.account, n.day, n.link
        FROM asked JOIN account_links n ON n.account = asked.account AND n.day = asked.day"
    );
    let rows: Vec<Named> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        for (account, day) in days.iter().chain(days.last()).cycle().take(length) {
            query = query.bind(*account).bind(*day);
        }
        query.fetch_all(c).await
    })?;
    let mut named: HashMap<_, HashSet<i64>> = HashMap::new();
    for Named { account, day, link } in rows {
        named.entry((account, day)).or_default().insert(link);
    }
    Ok(named)
}

/// Adds rows in the order of their keys.
async fn store(db: &mut Conn<'_>, rows: &[(Key, i64)]) -> Result<(), DbError> {
    const INTO: &str = "account_links (account, day, link, clicks)";
    const THEN: &str = "ON CONFLICT (account, day, link) DO UPDATE SET clicks = account_links.clicks + excluded.clicks";
    static SQLITE: LazyLock<SizedStatements> = LazyLock::new(|| SizedStatements::new(INTO, 4, THEN));
    static POSTGRES: LazyLock<String> = LazyLock::new(|| {
        format!(
            "INSERT INTO {INTO} SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[]) {THEN}"
        )
    });
    if rows.is_empty() {
        return Ok(());
    }
    match db {
        Conn::Sqlite(c) => {
            for rows in rows.chunks(MAX_ROWS) {
                let mut query = sqlx::query(SQLITE.for_rows(rows.len())).bind(count(rows.len()));
                for ((account, day, link), clicks) in rows {
                    query = query.bind(account).bind(day).bind(link).bind(clicks);
                }
                query.execute(&mut **c).await?;
            }
        }
        Conn::Postgres(c) => {
            let column = |value: fn(&(Key, i64)) -> i64| rows.iter().map(value).collect::<Vec<_>>();
            sqlx::query(AssertSqlSafe(POSTGRES.as_str()))
                .bind(column(|row| row.0.0))
                .bind(column(|row| row.0.1))
                .bind(column(|row| row.0.2))
                .bind(column(|row| row.1))
                .execute(&mut **c)
                .await?;
        }
    }
    Ok(())
}

/// A link by its position and its id.
#[derive(Debug, FromRow)]
pub(crate) struct Candidate {
    pub(crate) position: i64,
    pub(crate) link_id: String,
}

/// Links of an account that may have the most clicks in a window, deleted ones excluded: at most 100.
pub(crate) async fn most_clicked(
    db: &mut Conn<'_>,
    account: i64,
    [from, to]: [i64; 2],
) -> Result<Vec<Candidate>, DbError> {
    // Twice as many before it is looked up which of them are deleted.
    const SQL: &str = "
        SELECT l.position, l.link_id FROM (
            SELECT link, SUM(clicks) AS clicks FROM account_links
            WHERE account = $1 AND day > $2 AND day <= $3
            GROUP BY link ORDER BY 2 DESC, 1 LIMIT $4) AS most
        JOIN links l ON l.position = most.link AND l.deleted_at IS NULL
        ORDER BY most.clicks DESC, l.position LIMIT $5";
    Ok(on!(db, c => sqlx::query_as(SQL)
        .bind(account).bind(from.saturating_sub(DAY)).bind(to).bind(2 * MAX_CANDIDATES).bind(MAX_CANDIDATES)
        .fetch_all(c).await)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_click_names_its_link_the_less_likely_the_more_are_named() {
        let share = |named: usize, clicks: i64| (0..4_096).filter(|link| is_sampled(named, *link, 7, clicks)).count();
        assert_eq!((share(0, 1), share(ROOM - 1, 1)), (4_096, 4_096));
        assert!((200..320).contains(&share(ROOM, 1)), "{}", share(ROOM, 1));
        assert!((5..40).contains(&share(2 * ROOM, 1)), "{}", share(2 * ROOM, 1));
        assert_eq!(share(2 * ROOM, 256), 4_096);
        assert_eq!((share(MAX_NAMED - 1, 4_096), share(MAX_NAMED, i64::MAX)), (4_096, 0));
    }
}
