//! Sources: URLs that conversions can be posted to without a key. List, create, get, delete, and receive.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::SourceId;
use deeplink_core::lifecycle::{Convert, Converted};
use deeplink_core::routes;
use deeplink_core::secret::Token;
use deeplink_core::source::{CreateSource, MAX_SOURCES, SourceDetail, SourceList, SourceUrl};
use futures_util::FutureExt;
use http::StatusCode;

use super::lifecycle::{read_conversion, store_conversion};
use crate::caller::Caller;
use crate::db::Conn;
use crate::db::audit::NewEntry;
use crate::db::conversions::Reporter;
use crate::db::sources::{self, NewSource, StoredSource};
use crate::error::ApiError;
use crate::http::auth::{FullScope, admit};
use crate::http::client_ip::Peer;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, JsonBody, NotFound, PageQuery, Paged, Unavailable};
use crate::http::extract::{BODY_LIMIT, Path, Query, json_body};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::PageRequest;
use crate::http::{NO_STORE, misses};
use crate::state::{App, Shared};

/// Lists sources, newest first.
#[utoipa::path(
    get, path = "/v1/sources", operation_id = "list_sources", tag = "sources", security(("secret_key" = [])),
    params(PageQuery),
    responses((status = 200, description = "One page, with the sources' URLs", body = SourceList), FullKey, Paged)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Response, ApiError> {
    let list = list_for(&app, &caller, PageRequest::read(&query)?).await?;
    Ok(([NO_STORE], Json(list)).into_response())
}

/// A page of an account's sources.
pub(crate) async fn list_for(app: &App, caller: &Caller, request: PageRequest<'_>) -> Result<SourceList, ApiError> {
    let page = request.of(app, caller, routes::LIST_SOURCES.path)?;
    let found = page.read(|mut db, tenant, span| async move { sources::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |source| source.id.as_str())?;
    Ok(SourceList::new(found.into_iter().map(|source| shown(app, source)).collect(), next_cursor))
}

/// A source with its address, which is as secret as a key. If the address cannot be unsealed, the source is shown
/// without it.
fn shown(app: &App, stored: StoredSource) -> SourceDetail {
    let token = app.vault.open("sources", stored.id.as_str(), &stored.sealed).ok();
    let token = token.and_then(|token| String::from_utf8(token).ok()).map(Token::new);
    let url = token.map(|token| address(app, &token));
    SourceDetail::new(stored.id, stored.name, stored.source_type, url, stored.created_at)
}

fn address(app: &App, token: &Token) -> SourceUrl {
    SourceUrl::new(format!("{}/in/{}", app.public_url.as_str().trim_end_matches('/'), token.expose()))
}

/// Creates a URL that accepts conversions.
///
/// Anyone who has the URL can post to it. To replace the URL, delete the source and create a new one. Maximum
/// 100 per account.
#[utoipa::path(
    post, path = "/v1/sources", operation_id = "create_source", tag = "sources", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = CreateSource,
    responses(
        (status = 201, description = "Created", body = SourceDetail, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, JsonBody,
        (status = 400, description = "A field is invalid (`invalid_name`, `invalid_source_type`)", body = ErrorBody),
        (status = 402, description = "The account already has 100 sources", body = ErrorBody),
        (status = 409, description = "Another source has this name (`name_taken`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<SourceDetail>, ApiError> {
    let (once, asked) = Once::json::<CreateSource>(request, &caller, BODY_LIMIT).await?;
    create_for(&app, caller, once.sealed(&app.vault), asked).await
}

/// Creates a source for the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    asked: CreateSource,
) -> Result<Answer<SourceDetail>, ApiError> {
    let (name, source_type) = asked.check()?;
    let now = app.clock.now();
    let (id, token) = app.random(|random| (SourceId::new(now, random), Token::generate(random)));
    let sealed = app.vault.seal("sources", id.as_str(), token.expose().as_bytes());
    let url = address(app, &token);
    let shown = SourceDetail::new(id.clone(), name.clone(), source_type.clone(), Some(url), now);
    let entry = app.audited(&caller, AuditAction::SourceCreated).of(&id, Some(&name));
    let tenant = caller.tenant.clone();
    let new = NewSource { id, tenant, name, source_type, token, sealed, created_at: now };
    app.once(once, Create { caller, new, shown, entry }).await
}

struct Create {
    caller: Arc<Caller>,
    new: NewSource,
    shown: SourceDetail,
    entry: NewEntry,
}

impl Work for Create {
    type Made = SourceDetail;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<SourceDetail>, ApiError> {
        let new = &self.new;
        self.caller.hold(tx).await?;
        let current = sources::count(tx, &new.tenant).await?;
        if current >= MAX_SOURCES {
            return Err(ApiError::Full { resource: "sources", limit: MAX_SOURCES, current });
        }
        if !sources::insert(tx, new).await? {
            let message = format!("another source is named \"{}\"", new.name);
            return Err(Invalid::field(ErrorCode::NameTaken, "name", message).into());
        }
        self.entry.store(tx).await?;
        created(format!("/v1/sources/{}", new.id), self.shown.clone())
    }
}

/// Returns a source with its URL.
#[utoipa::path(
    get, path = "/v1/sources/{id}", operation_id = "get_source", tag = "sources", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The source's ID", example = "src_0123456789abcdef01234567")),
    responses((status = 200, description = "The source", body = SourceDetail), FullKey, NotFound)
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let source = find(&app, &caller, &id).await?;
    Ok(([NO_STORE], Json(source)).into_response())
}

/// One of an account's sources; a malformed id is "not found".
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<SourceDetail, ApiError> {
    let id = id.parse::<SourceId>().map_err(|_| ApiError::not_found())?;
    let found = sources::find(&mut app.db.read().await?.conn(), &caller.tenant, &id).await?;
    Ok(shown(app, found.ok_or_else(ApiError::not_found)?))
}

/// Deletes a source. Its URL stops working immediately; stored conversions are kept.
#[utoipa::path(
    delete, path = "/v1/sources/{id}", operation_id = "delete_source", tag = "sources", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The source's ID", example = "src_0123456789abcdef01234567")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes one of an account's sources.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<SourceId>().map_err(|_| ApiError::not_found())?;
    let entry = app.audited(&caller, AuditAction::SourceDeleted);
    let deleted = app.write_for(
        Arc::clone(&caller),
        (caller, id, entry),
        |tx, (caller, id, entry)| {
            async move {
                caller.hold(tx).await?;
                let name = sources::delete(tx, &caller.tenant, id).await?.ok_or_else(ApiError::not_found)?;
                Ok(entry.of(id, Some(&name)).store(tx).await?)
            }
            .boxed()
        },
        |_, _, ()| (),
    );
    deleted.await
}

/// Records a conversion without a key.
///
/// The URL is the only authentication. Requests with the same `idempotency_key` within 30 days count as one
/// conversion, whether sent to a source or with a secret key.
#[utoipa::path(
    post, path = "/in/{token}", operation_id = "send_to_source", tag = "sources",
    params(("token" = String, Path, description = "The last part of the source's URL, 64 hex digits", example = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")),
    request_body = Convert,
    responses(
        (status = 200, description = "The result", body = Converted),
        Unavailable, JsonBody,
        (status = 400, description = "The body is invalid (`parse_error`)", body = ErrorBody),
        (status = 403, description = "The account is suspended (`account_suspended`)", body = ErrorBody),
        (status = 404, description = "No source has this URL", body = ErrorBody),
        (status = 429, description = "Too many conversions for this source, or too many unknown URLs from this IP address", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn receive(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    Path(token): Path<String>,
    request: Request,
) -> Result<Json<Converted>, ApiError> {
    let token = Token::new(token);
    if !token.is_well_formed() {
        return Err(ApiError::not_found());
    }
    let (client, hash) = (app.client_at(peer, request.headers()), token.hash());
    let found = async { sources::by_hash(&mut app.db.look_up().await?.conn(), &hash).await };
    let found = misses::look_up_token(&app, client, &hash, found).await?;
    let source = found.ok_or_else(ApiError::not_found)?;
    let limited = ApiError::limited("too many conversions for this source");
    app.limits.sources.check(&source.id, app.clock.monotonic_millis()).map_err(limited)?;
    admit(source.is_suspended, request.method())?;
    let body = json_body(request, BODY_LIMIT).await?;
    let new = read_conversion(&body)?;
    store_conversion(&app, &source.tenant, Reporter::Source(source.id), new).await.map(Json)
}
