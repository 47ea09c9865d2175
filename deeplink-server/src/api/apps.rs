//! Apps: list, register or replace, remove.

use std::sync::Arc;

use axum::extract::{Request, State};
use deeplink_core::app::{AppDetail, CreateApp, MAX_APPS, NewApp};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::ErrorBody;
use deeplink_core::id::AppId;
use deeplink_core::routes;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;

use crate::caller::Caller;
use crate::db::audit::NewEntry;
use crate::db::{Conn, apps, notices, tenants};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, KeyedBody, PageQuery, Paged};
use crate::http::extract::{BODY_LIMIT, Path, Query};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::{ArrayPage, PageRequest};
use crate::state::{App, Shared};

/// Lists apps, newest first.
#[utoipa::path(
    get, path = "/v1/apps", operation_id = "list_apps", tag = "apps", security(("secret_key" = [])),
    params(PageQuery),
    responses(
        (status = 200, description = "One page", body = Vec<AppDetail>, headers(("Link" = String, description = "`<URL>; rel=\"next\"` (RFC 8288): the absolute URL of the next page; absent on the last page"))),
        FullKey, Paged,
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<ArrayPage<AppDetail>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await
}

/// A page of the caller's apps, newest first.
pub(crate) async fn list_for(
    app: &App,
    caller: &Caller,
    request: PageRequest<'_>,
) -> Result<ArrayPage<AppDetail>, ApiError> {
    let page = request.of(app, caller, routes::LIST_APPS.path)?;
    let found = page.read(|mut db, tenant, span| async move { apps::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |listed| listed.id.as_str())?;
    Ok(page.array(found, next_cursor))
}

/// One of an account's apps.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<AppDetail, ApiError> {
    let id = id.parse::<AppId>().map_err(|_| ApiError::not_found())?;
    let found = apps::find(&mut app.db.read().await?.conn(), &caller.tenant, &id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Registers an app, so that links on the account's domains open in it.
///
/// Registering the same bundle ID or package name again replaces the app, which keeps its ID. Maximum 50 apps
/// per platform.
#[utoipa::path(
    post, path = "/v1/apps", operation_id = "create_app", tag = "apps", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = CreateApp,
    responses(
        (status = 201, description = "Registered or replaced", body = AppDetail, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, KeyedBody,
        (status = 400, description = "A field is invalid", body = ErrorBody),
        (status = 402, description = "The account already has 50 apps for this platform", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<AppDetail>, ApiError> {
    let (once, asked) = Once::json::<CreateApp>(request, &caller, BODY_LIMIT).await?;
    create_for(&app, caller, once, asked).await
}

/// Registers an app for the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    new: CreateApp,
) -> Result<Answer<AppDetail>, ApiError> {
    let new = new.check()?;
    let now = app.clock.now();
    let id = app.random(|random| AppId::new(now, random));
    let entry = app.audited(&caller, AuditAction::AppSaved);
    app.once(once, Create { caller, new, id, now, entry }).await
}

struct Create {
    caller: Arc<Caller>,
    new: NewApp,
    id: AppId,
    now: Timestamp,
    entry: NewEntry,
}

impl Work for Create {
    type Made = AppDetail;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<AppDetail>, ApiError> {
        let tenant = &self.caller.tenant;
        tenants::lock(tx, tenant).await?;
        let stored = apps::put(tx, tenant, &self.id, &self.new, self.now).await?;
        let count = apps::count(tx, tenant, &stored.platform).await?;
        if count > MAX_APPS {
            return Err(ApiError::Full { resource: "apps", limit: MAX_APPS, current: count - 1 });
        }
        notices::tenant_changed(tx, tenant).await?;
        let names = stored.bundle_id.as_deref().or(stored.package_name.as_deref());
        self.entry.of(&stored.id, names).store(tx).await?;
        created(format!("/v1/apps/{}", stored.id), stored)
    }

    fn committed(&self, app: &Shared, _: &AppDetail) {
        app.forget_tenant(&self.caller.tenant);
    }
}

/// Deletes an app. Links stop opening in the app once the device fetches the association file again.
#[utoipa::path(
    delete, path = "/v1/apps/{app_id}", operation_id = "delete_app", tag = "apps", security(("secret_key" = [])),
    params(("app_id" = String, Path, description = "The app's ID", example = "app_0123456789abcdef01234567")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes an app of the caller.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<AppId>().map_err(|_| ApiError::not_found())?;
    let entry = app.audited(&caller, AuditAction::AppDeleted);
    let deleted = app.write_for(
        Arc::clone(&caller),
        (caller, id, entry),
        |tx, (caller, id, entry)| {
            async move {
                let name = apps::delete(tx, &caller.tenant, id).await?.ok_or_else(ApiError::not_found)?;
                entry.of(id, Some(&name)).store(tx).await?;
                Ok(notices::tenant_changed(tx, &caller.tenant).await?)
            }
            .boxed()
        },
        |app, (caller, ..), ()| app.forget_tenant(&caller.tenant),
    );
    deleted.await
}
