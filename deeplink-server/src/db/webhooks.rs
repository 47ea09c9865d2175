//! Webhooks.

use deeplink_core::event::EventKind;
use deeplink_core::id::{AffiliateId, TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{
    NewWebhook, OVERLAP_MILLIS, WebhookChange, WebhookDetail, WebhookFilters, WebhookHealth, WebhookStatus,
};
use sqlx::FromRow;

use super::clicks::head;
use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, execute, on};

/// The bit of a kind in `webhooks.kinds`; 0 for a kind this build does not know.
pub(crate) fn bit(kind: &EventKind) -> i64 {
    kind.code().map_or(0, |code| 1 << code)
}

/// A webhook that subscribes to a kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) id: WebhookId,
    /// Only this affiliate's conversions are sent; other kinds are not filtered.
    pub(crate) affiliate: Option<AffiliateId>,
    /// How often it was re-enabled; new deliveries get this number.
    pub(crate) turn: i64,
    /// The backlog is full, so this delivery is dropped.
    pub(crate) is_full: bool,
}

#[derive(FromRow)]
struct Row {
    id: String,
    affiliate_id: Option<String>,
    turn: i64,
    is_full: bool,
}

/// A tenant's active webhooks that subscribe to a kind of event.
pub(crate) async fn subscribers(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    kind: &EventKind,
) -> Result<Vec<Subscriber>, DbError> {
    const SQL: &str = "
        SELECT id, affiliate_id, turn, is_full FROM webhooks
        WHERE tenant_id = $1 AND active = TRUE AND kinds & $2 <> 0 ORDER BY id";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(bit(kind)).fetch_all(c).await)?;
    let read = |row: Row| {
        let corrupt = |column, value: &str| DbError::corrupt("webhooks", column, value);
        Ok(Subscriber {
            id: row.id.parse().map_err(|_| corrupt("id", &row.id))?,
            affiliate: row.affiliate_id.map(|id| id.parse().map_err(|_| corrupt("affiliate_id", &id))).transpose()?,
            turn: row.turn,
            is_full: row.is_full,
        })
    };
    rows.into_iter().map(read).collect()
}

/// A webhook to store.
#[derive(Debug, Clone)]
pub(crate) struct StoringWebhook {
    pub(crate) id: WebhookId,
    pub(crate) tenant: TenantId,
    pub(crate) new: NewWebhook,
    /// Its secret, sealed under the row's id.
    pub(crate) sealed: String,
    pub(crate) created_at: Timestamp,
}

/// A stored webhook without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredWebhook {
    pub(crate) id: WebhookId,
    pub(crate) url: String,
    /// In the order of [`EventKind::ALL`].
    pub(crate) events: Vec<EventKind>,
    pub(crate) affiliate: Option<AffiliateId>,
    /// How long failed deliveries are retried, in seconds.
    pub(crate) retry_for: i64,
    pub(crate) active: bool,
    /// How often it was re-enabled.
    pub(crate) turn: i64,
    /// The backlog is full, so new deliveries are dropped.
    pub(crate) is_full: bool,
    health: WebhookHealth,
    created_at: Timestamp,
}

impl StoredWebhook {
    /// The webhook as the API returns it.
    pub(crate) fn detail(self) -> WebhookDetail {
        let filters = self.affiliate.iter().fold(WebhookFilters::new(), |all, id| all.affiliate_id(id.as_str()));
        WebhookDetail::new(
            self.id,
            self.url,
            self.events,
            filters,
            self.retry_for,
            self.active,
            self.created_at,
            self.health,
        )
    }

    /// Whether it subscribes to clicks.
    fn hears_clicks(&self) -> bool {
        self.active && self.events.contains(&EventKind::Click)
    }
}

/// Builds a statement around the columns of a [`FullRow`].
macro_rules! full {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " id, url, kinds, affiliate_id, retry_for, active, turn, is_full, failing_since, delivered_at, paused_at, dropped, created_at ",
            $after
        )
    };
}

#[derive(FromRow)]
struct FullRow {
    id: String,
    url: String,
    kinds: i64,
    affiliate_id: Option<String>,
    retry_for: i64,
    active: bool,
    turn: i64,
    is_full: bool,
    failing_since: Option<i64>,
    delivered_at: Option<i64>,
    paused_at: Option<i64>,
    dropped: i64,
    created_at: i64,
}

impl FullRow {
    fn health(&self) -> WebhookHealth {
        let status = match self {
            Self { active: false, paused_at: Some(_), .. } => WebhookStatus::Paused,
            Self { failing_since: Some(_), .. } => WebhookStatus::Failing,
            Self { delivered_at: Some(_), .. } => WebhookStatus::Healthy,
            _ => WebhookStatus::Untried,
        };
        let moment = |at: Option<i64>| at.map(Timestamp::from_millis);
        WebhookHealth::new(status, moment(self.failing_since), moment(self.delivered_at), self.dropped)
    }
}

impl TryFrom<FullRow> for StoredWebhook {
    type Error = DbError;

    fn try_from(row: FullRow) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("webhooks", column, &row.id);
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            affiliate: row
                .affiliate_id
                .as_ref()
                .map(|id| id.parse())
                .transpose()
                .map_err(|_| corrupt("affiliate_id"))?,
            events: EventKind::ALL.iter().filter(|kind| row.kinds & bit(kind) != 0).cloned().collect(),
            retry_for: row.retry_for,
            active: row.active,
            turn: row.turn,
            is_full: row.is_full,
            health: row.health(),
            created_at: Timestamp::from_millis(row.created_at),
            url: row.url,
        })
    }
}

fn bits(kinds: &[EventKind]) -> i64 {
    kinds.iter().map(bit).fold(0, |all, bit| all | bit)
}

/// The number of an account's webhooks.
pub(crate) async fn count(db: &mut Conn<'_>, tenant: &TenantId) -> Result<i64, DbError> {
    const SQL: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhooks WHERE tenant_id = $1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// Stores a webhook. It gets clicks from now on, but no earlier ones.
pub(crate) async fn insert(db: &mut Conn<'_>, storing: &StoringWebhook) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO webhooks (id, tenant_id, url, kinds, affiliate_id, active, sealed, clicks_after, created_at, updated_at,
            retry_for)
        VALUES ($1, $2, $3, $4, $5, TRUE, $6, $7, $8, $8, $9)";
    let StoringWebhook { id, tenant, new, sealed, created_at } = storing;
    let head = head(db).await?;
    execute!(db, SQL;
        id.as_str(), tenant.as_str(), &new.url, bits(&new.events), new.affiliate.as_ref().map(AffiliateId::as_str),
        sealed, head, created_at.as_millis(), new.retry_for)?;
    Ok(())
}

/// An account's webhooks, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId, span: &Span) -> Result<Vec<StoredWebhook>, DbError> {
    const SQL: &str = newest_first!(full!("SELECT", "FROM webhooks WHERE tenant_id = $3"));
    let rows: Vec<FullRow> = pages::read(db, SQL, WebhookId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(StoredWebhook::try_from).collect()
}

/// An account's webhook by id.
pub(crate) async fn find(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &WebhookId,
) -> Result<Option<StoredWebhook>, DbError> {
    const SQL: &str = full!("SELECT", "FROM webhooks WHERE tenant_id = $1 AND id = $2");
    let row: Option<FullRow> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(StoredWebhook::try_from).transpose()
}

/// Locks a webhook's row until the write ends.
pub(crate) async fn lock(db: &mut Conn<'_>, tenant: &TenantId, id: &WebhookId) -> Result<(), DbError> {
    const SQL: &str = "UPDATE webhooks SET active = active WHERE tenant_id = $1 AND id = $2";
    execute!(db, SQL; tenant.as_str(), id.as_str())?;
    Ok(())
}

/// Updates a webhook and returns it. Re-enabling one resets its state: the failing period counts from its next failure,
/// and pending deliveries are canceled. Its last failure is shown until the next attempt; a new URL has neither
/// failures nor deliveries yet. A webhook that newly subscribes to clicks gets only those from now on.
pub(crate) async fn update(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &WebhookId,
    change: &WebhookChange,
    now: Timestamp,
) -> Result<Option<StoredWebhook>, DbError> {
    // A sender may be updating the row at the same time; this locks it.
    const LOCK: &str = full!("UPDATE webhooks SET updated_at = $3 WHERE tenant_id = $1 AND id = $2 RETURNING", "");
    const SQL: &str = "
        UPDATE webhooks SET url = $3, kinds = $4, affiliate_id = $5, active = $6, retry_for = $10,
            clicks_after = CASE WHEN $7 THEN $8 ELSE clicks_after END,
            failing_since = CASE WHEN url <> $3 THEN NULL ELSE failing_since END,
            failed_at = CASE WHEN $9 OR url <> $3 THEN NULL ELSE failed_at END,
            delivered_at = CASE WHEN url <> $3 THEN NULL ELSE delivered_at END,
            turn = CASE WHEN $9 THEN turn + 1 ELSE turn END,
            is_full = CASE WHEN $9 THEN FALSE ELSE is_full END,
            paused_at = CASE WHEN $9 THEN NULL ELSE paused_at END
        WHERE tenant_id = $1 AND id = $2";
    let row: Option<FullRow> = on!(db, c => sqlx::query_as(LOCK)
        .bind(tenant.as_str()).bind(id.as_str()).bind(now.as_millis()).fetch_optional(c).await)?;
    let Some(before) = row.map(StoredWebhook::try_from).transpose()? else { return Ok(None) };
    let mut after = before.clone();
    after.url = change.url.clone().unwrap_or(after.url);
    after.events = change.events.clone().unwrap_or(after.events);
    after.affiliate = change.affiliate.clone().unwrap_or(after.affiliate);
    after.retry_for = change.retry_for.unwrap_or(after.retry_for);
    after.active = change.active.unwrap_or(after.active);
    let begins = after.hears_clicks() && !before.hears_clicks();
    let head = if begins { head(db).await? } else { 0 };
    execute!(db, SQL;
        tenant.as_str(), id.as_str(), &after.url, bits(&after.events),
        after.affiliate.as_ref().map(AffiliateId::as_str), after.active, begins, head,
        after.active && !before.active, after.retry_for)?;
    find(db, tenant, id).await
}

/// Rotates a webhook's secret; the previous one also signs until a time. `false` if there is no such webhook.
pub(crate) async fn rotate(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &WebhookId,
    sealed: &str,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE webhooks SET sealed_before = sealed, before_until = $4, sealed = $3, updated_at = $5
        WHERE tenant_id = $1 AND id = $2";
    let until = now.plus_millis(OVERLAP_MILLIS);
    let rows = execute!(db, SQL; tenant.as_str(), id.as_str(), sealed, until.as_millis(), now.as_millis())?;
    Ok(rows == 1)
}

/// Deletes a webhook and returns its URL; `None` if the account has none with this id.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, id: &WebhookId) -> Result<Option<String>, DbError> {
    const SQL: &str = "DELETE FROM webhooks WHERE tenant_id = $1 AND id = $2 RETURNING url";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?)
}
