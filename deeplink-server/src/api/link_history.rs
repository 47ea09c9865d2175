//! The history of a link, and restoring what it was.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::link::{LinkChange, LinkDetail, LinkHistory, LinkPatch, LinkVersion, RestoreLink, is_link_id};
use deeplink_core::page::DEFAULT_LIMIT;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::links::{refuse_taken_down, taken_down, within};
use super::{aliases, tags};
use crate::caller::Caller;
use crate::db::audit::By;
use crate::db::link_history::{self, Change};
use crate::db::links::{self, Inserted, Link, Updated};
use crate::db::{Conn, domains, notices, tenants};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, IdempotencyKey, KeyedBody, NotFound, PageQuery, Paged};
use crate::http::extract::{BODY_LIMIT, Path, Query};
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

impl Caller {
    /// A change of one link by this caller.
    pub(super) fn changes(&self, change: LinkChange, at: Timestamp) -> Change {
        Change { change, by: By::Caller(self.by.clone()), is_bulk: false, at }
    }
}

/// Lists a link's versions, newest first: the link as it was before each change, and who made the change.
///
/// The last 100 versions are kept. Renaming or deleting a tag for the whole account adds no version. The history of a deleted link
/// is kept for 30 days.
#[utoipa::path(
    get, path = "/v1/links/{link_id}/history", operation_id = "link_history", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's ID", example = "spring-42"), PageQuery),
    responses((status = 200, description = "One page", body = LinkHistory), FullKey, Paged, NotFound)
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
    query: Query,
) -> Result<Json<LinkHistory>, ApiError> {
    list_for(&app, &caller, &link_id, PageRequest::read_or(&query, DEFAULT_LIMIT)?).await.map(Json)
}

/// A page of the versions of one of the caller's links.
pub(crate) async fn list_for(
    app: &App,
    caller: &Caller,
    link_id: &str,
    request: PageRequest<'_>,
) -> Result<LinkHistory, ApiError> {
    let now = app.clock.now();
    let link = {
        let mut reader = app.db.read().await?;
        let db = &mut reader.conn();
        match live(db, caller, link_id).await? {
            Some(link) => link.position,
            None if !is_link_id(link_id) => return Err(ApiError::not_found()),
            None => {
                let deleted = link_history::find_deleted(db, &caller.tenant, link_id, now).await?;
                deleted.ok_or_else(ApiError::not_found)?
            }
        }
    };
    // A cursor is of this link, and of no other that has its ID later.
    let page = request.of(app, caller, Cow::from(format!("/v1/links/{link_id}/history#{link}")))?;
    let mut found: Vec<(String, LinkVersion)> =
        page.read(move |mut db, _, span| async move { link_history::list(&mut db, link, &span).await }.boxed()).await?;
    let next_cursor = page.end(&mut found, |(version, _)| version)?;
    Ok(LinkHistory::new(found.into_iter().map(|(_, version)| version).collect(), next_cursor))
}

/// One of the caller's links that is not deleted.
async fn live(db: &mut Conn<'_>, caller: &Caller, link_id: &str) -> Result<Option<Link>, ApiError> {
    if !is_link_id(link_id) {
        return Ok(None);
    }
    Ok(links::find(db, &caller.tenant, link_id).await?)
}

/// Restores an earlier version of a link, or a deleted link. By default, the last change is undone.
///
/// Restoring is recorded as a change, so it can be undone too. A link that was deleted in the last 30 days is created again, with
/// its clicks. Restoring a version of a link that is not deleted does not change its affiliate. Aliases that have since been
/// assigned to another link are not restored.
#[utoipa::path(
    post, path = "/v1/links/{link_id}/restore", operation_id = "restore_link", tag = "links", security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's ID", example = "spring-42"), IdempotencyKey),
    request_body = RestoreLink,
    responses(
        (status = 200, description = "The restored link", body = LinkDetail, headers(("Idempotency-Replayed" = String))),
        FullKey, KeyedBody, NotFound,
        (status = 400, description = "A URL in that version is blocked (`threat_detected`), or the account would have more than 1,000 different tags (`tag_limit`)", body = ErrorBody),
        (status = 402, description = "The plan's link limit has been reached", body = ErrorBody),
        (status = 404, description = "No such link (`not_found`); or no such version, or no change to undo (`version_not_found`)", body = ErrorBody),
        (status = 409, description = "Another link has the ID, as its own or as an alias (`link_id_taken`), or the operator has disabled the link (`disabled_by_operator`)", body = ErrorBody),
    )
)]
pub(crate) async fn restore(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
    request: Request,
) -> Result<Answer<LinkDetail>, ApiError> {
    let (once, asked) = Once::json::<RestoreLink>(request, &caller, BODY_LIMIT).await?;
    restore_for(&app, caller, once, link_id, asked).await
}

/// Restores one of the caller's links.
pub(crate) async fn restore_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    link_id: String,
    asked: RestoreLink,
) -> Result<Answer<LinkDetail>, ApiError> {
    if !is_link_id(&link_id) {
        return Err(ApiError::not_found());
    }
    // A number beyond the range is no version's.
    let version = asked.version.map(|version| i64::try_from(version).unwrap_or(i64::MAX));
    let (now, tenant, id) = (app.clock.now(), caller.tenant.clone(), link_id.clone());
    let answer = app.once(once, Restore { app: Arc::clone(app), caller, link_id, version, now }).await?;
    if !answer.is_replay() {
        return Ok(answer);
    }
    answer.rebuilt(|link: LinkDetail| {
        // Another node may have restored it.
        app.links.drop_link(tenant.as_str(), &id);
        app.forget_aliases(&tenant, link.aliases.iter().map(String::as_str));
        link
    })
}

struct Restore {
    app: Shared,
    caller: Arc<Caller>,
    link_id: String,
    version: Option<i64>,
    now: Timestamp,
}

impl Work for Restore {
    type Made = LinkDetail;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<LinkDetail>, ApiError> {
        let tenant = &self.caller.tenant;
        // The account's row before any link's, as everywhere, so that no two writes deadlock.
        tenants::lock(tx, tenant).await?;
        let (mut link, held) = match live(tx, &self.caller, &self.link_id).await? {
            Some(link) => (self.change(tx, &link).await?, link.content.aliases),
            None => match link_history::find_deleted(tx, tenant, &self.link_id, self.now).await? {
                Some(deleted) => (self.bring_back(tx, deleted).await?, Vec::new()),
                None => return Err(ApiError::not_found()),
            },
        };
        let tags = std::mem::take(&mut link.content.tags);
        tags::replace(&self.app, tx, &mut link, &tags, self.now).await?;
        let primary = domains::primary_of(tx, tenant).await?;
        aliases::restore(&self.app, tx, &mut link, &held, self.now).await?;
        notices::link_changed(tx, tenant, &self.link_id).await?;
        done(self.app.detail(link, primary.as_deref(), self.now))
    }

    fn committed(&self, app: &Shared, made: &LinkDetail) {
        app.links.drop_link(self.caller.tenant.as_str(), &self.link_id);
        app.forget_aliases(&self.caller.tenant, made.aliases.iter().map(String::as_str));
    }
}

impl Restore {
    /// A version, unless it leads where links may not.
    async fn checked(&self, tx: &mut Conn<'_>, version: Link) -> Result<Link, ApiError> {
        self.app.threats.check(version.content.urls())?;
        refuse_taken_down(tx, &self.caller.tenant, version.content.urls()).await?;
        Ok(version)
    }

    /// Changes a link to one of its versions; the tags and aliases are those that it shall have.
    async fn change(&self, tx: &mut Conn<'_>, link: &Link) -> Result<Link, ApiError> {
        let tenant = &self.caller.tenant;
        let version = match self.version {
            Some(_) => {
                let found = link_history::find(tx, (tenant, link.position), self.version).await?;
                let mut version = found.ok_or_else(no_version)?;
                let aliases = std::mem::take(&mut version.content.aliases);
                // Otherwise a version would be recorded although nothing changes.
                version.content.aliases =
                    crate::db::aliases::available(tx, tenant, aliases, &link.content.aliases).await?;
                version
            }
            None => match link_history::find_other(tx, (tenant, link.position), &link.content).await? {
                Some(version) => version,
                // The caller may mean the deleted link that had this ID.
                None if link_history::find_deleted(tx, tenant, &self.link_id, self.now).await?.is_some() => {
                    return Err(ApiError::link_id_taken(&self.link_id));
                }
                None => return Err(nothing_to_undo()),
            },
        };
        let version = self.checked(tx, version).await?;
        let mut patch = LinkPatch::to(version.content);
        // What stays as it is needs no permission.
        patch.enabled = patch.enabled.filter(|enabled| *enabled == link.content.is_disabled);
        let (tags, aliases) = (patch.tags.clone().unwrap_or_default(), patch.aliases.clone().unwrap_or_default());
        let change = self.caller.changes(LinkChange::Restored, self.now);
        match links::update(tx, tenant, &self.link_id, &patch, &change).await? {
            Updated::Link(mut link) => {
                (link.content.tags, link.content.aliases) = (tags, aliases);
                Ok(*link)
            }
            Updated::NoLink => Err(ApiError::not_found()),
            Updated::TakenDown(field) => Err(taken_down(field).into()),
        }
    }

    /// Creates a deleted link again, under the same position, so that its clicks are its own. If it had its ID on the service's
    /// host, it must have that again, because printed links are there.
    async fn bring_back(&self, tx: &mut Conn<'_>, deleted: i64) -> Result<Link, ApiError> {
        let tenant = &self.caller.tenant;
        let Some(last) = link_history::find(tx, (tenant, deleted), None).await? else { return Err(no_version()) };
        let Some(version) = link_history::find(tx, (tenant, deleted), self.version).await? else {
            return Err(no_version());
        };
        let (mut link, rule) = (last.clone(), last.rule_end());
        link.content = self.checked(tx, version).await?.content;
        link.content.affiliate_id.clone_from(&last.content.affiliate_id);
        within(tenants::count_links(tx, tenant, 1, self.app.quotas_at(self.now)).await?)?;
        let primary = domains::primary_of(tx, tenant).await?;
        link.set_ends(link.content.expires_at, rule.filter(|_| primary.is_none()));
        link.set_enabled(!link.content.is_disabled);
        link.updated_at = self.now;
        match links::insert(tx, &link, last.claimed || primary.is_none()).await? {
            // A new row has the time of its creation as that of its last change.
            Inserted::Yes => links::store(tx, &link).await?,
            Inserted::Taken | Inserted::Collided if links::is_hidden(tx, tenant, &self.link_id).await? => {
                return Err(taken_down("enabled").into());
            }
            Inserted::Taken | Inserted::Collided => return Err(ApiError::link_id_taken(&self.link_id)),
        }
        link_history::bring_back(tx, deleted).await?;
        let change = self.caller.changes(LinkChange::Restored, self.now);
        link_history::record(tx, std::slice::from_ref(&last), &change).await?;
        Ok(link)
    }
}

/// The error for a link that is what it always was.
fn nothing_to_undo() -> ApiError {
    Invalid::whole(ErrorCode::VersionNotFound, "there is no change to undo").into()
}

/// The error for a version that does not exist, or is no longer kept.
fn no_version() -> ApiError {
    Invalid::field(ErrorCode::VersionNotFound, "version", "the link has no such version").into()
}
