//! How a webhook's deliveries go, on its row.

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{MAX_PENDING, PAUSED_AFTER_DAYS};

use super::super::{Conn, DbError, on};

/// What some attempts say of a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// When the last one arrived.
    pub(crate) delivered_at: Option<Timestamp>,
    /// When the first one after that failed.
    pub(crate) failed_at: Option<Timestamp>,
    /// Whether it is time to judge for how long it has failed.
    pub(crate) judges: bool,
}

impl Health {
    /// Takes one more attempt into account.
    pub(crate) fn add(&mut self, at: Timestamp, arrived: bool, judges: bool) {
        if arrived {
            *self = Self { delivered_at: Some(at), failed_at: None, judges: false };
        } else {
            self.failed_at.get_or_insert(at);
            self.judges |= judges;
        }
    }
}

/// After how long without an attempt failures begin anew: nobody knows what it was like meanwhile.
const SILENCE_MILLIS: i64 = 24 * 60 * 60 * 1_000;
/// How exactly the last failure is known, so that a webhook that fails is not written all the time.
const EXACT_MILLIS: i64 = 60 * 1_000;

/// Notes it. When the webhook has failed for three days and it is time to judge that, it is switched off, and its tenant
/// and address are given: once.
pub(crate) async fn note_health(
    db: &mut Conn<'_>,
    webhook: &WebhookId,
    health: &Health,
    now: Timestamp,
) -> Result<Option<(TenantId, String, Timestamp)>, DbError> {
    const ARRIVED: &str = "UPDATE webhooks SET delivered_at = $2, failing_since = NULL, failed_at = NULL WHERE id = $1";
    // What lies ahead was noted before the clock was set back.
    const FAILED: &str = "
        UPDATE webhooks SET failed_at = $2,
            failing_since = CASE WHEN failing_since <= $2 AND failed_at >= $3 THEN failing_since ELSE $2 END
        WHERE id = $1 AND (failing_since IS NULL OR failed_at IS NULL OR failed_at < $4 OR failed_at > $2)";
    const PAUSE: &str = "
        UPDATE webhooks SET active = FALSE, paused_at = $2, updated_at = $2
        WHERE id = $1 AND active = TRUE AND failing_since <= $3 RETURNING tenant_id, url, failing_since";
    if let Some(at) = health.delivered_at {
        on!(db, c => sqlx::query(ARRIVED).bind(webhook.as_str()).bind(at.as_millis()).execute(c).await.map(|_| ()))?;
    }
    let Some(at) = health.failed_at else { return Ok(None) };
    let at = at.as_millis();
    on!(db, c => sqlx::query(FAILED)
        .bind(webhook.as_str()).bind(at).bind(at - SILENCE_MILLIS).bind(at - EXACT_MILLIS)
        .execute(c).await.map(|_| ()))?;
    if !health.judges {
        return Ok(None);
    }
    let since = now.plus_days(-PAUSED_AFTER_DAYS);
    let paused: Option<(String, String, i64)> = on!(db, c => sqlx::query_as(PAUSE)
        .bind(webhook.as_str()).bind(now.as_millis()).bind(since.as_millis())
        .fetch_optional(c).await)?;
    let Some((tenant, url, since)) = paused else { return Ok(None) };
    let tenant = tenant.parse().map_err(|_| DbError::corrupt("webhooks", "tenant_id", webhook.as_str()))?;
    Ok(Some((tenant, url, Timestamp::from_millis(since))))
}

/// How many deliveries wait at least for the flag to stay.
pub(crate) const FULL_NO_MORE: i64 = MAX_PENDING / 10 * 9;

/// Counts what waits for a webhook, up to as many as may.
pub(crate) async fn count_waiting(db: &mut Conn<'_>, webhook: &WebhookId) -> Result<i64, DbError> {
    const SQL: &str = "
        SELECT CAST(COUNT(*) AS BIGINT) FROM
            (SELECT due_at FROM deliveries WHERE webhook_id = $1 AND state = 0 LIMIT $2) AS waiting";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(webhook.as_str()).bind(MAX_PENDING).fetch_one(c).await)?)
}

/// Sets the flag that drops newer deliveries, or takes it away.
pub(crate) async fn set_full(db: &mut Conn<'_>, webhook: &WebhookId, is_full: bool) -> Result<(), DbError> {
    const SQL: &str = "UPDATE webhooks SET is_full = $2 WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(webhook.as_str()).bind(is_full).execute(c).await.map(|_| ()))?;
    Ok(())
}
