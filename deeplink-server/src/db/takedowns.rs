//! Destinations that a tenant's links may not lead to, because a link of the tenant's that led there was taken down.
//!
//! They are stored as [`destination_hash`] and refused by any of [`refusing_hashes`]. A link is blocked by its web
//! addresses, whether in `web_url` or in the deep links; if it has none, by its deep links of other schemes. Store pages
//! are not blocked: they belong to the app and not to the link, as does an app's deep link beside a web address.

use std::collections::{BTreeSet, HashSet};

use deeplink_core::destinations::Destinations;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use sqlx::AssertSqlSafe;

use super::sets::{PADDED_UP_TO, padded_length, placeholders};
use super::{Conn, DbError, execute, on};
use crate::threats::{destination_hash, is_web, refusing_hashes};

/// The hashes of the destinations that a link is blocked by.
fn blocked_of<'a>(to: &'a Destinations<Option<&'a str>>) -> BTreeSet<String> {
    let opened = [to.web_url, to.ios_deep_link, to.android_deep_link];
    let (web, other): (Vec<&str>, Vec<&str>) = opened.into_iter().flatten().partition(|url| is_web(url));
    let blocked = if web.is_empty() { other } else { web };
    blocked.into_iter().map(destination_hash).collect()
}

/// Refuses the destinations of a tenant's link that is taken down, given by its position.
pub(crate) async fn block(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link: i64,
    to: Destinations<Option<&str>>,
) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO blocked_destinations (tenant_id, url_hash, link) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    for hash in blocked_of(&to) {
        execute!(db, SQL; tenant.as_str(), hash, link)?;
    }
    Ok(())
}

/// Allows the destinations again that were refused because of a link.
pub(crate) async fn lift(db: &mut Conn<'_>, link: i64) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM blocked_destinations WHERE link = $1";
    execute!(db, SQL; link)?;
    Ok(())
}

/// The destinations of some links that are refused to their tenant.
pub(crate) struct Blocked(HashSet<String>);

impl Blocked {
    /// Refuses a link that leads to one of them.
    pub(crate) fn check(&self, to: Destinations<Option<&str>>) -> Result<(), Invalid> {
        if self.0.is_empty() {
            return Ok(());
        }
        let refuses = |url| refusing_hashes(url).iter().any(|hash| self.0.contains(hash));
        let found = to.each().find(|(_, url)| url.is_some_and(refuses));
        let Some((field, _)) = found else { return Ok(()) };
        let message = format!("{field}: the operator took down a link of this account that led to this URL");
        Err(Invalid::field(ErrorCode::ThreatDetected, field, message))
    }
}

/// Which destinations of some links are refused to their tenant.
pub(crate) async fn blocked<'a>(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    links: impl IntoIterator<Item = Destinations<Option<&'a str>>>,
) -> Result<Blocked, DbError> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM blocked_destinations WHERE tenant_id = $1)";
    // Most accounts have none, and then nothing needs to be hashed.
    if !on!(db, c => sqlx::query_scalar::<_, bool>(ANY).bind(tenant.as_str()).fetch_one(c).await)? {
        return Ok(Blocked(HashSet::new()));
    }
    let urls = links.into_iter().flat_map(|to| to.into_array().into_iter().flatten());
    let hashes: Vec<String> = urls.flat_map(refusing_hashes).collect::<BTreeSet<_>>().into_iter().collect();
    let mut found = HashSet::new();
    for hashes in hashes.chunks(PADDED_UP_TO) {
        let Some(last) = hashes.last() else { continue };
        let size = padded_length(hashes.len());
        let sql = format!(
            "SELECT DISTINCT url_hash FROM blocked_destinations WHERE tenant_id = $1 AND url_hash IN ({})",
            placeholders(2, size)
        );
        let some: Vec<String> = on!(db, c => {
            let mut query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(tenant.as_str());
            for hash in hashes.iter().chain(std::iter::repeat_n(last, size - hashes.len())) {
                query = query.bind(hash);
            }
            query.fetch_all(c).await
        })?;
        found.extend(some);
    }
    Ok(Blocked(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to<'a>(web: Option<&'a str>, ios: Option<&'a str>, store: Option<&'a str>) -> Destinations<Option<&'a str>> {
        let mut to = Destinations::<Option<&str>>::default();
        (to.web_url, to.ios_deep_link, to.ios_store_url) = (web, ios, store);
        to
    }

    #[test]
    fn a_link_is_blocked_by_its_web_addresses_else_by_its_deep_links_and_never_by_a_store() {
        let store = Some("https://apps.apple.com/app/id1");
        for (link, blocked) in [
            (to(Some("https://a.example/x"), Some("myapp://home"), store), vec!["https://a.example/x"]),
            (to(None, Some("https://a.example/x"), store), vec!["https://a.example/x"]),
            (to(None, Some("myapp://home"), store), vec!["myapp://home"]),
            (to(None, None, store), vec![]),
        ] {
            let expected: BTreeSet<String> = blocked.into_iter().map(destination_hash).collect();
            assert_eq!(blocked_of(&link), expected, "{link:?}");
        }
    }
}
