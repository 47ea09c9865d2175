//! Affiliates' credentials: secret keys that can access one affiliate's links.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use deeplink_core::affiliate::{CreatedCredential, CredentialDetail, CredentialList, MAX_CREDENTIALS};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::id::{AffiliateId, SecretKeyId};
use deeplink_core::secret::SecretKey;
use deeplink_core::secret_key::SecretKeyDetail;
use futures_util::FutureExt;
use http::{HeaderMap, StatusCode};

use super::affiliates::{find, named};
use crate::caller::Caller;
use crate::db::audit::NewEntry;
use crate::db::keys::{self, NewKey};
use crate::db::{Conn, affiliates, notices};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, NotFound, PageQuery, Paged};
use crate::http::extract::{Path, Query};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

/// Lists an affiliate's credentials, newest first.
#[utoipa::path(
    get, path = "/v1/affiliates/{affiliate_id}/credentials", operation_id = "list_credentials", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's ID", example = "aff_0123456789abcdef01234567"), PageQuery),
    responses(
        (status = 200, description = "One page, without the secrets", body = CredentialList),
        FullKey, NotFound, Paged,
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<CredentialList>, ApiError> {
    list_for(&app, &caller, &named(&id)?, PageRequest::read(&query)?).await.map(Json)
}

/// A page of the credentials of an affiliate of the caller.
pub(crate) async fn list_for(
    app: &App,
    caller: &Caller,
    affiliate: &AffiliateId,
    request: PageRequest<'_>,
) -> Result<CredentialList, ApiError> {
    find(app, caller, affiliate).await?;
    let page = request.of(app, caller, format!("/v1/affiliates/{affiliate}/credentials"))?;
    let of = affiliate.clone();
    let found = page
        .read(move |mut db, tenant, span| async move { keys::list(&mut db, &tenant, Some(&of), &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |key| key.id.as_str())?;
    Ok(CredentialList::new(found.into_iter().map(detail).collect(), next_cursor))
}

fn detail(key: SecretKeyDetail) -> CredentialDetail {
    CredentialDetail { id: key.id, key_prefix: key.key_prefix, created_at: key.created_at }
}

/// One credential of an affiliate of the caller.
pub(crate) async fn find_for(
    app: &App,
    caller: &Caller,
    affiliate: &str,
    id: &str,
) -> Result<CredentialDetail, ApiError> {
    let id = id.parse::<SecretKeyId>().map_err(|_| ApiError::not_found())?;
    let affiliate = named(affiliate)?;
    let found = keys::find(&mut app.db.read().await?.conn(), &caller.tenant, Some(&affiliate), &id).await?;
    found.map(detail).ok_or_else(ApiError::not_found)
}

/// Creates a credential for an affiliate.
///
/// The key is in the response and is never shown again. It can access only this affiliate's links. Maximum 3
/// per affiliate.
#[utoipa::path(
    post, path = "/v1/affiliates/{affiliate_id}/credentials", operation_id = "create_credential", tag = "affiliates", security(("secret_key" = [])),
    params(
        ("affiliate_id" = String, Path, description = "The affiliate's ID", example = "aff_0123456789abcdef01234567"),
        IdempotencyKey,
    ),
    responses(
        (status = 201, description = "The credential, shown only once", body = CreatedCredential, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, NotFound,
        (status = 400, description = "`Idempotency-Key` is malformed", body = ErrorBody),
        (status = 409, description = "The affiliate already has 3 credentials (`credential_limit`)", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Answer<CreatedCredential>, ApiError> {
    let id = named(&id)?;
    find(&app, &caller, &id).await?;
    let path = format!("/v1/affiliates/{id}/credentials");
    let once = Once::read(&headers, &caller, &path, b"")?.sealed(&app.vault);
    create_for(&app, caller, once, id).await
}

/// Creates a credential for an affiliate of the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    affiliate: AffiliateId,
) -> Result<Answer<CreatedCredential>, ApiError> {
    app.once(once, Create::draw(app, caller, affiliate)).await
}

struct Create {
    caller: Arc<Caller>,
    affiliate: AffiliateId,
    key: NewKey,
    entry: NewEntry,
}

impl Create {
    fn draw(app: &App, caller: Arc<Caller>, affiliate: AffiliateId) -> Self {
        let now = app.clock.now();
        let (id, key) = app.random(|random| (SecretKeyId::new(now, random), SecretKey::generate(random)));
        let key = NewKey {
            id,
            tenant: caller.tenant.clone(),
            affiliate: Some(affiliate.clone()),
            key,
            created_by: caller.user().cloned(),
            created_at: now,
        };
        let entry = app.audited(&caller, AuditAction::CredentialCreated).of(&key.id, Some(affiliate.as_str()));
        Self { caller, affiliate, key, entry }
    }
}

impl Work for Create {
    type Made = CreatedCredential;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CreatedCredential>, ApiError> {
        let new = &self.key;
        self.caller.hold(tx).await?;
        if !affiliates::lock(tx, &new.tenant, &self.affiliate).await? {
            return Err(ApiError::not_found());
        }
        if keys::count(tx, &new.tenant, Some(&self.affiliate)).await? >= MAX_CREDENTIALS {
            let message = "this affiliate already has 3 credentials, the maximum; delete one first";
            return Err(ApiError::Plain(ErrorCode::CredentialLimit, message));
        }
        keys::insert(tx, new).await?;
        self.entry.store(tx).await?;
        let location = format!("/v1/affiliates/{}/credentials/{}", self.affiliate, new.id);
        let shown = CreatedCredential::new(new.id.clone(), self.affiliate.clone(), new.key.clone(), new.created_at);
        created(location, shown)
    }
}

/// Deletes a credential of an affiliate. It stops working immediately.
#[utoipa::path(
    delete, path = "/v1/affiliates/{affiliate_id}/credentials/{key_id}", operation_id = "delete_credential", tag = "affiliates", security(("secret_key" = [])),
    params(
        ("affiliate_id" = String, Path, description = "The affiliate's ID", example = "aff_0123456789abcdef01234567"),
        ("key_id" = String, Path, description = "The credential's ID", example = "skid_0123456789abcdef01234567"),
    ),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path((affiliate, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &affiliate, &id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes a credential of an affiliate of the caller.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, affiliate: &str, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<SecretKeyId>().map_err(|_| ApiError::not_found())?;
    let affiliate = named(affiliate)?;
    let entry = app.audited(&caller, AuditAction::CredentialDeleted).of(&id, Some(affiliate.as_str()));
    let deleted = app.write(
        caller.turn(),
        (caller, affiliate, id, entry),
        |tx, (caller, affiliate, id, entry)| {
            async move {
                caller.hold(tx).await?;
                let hash = keys::delete(tx, &caller.tenant, Some(affiliate), id).await?;
                let (hash, _) = hash.ok_or_else(ApiError::not_found)?;
                entry.store(tx).await?;
                notices::key_changed(tx, &hash).await?;
                Ok::<_, ApiError>(hash)
            }
            .boxed()
        },
        |app, _, hash| app.forget_key(hash),
    );
    deleted.await.map(drop)
}
