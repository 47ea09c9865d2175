//! The association files: which apps open the links of the host that is asked. They go by host alone, need no
//! credential, and never lead elsewhere: Apple and Google follow no redirect.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::app::{AppDetail, AppPlatform, AppleAssociation, AssetStatement};
use deeplink_core::error::ErrorBody;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use super::{Place, place};
use crate::db::apps;
use crate::error::ApiError;
use crate::state::{App, Shared};

/// Where Apple looks.
pub(crate) const APPLE: &str = "/.well-known/apple-app-site-association";
/// Where Google looks.
pub(crate) const GOOGLE: &str = "/.well-known/assetlinks.json";

const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=3600");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Says which iOS apps open the links of this host.
///
/// The host decides: a verified domain of a tenant with an iOS app has the file, every other host has none.
#[utoipa::path(
    get, path = "/.well-known/apple-app-site-association", operation_id = "apple_association", tag = "resolve",
    responses(
        (status = 200, description = "The apps, oldest first", body = AppleAssociation, headers(("ETag" = String), ("Cache-Control" = String))),
        (status = 404, description = "The host is no verified domain, or has no iOS app", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn apple(State(app): State<Shared>, request: Request) -> Response {
    on_any_host(&app, request).await
}

/// Says which Android apps open the links of this host.
///
/// The host decides: a verified domain of a tenant with an Android app has the file, every other host has none.
#[utoipa::path(
    get, path = "/.well-known/assetlinks.json", operation_id = "asset_links", tag = "resolve",
    responses(
        (status = 200, description = "One statement for each app, oldest first", body = Vec<AssetStatement>, headers(("ETag" = String), ("Cache-Control" = String))),
        (status = 404, description = "The host is no verified domain, or has no Android app", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn asset_links(State(app): State<Shared>, request: Request) -> Response {
    on_any_host(&app, request).await
}

async fn on_any_host(app: &Shared, request: Request) -> Response {
    let peer = request.extensions().get::<crate::service::Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
    let (parts, _) = request.into_parts();
    match place(app, peer, &parts).await {
        Ok(place) => answer(app, &place, &parts).await,
        Err(error) => error.into_response(),
    }
}

/// Answers a request for one of the two files on the host where it arrived.
pub(crate) async fn answer(app: &App, place: &Place, parts: &Parts) -> Response {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return ApiError::MethodNotAllowed(Some("GET, HEAD")).into_response();
    }
    match file(app, place, parts.uri.path()).await {
        Ok(file) => served(&parts.headers, file),
        Err(error) => error.into_response(),
    }
}

async fn file(app: &App, place: &Place, path: &str) -> Result<String, ApiError> {
    let Place::Custom(host) = place else { return Err(ApiError::not_found()) };
    let all = apps::list(&mut app.db.read().await?.conn(), &host.tenant).await?;
    let of = |platform: AppPlatform| all.iter().filter(move |app| app.platform == platform);
    let json = if path == APPLE {
        let ids: Vec<_> = of(AppPlatform::Ios).filter_map(team_and_bundle).collect();
        (!ids.is_empty()).then(|| serde_json::to_string(&AppleAssociation::of(ids)))
    } else {
        let statements: Vec<_> = of(AppPlatform::Android).filter_map(statement).collect();
        (!statements.is_empty()).then(|| serde_json::to_string(&statements))
    };
    json.ok_or_else(ApiError::not_found)?.map_err(|error| ApiError::Internal(error.to_string()))
}

fn team_and_bundle(app: &AppDetail) -> Option<(&str, &str)> {
    app.team_id.as_deref().zip(app.bundle_id.as_deref())
}

fn statement(app: &AppDetail) -> Option<AssetStatement> {
    Some(AssetStatement::new(app.package_name.as_deref()?, app.sha256_fingerprints.clone()?))
}

fn served(asked: &HeaderMap, file: String) -> Response {
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(&file)[..16]));
    let matches = asked.get_all(header::IF_NONE_MATCH).iter().any(|value| is_match(value, &tag));
    let mut response = Response::new(Body::empty());
    if matches {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        response.headers_mut().insert(header::CONTENT_TYPE, JSON);
        *response.body_mut() = Body::from(file);
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
    // Hex digits in quotes are always a header value.
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether one line of `If-None-Match` names the tag; comparison is weak (RFC 9110, section 13.1.2).
fn is_match(value: &HeaderValue, tag: &str) -> bool {
    let tags = value.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.into_iter().any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_matches_itself_weak_or_strong_and_the_star() {
        for (value, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            assert_eq!(is_match(&HeaderValue::from_static(value), "\"a\""), expected, "{value}");
        }
    }
}
