//! Signing in by mail: the link that is asked for. It is used in `callback`.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::MailId;
use deeplink_core::secret::Token;
use deeplink_core::session::{MAGIC_LINK_SECS, NextPath, Signin, SigninSent};
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use futures_util::FutureExt;
use http::HeaderMap;

use crate::db::mail_allowances::{self, Allowed, Purpose};
use crate::db::sign_ins::{self, SignIn};
use crate::db::{Conn, DbError, mails};
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::http::client_ip::{Peer, check_limit};
use crate::http::documented::{JsonBody, NeedsMail};
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// Mails a link to sign in with.
///
/// The reply is the same whether the address has an account or not, and whether it has been sent enough links for this
/// hour. The link works once, for 15 minutes; an address that is new here gets an account by it.
#[utoipa::path(
    post, path = "/v1/auth/signin", operation_id = "signin", tag = "sessions",
    request_body = Signin,
    responses(
        (status = 200, description = "The link was sent, unless the address has had five this hour", body = SigninSent),
        JsonBody, NeedsMail,
        (status = 400, description = "Not an e-mail address (`invalid_email`)", body = ErrorBody),
        (status = 429, description = "Too many sign-ins from this address", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    admit(&app, peer, request.headers())?;
    let body = json_body(request, BODY_LIMIT).await?;
    let (email, next) = parse::<Signin>(&body)?.check()?;
    send_link(&app, email, next).await?;
    Ok(([NO_STORE], Json(SigninSent::new())).into_response())
}

/// Refuses a sign-in where mail is not set up, and too many from one address, before anything is read.
pub(crate) fn admit(app: &App, peer: IpAddr, headers: &HeaderMap) -> Result<(), ApiError> {
    require_mail(app)?;
    check_limit(app, &app.limits.signins, peer, headers)
}

/// Refuses what ends in a mail where mail is not set up.
pub(super) fn require_mail(app: &App) -> Result<(), ApiError> {
    match app.config.mail_at(&app.public_url) {
        Some(_) => Ok(()),
        None => Err(ApiError::Plain(ErrorCode::SessionsNotConfigured, "mail is not set up on this service")),
    }
}

/// The refusal of an address that no mail can be sent to.
pub(super) fn unreachable() -> Invalid {
    Invalid::field(ErrorCode::InvalidEmail, "email", "no mail can be sent to this address")
}

/// Mails a link, and says nothing about the address: nothing is looked up, so known and unknown ones cost the same.
pub(crate) async fn send_link(app: &Shared, email: Email, next: Option<NextPath>) -> Result<(), ApiError> {
    let now = app.clock.now();
    let (token, mail) = app.random(|random| (Token::generate(random), MailId::new(now, random)));
    let expires_at = now.plus_millis(1_000 * MAGIC_LINK_SECS);
    let sealed = Mail::signin(&email, &token, expires_at).ok_or_else(unreachable)?.seal(&app.vault, &mail);
    let link = SendLink { sign_in: SignIn { token, email, next, expires_at }, mail, sealed, now };
    Ok(app.write(link, |tx, link| link.run(tx).boxed(), |app, _, ()| app.mail_waits.notify_one()).await?)
}

struct SendLink {
    sign_in: SignIn,
    mail: MailId,
    sealed: String,
    now: Timestamp,
}

impl SendLink {
    async fn run(&self, tx: &mut Conn<'_>) -> Result<(), DbError> {
        let sign_in = &self.sign_in;
        let address = sign_in.email.as_str();
        if mail_allowances::take(tx, Purpose::Signin, address, self.now).await? == Allowed::Now {
            sign_ins::insert(tx, sign_in).await?;
            mails::insert(tx, &self.mail, &self.sealed, self.now, sign_in.expires_at).await?;
        }
        Ok(())
    }
}
