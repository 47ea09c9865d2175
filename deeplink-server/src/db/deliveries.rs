//! Events on their way to webhooks.

use deeplink_core::id::{DeliveryId, EventId, TenantId, WebhookId};
use deeplink_core::time::Timestamp;

use super::{Conn, DbError, on};

/// A delivery to store, in the transaction of what it tells of.
#[derive(Debug, Clone)]
pub(crate) struct NewDelivery<'a> {
    pub(crate) id: &'a DeliveryId,
    pub(crate) tenant: &'a TenantId,
    pub(crate) webhook: &'a WebhookId,
    pub(crate) event: &'a EventId,
    /// So many wait already that this one is noted and dropped.
    pub(crate) is_dropped: bool,
    pub(crate) now: Timestamp,
}

/// Stores a delivery, due at once. The event's row is stored with it or before it.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewDelivery<'_>) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, state, tries, due_at, log, created_at)
        VALUES ($1, $2, $3, $4, $5, 0, $6, '[]', $6)";
    const COUNT: &str = "UPDATE webhooks SET dropped = dropped + 1 WHERE id = $1";
    let state = if new.is_dropped { 4 } else { 0 };
    on!(db, c => sqlx::query(SQL)
        .bind(new.id.as_str()).bind(new.tenant.as_str()).bind(new.webhook.as_str()).bind(new.event.as_str())
        .bind(state).bind(new.now.as_millis())
        .execute(c).await.map(|_| ()))
    .map_err(DbError::drawn)?;
    if new.is_dropped {
        on!(db, c => sqlx::query(COUNT).bind(new.webhook.as_str()).execute(c).await.map(|_| ()))?;
    }
    Ok(())
}
