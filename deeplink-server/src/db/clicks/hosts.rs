//! Hosts of referers are words of whoever visits, so a day of a link names only so many of them.

use std::collections::HashSet;

pub(crate) use deeplink_core::visitor::OTHER;
use deeplink_core::visitor::Platform;
use sqlx::AssertSqlSafe;

use super::super::{Conn, DbError, on};

/// Hosts that a day of a link names.
pub(crate) const MAX_HOSTS: i64 = 200;

/// A link, a day and a host.
pub(super) type Named = (i64, i64, String);

/// Those hosts of the clicks between two positions that their link's day does not name and has no room for. A day that is
/// full stays full, so a host is counted by its name in all of a day or in nothing of it.
pub(super) async fn without_room(db: &mut Conn<'_>, from: i64, to: i64) -> Result<HashSet<Named>, DbError> {
    let platforms = Platform::ALL.iter().map(|platform| platform.code().to_string()).collect::<Vec<_>>().join(", ");
    // By platform, because the key of the counts begins so.
    let sql = format!(
        "WITH fresh AS MATERIALIZED (
            SELECT DISTINCT n.link, n.day, t.host FROM (
                SELECT DISTINCT link, at - at % 86400000 AS day, referer FROM clicks
                WHERE position > $1 AND position <= $2 AND kind IN (0, 3) AND referer IS NOT NULL
            ) AS n JOIN visitor_texts t ON t.hash = n.referer
            WHERE t.host <> '' AND NOT EXISTS (
                SELECT 1 FROM click_facet_days d
                WHERE d.link = n.link AND d.day = n.day AND d.platform IN ({platforms}) AND d.host = t.host)
        ), days AS MATERIALIZED (
            SELECT p.link, p.day, (
                SELECT COUNT(DISTINCT d.host) FROM click_facet_days d
                WHERE d.link = p.link AND d.day = p.day AND d.host <> '') AS named
            FROM (SELECT DISTINCT link, day FROM fresh) AS p
        )
        SELECT f.link, f.day, f.host, d.named FROM fresh f JOIN days d ON d.link = f.link AND d.day = f.day
        ORDER BY f.link, f.day, f.host"
    );
    let fresh: Vec<(i64, i64, String, i64)> =
        on!(db, c => sqlx::query_as(AssertSqlSafe(sql)).bind(from).bind(to).fetch_all(c).await)?;
    let mut without = HashSet::new();
    let (mut of, mut room) = (None, 0);
    for (link, day, host, named) in fresh {
        if of != Some((link, day)) {
            (of, room) = (Some((link, day)), MAX_HOSTS - named);
        }
        if room <= 0 {
            without.insert((link, day, host));
        }
        room -= 1;
    }
    Ok(without)
}
