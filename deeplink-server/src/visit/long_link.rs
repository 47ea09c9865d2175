//! Long links, which have their destination in the query: followed as a link would be, if their domain allows it. Nothing
//! about such a visit is stored: it is no click, and no link is cached.

use std::sync::Arc;

use axum::response::Response;
use deeplink_core::link::NewLink;
use deeplink_core::long_link::{LongLink, MAX_QUERY};
use deeplink_core::visitor::{Form, Platform, Visitor};
use http::header;
use http::request::Parts;

use super::{Visit, VisitedHost, lookup, platform_hint};
use crate::cache::CachedLink;
use crate::db::hosts::Host;
use crate::db::links::Link;
use crate::db::{Conn, DbError, takedowns};
use crate::error::ApiError;
use crate::http::misses;
use crate::state::App;

/// The host of a visit to a long link, and the hosts that it may lead to.
pub(super) fn on<'h>(host: &'h VisitedHost, parts: &Parts) -> Option<(&'h Host, &'h [String])> {
    let VisitedHost::Custom(host) = host else { return None };
    let allowed = host.long_links.as_deref()?;
    let has_link = |query: &str| query.split('&').any(|pair| pair.starts_with("link="));
    (parts.uri.path() == "/" && parts.uri.query().is_some_and(has_link)).then_some((&**host, allowed))
}

/// Answers a visit to a long link.
pub(super) async fn answer(visit: Visit<'_>, host: &Host, allowed: &[String]) -> Response {
    let query = visit.parts.uri.query().unwrap_or_default();
    let long = match read(query) {
        Ok(Some(long)) => long,
        Ok(None) => return visit.no_long_link(host),
        Err(error) => return visit.refused(error),
    };
    // Programs get the same on every platform.
    let platform = if visit.form == Form::Json { Platform::Other } else { platform_of(visit) };
    let Some(content) = long.followed(allowed, platform) else { return visit.no_long_link(host) };
    let link = match link(visit, host, &long, content).await {
        Ok(Some(link)) => link,
        Ok(None) => return visit.no_long_link(host),
        Err(error) => return visit.refused(error),
    };
    let with_redirect;
    let query = if long.skips_page() {
        with_redirect = format!("redirect=1&{query}");
        &with_redirect
    } else {
        query
    };
    // Not counted.
    visit.respond(&link, Some(query), host.alternate, None).await
}

fn read(query: &str) -> Result<Option<LongLink>, ApiError> {
    if query.len() > MAX_QUERY {
        return Ok(None);
    }
    Ok(LongLink::read(query)?)
}

fn platform_of(visit: Visit<'_>) -> Platform {
    let headers = &visit.parts.headers;
    let agent = visit.app.clicks.texts().agent(headers.get(header::USER_AGENT).map(http::HeaderValue::as_bytes));
    Visitor::new(agent.traits(), platform_hint(headers)).platform
}

/// The link that a long link stands for; `None` if it leads where a link of the account may not.
async fn link(
    Visit { app, peer, parts, .. }: Visit<'_>,
    host: &Host,
    long: &LongLink,
    content: NewLink,
) -> Result<Option<CachedLink>, ApiError> {
    if content.urls().any(|(_, url)| app.threats.covers(url)) {
        return Ok(None);
    }
    let url = long.url(&app.origin_of(&host.name));
    let package = long.package();
    let loading =
        async { load(app, &mut app.db.look_up().await?.conn(), host, content, (url.as_str(), package)).await };
    // A look-up for each visit: nothing of it is kept in memory.
    misses::look_up(app, app.client_at(peer, &parts.headers), false, loading).await
}

async fn load(
    app: &App,
    db: &mut Conn<'_>,
    host: &Host,
    mut content: NewLink,
    (url, package): (&str, Option<&str>),
) -> Result<Option<CachedLink>, DbError> {
    let blocked = takedowns::blocked(db, &host.tenant, content.urls().map(|(_, url)| url)).await?;
    if content.urls().any(|(_, url)| blocked.refuses(url)) {
        return Ok(None);
    }
    let under = app.links.under(host.tenant.as_str());
    let (read_at, branding) = lookup::branding_of(app, db, &host.tenant, app.clock.monotonic_millis()).await?;
    // Anybody can write a long link, so it leads to the account's own Android apps only; App Store IDs are not known, so to
    // the App Store only if the account has an iOS app.
    if branding.ios.is_none() {
        content.destinations.ios_store_url = None;
    }
    let is_own = package.is_some_and(|package| branding.android_packages.iter().any(|own| own == package));
    if !is_own {
        (content.destinations.android_deep_link, content.destinations.android_store_url) = (None, None);
    }
    // The link has no address on the alternate host.
    let branding = match &branding.alternate {
        Some(_) => {
            let mut branding = (*branding).clone();
            branding.alternate = None;
            Arc::new(branding)
        }
        None => branding,
    };
    let link = Link::new(host.tenant.clone(), String::new(), content, app.clock.now());
    Ok(Some(CachedLink::pack(&link, url, branding, under, read_at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_domain_that_follows_long_links_has_them() {
        let host = |long_links: Option<Vec<String>>| {
            VisitedHost::Custom(Arc::new(Host {
                tenant: "tnt_0123456789abcdef01234567".parse().expect("an id"),
                name: "go.example.com".into(),
                alternate: false,
                root_url: None,
                not_found_url: None,
                long_links,
            }))
        };
        let asked = |uri: &str| http::Request::get(uri).body(()).expect("a request").into_parts().0;
        let (follows, ignores) = (host(Some(vec!["www.example.com".into()])), host(None));
        for (uri, is_long) in [
            ("/?link=https%3A%2F%2Fwww.example.com", true),
            ("/?apn=a&link=x", true),
            ("/?deeplink=x", false),
            ("/", false),
            ("/abc?link=x", false),
        ] {
            let parts = asked(uri);
            assert_eq!(on(&follows, &parts).is_some(), is_long, "{uri}");
            assert!(on(&ignores, &parts).is_none() && on(&VisitedHost::Service, &parts).is_none(), "{uri}");
        }
    }
}
