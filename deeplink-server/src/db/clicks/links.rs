//! Which links of an account have the most clicks. For each day, a few hundred links are recorded by sample and hold
//! (Estan and Varghese, "New directions in traffic measurement and accounting", 2002): a link with many clicks is
//! almost certainly among them, and the cost does not depend on the number of links. They are only candidates: the
//! clicks of each are read from its own counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, FromRow};

use super::super::sets::padded_length;
use super::super::upsert::{Column, Upsert};
use super::super::{Conn, DbError, on};
use super::add::{DAY, Group};
use super::counts::{By, Kinds, Scope, count};

/// The number of links of a day that are always recorded. For each further [`ROOM`] links recorded, a click is [`LESS`]
/// times less likely to add another one, down to one in [`LESS`] to the power of [`MAX_TIMES`].
const ROOM: usize = 200;
const LESS: u64 = 16;
const MAX_TIMES: usize = 7;
/// The number of candidates that a report considers: [`MAX_CANDIDATES`] in a window of up to [`SHORT`], because a link that is
/// popular for an hour may rank low in its day; in a longer window [`TIMES_ASKED`] times the number of links asked for.
const SHORT: i64 = 2 * DAY;
const MAX_CANDIDATES: i64 = 400;
const TIMES_ASKED: i64 = 2;
/// Days of accounts that are looked up at a time.
const MAX_DAYS: usize = 100;

/// An account, a day and a link.
type Key = (i64, i64, i64);

/// Adds the funnel's clicks to the recorded links of their days. Each group comes with the number of its account.
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

/// Whether a link is recorded from now on, on a day that already has `named` others. Deterministic: the same clicks give the
/// same result.
fn is_sampled(named: usize, link: i64, first_at: i64, clicks: i64) -> bool {
    let times = u32::try_from((named / ROOM).min(MAX_TIMES)).unwrap_or(0);
    let mixed = (link.cast_unsigned() ^ first_at.cast_unsigned().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) % LESS.pow(times) < clicks.unsigned_abs()
}

/// The links that are recorded for days of accounts.
async fn named_links(db: &mut Conn<'_>, days: &[(i64, i64)]) -> Result<HashMap<(i64, i64), HashSet<i64>>, DbError> {
    let length = padded_length(days.len());
    let pairs = (0..length).map(|nth| format!("(${}, ${})", 2 * nth + 1, 2 * nth + 2)).collect::<Vec<_>>().join(", ");
    // As one text for each day, because a row for each link is several times slower.
    let sql = format!(
        "WITH asked (account, day) AS (VALUES {pairs})
        SELECT asked.account, asked.day, (SELECT string_agg(CAST(n.link AS TEXT), ',') FROM account_links n
            WHERE n.account = asked.account AND n.day = asked.day) FROM asked"
    );
    let rows: Vec<(i64, i64, Option<String>)> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        for (account, day) in days.iter().chain(days.last()).cycle().take(length) {
            query = query.bind(*account).bind(*day);
        }
        query.fetch_all(c).await
    })?;
    let links =
        |text: Option<String>| text.iter().flat_map(|text| text.split(',')).filter_map(|n| n.parse().ok()).collect();
    Ok(rows.into_iter().map(|(account, day, text)| ((account, day), links(text))).collect())
}

async fn store(db: &mut Conn<'_>, rows: &[(Key, i64)]) -> Result<(), DbError> {
    static UPSERT: LazyLock<Upsert> = LazyLock::new(|| {
        Upsert::new(
            "account_links",
            &["account", "day", "link", "clicks"].map(|name| (name, "BIGINT")),
            "ON CONFLICT (account, day, link) DO UPDATE SET clicks = account_links.clicks + excluded.clicks",
        )
    });
    let column = |value: fn(&(Key, i64)) -> i64| Column::Numbers(rows.iter().map(value).collect());
    let columns = [column(|row| row.0.0), column(|row| row.0.1), column(|row| row.0.2), column(|row| row.1)];
    UPSERT.store(db, &columns).await
}

/// The position and the ID of a link.
#[derive(Debug, FromRow)]
pub(crate) struct Candidate {
    pub(crate) position: i64,
    pub(crate) link_id: String,
}

/// The clicks of a link, its ID and its position.
pub(crate) type ClickedLink = (i64, String, i64);

/// The links of an account with the most clicks by people and agents in a window, the most first, at most `limit`.
pub(crate) async fn most_clicked(
    db: &mut Conn<'_>,
    account: i64,
    [from, to]: [i64; 2],
    limit: usize,
) -> Result<Vec<ClickedLink>, DbError> {
    let candidates = candidates(db, account, [from, to], limit).await?;
    let links: Vec<i64> = candidates.iter().map(|link| link.position).collect();
    let counted = count(db, Scope { links: &links, from, to, kinds: Kinds::Funnel }, By::Link).await?;
    let with_clicks = |link: Candidate| Some((*counted.get(&link.position)?, link.link_id, link.position));
    let mut most: Vec<ClickedLink> = candidates.into_iter().filter_map(with_clicks).collect();
    most.sort_by(|(clicks, id, _), (more, other, _)| more.cmp(clicks).then_with(|| id.cmp(other)));
    most.truncate(limit);
    Ok(most)
}

/// Links of an account that include those with the most clicks in a window, without deleted ones.
pub(crate) async fn candidates(
    db: &mut Conn<'_>,
    account: i64,
    [from, to]: [i64; 2],
    asked: usize,
) -> Result<Vec<Candidate>, DbError> {
    const SQL: &str = "
        SELECT l.position, l.link_id FROM (
            SELECT link, SUM(clicks) AS clicks FROM account_links WHERE account = $1 AND day > $2 AND day <= $3
            GROUP BY link) AS most
        JOIN links l ON l.position = most.link AND l.deleted_at IS NULL
        ORDER BY most.clicks DESC, l.position LIMIT $4";
    let is_short = to.saturating_sub(from) <= SHORT;
    let asked = i64::try_from(asked).map_or(MAX_CANDIDATES, |asked| asked.saturating_mul(TIMES_ASKED));
    let limit = if is_short { MAX_CANDIDATES } else { asked.min(MAX_CANDIDATES) };
    Ok(on!(db, c => sqlx::query_as(SQL)
        .bind(account).bind(from.saturating_sub(DAY)).bind(to).bind(limit)
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
        assert_eq!(
            (share(100 * ROOM, 1), share(100 * ROOM, 1 << 28)),
            (0, 4_096),
            "many clicks name a link on any day"
        );
    }
}
