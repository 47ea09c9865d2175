//! Lookups of what anyone can make up: ids, hosts, keys, tokens.
//!
//! A lookup that finds nothing counts as a miss of the client's address. An address without misses left is answered
//! from memory only: what is not in memory is refused before the database is asked, so that guessing costs nothing.

use std::net::IpAddr;

use deeplink_core::error::ErrorCode;

use crate::db::DbError;
use crate::error::ApiError;
use crate::state::App;

/// Runs a lookup for a client, unless its address has no misses left. What was seen lately (`is_known`) is always
/// looked up.
///
/// The miss is counted before the database is asked, and given back unless nothing is found: concurrent requests cannot
/// exceed what the address has left, and a client that hangs up gets nothing back.
pub(crate) async fn look_up<T>(
    app: &App,
    client: IpAddr,
    is_known: bool,
    asked: impl Future<Output = Result<Option<T>, DbError>>,
) -> Result<Option<T>, ApiError> {
    if !is_known {
        count(app, client)?;
    }
    let found = asked.await;
    if !is_known && !matches!(found, Ok(None)) {
        app.limits.misses.give_back(&client);
    }
    Ok(found?)
}

/// The same for a token whose holder is looked up each time: memory only knows that it was valid lately.
pub(crate) async fn look_up_token<T>(
    app: &App,
    client: IpAddr,
    hash: &str,
    asked: impl Future<Output = Result<Option<T>, DbError>>,
) -> Result<Option<T>, ApiError> {
    let now = app.clock.monotonic_millis();
    let is_known = app.valid_tokens.old(hash, now).is_some();
    let found = look_up(app, client, is_known, asked).await?;
    match &found {
        Some(_) => app.valid_tokens.fill(hash, (), app.valid_tokens.since(hash), now),
        None => app.valid_tokens.remove(hash),
    }
    Ok(found)
}

/// Counts a miss, or refuses it.
pub(crate) fn count(app: &App, client: IpAddr) -> Result<(), ApiError> {
    const OVER: &str = "too many requests for nonexistent IDs, hosts or keys from this IP address";
    let counted = app.limits.misses.check(&client, app.clock.monotonic_millis());
    counted.map_err(|seconds| ApiError::TryLater(ErrorCode::RateLimited, OVER, seconds))
}
