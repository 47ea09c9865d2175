//! Secret keys by mail: a team member is sent a code, which creates the key.

use std::sync::Arc;

use axum::extract::{Request, State};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::MailId;
use deeplink_core::secret::ConfirmationCode;
use deeplink_core::secret_key::{
    CODE_SECS, CodeSent, ConfirmSecretKey, CreatedSecretKey, MAX_ATTEMPTS, RequestSecretKey,
};
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;

use super::secret_keys::{Drawn, refuse_too_many};
use super::signin::unreachable;
use crate::caller::Caller;
use crate::db::key_requests::{self, NewRequest};
use crate::db::users::{self, Standing};
use crate::db::{Conn, mails};
use crate::error::{ApiError, seconds_until};
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, IdempotencyKey, JsonBody};
use crate::http::extract::BODY_LIMIT;
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// Requests a new secret key.
///
/// Emails a code to the address, which must be the confirmed address of a team member. The code works for 10 minutes.
#[utoipa::path(
    post, path = "/v1/auth/secret-keys", operation_id = "request_secret_key", tag = "keys", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = RequestSecretKey,
    responses(
        (status = 200, description = "The code was sent", body = CodeSent, headers(("Idempotency-Replayed" = String))),
        FullKey, JsonBody,
        (status = 400, description = "Not an email address", body = ErrorBody),
        (status = 403, description = "No team member has this address (`not_a_member`), the address is not confirmed (`user_unverified`), not allowed with an affiliate's credential", body = ErrorBody),
        (status = 409, description = "The account already has the maximum number of keys (`key_limit`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
        (status = 429, description = "A code is already pending (`request_pending`)", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "Not applied: email is not configured (`secret_keys_not_configured`), or retry after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn request(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<CodeSent>, ApiError> {
    if app.config.mail_at(&app.public_url).is_none() {
        let message = "email is not configured on this service, so no code can be sent";
        return Err(ApiError::Plain(ErrorCode::SecretKeysNotConfigured, message));
    }
    let (once, asked) = Once::json::<RequestSecretKey>(request, &caller, BODY_LIMIT).await?;
    let email = asked.check()?;
    app.once(once, Ask::draw(&app, caller, email)?).await
}

/// A request with everything to store for it.
struct Ask {
    caller: Arc<Caller>,
    email: Email,
    code_mac: String,
    mail: MailId,
    sealed: String,
    now: Timestamp,
    until: Timestamp,
}

impl Ask {
    fn draw(app: &App, caller: Arc<Caller>, email: Email) -> Result<Self, ApiError> {
        let now = app.clock.now();
        let until = now.plus_millis(CODE_SECS * 1_000);
        let (code, mail) = app.random(|random| (ConfirmationCode::generate(random), MailId::new(now, random)));
        let sealed = Mail::code(&email, &code, until).ok_or_else(unreachable)?.seal(&app.vault, &mail);
        let code_mac = app.vault.code_mac(&caller.tenant, &email, &code);
        Ok(Self { caller, email, code_mac, mail, sealed, now, until })
    }
}

impl Work for Ask {
    type Made = CodeSent;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CodeSent>, ApiError> {
        let tenant = &self.caller.tenant;
        self.caller.hold(tx).await?;
        let user = match users::in_team(tx, tenant, &self.email).await? {
            Some((user, Standing::Verified)) => user,
            Some((_, Standing::Unverified)) => {
                return Err(ApiError::Plain(ErrorCode::UserUnverified, "this address is not confirmed yet"));
            }
            None => return Err(ApiError::Plain(ErrorCode::NotAMember, "no one on the team has this address")),
        };
        refuse_too_many(tx, tenant).await?;
        let new = NewRequest {
            tenant,
            email: &self.email,
            user: &user,
            code_mac: &self.code_mac,
            now: self.now,
            expires_at: self.until,
        };
        if let Some(pending) = key_requests::insert(tx, &new).await? {
            let message = "a code for this address is already pending";
            return Err(ApiError::TryLater(ErrorCode::RequestPending, message, seconds_until(self.now, pending)));
        }
        mails::insert(tx, &self.mail, &self.sealed, self.now, self.until).await?;
        done(CodeSent::new())
    }

    fn committed(&self, app: &Shared, _: &CodeSent) {
        app.mail_waits.notify_one();
    }
}

/// Creates a secret key with an emailed code.
///
/// The key is in the response and is never shown again. After 5 incorrect codes, the correct code is rejected
/// too, and a new code can be requested once the 10 minutes are over.
#[utoipa::path(
    post, path = "/v1/auth/secret-keys/confirm", operation_id = "confirm_secret_key", tag = "keys", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = ConfirmSecretKey,
    responses(
        (status = 201, description = "The key, shown only once", body = CreatedSecretKey, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, JsonBody,
        (status = 400, description = "The code is incorrect or has expired, or no code was sent to this address (`invalid_code`)", body = ErrorBody),
        (status = 409, description = "The account already has the maximum number of keys (`key_limit`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
        (status = 429, description = "5 incorrect codes were entered (`too_many_attempts`)", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn confirm(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<CreatedSecretKey>, ApiError> {
    let (once, asked) = Once::json::<ConfirmSecretKey>(request, &caller, BODY_LIMIT).await?;
    let (email, code) = asked.check()?;
    let drawn = Drawn::new(&app, &caller);
    app.once(once.sealed(&app.vault), Confirm { app: Arc::clone(&app), caller, email, code, drawn }).await
}

fn invalid_code() -> ApiError {
    let message = "this code is incorrect or has expired, or no code was sent to this address";
    Invalid::field(ErrorCode::InvalidCode, "token", message).into()
}

struct Confirm {
    app: Shared,
    caller: Arc<Caller>,
    email: Email,
    /// `None`: the text cannot be a code. It counts as a wrong one.
    code: Option<ConfirmationCode>,
    drawn: Drawn,
}

impl Work for Confirm {
    type Made = CreatedSecretKey;

    /// A wrong code is refused with `Outcome::Refused`, because each attempt counts.
    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CreatedSecretKey>, ApiError> {
        let (tenant, now) = (&self.caller.tenant, self.drawn.key.created_at);
        self.caller.hold(tx).await?;
        let tried = key_requests::attempt(tx, tenant, &self.email, now).await?.ok_or_else(invalid_code)?;
        if tried.attempts > MAX_ATTEMPTS {
            let (message, wait) =
                ("too many incorrect codes; request a new one later", seconds_until(now, tried.expires_at));
            return Ok(Outcome::Refused(ApiError::TryLater(ErrorCode::TooManyAttempts, message, wait)));
        }
        let is_right = |code| self.app.vault.code_is(tenant, &self.email, code, &tried.code_mac);
        if !self.code.as_ref().is_some_and(is_right) {
            return Ok(Outcome::Refused(invalid_code()));
        }
        key_requests::delete(tx, tenant, &self.email).await?;
        self.drawn.store(tx, &tried.user).await
    }
}
