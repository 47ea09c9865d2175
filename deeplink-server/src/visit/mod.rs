//! Resolving a link: read, decide, count, respond.
//!
//! The link comes from the cache, the decision from `deeplink_core::resolve`, and the click is recorded before the
//! response leaves. A visit is never refused because its click could not be recorded.
//!
//! A visit's future is moved several times before it is polled, so rarely awaited parts (a database query, a landing
//! page) are boxed: they would enlarge the future of every redirect.

pub(crate) mod association;
pub(crate) mod challenge;
#[cfg(test)]
pub(crate) mod dom;
pub(crate) mod explanation;
mod json;
pub(crate) mod landing;
mod long_link;
mod lookup;
pub(crate) mod notice;
pub(crate) mod page;
pub(crate) mod report;
mod shown;
mod texts;

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use deeplink_core::domain::leads_to;
use deeplink_core::error::ErrorBody;
use deeplink_core::link::{LinkStatus, ResolvedLink};
use deeplink_core::resolve::{self, Fetch, HostContext, Outcome};
use deeplink_core::visitor::{ClickKind, Form, Visitor, is_prefetch, wants_json};
use futures_util::FutureExt;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

pub(crate) use self::lookup::known;
use self::notice::Notice;
use self::shown::{landing_page, language_of, notice_of, notice_page};
use crate::cache::CachedLink;
use crate::clicks::Click;
use crate::db::DbError;
use crate::db::hosts::{self, Host};
use crate::error::ApiError;
use crate::http::client_ip::Peer;
use crate::http::documented::Unavailable;
use crate::http::{cors, misses};
use crate::state::{App, Shared};

const VARY: HeaderValue = HeaderValue::from_static("Accept, User-Agent, Sec-CH-UA-Platform");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const METHODS: &str = "GET, HEAD, OPTIONS";

/// The host that a request is for.
#[derive(Debug, Clone)]
pub(crate) enum VisitedHost {
    /// The service's own host, where `/r/{id}` has one namespace.
    Service,
    /// A tenant's verified host.
    Custom(Arc<Host>),
    /// An unknown host.
    Unknown,
}

/// A request that may follow a link.
#[derive(Clone, Copy)]
struct Visit<'v> {
    app: &'v App,
    peer: IpAddr,
    parts: &'v Parts,
    /// The form of the response.
    form: Form,
}

/// Follows a link.
///
/// Browsers get a redirect or a page in the visitor's language; API clients that request JSON get the link's
/// data. Each GET of an active link counts as one click, unless it is a prefetch.
#[utoipa::path(
    get, path = "/r/{link_id}", operation_id = "resolve", tag = "resolve",
    params(
        ("link_id" = String, Path, description = "The link's ID; on a domain of the account also one of its aliases", example = "spring-42"),
        ("redirect" = Option<String>, Query, description = "`1`: redirect to the store or web page, without a landing page"),
        ("os" = Option<String>, Query, description = "`ios`, on an alternate domain: treat a visitor that appears to be a Mac as an iPad"),
    ),
    responses(
        (status = 200, description = "The link's data, or a landing or warning page", content(
            (ResolvedLink = "application/json"), (String = "text/html"))),
        (status = 302, description = "Redirect to the destination", headers(("Location" = String))),
        Unavailable,
        (status = 404, description = "No such link", content((ErrorBody = "application/json"), (String = "text/html"))),
        (status = 410, description = "The link has expired or was disabled", content((String = "text/html"))),
        (status = 429, description = "This IP address has requested too many IDs and hosts that do not exist", headers(("Retry-After" = u64)), content((ErrorBody = "application/json"), (String = "text/html"))),
    )
)]
pub(crate) async fn resolve(State(app): State<Shared>, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
    let (parts, _) = request.into_parts();
    answer(&app, peer, &parts).await
}

/// Answers any request to `/r/{id}`, or to `/{id}` on a tenant's host.
pub(crate) async fn answer(app: &Shared, peer: IpAddr, parts: &Parts) -> Response {
    answer_at(app, peer, parts, visited_host(app, peer, parts).await).await
}

/// The same, with the host already looked up.
pub(crate) async fn answer_at(
    app: &Shared,
    peer: IpAddr,
    parts: &Parts,
    host: Result<VisitedHost, ApiError>,
) -> Response {
    let fetch = match parts.method {
        Method::HEAD => Fetch::Head,
        Method::GET if is_prefetched(&parts.headers) => Fetch::Prefetch,
        Method::GET => Fetch::Get,
        Method::OPTIONS => return preflight(),
        _ => return ApiError::MethodNotAllowed(Some(METHODS)).into_response(),
    };
    let form = wants_json(parts.headers.get_all(header::ACCEPT));
    let visit = Visit { app, peer, parts, form };
    let host = match host {
        Ok(host) => host,
        Err(error) => return visit.refused(error),
    };
    if let Some((host, allowed)) = long_link::on(&host, parts) {
        return long_link::answer(visit, host, allowed).boxed().await;
    }
    match lookup::find(app, peer, parts, &host).await {
        Ok(Some(link)) => {
            let alternate = matches!(&host, VisitedHost::Custom(host) if host.alternate);
            visit.respond(&link, parts.uri.query(), alternate, Some(fetch)).await
        }
        Ok(None) => visit.no_link(&host),
        Err(error) => visit.refused(error),
    }
}

/// Looks up the host that a request names.
pub(crate) async fn visited_host(app: &App, peer: IpAddr, parts: &Parts) -> Result<VisitedHost, ApiError> {
    let host = app.asked_host(peer, parts)?;
    if app.is_service_host(&host) {
        return Ok(VisitedHost::Service);
    }
    let now = app.clock.monotonic_millis();
    if let Some(known) = app.hosts.get(&host, now) {
        return Ok(known.map_or(VisitedHost::Unknown, VisitedHost::Custom));
    }
    let (since, old) = (app.hosts.since(&host), app.hosts.old(&host, now));
    let is_known = matches!(&old, Some(Some(_)));
    let client = app.client_at(peer, &parts.headers);
    let found = match misses::look_up(app, client, is_known, load_host(app, &host)).await {
        Ok(found) => found.map(Arc::new),
        Err(error) if error.is_passing() => {
            return Ok(old.ok_or(error)?.map_or(VisitedHost::Unknown, VisitedHost::Custom));
        }
        Err(error) => return Err(error),
    };
    app.hosts.fill(&host, found.clone(), since, now);
    Ok(found.map_or(VisitedHost::Unknown, VisitedHost::Custom))
}

async fn load_host(app: &App, host: &str) -> Result<Option<Host>, DbError> {
    hosts::find(&mut app.db.look_up().await?.conn(), host).await
}

fn is_prefetched(headers: &HeaderMap) -> bool {
    let value = |name| headers.get(name).map(HeaderValue::as_bytes);
    is_prefetch([value("sec-purpose"), value("purpose")], value("x-moz"))
}

/// The tenant and the host of a visit, for its decision.
fn host_context(link: &CachedLink, on_alternate: bool) -> HostContext<'_> {
    let branding = link.branding();
    HostContext {
        alternate: branding.alternate.as_deref(),
        only_android_package: match branding.android_packages.as_slice() {
            [only] => Some(only.as_str()),
            _ => None,
        },
        on_alternate,
    }
}

/// The visitor's system as its headers name it.
fn platform_hint(headers: &HeaderMap) -> Option<&str> {
    headers.get("sec-ch-ua-platform").and_then(|value| value.to_str().ok())
}

impl Visit<'_> {
    /// Answers with a link, and counts the visit if there is a `fetch`. `query` is that of the decision.
    async fn respond(
        self,
        link: &CachedLink,
        query: Option<&str>,
        on_alternate: bool,
        fetch: Option<Fetch>,
    ) -> Response {
        let Self { app, peer, parts, form } = self;
        let now = app.clock.now();
        let status = link.status_at(now);
        let view = link.view(status == LinkStatus::Active);
        let around = host_context(link, on_alternate);
        let texts = app.clicks.texts();
        let agent = texts.agent(parts.headers.get(header::USER_AGENT).map(HeaderValue::as_bytes));
        let visitor = Visitor::new(agent.traits(), platform_hint(&parts.headers));
        let response = if form == Form::Json {
            json_response(json::render(link, &status))
        } else {
            let decision = resolve::decide(&view, &around, visitor, query);
            carry_out(app, link, &status, &decision.outcome, &parts.headers).await
        };
        if let Some(kind) = fetch.and_then(|fetch| resolve::counts(&view, &around, visitor, fetch)) {
            let referer = texts.referer(parts.headers.get(header::REFERER).map(HeaderValue::as_bytes));
            app.clicks.record(&Click {
                link: link.position,
                at: now.as_millis(),
                kind: kind.code(),
                platform: visitor.platform.code(),
                agent_code: if kind == ClickKind::Human { visitor.user_agent.code() } else { 0 },
                country: app.country_of(peer, &parts.headers).code(),
                agent: agent.text().map(|text| texts.charge(link.branding(), now, text)),
                referer: referer.map(|text| texts.charge(link.branding(), now, text)),
            });
        }
        response
    }

    /// There is no such link: people on a tenant's host go where it sends them, others get the error.
    fn no_link(self, host: &VisitedHost) -> Response {
        let VisitedHost::Custom(host) = host else { return self.refused(ApiError::not_found()) };
        let path = self.parts.uri.path();
        let target = match path {
            "/" => host.root_url.as_deref(),
            _ if is_file_of_programs(path) => None,
            _ => host.not_found_url.as_deref(),
        };
        self.not_found(host, target)
    }

    /// A long link that is not followed is a link that does not exist, and not the host's own page.
    fn no_long_link(self, host: &Host) -> Response {
        self.not_found(host, host.not_found_url.as_deref())
    }

    /// Sends people to the target, unless it was put on the threat list since or would lead back here.
    fn not_found(self, host: &Host, target: Option<&str>) -> Response {
        let path = self.parts.uri.path();
        let target = target.filter(|url| {
            self.form == (Form::Html { explicit: true })
                && !leads_to(url, &host.name, path)
                && !self.app.threats.covers(url)
        });
        target.map_or_else(|| self.refused(ApiError::not_found()), redirect)
    }

    fn refused(self, error: ApiError) -> Response {
        refused(self.app, &self.parts.headers, error, self.form)
    }
}

/// The response that was decided on.
async fn carry_out(
    app: &App,
    link: &CachedLink,
    status: &LinkStatus,
    outcome: &Outcome<'_>,
    headers: &HeaderMap,
) -> Response {
    match outcome {
        Outcome::Redirect(target) => redirect(target),
        Outcome::Landing(plan) => landing_page(app, link, plan, language_of(headers)).boxed().await,
        Outcome::Notice => match after_expiry(app, link, status) {
            Some(target) => redirect(target),
            None => notice_page(app, status, language_of(headers)),
        },
    }
}

fn with_negotiation(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::VARY, VARY);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

fn redirect(target: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    match HeaderValue::from_str(target) {
        Ok(location) => {
            response.headers_mut().insert(header::LOCATION, location);
            with_negotiation(response)
        }
        // Stored targets are ASCII without control characters, so this is a corrupt row.
        Err(_) => ApiError::Internal("a stored URL is not a valid header value".into()).into_response(),
    }
}

fn json_response(body: String) -> Response {
    let mut response = Response::new(Body::from(Bytes::from(body)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    cors::allow(headers);
    with_negotiation(response)
}

/// Whether a path is that of a file that programs look for on every host, even with an `Accept` as of a person's browser, so
/// that nobody meant to open a link. `/.well-known/` is no visit at all.
fn is_file_of_programs(path: &str) -> bool {
    matches!(path, "/robots.txt" | "/favicon.ico") || path.starts_with("/apple-touch-icon")
}

/// Where an expired link sends people. A URL that was put on the threat list since is not used.
fn after_expiry<'l>(app: &App, link: &'l CachedLink, status: &LinkStatus) -> Option<&'l str> {
    link.expired_url().filter(|url| *status == LinkStatus::Expired && !app.threats.covers(url))
}

/// An error in the requested form: a small page if HTML was requested and there is one, else JSON.
pub(crate) fn refused(app: &App, headers: &HeaderMap, error: ApiError, form: Form) -> Response {
    let notice = match error {
        ApiError::Plain(deeplink_core::error::ErrorCode::NotFound, _) => Notice::NotFound,
        ApiError::TryLater(deeplink_core::error::ErrorCode::RateLimited, ..) => Notice::TooMany,
        _ => return json_refusal(error),
    };
    if form != (Form::Html { explicit: true }) {
        return json_refusal(error);
    }
    let mut response = notice_of(app, notice, language_of(headers));
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The error as JSON, readable from any origin like the link itself.
fn json_refusal(error: ApiError) -> Response {
    let mut response = error.into_response();
    cors::allow(response.headers_mut());
    with_negotiation(response)
}

/// Any origin may read a link: it is public data.
fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("accept, purpose"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    // Copying 8 KiB per visit took a tenth of a redirect's time.
    #[test]
    fn a_visit_is_a_small_future() {
        fn size<'a, F>(_: fn(&'a Shared, IpAddr, &'a Parts) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(answer);
        assert!(size <= 1_536, "{size} bytes");
    }
}
