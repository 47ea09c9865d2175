//! Links: create, list, get, update, delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::AffiliateId;
use deeplink_core::link::{
    CreateLink, CreatedLink, LinkDetail, LinkFilter, LinkList, LinkPatch, LinkStatus, NewLink, UpdateLink, generate_id,
    is_link_id,
};
use deeplink_core::page;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;

use crate::db::links::{self, Inserted, Link};
use crate::db::replies::Reply;
use crate::db::tenants::{self, Counted};
use crate::db::{Conn, affiliates, domains, notices};
use crate::error::ApiError;
use crate::http::auth::{Caller, FullScope, LinkWriter};
use crate::http::cursor::{Cursor, LinkCursor};
use crate::http::extract::{BODY_LIMIT, Path, Query, json_body, parse};
use crate::http::once::{Answer, Once};
use crate::state::{App, Shared};

/// How often an id or position that turned out to be taken is drawn again. Two of 36⁸ ids meeting once is rare; this
/// many times in a row means that something else is wrong.
pub(super) const DRAWS: usize = 16;

/// Creates a link.
///
/// Every field is optional. Without a verified primary domain the link ends 30 days after its creation.
#[utoipa::path(
    post, path = "/v1/links", operation_id = "create_link", tag = "links", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = CreateLink,
    responses(
        (status = 201, description = "Created", body = CreatedLink, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "A field breaks a rule", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 402, description = "The plan's limit is reached", body = ErrorBody),
        (status = 404, description = "The affiliate named in the body is not there (`affiliate_not_found`)", body = ErrorBody),
        (status = 409, description = "The id is taken, or the idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    request: Request,
) -> Result<Answer, ApiError> {
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, "POST", "/v1/links", &body)?;
    create_for(app, caller, once, parse::<CreateLink>(&body)?).await
}

/// Creates a link for whoever calls.
pub(crate) async fn create_for(
    app: Shared,
    caller: Arc<Caller>,
    once: Once,
    link: CreateLink,
) -> Result<Answer, ApiError> {
    let link = pinned(&caller, link)?;
    let job = Arc::new(Create { app: Arc::clone(&app), caller, once, link, now: app.clock.now() });
    App::to_the_end(async move {
        let answer = app
            .db
            .write({
                let job = Arc::clone(&job);
                move |tx| {
                    let job = Arc::clone(&job);
                    async move { job.run(tx).await }.boxed()
                }
            })
            .await?;
        // Somebody may have asked for the id before it was there.
        if let Some(id) = answer.reply.location.as_deref().and_then(|path| path.rsplit('/').next()) {
            app.links.drop_link(job.caller.tenant.as_str(), id);
        }
        Ok(answer)
    })
    .await
}

/// Checks a new link and pins it to the caller's affiliate, if the caller is one's.
fn pinned(caller: &Caller, mut link: CreateLink) -> Result<NewLink, ApiError> {
    let Some(own) = &caller.affiliate else { return Ok(link.check()?) };
    let named = link.affiliate_id.take();
    let mut link = link.check()?;
    if named.is_some_and(|named| named != own.as_str()) {
        let message = "this key belongs to another affiliate";
        return Err(Invalid::field(ErrorCode::AffiliateScopeMismatch, "affiliate_id", message).into());
    }
    link.affiliate_id = Some(own.clone());
    Ok(link)
}

struct Create {
    app: Shared,
    caller: Arc<Caller>,
    once: Once,
    link: NewLink,
    now: Timestamp,
}

impl Create {
    async fn run(&self, mut tx: Conn<'_>) -> Result<Answer, ApiError> {
        if let Some(reply) = self.once.claim(&mut tx, self.now).await? {
            return Ok(Answer { reply, replayed: true });
        }
        let (caller, app) = (&self.caller, &self.app);
        app.threats.check(&self.link.destinations)?;
        check_affiliate(&mut tx, caller, self.link.affiliate_id.as_ref()).await?;
        within(tenants::count_links(&mut tx, &caller.tenant, 1, app.config.enforce_quotas).await?)?;
        let primary = domains::primary_of(&mut tx, &caller.tenant).await?;
        let mut link = new_link(app, caller, self.link.clone(), primary.as_deref(), self.now);
        for _ in 0..DRAWS {
            let generated = self.link.custom_id.is_none();
            match links::insert(&mut tx, &link, generated || primary.is_none()).await? {
                Inserted::Yes => {
                    let created =
                        CreatedLink::new(link.link_id.clone(), app.url_of(&link, primary.as_deref()), link.expires_at);
                    let reply = Reply {
                        status: StatusCode::CREATED.as_u16(),
                        location: Some(format!("/v1/links/{}", link.link_id)),
                        body: serde_json::to_string(&created).map_err(|error| ApiError::Internal(error.to_string()))?,
                    };
                    self.once.keep(&mut tx, &reply).await?;
                    return Ok(Answer { reply, replayed: false });
                }
                Inserted::Taken if !generated => return Err(ApiError::link_id_taken(&link.link_id)),
                Inserted::Taken | Inserted::Collided => {
                    link = new_link(app, caller, self.link.clone(), primary.as_deref(), self.now);
                }
            }
        }
        Err(ApiError::Internal("no free link id was found".into()))
    }
}

/// Refuses an affiliate that is not the tenant's. An affiliate's own credential names its own.
pub(super) async fn check_affiliate(
    tx: &mut Conn<'_>,
    caller: &Caller,
    affiliate: Option<&AffiliateId>,
) -> Result<(), ApiError> {
    match affiliate {
        Some(id) if caller.affiliate.is_none() && !affiliates::belongs(tx, &caller.tenant, id).await? => {
            Err(affiliate_not_found().into())
        }
        _ => Ok(()),
    }
}

/// The refusal of an affiliate that is not there.
pub(super) fn affiliate_not_found() -> Invalid {
    Invalid::field(ErrorCode::AffiliateNotFound, "affiliate_id", "there is no such affiliate")
}

/// Refuses links that the plan does not include.
pub(super) fn within(counted: Counted) -> Result<(), ApiError> {
    match counted {
        Counted::Within => Ok(()),
        Counted::Over { limit, current } => Err(ApiError::Quota { resource: "links", limit, current }),
    }
}

/// A link that is ready to be stored, under the id its creator chose or a generated one.
pub(crate) fn new_link(app: &App, caller: &Caller, content: NewLink, primary: Option<&str>, now: Timestamp) -> Link {
    let days = i64::from(app.config.unverified_link_ttl_days);
    Link {
        tenant: caller.tenant.clone(),
        link_id: content.custom_id.clone().unwrap_or_else(|| app.random(generate_id)),
        position: app.positions.draw(now, 1).next().unwrap_or_default(),
        claimed: true,
        made_under: primary.map(str::to_owned),
        content,
        status: None,
        expires_at: (primary.is_none() && days > 0).then(|| now.plus_days(days)),
        created_at: now,
        updated_at: now,
    }
}

impl App {
    /// The address of a stored link.
    pub(crate) fn url_of(&self, link: &Link, primary: Option<&str>) -> String {
        let host = if link.claimed { primary } else { link.made_under.as_deref().or(primary) };
        self.link_url(&link.link_id, host)
    }

    pub(crate) fn detail(&self, link: Link, primary: Option<&str>, now: Timestamp) -> LinkDetail {
        let (url, status) = (self.url_of(&link, primary), link.status_at(now));
        let to = link.content.destinations;
        LinkDetail {
            link_id: link.link_id,
            url,
            ios_deep_link: to.ios_deep_link,
            ios_store_url: to.ios_store_url,
            android_deep_link: to.android_deep_link,
            android_store_url: to.android_store_url,
            web_url: to.web_url,
            metadata: link.content.metadata,
            agent_context: link.content.agent_context,
            social_preview: link.content.social_preview,
            affiliate_id: link.content.affiliate_id,
            status,
            expires_at: link.expires_at,
            created_at: link.created_at,
            updated_at: link.updated_at,
        }
    }
}

/// Lists links, newest first.
///
/// A cursor carries the filters of the list that it came from and may come alone.
#[utoipa::path(
    get, path = "/v1/links", operation_id = "list_links", tag = "links", security(("secret_key" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "Links of a page", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "The previous page's `next_cursor`"),
        ("affiliate_id" = Option<String>, Query, description = "Only this affiliate's links", pattern = "^aff_[0-9a-f]{24}$"),
        ("status" = Option<LinkStatus>, Query, description = "Only links of this status"),
        ("created_after" = Option<String>, Query, description = "Only links made after this moment (RFC 3339)", format = DateTime),
        ("created_before" = Option<String>, Query, description = "Only links made before this moment (RFC 3339)", format = DateTime),
        ("q" = Option<String>, Query, description = "Only ids that start with this text, case-sensitive"),
    ),
    responses(
        (status = 200, description = "One page", body = LinkList),
        (status = 400, description = "A parameter is malformed, or the cursor is not this list's", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    query: Query,
) -> Result<Json<LinkList>, ApiError> {
    let limit = page::limit(query.one("limit")?)?;
    let asked = read_filter(&query)?;
    let found = page_of(&app, &caller, asked, query.one("cursor")?, limit).await?;
    let (primary, now) = (found.primary, app.clock.now());
    let links = found.links.into_iter().map(|link| app.detail(link, primary.as_deref(), now)).collect();
    Ok(Json(LinkList { links, next_cursor: found.next_cursor }))
}

/// One page of a list, as stored.
pub(crate) struct Found {
    pub(crate) links: Vec<Link>,
    /// The tenant's primary domain, which their addresses have.
    pub(crate) primary: Option<String>,
    /// Where the next page begins.
    pub(crate) next_cursor: Option<String>,
}

/// Reads one page of a caller's links.
pub(crate) async fn page_of(
    app: &App,
    caller: &Caller,
    asked: LinkFilter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Found, ApiError> {
    let (filter, before) = match cursor {
        None => (asked, None),
        Some(text) => {
            let cursor = LinkCursor::read(text, &app.vault, caller)?;
            if asked != LinkFilter::new() && asked != cursor.filter {
                return Err(LinkCursor::of_another_list());
            }
            (cursor.filter, Some(cursor.before))
        }
    };
    let now = app.clock.now();
    let mut scoped = filter.clone();
    if let Some(own) = &caller.affiliate {
        if filter.affiliate_id.as_deref().is_some_and(|other| other != own.as_str()) {
            return Ok(Found { links: Vec::new(), primary: None, next_cursor: None });
        }
        scoped.affiliate_id = Some(own.as_str().to_owned());
    }
    let mut reader = app.db.read().await?;
    // One more than asked for tells whether there is a next page.
    let mut found = links::list(&mut reader.conn(), &caller.tenant, &scoped, before, limit + 1, now).await?;
    let primary = domains::primary_of(&mut reader.conn(), &caller.tenant).await?;
    drop(reader);
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = match found.last() {
        Some(last) if more => Some(LinkCursor { before: last.position, filter }.write(&app.vault, caller)?),
        _ => None,
    };
    Ok(Found { links: found, primary, next_cursor })
}

fn read_filter(query: &Query) -> Result<LinkFilter, ApiError> {
    let moment = |text: &str| text.parse::<Timestamp>().ok();
    let mut filter = LinkFilter::new();
    filter.affiliate_id = query.parsed("affiliate_id", "aff_ and 24 hex digits", |text| {
        text.parse::<AffiliateId>().ok().map(|id| id.as_str().to_owned())
    })?;
    filter.status = query.parsed("status", "active, expired, flagged or disabled", |text| {
        Some(LinkStatus::from(text)).filter(|status| LinkStatus::ALL.contains(status))
    })?;
    filter.created_after = query.parsed("created_after", "an RFC 3339 date and time", moment)?;
    filter.created_before = query.parsed("created_before", "an RFC 3339 date and time", moment)?;
    filter.q = query.parsed("q", "at most 64 characters", |text| (text.len() <= 64).then(|| text.to_owned()))?;
    Ok(filter)
}

/// Shows a link.
#[utoipa::path(
    get, path = "/v1/links/{link_id}", operation_id = "get_link", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's id")),
    responses(
        (status = 200, description = "The link", body = LinkDetail),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 404, description = "There is no such link", body = ErrorBody),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    Path(link_id): Path<String>,
) -> Result<Json<LinkDetail>, ApiError> {
    Ok(Json(get_for(&app, &caller, &link_id).await?))
}

/// A link of whoever calls.
pub(crate) async fn get_for(app: &App, caller: &Caller, link_id: &str) -> Result<LinkDetail, ApiError> {
    let mut reader = app.db.read().await?;
    let link = find(&mut reader.conn(), caller, link_id).await?;
    let primary = domains::primary_of(&mut reader.conn(), &caller.tenant).await?;
    Ok(app.detail(link, primary.as_deref(), app.clock.now()))
}

/// A link of the caller's; what is not the caller's is not there.
pub(crate) async fn find(db: &mut Conn<'_>, caller: &Caller, link_id: &str) -> Result<Link, ApiError> {
    if !is_link_id(link_id) {
        return Err(ApiError::not_found());
    }
    let link = links::find(db, &caller.tenant, link_id).await?.ok_or_else(ApiError::not_found)?;
    match &caller.affiliate {
        Some(own) if link.content.affiliate_id.as_ref() != Some(own) => Err(ApiError::not_found()),
        _ => Ok(link),
    }
}

/// Changes a link.
///
/// An absent field keeps its value, `null` clears it, a value replaces the whole field.
#[utoipa::path(
    put, path = "/v1/links/{link_id}", operation_id = "update_link", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's id")),
    request_body = UpdateLink,
    responses(
        (status = 200, description = "The link as it is now", body = LinkDetail),
        (status = 400, description = "A field breaks a rule, or no field is named", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such link", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn update(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
    request: Request,
) -> Result<Json<LinkDetail>, ApiError> {
    find(&mut app.db.read().await?.conn(), &caller, &link_id).await?;
    let body = json_body(request, BODY_LIMIT).await?;
    Ok(Json(update_for(app, caller, link_id, parse::<UpdateLink>(&body)?).await?))
}

/// Changes a link of whoever calls.
pub(crate) async fn update_for(
    app: Shared,
    caller: Arc<Caller>,
    link_id: String,
    update: UpdateLink,
) -> Result<LinkDetail, ApiError> {
    let patch: Arc<LinkPatch> = Arc::new(update.check()?);
    app.threats.check_patch(&patch)?;
    let now = app.clock.now();
    App::to_the_end(async move {
        let (link, primary) = app
            .db
            .write({
                let (caller, link_id) = (Arc::clone(&caller), Arc::<str>::from(link_id.as_str()));
                move |mut tx| {
                    let (caller, link_id, patch) = (Arc::clone(&caller), Arc::clone(&link_id), Arc::clone(&patch));
                    async move {
                        let link = links::update(&mut tx, &caller.tenant, &link_id, &patch, now)
                            .await?
                            .ok_or_else(ApiError::not_found)?;
                        let primary = domains::primary_of(&mut tx, &caller.tenant).await?;
                        notices::link_changed(&mut tx, &caller.tenant, &link_id).await?;
                        Ok::<_, ApiError>((link, primary))
                    }
                    .boxed()
                }
            })
            .await?;
        app.links.drop_link(caller.tenant.as_str(), &link_id);
        Ok(app.detail(link, primary.as_deref(), now))
    })
    .await
}

/// Deletes a link. It is gone at once; its clicks stay in the tenant's totals.
#[utoipa::path(
    delete, path = "/v1/links/{link_id}", operation_id = "delete_link", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's id")),
    responses(
        (status = 204, description = "Gone"),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such link", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
) -> Result<Response, ApiError> {
    delete_for(app, caller, link_id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes a link of whoever calls.
pub(crate) async fn delete_for(app: Shared, caller: Arc<Caller>, link_id: String) -> Result<(), ApiError> {
    if !is_link_id(&link_id) {
        return Err(ApiError::not_found());
    }
    let now = app.clock.now();
    App::to_the_end(async move {
        app.db
            .write({
                let (caller, link_id) = (Arc::clone(&caller), Arc::<str>::from(link_id.as_str()));
                move |mut tx| {
                    let (caller, link_id) = (Arc::clone(&caller), Arc::clone(&link_id));
                    async move {
                        // The tenant's row before any link's, as everywhere: otherwise a delete and a create of one id
                        // would wait for each other.
                        tenants::uncount_links(&mut tx, &caller.tenant, 1).await?;
                        if !links::delete(&mut tx, &caller.tenant, &link_id, now).await? {
                            return Err(ApiError::not_found());
                        }
                        notices::link_changed(&mut tx, &caller.tenant, &link_id).await?;
                        Ok(())
                    }
                    .boxed()
                }
            })
            .await?;
        app.links.drop_link(caller.tenant.as_str(), &link_id);
        Ok(())
    })
    .await
}
