//! The account: its settings, and its deletion.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::account::{Account, AccountChange, DELETION_DAYS, DeleteAccount, UpdateAccount};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use crate::caller::{Actor, Caller};
use crate::db::account::Scheduled;
use crate::db::audit::NewEntry;
use crate::db::mail_allowances::{self, Allowed};
use crate::db::{Conn, account, notices, users};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, JsonBody};
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::state::{App, Shared};
use crate::work::mail::{self, Mail};

/// Returns the account's settings.
#[utoipa::path(
    get, path = "/v1/account", operation_id = "get_account", tag = "account", security(("secret_key" = [])),
    responses((status = 200, description = "The settings", body = Account), FullKey)
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
) -> Result<Json<Account>, ApiError> {
    find(&app, &caller).await.map(Json)
}

/// The settings of the caller's account.
pub(crate) async fn find(app: &App, caller: &Caller) -> Result<Account, ApiError> {
    let found = account::find(&mut app.db.read().await?.conn(), &caller.tenant).await?;
    found.ok_or_else(ApiError::not_found)
}

/// Updates the account's settings.
///
/// Absent fields keep their values, and `null` clears a field.
#[utoipa::path(
    patch, path = "/v1/account", operation_id = "update_account", tag = "account", security(("secret_key" = [])),
    request_body = UpdateAccount,
    responses(
        (status = 200, description = "The changed settings", body = Account),
        FullKey, JsonBody,
        (status = 400, description = "A field is invalid (`invalid_name`, `invalid_icon_url`, `invalid_theme_color`, or `bad_request` for an unknown time zone), or no field is specified (`empty_update`)", body = ErrorBody),
    )
)]
pub(crate) async fn update(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Json<Account>, ApiError> {
    let body = json_body(request, BODY_LIMIT).await?;
    update_for(&app, caller, parse::<UpdateAccount>(&body)?).await.map(Json)
}

/// Updates the settings of the caller's account.
pub(crate) async fn update_for(app: &Shared, caller: Arc<Caller>, asked: UpdateAccount) -> Result<Account, ApiError> {
    let change = asked.check()?;
    let entry = app.audited(&caller, AuditAction::AccountUpdated).of(&caller.tenant, Some(&change.fields().join(", ")));
    let changed = app.write_for(
        Arc::clone(&caller),
        (caller, change, entry),
        |tx, (caller, change, entry)| changed_in(tx, caller, change, entry).boxed(),
        |app, (caller, ..), _| app.forget_tenant(&caller.tenant),
    );
    changed.await
}

async fn changed_in(
    tx: &mut Conn<'_>,
    caller: &Caller,
    change: &AccountChange,
    entry: &NewEntry,
) -> Result<Account, ApiError> {
    let changed = account::update(tx, &caller.tenant, change).await?.ok_or_else(ApiError::not_found)?;
    entry.store(tx).await?;
    notices::tenant_changed(tx, &caller.tenant).await?;
    Ok(changed)
}

/// Schedules the deletion of the account.
///
/// The account and everything in it are deleted 7 days later and cannot be restored: its links, which stop
/// working, with their clicks and reports, and its domains, keys, team members, webhooks and all other data.
/// Until then, everything keeps working as usual, and the deletion can be canceled. Any team member, and any secret
/// key of the account, can request and cancel it. If email is configured, owners with a confirmed address are
/// notified by email. While the account is suspended by the operator, the deletion is on hold. A repeated
/// request does not change the scheduled time.
#[utoipa::path(
    post, path = "/v1/account/deletion", operation_id = "delete_account", tag = "account", security(("secret_key" = [])),
    request_body = DeleteAccount,
    responses(
        (status = 200, description = "The account, with its scheduled deletion time", body = Account),
        FullKey, JsonBody,
        (status = 400, description = "`confirm` is not the account's ID (`bad_request`)", body = ErrorBody),
        (status = 409, description = "The account has a subscription that will renew (`subscription_active`)", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Json<Account>, ApiError> {
    let body = json_body(request, BODY_LIMIT).await?;
    delete_for(&app, caller, &parse::<DeleteAccount>(&body)?).await.map(Json)
}

/// Schedules the deletion of the caller's account.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, asked: &DeleteAccount) -> Result<Account, ApiError> {
    asked.check(&caller.tenant)?;
    let at = app.clock.now().plus_days(DELETION_DAYS);
    let entry = app.audited(&caller, AuditAction::DeletionScheduled).of(&caller.tenant, Some(&at.to_string()));
    let scheduled = app.write_for(
        Arc::clone(&caller),
        Deletion { app: Arc::clone(app), caller, at, entry },
        |tx, deletion| deletion.schedule(tx).boxed(),
        |app, _, _| app.mail_waits.notify_one(),
    );
    scheduled.await
}

struct Deletion {
    app: Shared,
    caller: Arc<Caller>,
    at: Timestamp,
    entry: NewEntry,
}

impl Deletion {
    async fn schedule(&self, tx: &mut Conn<'_>) -> Result<Account, ApiError> {
        let Self { caller, at, entry, .. } = self;
        match account::schedule_deletion(tx, &caller.tenant, *at).await? {
            Scheduled::Yes => {
                entry.store(tx).await?;
                self.tell_owners(tx).await?;
            }
            Scheduled::Already => {}
            Scheduled::Subscribed => return Err(subscription_active()),
            Scheduled::NoAccount => return Err(ApiError::not_found()),
        }
        account::find(tx, &caller.tenant).await?.ok_or_else(ApiError::not_found)
    }

    async fn tell_owners(&self, tx: &mut Conn<'_>) -> Result<(), ApiError> {
        let Self { app, caller, at, .. } = self;
        let tenant = &caller.tenant;
        if mail_allowances::take_of_deletion(tx, tenant, app.clock.now()).await? != Allowed::Now {
            return Ok(());
        }
        let by = match &caller.by {
            Actor::User(id) => users::find(tx, tenant, id).await?.map(|user| user.email),
            _ => None,
        };
        let mail = |owner| Mail::account_deletion(owner, tenant, by.clone(), *at);
        if !mail::to_owners(app, tx, tenant, false, mail).await? {
            tracing::warn!(%tenant, "account will be deleted, but email is not configured; its owners were not notified");
        }
        Ok(())
    }
}

fn subscription_active() -> ApiError {
    let message = "the account has a subscription that will renew; cancel it before you delete the account";
    ApiError::Plain(ErrorCode::SubscriptionActive, message)
}

/// Cancels the deletion of the account.
///
/// Does nothing if no deletion is scheduled.
#[utoipa::path(
    delete, path = "/v1/account/deletion", operation_id = "cancel_account_deletion", tag = "account",
    security(("secret_key" = [])),
    responses((status = 200, description = "The account", body = Account), FullKey)
)]
pub(crate) async fn cancel_deletion(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
) -> Result<Json<Account>, ApiError> {
    cancel_deletion_for(&app, caller).await.map(Json)
}

/// Cancels the deletion of the caller's account.
pub(crate) async fn cancel_deletion_for(app: &Shared, caller: Arc<Caller>) -> Result<Account, ApiError> {
    let entry = app.audited(&caller, AuditAction::DeletionCanceled).of(&caller.tenant, None);
    let canceled = app.write_for(
        Arc::clone(&caller),
        (caller, entry),
        |tx, (caller, entry)| {
            async move {
                if account::cancel_deletion(tx, &caller.tenant).await? {
                    entry.store(tx).await?;
                }
                account::find(tx, &caller.tenant).await?.ok_or_else(ApiError::not_found)
            }
            .boxed()
        },
        |_, _, _| (),
    );
    canceled.await
}
