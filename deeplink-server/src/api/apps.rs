//! Apps: list, register or replace, remove.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::app::{AppDetail, CreateApp, MAX_APPS};
use deeplink_core::error::ErrorBody;
use deeplink_core::id::AppId;
use futures_util::FutureExt;
use http::StatusCode;

use crate::db::replies::Reply;
use crate::db::{apps, notices, tenants};
use crate::error::ApiError;
use crate::http::auth::{Caller, FullScope};
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::http::once::{Answer, Once};
use crate::state::{App, Shared};

/// Lists apps, newest first.
#[utoipa::path(
    get, path = "/v1/apps", operation_id = "list_apps", tag = "apps", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Every app", body = Vec<AppDetail>),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
) -> Result<Json<Vec<AppDetail>>, ApiError> {
    Ok(Json(list_for(&app, &caller).await?))
}

/// The apps of whoever calls, newest first.
pub(crate) async fn list_for(app: &App, caller: &Caller) -> Result<Vec<AppDetail>, ApiError> {
    let mut all = apps::list(&mut app.db.read().await?.conn(), &caller.tenant).await?;
    all.reverse();
    Ok(all)
}

/// One of an account's apps.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<AppDetail, ApiError> {
    let id = id.parse::<AppId>().map_err(|_| ApiError::not_found())?;
    let found = apps::find(&mut app.db.read().await?.conn(), &caller.tenant, &id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Registers an app, so that links on the tenant's domains open in it.
///
/// The same bundle or package again replaces the app, which keeps its id. There can be 50 apps of each platform.
#[utoipa::path(
    post, path = "/v1/apps", operation_id = "create_app", tag = "apps", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = CreateApp,
    responses(
        (status = 201, description = "Registered or replaced", body = AppDetail, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "A field breaks a rule", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 402, description = "There are 50 apps of this platform", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 409, description = "The idempotency key was used for another request", body = ErrorBody),
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
    let once = Once::read(&headers, &caller, "POST", "/v1/apps", &body)?;
    create_for(app, caller, once, parse::<CreateApp>(&body)?).await
}

/// Registers an app for whoever calls.
pub(crate) async fn create_for(
    app: Shared,
    caller: Arc<Caller>,
    once: Once,
    new: CreateApp,
) -> Result<Answer, ApiError> {
    let new = new.check()?;
    let now = app.clock.now();
    let id = app.random(|random| AppId::new(now, random));
    let job = Arc::new((Arc::clone(&caller), once, new, id));
    App::to_the_end(async move {
        let answer = app
            .db
            .write(move |mut tx| {
                let job = Arc::clone(&job);
                async move {
                    let (caller, once, new, id) = &*job;
                    if let Some(reply) = once.claim(&mut tx, now).await? {
                        return Ok(Answer { reply, replayed: true });
                    }
                    tenants::hold(&mut tx, &caller.tenant).await?;
                    let stored = apps::put(&mut tx, &caller.tenant, id, new, now).await?;
                    let count = apps::count(&mut tx, &caller.tenant, &stored.platform).await?;
                    if count > MAX_APPS {
                        return Err(ApiError::Quota { resource: "apps", limit: MAX_APPS, current: count - 1 });
                    }
                    notices::tenant_changed(&mut tx, &caller.tenant).await?;
                    let reply = Reply {
                        status: StatusCode::CREATED.as_u16(),
                        location: Some(format!("/v1/apps/{}", stored.id)),
                        body: serde_json::to_string(&stored).map_err(|error| ApiError::Internal(error.to_string()))?,
                    };
                    once.keep(&mut tx, &reply).await?;
                    Ok::<_, ApiError>(Answer { reply, replayed: false })
                }
                .boxed()
            })
            .await?;
        app.forget_tenant(&caller.tenant);
        Ok(answer)
    })
    .await
}

/// Removes an app. Its links open in it no longer once the device asks for the association file again.
#[utoipa::path(
    delete, path = "/v1/apps/{app_id}", operation_id = "delete_app", tag = "apps", security(("secret_key" = [])),
    params(("app_id" = String, Path, description = "The app's id")),
    responses(
        (status = 204, description = "Gone"),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such app", body = ErrorBody),
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

/// Removes an app of whoever calls.
pub(crate) async fn delete_for(app: Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let id = Arc::new(id.parse::<AppId>().map_err(|_| ApiError::not_found())?);
    App::to_the_end(async move {
        app.db
            .write({
                let caller = Arc::clone(&caller);
                move |mut tx| {
                    let (caller, id) = (Arc::clone(&caller), Arc::clone(&id));
                    async move {
                        if !apps::delete(&mut tx, &caller.tenant, &id).await? {
                            return Err(ApiError::not_found());
                        }
                        notices::tenant_changed(&mut tx, &caller.tenant).await?;
                        Ok(())
                    }
                    .boxed()
                }
            })
            .await?;
        app.forget_tenant(&caller.tenant);
        Ok(())
    })
    .await
}
