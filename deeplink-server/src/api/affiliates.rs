//! Affiliates: list, create, get, change, delete. Their credentials are in `credentials`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::affiliate::{
    AffiliateChange, AffiliateDetail, AffiliateList, CreateAffiliate, MAX_AFFILIATES, UpdateAffiliate,
};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::AffiliateId;
use deeplink_core::routes;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;

use crate::caller::Caller;
use crate::db::affiliates::{self, NewAffiliate};
use crate::db::audit::NewEntry;
use crate::db::pages::Span;
use crate::db::{Conn, keys, notices};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, JsonBody, NotFound, PageQuery, Paged};
use crate::http::extract::{BODY_LIMIT, Path, Query, json_body, parse};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

/// Lists affiliates, newest first. Maximum 1,000 per account.
#[utoipa::path(
    get, path = "/v1/affiliates", operation_id = "list_affiliates", tag = "affiliates", security(("secret_key" = [])),
    params(PageQuery),
    responses((status = 200, description = "One page", body = AffiliateList), FullKey, Paged)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<AffiliateList>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await.map(Json)
}

/// A page of an account's affiliates.
pub(crate) async fn list_for(app: &App, caller: &Caller, request: PageRequest<'_>) -> Result<AffiliateList, ApiError> {
    let page = request.of(app, caller, routes::LIST_AFFILIATES.path)?;
    let found =
        page.read(|mut db, tenant, span| async move { affiliates::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |affiliate| affiliate.id.as_str())?;
    Ok(AffiliateList::new(found, next_cursor))
}

/// All affiliates that an account can have.
pub(crate) async fn all_of(app: &App, caller: &Caller) -> Result<Vec<AffiliateDetail>, ApiError> {
    let all = app.report(caller, |mut db, tenant| {
        async move { affiliates::list(&mut db, &tenant, &Span::newest(MAX_AFFILIATES)).await }.boxed()
    });
    all.await
}

/// Creates an affiliate. Maximum 1,000 per account.
#[utoipa::path(
    post, path = "/v1/affiliates", operation_id = "create_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = CreateAffiliate,
    responses(
        (status = 201, description = "Created", body = AffiliateDetail, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, JsonBody,
        (status = 400, description = "A field is invalid (`invalid_name`, `invalid_partner_key`)", body = ErrorBody),
        (status = 402, description = "The account already has 1,000 affiliates", body = ErrorBody),
        (status = 409, description = "Another affiliate has this partner key (`partner_key_taken`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<AffiliateDetail>, ApiError> {
    let (once, asked) = Once::json::<CreateAffiliate>(request, &caller, BODY_LIMIT).await?;
    create_for(&app, &caller, once, &asked).await
}

/// Adds an affiliate for the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: &Caller,
    once: Once,
    asked: &CreateAffiliate,
) -> Result<Answer<AffiliateDetail>, ApiError> {
    let (name, partner_key) = asked.check()?;
    let now = app.clock.now();
    let id = app.random(|random| AffiliateId::new(now, random));
    let entry = app.audited(caller, AuditAction::AffiliateCreated).of(&id, Some(name.as_str()));
    let new = NewAffiliate { id, tenant: caller.tenant.clone(), name, partner_key, created_at: now };
    app.once(once, Create { caller: caller.clone(), new, entry }).await
}

struct Create {
    caller: Caller,
    new: NewAffiliate,
    entry: NewEntry,
}

impl Work for Create {
    type Made = AffiliateDetail;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<AffiliateDetail>, ApiError> {
        let new = &self.new;
        self.caller.hold(tx).await?;
        let current = affiliates::count(tx, &new.tenant).await?;
        if current >= MAX_AFFILIATES {
            return Err(ApiError::Full { resource: "affiliates", limit: MAX_AFFILIATES, current });
        }
        if !affiliates::insert(tx, new).await? {
            let message = format!("another affiliate has the partner_key \"{}\"", new.partner_key);
            return Err(Invalid::field(ErrorCode::PartnerKeyTaken, "partner_key", message).into());
        }
        self.entry.store(tx).await?;
        created(format!("/v1/affiliates/{}", new.id), new.detail())
    }
}

/// Returns an affiliate.
#[utoipa::path(
    get, path = "/v1/affiliates/{affiliate_id}", operation_id = "get_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's ID", example = "aff_0123456789abcdef01234567")),
    responses((status = 200, description = "The affiliate", body = AffiliateDetail), FullKey, NotFound)
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Json<AffiliateDetail>, ApiError> {
    find(&app, &caller, &named(&id)?).await.map(Json)
}

/// The affiliate id in a path; a malformed id is "not found".
pub(crate) fn named(path: &str) -> Result<AffiliateId, ApiError> {
    path.parse().map_err(|_| ApiError::not_found())
}

/// One of the caller's affiliates; any other is "not found".
pub(crate) async fn find(app: &App, caller: &Caller, id: &AffiliateId) -> Result<AffiliateDetail, ApiError> {
    let found = affiliates::find(&mut app.db.read().await?.conn(), &caller.tenant, id).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Updates an affiliate.
///
/// Absent fields keep their values. The credentials of a disabled affiliate are rejected until it is active
/// again; its links keep working.
#[utoipa::path(
    patch, path = "/v1/affiliates/{affiliate_id}", operation_id = "update_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's ID", example = "aff_0123456789abcdef01234567")),
    request_body = UpdateAffiliate,
    responses(
        (status = 200, description = "The changed affiliate", body = AffiliateDetail),
        FullKey, JsonBody, NotFound,
        (status = 400, description = "A field is invalid, or no field is specified (`empty_update`)", body = ErrorBody),
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
    update_for(&app, caller, id, &parse::<UpdateAffiliate>(&body)?).await.map(Json)
}

/// Updates an affiliate of the caller.
pub(crate) async fn update_for(
    app: &Shared,
    caller: Arc<Caller>,
    id: AffiliateId,
    asked: &UpdateAffiliate,
) -> Result<AffiliateDetail, ApiError> {
    let change = asked.check()?;
    let entry = app.audited(&caller, AuditAction::AffiliateUpdated);
    let update = Update { caller, id, change, now: app.clock.now(), entry };
    let (affiliate, _) = app
        .write(
            update.caller.turn(),
            update,
            |tx, update| update.run(tx).boxed(),
            |app, _, (_, hashes)| forget(app, hashes),
        )
        .await?;
    Ok(affiliate)
}

/// Forgets the cached callers of these keys.
fn forget(app: &App, hashes: &[String]) {
    for hash in hashes {
        app.forget_key(hash);
    }
}

struct Update {
    caller: Arc<Caller>,
    id: AffiliateId,
    change: AffiliateChange,
    now: Timestamp,
    entry: NewEntry,
}

impl Update {
    /// The affiliate, and the hashes of the keys whose caller may have changed.
    async fn run(&self, tx: &mut Conn<'_>) -> Result<(AffiliateDetail, Vec<String>), ApiError> {
        let tenant = &self.caller.tenant;
        self.caller.hold(tx).await?;
        let changed = affiliates::update(tx, tenant, &self.id, &self.change, self.now).await?;
        let changed = changed.ok_or_else(ApiError::not_found)?;
        self.entry.of(&self.id, Some(changed.name.as_str())).store(tx).await?;
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

/// Deletes an affiliate and its credentials. Its links keep working and keep the affiliate's ID.
#[utoipa::path(
    delete, path = "/v1/affiliates/{affiliate_id}", operation_id = "delete_affiliate", tag = "affiliates", security(("secret_key" = [])),
    params(("affiliate_id" = String, Path, description = "The affiliate's ID", example = "aff_0123456789abcdef01234567")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes an affiliate of the caller.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let now = app.clock.now();
    let id = named(id)?;
    let entry = app.audited(&caller, AuditAction::AffiliateDeleted);
    let deleted = app.write(
        caller.turn(),
        (caller, id, entry),
        move |tx, (caller, id, entry)| {
            async move {
                caller.hold(tx).await?;
                let name = affiliates::delete(tx, &caller.tenant, id, now).await?.ok_or_else(ApiError::not_found)?;
                let hashes = keys::delete_all_of(tx, &caller.tenant, id).await?;
                announce(tx, &hashes).await?;
                entry.of(id, Some(&name)).store(tx).await?;
                Ok(hashes)
            }
            .boxed()
        },
        |app, _, hashes| forget(app, hashes),
    );
    deleted.await.map(drop)
}
