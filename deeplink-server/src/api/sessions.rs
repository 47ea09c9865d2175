//! Who is signed in, and signing out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::ErrorBody;
use deeplink_core::session::{Me, MyTenant, MyUser};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::caller::SignedIn;
use crate::db::sessions;
use crate::error::ApiError;
use crate::http::documented::Unavailable;
use crate::http::session::{EndingSession, Session, clear_cookie};
use crate::http::{NO_STORE, csrf};
use crate::state::Shared;

/// Returns the signed-in user.
#[utoipa::path(
    get, path = "/v1/auth/me", operation_id = "me", tag = "sessions", security(("session" = [])),
    responses(
        (status = 200, description = "The user and their account", body = Me),
        Unavailable,
        (status = 401, description = "Not signed in: no session, or one that has ended", body = ErrorBody),
    )
)]
pub(crate) async fn me(Session(who): Session) -> Response {
    let user =
        MyUser { id: who.user.clone(), email: who.email.clone(), verified: who.verified, is_owner: who.is_owner };
    let tenant = MyTenant {
        id: who.tenant.clone(),
        name: who.tenant_name.clone(),
        created_at: who.tenant_created_at,
        deletes_at: who.tenant_deletes_at,
    };
    ([NO_STORE], Json(Me::new(user, tenant))).into_response()
}

/// Ends the session.
#[utoipa::path(
    post, path = "/v1/auth/signout", operation_id = "signout", tag = "sessions", security(("session" = [])),
    responses(
        (status = 204, description = "Signed out; the cookie is cleared", headers(("Set-Cookie" = String))),
        Unavailable,
        (status = 401, description = "Not signed in", body = ErrorBody),
        (status = 403, description = "The request came from another site (`csrf_rejected`)", body = ErrorBody),
    )
)]
pub(crate) async fn signout(
    State(app): State<Shared>,
    EndingSession(who): EndingSession,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if csrf::is_cross_site(&app, &headers) {
        return Err(ApiError::csrf_rejected());
    }
    let cleared = end(&app, &who).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cleared), NO_STORE]).into_response())
}

/// Ends a session; returns the cookie that clears the browser's.
pub(crate) async fn end(app: &Shared, who: &Arc<SignedIn>) -> Result<HeaderValue, ApiError> {
    app.db.write(&who.tenant, Arc::clone(who), |tx, who| sessions::delete(tx, &who.session).boxed()).await?;
    Ok(clear_cookie(app))
}
