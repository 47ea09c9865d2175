//! Publishable keys, embedded in apps and pages of a verified domain: list, create, delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::PublishableKeyId;
use deeplink_core::publishable_key::{
    CreatePublishableKey, CreatedPublishableKey, MAX_PUBLISHABLE_KEYS, PublishableKeyDetail, PublishableKeyList,
};
use deeplink_core::routes;
use deeplink_core::secret::PublishableKey;
use futures_util::FutureExt;
use http::StatusCode;

use crate::caller::Caller;
use crate::db::audit::NewEntry;
use crate::db::publishable_keys::{self, NewPublishableKey};
use crate::db::{Conn, domains, notices};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, JsonBody, PageQuery, Paged};
use crate::http::extract::{BODY_LIMIT, Path, Query};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

/// Lists publishable keys, newest first.
#[utoipa::path(
    get, path = "/v1/auth/publishable-keys", operation_id = "list_publishable_keys", tag = "keys", security(("secret_key" = [])),
    params(PageQuery),
    responses((status = 200, description = "One page, with the prefix of each key", body = PublishableKeyList), FullKey, Paged)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<PublishableKeyList>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await.map(Json)
}

/// A page of an account's publishable keys.
pub(crate) async fn list_for(
    app: &App,
    caller: &Caller,
    request: PageRequest<'_>,
) -> Result<PublishableKeyList, ApiError> {
    let page = request.of(app, caller, routes::LIST_PUBLISHABLE_KEYS.path)?;
    let found =
        page.read(|mut db, tenant, span| async move { publishable_keys::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |key| key.id.as_str())?;
    Ok(PublishableKeyList::new(found, next_cursor))
}

/// One of an account's publishable keys.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<PublishableKeyDetail, ApiError> {
    let id = id.parse::<PublishableKeyId>().map_err(|_| ApiError::not_found())?;
    let found = publishable_keys::find(&mut app.db.read().await?.conn(), &caller.tenant, &id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Creates a publishable key for a verified domain.
///
/// The full key is in the response and is never shown again. It works while the domain is verified.
#[utoipa::path(
    post, path = "/v1/auth/publishable-keys", operation_id = "create_publishable_key", tag = "keys", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = CreatePublishableKey,
    responses(
        (status = 201, description = "The key, shown only once", body = CreatedPublishableKey, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, JsonBody,
        (status = 400, description = "Not a valid domain (`invalid_domain`), not a domain of the account (`domain_not_found`), or not verified (`domain_not_verified`)", body = ErrorBody),
        (status = 409, description = "The account already has the maximum number of keys (`key_limit`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<CreatedPublishableKey>, ApiError> {
    let (once, asked) = Once::json::<CreatePublishableKey>(request, &caller, BODY_LIMIT).await?;
    create_for(&app, caller, once.sealed(&app.vault), asked).await
}

/// Creates a publishable key for the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    asked: CreatePublishableKey,
) -> Result<Answer<CreatedPublishableKey>, ApiError> {
    let domain = asked.check()?;
    let now = app.clock.now();
    let (id, key) = app.random(|random| (PublishableKeyId::new(now, random), PublishableKey::generate(random)));
    let entry = app.audited(&caller, AuditAction::PublishableKeyCreated).of(&id, Some(domain.as_str()));
    let key = NewPublishableKey { id, tenant: caller.tenant.clone(), domain, key, created_at: now };
    app.once(once, Create { caller, key, entry }).await
}

struct Create {
    caller: Arc<Caller>,
    key: NewPublishableKey,
    entry: NewEntry,
}

impl Work for Create {
    type Made = CreatedPublishableKey;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CreatedPublishableKey>, ApiError> {
        let new = &self.key;
        self.caller.hold(tx).await?;
        let refused = |code, message| ApiError::from(Invalid::field(code, "domain", message));
        match domains::find(tx, &new.tenant, &new.domain).await? {
            Some(domain) if domain.is_verified => {}
            Some(_) => return Err(refused(ErrorCode::DomainNotVerified, "this domain is not verified yet")),
            None => return Err(refused(ErrorCode::DomainNotFound, "this account has no such domain")),
        }
        if publishable_keys::count(tx, &new.tenant).await? >= MAX_PUBLISHABLE_KEYS {
            let message = "this account already has 100 publishable keys, the maximum; delete one first";
            return Err(ApiError::Plain(ErrorCode::KeyLimit, message));
        }
        publishable_keys::insert(tx, new).await?;
        self.entry.store(tx).await?;
        let location = format!("/v1/auth/publishable-keys/{}", new.id);
        let (id, key, domain) = (new.id.clone(), new.key.clone(), new.domain.to_string());
        created(location, CreatedPublishableKey::new(id, key, domain, new.created_at))
    }
}

/// Deletes a publishable key. It stops working immediately.
#[utoipa::path(
    delete, path = "/v1/auth/publishable-keys/{key_id}", operation_id = "delete_publishable_key", tag = "keys", security(("secret_key" = [])),
    params(("key_id" = String, Path, description = "The key's ID", example = "pkid_0123456789abcdef01234567")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes one of an account's publishable keys.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<PublishableKeyId>().map_err(|_| ApiError::not_found())?;
    let entry = app.audited(&caller, AuditAction::PublishableKeyDeleted);
    let removed = app.write(
        caller.turn(),
        (caller, id, entry),
        |tx, (caller, id, entry)| remove(tx, caller, id, entry).boxed(),
        |app, _, hash: &String| app.forget_key(hash),
    );
    removed.await.map(drop)
}

async fn remove(
    tx: &mut Conn<'_>,
    caller: &Caller,
    id: &PublishableKeyId,
    entry: &NewEntry,
) -> Result<String, ApiError> {
    caller.hold(tx).await?;
    let deleted = publishable_keys::delete(tx, &caller.tenant, id).await?;
    let (hash, domain) = deleted.ok_or_else(ApiError::not_found)?;
    entry.of(id, Some(&domain)).store(tx).await?;
    notices::key_changed(tx, &hash).await?;
    Ok(hash)
}
