//! The audit log: who changed what in the account.

use axum::Json;
use axum::extract::State;
use deeplink_core::audit::{AuditAction, AuditLog};
use deeplink_core::id::AuditEntryId;
use deeplink_core::routes;
use futures_util::FutureExt;

use crate::caller::Caller;
use crate::db::audit::{self, By, NewEntry};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, PageQuery, Paged};
use crate::http::extract::Query;
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

impl App {
    /// An entry about what a caller does now.
    pub(crate) fn audited(&self, caller: &Caller, action: AuditAction) -> NewEntry {
        let now = self.clock.now();
        let id = self.random(|random| AuditEntryId::new(now, random));
        NewEntry::new(id, caller.tenant.clone(), By::Caller(caller.by.clone()), action)
    }
}

/// Lists the account's audit log, newest first.
///
/// Entries are kept for a year. Changes to links are not included, except those by the operator.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit_log", tag = "account", security(("secret_key" = [])),
    params(PageQuery),
    responses((status = 200, description = "One page", body = AuditLog), FullKey, Paged)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<AuditLog>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await.map(Json)
}

/// A page of the caller's audit log, newest first.
pub(crate) async fn list_for(app: &App, caller: &Caller, request: PageRequest<'_>) -> Result<AuditLog, ApiError> {
    let page = request.of(app, caller, routes::LIST_AUDIT_LOG.path)?;
    let found = page.read(|mut db, tenant, span| async move { audit::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |entry| entry.id.as_str())?;
    Ok(AuditLog::new(found, next_cursor))
}
