//! New deliveries.

use std::collections::BTreeMap;

use deeplink_core::id::{DeliveryId, EventId, TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use sqlx::QueryBuilder;

use super::super::rows::chunks;
use super::super::{Conn, DbError, execute, on};
use super::DeliveryState;

/// A delivery to store, in the transaction that stores its event.
#[derive(Debug, Clone)]
pub(crate) struct NewDelivery<'a> {
    pub(crate) id: &'a DeliveryId,
    pub(crate) tenant: &'a TenantId,
    pub(crate) webhook: &'a WebhookId,
    /// The webhook's turn, as read in this transaction or with the event.
    pub(crate) turn: i64,
    pub(crate) event: &'a EventId,
    /// The backlog is full, so this one is only recorded.
    pub(crate) is_dropped: bool,
    pub(crate) now: Timestamp,
}

/// Stores deliveries, due at once. The row of an event is stored with its deliveries or before them.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &[NewDelivery<'_>]) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, state, tries, due_at, log, created_at, turn) ";
    const COUNT: &str = "UPDATE webhooks SET dropped = dropped + $2 WHERE id = $1";
    for chunk in chunks(new) {
        on!(db, c => {
            let mut query = QueryBuilder::new(SQL);
            query.push_values(chunk, |mut values, new| {
                let state = if new.is_dropped { DeliveryState::Dropped } else { DeliveryState::Pending };
                let now = new.now.as_millis();
                values
                    .push_bind(new.id.as_str())
                    .push_bind(new.tenant.as_str())
                    .push_bind(new.webhook.as_str())
                    .push_bind(new.event.as_str())
                    .push_bind(state.code())
                    .push("0")
                    .push_bind(now)
                    .push("'[]'")
                    .push_bind(now)
                    .push_bind(new.turn);
            });
            query.build().execute(c).await.map(|_| ())
        })
        .map_err(DbError::drawn)?;
    }
    let mut dropped = BTreeMap::new();
    for new in new.iter().filter(|new| new.is_dropped) {
        *dropped.entry(new.webhook.as_str()).or_insert(0_i64) += 1;
    }
    for (webhook, count) in dropped {
        execute!(db, COUNT; webhook, count)?;
    }
    Ok(())
}
