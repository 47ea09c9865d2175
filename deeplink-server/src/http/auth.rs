//! Who calls. The extractor in a handler's signature is the permission: [`FullScope`] is a tenant's own key,
//! [`LinkWriter`] also an affiliate's. A handler without one is public.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use deeplink_core::id::{AffiliateId, SecretKeyId, TenantId, UserId};
use deeplink_core::secret::sha256_hex;
use http::header::AUTHORIZATION;
use http::request::Parts;

use crate::db::keys;
use crate::error::ApiError;
use crate::state::Shared;

/// Whom a request acts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) by: Actor,
    pub(crate) tenant: TenantId,
    /// Set for an affiliate's credential, which reaches only that affiliate's links.
    pub(crate) affiliate: Option<AffiliateId>,
}

/// What a caller showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A secret key.
    Key(SecretKeyId),
    /// The session of somebody in the team; only pages take it.
    User(UserId),
}

/// A tenant's own secret key; an affiliate's is refused before anything is looked up.
pub(crate) struct FullScope(pub(crate) Arc<Caller>);

/// A tenant's own secret key, or an affiliate's for what is the affiliate's.
pub(crate) struct LinkWriter(pub(crate) Arc<Caller>);

/// Reads and checks the credential of a request. One that is present but not valid is refused at once and never falls
/// through to a weaker one.
async fn caller(parts: &Parts, app: &Shared) -> Result<Arc<Caller>, ApiError> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Err(ApiError::unauthorized()) };
    if values.next().is_some() {
        return Err(ApiError::invalid_key());
    }
    let key = value.to_str().ok().and_then(bearer).ok_or_else(ApiError::invalid_key)?;
    let hash = sha256_hex(key);
    let now = app.clock.monotonic_millis();
    if let Some(known) = app.callers.get(&hash, now) {
        return Ok(known);
    }
    let since = app.callers.since(&hash);
    let found = keys::by_hash(&mut app.db.read().await?.conn(), &hash).await?.ok_or_else(ApiError::invalid_key)?;
    let caller = Arc::new(found);
    app.callers.fill(&hash, Arc::clone(&caller), since, now);
    Ok(caller)
}

/// The token of `Bearer TOKEN`; the scheme's case does not matter (RFC 9110, section 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= 512).then_some(token)
}

impl FromRequestParts<Shared> for FullScope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let caller = caller(parts, app).await?;
        if caller.affiliate.is_some() { Err(ApiError::forbidden_scope()) } else { Ok(Self(caller)) }
    }
}

impl FromRequestParts<Shared> for LinkWriter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        Ok(Self(caller(parts, app).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_is_a_credential() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("Bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("abc", None),
            ("", None),
        ] {
            assert_eq!(bearer(value), token, "{value:?}");
        }
    }
}
