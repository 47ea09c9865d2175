//! Sources: addresses that conversions can be posted to without a key. List, create, get, delete, and what is posted.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::SourceId;
use deeplink_core::lifecycle::{Convert, Converted};
use deeplink_core::secret::Token;
use deeplink_core::source::{CreateSource, MAX_SOURCES, SourceDetail, SourceList, SourceUrl};
use futures_util::FutureExt;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};

use super::lifecycle::{read_conversion, store_conversion};
use crate::db::sources::{self, NewSource, StoredSource};
use crate::db::{Conn, replies::Reply};
use crate::error::ApiError;
use crate::http::auth::{Caller, FullScope};
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::http::once::{Answer, Once, created};
use crate::service::Peer;
use crate::state::{App, Shared};
use crate::visit::miss;

/// Every answer with an address holds a key.
const NO_STORE: [(HeaderName, HeaderValue); 1] = [(CACHE_CONTROL, HeaderValue::from_static("no-store"))];

/// Lists sources, newest first.
#[utoipa::path(
    get, path = "/v1/sources", operation_id = "list_sources", tag = "sources", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Every source with its address", body = SourceList),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn list(State(app): State<Shared>, FullScope { caller, .. }: FullScope) -> Result<Response, ApiError> {
    let list = list_for(&app, &caller).await?;
    Ok((NO_STORE, Json(list)).into_response())
}

/// An account's sources.
pub(crate) async fn list_for(app: &App, caller: &Caller) -> Result<SourceList, ApiError> {
    let stored = sources::list(&mut app.db.read().await?.conn(), &caller.tenant).await?;
    let shown: Result<Vec<_>, ApiError> = stored.into_iter().map(|source| shown(app, source)).collect();
    Ok(SourceList::new(shown?))
}

/// A source with its address.
fn shown(app: &App, stored: StoredSource) -> Result<SourceDetail, ApiError> {
    let token = app.vault.open("sources", stored.id.as_str(), &stored.sealed);
    let token = token.map_err(|error| ApiError::Internal(error.to_string()))?;
    let token = Token::new(String::from_utf8(token).map_err(|error| ApiError::Internal(error.to_string()))?);
    let url = address(app, &token);
    Ok(SourceDetail::new(stored.id, stored.name, stored.source_type, url, stored.created_at))
}

fn address(app: &App, token: &Token) -> SourceUrl {
    SourceUrl::new(format!("{}/in/{}", app.public_url.as_str().trim_end_matches('/'), token.expose()))
}

/// Makes an address that conversions can be posted to.
///
/// Whoever knows the address can post to it. To get another one, delete the source and make a new one. There can be 100.
#[utoipa::path(
    post, path = "/v1/sources", operation_id = "create_source", tag = "sources", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = CreateSource,
    responses(
        (status = 201, description = "Made", body = SourceDetail, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "A field breaks a rule (`invalid_name`, `invalid_source_type`)", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 402, description = "There are 100 sources", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 409, description = "Another source has the name (`name_taken`), or the idempotency key was used for another request", body = ErrorBody),
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
    let once = Once::read(&headers, &caller, "POST", "/v1/sources", &body)?.sealed(&app.vault);
    create_for(&app, caller, once, parse::<CreateSource>(&body)?).await
}

/// Makes a source for whoever calls.
pub(crate) async fn create_for(
    app: &App,
    caller: Arc<Caller>,
    once: Once,
    asked: CreateSource,
) -> Result<Answer, ApiError> {
    let (name, source_type) = asked.check()?;
    let now = app.clock.now();
    let (id, token) = app.random(|random| (SourceId::new(now, random), Token::generate(random)));
    let sealed = app.vault.seal("sources", id.as_str(), token.expose().as_bytes());
    let url = address(app, &token);
    let shown = SourceDetail::new(id.clone(), name.clone(), source_type.clone(), url, now);
    let reply = created(format!("/v1/sources/{id}"), &shown)?;
    let tenant = caller.tenant.clone();
    let new = NewSource { id, tenant, name, source_type, token, sealed, created_at: now };
    let job = Arc::new(Create { caller, once, new, reply });
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
    new: NewSource,
    reply: Reply,
}

impl Create {
    async fn run(&self, mut tx: Conn<'_>) -> Result<Answer, ApiError> {
        let new = &self.new;
        if let Some(reply) = self.once.claim(&mut tx, new.created_at).await? {
            return Ok(Answer { reply, replayed: true });
        }
        self.caller.hold(&mut tx).await?;
        let current = sources::count(&mut tx, &new.tenant).await?;
        if current >= MAX_SOURCES {
            return Err(ApiError::Quota { resource: "sources", limit: MAX_SOURCES, current });
        }
        if !sources::insert(&mut tx, new).await? {
            let message = format!("another source is called \"{}\"", new.name);
            return Err(Invalid::field(ErrorCode::NameTaken, "name", message).into());
        }
        self.once.keep(&mut tx, &self.reply).await?;
        Ok(Answer { reply: self.reply.clone(), replayed: false })
    }
}

/// Shows a source with its address.
#[utoipa::path(
    get, path = "/v1/sources/{id}", operation_id = "get_source", tag = "sources", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The source's id")),
    responses(
        (status = 200, description = "The source", body = SourceDetail),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such source", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let source = find(&app, &caller, &id).await?;
    Ok((NO_STORE, Json(source)).into_response())
}

/// One of an account's sources; what cannot be an id is not there.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<SourceDetail, ApiError> {
    let id = id.parse::<SourceId>().map_err(|_| ApiError::not_found())?;
    let found = sources::find(&mut app.db.read().await?.conn(), &caller.tenant, &id).await?;
    shown(app, found.ok_or_else(ApiError::not_found)?)
}

/// Deletes a source. Its address is dead at once; what was posted to it stays.
#[utoipa::path(
    delete, path = "/v1/sources/{id}", operation_id = "delete_source", tag = "sources", security(("secret_key" = [])),
    params(("id" = String, Path, description = "The source's id")),
    responses(
        (status = 204, description = "Gone"),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such source", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    delete_for(&app, caller, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes one of an account's sources.
pub(crate) async fn delete_for(app: &App, caller: Arc<Caller>, id: &str) -> Result<(), ApiError> {
    let id = id.parse::<SourceId>().map_err(|_| ApiError::not_found())?;
    let job = Arc::new((caller, id));
    let gone = app
        .db
        .write(move |mut tx| {
            let job = Arc::clone(&job);
            async move {
                job.0.hold(&mut tx).await?;
                Ok::<_, ApiError>(sources::delete(&mut tx, &job.0.tenant, &job.1).await?)
            }
            .boxed()
        })
        .await?;
    if gone { Ok(()) } else { Err(ApiError::not_found()) }
}

/// Records a conversion without a key.
///
/// The address is the whole authentication. Repeats with the same `idempotency_key` within 30 days are one conversion.
#[utoipa::path(
    post, path = "/in/{token}", operation_id = "send_to_source", tag = "sources",
    params(("token" = String, Path, description = "The end of the source's address, 64 hex digits")),
    request_body = Convert,
    responses(
        (status = 200, description = "What became of it", body = Converted),
        (status = 400, description = "The body breaks a rule (`parse_error`)", body = ErrorBody),
        (status = 404, description = "There is no source at this address, or not any more", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 429, description = "The source gets too much; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
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
    let found = sources::by_hash(&mut app.db.read().await?.conn(), &token.hash()).await?;
    let Some((source, tenant)) = found else {
        miss(&app, peer, request.headers())?;
        return Err(ApiError::not_found());
    };
    app.limits.sources.check(&source, app.clock.monotonic_millis()).map_err(ApiError::RateLimited)?;
    let body = json_body(request, BODY_LIMIT).await?;
    let new = read_conversion(&body)?;
    store_conversion(&app, &tenant, Some(source), new).await.map(Json)
}
