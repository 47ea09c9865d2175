//! Cancels deliveries without an active webhook, and deletes old ones, in small batches.

use deeplink_core::id::WebhookId;
use deeplink_core::time::Timestamp;

use super::super::{Conn, DbError, execute, on};
use super::DeliveryState;

/// Deliveries of one batch.
const BATCH: i64 = 500;

fn was_full(rows: u64) -> bool {
    i64::try_from(rows) == Ok(BATCH)
}

/// Cancels some pending deliveries of a disabled or deleted webhook. `true` if there may be more.
pub(crate) async fn cancel_pending(db: &mut Conn<'_>, webhook: &WebhookId) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE deliveries SET state = $3
        WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = $1 AND state = 0 LIMIT $2) AND state = 0
            AND NOT EXISTS (SELECT 1 FROM webhooks WHERE id = $1 AND active = TRUE)";
    // Nothing is pending now, so nothing is dropped when it is re-enabled.
    const CLEAR: &str = "UPDATE webhooks SET is_full = FALSE WHERE id = $1 AND is_full = TRUE AND active = FALSE";
    let rows = execute!(db, SQL; webhook.as_str(), BATCH, DeliveryState::Canceled.code())?;
    if !was_full(rows) {
        execute!(db, CLEAR; webhook.as_str())?;
    }
    Ok(was_full(rows))
}

/// Deletes some deliveries that were created before `before`. `true` if there may be more.
pub(crate) async fn remove_old(db: &mut Conn<'_>, before: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        DELETE FROM deliveries WHERE id IN
            (SELECT id FROM deliveries WHERE created_at < $1 ORDER BY created_at LIMIT $2)";
    let rows = execute!(db, SQL; before.as_millis(), BATCH)?;
    Ok(was_full(rows))
}

/// Deleted webhooks that still have deliveries. It takes one index step for each webhook.
pub(crate) async fn deleted_webhooks_with_deliveries(db: &mut Conn<'_>) -> Result<Vec<String>, DbError> {
    const SQL: &str = "
        WITH RECURSIVE found (id) AS (
            SELECT MIN(webhook_id) FROM deliveries
            UNION ALL
            SELECT (SELECT MIN(d.webhook_id) FROM deliveries d WHERE d.webhook_id > found.id)
            FROM found WHERE found.id IS NOT NULL
        )
        SELECT found.id FROM found
        WHERE found.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = found.id)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).fetch_all(c).await)?)
}

/// Removes some deliveries of a deleted webhook. `true` if there may be more.
pub(crate) async fn remove_of(db: &mut Conn<'_>, webhook: &str) -> Result<bool, DbError> {
    const SQL: &str = "
        DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = $1 LIMIT $2)
            AND NOT EXISTS (SELECT 1 FROM webhooks WHERE id = $1)";
    let rows = execute!(db, SQL; webhook, BATCH)?;
    Ok(was_full(rows))
}
