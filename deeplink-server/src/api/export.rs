//! Everything that an account has, page by page, from the lists that show it.

use axum::Json;
use axum::extract::State;
use deeplink_core::error::ErrorBody;
use deeplink_core::event::EventFilter;
use deeplink_core::export::{AccountExport, ExportRecord, MAX_RECORDS, RecordType};
use deeplink_core::link::LinkFilter;
use deeplink_core::page::{MAX_LIMIT, Page, limit_to};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    account, affiliates, apps, audit, domains, event_log, link_list, publishable_keys, qr_logos, secret_keys, sources,
    users, webhooks,
};
use crate::caller::Caller;
use crate::db::tenants;
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::cursor::Cursor;
use crate::http::documented::FullKey;
use crate::http::extract::Query;
use crate::http::pages::{ArrayPage, PageRequest};
use crate::state::{App, Shared};

/// Exports the account's data, record by record.
///
/// Returns the settings first, then each record of each list, in the format of that list, and all stored
/// events. Secrets are omitted: keys, webhook secrets and source URLs. Images of logos, report totals, deliveries and
/// payments are not included. A page may be short or empty and still have a `next_cursor`.
#[utoipa::path(
    get, path = "/v1/account/export", operation_id = "export_account", tag = "account", security(("secret_key" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Records per page, 100 by default. Pages of events have this length; pages of other records have at most 100", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "One page", body = AccountExport),
        FullKey,
        (status = 400, description = "`limit` is out of range, or the cursor belongs to a different list (`invalid_cursor`)", body = ErrorBody),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Json<AccountExport>, ApiError> {
    let limit = limit_to(query.one("limit")?, MAX_LIMIT, MAX_RECORDS)?;
    page_of(&app, &caller, query.one("cursor")?, limit).await.map(Json)
}

/// A position in an export: within the list of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ExportCursor {
    #[serde(rename = "t")]
    of: RecordType,
    #[serde(rename = "c")]
    cursor: Option<String>,
}

impl Cursor for ExportCursor {
    const LIST: &'static str = "export";
}

impl ExportCursor {
    /// Where the type after one begins; `None` after the last.
    fn after(of: &RecordType) -> Option<Self> {
        let next = RecordType::ALL.iter().skip_while(|other| *other != of).nth(1)?;
        Some(Self { of: next.clone(), cursor: None })
    }
}

/// A page of the caller's account: the first, or the one at a cursor.
pub(crate) async fn page_of(
    app: &App,
    caller: &Caller,
    cursor: Option<&str>,
    limit: u32,
) -> Result<AccountExport, ApiError> {
    caller.form_is_valid()?;
    let mut at = match cursor {
        Some(text) => ExportCursor::read(text, &app.vault, caller)?,
        None => ExportCursor { of: RecordType::Account, cursor: None },
    };
    // An export that ended early would look whole.
    if tenants::is_deleted(&mut app.db.read().await?.conn(), &caller.tenant).await? {
        return Err(ApiError::not_found());
    }
    let mut found = Vec::new();
    // As many lists as fit: most are short.
    let next = loop {
        let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(limit));
        let (things, more) = records(app, caller, &at, left).await?;
        found.extend(things.into_iter().map(|data| ExportRecord::new(at.of.clone(), data)));
        if more.is_some() {
            break Some(ExportCursor { cursor: more, ..at });
        }
        match ExportCursor::after(&at.of) {
            Some(next) if found.len() < limit as usize => at = next,
            next => break next,
        }
    };
    Ok(AccountExport::new(found, next.map(|next| next.write(&app.vault, caller)).transpose()?))
}

/// Things, and where the next page of their list begins.
type Found = (Vec<Value>, Option<String>);

/// A page of one list.
async fn records(app: &App, caller: &Caller, at: &ExportCursor, limit: u32) -> Result<Found, ApiError> {
    let cursor = at.cursor.as_deref();
    let request = PageRequest::within(limit, cursor);
    match at.of {
        RecordType::Account => Ok((values([account::find(app, caller).await?])?, None)),
        RecordType::User => page(users::list_for(app, caller, request).await?),
        RecordType::SecretKey => page(secret_keys::list_for(app, caller, request).await?),
        RecordType::PublishableKey => page(publishable_keys::list_for(app, caller, request).await?),
        RecordType::Domain => array(domains::list_for(app, caller, request).await?),
        RecordType::App => array(apps::list_for(app, caller, request).await?),
        RecordType::Affiliate => page(affiliates::list_for(app, caller, request).await?),
        RecordType::Source => {
            let mut list = sources::list_for(app, caller, request).await?;
            list.sources.iter_mut().for_each(|source| source.webhook_url = None);
            page(list)
        }
        RecordType::Webhook => page(webhooks::list_for(app, caller, request).await?),
        RecordType::QrLogo => Ok((values(qr_logos::list_for(app, caller).await?)?, None)),
        RecordType::Link => {
            page(link_list::list_for(app, caller, LinkFilter::new(), cursor, limit.min(MAX_LIMIT)).await?)
        }
        RecordType::AuditEntry => page(audit::list_for(app, caller, request).await?),
        RecordType::Event => page(event_log::list_for(app, caller, EventFilter::new(), cursor, limit).await?),
        // A type of a later version, in a cursor of its own.
        _ => Ok((Vec::new(), None)),
    }
}

fn page<P: Page<Item: Serialize>>(list: P) -> Result<Found, ApiError> {
    let next = list.next_cursor().map(str::to_owned);
    Ok((values(list.into_items())?, next))
}

fn array<T: Serialize>(list: ArrayPage<T>) -> Result<Found, ApiError> {
    Ok((values(list.items)?, list.next_cursor))
}

fn values<T: Serialize>(items: impl IntoIterator<Item = T>) -> Result<Vec<Value>, ApiError> {
    let values = items.into_iter().map(serde_json::to_value);
    values.collect::<Result<_, _>>().map_err(|error| ApiError::Internal(error.to_string()))
}
