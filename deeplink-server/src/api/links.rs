//! Links: create, get, update, delete. Lists are in [`super::link_list`].

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::link::{
    Alias, CreateLink, CreatedLink, LinkChange, LinkDetail, LinkPatch, NewLink, UpdateLink, check_end, check_not_own,
    generate_id, is_link_id,
};
use deeplink_core::patch::Patch;
use deeplink_core::qr::QrOptions;
use deeplink_core::tag::Tag;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;

use super::qr_logos::Looks;
use super::{aliases, tags};
use crate::caller::Caller;
use crate::db::links::{self, Inserted, Link, Updated};
use crate::db::tenants::{self, Counted};
use crate::db::{Conn, affiliates, domains, notices, takedowns};
use crate::error::ApiError;
use crate::http::auth::{FullScope, LinkWriter};
use crate::http::documented::{AnyKey, Deleted, FullKey, IdempotencyKey, JsonBody, NotFound};
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::state::{App, Shared};

/// How often an id or position that is taken is drawn again. One collision among 36⁸ ids is rare; this many in a row
/// mean that something else is wrong.
pub(super) const DRAWS: usize = 16;

/// Creates a link.
///
/// Every field is optional. Without a verified primary domain, the link expires 30 days after creation, unless the operator set another number of days.
#[utoipa::path(
    post, path = "/v1/links", operation_id = "create_link", tag = "links", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = CreateLink,
    responses(
        (status = 201, description = "Created", body = CreatedLink, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        AnyKey, JsonBody,
        (status = 400, description = "A field is invalid, or the account would have more than 1,000 different tags (`tag_limit`)", body = ErrorBody),
        (status = 402, description = "The plan's limit has been reached", body = ErrorBody),
        (status = 404, description = "No such affiliate (`affiliate_not_found`)", body = ErrorBody),
        (status = 409, description = "The ID or an alias is taken (`link_id_taken`, `alias_taken`; `field` is, for example, `aliases[1]`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    request: Request,
) -> Result<Answer<CreatedLink>, ApiError> {
    let (once, asked) = Once::json::<CreateLink>(request, &caller, BODY_LIMIT).await?;
    create_for(&app, caller, once, asked).await
}

/// Creates a link for the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    link: CreateLink,
) -> Result<Answer<CreatedLink>, ApiError> {
    let asked = link.aliases.clone().unwrap_or_default();
    let link = pinned(&caller, link)?;
    let (tenant, aliases) = (caller.tenant.clone(), link.aliases.clone());
    let work = Create { app: Arc::clone(app), caller, link, asked, now: app.clock.now() };
    let answer = app.once(once, work).await?;
    // The first request may have reached another node, and this node may have cached the id as absent.
    if let Some(id) = answer.replayed_location().and_then(|path| path.strip_prefix("/v1/links/")) {
        app.links.drop_link(tenant.as_str(), id);
        app.forget_aliases(&tenant, aliases.iter().map(Alias::as_str));
    }
    Ok(answer)
}

/// Checks a new link and pins it to the caller's affiliate, if the caller has one.
fn pinned(caller: &Caller, mut link: CreateLink) -> Result<NewLink, ApiError> {
    let Some(own) = &caller.affiliate else { return Ok(link.check()?) };
    let is_given = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let has_clicks = link.imported_clicks.is_some();
    check_owned([link.name.is_some(), is_given(&link.tags), is_given(&link.aliases), has_clicks])?;
    let named = link.affiliate_id.take();
    let mut link = link.check()?;
    if named.is_some_and(|named| named != own.as_str()) {
        let message = "this key belongs to another affiliate";
        return Err(Invalid::field(ErrorCode::AffiliateScopeMismatch, "affiliate_id", message).into());
    }
    link.affiliate_id = Some(own.clone());
    Ok(link)
}

/// Refuses what only a link's owner may set, from an affiliate's credential. Each value is whether the request sets that field.
pub(super) fn check_owned([name, tags, aliases, imported_clicks]: [bool; 4]) -> Result<(), Invalid> {
    let fields = [
        (name, ErrorCode::InvalidName, "name", "name"),
        (tags, ErrorCode::InvalidTag, "tags", "tags"),
        (aliases, ErrorCode::InvalidAlias, "aliases", "aliases"),
        (imported_clicks, ErrorCode::BadRequest, "imported_clicks", "imported clicks"),
    ];
    match fields.into_iter().find(|(is_set, ..)| *is_set) {
        Some((_, code, field, word)) => {
            Err(Invalid::field(code, field, format!("an affiliate's credential cannot set a link's {word}")))
        }
        None => Ok(()),
    }
}

/// Refuses URLs that a link of the tenant's was taken down for.
pub(super) async fn refuse_taken_down<'a>(
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    urls: impl Iterator<Item = (&'static str, &'a str)>,
) -> Result<(), ApiError> {
    let urls: Vec<_> = urls.collect();
    Ok(takedowns::blocked(tx, tenant, urls.iter().map(|(_, url)| *url)).await?.check(urls)?)
}

struct Create {
    app: Shared,
    caller: Arc<Caller>,
    link: NewLink,
    /// The aliases of the request, in its order.
    asked: Vec<String>,
    now: Timestamp,
}

impl Work for Create {
    type Made = CreatedLink;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CreatedLink>, ApiError> {
        let (caller, app) = (&self.caller, &self.app);
        check_end(self.link.expires_at, self.now)?;
        app.threats.check(self.link.urls())?;
        Looks::of(app, tx, &caller.tenant, &self.link.qr).await?.check(self.link.qr.as_ref())?;
        check_affiliate(tx, caller, self.link.affiliate_id.as_ref()).await?;
        within(tenants::count_links(tx, &caller.tenant, 1, app.quotas_at(self.now)).await?)?;
        refuse_taken_down(tx, &caller.tenant, self.link.urls()).await?;
        let primary = domains::primary_of(tx, &caller.tenant).await?;
        let mut link = new_link(app, caller, self.link.clone(), primary.as_deref(), self.now);
        for _ in 0..DRAWS {
            let generated = self.link.custom_id.is_none();
            match links::insert(tx, &link, generated || primary.is_none()).await? {
                Inserted::Yes => {
                    let tagged = (link.position, &*link.content.tags);
                    tags::give(app, tx, &caller.tenant, &[tagged], self.now).await?;
                    let all: Vec<&Alias> = link.content.aliases.iter().collect();
                    aliases::give_to(app, tx, &link, &all, &self.asked, primary.as_deref(), self.now).await?;
                    let url = app.url_of(&link, primary.as_deref());
                    let location = format!("/v1/links/{}", link.link_id);
                    return created(location, CreatedLink::new(link.link_id, url, link.expires_at));
                }
                Inserted::Taken if !generated => return Err(ApiError::link_id_taken(&link.link_id)),
                Inserted::Taken | Inserted::Collided => {
                    link = new_link(app, caller, self.link.clone(), primary.as_deref(), self.now);
                }
            }
        }
        Err(ApiError::Internal("no unused link ID could be generated".into()))
    }

    /// The id and the aliases may be cached as absent.
    fn committed(&self, app: &Shared, made: &CreatedLink) {
        app.links.drop_link(self.caller.tenant.as_str(), &made.link_id);
        app.forget_aliases(&self.caller.tenant, self.link.aliases.iter().map(Alias::as_str));
    }
}

/// Refuses an affiliate that is not the tenant's. An affiliate's credential names that affiliate.
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

/// The error for an affiliate that does not exist.
pub(super) fn affiliate_not_found() -> Invalid {
    Invalid::field(ErrorCode::AffiliateNotFound, "affiliate_id", "no affiliate with this ID")
}

/// Refuses links beyond the plan's limit.
pub(super) fn within(counted: Counted) -> Result<(), ApiError> {
    match counted {
        Counted::Within => Ok(()),
        Counted::Over { limit, current } => Err(ApiError::Quota { resource: "links", limit, current }),
    }
}

/// A link ready to store, under the id its creator chose or a generated one.
pub(crate) fn new_link(app: &App, caller: &Caller, content: NewLink, primary: Option<&str>, now: Timestamp) -> Link {
    let days = i64::from(app.config.unverified_link_ttl_days);
    let owner_end = content.expires_at;
    let id = content.custom_id.clone().unwrap_or_else(|| app.random(generate_id));
    let mut link = Link::new(caller.tenant.clone(), id, content, now);
    link.position = app.positions.draw(now, 1).next().unwrap_or_default();
    link.made_under = primary.map(str::to_owned);
    link.set_ends(owner_end, (primary.is_none() && days > 0).then(|| now.plus_days(days)));
    link
}

impl App {
    /// The address of a stored link.
    pub(crate) fn url_of(&self, link: &Link, primary: Option<&str>) -> String {
        self.link_url(&link.link_id, link.domain(primary))
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
            name: link.content.name,
            enabled: !link.content.is_disabled,
            owner_expires_at: link.content.expires_at,
            expired_url: link.content.expired_url,
            tags: link.content.tags.into_iter().map(Tag::into_text).collect(),
            aliases: link.content.aliases.into_iter().map(Alias::into_text).collect(),
            qr: link.content.qr,
            imported_clicks: link.content.imported_clicks,
        }
    }
}

/// Returns a link.
#[utoipa::path(
    get, path = "/v1/links/{link_id}", operation_id = "get_link", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's ID", example = "spring-42")),
    responses((status = 200, description = "The link", body = LinkDetail), AnyKey, NotFound)
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    Path(link_id): Path<String>,
) -> Result<Json<LinkDetail>, ApiError> {
    Ok(Json(get_for(&app, &caller, &link_id).await?))
}

/// A link of the caller.
pub(crate) async fn get_for(app: &App, caller: &Caller, link_id: &str) -> Result<LinkDetail, ApiError> {
    let mut reader = app.db.read().await?;
    let link = find(&mut reader.conn(), caller, link_id).await?;
    let primary = domains::primary_of(&mut reader.conn(), &caller.tenant).await?;
    Ok(app.detail(link, primary.as_deref(), app.clock.now()))
}

/// One of the caller's links; any other is "not found".
pub(crate) async fn find(db: &mut Conn<'_>, caller: &Caller, link_id: &str) -> Result<Link, ApiError> {
    if !is_link_id(link_id) {
        return Err(ApiError::not_found());
    }
    let mut link = links::find(db, &caller.tenant, link_id).await?.ok_or_else(ApiError::not_found)?;
    if let Some(own) = &caller.affiliate {
        if link.content.affiliate_id.as_ref() != Some(own) {
            return Err(ApiError::not_found());
        }
        link.hide_from_affiliate();
    }
    Ok(link)
}

/// Updates a link.
///
/// Absent fields keep their values, `null` clears a field, and a value replaces the whole field.
#[utoipa::path(
    put, path = "/v1/links/{link_id}", operation_id = "update_link", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's ID", example = "spring-42")),
    request_body = UpdateLink,
    responses(
        (status = 200, description = "The changed link", body = LinkDetail),
        FullKey, JsonBody, NotFound,
        (status = 400, description = "A field is invalid, no field is specified, or the account would have more than 1,000 different tags (`tag_limit`)", body = ErrorBody),
        (status = 409, description = "An alias is taken (`alias_taken`; `field` is, for example, `aliases[1]`); or `enabled` is true or the aliases change, but the operator has disabled the link (`disabled_by_operator`)", body = ErrorBody),
    )
)]
pub(crate) async fn update(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
    request: Request,
) -> Result<Json<LinkDetail>, ApiError> {
    if caller.is_known() {
        find(&mut app.db.read().await?.conn(), &caller, &link_id).await?;
    }
    let body = json_body(request, BODY_LIMIT).await?;
    Ok(Json(update_for(&app, caller, link_id, parse::<UpdateLink>(&body)?).await?))
}

/// Updates a link of the caller.
pub(crate) async fn update_for(
    app: &Shared,
    caller: Arc<Caller>,
    link_id: String,
    update: UpdateLink,
) -> Result<LinkDetail, ApiError> {
    let patch = update.check()?;
    let now = app.clock.now();
    check_patch(app, &patch, now)?;
    let asked = match update.aliases {
        Patch::Set(aliases) => aliases,
        Patch::Keep | Patch::Clear => Vec::new(),
    };
    check_not_own(&asked, &link_id)?;
    let changed = app.write_for(
        Arc::clone(&caller),
        (Arc::clone(app), caller, link_id, patch, asked),
        move |tx, (app, caller, link_id, patch, asked)| {
            async move {
                check_look(app, tx, &caller.tenant, &patch.qr, &[link_id.as_str()]).await?;
                let gives = patch.tags.is_some() || patch.aliases.is_some();
                if may_open(patch) || gives || patch.urls().next().is_some() {
                    // Lock the tenant's row, so that no link is taken down between the check and the change.
                    tenants::lock(tx, &caller.tenant).await?;
                    refuse_taken_down(tx, &caller.tenant, patch.urls()).await?;
                }
                let change = caller.changes(patch.change(), now);
                let mut link = match links::update(tx, &caller.tenant, link_id, patch, &change).await? {
                    Updated::Link(link) => *link,
                    Updated::NoLink => return Err(ApiError::not_found()),
                    Updated::TakenDown(field) => return Err(taken_down(field).into()),
                };
                if may_open(patch) {
                    // What was refused while it did not work is not opened by making it work again.
                    app.threats.check(link.content.urls())?;
                    refuse_taken_down(tx, &caller.tenant, link.content.urls()).await?;
                }
                if let Some(list) = &patch.tags {
                    tags::replace(app, tx, &mut link, list, now).await?;
                }
                let primary = domains::primary_of(tx, &caller.tenant).await?;
                if let Some(list) = &patch.aliases {
                    let held = std::mem::replace(&mut link.content.aliases, list.clone());
                    aliases::replace(app, tx, &link, &held, asked, primary.as_deref(), now).await?;
                }
                notices::link_changed(tx, &caller.tenant, link_id).await?;
                Ok::<_, ApiError>(app.detail(link, primary.as_deref(), now))
            }
            .boxed()
        },
        |app, (_, caller, link_id, patch, _), _| {
            app.links.drop_link(caller.tenant.as_str(), link_id);
            app.forget_aliases(&caller.tenant, patch.aliases.iter().flatten().map(Alias::as_str));
        },
    );
    changed.await
}

/// The rules for a change that need the service's own settings.
pub(super) fn check_patch(app: &App, patch: &LinkPatch, now: Timestamp) -> Result<(), Invalid> {
    if let Patch::Set(end) = patch.expires_at {
        check_end(Some(end), now)?;
    }
    app.threats.check(patch.urls())
}

/// Refuses a look with a logo that cannot be drawn, unless these links all keep that logo already: it may have been deleted
/// since.
pub(crate) async fn check_look(
    app: &App,
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    look: &Patch<QrOptions>,
    links: &[&str],
) -> Result<(), ApiError> {
    let Patch::Set(look) = look else { return Ok(()) };
    let Err(refused) = Looks::of(app, tx, tenant, [look]).await?.check(Some(look)) else { return Ok(()) };
    let kept = links::find_many(tx, tenant, links).await?;
    let keeps = |link: &Link| link.content.qr.as_ref().is_some_and(|kept| kept.logo == look.logo);
    if !kept.is_empty() && kept.iter().all(keeps) { Ok(()) } else { Err(refused.into()) }
}

/// Whether a change may make a link work that did not.
pub(super) fn may_open(patch: &LinkPatch) -> bool {
    patch.enabled == Some(true) || !patch.expires_at.is_keep()
}

/// The error for switching on what the operator has switched off, or changing its addresses.
pub(super) fn taken_down(field: &'static str) -> Invalid {
    let message = "the operator of this service has disabled this link";
    Invalid::field(ErrorCode::DisabledByOperator, field, message)
}

/// Deletes a link, effective immediately. Its clicks remain in the account's totals.
#[utoipa::path(
    delete, path = "/v1/links/{link_id}", operation_id = "delete_link", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's ID", example = "spring-42")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, link_id).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes a link of the caller.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, link_id: String) -> Result<(), ApiError> {
    if !is_link_id(&link_id) {
        return Err(ApiError::not_found());
    }
    let now = app.clock.now();
    let deleted = app.write_for(
        Arc::clone(&caller),
        (caller, link_id),
        move |tx, (caller, link_id)| {
            async move {
                // The tenant's row before any link's, as everywhere: otherwise a delete and a create of one id would
                // deadlock.
                tenants::uncount_links(tx, &caller.tenant, 1).await?;
                if !links::delete(tx, &caller.tenant, link_id, &caller.changes(LinkChange::Deleted, now)).await? {
                    return Err(ApiError::not_found());
                }
                Ok(notices::link_changed(tx, &caller.tenant, link_id).await?)
            }
            .boxed()
        },
        |app, (caller, link_id), ()| app.links.drop_link(caller.tenant.as_str(), link_id),
    );
    deleted.await
}
