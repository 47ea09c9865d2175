//! Sending what failed again: a webhook's failed deliveries since a time.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{Request, State};
use deeplink_core::error::ErrorBody;
use deeplink_core::id::{DeliveryId, EventId, WebhookId};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{MAX_REPLAYED, ReplayDeliveries, ReplayedDeliveries};

use super::deliveries::not_active;
use super::webhooks::{find, named, not_there};
use crate::caller::Caller;
use crate::db::deliveries::{self, NewDelivery};
use crate::db::{Conn, delivery_log, webhooks};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, IdempotencyKey, KeyedBody, NotFound};
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::notifier::Notification;
use crate::state::Shared;

/// Sends the events of failed deliveries again, each as a new delivery: the same bytes with the same `webhook-id`.
///
/// It is about the newest 1,000 that failed since a time and were not sent again since; `has_more` says that there are
/// older ones, which another request sends. An event that failed several times is sent once.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook_id}/replay", operation_id = "replay_deliveries", tag = "webhooks", security(("secret_key" = [])),
    params(("webhook_id" = String, Path, description = "The webhook's id"), IdempotencyKey),
    request_body = ReplayDeliveries,
    responses(
        (status = 200, description = "How many deliveries were created: pending and tried at once, or dropped when 100,000 deliveries of the webhook are already pending", body = ReplayedDeliveries, headers(("Idempotency-Replayed" = String))),
        FullKey, KeyedBody, NotFound,
        (status = 400, description = "`since` is missing or malformed, `status` is not `failed`, or the webhook is not active", body = ErrorBody),
    )
)]
pub(crate) async fn replay(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    request: Request,
) -> Result<Answer<ReplayedDeliveries>, ApiError> {
    let id = named(&id)?;
    find(&app, &caller, &id).await?;
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, &format!("/v1/webhooks/{id}/replay"), &body)?;
    let asked = parse::<ReplayDeliveries>(&body)?;
    asked.check()?;
    replay_for(&app, caller, once, id, asked.since).await
}

/// Sends again what failed since a time: as much as does not hold up other writes.
pub(crate) async fn replay_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    webhook: WebhookId,
    since: Timestamp,
) -> Result<Answer<ReplayedDeliveries>, ApiError> {
    let now = app.clock.now();
    app.once(once, Replay { app: Arc::clone(app), caller, webhook, since, now }).await
}

struct Replay {
    app: Shared,
    caller: Arc<Caller>,
    webhook: WebhookId,
    since: Timestamp,
    now: Timestamp,
}

impl Work for Replay {
    type Made = ReplayedDeliveries;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<ReplayedDeliveries>, ApiError> {
        let (tenant, now) = (&self.caller.tenant, self.now);
        let webhook = webhooks::find(tx, tenant, &self.webhook).await?.ok_or_else(not_there)?;
        if !webhook.active {
            return Err(not_active());
        }
        let mut failed = delivery_log::failed_since(tx, (tenant, &webhook.id), self.since, MAX_REPLAYED + 1).await?;
        let has_more = failed.len() > MAX_REPLAYED as usize;
        failed.truncate(MAX_REPLAYED as usize);
        let mut seen = HashSet::new();
        failed.retain(|(_, event)| seen.insert(event.as_str().to_owned()));
        let mut replays: Vec<(DeliveryId, DeliveryId, EventId)> = Vec::with_capacity(failed.len());
        let kept_until = self.app.kept_until(now);
        for (before, event) in failed {
            // An event that is no longer kept cannot be sent.
            if delivery_log::keep_event(tx, &event, kept_until).await? {
                replays.push((self.app.random(|random| DeliveryId::new(now, random)), before, event));
            }
        }
        let (turn, is_dropped) = (webhook.turn, webhook.is_full);
        let rows = replays.iter().map(|(id, _, event)| {
            let webhook = &webhook.id;
            NewDelivery { id, tenant, webhook, turn, event, is_dropped, now }
        });
        let rows: Vec<_> = rows.collect();
        deliveries::insert(tx, &rows).await?;
        for (id, before, _) in &replays {
            delivery_log::note_replay(tx, id, before).await?;
        }
        done(ReplayedDeliveries::new(u32::try_from(replays.len()).unwrap_or(MAX_REPLAYED), has_more))
    }

    fn committed(&self, app: &Shared, _: &ReplayedDeliveries) {
        app.notifier.notify(Notification::Deliveries(self.caller.tenant.clone()));
    }
}
