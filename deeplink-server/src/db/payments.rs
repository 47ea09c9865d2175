//! Payments for single requests. A row is stored before the payment is settled, and then holds its state: `settling`
//! and `unknown` may have moved money, `refused` has not, `credit` has but nothing was done for it yet, `done` has and
//! what it was for is done.

use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::replies::Reply;
use super::{Conn, DbError, execute, on};

/// How long settling a payment may take before another caller may try.
pub(crate) const LEASE_MILLIS: i64 = 35_000;
/// Days that payments are kept.
const KEPT_DAYS: i64 = 90;

/// The state of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It is being settled for the first time.
    Settling,
    /// It was sent to be settled, and the outcome is unknown.
    Unknown,
    /// It was refused, so no money moved.
    Refused,
    /// It is settled, and nothing was done for it yet.
    Credit,
    /// It is settled, and what it was for is done.
    Done,
}

impl State {
    const ALL: [Self; 5] = [Self::Settling, Self::Unknown, Self::Refused, Self::Credit, Self::Done];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Settling => "settling",
            Self::Unknown => "unknown",
            Self::Refused => "refused",
            Self::Credit => "credit",
            Self::Done => "done",
        }
    }
}

/// A payment that is about to be settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewPayment {
    pub(crate) id: String,
    pub(crate) network: String,
    pub(crate) asset: String,
    pub(crate) payer: String,
    pub(crate) nonce: String,
    pub(crate) amount: String,
    pub(crate) request: String,
    pub(crate) key_hash: Option<String>,
    /// The scope of its key: identifies the key among other payments of its payer.
    pub(crate) key_scope: Option<String>,
    pub(crate) is_read: bool,
    /// Whether its payer can repeat the request.
    pub(crate) is_repeatable: bool,
    pub(crate) valid_before: Option<Timestamp>,
    /// What is settled, sealed.
    pub(crate) payment: String,
}

/// The outcome of storing a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is stored, and can be settled.
    New,
    /// It was stored before.
    Known,
    /// Another payment of its payer under the same key is under way, or was just used.
    Busy,
    /// Another payment of its payer under the same key is settled and waits to be used.
    Unused,
}

/// The reason of a payment with an unknown outcome that cannot be settled again because it cannot be decrypted.
pub(crate) const UNREADABLE: &str = "unreadable";
/// The reason of a payment with an unknown outcome that the facilitator reported as already used at the first attempt.
pub(crate) const USED_BEFORE: &str = "used_before";
/// The reason of a payment with an unknown outcome for which the facilitator reported a different payer or chain.
pub(crate) const MISMATCH: &str = "mismatch";

/// A payment as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPayment {
    pub(crate) id: String,
    pub(crate) payer: String,
    pub(crate) amount: String,
    pub(crate) request: String,
    pub(crate) key_hash: Option<String>,
    pub(crate) is_read: bool,
    pub(crate) is_repeatable: bool,
    pub(crate) valid_before: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) state: State,
    pub(crate) lease_until: Timestamp,
    pub(crate) attempts: i64,
    pub(crate) payment: Option<String>,
    pub(crate) tx_hash: Option<String>,
    pub(crate) reason: Option<String>,
    /// The reply, its body sealed.
    pub(crate) reply: Option<Reply>,
}

#[derive(FromRow)]
struct Row {
    id: String,
    payer: String,
    amount: String,
    request: String,
    key_hash: Option<String>,
    is_read: bool,
    is_repeatable: bool,
    valid_before: Option<i64>,
    created_at: i64,
    state: String,
    lease_until: i64,
    attempts: i64,
    payment: Option<String>,
    tx_hash: Option<String>,
    reason: Option<String>,
    status: Option<i64>,
    location: Option<String>,
    body: Option<String>,
}

impl TryFrom<Row> for StoredPayment {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let state = State::ALL.into_iter().find(|state| state.as_str() == row.state);
        let state = state.ok_or_else(|| DbError::corrupt("payments", "state", &row.id))?;
        let status = row.status.and_then(|status| u16::try_from(status).ok());
        let reply = status.zip(row.body).map(|(status, body)| Reply { status, location: row.location, body });
        Ok(Self {
            id: row.id,
            payer: row.payer,
            amount: row.amount,
            request: row.request,
            key_hash: row.key_hash,
            is_read: row.is_read,
            is_repeatable: row.is_repeatable,
            valid_before: row.valid_before.map(Timestamp::from_millis),
            created_at: Timestamp::from_millis(row.created_at),
            state,
            lease_until: Timestamp::from_millis(row.lease_until),
            attempts: row.attempts,
            payment: row.payment,
            tx_hash: row.tx_hash,
            reason: row.reason,
            reply,
        })
    }
}

/// Finds a payment.
pub(crate) async fn find(db: &mut Conn<'_>, id: &str) -> Result<Option<StoredPayment>, DbError> {
    const SQL: &str = "
        SELECT id, payer, amount, request, key_hash, is_read, is_repeatable, valid_before, created_at, state, lease_until,
            attempts, payment, tx_hash, reason, status, location, body
        FROM payments WHERE id = $1";
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(id).fetch_optional(c).await)?;
    row.map(StoredPayment::try_from).transpose()
}

/// Stores a payment that is about to be settled. The background task retries one after its lease only if its payer can
/// repeat the request. `used` is how many payments had been used under its key when the request was tried.
pub(crate) async fn insert(
    db: &mut Conn<'_>,
    new: &NewPayment,
    used: i64,
    now: Timestamp,
) -> Result<Inserted, DbError> {
    const SQL: &str = "
        INSERT INTO payments (id, network, asset, payer, nonce, amount, request, key_hash, key_scope, is_read,
            is_repeatable, valid_before, state, lease_until, retry_at, payment, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT DO NOTHING";
    let lease_until = now.plus_millis(LEASE_MILLIS).as_millis();
    let rows = execute!(
        db, SQL; &new.id, &new.network, &new.asset, &new.payer, &new.nonce, &new.amount, &new.request,
        new.key_hash.as_deref(), new.key_scope.as_deref(), new.is_read, new.is_repeatable,
        new.valid_before.map(Timestamp::as_millis), State::Settling.as_str(), lease_until,
        new.is_repeatable.then_some(lease_until), &new.payment, now.as_millis()
    )?;
    let Some(scope) = &new.key_scope else {
        return Ok(if rows == 1 { Inserted::New } else { Inserted::Known });
    };
    if rows == 0 {
        return blocked(db, &new.id, scope, now).await;
    }
    // Counted after the insert: an earlier payment that is no longer among the open rows shows up here.
    if count_used(db, scope).await? != used {
        delete_unsent(db, &new.id).await?;
        return Ok(Inserted::Busy);
    }
    Ok(Inserted::New)
}

/// Why a payment with a key could not be stored.
async fn blocked(db: &mut Conn<'_>, id: &str, scope: &str, now: Timestamp) -> Result<Inserted, DbError> {
    const SQL: &str = "
        SELECT state = 'credit' AND lease_until <= $2 FROM payments
        WHERE key_scope = $1 AND state IN ('settling', 'unknown', 'credit')";
    if find(db, id).await?.is_some() {
        return Ok(Inserted::Known);
    }
    let waits: Option<bool> =
        on!(db, c => sqlx::query_scalar(SQL).bind(scope).bind(now.as_millis()).fetch_optional(c).await)?;
    Ok(if waits == Some(true) { Inserted::Unused } else { Inserted::Busy })
}

/// How many payments were used under a key.
pub(crate) async fn count_used(db: &mut Conn<'_>, scope: &str) -> Result<i64, DbError> {
    const SQL: &str = "SELECT COUNT(*) FROM payments WHERE key_scope = $1 AND state = 'done'";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(scope).fetch_one(c).await)?)
}

/// Deletes a payment that was never sent to be settled.
pub(crate) async fn delete_unsent(db: &mut Conn<'_>, id: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM payments WHERE id = $1 AND state = 'settling'";
    execute!(db, SQL; id)?;
    Ok(())
}

/// Leases a payment whose outcome is unknown, to settle it again. `false` while another caller has it. If the holder
/// stops before it is settled, the background task retries it after the lease.
pub(crate) async fn lease(db: &mut Conn<'_>, id: &str, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE payments SET state = 'unknown', lease_until = $2, retry_at = $2
        WHERE id = $1 AND state IN ('settling', 'unknown') AND lease_until <= $3";
    Ok(execute!(db, SQL; id, now.plus_millis(LEASE_MILLIS).as_millis(), now.as_millis())? == 1)
}

/// Records that a payment was refused.
pub(crate) async fn refuse(db: &mut Conn<'_>, id: &str, reason: &str) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE payments SET state = 'refused', reason = $2, retry_at = NULL, payment = NULL
        WHERE id = $1 AND state = 'settling'";
    execute!(db, SQL; id, reason)?;
    Ok(())
}

/// Records that the outcome of a payment is unknown, and when to try again; releases the lease.
pub(crate) async fn doubt(
    db: &mut Conn<'_>,
    id: &str,
    reason: &str,
    now: Timestamp,
    retry_at: Option<Timestamp>,
) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE payments SET state = 'unknown', reason = $2, lease_until = $3, retry_at = $4
        WHERE id = $1 AND state IN ('settling', 'unknown')";
    execute!(db, SQL; id, reason, now.as_millis(), retry_at.map(Timestamp::as_millis))?;
    Ok(())
}

/// Counts an attempt of the background task.
pub(crate) async fn attempted(db: &mut Conn<'_>, id: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE payments SET attempts = attempts + 1 WHERE id = $1";
    execute!(db, SQL; id)?;
    Ok(())
}

/// Records that a payment is settled and nothing was done for it yet.
pub(crate) async fn credit(db: &mut Conn<'_>, id: &str, tx_hash: &str) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE payments SET state = 'credit', tx_hash = $2, reason = NULL, retry_at = NULL, payment = NULL
        WHERE id = $1 AND state IN ('settling', 'unknown')";
    execute!(db, SQL; id, tx_hash)?;
    Ok(())
}

/// Locks a payment's row until the write ends. `false` if it was already used or refused, so nothing may be done for
/// it.
pub(crate) async fn hold(db: &mut Conn<'_>, id: &str) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE payments SET attempts = attempts WHERE id = $1 AND state IN ('settling', 'unknown', 'credit')";
    Ok(execute!(db, SQL; id)? == 1)
}

/// What a payment was used for.
#[derive(Debug, Clone)]
pub(crate) struct Use<'a> {
    pub(crate) id: &'a str,
    pub(crate) request: &'a str,
    pub(crate) is_read: bool,
    pub(crate) tx_hash: &'a str,
    /// The reply, its body sealed; reads have none.
    pub(crate) reply: Option<&'a Reply>,
}

/// Records that what a payment was for is done. `false` if it was already used: then nothing may be done for it.
pub(crate) async fn done(db: &mut Conn<'_>, used: Use<'_>) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE payments SET state = 'done', request = $2, is_read = $3, tx_hash = $4, status = $5, location = $6, body = $7,
            reason = NULL, retry_at = NULL, payment = NULL
        WHERE id = $1 AND state IN ('settling', 'unknown', 'credit')";
    let reply = used.reply;
    let rows = execute!(
        db, SQL; used.id, used.request, used.is_read, used.tx_hash, reply.map(|reply| i64::from(reply.status)),
        reply.and_then(|reply| reply.location.as_deref()), reply.map(|reply| reply.body.as_str())
    )?;
    Ok(rows == 1)
}

/// The next payments to settle again.
pub(crate) async fn due(db: &mut Conn<'_>, now: Timestamp) -> Result<Vec<String>, DbError> {
    const SQL: &str = "
        SELECT id FROM payments WHERE retry_at <= $1 AND state IN ('settling', 'unknown') AND lease_until <= $1
        ORDER BY retry_at LIMIT 64";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(now.as_millis()).fetch_all(c).await)?)
}

/// The number of payments with an unknown outcome that the background task no longer retries.
pub(crate) async fn count_unresolved(db: &mut Conn<'_>, now: Timestamp) -> Result<i64, DbError> {
    const SQL: &str = "
        SELECT COUNT(*) FROM payments
        WHERE state IN ('settling', 'unknown') AND retry_at IS NULL AND lease_until <= $1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(now.as_millis()).fetch_one(c).await)?)
}

/// A payment with an unknown outcome, as shown to operators.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(crate) struct Unresolved {
    pub(crate) network: String,
    pub(crate) payer: String,
    pub(crate) nonce: String,
    pub(crate) amount: String,
    pub(crate) reason: Option<String>,
    pub(crate) created_at: i64,
}

/// Payments with an unknown outcome, newest first.
pub(crate) async fn unresolved(db: &mut Conn<'_>, now: Timestamp) -> Result<Vec<Unresolved>, DbError> {
    const SQL: &str = "
        SELECT network, payer, nonce, amount, reason, created_at FROM payments
        WHERE state IN ('settling', 'unknown') AND lease_until <= $1 ORDER BY created_at DESC, id LIMIT 100";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(now.as_millis()).fetch_all(c).await)?)
}

/// Deletes some old rows; see [`super::expired`]. After that, a payment that the chain has taken still buys nothing,
/// however long it is valid: the facilitator then reports at first that it was used before.
pub(crate) const EXPIRED: &str = "
    DELETE FROM payments
    WHERE created_at <= $1 - 7776000000 AND id IN (SELECT id FROM payments WHERE created_at <= $1 - 7776000000 LIMIT $2)";
const _: () = assert!(KEPT_DAYS * 86_400_000 == 7_776_000_000);
