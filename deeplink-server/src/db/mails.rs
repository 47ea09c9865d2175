//! Mails to be sent. A mail is stored in the transaction of its cause, and deleted when it has been sent.

use deeplink_core::id::MailId;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// A pending mail; its content is sealed.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) sealed: String,
    /// Number of attempts, including this one.
    pub(crate) attempts: i64,
    pub(crate) expires_at: i64,
}

/// The expiry of a mail that is stored and never sent, so that not sending one costs as much as sending it.
pub(crate) fn void() -> Timestamp {
    Timestamp::from_millis(0)
}

impl Waiting {
    /// Whether it is not meant to be sent.
    pub(crate) fn is_void(&self) -> bool {
        self.expires_at == void().as_millis()
    }
}

/// Stores a mail that is due now.
pub(crate) async fn insert(
    db: &mut Conn<'_>,
    id: &MailId,
    sealed: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO mails (id, sealed, due_at, expires_at) VALUES ($1, $2, $3, $4)";
    execute!(db, SQL; id.as_str(), sealed, now.as_millis(), expires_at.as_millis())?;
    Ok(())
}

/// Claims due mails until the lease expires, so that no other node sends them.
pub(crate) async fn claim(db: &mut Conn<'_>, now: Timestamp, lease_until: Timestamp) -> Result<Vec<Waiting>, DbError> {
    const SQLITE: &str = "
        UPDATE mails SET due_at = $2, attempts = attempts + 1
        WHERE id IN (SELECT id FROM mails WHERE due_at <= $1 ORDER BY due_at, id LIMIT 16)
        RETURNING id, sealed, attempts, expires_at";
    // The same, with the clause that keeps nodes from waiting for each other.
    const POSTGRES: &str = "
        UPDATE mails SET due_at = $2, attempts = attempts + 1
        WHERE id IN (SELECT id FROM mails WHERE due_at <= $1 ORDER BY due_at, id LIMIT 16 FOR UPDATE SKIP LOCKED)
        RETURNING id, sealed, attempts, expires_at";
    let sql = if matches!(db, Conn::Sqlite(_)) { SQLITE } else { POSTGRES };
    Ok(on!(db, c => sqlx::query_as(sql).bind(now.as_millis()).bind(lease_until.as_millis()).fetch_all(c).await)?)
}

/// Deletes a mail that was sent or is obsolete.
pub(crate) async fn delete(db: &mut Conn<'_>, id: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM mails WHERE id = $1";
    execute!(db, SQL; id)?;
    Ok(())
}

/// Makes all pending mails due now. Only if no other node can be sending one.
pub(crate) async fn release(db: &mut Conn<'_>, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "UPDATE mails SET due_at = $1 WHERE due_at > $1";
    execute!(db, SQL; now.as_millis())?;
    Ok(())
}

/// Postpones a mail.
pub(crate) async fn put_off(db: &mut Conn<'_>, id: &str, until: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "UPDATE mails SET due_at = $2 WHERE id = $1";
    execute!(db, SQL; id, until.as_millis())?;
    Ok(())
}

/// The time when the next mail is due.
pub(crate) async fn next_due(db: &mut Conn<'_>) -> Result<Option<Timestamp>, DbError> {
    const SQL: &str = "SELECT due_at FROM mails ORDER BY due_at LIMIT 1";
    let due: Option<i64> = on!(db, c => sqlx::query_scalar(SQL).fetch_optional(c).await)?;
    Ok(due.map(Timestamp::from_millis))
}
