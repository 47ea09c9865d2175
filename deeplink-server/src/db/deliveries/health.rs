//! The health of a webhook, on its row: when a delivery last succeeded, and since when they fail.

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{MAX_PENDING, PAUSE_AFTER_DAYS};

use super::super::{Conn, DbError, execute, on};

/// What some attempts say about a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// When the last one succeeded.
    pub(crate) delivered_at: Option<Timestamp>,
    /// When the first one after that failed.
    pub(crate) first_failed_at: Option<Timestamp>,
    /// Whether the webhook is paused now if it has failed for too long.
    pub(crate) may_pause: bool,
}

impl Health {
    /// Takes one more attempt into account.
    pub(crate) fn add(&mut self, at: Timestamp, succeeded: bool, may_pause: bool) {
        if succeeded {
            *self = Self { delivered_at: Some(at), first_failed_at: None, may_pause: false };
        } else {
            self.first_failed_at.get_or_insert(at);
            self.may_pause |= may_pause;
        }
    }
}

/// After this long without an attempt failures are counted anew: it is unknown how the webhook would have answered.
const SILENCE_MILLIS: i64 = 24 * 60 * 60 * 1_000;
/// Precision of the stored last failure, so that a failing webhook's row is not written all the time.
const PRECISION_MILLIS: i64 = 60 * 1_000;

/// Stores it. A webhook that has failed for three days is paused, if it may be; its tenant, its URL and the start of
/// the failures are returned once.
pub(crate) async fn record_health(
    db: &mut Conn<'_>,
    webhook: &WebhookId,
    health: &Health,
    now: Timestamp,
) -> Result<Option<(TenantId, String, Timestamp)>, DbError> {
    const SUCCEEDED: &str =
        "UPDATE webhooks SET delivered_at = $2, failing_since = NULL, failed_at = NULL WHERE id = $1";
    // A time in the future was stored before the clock was set back.
    const FAILED: &str = "
        UPDATE webhooks SET failed_at = $2,
            failing_since = CASE WHEN failing_since <= $2 AND failed_at >= $3 THEN failing_since ELSE $2 END
        WHERE id = $1 AND (failing_since IS NULL OR failed_at IS NULL OR failed_at < $4 OR failed_at > $2)";
    const PAUSE: &str = "
        UPDATE webhooks SET active = FALSE, paused_at = $2, updated_at = $2
        WHERE id = $1 AND active = TRUE AND failing_since <= $3 RETURNING tenant_id, url, failing_since";
    if let Some(at) = health.delivered_at {
        execute!(db, SUCCEEDED; webhook.as_str(), at.as_millis())?;
    }
    let Some(at) = health.first_failed_at else { return Ok(None) };
    let at = at.as_millis();
    execute!(db, FAILED; webhook.as_str(), at, at - SILENCE_MILLIS, at - PRECISION_MILLIS)?;
    if !health.may_pause {
        return Ok(None);
    }
    let since = now.plus_days(-PAUSE_AFTER_DAYS);
    let paused: Option<(String, String, i64)> = on!(db, c => sqlx::query_as(PAUSE)
        .bind(webhook.as_str()).bind(now.as_millis()).bind(since.as_millis())
        .fetch_optional(c).await)?;
    let Some((tenant, url, since)) = paused else { return Ok(None) };
    let tenant = tenant.parse().map_err(|_| DbError::corrupt("webhooks", "tenant_id", webhook.as_str()))?;
    Ok(Some((tenant, url, Timestamp::from_millis(since))))
}

/// The flag that drops new deliveries is cleared when fewer than this are pending.
pub(crate) const LOW_WATER_MARK: i64 = MAX_PENDING / 10 * 9;

/// Counts the pending deliveries of a webhook, up to [`MAX_PENDING`].
pub(crate) async fn count_pending(db: &mut Conn<'_>, webhook: &WebhookId) -> Result<i64, DbError> {
    const SQL: &str = "
        SELECT CAST(COUNT(*) AS BIGINT) FROM
            (SELECT due_at FROM deliveries WHERE webhook_id = $1 AND state = 0 LIMIT $2) AS pending";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(webhook.as_str()).bind(MAX_PENDING).fetch_one(c).await)?)
}

/// Sets or clears the flag that drops new deliveries.
pub(crate) async fn set_full(db: &mut Conn<'_>, webhook: &WebhookId, is_full: bool) -> Result<(), DbError> {
    const SQL: &str = "UPDATE webhooks SET is_full = $2 WHERE id = $1";
    execute!(db, SQL; webhook.as_str(), is_full)?;
    Ok(())
}
