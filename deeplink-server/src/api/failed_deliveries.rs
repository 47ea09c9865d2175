//! Sending what failed again: all of a webhook's failed deliveries since a moment.

use std::collections::HashSet;
use std::sync::Arc;

use deeplink_core::id::{DeliveryId, EventId, WebhookId};
use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::deliveries::not_active;
use super::webhooks::not_there;
use crate::caller::Caller;
use crate::db::deliveries::{self, NewDelivery};
use crate::db::{Conn, delivery_log, webhooks};
use crate::error::ApiError;
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::notifier::Notification;
use crate::state::Shared;

/// Maximum deliveries that one request sends again, so that it does not hold up other writes.
pub(crate) const MAX_REPLAYED: u32 = 1_000;

/// What was sent again.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Replayed {
    /// How many events.
    pub(crate) count: usize,
    /// Whether older failed deliveries were left, because there are too many.
    pub(crate) has_more: bool,
}

/// Sends the events of all deliveries again that failed since a moment, each as a new delivery; the newest, if there are
/// too many. An event that failed several times is sent once.
pub(crate) async fn replay_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    webhook: WebhookId,
    since: Timestamp,
) -> Result<Answer<Replayed>, ApiError> {
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
    type Made = Replayed;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<Replayed>, ApiError> {
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
        done(Replayed { count: replays.len(), has_more })
    }

    fn committed(&self, app: &Shared, _: &Replayed) {
        app.notifier.notify(Notification::Deliveries(self.caller.tenant.clone()));
    }
}
