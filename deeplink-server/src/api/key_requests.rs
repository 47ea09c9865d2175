//! Secret keys by mail: somebody of the team is sent a code, and the code makes the key.

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
use futures_util::FutureExt;
use http::StatusCode;

use super::secret_keys::{Drawn, refuse_too_many};
use crate::db::key_requests::{self, NewRequest};
use crate::db::replies::Reply;
use crate::db::users::{self, Standing};
use crate::db::{Conn, mails};
use crate::error::{ApiError, seconds_until};
use crate::http::auth::{Caller, FullScope};
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::http::once::{Answer, Once};
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// Asks for a new secret key.
///
/// A code goes to the address, which must be a verified one of the team. It works for 10 minutes.
#[utoipa::path(
    post, path = "/v1/auth/secret-keys", operation_id = "request_secret_key", tag = "keys", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = RequestSecretKey,
    responses(
        (status = 200, description = "The code is on its way", body = CodeSent, headers(("Idempotency-Replayed" = String))),
        (status = 400, description = "Not an e-mail address", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "The address is nobody's in the team (`not_a_member`) or not verified (`user_unverified`), or an affiliate's key cannot do this", body = ErrorBody),
        (status = 409, description = "The account has all the keys it can have (`key_limit`), or the idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 429, description = "A code is pending (`request_pending`)", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "Not applied: mail is not set up (`secret_keys_not_configured`), or repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn request(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer, ApiError> {
    if app.config.mail_at(&app.public_url).is_none() {
        let message = "mail is not set up here, so no code can be sent";
        return Err(ApiError::Plain(ErrorCode::SecretKeysNotConfigured, message));
    }
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, "POST", "/v1/auth/secret-keys", &body)?;
    let email = parse::<RequestSecretKey>(&body)?.check()?;
    let job = Arc::new(Ask::draw(&app, caller, once, email)?);
    let answer = app
        .db
        .write(move |tx| {
            let job = Arc::clone(&job);
            async move { job.run(tx).await }.boxed()
        })
        .await?;
    app.mail_waits.notify_one();
    Ok(answer)
}

/// A request with everything that is stored for it.
struct Ask {
    caller: Arc<Caller>,
    once: Once,
    email: Email,
    code_mac: String,
    mail: MailId,
    sealed: String,
    now: Timestamp,
    until: Timestamp,
}

impl Ask {
    fn draw(app: &App, caller: Arc<Caller>, once: Once, email: Email) -> Result<Self, ApiError> {
        let now = app.clock.now();
        let until = now.plus_millis(CODE_SECS * 1_000);
        let (code, mail) = app.random(|random| (ConfirmationCode::generate(random), MailId::new(now, random)));
        let says = Mail::code(&email, &code, until)
            .ok_or_else(|| Invalid::field(ErrorCode::InvalidEmail, "email", "no mail can be sent to this address"))?;
        let sealed = says.seal(&app.vault, &mail);
        let code_mac = app.vault.code_mac(&caller.tenant, &email, &code);
        Ok(Self { caller, once, email, code_mac, mail, sealed, now, until })
    }

    async fn run(&self, mut tx: Conn<'_>) -> Result<Answer, ApiError> {
        if let Some(reply) = self.once.claim(&mut tx, self.now).await? {
            return Ok(Answer { reply, replayed: true });
        }
        let tenant = &self.caller.tenant;
        self.caller.hold(&mut tx).await?;
        let user = match users::in_team(&mut tx, tenant, &self.email).await? {
            Some((user, Standing::Verified)) => user,
            Some((_, Standing::Unverified)) => {
                return Err(ApiError::Plain(ErrorCode::UserUnverified, "this address is not verified yet"));
            }
            None => return Err(ApiError::Plain(ErrorCode::NotAMember, "nobody in the team has this address")),
        };
        refuse_too_many(&mut tx, tenant).await?;
        let new = NewRequest {
            tenant,
            email: &self.email,
            user: &user,
            code_mac: &self.code_mac,
            now: self.now,
            expires_at: self.until,
        };
        if let Some(pending) = key_requests::insert(&mut tx, &new).await? {
            let message = "a code was sent to this address, and is pending";
            return Err(ApiError::TryLater(ErrorCode::RequestPending, message, seconds_until(self.now, pending)));
        }
        mails::insert(&mut tx, &self.mail, &self.sealed, self.now, self.until).await?;
        let body = serde_json::to_string(&CodeSent::new()).map_err(|error| ApiError::Internal(error.to_string()))?;
        let reply = Reply { status: StatusCode::OK.as_u16(), location: None, body };
        self.once.keep(&mut tx, &reply).await?;
        Ok(Answer { reply, replayed: false })
    }
}

/// Makes a secret key with a mailed code.
///
/// The key is in the reply and is never shown again. After 5 wrong codes the right one is refused too, and a new one can be
/// asked for once the 10 minutes are over.
#[utoipa::path(
    post, path = "/v1/auth/secret-keys/confirm", operation_id = "confirm_secret_key", tag = "keys", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = ConfirmSecretKey,
    responses(
        (status = 201, description = "The key, shown this once", body = CreatedSecretKey, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "The code is wrong or has ended, or none was sent to this address (`invalid_code`)", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 409, description = "The account has all the keys it can have (`key_limit`), or the idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 429, description = "5 wrong codes were tried (`too_many_attempts`)", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn confirm(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer, ApiError> {
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, "POST", "/v1/auth/secret-keys/confirm", &body)?.sealed(&app.vault);
    let (email, code) = parse::<ConfirmSecretKey>(&body)?.check()?;
    let drawn = Drawn::new(&app, &caller.tenant);
    let job = Arc::new(Confirm { app: Arc::clone(&app), caller, once, email, code, drawn });
    let tried = app
        .db
        .write(move |tx| {
            let job = Arc::clone(&job);
            async move { job.run(tx).await }.boxed()
        })
        .await?;
    match tried {
        Tried::Right(answer) => Ok(answer),
        Tried::Wrong => Err(invalid_code()),
        Tried::Dead(seconds) => {
            let message = "too many wrong codes were tried, so this one is dead";
            Err(ApiError::TryLater(ErrorCode::TooManyAttempts, message, seconds))
        }
    }
}

fn invalid_code() -> ApiError {
    let message = "this code is wrong or has ended, or none was sent to this address";
    Invalid::field(ErrorCode::InvalidCode, "token", message).into()
}

struct Confirm {
    app: Shared,
    caller: Arc<Caller>,
    once: Once,
    email: Email,
    /// `None`: what was sent cannot be a code. It is as wrong as any other.
    code: Option<ConfirmationCode>,
    drawn: Drawn,
}

/// What became of a try. All of these are committed, because each try counts.
enum Tried {
    Right(Answer),
    Wrong,
    /// The number is the seconds until the code ends.
    Dead(u64),
}

impl Confirm {
    async fn run(&self, mut tx: Conn<'_>) -> Result<Tried, ApiError> {
        let (tenant, now) = (&self.caller.tenant, self.drawn.key.created_at);
        if let Some(reply) = self.once.claim(&mut tx, now).await? {
            return Ok(Tried::Right(Answer { reply, replayed: true }));
        }
        self.caller.hold(&mut tx).await?;
        let tried = key_requests::attempt(&mut tx, tenant, &self.email, now).await?.ok_or_else(invalid_code)?;
        if tried.attempts > MAX_ATTEMPTS {
            self.once.release(&mut tx).await?;
            return Ok(Tried::Dead(seconds_until(now, tried.expires_at)));
        }
        let is_right = |code| self.app.vault.code_is(tenant, &self.email, code, &tried.code_mac);
        if !self.code.as_ref().is_some_and(is_right) {
            self.once.release(&mut tx).await?;
            return Ok(Tried::Wrong);
        }
        key_requests::delete(&mut tx, tenant, &self.email).await?;
        let reply = self.drawn.store(&mut tx, &tried.user).await?;
        self.once.keep(&mut tx, &reply).await?;
        Ok(Tried::Right(Answer { reply, replayed: false }))
    }
}
