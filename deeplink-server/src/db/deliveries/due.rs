//! Which deliveries are due, and the webhooks that they are sent to.

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::super::{Conn, DbError, execute, on};
use super::{AttemptRecord, latest_plausible};

/// A delivery whose next attempt is due.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct DueDelivery {
    pub(crate) id: String,
    pub(crate) event_id: String,
    /// Attempts so far.
    pub(crate) tries: i64,
    /// The attempts so far, as stored.
    pub(crate) log: String,
    /// The webhook's turn when the delivery was created.
    pub(crate) turn: i64,
    /// The body to send; `None` if the event is no longer kept, or the delivery was created before the webhook was
    /// re-enabled.
    pub(crate) body: Option<String>,
    /// Whether it is a test event.
    pub(crate) is_test: bool,
}

impl DueDelivery {
    /// The attempts so far.
    pub(crate) fn log_records(&self) -> Vec<AttemptRecord> {
        serde_json::from_str(&self.log).unwrap_or_default()
    }
}

/// A webhook's due deliveries, the longest waiting one first; none while its account is suspended.
pub(crate) async fn due(
    db: &mut Conn<'_>,
    webhook: &WebhookId,
    now: Timestamp,
    count: i64,
) -> Result<Vec<DueDelivery>, DbError> {
    const SQL: &str = "
        SELECT d.id, d.event_id, d.tries, d.log, d.turn, e.body, COALESCE(e.position = 0, FALSE) AS is_test
        FROM deliveries d LEFT JOIN events e ON e.id = d.event_id
        WHERE d.webhook_id = $1 AND d.state = 0 AND d.due_at <= $2
            AND NOT EXISTS (
                SELECT 1 FROM webhooks w JOIN tenants t ON t.id = w.tenant_id WHERE w.id = $1 AND t.suspended_at IS NOT NULL)
        ORDER BY d.due_at LIMIT $3";
    Ok(on!(db, c => sqlx::query_as(SQL)
        .bind(webhook.as_str()).bind(now.as_millis()).bind(count)
        .fetch_all(c).await)?)
}

/// When a webhook's next delivery that is not due yet becomes due.
pub(crate) async fn next_due(
    db: &mut Conn<'_>,
    webhook: &WebhookId,
    now: Timestamp,
) -> Result<Option<Timestamp>, DbError> {
    const SQL: &str = "
        SELECT due_at FROM deliveries WHERE webhook_id = $1 AND state = 0 AND due_at > $2 ORDER BY due_at LIMIT 1";
    let at: Option<i64> =
        on!(db, c => sqlx::query_scalar(SQL).bind(webhook.as_str()).bind(now.as_millis()).fetch_optional(c).await)?;
    Ok(at.map(Timestamp::from_millis))
}

/// An active webhook, as deliveries need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveWebhook {
    pub(crate) id: WebhookId,
    pub(crate) url: String,
    pub(crate) sealed: String,
    /// The previous secret, and until when it also signs.
    pub(crate) before: Option<(String, Timestamp)>,
    /// How often it was re-enabled. Deliveries of an earlier turn are given up.
    pub(crate) turn: i64,
    pub(crate) is_full: bool,
    /// How long failed deliveries are retried, in seconds.
    pub(crate) retry_for: i64,
    /// Whether the last attempt at this URL succeeded, even if the webhook was disabled and re-enabled since.
    pub(crate) is_healthy: bool,
}

#[derive(FromRow)]
struct Row {
    id: String,
    url: String,
    sealed: String,
    sealed_before: Option<String>,
    before_until: Option<i64>,
    turn: i64,
    is_full: bool,
    retry_for: i64,
    failing_since: Option<i64>,
    delivered_at: Option<i64>,
}

/// A tenant's active webhooks; none while the account is suspended, so that its deliveries wait.
pub(crate) async fn active_webhooks(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<ActiveWebhook>, DbError> {
    const SQL: &str = "
        SELECT id, url, sealed, sealed_before, before_until, turn, is_full, retry_for, failing_since, delivered_at
        FROM webhooks
        WHERE tenant_id = $1 AND active = TRUE
            AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = $1 AND t.suspended_at IS NOT NULL)
        ORDER BY id";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    let read = |row: Row| {
        Ok(ActiveWebhook {
            id: row.id.parse().map_err(|_| DbError::corrupt("webhooks", "id", &row.id))?,
            url: row.url,
            sealed: row.sealed,
            before: row.sealed_before.zip(row.before_until.map(Timestamp::from_millis)),
            turn: row.turn,
            is_full: row.is_full,
            retry_for: row.retry_for,
            is_healthy: row.failing_since.is_none() && row.delivered_at.is_some(),
        })
    };
    rows.into_iter().map(read).collect()
}

/// A webhook with pending deliveries.
#[derive(Debug, Clone)]
pub(crate) struct PendingWebhook {
    pub(crate) tenant: TenantId,
    pub(crate) webhook: WebhookId,
    /// Whether it exists and is enabled.
    pub(crate) is_active: bool,
    /// When the first of them is due, and the last.
    pub(crate) due_at: Timestamp,
    pub(crate) last_due_at: Timestamp,
    /// Whether another node has the lease.
    pub(crate) is_leased_elsewhere: bool,
    /// Whether the account is suspended.
    pub(crate) is_suspended: bool,
}

#[derive(FromRow)]
struct PendingRow {
    webhook_id: String,
    tenant_id: String,
    is_active: bool,
    due_at: i64,
    last_due_at: i64,
    is_leased_elsewhere: bool,
    is_suspended: bool,
}

/// Webhooks with pending deliveries, in the order of their ids after `after`. It takes one index step for each webhook,
/// not for each delivery, so that one webhook's backlog costs the others nothing.
pub(crate) async fn pending_webhooks(
    db: &mut Conn<'_>,
    after: &str,
    count: i64,
    holder: &str,
    now: Timestamp,
) -> Result<Vec<PendingWebhook>, DbError> {
    const SQL: &str = "
        WITH RECURSIVE found (id) AS (
            SELECT MIN(webhook_id) FROM deliveries WHERE state = 0 AND webhook_id > $1
            UNION ALL
            SELECT (SELECT MIN(d.webhook_id) FROM deliveries d WHERE d.state = 0 AND d.webhook_id > found.id)
            FROM found WHERE found.id IS NOT NULL
        )
        SELECT found.id AS webhook_id,
            (SELECT d.tenant_id FROM deliveries d WHERE d.state = 0 AND d.webhook_id = found.id LIMIT 1) AS tenant_id,
            COALESCE((SELECT w.active FROM webhooks w WHERE w.id = found.id), FALSE) AS is_active,
            (SELECT MIN(d.due_at) FROM deliveries d WHERE d.state = 0 AND d.webhook_id = found.id) AS due_at,
            (SELECT MAX(d.due_at) FROM deliveries d WHERE d.state = 0 AND d.webhook_id = found.id) AS last_due_at,
            EXISTS (SELECT 1 FROM delivery_leases l WHERE l.holder <> $3 AND l.expires_at > $4 AND l.expires_at <= $5
                AND l.tenant_id = (SELECT d.tenant_id FROM deliveries d
                    WHERE d.state = 0 AND d.webhook_id = found.id LIMIT 1)) AS is_leased_elsewhere,
            EXISTS (SELECT 1 FROM webhooks w JOIN tenants t ON t.id = w.tenant_id
                WHERE w.id = found.id AND t.suspended_at IS NOT NULL) AS is_suspended
        FROM found WHERE found.id IS NOT NULL LIMIT $2";
    let rows: Vec<PendingRow> = on!(db, c => sqlx::query_as(SQL)
        .bind(after).bind(count).bind(holder).bind(now.as_millis()).bind(latest_plausible(now))
        .fetch_all(c).await)?;
    let read = |row: PendingRow| {
        let corrupt = |column| DbError::corrupt("deliveries", column, &row.webhook_id);
        Ok(PendingWebhook {
            tenant: row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?,
            webhook: row.webhook_id.parse().map_err(|_| corrupt("webhook_id"))?,
            is_active: row.is_active,
            due_at: Timestamp::from_millis(row.due_at),
            last_due_at: Timestamp::from_millis(row.last_due_at),
            is_leased_elsewhere: row.is_leased_elsewhere,
            is_suspended: row.is_suspended,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Makes some of a webhook's deliveries due now whose due time is implausibly late: the clock was set back since.
/// `true` if there may be more.
pub(crate) async fn reschedule_too_far(
    db: &mut Conn<'_>,
    webhook: &WebhookId,
    now: Timestamp,
) -> Result<bool, DbError> {
    const ROWS: i64 = 500;
    const SQL: &str = "
        UPDATE deliveries SET due_at = $2 WHERE state = 0 AND id IN
            (SELECT id FROM deliveries WHERE webhook_id = $1 AND state = 0 AND due_at > $3 LIMIT $4)";
    let rows = execute!(db, SQL; webhook.as_str(), now.as_millis(), latest_plausible(now), ROWS)?;
    Ok(i64::try_from(rows) == Ok(ROWS))
}
