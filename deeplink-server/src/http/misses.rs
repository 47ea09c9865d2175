//! Lookups of what anyone can make up: ids, hosts, keys, tokens.
//!
//! A lookup that finds nothing counts as a miss of the client's address. An address without misses left is answered
//! from memory only: what is not in memory is refused before the database is asked, so that guessing costs nothing.

use std::net::IpAddr;

use deeplink_core::error::ErrorCode;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::db::DbError;
use crate::error::ApiError;
use crate::state::App;

/// Runs a lookup for a client, unless its address has no misses left. What was seen lately (`is_known`) is always
/// looked up.
///
/// The miss is counted before the database is asked, and given back unless nothing is found: concurrent requests cannot
/// exceed what the address has left, and a client that hangs up gets nothing back.
///
/// On the heap: a query takes several KiB, which would otherwise be part of every request as long as it lasts, also while it
/// waits for its body.
pub(crate) fn look_up<'a, T: Send + 'a>(
    app: &'a App,
    client: IpAddr,
    is_known: bool,
    asked: impl Future<Output = Result<Option<T>, DbError>> + Send + 'a,
) -> BoxFuture<'a, Result<Option<T>, ApiError>> {
    async move {
        if !is_known {
            count(app, client)?;
        }
        let found = asked.await;
        if !is_known && !matches!(found, Ok(None)) {
            app.limits.misses.give_address_back(client);
        }
        Ok(found?)
    }
    .boxed()
}

/// The same for a token whose holder is looked up each time: memory only knows that it was valid lately.
pub(crate) fn look_up_token<'a, T: Send + 'a>(
    app: &'a App,
    client: IpAddr,
    hash: &'a str,
    asked: impl Future<Output = Result<Option<T>, DbError>> + Send + 'a,
) -> BoxFuture<'a, Result<Option<T>, ApiError>> {
    let now = app.clock.monotonic_millis();
    let is_known = app.valid_tokens.old(hash, now).is_some();
    let asked = look_up(app, client, is_known, asked);
    async move {
        let found = asked.await?;
        match &found {
            Some(_) => app.valid_tokens.fill(hash, (), app.valid_tokens.since(hash), now),
            None => app.valid_tokens.remove(hash),
        }
        Ok(found)
    }
    .boxed()
}

/// Counts a miss, or refuses it.
pub(crate) fn count(app: &App, client: IpAddr) -> Result<(), ApiError> {
    const OVER: &str = "too many requests for nonexistent IDs, hosts or keys from this IP address";
    let counted = app.limits.misses.check_address(client, app.clock.monotonic_millis());
    counted.map_err(|seconds| ApiError::TryLater(ErrorCode::RateLimited, OVER, seconds))
}
