//! Who a secret key acts for.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use deeplink_core::whoami::Whoami;

use crate::caller::Actor;
use crate::db::whoami;
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::http::auth::LinkWriter;
use crate::http::documented::AnyKey;
use crate::state::Shared;

/// Returns the identity behind the key.
///
/// For an affiliate's credential, the response has the account's ID and the affiliate, but not the account's
/// team members and plan.
#[utoipa::path(
    get, path = "/v1/auth/whoami", operation_id = "whoami", tag = "keys", security(("secret_key" = [])),
    responses((status = 200, description = "The key, its account, and the address of the key's creator or, if there is none, of the owner or another team member", body = Whoami), AnyKey)
)]
pub(crate) async fn get(State(app): State<Shared>, LinkWriter(caller): LinkWriter) -> Result<Response, ApiError> {
    let Actor::Key(key) = &caller.by else { return Err(ApiError::unauthorized()) };
    let mut reader = app.db.read().await?;
    let found = whoami::find(&mut reader.conn(), &caller.tenant, key, app.clock.now()).await?;
    let mut who = found.ok_or_else(ApiError::invalid_key)?;
    who.plan = who.plan.filter(|_| app.config.billing);
    Ok(([NO_STORE], Json(who)).into_response())
}
