//! Many links in one request: all or nothing.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{Request, State};
use deeplink_core::bulk::{Batch, BulkCreate, BulkCreated, BulkLink, CheckedRows, RowError};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::link::{Alias, NewLink, check_end};
use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::links::{affiliate_not_found, check_affiliate, check_owned, new_link, within};
use super::qr_logos::Looks;
use super::{aliases, tags};
use crate::caller::Caller;
use crate::db::links::{self, Inserted, Link};
use crate::db::takedowns::{self, Blocked};
use crate::db::{Conn, affiliates, domains, tenants};
use crate::error::ApiError;
use crate::http::auth::LinkWriter;
use crate::http::documented::{AnyKey, IdempotencyKey, KeyedBody};
use crate::http::once::{Answer, Once, Outcome, Work, created, to_json};
use crate::state::Shared;

/// Creates up to 100 links, all or nothing.
///
/// Send `template` with `custom_ids`, `template` with `count`, or individual `links`. If any row is invalid,
/// nothing is stored and every invalid row is listed.
#[utoipa::path(
    post, path = "/v1/links/bulk", operation_id = "bulk_create_links", tag = "links", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = BulkCreate,
    responses(
        (status = 201, description = "All created, in the order of the request", body = BulkCreated, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        AnyKey, KeyedBody,
        (status = 400, description = "The batch is invalid; with `invalid_batch`, `errors` lists every invalid row. With `tag_limit`, the account would have more than 1,000 different tags", body = ErrorBody),
        (status = 402, description = "The plan's limit has been reached", body = ErrorBody),
        (status = 404, description = "No such affiliate (`affiliate_not_found`)", body = ErrorBody),
        (status = 413, description = "The body is larger than 1 MiB", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    request: Request,
) -> Result<Answer<BulkCreated>, ApiError> {
    let (once, asked, permit) = Once::batch::<BulkCreate>(&app, request, &caller).await?;
    let asked_aliases = asked.links.iter().flatten().map(|link| link.aliases.clone().unwrap_or_default()).collect();
    let judged = judged(&caller, asked)?;
    drop(permit);
    let (tenant, aliases) = (caller.tenant.clone(), aliases_in(&judged.batch));
    let work = Create { app: Arc::clone(&app), caller, judged, asked_aliases, now: app.clock.now() };
    let answer = app.once(once.of_rows(work.judged.batch.len()), work).await?;
    let is_replay = answer.is_replay();
    answer.rebuilt(|kept| {
        // As for one link: see `links::create_for`.
        for id in kept.ids.iter().filter(|_| is_replay) {
            app.links.drop_link(tenant.as_str(), id);
        }
        app.forget_aliases(&tenant, aliases.iter().filter(|_| is_replay).map(Alias::as_str));
        kept.shown()
    })
}

/// All aliases of a batch.
fn aliases_in(batch: &Batch) -> Vec<Alias> {
    match batch {
        Batch::Different(links) => links.iter().flat_map(|link| &link.aliases).cloned().collect(),
        Batch::Named { .. } | Batch::Generated { .. } => Vec::new(),
    }
}

/// Applies the rules that need no account. A scoped credential's affiliate replaces any that is named.
fn judged(caller: &Caller, mut bulk: BulkCreate) -> Result<CheckedRows, ApiError> {
    let Some(own) = &caller.affiliate else { return Ok(bulk.check_rows()?) };
    for link in bulk.template.iter_mut().chain(bulk.links.iter_mut().flatten()) {
        link.affiliate_id = None;
    }
    if let Some(template) = &bulk.template {
        let has_tags = template.tags.as_ref().is_some_and(|tags| !tags.is_empty());
        check_owned([template.name.is_some(), has_tags, false, template.imported_clicks.is_some()])?;
    }
    let mut judged = bulk.check_rows()?;
    judged.refuse(|link| {
        let has_clicks = link.imported_clicks.is_some();
        check_owned([link.name.is_some(), !link.tags.is_empty(), !link.aliases.is_empty(), has_clicks])
    });
    let pin = |link: &mut NewLink| link.affiliate_id = Some(own.clone());
    match &mut judged.batch {
        Batch::Named { template, .. } | Batch::Generated { template, .. } => pin(template),
        Batch::Different(links) => links.iter_mut().for_each(pin),
    }
    Ok(judged)
}

/// What an idempotency key stores of a batch: enough to rebuild the same reply.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredReply {
    base: String,
    ids: Vec<String>,
}

impl StoredReply {
    /// The body of the reply.
    fn shown(self) -> BulkCreated {
        let link = |id| BulkLink { url: format!("{}{id}", self.base), link_id: id };
        BulkCreated { links: self.ids.into_iter().map(link).collect() }
    }
}

fn taken(index: u64, id: &str) -> RowError {
    let message = format!("the ID \"{id}\" is already in use");
    RowError::new(index, Invalid::field(ErrorCode::LinkIdTaken, "custom_id", message), Some(id.to_owned()))
}

struct Create {
    app: Shared,
    caller: Arc<Caller>,
    judged: CheckedRows,
    /// The aliases of each link in the request, in its order.
    asked_aliases: Vec<Vec<String>>,
    now: Timestamp,
}

impl Work for Create {
    type Made = StoredReply;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<StoredReply>, ApiError> {
        if let Batch::Named { template, .. } | Batch::Generated { template, .. } = &self.judged.batch {
            check_end(template.expires_at, self.now)?;
            self.app.threats.check(template.urls())?;
        }
        let looks =
            Looks::of(&self.app, tx, &self.caller.tenant, self.contents().filter_map(|link| link.qr.as_ref())).await?;
        if let Batch::Named { template, .. } | Batch::Generated { template, .. } = &self.judged.batch {
            looks.check(template.qr.as_ref())?;
        }
        // Lock the tenant's row before its other rows, as everywhere: otherwise a batch and a create of one of its ids
        // would deadlock, and a first primary domain could be verified between its look-up and the insert. The plan's
        // limit is reported after errors in rows.
        let links = i64::try_from(self.judged.batch.len()).unwrap_or(i64::MAX);
        let enforced_at = self.app.quotas_at(self.now);
        let counted = tenants::count_links(tx, &self.caller.tenant, links, enforced_at).await?;
        let blocked = takedowns::blocked(tx, &self.caller.tenant, self.urls()).await?;
        if let Batch::Named { template, .. } | Batch::Generated { template, .. } = &self.judged.batch {
            blocked.check(template.urls())?;
        }
        let primary = domains::primary_of(tx, &self.caller.tenant).await?;
        let mut rows = self.rows(tx, primary.as_deref()).await?;
        self.refuse_bad_rows(tx, &rows, (&blocked, &looks), primary.as_deref()).await?;
        let mut errors = self.store(tx, &mut rows, primary.as_deref()).await?;
        errors.extend(self.give_aliases(tx, &rows, &errors).await?);
        if !errors.is_empty() {
            errors.sort_by_key(|error| error.index);
            return Err(ApiError::Rows(errors));
        }
        let ids = rows.iter().map(|row| row.link_id.clone()).collect();
        let tagged: Vec<_> = rows.iter().map(|row| (row.position, &*row.content.tags)).collect();
        tags::give(&self.app, tx, &self.caller.tenant, &tagged, self.now).await?;
        within(counted)?;
        created("/v1/links".into(), StoredReply { base: self.app.link_url("", primary.as_deref()), ids })
    }

    fn body(&self, made: &StoredReply) -> Result<String, ApiError> {
        to_json(&made.clone().shown())
    }

    fn committed(&self, app: &Shared, made: &StoredReply) {
        for id in &made.ids {
            app.links.drop_link(self.caller.tenant.as_str(), id);
        }
        app.forget_aliases(&self.caller.tenant, aliases_in(&self.judged.batch).iter().map(Alias::as_str));
    }
}

impl Create {
    /// What the rows contain.
    fn contents(&self) -> impl Iterator<Item = &NewLink> {
        let (template, links) = match &self.judged.batch {
            Batch::Named { template, .. } | Batch::Generated { template, .. } => (Some(template), &[][..]),
            Batch::Different(links) => (None, &links[..]),
        };
        template.into_iter().chain(links)
    }

    /// The URLs of the rows.
    fn urls(&self) -> impl Iterator<Item = &str> {
        self.contents().flat_map(|link| link.urls().map(|(_, url)| url))
    }

    /// The links to store, in the order of the request, after checking that their affiliates are the tenant's.
    async fn rows(&self, tx: &mut Conn<'_>, primary: Option<&str>) -> Result<Vec<Link>, ApiError> {
        let (app, caller) = (&self.app, &self.caller);
        let mut contents: Vec<NewLink> = match &self.judged.batch {
            Batch::Named { template, ids } => {
                check_affiliate(tx, caller, template.affiliate_id.as_ref()).await?;
                let named = |id: &String| {
                    let mut content = template.clone();
                    content.custom_id = Some(id.clone());
                    content
                };
                ids.iter().map(named).collect()
            }
            Batch::Generated { template, count } => {
                check_affiliate(tx, caller, template.affiliate_id.as_ref()).await?;
                vec![template.clone(); *count]
            }
            Batch::Different(links) => links.clone(),
        };
        Ok(contents.drain(..).map(|content| new_link(app, caller, content, primary, self.now)).collect())
    }

    /// If any row is bad, checks every row, so that one reply lists all errors.
    async fn refuse_bad_rows(
        &self,
        tx: &mut Conn<'_>,
        rows: &[Link],
        (blocked, looks): (&Blocked, &Looks<'_>),
        primary: Option<&str>,
    ) -> Result<(), ApiError> {
        let mut errors = self.judged.errors.clone();
        let mut refused = HashSet::new();
        if matches!(self.judged.batch, Batch::Different(_)) {
            for (index, row) in self.judged.indexes.iter().zip(rows) {
                let checked = check_end(row.content.expires_at, self.now)
                    .and_then(|()| self.app.threats.check(row.content.urls()))
                    .and_then(|()| looks.check(row.content.qr.as_ref()))
                    .and_then(|()| blocked.check(row.content.urls()))
                    .and_then(|()| aliases::check_domain(!row.content.aliases.is_empty(), primary));
                if let Err(refused_by) = checked {
                    errors.push(RowError::new(*index, refused_by, row.content.custom_id.clone()));
                    refused.insert(*index);
                }
            }
        }
        if matches!(self.judged.batch, Batch::Different(_)) && self.caller.affiliate.is_none() {
            for (index, row) in self.judged.indexes.iter().zip(rows) {
                if !refused.contains(index)
                    && let Some(id) = &row.content.affiliate_id
                    && !affiliates::belongs(tx, &self.caller.tenant, id).await?
                {
                    errors.push(RowError::new(*index, affiliate_not_found(), row.content.custom_id.clone()));
                    refused.insert(*index);
                }
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        for (index, row) in self.judged.indexes.iter().zip(rows) {
            if row.content.custom_id.is_some()
                && !refused.contains(index)
                && links::is_taken(tx, row.tenant.as_str(), &row.link_id, primary.is_none()).await?
            {
                errors.push(taken(*index, &row.link_id));
                refused.insert(*index);
            }
            for alias in row.content.aliases.iter().filter(|_| !refused.contains(index)) {
                if links::is_taken(tx, row.tenant.as_str(), alias.as_str(), false).await? {
                    errors.push(self.alias_taken(tx, *index, row, alias).await?);
                    break;
                }
            }
        }
        errors.sort_by_key(|error| error.index);
        Err(ApiError::Rows(errors))
    }

    /// Gives the rows their aliases. Returns an error for each row of which one is taken, unless its ID is.
    async fn give_aliases(
        &self,
        tx: &mut Conn<'_>,
        rows: &[Link],
        refused: &[RowError],
    ) -> Result<Vec<RowError>, ApiError> {
        let new =
            rows.iter().enumerate().flat_map(|(at, row)| row.content.aliases.iter().map(move |alias| (at, alias)));
        let new: Vec<(usize, &Alias)> = new.collect();
        let given: Vec<_> = new.iter().map(|(at, alias)| (rows[*at].position, *alias)).collect();
        let taken = aliases::give(&self.app, tx, &self.caller.tenant, &given, self.now).await?;
        let mut errors: Vec<RowError> = Vec::new();
        for (at, alias) in taken.into_iter().map(|number| new[number]) {
            let index = at as u64;
            // One error for each row.
            if refused.iter().all(|error| error.index != index) && errors.last().is_none_or(|last| last.index != index)
            {
                errors.push(self.alias_taken(tx, index, &rows[at], alias).await?);
            }
        }
        Ok(errors)
    }

    async fn alias_taken(
        &self,
        tx: &mut Conn<'_>,
        index: u64,
        row: &Link,
        alias: &Alias,
    ) -> Result<RowError, ApiError> {
        let asked = usize::try_from(index).ok().and_then(|index| self.asked_aliases.get(index));
        let asked = asked.map(Vec::as_slice).unwrap_or_default();
        let taken = aliases::taken(tx, &row.tenant, alias, asked).await?;
        Ok(RowError::new(index, taken, row.content.custom_id.clone()))
    }

    /// Stores all rows, and returns an error for each that cannot be.
    async fn store(
        &self,
        tx: &mut Conn<'_>,
        rows: &mut [Link],
        primary: Option<&str>,
    ) -> Result<Vec<RowError>, ApiError> {
        // In key order, so that two batches with common ids wait for each other instead of deadlocking.
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|a, b| rows[*a].link_id.cmp(&rows[*b].link_id));
        let sorted: Vec<Link> = order.iter().map(|at| rows[*at].clone()).collect();
        let mut errors = Vec::new();
        for at in links::insert_many(tx, &sorted).await?.into_iter().filter_map(|at| order.get(at)) {
            if !self.store_alone(tx, &mut rows[*at], primary).await? {
                errors.push(taken(*at as u64, &rows[*at].link_id));
            }
        }
        Ok(errors)
    }

    /// Stores a row that was not inserted with the others: without the claim, or under another generated id. `false` if
    /// its id is taken.
    async fn store_alone(&self, tx: &mut Conn<'_>, row: &mut Link, primary: Option<&str>) -> Result<bool, ApiError> {
        let generated = row.content.custom_id.is_none();
        for _ in 0..super::links::DRAWS {
            if generated {
                *row = new_link(&self.app, &self.caller, row.content.clone(), primary, self.now);
            }
            match links::insert(tx, row, generated || primary.is_none()).await? {
                Inserted::Yes => return Ok(true),
                Inserted::Taken if !generated => return Ok(false),
                Inserted::Taken => {}
                Inserted::Collided => {
                    row.position = self.app.positions.draw(self.now, 1).next().unwrap_or_default();
                }
            }
        }
        Err(ApiError::Internal("no unused link ID could be generated".into()))
    }
}
