//! Opening an account by email address, and confirming the address.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::{AuditEntryId, MailId, SecretKeyId};
use deeplink_core::secret::{SecretKey, Token};
use deeplink_core::time::Timestamp;
use deeplink_core::user::{SignedUp, Signup};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::callback::Entry;
use super::signin::{require_mail, unreachable};
use crate::caller::{Actor, SignedIn};
use crate::db::accounts::{self, NewAccount};
use crate::db::audit::{By, NewEntry};
use crate::db::keys::{self, NewKey};
use crate::db::mail_allowances::{self, Allowed};
use crate::db::tokens::{self, Purpose};
use crate::db::users::Standing;
use crate::db::{Conn, DbError, mails, people};
use crate::error::{ApiError, seconds_until};
use crate::http::client_ip::{Peer, check_limit};
use crate::http::documented::{JsonBody, NeedsMail};
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::http::{NO_STORE, misses};
use crate::notifier::Notification;
use crate::shares::Share;
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// How long the mailed link works.
const TOKEN_DAYS: i64 = 7;

/// Creates an account.
///
/// The account's secret key is in the response and is never shown again. The address is unverified until it is
/// confirmed on the page of the emailed link, within 7 days. Until then, anyone could have entered the address,
/// so confirming it revokes everything that could act for the account: its keys, sessions, invitations,
/// webhooks and sources. Links, domains, apps and affiliates are kept. The page then shows a new secret key,
/// once.
#[utoipa::path(
    post, path = "/v1/auth/signup", operation_id = "signup", tag = "account",
    request_body = Signup,
    responses(
        (status = 201, description = "Created", body = SignedUp, headers(("Location" = String))),
        JsonBody, NeedsMail,
        (status = 400, description = "Not an email address", body = ErrorBody),
        (status = 403, description = "Sign-up is closed on this service (`signup_closed`)", body = ErrorBody),
        (status = 409, description = "The address already belongs to an account (`email_exists`)", body = ErrorBody),
        (status = 429, description = "Too many sign-ups from this IP address, or five for this email address within an hour (`a+b@example.com` counts as `a@example.com`), or 200 emails to its domain, if no account has a confirmed address at that domain", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    if !app.config.signup_open {
        return Err(ApiError::Plain(ErrorCode::SignupClosed, "sign-up is closed on this service"));
    }
    require_mail(&app)?;
    check_limit(&app, (&app.limits.signups, "too many sign-ups from this IP address"), peer, request.headers())?;
    let body = json_body(request, BODY_LIMIT).await?;
    let email = parse::<Signup>(&body)?.check()?;
    let open = Open::draw(&app, email)?;
    let opened = open.account.opened();
    app.write(Share::SignUps, open, |tx, open| open.run(tx).boxed(), |app, _, ()| app.mail_waits.notify_one()).await?;
    // An account has no URL; the new key gives access to its links.
    let location = (header::LOCATION, HeaderValue::from_static("/v1/links"));
    Ok((StatusCode::CREATED, [location, NO_STORE], axum::Json(opened)).into_response())
}

/// A sign-up with everything to store for it.
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
            let message = "this address already belongs to an account";
            return Err(Invalid::field(ErrorCode::EmailExists, "email", message).into());
        }
        let owner = &self.account.owner;
        let until = owner.created_at.plus_days(TOKEN_DAYS);
        let now = owner.created_at;
        // Without its mail an account could never be confirmed, so it is not opened.
        let allowed = mail_allowances::take(tx, mail_allowances::Purpose::Signup, &owner.email, now).await?;
        if let Allowed::From(then) = allowed {
            let message = "this address or its domain has reached its hourly email limit";
            return Err(ApiError::TryLater(ErrorCode::RateLimited, message, seconds_until(now, then)));
        }
        tokens::insert(tx, &self.token, Purpose::Signup, &owner.tenant, &owner.id, until).await?;
        Ok(mails::insert(tx, &self.mail, &self.sealed, now, until).await?)
    }
}

/// A confirmed sign-up.
pub(crate) struct Confirmed {
    /// Its owner, who is signed in.
    pub(crate) who: Arc<SignedIn>,
    /// The account's only key.
    pub(crate) key: SecretKey,
    /// Begins the session.
    pub(crate) cookie: HeaderValue,
}

/// Confirms a sign-up with its mailed token, signs its owner in, and creates the account's only key. Of several
/// requests with one token, one succeeds. `None`: the token is used, has expired, or is for an address that has an
/// account.
pub(crate) async fn confirm(
    app: &Shared,
    peer: IpAddr,
    headers: &HeaderMap,
    token: &Token,
) -> Result<Option<Confirmed>, ApiError> {
    if !token.is_well_formed() {
        return Ok(None);
    }
    let now = app.clock.now();
    let (id, key, entries) = app.random(|random| {
        let mut entries = [(); 2].map(|()| AuditEntryId::new(now, random));
        // The log is in the order of its ids.
        entries.sort();
        (SecretKeyId::new(now, random), SecretKey::generate(random), entries)
    });
    let entry = Entry::draw(app, headers);
    let cookie = entry.cookie(app);
    let confirm = Confirm { entry, id, entries, key: key.clone(), token_hash: token.hash(), now };
    let confirmed = app.write(
        Share::SignUps,
        confirm,
        |tx, confirm| confirm.run(tx).boxed(),
        |app, _, made: &Option<Made>| {
            let Some(made) = made else { return };
            made.ended_keys.iter().for_each(|hash| app.forget_key(hash));
            app.notifier.notify(Notification::Deliveries(made.who.tenant.clone()));
        },
    );
    let made = misses::look_up(app, app.client_at(peer, headers), false, confirmed).await?;
    Ok(made.map(|made| Confirmed { who: made.who, key, cookie }))
}

struct Confirm {
    entry: Entry,
    id: SecretKeyId,
    /// Of the entries in the audit log: that access ended, and that the key was created.
    entries: [AuditEntryId; 2],
    key: SecretKey,
    token_hash: String,
    now: Timestamp,
}

/// The result of a confirmation.
struct Made {
    who: Arc<SignedIn>,
    /// Hashes of the ended keys.
    ended_keys: Vec<String>,
}

impl Confirm {
    async fn run(&self, tx: &mut Conn<'_>) -> Result<Option<Made>, DbError> {
        let [revoked, made] = &self.entries;
        let confirmed = people::confirm_sign_up(tx, &self.token_hash, revoked, self.now).await?;
        let Some(people::ConfirmedSignUp { owner, ended_keys }) = confirmed else { return Ok(None) };
        let key = NewKey {
            id: self.id.clone(),
            tenant: owner.tenant.clone(),
            affiliate: None,
            key: self.key.clone(),
            created_by: Some(owner.user.clone()),
            created_at: self.now,
        };
        keys::insert(tx, &key).await?;
        let by = By::Caller(Actor::User(owner.user.clone()));
        let made = NewEntry::new(made.clone(), owner.tenant.clone(), by, AuditAction::SecretKeyCreated);
        made.of(&key.id, Some(&key.key.shown_prefix())).store(tx).await?;
        self.entry.begin(tx, owner).await?;
        Ok(Some(Made { who: self.entry.who(tx).await?, ended_keys }))
    }
}
