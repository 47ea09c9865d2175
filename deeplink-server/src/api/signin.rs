//! Signing in by mail: requesting the link. It is used in `callback`.

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
use ipnet::IpNet;

use crate::db::mail_allowances::{self, SignInMail};
use crate::db::sign_ins::{self, SignIn};
use crate::db::{Conn, DbError, mails};
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::http::client_ip::{Peer, check_limit, client_ip, network};
use crate::http::documented::{JsonBody, NeedsMail};
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::shares::Share;
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// Refusal of a client's address over its limit.
pub(super) const TOO_MANY: &str = "too many sign-ins from this IP address";

/// Emails a sign-in link.
///
/// The response is the same whether or not the address has an account, and whether or not it has reached its
/// hourly limit: five links, and one more for an address with an account if requested from a network that none
/// of the five came from (IPv4: /24, IPv6: /48). `a+b@example.com` counts as `a@example.com`. A domain in which
/// no account has a confirmed address gets at most 200 emails of any kind per hour. The link works only once, for 15
/// minutes; for a new address, it creates an account.
#[utoipa::path(
    post, path = "/v1/auth/signin", operation_id = "signin", tag = "sessions",
    request_body = Signin,
    responses(
        (status = 200, description = "The link was sent, unless the address or its domain has reached its hourly email limit", body = SigninSent),
        JsonBody, NeedsMail,
        (status = 400, description = "Not an email address (`invalid_email`)", body = ErrorBody),
        (status = 429, description = "Too many sign-ins from this IP address", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    let network = admit(&app, peer, request.headers())?;
    let body = json_body(request, BODY_LIMIT).await?;
    let (email, next) = parse::<Signin>(&body)?.check()?;
    send_link(&app, network, email, next).await?;
    Ok(([NO_STORE], Json(SigninSent::new())).into_response())
}

/// Refuses a sign-in if mail is not set up, or after too many from one address, before anything is read. Returns the
/// client's network.
pub(crate) fn admit(app: &App, peer: IpAddr, headers: &HeaderMap) -> Result<IpNet, ApiError> {
    require_mail(app)?;
    check_limit(app, (&app.limits.signins, TOO_MANY), peer, headers)?;
    Ok(network(client_ip(peer, headers, &app.config.trusted_proxies)))
}

/// Fails if mail is not set up.
pub(super) fn require_mail(app: &App) -> Result<(), ApiError> {
    match app.config.mail_at(&app.public_url) {
        Some(_) => Ok(()),
        None => Err(ApiError::Plain(ErrorCode::SessionsNotConfigured, "email is not configured on this service")),
    }
}

/// The error for an address that no mail can be sent to.
pub(super) fn unreachable() -> Invalid {
    Invalid::field(ErrorCode::InvalidEmail, "email", "email cannot be sent to this address")
}

/// Mails a link requested from a network, without revealing anything about the address: known and unknown ones take the
/// same work.
pub(crate) async fn send_link(
    app: &Shared,
    network: IpNet,
    email: Email,
    next: Option<NextPath>,
) -> Result<(), ApiError> {
    let now = app.clock.now();
    let (token, mail) = app.random(|random| (Token::generate(random), MailId::new(now, random)));
    let expires_at = now.plus_millis(1_000 * MAGIC_LINK_SECS);
    let sealed = Mail::signin(&email, &token, expires_at).ok_or_else(unreachable)?.seal(&app.vault, &mail);
    let network = format!(" {}", app.vault.network_mac(&network.to_string()));
    let link = SendLink { sign_in: SignIn { token, email, next, expires_at }, mail, sealed, network, now };
    Ok(app
        .write(Share::SignIns, link, |tx, link| link.run(tx).boxed(), |app, _, ()| app.mail_waits.notify_one())
        .await?)
}

struct SendLink {
    sign_in: SignIn,
    mail: MailId,
    sealed: String,
    /// As a keyed hash.
    network: String,
    now: Timestamp,
}

impl SendLink {
    async fn run(&self, tx: &mut Conn<'_>) -> Result<(), DbError> {
        let sign_in = &self.sign_in;
        let until = match mail_allowances::take_sign_in(tx, &sign_in.email, &self.network, self.now).await? {
            SignInMail::Sent => sign_in.expires_at,
            SignInMail::Void => mails::void(),
            SignInMail::Refused => return Ok(()),
        };
        sign_ins::insert(tx, sign_in).await?;
        mails::insert(tx, &self.mail, &self.sealed, self.now, until).await
    }
}
