//! The association files: which apps open the links of a host. They depend only on the host, need no credential, and
//! never redirect: Apple and Google follow no redirects.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::app::{AppDetail, AppPlatform, MAX_APPS};
use deeplink_core::association::{AppleAssociation, AssetStatement};
use deeplink_core::error::ErrorBody;
use deeplink_core::id::TenantId;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{VisitedHost, visited_host};
use crate::cache::{AssociationFiles, TaggedFile};
use crate::db::pages::Span;
use crate::db::{DbError, apps};
use crate::error::ApiError;
use crate::http::client_ip::Peer;
use crate::http::documented::Unavailable;
use crate::http::etag;
use crate::metrics::RouteName;
use crate::state::{App, Shared};

/// The path of Apple's file.
pub(crate) const APPLE: &str = "/.well-known/apple-app-site-association";
/// The path of Google's file.
pub(crate) const GOOGLE: &str = "/.well-known/assetlinks.json";

const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=3600");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Lists the iOS apps that open this host's links.
///
/// Served on the verified domains of accounts with an iOS app; 404 on every other host.
#[utoipa::path(
    get, path = "/.well-known/apple-app-site-association", operation_id = "apple_association", tag = "resolve",
    responses(
        (status = 200, description = "The apps, oldest first", body = AppleAssociation, headers(("ETag" = String), ("Cache-Control" = String))),
        (status = 304, description = "`If-None-Match` matches the file's current `ETag`"),
        Unavailable,
        (status = 404, description = "The host is not a verified domain, or has no iOS app", body = ErrorBody),
    )
)]
pub(crate) async fn apple(State(app): State<Shared>, request: Request) -> Response {
    on_any_host(&app, request).await
}

/// Lists the Android apps that open this host's links.
///
/// Served on the verified domains of accounts with an Android app; 404 on every other host.
#[utoipa::path(
    get, path = "/.well-known/assetlinks.json", operation_id = "asset_links", tag = "resolve",
    responses(
        (status = 200, description = "One statement for each app, oldest first", body = Vec<AssetStatement>, headers(("ETag" = String), ("Cache-Control" = String))),
        (status = 304, description = "`If-None-Match` matches the file's current `ETag`"),
        Unavailable,
        (status = 404, description = "The host is not a verified domain, or has no Android app", body = ErrorBody),
    )
)]
pub(crate) async fn asset_links(State(app): State<Shared>, request: Request) -> Response {
    on_any_host(&app, request).await
}

async fn on_any_host(app: &Shared, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
    let (parts, _) = request.into_parts();
    match visited_host(app, peer, &parts).await {
        Ok(host) => answer(app, &host, &parts).await,
        Err(error) => error.into_response(),
    }
}

/// Answers a request for one of the two files on the requested host.
pub(crate) async fn answer(app: &App, host: &VisitedHost, parts: &Parts) -> Response {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return ApiError::MethodNotAllowed(Some("GET, HEAD")).into_response();
    }
    let path = parts.uri.path();
    let mut response = match file(app, host, path).await {
        Ok(file) => served(&parts.headers, file),
        Err(error) => error.into_response(),
    };
    response.extensions_mut().insert(RouteName(if path == APPLE { APPLE } else { GOOGLE }));
    response
}

impl TaggedFile {
    fn of(content: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(content).map_err(|error| ApiError::Internal(error.to_string()))?;
        let tag = etag::tag_of(Sha256::new_with_prefix(&body));
        Ok(Self { body: body.into(), tag })
    }
}

impl AssociationFiles {
    fn of(all: &[AppDetail]) -> Result<Self, ApiError> {
        let of = |platform: AppPlatform| all.iter().filter(move |app| app.platform == platform);
        let ids: Vec<_> = of(AppPlatform::Ios).filter_map(team_and_bundle).collect();
        let statements: Vec<_> = of(AppPlatform::Android).filter_map(statement).collect();
        Ok(Self {
            apple: (!ids.is_empty()).then(|| TaggedFile::of(&AppleAssociation::of(ids))).transpose()?,
            google: (!statements.is_empty()).then(|| TaggedFile::of(&statements)).transpose()?,
        })
    }
}

async fn file(app: &App, host: &VisitedHost, path: &str) -> Result<TaggedFile, ApiError> {
    let VisitedHost::Custom(host) = host else { return Err(ApiError::not_found()) };
    let files = files(app, &host.tenant).await?;
    let file = if path == APPLE { &files.apple } else { &files.google };
    file.clone().ok_or_else(ApiError::not_found)
}

/// The files of a tenant, cached or built. While the database cannot be read, outdated ones are better than none.
async fn files(app: &App, tenant: &TenantId) -> Result<Arc<AssociationFiles>, ApiError> {
    let (name, now) = (tenant.as_str(), app.clock.monotonic_millis());
    if let Some(known) = app.files.get(name, now) {
        return Ok(known);
    }
    let since = app.files.since(name);
    match listed(app, tenant).await {
        Ok(all) => {
            let files = Arc::new(AssociationFiles::of(&all)?);
            app.files.fill(name, Arc::clone(&files), since, now);
            Ok(files)
        }
        Err(error @ (DbError::Unavailable(_) | DbError::Overloaded)) => app.files.old(name, now).ok_or(error.into()),
        Err(error) => Err(error.into()),
    }
}

async fn listed(app: &App, tenant: &TenantId) -> Result<Vec<AppDetail>, DbError> {
    let all = Span::newest(2 * MAX_APPS);
    let mut listed = apps::list(&mut app.db.look_up().await?.conn(), tenant, &all).await?;
    // The files list the oldest app first.
    listed.reverse();
    Ok(listed)
}

fn team_and_bundle(app: &AppDetail) -> Option<(&str, &str)> {
    app.team_id.as_deref().zip(app.bundle_id.as_deref())
}

fn statement(app: &AppDetail) -> Option<AssetStatement> {
    Some(AssetStatement::new(app.package_name.as_deref()?, app.sha256_fingerprints.clone()?))
}

fn served(asked: &HeaderMap, TaggedFile { body, tag }: TaggedFile) -> Response {
    let mut response = Response::new(Body::empty());
    if etag::matches(asked, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        response.headers_mut().insert(header::CONTENT_TYPE, JSON);
        *response.body_mut() = Body::from(body);
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
    // Hex digits in quotes are always a valid header value.
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
