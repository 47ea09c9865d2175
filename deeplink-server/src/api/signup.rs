//! Opening an account by mail address.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::MailId;
use deeplink_core::secret::Token;
use deeplink_core::user::{SignedUp, Signup};
use futures_util::FutureExt;
use http::{HeaderValue, StatusCode, header};

use super::signin::{require_mail, unreachable};
use crate::db::accounts::{self, NewAccount};
use crate::db::mail_allowances::{self, Allowed};
use crate::db::tokens::{self, Purpose};
use crate::db::users::Standing;
use crate::db::{Conn, mails};
use crate::error::{ApiError, seconds_until};
use crate::http::NO_STORE;
use crate::http::client_ip::{Peer, check_limit};
use crate::http::documented::{JsonBody, NeedsMail};
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// For how long the mailed link works.
const TOKEN_DAYS: i64 = 7;

/// Opens an account.
///
/// Its secret key is in the reply and is never shown again. The address counts as unverified until the mailed link is
/// confirmed.
#[utoipa::path(
    post, path = "/v1/auth/signup", operation_id = "signup", tag = "account",
    request_body = Signup,
    responses(
        (status = 201, description = "Opened", body = SignedUp, headers(("Location" = String))),
        JsonBody, NeedsMail,
        (status = 400, description = "Not an e-mail address", body = ErrorBody),
        (status = 403, description = "This service takes no new sign-ups (`signup_closed`)", body = ErrorBody),
        (status = 409, description = "The address belongs to an account (`email_exists`)", body = ErrorBody),
        (status = 429, description = "Too many sign-ups from this network address, or of this mail address", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    if !app.config.signup_open {
        return Err(ApiError::Plain(ErrorCode::SignupClosed, "this service takes no new sign-ups"));
    }
    require_mail(&app)?;
    check_limit(&app, &app.limits.signups, peer, request.headers())?;
    let body = json_body(request, BODY_LIMIT).await?;
    let email = parse::<Signup>(&body)?.check()?;
    let open = Open::draw(&app, email)?;
    let opened = open.account.opened();
    app.write(open, |tx, open| open.run(tx).boxed(), |app, _, ()| app.mail_waits.notify_one()).await?;
    // There is no address of an account; its links are what the new key opens.
    let location = (header::LOCATION, HeaderValue::from_static("/v1/links"));
    Ok((StatusCode::CREATED, [location, NO_STORE], axum::Json(opened)).into_response())
}

/// A sign-up with everything that is stored for it.
struct Open {
    account: NewAccount,
    token: Token,
    mail: MailId,
    sealed: String,
}

impl Open {
    fn draw(app: &App, email: deeplink_core::user::Email) -> Result<Self, ApiError> {
        let now = app.clock.now();
        let (account, token, mail) = app.random(|random| {
            let account = NewAccount::draw(email, Standing::Unverified, now, random);
            (account, Token::generate(random), MailId::new(now, random))
        });
        let mail_text = Mail::signup(&account.owner.email, &token, now.plus_days(TOKEN_DAYS));
        let sealed = mail_text.ok_or_else(unreachable)?.seal(&app.vault, &mail);
        Ok(Self { account, token, mail, sealed })
    }

    async fn run(&self, tx: &mut Conn<'_>) -> Result<(), ApiError> {
        if !accounts::open(tx, &self.account).await? {
            let message = "this address belongs to an account already";
            return Err(Invalid::field(ErrorCode::EmailExists, "email", message).into());
        }
        let owner = &self.account.owner;
        let until = owner.created_at.plus_days(TOKEN_DAYS);
        let (address, now) = (owner.email.as_str(), owner.created_at);
        // An account whose mail is not sent could never be confirmed, so it is not opened either.
        let allowed = mail_allowances::take(tx, mail_allowances::Purpose::Signup, address, now).await?;
        if let Allowed::From(then) = allowed {
            return Err(ApiError::RateLimited(seconds_until(now, then)));
        }
        tokens::insert(tx, &self.token, Purpose::Signup, &owner.tenant, &owner.id, until).await?;
        Ok(mails::insert(tx, &self.mail, &self.sealed, now, until).await?)
    }
}
