//! Secret keys: list, issue to a signed-in user, delete. Keys by mail are in `key_requests`.

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::id::{SecretKeyId, TenantId, UserId};
use deeplink_core::routes;
use deeplink_core::secret::SecretKey;
use deeplink_core::secret_key::{CreatedSecretKey, IssueSecretKey, MAX_KEYS, SecretKeyDetail, SecretKeyList};
use futures_util::FutureExt;
use http::StatusCode;

use crate::caller::{Actor, Caller};
use crate::db::audit::NewEntry;
use crate::db::keys::{self, NewKey};
use crate::db::{Conn, notices};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::csrf;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, JsonBody, PageQuery, Paged, Unavailable};
use crate::http::extract::{BODY_LIMIT, Path, Query};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::PageRequest;
use crate::http::session::Session;
use crate::state::{App, Shared};

/// Lists secret keys, newest first, without affiliates' credentials.
#[utoipa::path(
    get, path = "/v1/auth/secret-keys", operation_id = "list_secret_keys", tag = "keys", security(("secret_key" = [])),
    params(PageQuery),
    responses((status = 200, description = "One page, without the secrets", body = SecretKeyList), FullKey, Paged)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<SecretKeyList>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await.map(Json)
}

/// A page of an account's own keys.
pub(crate) async fn list_for(app: &App, caller: &Caller, request: PageRequest<'_>) -> Result<SecretKeyList, ApiError> {
    let page = request.of(app, caller, routes::LIST_SECRET_KEYS.path)?;
    let found =
        page.read(|mut db, tenant, span| async move { keys::list(&mut db, &tenant, None, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |key| key.id.as_str())?;
    Ok(SecretKeyList::new(found, next_cursor))
}

/// One of an account's own keys.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<SecretKeyDetail, ApiError> {
    let id = id.parse::<SecretKeyId>().map_err(|_| ApiError::not_found())?;
    let found = keys::find(&mut app.db.read().await?.conn(), &caller.tenant, None, &id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Creates a secret key for a signed-in user.
///
/// The key is in the response and is never shown again. Maximum 5 per account.
#[utoipa::path(
    post, path = "/v1/auth/secret-keys/issue", operation_id = "issue_secret_key", tag = "keys", security(("session" = [])),
    params(IdempotencyKey), request_body = IssueSecretKey,
    responses(
        (status = 201, description = "The key, shown only once", body = CreatedSecretKey, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        Unavailable, JsonBody,
        (status = 400, description = "The request is malformed", body = ErrorBody),
        (status = 401, description = "Not signed in, or a key was sent", body = ErrorBody),
        (status = 403, description = "The request came from another site (`csrf_rejected`)", body = ErrorBody),
        (status = 409, description = "The account already has the maximum number of keys (`key_limit`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
        (status = 503, description = "Not applied: sign-in is disabled (`secret_keys_not_configured`), or retry after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn issue(
    State(app): State<Shared>,
    Session(person): Session,
    request: Request,
) -> Result<Answer<CreatedSecretKey>, ApiError> {
    if csrf::is_cross_site(&app, request.headers()) {
        return Err(ApiError::csrf_rejected());
    }
    refuse_without_sessions(&app)?;
    let caller = person.caller();
    let (once, _) = Once::json::<IssueSecretKey>(request, &caller, BODY_LIMIT).await?;
    issue_for(&app, &caller, &person.user, once.sealed(&app.vault)).await
}

/// Creates a key for a team member.
pub(crate) async fn issue_for(
    app: &Shared,
    caller: &Caller,
    created_by: &UserId,
    once: Once,
) -> Result<Answer<CreatedSecretKey>, ApiError> {
    refuse_without_sessions(app)?;
    let drawn = Drawn::new(app, caller);
    app.once(once, Issue { caller: caller.clone(), created_by: created_by.clone(), drawn }).await
}

fn refuse_without_sessions(app: &App) -> Result<(), ApiError> {
    if app.config.sessions {
        return Ok(());
    }
    Err(ApiError::Plain(ErrorCode::SecretKeysNotConfigured, "sign-in and secret keys are disabled on this service"))
}

struct Issue {
    caller: Caller,
    created_by: UserId,
    drawn: Drawn,
}

impl Work for Issue {
    type Made = CreatedSecretKey;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CreatedSecretKey>, ApiError> {
        self.caller.hold(tx).await?;
        self.drawn.store(tx, &self.created_by).await
    }
}

/// A new key: the part that is stored, and the text that is shown once.
pub(super) struct Drawn {
    pub(super) key: NewKey,
    shown: CreatedSecretKey,
    entry: NewEntry,
}

impl Drawn {
    pub(super) fn new(app: &App, caller: &Caller) -> Self {
        let now = app.clock.now();
        let (id, key) = app.random(|random| (SecretKeyId::new(now, random), SecretKey::generate(random)));
        let shown = CreatedSecretKey::new(id.clone(), key.clone(), now);
        let key = NewKey { id, tenant: caller.tenant.clone(), affiliate: None, key, created_by: None, created_at: now };
        let entry = app.audited(caller, AuditAction::SecretKeyCreated).of(&key.id, Some(&key.key.shown_prefix()));
        Self { key, shown, entry }
    }

    /// Stores the key, unless the account has the maximum number. The calling code has locked the account's row.
    pub(super) async fn store(
        &self,
        tx: &mut Conn<'_>,
        created_by: &UserId,
    ) -> Result<Outcome<CreatedSecretKey>, ApiError> {
        refuse_too_many(tx, &self.key.tenant).await?;
        keys::insert(tx, &NewKey { created_by: Some(created_by.clone()), ..self.key.clone() }).await?;
        self.entry.store(tx).await?;
        created(format!("/v1/auth/secret-keys/{}", self.key.id), self.shown.clone())
    }
}

/// Fails if an account has the maximum number of keys.
pub(super) async fn refuse_too_many(tx: &mut Conn<'_>, tenant: &TenantId) -> Result<(), ApiError> {
    if keys::count(tx, tenant, None).await? < MAX_KEYS {
        return Ok(());
    }
    Err(ApiError::Plain(ErrorCode::KeyLimit, "this account already has 5 secret keys, the maximum; delete one first"))
}

/// Deletes a secret key. It stops working immediately.
///
/// A key cannot delete itself, and the last one cannot be deleted.
#[utoipa::path(
    delete, path = "/v1/auth/secret-keys/{key_id}", operation_id = "delete_secret_key", tag = "keys", security(("secret_key" = [])),
    params(("key_id" = String, Path, description = "The key's ID", example = "skid_0123456789abcdef01234567")),
    responses(
        Deleted,
        (status = 409, description = "The key was used for this request (`key_in_use`), or is the last key (`last_key`)", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, &caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes one of an account's own keys.
pub(crate) async fn delete_for(app: &Shared, caller: &Caller, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<SecretKeyId>().map_err(|_| ApiError::not_found())?;
    let entry = app.audited(caller, AuditAction::SecretKeyDeleted);
    let removed = app.write(
        caller.turn(),
        (caller.clone(), id, entry),
        |tx, (caller, id, entry)| remove(tx, caller, id, entry).boxed(),
        |app, _, hash: &String| app.forget_key(hash),
    );
    removed.await.map(drop)
}

async fn remove(tx: &mut Conn<'_>, caller: &Caller, id: &SecretKeyId, entry: &NewEntry) -> Result<String, ApiError> {
    caller.hold(tx).await?;
    if matches!(&caller.by, Actor::Key(own) if own == id) {
        return Err(ApiError::Plain(ErrorCode::KeyInUse, "a key cannot delete itself; use another key"));
    }
    let deleted = keys::delete(tx, &caller.tenant, None, id).await?;
    let (hash, shown) = deleted.ok_or_else(ApiError::not_found)?;
    if keys::count(tx, &caller.tenant, None).await? == 0 {
        return Err(ApiError::Plain(ErrorCode::LastKey, "this is the last key; create another one first"));
    }
    entry.of(id, Some(&shown)).store(tx).await?;
    notices::key_changed(tx, &hash).await?;
    Ok(hash)
}
