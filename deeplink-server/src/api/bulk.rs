//! Many links in one request, all or none.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::bulk::{Batch, BatchRefused, BulkCreate, BulkCreated, BulkLink, RowError};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::link::NewLink;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::links::{affiliate_not_found, check_affiliate, new_link, within};
use crate::db::links::{self, Inserted, Link};
use crate::db::replies::Reply;
use crate::db::{Conn, affiliates, domains, tenants};
use crate::error::ApiError;
use crate::http::auth::{Caller, LinkWriter};
use crate::http::extract::{BULK_BODY_LIMIT, json_body, parse};
use crate::http::once::{Answer, Once};
use crate::state::Shared;

/// Creates up to 100 links, all or none.
///
/// Either `template` with `custom_ids`, `template` with `count`, or `links` that differ. When rows are wrong, nothing
/// is stored and every one of them is listed.
#[utoipa::path(
    post, path = "/v1/links/bulk", operation_id = "bulk_create_links", tag = "links", security(("secret_key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255)),
    request_body = BulkCreate,
    responses(
        (status = 201, description = "All created, in the order of the request", body = BulkCreated, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "The batch breaks a rule; with `invalid_batch`, `errors` lists every failing row", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 402, description = "The plan's limit is reached", body = ErrorBody),
        (status = 404, description = "The template's affiliate is not there (`affiliate_not_found`)", body = ErrorBody),
        (status = 409, description = "The idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 1 MiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let body = json_body(request, BULK_BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, "POST", "/v1/links/bulk", &body)?;
    let batch = checked(&caller, parse(&body)?)?;
    let job = Arc::new(Create { app: Arc::clone(&app), caller, once, batch, now: app.clock.now() });
    let (kept, replayed) = app
        .db
        .write({
            let job = Arc::clone(&job);
            move |tx| {
                let job = Arc::clone(&job);
                async move { job.run(tx).await }.boxed()
            }
        })
        .await?;
    for id in &kept.ids {
        app.links.drop_link(job.caller.tenant.as_str(), id);
    }
    let links = kept.ids.iter().map(|id| BulkLink { link_id: id.clone(), url: format!("{}{id}", kept.base) }).collect();
    let body = serde_json::to_string(&BulkCreated { links }).map_err(|error| ApiError::Internal(error.to_string()))?;
    let reply = Reply { status: StatusCode::CREATED.as_u16(), location: Some("/v1/links".into()), body };
    Ok(Answer { reply, replayed }.into_response())
}

/// Applies the rules that need no account. A scoped credential's affiliate takes the place of whatever is named.
fn checked(caller: &Caller, mut bulk: BulkCreate) -> Result<Batch, ApiError> {
    if caller.affiliate.is_some() {
        for link in bulk.template.iter_mut().chain(bulk.links.iter_mut().flatten()) {
            link.affiliate_id = None;
        }
    }
    let pin = |link: &mut NewLink| {
        if caller.affiliate.is_some() {
            link.affiliate_id.clone_from(&caller.affiliate);
        }
    };
    let mut batch = bulk.check().map_err(|refused| match refused {
        BatchRefused::Whole(invalid) => ApiError::Invalid(invalid),
        BatchRefused::Rows(rows) => ApiError::Rows(rows),
    })?;
    match &mut batch {
        Batch::Named { template, .. } | Batch::Generated { template, .. } => pin(template),
        Batch::Different(links) => links.iter_mut().for_each(pin),
    }
    Ok(batch)
}

/// What an idempotency key keeps of a batch: from these the same bytes are made again.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    base: String,
    ids: Vec<String>,
}

struct Create {
    app: Shared,
    caller: Arc<Caller>,
    once: Once,
    batch: Batch,
    now: Timestamp,
}

impl Create {
    async fn run(&self, mut tx: Conn<'_>) -> Result<(Kept, bool), ApiError> {
        if let Some(reply) = self.once.claim(&mut tx, self.now).await? {
            let kept = serde_json::from_str(&reply.body).map_err(|error| ApiError::Internal(error.to_string()))?;
            return Ok((kept, true));
        }
        let primary = domains::primary_of(&mut tx, &self.caller.tenant).await?;
        let mut rows = self.rows(&mut tx, primary.as_deref()).await?;
        // The tenant's row before any link's, as everywhere: otherwise a batch and a create of one of its ids would wait
        // for each other. Whether the plan holds them is said after the rows.
        let links = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let enforce = self.app.config.enforce_quotas;
        let counted = tenants::count_links(&mut tx, &self.caller.tenant, links, enforce).await?;
        let ids = self.store(&mut tx, &mut rows, primary.as_deref()).await?;
        within(counted)?;
        let kept = Kept { base: self.app.link_url("", primary.as_deref()), ids };
        let body = serde_json::to_string(&kept).map_err(|error| ApiError::Internal(error.to_string()))?;
        let reply = Reply { status: StatusCode::CREATED.as_u16(), location: None, body };
        self.once.keep(&mut tx, &reply).await?;
        Ok((kept, false))
    }

    /// The links to store, in the order of the request, once their affiliates are known to be the tenant's.
    async fn rows(&self, tx: &mut Conn<'_>, primary: Option<&str>) -> Result<Vec<Link>, ApiError> {
        let (app, caller) = (&self.app, &self.caller);
        let mut contents: Vec<NewLink> = match &self.batch {
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
            Batch::Different(links) => {
                self.check_affiliates(tx, links).await?;
                links.clone()
            }
        };
        Ok(contents.drain(..).map(|content| new_link(app, caller, content, primary, self.now)).collect())
    }

    async fn check_affiliates(&self, tx: &mut Conn<'_>, links: &[NewLink]) -> Result<(), ApiError> {
        if self.caller.affiliate.is_some() {
            return Ok(());
        }
        let mut errors = Vec::new();
        for (index, link) in (0_u64..).zip(links) {
            if let Some(id) = &link.affiliate_id
                && !affiliates::belongs(tx, &self.caller.tenant, id).await?
            {
                errors.push(RowError::new(index, affiliate_not_found(), link.custom_id.clone()));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Rows(errors)) }
    }

    /// Stores all rows or lists those that cannot be. The ids come back in the order of the request.
    async fn store(
        &self,
        tx: &mut Conn<'_>,
        rows: &mut [Link],
        primary: Option<&str>,
    ) -> Result<Vec<String>, ApiError> {
        // In key order, so that two batches with common ids wait for each other instead of locking each other out.
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|a, b| rows[*a].link_id.cmp(&rows[*b].link_id));
        let sorted: Vec<Link> = order.iter().map(|at| rows[*at].clone()).collect();
        let mut taken = Vec::new();
        for at in links::insert_many(tx, &sorted).await?.into_iter().filter_map(|at| order.get(at)) {
            if !self.store_alone(tx, &mut rows[*at], primary).await? {
                taken.push(*at);
            }
        }
        if taken.is_empty() {
            return Ok(rows.iter().map(|row| row.link_id.clone()).collect());
        }
        taken.sort_unstable();
        let error = |at: usize| {
            let id = &rows[at].link_id;
            let invalid =
                Invalid::field(ErrorCode::LinkIdTaken, "custom_id", format!("the id \"{id}\" is already in use"));
            RowError::new(at as u64, invalid, Some(id.clone()))
        };
        Err(ApiError::Rows(taken.into_iter().map(error).collect()))
    }

    /// Stores a row that did not go in with the others: without the claim, or under another generated id. `false` when
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
        Err(ApiError::Internal("no free link id was found".into()))
    }
}
