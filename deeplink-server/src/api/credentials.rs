//! Affiliates' credentials: secret keys that reach one affiliate's links.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use deeplink_core::affiliate::{CreatedCredential, CredentialDetail, CredentialList, MAX_CREDENTIALS};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::id::{AffiliateId, SecretKeyId};
use deeplink_core::secret::SecretKey;
use deeplink_core::secret_key::SecretKeyDetail;
use futures_util::FutureExt;
use http::{HeaderMap, StatusCode};

use super::affiliates::{find, named};
use crate::db::keys::{self, NewKey};
use crate::db::{Conn, affiliates, notices};
use crate::error::ApiError;
use crate::http::auth::{Caller, FullScope};
use crate::http::extract::Path;
use crate::http::once::{Answer, Once, created};
use crate::state::{App, Shared};

/// Lists an affiliate's credentials, newest first.
#[utoipa::path(
    get, path = "/v1/affiliates/{affiliate_id}/credentials", operation_id = "list_credentials", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's id")),
    responses(
        (status = 200, description = "Every credential, without what it consists of", body = CredentialList),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such affiliate", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Json<CredentialList>, ApiError> {
    list_for(&app, &caller, &named(&id)?).await.map(Json)
}

/// The credentials of an affiliate of whoever calls.
pub(crate) async fn list_for(app: &App, caller: &Caller, affiliate: &AffiliateId) -> Result<CredentialList, ApiError> {
    find(app, caller, affiliate).await?;
    let all = keys::list(&mut app.db.read().await?.conn(), &caller.tenant, Some(affiliate)).await?;
    Ok(CredentialList::new(all.into_iter().map(detail).collect()))
}

fn detail(key: SecretKeyDetail) -> CredentialDetail {
    CredentialDetail { id: key.id, key_prefix: key.key_prefix, created_at: key.created_at }
}

/// One credential of an affiliate of whoever calls.
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

/// Makes a credential for an affiliate.
///
/// The key is in the reply and is never shown again. It reaches this affiliate's links only. An affiliate can have 3.
#[utoipa::path(
    post, path = "/v1/affiliates/{affiliate_id}/credentials", operation_id = "create_credential", tag = "affiliates", security(("secret_key" = [])),
    params(
        ("affiliate_id" = String, Path, description = "The affiliate's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key give the first reply", min_length = 1, max_length = 255),
    ),
    responses(
        (status = 201, description = "The credential, shown this once", body = CreatedCredential, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "The idempotency key is none", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such affiliate", body = ErrorBody),
        (status = 409, description = "The affiliate has all the credentials it can have (`credential_limit`)", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Answer, ApiError> {
    let id = named(&id)?;
    find(&app, &caller, &id).await?;
    let path = format!("/v1/affiliates/{id}/credentials");
    let once = Once::read(&headers, &caller, "POST", &path, b"")?.sealed(&app.vault);
    create_for(&app, caller, once, id).await
}

/// Makes a credential for an affiliate of whoever calls.
pub(crate) async fn create_for(
    app: &App,
    caller: Arc<Caller>,
    once: Once,
    affiliate: AffiliateId,
) -> Result<Answer, ApiError> {
    let job = Arc::new(Create::draw(app, caller, once, affiliate));
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
    affiliate: AffiliateId,
    key: NewKey,
}

impl Create {
    fn draw(app: &App, caller: Arc<Caller>, once: Once, affiliate: AffiliateId) -> Self {
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
        Self { caller, once, affiliate, key }
    }

    async fn run(&self, mut tx: Conn<'_>) -> Result<Answer, ApiError> {
        let new = &self.key;
        if let Some(reply) = self.once.claim(&mut tx, new.created_at).await? {
            return Ok(Answer { reply, replayed: true });
        }
        self.caller.hold(&mut tx).await?;
        if !affiliates::hold(&mut tx, &new.tenant, &self.affiliate).await? {
            return Err(ApiError::not_found());
        }
        if keys::count(&mut tx, &new.tenant, Some(&self.affiliate)).await? >= MAX_CREDENTIALS {
            let message = "there are 3 credentials, and there can be no more; delete one first";
            return Err(ApiError::Plain(ErrorCode::CredentialLimit, message));
        }
        keys::insert(&mut tx, new).await?;
        let shown = CreatedCredential::new(new.id.clone(), self.affiliate.clone(), new.key.clone(), new.created_at);
        let reply = created(format!("/v1/affiliates/{}/credentials/{}", self.affiliate, new.id), &shown)?;
        self.once.keep(&mut tx, &reply).await?;
        Ok(Answer { reply, replayed: false })
    }
}

/// Deletes a credential of an affiliate. It is refused from then on.
#[utoipa::path(
    delete, path = "/v1/affiliates/{affiliate_id}/credentials/{key_id}", operation_id = "delete_credential", tag = "affiliates", security(("secret_key" = [])),
    params(
        ("affiliate_id" = String, Path, description = "The affiliate's id"),
        ("key_id" = String, Path, description = "The credential's id"),
    ),
    responses(
        (status = 204, description = "Gone"),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such credential of this affiliate", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path((affiliate, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    delete_for(app, caller, &affiliate, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes a credential of an affiliate of whoever calls.
pub(crate) async fn delete_for(app: Shared, caller: Arc<Caller>, affiliate: &str, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<SecretKeyId>().map_err(|_| ApiError::not_found())?;
    let job = Arc::new((caller, named(affiliate)?, id));
    App::to_the_end(async move {
        let hash = app
            .db
            .write(move |mut tx| {
                let job = Arc::clone(&job);
                async move {
                    let (caller, affiliate, id) = &*job;
                    caller.hold(&mut tx).await?;
                    let hash = keys::delete(&mut tx, &caller.tenant, Some(affiliate), id).await?;
                    let hash = hash.ok_or_else(ApiError::not_found)?;
                    notices::key_changed(&mut tx, &hash).await?;
                    Ok::<_, ApiError>(hash)
                }
                .boxed()
            })
            .await?;
        app.forget_key(&hash);
        Ok(())
    })
    .await
}
