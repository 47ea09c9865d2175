//! Limits how many referer hosts are counted by name for a link or an account and day, because visitors can send any host.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(crate) use deeplink_core::visitor::OTHER;
use deeplink_core::visitor::Platform;
use sqlx::AssertSqlSafe;

use super::super::sets::padded_length;
use super::super::tenants::is_account;
use super::super::{Conn, DbError, on};
use super::add::Group;

/// Maximum hosts counted by name for a link and day.
const MAX_HOSTS: usize = 200;
/// The same for all links of an account together.
const MAX_ACCOUNT_HOSTS: usize = 1_000;
/// Days of links that are looked up at a time.
const MAX_DAYS: usize = 100;

/// A link, a day and a host.
pub(super) type Named = (i64, i64, String);

/// The hosts of groups that have no row for their link and day, and for which there is no room. A day that is full
/// stays full, so a host is counted by name for the whole day or not at all.
pub(super) async fn without_room(db: &mut Conn<'_>, groups: &[Group]) -> Result<HashSet<Named>, DbError> {
    let mut named: BTreeMap<(i64, i64), BTreeSet<&str>> = BTreeMap::new();
    for group in groups.iter().filter(|group| !group.host.is_empty() && group.in_funnel()) {
        named.entry((group.link, group.day())).or_default().insert(&group.host);
    }
    let mut without = HashSet::new();
    let days: Vec<_> = named.keys().copied().collect();
    for days in days.chunks(MAX_DAYS) {
        let known = hosts_of(db, days).await?;
        for (link, day) in days {
            let known = known.get(&(*link, *day));
            let most = if is_account(&[*link]) { MAX_ACCOUNT_HOSTS } else { MAX_HOSTS };
            let mut room = most.saturating_sub(known.map_or(0, HashSet::len));
            for host in &named[&(*link, *day)] {
                if known.is_some_and(|known| known.contains(*host)) {
                    continue;
                }
                if room == 0 {
                    without.insert((*link, *day, (*host).to_owned()));
                } else {
                    room -= 1;
                }
            }
        }
    }
    Ok(without)
}

/// The hosts that are counted by name for days of links.
async fn hosts_of(db: &mut Conn<'_>, days: &[(i64, i64)]) -> Result<HashMap<(i64, i64), HashSet<String>>, DbError> {
    let length = padded_length(days.len());
    // By platform, because it comes first in the key of the counts.
    let platforms = Platform::ALL.iter().map(|platform| platform.code().to_string()).collect::<Vec<_>>().join(", ");
    let pairs = (0..length).map(|nth| format!("(${}, ${})", 2 * nth + 1, 2 * nth + 2)).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "WITH asked (link, day) AS (VALUES {pairs})
        SELECT DISTINCT d.link, d.day, d.host FROM asked JOIN click_facet_days d
            ON d.link = asked.link AND d.day = asked.day AND d.platform IN ({platforms}) AND d.host <> ''"
    );
    let rows: Vec<(i64, i64, String)> = on!(db, c => {
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        for (link, day) in days.iter().chain(days.last()).cycle().take(length) {
            query = query.bind(*link).bind(*day);
        }
        query.fetch_all(c).await
    })?;
    let mut hosts: HashMap<_, HashSet<String>> = HashMap::new();
    for (link, day, host) in rows {
        hosts.entry((link, day)).or_default().insert(host);
    }
    Ok(hosts)
}
