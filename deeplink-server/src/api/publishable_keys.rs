//! Publishable keys, which apps and pages of a verified domain carry: list, create, delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::PublishableKeyId;
use deeplink_core::publishable_key::{
    CreatePublishableKey, CreatedPublishableKey, MAX_PUBLISHABLE_KEYS, PublishableKeyDetail, PublishableKeyList,
};
use deeplink_core::secret::PublishableKey;
use futures_util::FutureExt;
use http::StatusCode;

use crate::db::publishable_keys::{self, NewPublishableKey};
use crate::db::replies::Reply;
use crate::db::{Conn, domains, notices};
use crate::error::ApiError;
use crate::http::auth::{Caller, FullScope};
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::http::once::{Answer, Once, created};
use crate::state::{App, Shared};

/// Lists publishable keys, newest first.
#[utoipa::path(
    get, path = "/v1/auth/publishable-keys", operation_id = "list_publishable_keys", tag = "keys", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Every key, by its beginning", body = PublishableKeyList),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
) -> Result<Json<PublishableKeyList>, ApiError> {
    list_for(&app, &caller).await.map(Json)
}

/// An account's publishable keys.
pub(crate) async fn list_for(app: &App, caller: &Caller) -> Result<PublishableKeyList, ApiError> {
    let keys = publishable_keys::list(&mut app.db.read().await?.conn(), &caller.tenant).await?;
    Ok(PublishableKeyList::new(keys))
}

/// One of an account's publishable keys.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<PublishableKeyDetail, ApiError> {
    let id = id.parse::<PublishableKeyId>().map_err(|_| ApiError::not_found())?;
    let found = publishable_keys::find(&mut app.db.read().await?.conn(), &caller.tenant, &id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Makes a publishable key for a verified domain.
///
/// The key is in the reply and is never shown whole again. It works while the domain is verified.
#[utoipa::path(
    post, path = "/v1/auth/publishable-keys", operation_id = "create_publishable_key", tag = "keys", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = CreatePublishableKey,
    responses(
        (status = 201, description = "The key, shown whole this once", body = CreatedPublishableKey, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "Not a domain (`invalid_domain`), not the account's (`domain_not_found`), or not verified (`domain_not_verified`)", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 409, description = "The account has all the keys it can have (`key_limit`), or the idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer, ApiError> {
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, "POST", "/v1/auth/publishable-keys", &body)?.sealed(&app.vault);
    create_for(&app, caller, once, parse::<CreatePublishableKey>(&body)?).await
}

/// Makes a publishable key for whoever calls.
pub(crate) async fn create_for(
    app: &App,
    caller: Arc<Caller>,
    once: Once,
    asked: CreatePublishableKey,
) -> Result<Answer, ApiError> {
    let domain = asked.check()?;
    let now = app.clock.now();
    let (id, key) = app.random(|random| (PublishableKeyId::new(now, random), PublishableKey::generate(random)));
    let key = NewPublishableKey { id, tenant: caller.tenant.clone(), domain, key, created_at: now };
    let job = Arc::new(Create { caller, once, key });
    app.db
        .write(move |tx| {
            let job = Arc::clone(&job);
            async move { job.run(tx).await }.boxed()
        })
        .await
}

struct Create {
    caller: Arc<Caller>,
    once: Once,
    key: NewPublishableKey,
}

impl Create {
    async fn run(&self, mut tx: Conn<'_>) -> Result<Answer, ApiError> {
        let new = &self.key;
        if let Some(reply) = self.once.claim(&mut tx, new.created_at).await? {
            return Ok(Answer { reply, replayed: true });
        }
        self.caller.hold(&mut tx).await?;
        let refused = |code, message| ApiError::from(Invalid::field(code, "domain", message));
        match domains::find(&mut tx, &new.tenant, &new.domain).await? {
            Some(domain) if domain.is_verified => {}
            Some(_) => return Err(refused(ErrorCode::DomainNotVerified, "this domain is not verified yet")),
            None => return Err(refused(ErrorCode::DomainNotFound, "this account has no such domain")),
        }
        if publishable_keys::count(&mut tx, &new.tenant).await? >= MAX_PUBLISHABLE_KEYS {
            let message = "there are 100 publishable keys, and there can be no more; delete one first";
            return Err(ApiError::Plain(ErrorCode::KeyLimit, message));
        }
        publishable_keys::insert(&mut tx, new).await?;
        let reply = self.reply()?;
        self.once.keep(&mut tx, &reply).await?;
        Ok(Answer { reply, replayed: false })
    }

    fn reply(&self) -> Result<Reply, ApiError> {
        let new = &self.key;
        let shown = CreatedPublishableKey::new(new.id.clone(), new.key.clone(), new.domain.to_string(), new.created_at);
        created(format!("/v1/auth/publishable-keys/{}", new.id), &shown)
    }
}

/// Deletes a publishable key. It is refused from then on.
#[utoipa::path(
    delete, path = "/v1/auth/publishable-keys/{key_id}", operation_id = "delete_publishable_key", tag = "keys", security(("secret_key" = [])),
    params(("key_id" = String, Path, description = "The key's id")),
    responses(
        (status = 204, description = "Gone"),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such key", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    delete_for(&app, caller, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes one of an account's publishable keys.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<PublishableKeyId>().map_err(|_| ApiError::not_found())?;
    let (app, job) = (Arc::clone(app), Arc::new((caller, id)));
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

async fn remove(tx: &mut Conn<'_>, caller: &Caller, id: &PublishableKeyId) -> Result<String, ApiError> {
    caller.hold(tx).await?;
    let hash = publishable_keys::delete(tx, &caller.tenant, id).await?.ok_or_else(ApiError::not_found)?;
    notices::key_changed(tx, &hash).await?;
    Ok(hash)
}
