//! Affiliates: list, create, get, change, delete. Their credentials are in `credentials`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::affiliate::{AffiliateChange, AffiliateDetail, AffiliateList, CreateAffiliate, UpdateAffiliate};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::AffiliateId;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;

use crate::db::affiliates::{self, NewAffiliate};
use crate::db::{Conn, keys, notices};
use crate::error::ApiError;
use crate::http::auth::{Caller, FullScope};
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::http::once::{Answer, Once, created};
use crate::state::{App, Shared};

/// Lists affiliates, newest first.
#[utoipa::path(
    get, path = "/v1/affiliates", operation_id = "list_affiliates", tag = "affiliates", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Every affiliate", body = AffiliateList),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
) -> Result<Json<AffiliateList>, ApiError> {
    list_for(&app, &caller).await.map(Json)
}

/// An account's affiliates.
pub(crate) async fn list_for(app: &App, caller: &Caller) -> Result<AffiliateList, ApiError> {
    Ok(AffiliateList::new(affiliates::list(&mut app.db.read().await?.conn(), &caller.tenant).await?))
}

/// Makes an affiliate.
#[utoipa::path(
    post, path = "/v1/affiliates", operation_id = "create_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = CreateAffiliate,
    responses(
        (status = 201, description = "Made", body = AffiliateDetail, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "A field breaks a rule (`invalid_name`, `invalid_partner_key`)", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 409, description = "Another affiliate has the partner key (`partner_key_taken`), or the idempotency key was used for another request", body = ErrorBody),
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
    let once = Once::read(&headers, &caller, "POST", "/v1/affiliates", &body)?;
    create_for(&app, &caller, once, &parse::<CreateAffiliate>(&body)?).await
}

/// Adds an affiliate for whoever calls.
pub(crate) async fn create_for(
    app: &App,
    caller: &Caller,
    once: Once,
    asked: &CreateAffiliate,
) -> Result<Answer, ApiError> {
    let (name, partner_key) = asked.check()?;
    let now = app.clock.now();
    let id = app.random(|random| AffiliateId::new(now, random));
    let new = NewAffiliate { id, tenant: caller.tenant.clone(), name, partner_key, created_at: now };
    let job = Arc::new((caller.clone(), once, new));
    app.db
        .write(move |mut tx| {
            let job = Arc::clone(&job);
            async move { insert(&mut tx, &job.0, &job.1, &job.2).await }.boxed()
        })
        .await
}

async fn insert(tx: &mut Conn<'_>, caller: &Caller, once: &Once, new: &NewAffiliate) -> Result<Answer, ApiError> {
    if let Some(reply) = once.claim(tx, new.created_at).await? {
        return Ok(Answer { reply, replayed: true });
    }
    caller.hold(tx).await?;
    if !affiliates::insert(tx, new).await? {
        let message = format!("another affiliate is called \"{}\"", new.partner_key);
        return Err(Invalid::field(ErrorCode::PartnerKeyTaken, "partner_key", message).into());
    }
    let reply = created(format!("/v1/affiliates/{}", new.id), &new.detail())?;
    once.keep(tx, &reply).await?;
    Ok(Answer { reply, replayed: false })
}

/// Shows an affiliate.
#[utoipa::path(
    get, path = "/v1/affiliates/{affiliate_id}", operation_id = "get_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's id")),
    responses(
        (status = 200, description = "The affiliate", body = AffiliateDetail),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such affiliate", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Json<AffiliateDetail>, ApiError> {
    find(&app, &caller, &named(&id)?).await.map(Json)
}

/// The affiliate that a path names; what cannot be an id is not there.
pub(crate) fn named(path: &str) -> Result<AffiliateId, ApiError> {
    path.parse().map_err(|_| ApiError::not_found())
}

/// An affiliate of the caller's; what is not the caller's is not there.
pub(crate) async fn find(app: &App, caller: &Caller, id: &AffiliateId) -> Result<AffiliateDetail, ApiError> {
    let found = affiliates::find(&mut app.db.read().await?.conn(), &caller.tenant, id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Changes an affiliate.
///
/// An absent field keeps its value. The credentials of a disabled affiliate are refused until it is active again; its
/// links go on working.
#[utoipa::path(
    patch, path = "/v1/affiliates/{affiliate_id}", operation_id = "update_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's id")),
    request_body = UpdateAffiliate,
    responses(
        (status = 200, description = "The affiliate as it is now", body = AffiliateDetail),
        (status = 400, description = "A field breaks a rule, or no field is named (`empty_update`)", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such affiliate", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn update(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<AffiliateDetail>, ApiError> {
    let id = named(&id)?;
    find(&app, &caller, &id).await?;
    let body = json_body(request, BODY_LIMIT).await?;
    update_for(app, caller, id, &parse::<UpdateAffiliate>(&body)?).await.map(Json)
}

/// Changes an affiliate of whoever calls.
pub(crate) async fn update_for(
    app: Shared,
    caller: Arc<Caller>,
    id: AffiliateId,
    asked: &UpdateAffiliate,
) -> Result<AffiliateDetail, ApiError> {
    let change = asked.check()?;
    let job = Arc::new(Update { caller, id, change, now: app.clock.now() });
    App::to_the_end(async move {
        let (affiliate, hashes) = app
            .db
            .write(move |mut tx| {
                let job = Arc::clone(&job);
                async move { job.run(&mut tx).await }.boxed()
            })
            .await?;
        for hash in &hashes {
            app.forget_key(hash);
        }
        Ok(affiliate)
    })
    .await
}

struct Update {
    caller: Arc<Caller>,
    id: AffiliateId,
    change: AffiliateChange,
    now: Timestamp,
}

impl Update {
    /// The affiliate, and the hashes of the keys that may stand for somebody else than before.
    async fn run(&self, tx: &mut Conn<'_>) -> Result<(AffiliateDetail, Vec<String>), ApiError> {
        let tenant = &self.caller.tenant;
        self.caller.hold(tx).await?;
        let changed = affiliates::update(tx, tenant, &self.id, &self.change, self.now).await?;
        let changed = changed.ok_or_else(ApiError::not_found)?;
        let mut hashes = Vec::new();
        if self.change.status.is_some() {
            hashes = keys::hashes_of(tx, tenant, &self.id).await?;
            announce(tx, &hashes).await?;
        }
        Ok((changed, hashes))
    }
}

/// Tells other nodes, with the commit, that these keys are to be looked up again.
async fn announce(tx: &mut Conn<'_>, hashes: &[String]) -> Result<(), ApiError> {
    for hash in hashes {
        notices::key_changed(tx, hash).await?;
    }
    Ok(())
}

/// Deletes an affiliate and its credentials. Its links stay and go on naming it.
#[utoipa::path(
    delete, path = "/v1/affiliates/{affiliate_id}", operation_id = "delete_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's id")),
    responses(
        (status = 204, description = "Gone"),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such affiliate", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    delete_for(app, caller, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes an affiliate of whoever calls.
pub(crate) async fn delete_for(app: Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let job = Arc::new((caller, named(id)?, app.clock.now()));
    App::to_the_end(async move {
        let hashes = app
            .db
            .write(move |mut tx| {
                let job = Arc::clone(&job);
                async move {
                    let (caller, id, now) = &*job;
                    caller.hold(&mut tx).await?;
                    if !affiliates::delete(&mut tx, &caller.tenant, id, *now).await? {
                        return Err(ApiError::not_found());
                    }
                    let hashes = keys::delete_all_of(&mut tx, &caller.tenant, id).await?;
                    announce(&mut tx, &hashes).await?;
                    Ok(hashes)
                }
                .boxed()
            })
            .await?;
        for hash in &hashes {
            app.forget_key(hash);
        }
        Ok(())
    })
    .await
}
