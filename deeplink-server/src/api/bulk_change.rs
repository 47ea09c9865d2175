//! Many links changed or deleted in one request: all or nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::{Request, State};
use deeplink_core::bulk::{BulkChange, BulkDelete, BulkDeleted, BulkUpdate, BulkUpdated, RowError};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::link::{LinkChange, LinkDetail, LinkPatch, is_link_id};
use deeplink_core::tag::{MAX_TAGS, Tag};
use deeplink_core::time::Timestamp;

use super::links::{check_look, check_patch, may_open, taken_down};
use crate::caller::Caller;
use crate::db::link_history::{self, Change};
use crate::db::links::{self, Link};
use crate::db::takedowns::{self, Blocked};
use crate::db::{Conn, aliases, domains, notices, tags, tenants};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, IdempotencyKey, KeyedBody};
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::state::{App, Shared};

/// Changes up to 100 links, all or nothing.
///
/// `set` works like an update of a single link; `add_tags` and `remove_tags` change the tags that each link has. If any link
/// cannot be changed, none is, and every such link is listed.
#[utoipa::path(
    patch, path = "/v1/links/bulk", operation_id = "bulk_update_links", tag = "links", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = BulkUpdate,
    responses(
        (status = 200, description = "All changed, in the order of the request", body = BulkUpdated, headers(("Idempotency-Replayed" = String))),
        FullKey, KeyedBody,
        (status = 400, description = "The change is invalid; with `invalid_batch`, `errors` lists every link that cannot be changed (`not_found`, `disabled_by_operator`). With `tag_limit`, the account would have more than 1,000 different tags", body = ErrorBody),
        (status = 413, description = "The body is larger than 1 MiB", body = ErrorBody),
    )
)]
pub(crate) async fn update(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<BulkUpdated>, ApiError> {
    let (once, asked, permit) = Once::batch::<BulkUpdate>(&app, request, &caller).await?;
    let change = asked.check()?;
    drop(permit);
    let ids: Vec<String> = change.link_ids.iter().map(|(_, id)| id.clone()).collect();
    let answer = update_for(&app, Arc::clone(&caller), once, change).await?;
    // The links as they are now, also for a repeat: they can be two megabytes, too much to keep for each key.
    let links = details(&app, &caller.tenant, &ids).await?;
    answer.rebuilt(|_| BulkUpdated { links })
}

/// Changes links of the caller. Returns how many became different.
pub(crate) async fn update_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    change: BulkChange,
) -> Result<Answer<u64>, ApiError> {
    let (once, now) = (once.of_rows(change.link_ids.len()), app.clock.now());
    app.once(once, Update { app: Arc::clone(app), caller, change, now }).await
}

/// These links of the caller, each with its index in the request, or an error for every one that does not exist.
pub(crate) async fn all_for(app: &App, caller: &Caller, ids: &[(u64, String)]) -> Result<Vec<LinkDetail>, ApiError> {
    let asked: Vec<String> = ids.iter().map(|(_, id)| id.clone()).collect();
    let links = details(app, &caller.tenant, &asked).await?;
    let missing = ids.iter().filter(|(_, id)| links.iter().all(|link| link.link_id != *id));
    refuse(missing.map(|(index, id)| RowError::new(*index, no_link(), Some(id.clone()))).collect())?;
    Ok(links)
}

/// Those of these links that exist, in this order.
async fn details(app: &App, tenant: &TenantId, ids: &[String]) -> Result<Vec<LinkDetail>, ApiError> {
    let now = app.clock.now();
    let mut reader = app.db.read().await?;
    let known: Vec<&str> = ids.iter().map(String::as_str).filter(|id| is_link_id(id)).collect();
    let mut links = links::find_many(&mut reader.conn(), tenant, &known).await?;
    links.sort_by_cached_key(|link| ids.iter().position(|id| *id == link.link_id));
    let primary = domains::primary_of(&mut reader.conn(), tenant).await?;
    Ok(links.into_iter().map(|link| app.detail(link, primary.as_deref(), now)).collect())
}

/// Deletes up to 100 links, all or nothing, effective immediately. Their clicks remain in the account's totals.
#[utoipa::path(
    delete, path = "/v1/links/bulk", operation_id = "bulk_delete_links", tag = "links", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = BulkDelete,
    responses(
        (status = 200, description = "All deleted", body = BulkDeleted, headers(("Idempotency-Replayed" = String))),
        FullKey, KeyedBody,
        (status = 400, description = "The request is invalid; with `invalid_batch`, `errors` lists every link that does not exist", body = ErrorBody),
        (status = 413, description = "The body is larger than 1 MiB", body = ErrorBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<BulkDeleted>, ApiError> {
    let (once, asked, permit) = Once::batch::<BulkDelete>(&app, request, &caller).await?;
    let ids = asked.check()?;
    drop(permit);
    delete_for(&app, caller, once, ids).await
}

/// Deletes links of the caller, each with its index in the request.
pub(crate) async fn delete_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    ids: Vec<(u64, String)>,
) -> Result<Answer<BulkDeleted>, ApiError> {
    let (once, now) = (once.of_rows(ids.len()), app.clock.now());
    app.once(once, Delete { caller, ids, now }).await
}

struct Update {
    app: Shared,
    caller: Arc<Caller>,
    change: BulkChange,
    now: Timestamp,
}

impl Work for Update {
    /// The number of links that became different.
    type Made = u64;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<u64>, ApiError> {
        let tenant = &self.caller.tenant;
        let set = self.change.set.clone().unwrap_or_default();
        check_patch(&self.app, &set, self.now)?;
        let ids: Vec<&str> =
            self.change.link_ids.iter().map(|(_, id)| id.as_str()).filter(|id| is_link_id(id)).collect();
        check_look(&self.app, tx, tenant, &set.qr, &ids).await?;
        // The account's row before any link's, as everywhere, so that no two writes deadlock.
        tenants::lock(tx, tenant).await?;
        links::lock_many(tx, tenant, &ids, self.now).await?;
        let has_tags = !self.change.add.is_empty() || !self.change.remove.is_empty();
        let what = if has_tags { LinkChange::Updated } else { set.change() };
        let change = Change { is_bulk: true, ..self.caller.changes(what, self.now) };
        let mut found: HashMap<String, Link> = HashMap::new();
        let (mut changed, mut rewritten) = (Vec::new(), HashSet::new());
        // Links that the operator has disabled, with the field that would change.
        let mut refused: HashMap<String, &'static str> = HashMap::new();
        for mut link in links::find_many(tx, tenant, &ids).await? {
            // A bulk change cannot give aliases, only take them all.
            let is_renamed = set.aliases.is_some() && !link.content.aliases.is_empty();
            if link.is_taken_down && set.enabled == Some(true) {
                refused.insert(link.link_id.clone(), "enabled");
            } else if link.is_taken_down && is_renamed {
                refused.insert(link.link_id.clone(), "aliases");
            }
            let before = link.clone();
            links::apply(set.clone(), &mut link);
            // Tags are not in its row, and when it was changed is there already.
            if link != before {
                rewritten.insert(link.position);
            }
            if link.content != before.content || is_renamed || self.retags(&set, &before.content.tags) {
                changed.push(before);
            }
            found.insert(link.link_id.clone(), link);
        }
        self.check(tx, &set, &found, &refused).await?;
        link_history::record(tx, &changed, &change).await?;
        for link in found.values().filter(|link| rewritten.contains(&link.position)) {
            links::store(tx, link).await?;
        }
        if set.aliases.is_some() {
            for link in found.values() {
                aliases::take(tx, link.position, &Vec::from_iter(&link.content.aliases)).await?;
            }
        }
        self.change_tags(tx, &set, &found).await?;
        notices::links_changed(tx, tenant, &ids).await?;
        done(changed.len() as u64)
    }

    fn committed(&self, app: &Shared, _: &u64) {
        for (_, id) in &self.change.link_ids {
            app.links.drop_link(self.caller.tenant.as_str(), id);
        }
    }
}

impl Update {
    /// Whether it changes the tags of a link that has these.
    fn retags(&self, set: &LinkPatch, tags: &[Tag]) -> bool {
        let change = &self.change;
        match &set.tags {
            Some(all) => all != tags,
            None => {
                change.add.iter().any(|tag| !tags.contains(tag)) || change.remove.iter().any(|tag| tags.contains(tag))
            }
        }
    }

    /// Fails unless every link exists and may be as it would be.
    async fn check(
        &self,
        tx: &mut Conn<'_>,
        set: &LinkPatch,
        links: &HashMap<String, Link>,
        refused: &HashMap<String, &'static str>,
    ) -> Result<(), ApiError> {
        let urls = set.urls().chain(links.values().flat_map(|link| link.content.urls())).map(|(_, url)| url);
        let blocked = if may_open(set) || set.urls().next().is_some() {
            takedowns::blocked(tx, &self.caller.tenant, urls).await?
        } else {
            Blocked::default()
        };
        blocked.check(set.urls())?;
        let check = |link: &Link| {
            if let Some(field) = refused.get(&link.link_id) {
                return Err(taken_down(field));
            }
            if may_open(set) {
                // What was refused while it did not work is not opened by making it work again.
                self.app.threats.check(link.content.urls())?;
                blocked.check(link.content.urls())?;
            }
            Ok(())
        };
        self.refuse(|id| links.get(id).ok_or_else(no_link).and_then(check))
    }

    async fn change_tags(
        &self,
        tx: &mut Conn<'_>,
        set: &LinkPatch,
        links: &HashMap<String, Link>,
    ) -> Result<(), ApiError> {
        let (add, remove) = (&self.change.add, &self.change.remove);
        if set.tags.is_none() && add.is_empty() && remove.is_empty() {
            return Ok(());
        }
        let positions: Vec<i64> = links.values().map(|link| link.position).collect();
        let draw = |count| self.app.positions.draw(self.now, count).collect();
        let tenant = &self.caller.tenant;
        let (given, full) = match &set.tags {
            Some(all) => (tags::replace(tx, tenant, &positions, all, draw).await?, Vec::new()),
            None => tags::change(tx, tenant, &positions, (add, remove), draw).await?,
        };
        super::tags::within_tags(given)?;
        let message = format!("add_tags: the link would have more than {MAX_TAGS} tags");
        self.refuse(|id| match links.get(id) {
            Some(link) if full.contains(&link.position) => {
                Err(Invalid::field(ErrorCode::InvalidTag, "add_tags", message.clone()))
            }
            _ => Ok(()),
        })
    }

    /// Fails if a rule refuses any of the links, with an error for each.
    fn refuse(&self, rule: impl Fn(&str) -> Result<(), Invalid>) -> Result<(), ApiError> {
        let refused = |(index, id): &(u64, String)| {
            rule(id).err().map(|invalid| RowError::new(*index, invalid, Some(id.clone())))
        };
        refuse(self.change.link_ids.iter().filter_map(refused).collect())
    }
}

/// The refusal of a row, which has the ID.
fn no_link() -> Invalid {
    Invalid::whole(ErrorCode::NotFound, "no link with this ID")
}

struct Delete {
    caller: Arc<Caller>,
    ids: Vec<(u64, String)>,
    now: Timestamp,
}

impl Work for Delete {
    type Made = BulkDeleted;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<BulkDeleted>, ApiError> {
        let tenant = &self.caller.tenant;
        // The account's row before any link's, as everywhere, so that no two writes deadlock.
        tenants::uncount_links(tx, tenant, i64::try_from(self.ids.len()).unwrap_or(i64::MAX)).await?;
        let change = Change { is_bulk: true, ..self.caller.changes(LinkChange::Deleted, self.now) };
        let mut errors = Vec::new();
        for (index, id) in in_key_order(&self.ids) {
            if is_link_id(id) && links::delete(tx, tenant, id, &change).await? {
                notices::link_changed(tx, tenant, id).await?;
            } else {
                errors.push(RowError::new(*index, no_link(), Some(id.clone())));
            }
        }
        refuse(errors)?;
        done(BulkDeleted { deleted: self.ids.len() as u64 })
    }

    fn committed(&self, app: &Shared, _: &BulkDeleted) {
        for (_, id) in &self.ids {
            app.links.drop_link(self.caller.tenant.as_str(), id);
        }
    }
}

/// So that two requests for the same links wait for each other instead of deadlocking.
fn in_key_order(ids: &[(u64, String)]) -> Vec<&(u64, String)> {
    let mut ordered: Vec<_> = ids.iter().collect();
    ordered.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    ordered
}

/// Fails if any link has an error; they are listed in the order of the request.
fn refuse(mut errors: Vec<RowError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    errors.sort_by_key(|error| error.index);
    Err(ApiError::Rows(errors))
}
