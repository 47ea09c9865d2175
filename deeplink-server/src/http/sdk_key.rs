//! Who may report what happens between click and conversion: apps and pages with a publishable key, servers with the
//! account's secret key. [`SdkCaller`] and [`PublishableCaller`] in a handler's signature are the permission.
//!
//! A publishable key is public, so it has limits: by key and address, and by key. They are checked before the body is
//! read.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use deeplink_core::secret::{PublishableKey, sha256_hex};
use http::request::Parts;

use super::anonymous::Anonymous;
use super::auth::{admit, full_scope, shown_key};
use super::extract::Query;
use super::misses;
use crate::caller::Caller;
use crate::db::publishable_keys;
use crate::error::ApiError;
use crate::state::{App, Shared};

/// A publishable key, or a tenant's own secret key.
pub(crate) struct SdkCaller(pub(crate) Arc<Caller>);

/// A publishable key.
pub(crate) struct PublishableCaller(pub(crate) Arc<Caller>);

impl FromRequestParts<Shared> for SdkCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        match shown_key(parts)? {
            Some(key) if !key.starts_with(PublishableKey::PREFIX) => {
                let caller = full_scope(Some(key), parts, app).await?;
                key_in_query(parts)?;
                Anonymous::end(parts, app, &*caller)?;
                Ok(Self(caller))
            }
            _ => Ok(Self(publishable(parts, app).await?)),
        }
    }
}

impl FromRequestParts<Shared> for PublishableCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        Ok(Self(publishable(parts, app).await?))
    }
}

/// The key in the query. A repeated one is refused, even if the header authenticates the caller.
fn key_in_query(parts: &Parts) -> Result<Option<String>, ApiError> {
    Ok(Query::of(parts).one("key")?.map(str::to_owned))
}

/// The caller that a request's publishable key authenticates. The header takes precedence over the query.
async fn publishable(parts: &Parts, app: &App) -> Result<Arc<Caller>, ApiError> {
    let now = app.clock.monotonic_millis();
    let hash = match shown_key(parts)? {
        Some(key) => sha256_hex(key),
        None => sha256_hex(&key_in_query(parts)?.ok_or_else(ApiError::unauthorized)?),
    };
    let client = app.client_of(parts);
    let caller = known(app, client, &hash, now).await?;
    let of_client = ApiError::limited("too many requests from this IP address with this publishable key");
    app.limits.reports.check_address_with(&hash, client, now).map_err(of_client)?;
    let of_key = ApiError::limited("too many requests with this publishable key");
    app.limits.key_reports.check(&hash, now).map_err(of_key)?;
    key_in_query(parts)?;
    admit(caller.is_suspended, &parts.method)?;
    Ok(caller)
}

async fn known(app: &App, client: IpAddr, hash: &str, now: u64) -> Result<Arc<Caller>, ApiError> {
    if let Some(caller) = app.pages.get(hash, now) {
        return Ok(caller);
    }
    let since = app.pages.since(hash);
    let is_known = app.pages.old(hash, now).is_some();
    let found = async { publishable_keys::by_hash(&mut app.db.look_up().await?.conn(), hash).await };
    let Some(found) = misses::look_up(app, client, is_known, found).await? else {
        app.pages.remove(hash);
        return Err(ApiError::invalid_key());
    };
    let caller = Arc::new(found);
    app.pages.fill(hash, Arc::clone(&caller), since, now);
    Ok(caller)
}
