//! Webhooks: URLs that events are posted to. List, create, change, delete, rotate the secret, and send a test event.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::{AffiliateId, WebhookId};
use deeplink_core::routes;
use deeplink_core::signature::WebhookSecret;
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{
    CreateWebhook, CreatedWebhook, RotatedSecret, UpdateWebhook, WebhookChange, WebhookDetail, WebhookList,
};
use futures_util::FutureExt;
use http::{HeaderMap, StatusCode};

use crate::caller::Caller;
use crate::db::audit::NewEntry;
use crate::db::webhooks::{self, StoredWebhook, StoringWebhook};
use crate::db::{Conn, affiliates};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, JsonBody, KeyedBody, NotFound, PageQuery, Paged};
use crate::http::extract::{BODY_LIMIT, Path, Query, json_body, parse};
use crate::http::once::{Answer, Once, Outcome, Work, created, done};
use crate::http::pages::PageRequest;
use crate::notifier::Notification;
use crate::state::{App, Shared};

/// Lists webhooks, newest first. Their secrets are not shown.
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "list_webhooks", tag = "webhooks", security(("secret_key" = [])),
    params(PageQuery),
    responses((status = 200, description = "One page, with the webhooks' delivery health", body = WebhookList), FullKey, Paged)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<WebhookList>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await.map(Json)
}

/// A page of an account's webhooks.
pub(crate) async fn list_for(app: &App, caller: &Caller, request: PageRequest<'_>) -> Result<WebhookList, ApiError> {
    let page = request.of(app, caller, routes::LIST_WEBHOOKS.path)?;
    let found = page.read(|mut db, tenant, span| async move { webhooks::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |webhook| webhook.id.as_str())?;
    Ok(WebhookList::new(found.into_iter().map(StoredWebhook::detail).collect(), next_cursor))
}

/// Creates a webhook. At most two per account, unless the operator allows more.
///
/// From now on, each event of the kinds in `events` is posted to `url`, signed with the secret in the response,
/// which is never shown again. A host that resolves to a non-public IP address is rejected; a host that does
/// not resolve yet is accepted.
#[utoipa::path(
    post, path = "/v1/webhooks", operation_id = "create_webhook", tag = "webhooks", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = CreateWebhook,
    responses(
        (status = 201, description = "Created; the secret is shown only once", body = CreatedWebhook, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, KeyedBody,
        (status = 400, description = "A field is invalid (`invalid_url`, `empty_events`, `invalid_event`, `bad_request`), or the account has the maximum number of webhooks (`webhook_limit`; 2 unless the service allows more)", body = ErrorBody),
        (status = 404, description = "No such affiliate (`affiliate_not_found`)", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<CreatedWebhook>, ApiError> {
    let (once, asked) = Once::json::<CreateWebhook>(request, &caller, BODY_LIMIT).await?;
    create_for(&app, caller, once.sealed(&app.vault), asked).await
}

/// Creates a webhook for the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    asked: CreateWebhook,
) -> Result<Answer<CreatedWebhook>, ApiError> {
    let new = asked.check(|address| app.config.outbound_allow.contains(address))?;
    caller.form_is_valid()?;
    let leads_inside = leads_inside(app, &caller, &new.url).await?;
    let now = app.clock.now();
    let (id, secret) = app.random(|random| (WebhookId::new(now, random), WebhookSecret::generate(random)));
    let sealed = app.vault.seal("webhooks", id.as_str(), secret.expose().as_bytes());
    let entry = app.audited(&caller, AuditAction::WebhookCreated).of_url(&id, &new.url);
    let storing = StoringWebhook { id, tenant: caller.tenant.clone(), new, sealed, created_at: now };
    let limit = app.config.webhook_limit.into();
    app.once(once, Create { caller, limit, storing, secret, leads_inside, entry }).await
}

/// Whether a webhook's host resolves to a non-public address. A name that does not resolve yet may still be set up;
/// each delivery checks it again.
async fn leads_inside(app: &App, caller: &Caller, url: &str) -> Result<bool, ApiError> {
    let _permit = app.dns_permit(caller.share()).await?;
    Ok(app.http.leads_inside(url).await)
}

fn refuse_inside(leads_inside: bool) -> Result<(), ApiError> {
    if leads_inside {
        let message = "url resolves to an IP address that is not public";
        return Err(Invalid::field(ErrorCode::InvalidUrl, "url", message).into());
    }
    Ok(())
}

async fn refuse_foreign(tx: &mut Conn<'_>, caller: &Caller, affiliate: Option<&AffiliateId>) -> Result<(), ApiError> {
    let Some(id) = affiliate else { return Ok(()) };
    if affiliates::belongs(tx, &caller.tenant, id).await? {
        return Ok(());
    }
    let message = "no affiliate with this ID";
    Err(Invalid::field(ErrorCode::AffiliateNotFound, "filters.affiliate_id", message).into())
}

struct Create {
    caller: Arc<Caller>,
    /// Maximum number of webhooks of the account.
    limit: i64,
    storing: StoringWebhook,
    secret: WebhookSecret,
    /// The result of the DNS lookup; checked after the idempotency key, so that a repeat is answered.
    leads_inside: bool,
    entry: NewEntry,
}

impl Work for Create {
    type Made = CreatedWebhook;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CreatedWebhook>, ApiError> {
        let storing = &self.storing;
        refuse_inside(self.leads_inside)?;
        self.caller.hold(tx).await?;
        refuse_foreign(tx, &self.caller, storing.new.affiliate.as_ref()).await?;
        if webhooks::count(tx, &storing.tenant).await? >= self.limit {
            let message = format!("this account already has {} webhooks, the maximum; delete one first", self.limit);
            return Err(Invalid::whole(ErrorCode::WebhookLimit, message).into());
        }
        webhooks::insert(tx, storing).await?;
        self.entry.store(tx).await?;
        let stored = webhooks::find(tx, &storing.tenant, &storing.id).await?.ok_or_else(not_there)?;
        created(format!("/v1/webhooks/{}", storing.id), CreatedWebhook::new(stored.detail(), self.secret.clone()))
    }
}

/// There is no such webhook, or it belongs to another account.
pub(crate) fn not_there() -> ApiError {
    ApiError::not_found()
}

/// The webhook id in a path; a malformed id is "not found".
pub(crate) fn named(path: &str) -> Result<WebhookId, ApiError> {
    path.parse().map_err(|_| not_there())
}

/// One of an account's webhooks.
pub(crate) async fn find(app: &App, caller: &Caller, id: &WebhookId) -> Result<StoredWebhook, ApiError> {
    let found = webhooks::find(&mut app.db.read().await?.conn(), &caller.tenant, id).await?;
    found.ok_or_else(not_there)
}

/// Updates a webhook.
///
/// Absent fields keep their values. `active: false` disables the webhook: nothing is sent, and pending
/// deliveries are canceled. `active: true` enables it from the next event on, even if the service paused it.
#[utoipa::path(
    patch, path = "/v1/webhooks/{webhook_id}", operation_id = "update_webhook", tag = "webhooks", security(("secret_key" = [])),
    params(("webhook_id" = String, Path, description = "The webhook's ID", example = "wh_0123456789abcdef01234567")),
    request_body = UpdateWebhook,
    responses(
        (status = 200, description = "The changed webhook", body = WebhookDetail),
        FullKey, JsonBody,
        (status = 400, description = "A field is invalid (`invalid_url`, `empty_events`, `invalid_event`), or no field is specified (`empty_update`)", body = ErrorBody),
        (status = 404, description = "No such webhook, or no such affiliate (`affiliate_not_found`)", body = ErrorBody),
    )
)]
pub(crate) async fn update(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<WebhookDetail>, ApiError> {
    let id = named(&id)?;
    if caller.is_known() {
        find(&app, &caller, &id).await?;
    }
    let body = json_body(request, BODY_LIMIT).await?;
    update_for(&app, caller, id, parse::<UpdateWebhook>(&body)?).await.map(Json)
}

/// Updates one of an account's webhooks.
pub(crate) async fn update_for(
    app: &Shared,
    caller: Arc<Caller>,
    id: WebhookId,
    asked: UpdateWebhook,
) -> Result<WebhookDetail, ApiError> {
    let change = asked.check(|address| app.config.outbound_allow.contains(address))?;
    caller.form_is_valid()?;
    if let Some(url) = &change.url {
        refuse_inside(leads_inside(app, &caller, url).await?)?;
    }
    let entry = app.audited(&caller, AuditAction::WebhookUpdated);
    let update = Update { caller, id, change, now: app.clock.now(), entry };
    app.write_for(
        Arc::clone(&update.caller),
        update,
        |tx, update| update.run(tx).boxed(),
        |app, update, _| changed(app, &update.caller),
    )
    .await
}

/// Makes deliveries use the changed webhook from here on.
fn changed(app: &App, caller: &Caller) {
    app.notifier.notify(Notification::Deliveries(caller.tenant.clone()));
}

struct Update {
    caller: Arc<Caller>,
    id: WebhookId,
    change: WebhookChange,
    now: Timestamp,
    entry: NewEntry,
}

impl Update {
    async fn run(&self, tx: &mut Conn<'_>) -> Result<WebhookDetail, ApiError> {
        self.caller.hold(tx).await?;
        refuse_foreign(tx, &self.caller, self.change.affiliate.as_ref().and_then(Option::as_ref)).await?;
        let changed = webhooks::update(tx, &self.caller.tenant, &self.id, &self.change, self.now).await?;
        let changed = changed.ok_or_else(not_there)?.detail();
        self.entry.of_url(&self.id, &changed.url).store(tx).await?;
        Ok(changed)
    }
}

/// Deletes a webhook and its delivery log. No further attempts are made.
#[utoipa::path(
    delete, path = "/v1/webhooks/{webhook_id}", operation_id = "delete_webhook", tag = "webhooks", security(("secret_key" = [])),
    params(("webhook_id" = String, Path, description = "The webhook's ID", example = "wh_0123456789abcdef01234567")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes one of an account's webhooks.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let id = named(id)?;
    let entry = app.audited(&caller, AuditAction::WebhookDeleted);
    let deleted = app.write_for(
        Arc::clone(&caller),
        (caller, id, entry),
        |tx, (caller, id, entry)| {
            async move {
                caller.hold(tx).await?;
                let url = webhooks::delete(tx, &caller.tenant, id).await?.ok_or_else(not_there)?;
                Ok(entry.of_url(id, &url).store(tx).await?)
            }
            .boxed()
        },
        |app, (caller, ..), ()| changed(app, caller),
    );
    deleted.await
}

/// Rotates a webhook's secret. The new secret is in the response and is never shown again.
///
/// `X-Service-Signature` switches to the new secret immediately. For 24 hours, `webhook-signature` contains a
/// signature with each secret, so an endpoint with either secret can verify it. A second rotation within that
/// time revokes the oldest secret immediately.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook_id}/rotate-secret", operation_id = "rotate_webhook_secret", tag = "webhooks", security(("secret_key" = [])),
    params(
        ("webhook_id" = String, Path, description = "The webhook's ID", example = "wh_0123456789abcdef01234567"),
        IdempotencyKey,
    ),
    responses(
        (status = 200, description = "The new secret, shown only once", body = RotatedSecret, headers(("Idempotency-Replayed" = String))),
        FullKey, NotFound,
        (status = 400, description = "`Idempotency-Key` is malformed", body = ErrorBody),
    )
)]
pub(crate) async fn rotate(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Answer<RotatedSecret>, ApiError> {
    let id = named(&id)?;
    if caller.is_known() {
        find(&app, &caller, &id).await?;
    }
    let path = format!("/v1/webhooks/{id}/rotate-secret");
    let once = Once::read(&headers, &caller, &path, b"")?.sealed(&app.vault);
    rotate_for(&app, caller, once, id).await
}

/// Rotates the secret of one of an account's webhooks.
pub(crate) async fn rotate_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    id: WebhookId,
) -> Result<Answer<RotatedSecret>, ApiError> {
    let now = app.clock.now();
    let secret = app.random(WebhookSecret::generate);
    let sealed = app.vault.seal("webhooks", id.as_str(), secret.expose().as_bytes());
    let entry = app.audited(&caller, AuditAction::WebhookSecretRotated).of(&id, None);
    app.once(once, Rotate { caller, id, secret, sealed, now, entry }).await
}

struct Rotate {
    caller: Arc<Caller>,
    id: WebhookId,
    secret: WebhookSecret,
    sealed: String,
    now: Timestamp,
    entry: NewEntry,
}

impl Work for Rotate {
    type Made = RotatedSecret;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<RotatedSecret>, ApiError> {
        self.caller.hold(tx).await?;
        if !webhooks::rotate(tx, &self.caller.tenant, &self.id, &self.sealed, self.now).await? {
            return Err(not_there());
        }
        self.entry.store(tx).await?;
        done(RotatedSecret::new(self.id.clone(), self.secret.clone()))
    }

    fn committed(&self, app: &Shared, _: &RotatedSecret) {
        changed(app, &self.caller);
    }
}
