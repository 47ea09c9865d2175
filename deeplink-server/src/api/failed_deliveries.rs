//! Sending what failed again: a webhook's failed deliveries since a time.

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

/// Sends the events of failed deliveries again as new deliveries, with the same bytes and `webhook-id`.
///
/// Replays up to 1,000 of the newest failed deliveries that were created at `since` or later, have not been
/// delivered since, and are not already being resent. If `has_more` is true, there are others, which another
/// request replays. An event that failed several times is sent once. While 100,000 deliveries of the webhook
/// are pending, none are sent.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook_id}/replay", operation_id = "replay_deliveries", tag = "webhooks", security(("secret_key" = [])),
    params(("webhook_id" = String, Path, description = "The webhook's ID", example = "wh_0123456789abcdef01234567"), IdempotencyKey),
    request_body = ReplayDeliveries,
    responses(
        (status = 200, description = "Number of deliveries that were created; they are attempted immediately", body = ReplayedDeliveries, headers(("Idempotency-Replayed" = String))),
        FullKey, KeyedBody, NotFound,
        (status = 400, description = "`since` is missing or malformed, `status` is not `failed`, or the webhook is disabled or paused", body = ErrorBody),
    )
)]
pub(crate) async fn replay(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    request: Request,
) -> Result<Answer<ReplayedDeliveries>, ApiError> {
    let id = named(&id)?;
    if caller.is_known() {
        find(&app, &caller, &id).await?;
    }
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
        // Of two requests at once, the second finds what the first sends.
        webhooks::lock(tx, tenant, &self.webhook).await?;
        let webhook = webhooks::find(tx, tenant, &self.webhook).await?.ok_or_else(not_there)?;
        if !webhook.active {
            return Err(not_active());
        }
        let mut failed = delivery_log::failed_since(tx, (tenant, &webhook.id), self.since, MAX_REPLAYED + 1).await?;
        // They would only be dropped.
        let most = if webhook.is_full { 0 } else { MAX_REPLAYED as usize };
        let has_more = failed.len() > most;
        failed.truncate(most);
        let mut replays: Vec<(DeliveryId, DeliveryId, EventId)> = Vec::with_capacity(failed.len());
        for (before, event) in failed {
            if delivery_log::keep_event(tx, &event, self.app.kept_until(now)).await? {
                replays.push((self.app.random(|random| DeliveryId::new(now, random)), before, event));
            }
        }
        let rows = replays.iter().map(|(id, _, event)| {
            let (webhook, turn) = (&webhook.id, webhook.turn);
            NewDelivery { id, tenant, webhook, turn, event, is_dropped: false, now }
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
