//! Conversions of app users. The links credited with them are in [`super::credits`].
//!
//! A write that changes a user's credits locks the user's row: a conversion, a touch of an install that is
//! bound to them, the binding of another. If it also locks an install's row, it locks that one first. So each sees what
//! the others have committed, and the later one settles the credit.

use deeplink_core::id::{EventId, SourceId, TenantId};
use deeplink_core::lifecycle::NewConversion;
use deeplink_core::metadata::Metadata;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::events::{self, Publisher};
use super::funnel::{Changes, Conversion};
use super::{Conn, DbError, credits, execute, on};

/// Days for which an idempotency key is kept.
const KEY_DAYS: i64 = 30;

/// Creates or finds a user and locks the row until the write ends. Returns the user's position.
pub(crate) async fn lock_user(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    user_id: &str,
    position: i64,
    now: Timestamp,
) -> Result<i64, DbError> {
    const SQL: &str = "
        INSERT INTO app_users (position, tenant_id, user_id, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (tenant_id, user_id) DO UPDATE SET created_at = app_users.created_at
        RETURNING position";
    on!(db, c => sqlx::query_scalar(SQL)
        .bind(position).bind(tenant.as_str()).bind(user_id).bind(now.as_millis()).fetch_one(c).await)
    .map_err(DbError::drawn)
}

/// Locks a user's row until the write ends. SQLite has one writer and needs no lock.
pub(crate) async fn lock(db: &mut Conn<'_>, user: i64) -> Result<(), DbError> {
    const POSTGRES: &str = "SELECT position FROM app_users WHERE position = $1 FOR NO KEY UPDATE";
    if let Conn::Postgres(conn) = db {
        sqlx::query(POSTGRES).bind(user).execute(&mut **conn).await?;
    }
    Ok(())
}

/// Who reports a conversion. Each has its own idempotency keys: visitors have a page's publishable key, and its reports
/// must not use up the keys of the account's own servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reporter {
    /// A publishable key.
    Page,
    /// A secret key.
    Server,
    /// A source, whose address only servers have.
    Source(SourceId),
}

impl Reporter {
    const fn is_public(&self) -> bool {
        matches!(self, Self::Page)
    }

    fn source(&self) -> Option<&str> {
        match self {
            Self::Source(id) => Some(id.as_str()),
            Self::Page | Self::Server => None,
        }
    }
}

/// Claims an idempotency key for a conversion. Returns the earlier conversion if the key is in use and not expired. On
/// PostgreSQL a concurrent claim waits here until the first transaction ends.
pub(crate) async fn claim_key(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    reporter: &Reporter,
    key: &str,
    conversion: &EventId,
    now: Timestamp,
) -> Result<Option<EventId>, DbError> {
    const CLAIM: &str = "
        INSERT INTO conversion_keys (tenant_id, is_public, key, conversion, expires_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant_id, is_public, key) DO UPDATE
            SET conversion = excluded.conversion, expires_at = excluded.expires_at
        WHERE conversion_keys.expires_at <= $6";
    const HOLDER: &str = "SELECT conversion FROM conversion_keys WHERE tenant_id = $1 AND is_public = $2 AND key = $3";
    let is_public = reporter.is_public();
    let claimed = execute!(db, CLAIM;
        tenant.as_str(), is_public, key, conversion.as_str(), now.plus_days(KEY_DAYS).as_millis(), now.as_millis())?;
    if claimed == 1 {
        return Ok(None);
    }
    let holder: Option<String> = on!(db, c => sqlx::query_scalar(HOLDER)
        .bind(tenant.as_str()).bind(is_public).bind(key).fetch_optional(c).await)?;
    // A sweep has deleted it meanwhile: the write is retried.
    let holder = holder.ok_or_else(|| DbError::Deadlock("an idempotency key expired".into()))?;
    holder.parse().map(Some).map_err(|_| DbError::corrupt("conversion_keys", "conversion", &holder))
}

/// A conversion to store.
#[derive(Debug, Clone)]
pub(crate) struct ConversionRow<'a> {
    pub(crate) id: &'a EventId,
    pub(crate) tenant: &'a TenantId,
    /// `app_users.position`; the caller has locked the row.
    pub(crate) user: i64,
    pub(crate) position: i64,
    pub(crate) reporter: &'a Reporter,
    pub(crate) new: &'a NewConversion,
    /// When the event happened.
    pub(crate) at: Timestamp,
}

/// The first and last touch of an install up to a time.
#[derive(FromRow)]
struct FirstAndLastTouch {
    position: i64,
    first_at: Option<i64>,
    first_link: Option<i64>,
    last_at: Option<i64>,
    last_link: Option<i64>,
}

/// Stores a conversion and credits links with it. `true`: its user has a bound install, so it becomes an event at once.
pub(crate) async fn insert(db: &mut Conn<'_>, publisher: &Publisher, row: &ConversionRow<'_>) -> Result<bool, DbError> {
    // Two index lookups for the first and last touch, however many there are.
    const ENDS: &str = "
        SELECT position,
            (SELECT t.at FROM touches t WHERE t.install = i.position AND t.at <= $2
                ORDER BY t.at, t.number LIMIT 1) AS first_at,
            (SELECT t.link FROM touches t WHERE t.install = i.position AND t.at <= $2
                ORDER BY t.at, t.number LIMIT 1) AS first_link,
            (SELECT t.at FROM touches t WHERE t.install = i.position AND t.at <= $2
                ORDER BY t.at DESC, t.number DESC LIMIT 1) AS last_at,
            (SELECT t.link FROM touches t WHERE t.install = i.position AND t.at <= $2
                ORDER BY t.at DESC, t.number DESC LIMIT 1) AS last_link
        FROM installs i WHERE i.app_user = $1 AND i.first_link IS NOT NULL
        ORDER BY i.bound_at DESC, i.position DESC LIMIT 100";
    const KNOWN: &str = "SELECT EXISTS (SELECT 1 FROM installs WHERE app_user = $1)";
    const INSERT: &str = "
        INSERT INTO conversions (position, id, tenant_id, app_user, source_id, conversion_type, metadata, amount_cents,
            currency, at, received_at, emitted_at, first_link, last_link)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        RETURNING (SELECT account FROM tenants WHERE id = $3)";
    let new = row.new;
    let (at, now) = (row.at.as_millis(), publisher.now().as_millis());
    let ends: Vec<FirstAndLastTouch> = on!(db, c => sqlx::query_as(ENDS).bind(row.user).bind(at).fetch_all(c).await)?;
    // An install without touches identifies the user but credits no links.
    let is_known =
        !ends.is_empty() || on!(db, c => sqlx::query_scalar::<_, bool>(KNOWN).bind(row.user).fetch_one(c).await)?;
    let first = ends.iter().filter_map(|end| Some(((end.first_at?, end.position), end.first_link?))).min();
    let last = ends.iter().filter_map(|end| Some(((end.last_at?, end.position), end.last_link?))).max();
    let (first, last) = (first.map(|(_, link)| link), last.map(|(_, link)| link));
    let account: Option<i64> = on!(db, c => sqlx::query_scalar(INSERT)
        .bind(row.position).bind(row.id.as_str()).bind(row.tenant.as_str()).bind(row.user).bind(row.reporter.source())
        .bind(&new.conversion_type).bind(new.metadata.as_ref().map(Metadata::as_str))
        .bind(new.amount.as_ref().map(|(cents, _)| *cents)).bind(new.amount.as_ref().map(|(_, currency)| currency))
        .bind(at).bind(now).bind(is_known.then_some(now)).bind(first).bind(last)
        .fetch_one(c).await)
    .map_err(DbError::drawn)?;
    if is_known {
        credits::credit_one(db, row.user, at, row.position).await?;
    }
    if is_known {
        events::publish_conversion(db, publisher, row.tenant, row.position).await?;
    }
    if is_known && let Some(account) = account {
        let mut changes = Changes::default();
        let account = if first.is_some() { account } else { account - 1 };
        let amount = new.amount.as_ref().map(|(cents, currency)| (*cents, currency.as_str()));
        changes.conversion(Conversion { account, at, conversion_type: &new.conversion_type, amount }, 1);
        changes.store(db).await?;
    }
    Ok(is_known)
}

/// Deletes some expired idempotency keys; see [`super::expired`].
pub(crate) const EXPIRED_KEYS: &str = "
    DELETE FROM conversion_keys WHERE expires_at <= $1 AND (tenant_id, is_public, key) IN
        (SELECT tenant_id, is_public, key FROM conversion_keys WHERE expires_at <= $1 LIMIT $2)";
