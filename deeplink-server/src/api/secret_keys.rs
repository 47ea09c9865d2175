//! Secret keys: list, issue to somebody who is signed in, delete. How one is had by mail is in `key_requests`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::id::{SecretKeyId, TenantId, UserId};
use deeplink_core::secret::SecretKey;
use deeplink_core::secret_key::{CreatedSecretKey, IssueSecretKey, MAX_KEYS, SecretKeyDetail, SecretKeyList};
use futures_util::FutureExt;
use http::StatusCode;

use crate::db::keys::{self, NewKey};
use crate::db::replies::Reply;
use crate::db::{Conn, notices};
use crate::error::ApiError;
use crate::http::auth::{Actor, Caller, FullScope};
use crate::http::csrf;
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::http::once::{Answer, Once, created};
use crate::http::session::Session;
use crate::state::{App, Shared};

/// Lists secret keys, newest first. Affiliates' credentials are not among them.
#[utoipa::path(
    get, path = "/v1/auth/secret-keys", operation_id = "list_secret_keys", tag = "keys", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Every key, without what it consists of", body = SecretKeyList),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
) -> Result<Json<SecretKeyList>, ApiError> {
    list_for(&app, &caller.tenant).await.map(Json)
}

/// An account's own keys.
pub(crate) async fn list_for(app: &App, tenant: &TenantId) -> Result<SecretKeyList, ApiError> {
    Ok(SecretKeyList::new(keys::list(&mut app.db.read().await?.conn(), tenant, None).await?))
}

/// One of an account's own keys.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<SecretKeyDetail, ApiError> {
    let id = id.parse::<SecretKeyId>().map_err(|_| ApiError::not_found())?;
    let found = keys::find(&mut app.db.read().await?.conn(), &caller.tenant, None, &id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Makes a secret key for somebody who is signed in.
///
/// The key is in the reply and is never shown again. An account can have 5.
#[utoipa::path(
    post, path = "/v1/auth/secret-keys/issue", operation_id = "issue_secret_key", tag = "keys", security(("session" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = IssueSecretKey,
    responses(
        (status = 201, description = "The key, shown this once", body = CreatedSecretKey, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "The request is malformed", body = ErrorBody),
        (status = 401, description = "Nobody is signed in, or a key was sent", body = ErrorBody),
        (status = 403, description = "Another site made this request (`csrf_rejected`)", body = ErrorBody),
        (status = 409, description = "The account has all the keys it can have (`key_limit`), or the idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 503, description = "Not applied: sign-in is off (`secret_keys_not_configured`), or repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn issue(
    State(app): State<Shared>,
    Session(person): Session,
    request: Request,
) -> Result<Answer, ApiError> {
    if csrf::is_foreign(&app, request.headers()) {
        return Err(ApiError::csrf_rejected());
    }
    refuse_without_sessions(&app)?;
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let caller = person.caller();
    let once = Once::read(&headers, &caller, "POST", "/v1/auth/secret-keys/issue", &body)?.sealed(&app.vault);
    parse::<IssueSecretKey>(&body)?;
    store(&app, &Arc::new(Issue::draw(&app, &caller, &person.user, once))).await
}

/// Makes a key for somebody in the team.
pub(crate) async fn issue_for(app: &App, caller: &Caller, created_by: &UserId, once: Once) -> Result<Answer, ApiError> {
    refuse_without_sessions(app)?;
    store(app, &Arc::new(Issue::draw(app, caller, created_by, once))).await
}

fn refuse_without_sessions(app: &App) -> Result<(), ApiError> {
    if app.config.sessions {
        return Ok(());
    }
    Err(ApiError::Plain(ErrorCode::SecretKeysNotConfigured, "sign-in is switched off here, and keys with it"))
}

struct Issue {
    caller: Caller,
    created_by: UserId,
    once: Once,
    drawn: Drawn,
}

impl Issue {
    fn draw(app: &App, caller: &Caller, created_by: &UserId, once: Once) -> Self {
        let drawn = Drawn::new(app, &caller.tenant);
        Self { caller: caller.clone(), created_by: created_by.clone(), once, drawn }
    }

    async fn run(&self, mut tx: Conn<'_>) -> Result<Answer, ApiError> {
        if let Some(reply) = self.once.claim(&mut tx, self.drawn.key.created_at).await? {
            return Ok(Answer { reply, replayed: true });
        }
        self.caller.hold(&mut tx).await?;
        let reply = self.drawn.store(&mut tx, &self.created_by).await?;
        self.once.keep(&mut tx, &reply).await?;
        Ok(Answer { reply, replayed: false })
    }
}

async fn store(app: &App, issue: &Arc<Issue>) -> Result<Answer, ApiError> {
    let issue = Arc::clone(issue);
    app.db
        .write(move |tx| {
            let issue = Arc::clone(&issue);
            async move { issue.run(tx).await }.boxed()
        })
        .await
}

/// A new key: what is stored of it, and how it is shown once.
pub(super) struct Drawn {
    pub(super) key: NewKey,
    shown: CreatedSecretKey,
}

impl Drawn {
    pub(super) fn new(app: &App, tenant: &TenantId) -> Self {
        let now = app.clock.now();
        let (id, key) = app.random(|random| (SecretKeyId::new(now, random), SecretKey::generate(random)));
        let shown = CreatedSecretKey::new(id.clone(), key.clone(), now);
        let key = NewKey { id, tenant: tenant.clone(), affiliate: None, key, created_by: None, created_at: now };
        Self { key, shown }
    }

    /// Stores the key, unless the account has all it can have. The caller of this holds the account's row.
    pub(super) async fn store(&self, tx: &mut Conn<'_>, created_by: &UserId) -> Result<Reply, ApiError> {
        refuse_too_many(tx, &self.key.tenant).await?;
        keys::insert(tx, &NewKey { created_by: Some(created_by.clone()), ..self.key.clone() }).await?;
        created(format!("/v1/auth/secret-keys/{}", self.key.id), &self.shown)
    }
}

/// Refuses where an account has all the keys it can have.
pub(super) async fn refuse_too_many(tx: &mut Conn<'_>, tenant: &TenantId) -> Result<(), ApiError> {
    if keys::count(tx, tenant, None).await? < MAX_KEYS {
        return Ok(());
    }
    Err(ApiError::Plain(ErrorCode::KeyLimit, "there are 5 secret keys, and there can be no more; delete one first"))
}

/// Deletes a secret key. It is refused from then on.
///
/// The key that asks cannot delete itself, and the last one stays.
#[utoipa::path(
    delete, path = "/v1/auth/secret-keys/{key_id}", operation_id = "delete_secret_key", tag = "keys", security(("secret_key" = [])),
    params(("key_id" = String, Path, description = "The key's id")),
    responses(
        (status = 204, description = "Gone"),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such key", body = ErrorBody),
        (status = 409, description = "It is the key that asks (`key_in_use`), or the last one (`last_key`)", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    delete_for(&app, &caller, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes one of an account's own keys.
pub(crate) async fn delete_for(app: &Shared, caller: &Caller, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<SecretKeyId>().map_err(|_| ApiError::not_found())?;
    let (app, job) = (Arc::clone(app), Arc::new((caller.clone(), id)));
    App::to_the_end(async move {
        let hash = app
            .db
            .write(move |mut tx| {
                let job = Arc::clone(&job);
                async move { remove(&mut tx, &job.0, &job.1).await }.boxed()
            })
            .await?;
        app.forget_key(&hash);
        Ok(())
    })
    .await
}

async fn remove(tx: &mut Conn<'_>, caller: &Caller, id: &SecretKeyId) -> Result<String, ApiError> {
    caller.hold(tx).await?;
    if matches!(&caller.by, Actor::Key(own) if own == id) {
        return Err(ApiError::Plain(ErrorCode::KeyInUse, "this key makes the request; delete it with another one"));
    }
    let hash = keys::delete(tx, &caller.tenant, None, id).await?.ok_or_else(ApiError::not_found)?;
    if keys::count(tx, &caller.tenant, None).await? == 0 {
        return Err(ApiError::Plain(ErrorCode::LastKey, "this is the last key; make another one first"));
    }
    notices::key_changed(tx, &hash).await?;
    Ok(hash)
}
