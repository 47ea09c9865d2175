//! The delivery log as the API shows it: list, single delivery, replay.

use deeplink_core::event::EventKind;
use deeplink_core::id::{DeliveryId, EventId, TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{Attempt, DeliveryDetail, DeliveryStatus};
use serde::Deserialize;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// A delivery as it is stored, with its event.
#[derive(Debug, Clone)]
pub(crate) struct StoredDelivery {
    pub(crate) detail: DeliveryDetail,
    /// The beginning of the receiver's last response body, for people to read.
    pub(crate) answer: Option<String>,
}

#[derive(FromRow)]
struct Row {
    id: String,
    webhook_id: String,
    event_id: String,
    kind: i64,
    body: String,
    is_test: bool,
    replay_of: Option<String>,
    state: i64,
    due_at: i64,
    log: String,
    created_at: i64,
}

/// One attempt in a row's log.
#[derive(Deserialize)]
struct Logged {
    at: i64,
    ms: i64,
    status: Option<u16>,
    error: Option<String>,
    answer: Option<String>,
}

impl From<Logged> for Attempt {
    fn from(logged: Logged) -> Self {
        Self::new(Timestamp::from_millis(logged.at), logged.ms, logged.status, logged.error)
    }
}

impl TryFrom<Row> for StoredDelivery {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("deliveries", column, &row.id);
        let kind = u8::try_from(row.kind).ok().and_then(EventKind::from_code);
        let kind = kind.ok_or_else(|| DbError::corrupt("events", "kind", &row.event_id))?;
        let status = u8::try_from(row.state).ok().and_then(DeliveryStatus::from_code);
        let mut log: Vec<Logged> = serde_json::from_str(&row.log).map_err(|_| corrupt("log"))?;
        let mut detail = DeliveryDetail::new(
            row.id.parse().map_err(|_| corrupt("id"))?,
            row.webhook_id.parse().map_err(|_| corrupt("webhook_id"))?,
            row.event_id.parse().map_err(|_| corrupt("event_id"))?,
            kind,
            row.body,
            Timestamp::from_millis(row.created_at),
        );
        detail.test = row.is_test;
        detail.replay_of = row.replay_of.map(|id| id.parse()).transpose().map_err(|_| corrupt("replay_of"))?;
        detail.status = status.ok_or_else(|| DbError::corrupt("deliveries", "state", &row.id))?;
        let waits = detail.status == DeliveryStatus::Pending;
        detail.next_attempt_at = waits.then(|| Timestamp::from_millis(row.due_at));
        let answer = log.last_mut().and_then(|last| last.answer.take());
        detail.attempts = log.into_iter().map(Attempt::from).collect();
        Ok(Self { detail, answer })
    }
}

/// A statement that reads deliveries of a webhook.
macro_rules! deliveries {
    ($which:literal) => {
        concat!(
            "SELECT d.id, d.webhook_id, d.event_id, e.kind, e.body, COALESCE(e.position = 0, FALSE) AS is_test, d.replay_of,
                d.state, d.due_at, d.log, d.created_at
            FROM deliveries d JOIN events e ON e.id = d.event_id
            WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND ",
            $which
        )
    };
}

const PAGE: &str = deliveries!("d.id < $3 ORDER BY d.id DESC LIMIT $4");
const PAGE_OF_STATE: &str = deliveries!("d.id < $3 AND d.state = $5 ORDER BY d.id DESC LIMIT $4");

const FAILED_SINCE: &str = "
    SELECT d.id, d.event_id FROM deliveries d JOIN events e ON e.id = d.event_id
    WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.state = 2 AND d.id >= $3
        AND NOT EXISTS (SELECT 1 FROM deliveries r
            WHERE r.replay_of IS NOT NULL AND r.webhook_id = d.webhook_id AND r.event_id = d.event_id AND r.id > d.id
                AND r.state IN (0, 1, 2))
    ORDER BY d.id DESC LIMIT $4";

/// A webhook's deliveries, newest first: at most `limit` older than `before`, optionally of one status only.
pub(crate) async fn list(
    db: &mut Conn<'_>,
    (tenant, webhook): (&TenantId, &WebhookId),
    status: Option<&DeliveryStatus>,
    before: Option<&DeliveryId>,
    limit: u32,
) -> Result<Vec<StoredDelivery>, DbError> {
    /// Sorts after all delivery ids.
    const END: &str = "dlw";
    let state = status.and_then(DeliveryStatus::code).map(i64::from);
    let before = before.map_or(END, DeliveryId::as_str);
    let sql = if state.is_some() { PAGE_OF_STATE } else { PAGE };
    let rows: Vec<Row> = on!(db, c => {
        let page = sqlx::query_as(sql)
            .bind(tenant.as_str()).bind(webhook.as_str()).bind(before).bind(i64::from(limit));
        match state {
            Some(state) => page.bind(state),
            None => page,
        }
        .fetch_all(c).await
    })?;
    rows.into_iter().map(StoredDelivery::try_from).collect()
}

/// A webhook's delivery by id.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    (tenant, webhook): (&TenantId, &WebhookId),
    id: &DeliveryId,
) -> Result<Option<StoredDelivery>, DbError> {
    const SQL: &str = deliveries!("d.id = $3");
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(webhook.as_str()).bind(id.as_str())
            .fetch_optional(c).await)?;
    row.map(StoredDelivery::try_from).transpose()
}

/// A webhook's failed deliveries that were created at `since` or later, each with its event, newest first. Of an event only
/// the last one counts, and none that is on its way again or has arrived; a replay that was dropped or canceled is none.
pub(crate) async fn failed_since(
    db: &mut Conn<'_>,
    (tenant, webhook): (&TenantId, &WebhookId),
    since: Timestamp,
    limit: u32,
) -> Result<Vec<(DeliveryId, EventId)>, DbError> {
    // Ids begin with their time.
    let first = format!("{}_{:012x}", DeliveryId::PREFIX, since.as_millis().max(0));
    let rows: Vec<(String, String)> = on!(db, c => sqlx::query_as(FAILED_SINCE)
        .bind(tenant.as_str()).bind(webhook.as_str()).bind(first).bind(i64::from(limit)).fetch_all(c).await)?;
    let read = |(id, event): (String, String)| {
        let corrupt = |column| DbError::corrupt("deliveries", column, &id);
        Ok((id.parse().map_err(|_| corrupt("id"))?, event.parse().map_err(|_| corrupt("event_id"))?))
    };
    rows.into_iter().map(read).collect()
}

/// Records that a delivery is a replay of another one.
pub(crate) async fn note_replay(db: &mut Conn<'_>, id: &DeliveryId, of: &DeliveryId) -> Result<(), DbError> {
    const SQL: &str = "UPDATE deliveries SET replay_of = $2 WHERE id = $1";
    execute!(db, SQL; id.as_str(), of.as_str())?;
    Ok(())
}

/// Extends an event's retention; `false` if it is deleted already.
pub(crate) async fn keep_event(db: &mut Conn<'_>, id: &EventId, until: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE events SET kept_until = CASE WHEN kept_until > $2 THEN kept_until ELSE $2 END WHERE id = $1";
    let rows = execute!(db, SQL; id.as_str(), until.as_millis())?;
    Ok(rows == 1)
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::*;
    use crate::db::tests::Scratch;

    /// Reading a page costs the same however long the log is: each state has its own index range.
    #[tokio::test]
    async fn pages_are_read_from_an_index_in_their_order() {
        let scratch = Scratch::new().await;
        let mut reader = scratch.db.read().await.expect("a reader");
        let Conn::Sqlite(conn) = &mut reader.conn() else {
            // PostgreSQL plans by table statistics; the indexes are the same.
            return;
        };
        for (sql, search) in [
            (PAGE, "SEARCH d USING INDEX deliveries_webhook (webhook_id=? AND id<?)"),
            (PAGE_OF_STATE, "SEARCH d USING INDEX deliveries_state (webhook_id=? AND state=? AND id<?)"),
        ] {
            let sql = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
            let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(sql).fetch_all(&mut **conn).await.expect("a plan");
            let steps: Vec<_> = steps.iter().map(|step| step.3.as_str()).collect();
            assert_eq!((steps.first(), steps.len()), (Some(&search), 2), "{steps:?}");
        }
        let sql = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {FAILED_SINCE}"));
        let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(sql).fetch_all(&mut **conn).await.expect("a plan");
        assert_eq!(
            steps.iter().map(|step| step.3.as_str()).collect::<Vec<_>>(),
            [
                "SEARCH d USING INDEX deliveries_state (webhook_id=? AND state=? AND id>?)",
                "CORRELATED SCALAR SUBQUERY 1",
                "SEARCH r USING INDEX deliveries_replays (webhook_id=? AND event_id=? AND id>?)",
                "SEARCH e USING COVERING INDEX sqlite_autoindex_events_1 (id=?)",
            ]
        );
    }
}
