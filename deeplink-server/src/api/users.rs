//! The team: list, invite, remove. Invitations are accepted in `invites`.

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::{MailId, TenantId, UserId};
use deeplink_core::routes;
use deeplink_core::secret::Token;
use deeplink_core::time::Timestamp;
use deeplink_core::user::{Email, INVITE_DAYS, InviteUser, InvitedUser, MAX_PEOPLE, UserDetail, UserList};
use futures_util::FutureExt;
use http::StatusCode;

use super::signin::{require_mail, unreachable};
use crate::caller::Caller;
use crate::db::audit::NewEntry;
use crate::db::mail_allowances::{self, Allowed, Purpose};
use crate::db::users::{NewUser, PLACEHOLDER, Standing};
use crate::db::{Conn, mails, tenants, tokens, users};
use crate::error::{ApiError, seconds_until};
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, JsonBody, NeedsMail, PageQuery, Paged};
use crate::http::extract::{BODY_LIMIT, Path, Query};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// Lists team members, including pending invitations, newest first. Maximum 1,000 per account.
#[utoipa::path(
    get, path = "/v1/auth/users", operation_id = "list_users", tag = "team", security(("secret_key" = [])),
    params(PageQuery),
    responses((status = 200, description = "One page", body = UserList), FullKey, Paged)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<UserList>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await.map(Json)
}

/// A page of the people of the caller's team, newest first.
pub(crate) async fn list_for(app: &App, caller: &Caller, request: PageRequest<'_>) -> Result<UserList, ApiError> {
    let page = request.of(app, caller, routes::LIST_USERS.path)?;
    let found = page.read(|mut db, tenant, span| async move { users::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |user| user.id.as_str())?;
    Ok(UserList::new(found, next_cursor))
}

/// One of an account's users.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<UserDetail, ApiError> {
    let id = id.parse::<UserId>().map_err(|_| ApiError::not_found())?;
    let found = users::find(&mut app.db.read().await?.conn(), &caller.tenant, &id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Invites someone to the team.
///
/// The emailed link works for 7 days. Inviting someone again sends a new link and invalidates the old one. An
/// address gets at most five invitations per hour, with or without a tag (`a+b@example.com` counts as
/// `a@example.com`); a domain at which no account has a confirmed address gets at most 200 emails of any kind per hour.
/// A team can send at most 50 invitations per hour. The response does not reveal whether the address belongs to
/// another account; if it does, the invitation cannot be accepted.
#[utoipa::path(
    post, path = "/v1/auth/users", operation_id = "invite_user", tag = "team", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = InviteUser,
    responses(
        (status = 201, description = "Invited", body = InvitedUser, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, NeedsMail, JsonBody,
        (status = 400, description = "Not an email address (`invalid_email`)", body = ErrorBody),
        (status = 402, description = "The plan's limit has been reached, or the account already has 1,000 team members, including pending invitations", body = ErrorBody),
        (status = 403, description = "No team member has confirmed their address (`user_unverified`), not allowed with an affiliate's credential", body = ErrorBody),
        (status = 409, description = "They are already on the team (`user_exists`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
        (status = 429, description = "The team has sent 50 invitations within an hour", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn invite(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<InvitedUser>, ApiError> {
    require_mail(&app)?;
    let (once, asked) = Once::json::<InviteUser>(request, &caller, BODY_LIMIT).await?;
    let email = asked.check()?;
    invite_for(&app, &caller, email, once).await
}

/// Invites an address to the caller's team.
pub(crate) async fn invite_for(
    app: &Shared,
    caller: &Caller,
    email: Email,
    once: Once,
) -> Result<Answer<InvitedUser>, ApiError> {
    require_mail(app)?;
    let now = app.clock.now();
    let from = users::spokesperson(&mut app.db.read().await?.conn(), &caller.tenant, caller.user()).await?;
    // Only people with a confirmed address may have mails sent to others.
    if from.is_none() {
        let message = "no one on this team has confirmed their address yet, so you cannot invite others";
        return Err(ApiError::Plain(ErrorCode::UserUnverified, message));
    }
    let (user, mail, token) =
        app.random(|random| (UserId::new(now, random), MailId::new(now, random), Token::generate(random)));
    let until = now.plus_days(INVITE_DAYS);
    // A pure ASCII text is sent unencoded, with the link in one piece.
    let from = from.filter(|address| address.is_ascii() && address != PLACEHOLDER);
    let sealed = Mail::invite(&email, &token, from, until).ok_or_else(unreachable)?.seal(&app.vault, &mail);
    let user =
        NewUser { id: user, tenant: caller.tenant.clone(), email, standing: Standing::Unverified, created_at: now };
    let entry = app.audited(caller, AuditAction::UserInvited);
    let (caller, enforced_at) = (caller.clone(), app.quotas_at(now));
    app.once(once, Invite { caller, user, token, mail, sealed, until, enforced_at, entry }).await
}

struct Invite {
    caller: Caller,
    user: NewUser,
    token: Token,
    mail: MailId,
    sealed: String,
    until: Timestamp,
    /// The time to check the plan's limit of people at, if limits are enforced.
    enforced_at: Option<Timestamp>,
    entry: NewEntry,
}

impl Work for Invite {
    type Made = InvitedUser;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<InvitedUser>, ApiError> {
        let new = &self.user;
        self.caller.hold(tx).await?;
        let id = match users::by_email(tx, &new.tenant, &new.email).await? {
            Some(known) if !known.verified => known.id,
            known => {
                require_room(tx, &new.tenant, self.enforced_at).await?;
                if known.is_some() {
                    let message = format!("{} is already on the team", new.email);
                    return Err(Invalid::field(ErrorCode::UserExists, "email", message).into());
                }
                users::insert_invited(tx, new).await?;
                new.id.clone()
            }
        };
        let team = mail_allowances::take_of_team(tx, &new.tenant, new.created_at).await?;
        if let Allowed::From(then) = team {
            let limited = ApiError::limited("the team has sent 50 invitations within an hour");
            return Err(limited(seconds_until(new.created_at, then)));
        }
        let allowed = mail_allowances::take(tx, Purpose::Invite, &new.email, new.created_at).await?;
        if allowed == Allowed::Now {
            tokens::end(tx, &id, tokens::Purpose::Invite).await?;
            tokens::insert(tx, &self.token, tokens::Purpose::Invite, &new.tenant, &id, self.until).await?;
            mails::insert(tx, &self.mail, &self.sealed, new.created_at, self.until).await?;
        }
        self.entry.of(&id, Some(new.email.as_str())).store(tx).await?;
        created(format!("/v1/auth/users/{id}"), InvitedUser::new(id, &new.email))
    }

    fn committed(&self, app: &Shared, _: &InvitedUser) {
        app.mail_waits.notify_one();
    }
}

/// Fails if an account has the maximum number of people.
pub(super) async fn require_room(
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    enforced_at: Option<Timestamp>,
) -> Result<(), ApiError> {
    let limit = tenants::max_people(tx, tenant, enforced_at).await?;
    let (current, _) = users::count(tx, tenant).await?;
    if current < limit {
        return Ok(());
    }
    Err(ApiError::one_too_many("team_members", limit, current, MAX_PEOPLE))
}

/// Removes a team member and revokes their sessions, codes and invitations. Keys that they created are kept.
#[utoipa::path(
    delete, path = "/v1/auth/users/{user_id}", operation_id = "remove_user", tag = "team", security(("secret_key" = [])),
    params(("user_id" = String, Path, description = "The team member's ID", example = "usr_0123456789abcdef01234567")),
    responses(
        Deleted,
        (status = 409, description = "No team member with a confirmed address would be left (`last_user`)", body = ErrorBody),
    )
)]
pub(crate) async fn remove(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = id.parse().map_err(|_| ApiError::not_found())?;
    remove_for(&app, &caller, id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Removes a person from the caller's team.
pub(crate) async fn remove_for(app: &App, caller: &Caller, id: UserId) -> Result<(), ApiError> {
    let entry = app.audited(caller, AuditAction::UserRemoved);
    let removed = app.db.write(caller.turn(), (caller.clone(), id, entry), |tx, (caller, id, entry)| {
        async move {
            // Concurrent removals from one team wait here, so that one of the last two people stays.
            caller.hold(tx).await?;
            let user = users::lock(tx, &caller.tenant, id).await?.ok_or_else(ApiError::not_found)?;
            let (_, verified) = users::count(tx, &caller.tenant).await?;
            if user.verified && verified <= 1 {
                let message = "no one with a confirmed address would be left on the team";
                return Err(ApiError::Plain(ErrorCode::LastUser, message));
            }
            entry.of(id, Some(user.email.as_str())).store(tx).await?;
            Ok(users::delete(tx, id).await?)
        }
        .boxed()
    });
    removed.await
}
