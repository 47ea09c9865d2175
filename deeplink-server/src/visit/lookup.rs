//! Finding the link of a visit: by its ID or an alias, in memory or in the database.
//!
//! An ID costs one lookup, whether or not links have aliases. An alias leads to the link under its own ID, which is cached
//! there only, so that a change of the link needs to know nothing of its aliases.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use deeplink_core::id::TenantId;
use deeplink_core::link::{canonical_path, decoded, is_link_id};
use futures_util::FutureExt;
use http::HeaderMap;
use http::request::Parts;

use super::VisitedHost;
use crate::cache::{CachedLink, Lookup, Named};
use crate::db::hosts::{self, TenantBranding};
use crate::db::visited::{self, Visited};
use crate::db::{Conn, DbError, takedowns};
use crate::error::ApiError;
use crate::http::misses;
use crate::state::App;

/// The ID in a path, percent-decoded once; on a tenant's host, also an alias. A malformed name is not looked up.
fn name_in(path: &str, may_be_alias: bool) -> Option<Cow<'_, str>> {
    let name = path.strip_prefix("/r/").or_else(|| path.strip_prefix('/'))?;
    if is_link_id(name) {
        return Some(name.into());
    }
    if may_be_alias {
        return canonical_path(name);
    }
    decoded(name).filter(|name| is_link_id(name))
}

/// The requested link, from memory or from the database.
pub(super) async fn find(
    app: &App,
    peer: IpAddr,
    parts: &Parts,
    host: &VisitedHost,
) -> Result<Option<Arc<CachedLink>>, ApiError> {
    let path = parts.uri.path();
    let Some(name) = name_in(path, matches!(host, VisitedHost::Custom(_))) else { return Ok(None) };
    let owner = match host {
        VisitedHost::Service if path.starts_with("/r/") => None,
        VisitedHost::Service | VisitedHost::Unknown => return Ok(None),
        VisitedHost::Custom(host) => Some(&host.tenant),
    };
    known(app, owner, &name, Some((peer, &parts.headers))).await
}

/// A tenant's link with this ID or alias, or without a tenant the one that holds it on the service's own host; from memory or
/// from the database. Misses are counted for visitors; callers with a key have other limits. Hits are never limited.
pub(crate) async fn known(
    app: &App,
    owner: Option<&TenantId>,
    name: &str,
    visitor: Option<(IpAddr, &HeaderMap)>,
) -> Result<Option<Arc<CachedLink>>, ApiError> {
    let alias = match named(app, owner, name, visitor).await? {
        Some(Named::Link(link)) => return Ok(Some(link)),
        Some(Named::Alias(alias)) => alias,
        None => return Ok(None),
    };
    // Boxed: aliases are rarer than IDs.
    match named(app, Some(&alias.tenant), &alias.link_id, visitor).boxed().await? {
        Some(Named::Link(link)) => Ok(Some(link)),
        Some(Named::Alias(_)) | None => Ok(None),
    }
}

async fn named(
    app: &App,
    owner: Option<&TenantId>,
    name: &str,
    visitor: Option<(IpAddr, &HeaderMap)>,
) -> Result<Option<Named>, ApiError> {
    let client = || visitor.map(|(peer, headers)| app.client_at(peer, headers));
    let scoped;
    let key = match owner {
        None => name,
        Some(tenant) => {
            scoped = format!("{tenant}/{name}");
            &scoped
        }
    };
    let now = app.clock.monotonic_millis();
    let (old, drops) = match app.links.get(key, now) {
        Lookup::Named(known) => return Ok(Some(known)),
        Lookup::Absent => {
            client().map_or(Ok(()), |client| misses::count(app, client))?;
            return Ok(None);
        }
        Lookup::Ask { old, drops } => (old, drops),
    };
    let loading = async { load(app, &mut app.db.look_up().await?.conn(), owner, name, now).await };
    let loaded = match client() {
        Some(client) => misses::look_up(app, client, old.is_some(), loading).await,
        None => loading.boxed().await.map_err(ApiError::from),
    };
    match loaded {
        Ok(known) => {
            app.links.fill(key, known.as_ref(), drops, now);
            Ok(known)
        }
        // While the database cannot be read, an outdated answer is better than none.
        Err(error) if error.is_passing() => match old {
            Some(old) => {
                app.metrics.stale_answers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Ok(Some(old))
            }
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// A link by its own ID, from the database.
pub(super) async fn load_link(
    app: &App,
    db: &mut Conn<'_>,
    owner: Option<&TenantId>,
    link_id: &str,
    now: u64,
) -> Result<Option<Arc<CachedLink>>, DbError> {
    Ok(match load(app, db, owner, link_id, now).await? {
        Some(Named::Link(link)) => Some(link),
        Some(Named::Alias(_)) | None => None,
    })
}

async fn load(
    app: &App,
    db: &mut Conn<'_>,
    owner: Option<&TenantId>,
    name: &str,
    now: u64,
) -> Result<Option<Named>, DbError> {
    let found = match owner {
        Some(tenant) => visited::find(db, tenant, name).await?,
        None => visited::find_claimed(db, name).await?,
    };
    let mut link = match found {
        Some(Visited::Link(link)) => link,
        Some(Visited::Alias(tenant, link_id)) => return Ok(Some(Named::Alias(app.links.alias(tenant, link_id, now)))),
        None => return Ok(None),
    };
    if let Some(url) = &link.content.expired_url
        && takedowns::blocked(db, &link.tenant, [url.as_str()]).await?.refuses(url)
    {
        link.content.expired_url = None;
    }
    let under = app.links.under(link.tenant.as_str());
    let (read_at, branding) = branding_of(app, db, &link.tenant, now).await?;
    let url = app.url_of(&link, branding.primary.as_deref());
    Ok(Some(Named::Link(Arc::new(CachedLink::pack(&link, &url, branding, under, read_at)))))
}

/// A tenant's branding, and when it was read; its links share one copy.
pub(super) async fn branding_of(
    app: &App,
    db: &mut Conn<'_>,
    tenant: &TenantId,
    now: u64,
) -> Result<(u64, Arc<TenantBranding>), DbError> {
    if let Some(known) = app.brandings.get_read(tenant.as_str(), now) {
        return Ok(known);
    }
    let since = app.brandings.since(tenant.as_str());
    let branding = Arc::new(hosts::branding_of(db, tenant, |domain| app.origin_of(domain)).await?);
    app.brandings.fill(tenant.as_str(), Arc::clone(&branding), since, now);
    Ok((now, branding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_decoded_once() {
        for (path, id) in [
            ("/r/abc", Some("abc")),
            ("/abc", Some("abc")),
            ("/r/a%62c", Some("abc")),
            ("/r/a%2562c", None),
            ("/r/abc/", None),
            ("/r/ab", None),
            ("/r/a%2fb", None),
            ("/r/abc%", None),
            ("/r/abc%6", None),
            ("/r/%ff%fe%fd", None),
            ("/r/", None),
            ("/", None),
        ] {
            assert_eq!(name_in(path, false).as_deref(), id, "{path}");
        }
    }

    #[test]
    fn on_a_tenants_host_a_path_may_be_an_alias() {
        for (path, name) in [
            ("/abc", Some("abc")),
            ("/r/abc", Some("abc")),
            ("/ab", Some("ab")),
            ("/a_b", Some("a_b")),
            ("/l/spring", Some("l/spring")),
            ("/l/spr%69ng.html", Some("l/spring.html")),
            ("/l%2fspring", None),
            ("/l/spring/", Some("l/spring")),
            ("/l/spring//", None),
            ("/abc/", None),
            ("/a/b/c/d", None),
            ("/", None),
        ] {
            assert_eq!(name_in(path, true).as_deref(), name, "{path}");
        }
    }
}
