//! Destinations that a tenant's links may not lead to, because a link of the tenant's that led there was taken down.
//!
//! A web address is stored as its page and its parameters, and refused with these and any others; every destination is
//! also stored as [`destination_hash`] and refused by any of [`refusing_hashes`]. A link is blocked by its web addresses,
//! whether in `web_url` or in the deep links; if it has none, by its deep links of other schemes. Store pages are not
//! blocked: they belong to the app and not to the link, as does an app's deep link beside a web address.

use std::collections::{BTreeSet, HashMap, HashSet};

use deeplink_core::destinations::Destinations;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use sqlx::AssertSqlSafe;

use super::sets::{PADDED_UP_TO, padded_length, placeholders};
use super::{Conn, DbError, execute, on};
use crate::threats::{Page, destination_hash, is_web, refusing_hashes};

/// Most takedowns of some pages that are compared with a destination. An account with more is to be suspended.
const MAX_COMPARED: i64 = 1_000;

/// The destinations that a link is blocked by.
fn blocked_of<'a>(to: &Destinations<Option<&'a str>>) -> BTreeSet<&'a str> {
    let opened = [to.web_url, to.ios_deep_link, to.android_deep_link];
    let (web, other): (BTreeSet<&str>, BTreeSet<&str>) = opened.into_iter().flatten().partition(|url| is_web(url));
    if web.is_empty() { other } else { web }
}

/// Refuses the destinations of a tenant's link that is taken down, given by its position, and where it leads once it expired.
pub(crate) async fn block(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    link: i64,
    to: Destinations<Option<&str>>,
    expired_url: Option<&str>,
) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO blocked_destinations (tenant_id, url_hash, link, page_hash, parameters) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING";
    for url in blocked_of(&to).into_iter().chain(expired_url) {
        let (page, parameters) = Page::of(url).map(|page| (page.hash(), page.parameters())).unzip();
        execute!(db, SQL; tenant.as_str(), destination_hash(url), link, page, parameters)?;
    }
    Ok(())
}

/// Allows the destinations again that were refused because of a link.
pub(crate) async fn lift(db: &mut Conn<'_>, link: i64) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM blocked_destinations WHERE link = $1";
    execute!(db, SQL; link)?;
    Ok(())
}

/// The URLs of some links that are refused to their tenant.
#[derive(Default)]
pub(crate) struct Blocked {
    hashes: HashSet<String>,
    /// The parameters by the hash of the page.
    pages: HashMap<String, Vec<String>>,
}

impl Blocked {
    /// Refuses the first of these URLs that is one of them; each comes with its field.
    pub(crate) fn check<'a>(&self, urls: impl IntoIterator<Item = (&'static str, &'a str)>) -> Result<(), Invalid> {
        let Some((field, _)) = urls.into_iter().find(|(_, url)| self.refuses(url)) else { return Ok(()) };
        let message = format!("{field}: the operator took down a link of this account that led to this URL");
        Err(Invalid::field(ErrorCode::ThreatDetected, field, message))
    }

    /// Whether it is one of them.
    pub(crate) fn refuses(&self, url: &str) -> bool {
        let by_page =
            |page: &Page| self.pages.get(&page.hash()).is_some_and(|down| down.iter().any(|one| page.has(one)));
        refusing_hashes(url).iter().any(|hash| self.hashes.contains(hash))
            || Page::of(url).as_ref().is_some_and(by_page)
    }
}

/// Which of some URLs are refused to their tenant.
pub(crate) async fn blocked<'a>(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    urls: impl IntoIterator<Item = &'a str>,
) -> Result<Blocked, DbError> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM blocked_destinations WHERE tenant_id = $1)";
    // Most accounts have none, and then nothing needs to be hashed.
    if !on!(db, c => sqlx::query_scalar::<_, bool>(ANY).bind(tenant.as_str()).fetch_one(c).await)? {
        return Ok(Blocked::default());
    }
    let urls: BTreeSet<&str> = urls.into_iter().collect();
    let hashes = urls.iter().flat_map(|url| refusing_hashes(url)).collect();
    let pages = urls.iter().filter_map(|url| Page::of(url)).map(|page| page.hash()).collect();
    let mut blocked = Blocked::default();
    for (hash, _) in find(db, tenant, "url_hash", hashes).await? {
        blocked.hashes.insert(hash);
    }
    for (page, parameters) in find(db, tenant, "page_hash", pages).await? {
        blocked.pages.entry(page).or_default().push(parameters.unwrap_or_default());
    }
    Ok(blocked)
}

/// The tenant's takedowns that have one of these hashes in a column, with their parameters.
async fn find(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    column: &str,
    hashes: BTreeSet<String>,
) -> Result<Vec<(String, Option<String>)>, DbError> {
    let (hashes, mut found) = (Vec::from_iter(hashes), Vec::new());
    for hashes in hashes.chunks(PADDED_UP_TO) {
        let Some(last) = hashes.last() else { continue };
        let size = padded_length(hashes.len());
        let sql = format!(
            "SELECT DISTINCT {column}, parameters FROM blocked_destinations
             WHERE tenant_id = $1 AND {column} IN ({}) LIMIT {MAX_COMPARED}",
            placeholders(2, size)
        );
        let some: Vec<(String, Option<String>)> = on!(db, c => {
            let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(tenant.as_str());
            for hash in hashes.iter().chain(std::iter::repeat_n(last, size - hashes.len())) {
                query = query.bind(hash);
            }
            query.fetch_all(c).await
        })?;
        found.extend(some);
    }
    Ok(found)
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
            assert_eq!(blocked_of(&link), BTreeSet::from_iter(blocked), "{link:?}");
        }
    }
}
