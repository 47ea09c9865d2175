//! Many links in one request, all or none.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::bulk::{Batch, BulkCreate, BulkCreated, BulkLink, Judged, RowError};
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
use crate::state::{App, Shared};

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
    let judged = judged(&caller, parse(&body)?)?;
    let job = Arc::new(Create { app: Arc::clone(&app), caller, once, judged, now: app.clock.now() });
    let (kept, replayed) = App::to_the_end(async move {
        let done = app
            .db
            .write({
                let job = Arc::clone(&job);
                move |tx| {
                    let job = Arc::clone(&job);
                    async move { job.run(tx).await }.boxed()
                }
            })
            .await?;
        for id in &done.0.ids {
            app.links.drop_link(job.caller.tenant.as_str(), id);
        }
        Ok(done)
    })
    .await?;
    let links = kept.ids.iter().map(|id| BulkLink { link_id: id.clone(), url: format!("{}{id}", kept.base) }).collect();
    let body = serde_json::to_string(&BulkCreated { links }).map_err(|error| ApiError::Internal(error.to_string()))?;
    let reply = Reply { status: StatusCode::CREATED.as_u16(), location: Some("/v1/links".into()), body };
    Ok(Answer { reply, replayed }.into_response())
}

/// Applies the rules that need no account. A scoped credential's affiliate takes the place of whatever is named.
fn judged(caller: &Caller, mut bulk: BulkCreate) -> Result<Judged, ApiError> {
    let Some(own) = &caller.affiliate else { return Ok(bulk.judge()?) };
    for link in bulk.template.iter_mut().chain(bulk.links.iter_mut().flatten()) {
        link.affiliate_id = None;
    }
    let mut judged = bulk.judge()?;
    let pin = |link: &mut NewLink| link.affiliate_id = Some(own.clone());
    match &mut judged.batch {
        Batch::Named { template, .. } | Batch::Generated { template, .. } => pin(template),
        Batch::Different(links) => links.iter_mut().for_each(pin),
    }
    Ok(judged)
}

/// What an idempotency key keeps of a batch: from these the same bytes are made again.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    base: String,
    ids: Vec<String>,
}

fn taken(index: u64, id: &str) -> RowError {
    let message = format!("the id \"{id}\" is already in use");
    RowError::new(index, Invalid::field(ErrorCode::LinkIdTaken, "custom_id", message), Some(id.to_owned()))
}

struct Create {
    app: Shared,
    caller: Arc<Caller>,
    once: Once,
    judged: Judged,
    now: Timestamp,
}

impl Create {
    async fn run(&self, mut tx: Conn<'_>) -> Result<(Kept, bool), ApiError> {
        if let Some(reply) = self.once.claim(&mut tx, self.now).await? {
            let kept = serde_json::from_str(&reply.body).map_err(|error| ApiError::Internal(error.to_string()))?;
            return Ok((kept, true));
        }
        if let Batch::Named { template, .. } | Batch::Generated { template, .. } = &self.judged.batch {
            self.app.threats.check(&template.destinations)?;
        }
        // The tenant's row before anything else of the tenant's, as everywhere: otherwise a batch and a create of one of
        // its ids would wait for each other, and a first primary domain could be verified unseen between the look for it
        // and the rows. Whether the plan holds them is said after the rows.
        let links = i64::try_from(self.judged.batch.len()).unwrap_or(i64::MAX);
        let enforce = self.app.config.enforce_quotas;
        let counted = tenants::count_links(&mut tx, &self.caller.tenant, links, enforce).await?;
        let primary = domains::primary_of(&mut tx, &self.caller.tenant).await?;
        let mut rows = self.rows(&mut tx, primary.as_deref()).await?;
        self.refuse_bad_rows(&mut tx, &rows, primary.is_none()).await?;
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

    /// When any row is bad, every row is looked at, so that one reply lists all that is wrong.
    async fn refuse_bad_rows(&self, tx: &mut Conn<'_>, rows: &[Link], must_claim: bool) -> Result<(), ApiError> {
        let mut errors = self.judged.errors.clone();
        let mut refused = HashSet::new();
        if matches!(self.judged.batch, Batch::Different(_)) {
            for (index, row) in self.judged.indexes.iter().zip(rows) {
                if let Err(threat) = self.app.threats.check(&row.content.destinations) {
                    errors.push(RowError::new(*index, threat, row.content.custom_id.clone()));
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
                && links::is_taken(tx, row.tenant.as_str(), &row.link_id, must_claim).await?
            {
                errors.push(taken(*index, &row.link_id));
            }
        }
        errors.sort_by_key(|error| error.index);
        Err(ApiError::Rows(errors))
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
        let mut errors = Vec::new();
        for at in links::insert_many(tx, &sorted).await?.into_iter().filter_map(|at| order.get(at)) {
            if !self.store_alone(tx, &mut rows[*at], primary).await? {
                errors.push(taken(*at as u64, &rows[*at].link_id));
            }
        }
        if errors.is_empty() {
            return Ok(rows.iter().map(|row| row.link_id.clone()).collect());
        }
        errors.sort_by_key(|error| error.index);
        Err(ApiError::Rows(errors))
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
