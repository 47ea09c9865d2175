//! What an invitation leads to: a page that changes nothing, and the form on it that accepts.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::error::ErrorBody;
use deeplink_core::secret::Token;
use futures_util::FutureExt;

use super::callback::FOREIGN;
use crate::db::tokens::{self, Purpose};
use crate::db::{Conn, DbError, people};
use crate::error::ApiError;
use crate::http::csrf;
use crate::http::extract::{Query, form_body};
use crate::http::host::OnServiceHost;
use crate::pages::auth;
use crate::pages::headers::see_other;
use crate::state::{App, Shared};

/// Shows the form of an invitation. Nothing is used up by it, however often it is opened.
#[utoipa::path(
    get, path = "/v1/auth/verify", operation_id = "verify_page", tag = "team",
    params(("token" = String, Query, description = "The invitation's token")),
    responses(
        (status = 200, description = "A page with a form", content_type = "text/html", body = String),
        (status = 400, description = "There is no token, or more than one", body = ErrorBody),
    )
)]
pub(crate) async fn page(State(app): State<Shared>, _: OnServiceHost, query: Query) -> Result<Response, ApiError> {
    let token = query.one("token")?.ok_or_else(|| ApiError::bad_field("token", "there is no token"))?;
    Ok(auth::invitation(&app, token))
}

/// Accepts an invitation. Nobody is signed in by it.
#[utoipa::path(
    post, path = "/v1/auth/verify", operation_id = "accept_invite", tag = "team",
    request_body(content = InviteForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "Accepted: to the website's `/signin?invite=accepted`; else to its `/signin?error=invite_invalid`, or to `/signin?error=invalid_request` for a form of another site", headers(("Location" = String))),
        (status = 400, description = "A field stands more than once", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not a form", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn accept(State(app): State<Shared>, request: Request) -> Result<Response, ApiError> {
    if csrf::is_foreign(&app, request.headers()) {
        return Ok(see_other(FOREIGN));
    }
    let form = form_body(request).await?;
    let token = Token::new(form.one("token")?.unwrap_or_default());
    let accepted = token.is_well_formed() && accepts(&app, &token).await?;
    let website = app.config.marketing_url_at(&app.public_url);
    let website = website.as_str().trim_end_matches('/');
    let outcome = if accepted { "invite=accepted" } else { "error=invite_invalid" };
    Ok(see_other(&format!("{website}/signin?{outcome}")))
}

/// The form of an invitation.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the fields; they are read one by one")]
pub(crate) struct InviteForm {
    /// The invitation's token; without one nothing is accepted.
    #[schema(required = false)]
    token: String,
}

async fn accepts(app: &App, token: &Token) -> Result<bool, DbError> {
    let (hash, now): (Arc<str>, _) = (token.hash().into(), app.clock.now());
    app.db
        .write(move |mut tx: Conn<'_>| {
            let hash = Arc::clone(&hash);
            async move {
                match tokens::consume(&mut tx, &hash, Purpose::Invite, now).await? {
                    Some(invited) => people::confirm(&mut tx, &invited.user).await,
                    None => Ok(false),
                }
            }
            .boxed()
        })
        .await
}
