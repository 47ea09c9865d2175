//! Mails that wait to be sent. A row commits with the fact it tells of, and goes when the mail is out.

use deeplink_core::id::MailId;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, on};

/// A mail as it waits; what it says is sealed.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) sealed: String,
    /// How often it has been tried, this time included.
    pub(crate) attempts: i64,
    pub(crate) expires_at: i64,
}

/// Stores a mail, due now.
pub(crate) async fn insert(
    db: &mut Conn<'_>,
    id: &MailId,
    sealed: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO mails (id, sealed, due_at, expires_at) VALUES ($1, $2, $3, $4)";
    on!(db, c => sqlx::query(SQL)
        .bind(id.as_str()).bind(sealed).bind(now.as_millis()).bind(expires_at.as_millis())
        .execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Takes mails that are due, for as long as the lease runs: nobody else tries them until then.
pub(crate) async fn claim(db: &mut Conn<'_>, now: Timestamp, lease_until: Timestamp) -> Result<Vec<Waiting>, DbError> {
    const SQLITE: &str = "
        UPDATE mails SET due_at = $2, attempts = attempts + 1
        WHERE id IN (SELECT id FROM mails WHERE due_at <= $1 ORDER BY due_at, id LIMIT 16)
        RETURNING id, sealed, attempts, expires_at";
    // The same claim, with the clause that lets two nodes pass each other.
    const POSTGRES: &str = "
        UPDATE mails SET due_at = $2, attempts = attempts + 1
        WHERE id IN (SELECT id FROM mails WHERE due_at <= $1 ORDER BY due_at, id LIMIT 16 FOR UPDATE SKIP LOCKED)
        RETURNING id, sealed, attempts, expires_at";
    let sql = if matches!(db, Conn::Sqlite(_)) { SQLITE } else { POSTGRES };
    Ok(on!(db, c => sqlx::query_as(sql).bind(now.as_millis()).bind(lease_until.as_millis()).fetch_all(c).await)?)
}

/// Removes a mail that is out, or that nobody needs any more.
pub(crate) async fn delete(db: &mut Conn<'_>, id: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM mails WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(id).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Makes every waiting mail due now. Only where no other node can be sending one.
pub(crate) async fn release(db: &mut Conn<'_>, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "UPDATE mails SET due_at = $1 WHERE due_at > $1";
    on!(db, c => sqlx::query(SQL).bind(now.as_millis()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Puts a mail off.
pub(crate) async fn put_off(db: &mut Conn<'_>, id: &str, until: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "UPDATE mails SET due_at = $2 WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(id).bind(until.as_millis()).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// When the next mail is due.
pub(crate) async fn next_due(db: &mut Conn<'_>) -> Result<Option<Timestamp>, DbError> {
    const SQL: &str = "SELECT due_at FROM mails ORDER BY due_at LIMIT 1";
    let due: Option<i64> = on!(db, c => sqlx::query_scalar(SQL).fetch_optional(c).await)?;
    Ok(due.map(Timestamp::from_millis))
}

/// Every waiting mail's id and what is sealed in it, so that a new server key can take over.
pub(crate) async fn all_sealed(db: &mut Conn<'_>) -> Result<Vec<(String, String)>, DbError> {
    const SQL: &str = "SELECT id, sealed FROM mails ORDER BY id";
    Ok(on!(db, c => sqlx::query_as(SQL).fetch_all(c).await)?)
}

/// Replaces what is sealed in a mail.
pub(crate) async fn reseal(db: &mut Conn<'_>, id: &str, sealed: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE mails SET sealed = $2 WHERE id = $1";
    on!(db, c => sqlx::query(SQL).bind(id).bind(sealed).execute(c).await.map(|_| ()))?;
    Ok(())
}
