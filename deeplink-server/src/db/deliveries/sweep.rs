//! Giving up what nobody waits for, and taking away what is past its time, in small batches.

use deeplink_core::id::WebhookId;
use deeplink_core::time::Timestamp;

use super::super::{Conn, DbError, on};

/// Deliveries of one batch.
const ROWS: i64 = 500;

fn was_full(rows: u64) -> bool {
    i64::try_from(rows) == Ok(ROWS)
}

/// Gives up some deliveries that wait for a webhook which is switched off or gone. `true` when there may be more.
pub(crate) async fn cancel(db: &mut Conn<'_>, webhook: &WebhookId) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE deliveries SET state = 3
        WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = $1 AND state = 0 LIMIT $2) AND state = 0
            AND NOT EXISTS (SELECT 1 FROM webhooks WHERE id = $1 AND active = TRUE)";
    // Nothing waits any more: when it is switched on again, nothing is dropped.
    const CLEAR: &str = "UPDATE webhooks SET is_full = FALSE WHERE id = $1 AND is_full = TRUE AND active = FALSE";
    let rows = on!(db, c => sqlx::query(SQL).bind(webhook.as_str()).bind(ROWS)
        .execute(c).await.map(|done| done.rows_affected()))?;
    if !was_full(rows) {
        on!(db, c => sqlx::query(CLEAR).bind(webhook.as_str()).execute(c).await.map(|_| ()))?;
    }
    Ok(was_full(rows))
}

/// Removes some deliveries that were made before `before`. `true` when there may be more.
pub(crate) async fn remove_old(db: &mut Conn<'_>, before: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        DELETE FROM deliveries WHERE id IN
            (SELECT id FROM deliveries WHERE created_at < $1 ORDER BY created_at LIMIT $2)";
    let rows = on!(db, c => sqlx::query(SQL).bind(before.as_millis()).bind(ROWS)
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(was_full(rows))
}

/// Webhooks that are gone and have deliveries still. It takes a step of the index for each webhook.
pub(crate) async fn orphaned(db: &mut Conn<'_>) -> Result<Vec<String>, DbError> {
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

/// Removes some deliveries of a webhook that is gone. `true` when there may be more.
pub(crate) async fn remove_of(db: &mut Conn<'_>, webhook: &str) -> Result<bool, DbError> {
    const SQL: &str = "
        DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = $1 LIMIT $2)
            AND NOT EXISTS (SELECT 1 FROM webhooks WHERE id = $1)";
    let rows =
        on!(db, c => sqlx::query(SQL).bind(webhook).bind(ROWS).execute(c).await.map(|done| done.rows_affected()))?;
    Ok(was_full(rows))
}
