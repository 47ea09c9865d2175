//! Invitation links: a page that changes nothing, and its form, which accepts.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::audit::AuditAction;
use deeplink_core::id::AuditEntryId;
use deeplink_core::secret::Token;
use futures_util::FutureExt;

use super::callback::FOREIGN;
use crate::caller::Actor;
use crate::db::audit::{By, NewEntry};
use crate::db::tokens::{self, Purpose};
use crate::db::{DbError, people, suspensions};
use crate::error::ApiError;
use crate::http::client_ip::Peer;
use crate::http::documented::{FormBody, Unavailable};
use crate::http::extract::{SIGN_IN_BODY_LIMIT, form_body};
use crate::http::redirect::see_other;
use crate::http::{csrf, misses};
use crate::shares::Share;
use crate::state::{App, Shared};

/// Accepts an invitation, without signing in.
#[utoipa::path(
    post, path = "/v1/auth/verify", operation_id = "accept_invite", tag = "team",
    request_body(content = InviteForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "Accepted: redirect to the website's `/signin?invite=accepted`. Otherwise, redirect to its `/signin?error=invite_invalid`, or to `/signin?error=invalid_request` for a form from another site", headers(("Location" = String))),
        Unavailable, FormBody,
    )
)]
pub(crate) async fn accept(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    if csrf::is_cross_site(&app, request.headers()) {
        return Ok(see_other(FOREIGN));
    }
    let client = app.client_at(peer, request.headers());
    let form = form_body(request, SIGN_IN_BODY_LIMIT).await?;
    let token = Token::new(form.one("token")?.unwrap_or_default());
    let accepts = async { Ok(accepts(&app, &token).await?.then_some(())) };
    let accepted = token.is_well_formed() && misses::look_up(&app, client, false, accepts).await?.is_some();
    Ok(if accepted { answer(&app, "invite=accepted") } else { invalid(&app) })
}

/// Redirect for an invitation that is used, withdrawn or has expired.
pub(crate) fn invalid(app: &App) -> Response {
    answer(app, "error=invite_invalid")
}

fn answer(app: &App, outcome: &str) -> Response {
    let website = app.config.marketing_url_at(&app.public_url);
    see_other(&format!("{}/signin?{outcome}", website.as_str().trim_end_matches('/')))
}

/// The form of an invitation.
#[derive(utoipa::ToSchema)]
#[schema(examples(json!({"token": "TOKEN"})))]
#[expect(dead_code, reason = "describes the fields; they are read one by one")]
pub(crate) struct InviteForm {
    /// The invitation's token; without it, no invitation is accepted.
    #[schema(required = false)]
    token: String,
}

async fn accepts(app: &App, token: &Token) -> Result<bool, DbError> {
    let now = app.clock.now();
    let entry = app.random(|random| AuditEntryId::new(now, random));
    let accepted = app.db.write(Share::SignIns, (token.hash(), entry), move |tx, (hash, entry)| {
        async move {
            let invited_to = tokens::tenant_of(tx, hash, Purpose::Invite, now).await?;
            // The invitation works once the account is resumed.
            if let Some(tenant) = invited_to
                && suspensions::is_suspended(tx, &tenant).await?
            {
                return Ok(false);
            }
            match tokens::consume(tx, hash, Purpose::Invite, now).await? {
                Some(invited) if people::confirm(tx, &invited.user).await? => {
                    let by = By::Caller(Actor::User(invited.user.clone()));
                    let entry = NewEntry::new(entry.clone(), invited.tenant, by, AuditAction::UserJoined);
                    entry.of(&invited.user, None).store(tx).await?;
                    Ok(true)
                }
                _ => Ok(false),
            }
        }
        .boxed()
    });
    accepted.await
}
