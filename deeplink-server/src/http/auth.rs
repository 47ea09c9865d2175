//! Who calls. The extractor in a handler's signature is the permission: [`FullScope`] is a tenant's own key,
//! [`LinkWriter`] also an affiliate's, [`super::sdk_key::SdkCaller`] also a publishable one, and
//! [`super::session::Session`] a signed-in user. A handler without one is public. A wallet that pays for a request may
//! do what [`super::x402`] allows, as if it were the key of its own account.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use deeplink_core::secret::sha256_hex;
use http::Method;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::anonymous::Anonymous;
use super::misses;
use crate::caller::{Actor, Caller, KnownKey};
use crate::db::{Conn, keys, tenants, users};
use crate::error::ApiError;
use crate::state::Shared;
use crate::uses::LastUse;

impl Caller {
    /// Locks the account's row until the write ends, and refuses a caller whose key was deleted or who has left the
    /// team. Cached callers may be seconds old, so writes that create or delete keys check the caller under this lock.
    pub(crate) async fn hold(&self, tx: &mut Conn<'_>) -> Result<(), ApiError> {
        tenants::lock(tx, &self.tenant).await?;
        match &self.by {
            Actor::Key(id) if !keys::exists(tx, &self.tenant, id).await? => Err(ApiError::invalid_key()),
            Actor::User(id) if !users::exists(tx, &self.tenant, id).await? => Err(ApiError::no_session()),
            _ => Ok(()),
        }
    }
}

/// Refuses changes to an account that the operator suspended; reads are answered. Every kind of credential is checked
/// here: secret keys, affiliates', publishable keys, sources, sessions and wallets.
pub(crate) fn admit(is_suspended: bool, method: &Method) -> Result<(), ApiError> {
    if is_suspended && !method.is_safe() { Err(ApiError::account_suspended()) } else { Ok(()) }
}

/// A tenant's own secret key; an affiliate's is refused before anything is looked up.
pub(crate) struct FullScope {
    pub(crate) caller: Arc<Caller>,
    /// Prevents construction elsewhere: a permission comes from a request only.
    _extracted: (),
}

/// A tenant's own secret key, or an affiliate's for what belongs to the affiliate.
pub(crate) struct LinkWriter(pub(crate) Arc<Caller>);

/// The key in a request's header. One that is present but invalid is refused at once and never falls through to a
/// weaker one.
pub(super) fn shown_key(parts: &Parts) -> Result<Option<&str>, ApiError> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::invalid_key());
    }
    value.to_str().ok().and_then(bearer).map(Some).ok_or_else(ApiError::invalid_key)
}

/// The caller that a request's secret key authenticates.
async fn caller(key: Option<&str>, parts: &Parts, app: &Shared) -> Result<Arc<Caller>, ApiError> {
    let key = key.ok_or_else(ApiError::unauthorized)?;
    let hash = sha256_hex(key);
    let now = app.clock.monotonic_millis();
    let known = match app.callers.get(&hash, now) {
        Some(known) => known,
        None => {
            let since = app.callers.since(&hash);
            let is_known = app.callers.old(&hash, now).is_some();
            let found = async { keys::by_hash(&mut app.db.look_up().await?.conn(), &hash).await };
            let Some(found) = misses::look_up(app, app.client_of(parts), is_known, found).await? else {
                app.callers.remove(&hash);
                return Err(ApiError::invalid_key());
            };
            let last_use = LastUse::new(found.last_used_at);
            let known = Arc::new(KnownKey { caller: Arc::new(found.caller), last_use });
            app.callers.fill(&hash, Arc::clone(&known), since, now);
            known
        }
    };
    admit(known.caller.is_suspended, &parts.method)?;
    if let Actor::Key(key) = &known.caller.by {
        app.uses.record(key, &known.last_use, app.clock.now());
    }
    Ok(Arc::clone(&known.caller))
}

/// The token of `Bearer TOKEN`; the scheme's case does not matter (RFC 9110, section 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= 512).then_some(token)
}

/// The caller that a tenant's own secret key authenticates.
pub(super) async fn full_scope(key: Option<&str>, parts: &Parts, app: &Shared) -> Result<Arc<Caller>, ApiError> {
    let caller = caller(key, parts, app).await?;
    if caller.affiliate.is_some() { Err(ApiError::forbidden_scope()) } else { Ok(caller) }
}

/// A wallet that pays for a request. Only the payment layer adds one.
fn wallet(parts: &Parts) -> Result<Option<Arc<Caller>>, ApiError> {
    let Some(Wallet(caller)) = parts.extensions.get::<Wallet>() else { return Ok(None) };
    admit(caller.is_suspended, &parts.method)?;
    Ok(Some(Arc::clone(caller)))
}

/// The extension of a request that is paid for.
#[derive(Debug, Clone)]
pub(super) struct Wallet(pub(super) Arc<Caller>);

impl FromRequestParts<Shared> for FullScope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let caller = match wallet(parts)? {
            Some(caller) => caller,
            None => {
                let caller = full_scope(shown_key(parts)?, parts, app).await?;
                Anonymous::end(parts, app, &*caller)?;
                caller
            }
        };
        Ok(Self { caller, _extracted: () })
    }
}

impl FromRequestParts<Shared> for LinkWriter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        if let Some(caller) = wallet(parts)? {
            return Ok(Self(caller));
        }
        let caller = caller(shown_key(parts)?, parts, app).await?;
        Anonymous::end(parts, app, &*caller)?;
        Ok(Self(caller))
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
