//! What lies between this service and an ACME server: the account there, and the challenges it may come and ask for.

use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, on};

/// An account as it is stored.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct Account {
    /// The address of the ACME server's directory; what is sealed is bound to it.
    pub(crate) directory: String,
    /// The mail address that the ACME server was told.
    pub(crate) contact: Option<String>,
    pub(crate) sealed: String,
}

/// The account at an ACME server.
pub(crate) async fn find_account(db: &mut Conn<'_>, directory: &str) -> Result<Option<Account>, DbError> {
    const SQL: &str = "SELECT directory, contact, sealed FROM acme_accounts WHERE directory = $1";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(directory).fetch_optional(c).await)?)
}

/// Keeps an account, in the place of an earlier one.
pub(crate) async fn keep_account(db: &mut Conn<'_>, account: &Account, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO acme_accounts (directory, contact, sealed, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (directory) DO UPDATE SET
            contact = excluded.contact, sealed = excluded.sealed, created_at = excluded.created_at";
    on!(db, c => sqlx::query(SQL)
        .bind(&account.directory).bind(account.contact.as_deref()).bind(&account.sealed).bind(now.as_millis())
        .execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Forgets an account that its ACME server does not know.
pub(crate) async fn forget_account(db: &mut Conn<'_>, directory: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM acme_accounts WHERE directory = $1";
    on!(db, c => sqlx::query(SQL).bind(directory).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Every account's directory and what is sealed in it, so that a new server key can take over.
pub(crate) async fn all_sealed(db: &mut Conn<'_>) -> Result<Vec<(String, String)>, DbError> {
    const SQL: &str = "SELECT directory, sealed FROM acme_accounts ORDER BY directory";
    Ok(on!(db, c => sqlx::query_as(SQL).fetch_all(c).await)?)
}

/// Replaces what is sealed in an account.
pub(crate) async fn reseal(db: &mut Conn<'_>, directory: &str, sealed: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE acme_accounts SET sealed = $2 WHERE directory = $1";
    on!(db, c => sqlx::query(SQL).bind(directory).bind(sealed).execute(c).await.map(|_| ()))?;
    Ok(())
}

/// What an ACME server may ask a name for.
#[derive(Debug, Clone)]
pub(crate) struct Challenge {
    pub(crate) token: String,
    pub(crate) name: String,
    pub(crate) key_authorization: String,
    pub(crate) expires_at: Timestamp,
}

/// Lets every node answer a challenge.
pub(crate) async fn insert_challenge(db: &mut Conn<'_>, challenge: &Challenge) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO acme_challenges (token, name, key_authorization, expires_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (token) DO UPDATE SET
            name = excluded.name, key_authorization = excluded.key_authorization, expires_at = excluded.expires_at";
    on!(db, c => sqlx::query(SQL)
        .bind(&challenge.token).bind(&challenge.name).bind(&challenge.key_authorization)
        .bind(challenge.expires_at.as_millis())
        .execute(c).await.map(|_| ()))?;
    Ok(())
}

/// The answer to a challenge of this name that is pending.
pub(crate) async fn find_challenge(
    db: &mut Conn<'_>,
    token: &str,
    name: &str,
    now: Timestamp,
) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT key_authorization FROM acme_challenges WHERE token = $1 AND name = $2 AND expires_at > $3";
    Ok(on!(db, c => sqlx::query_scalar(SQL)
        .bind(token).bind(name).bind(now.as_millis()).fetch_optional(c).await)?)
}

/// Ends the challenges of a name whose order is over, and those whose time is.
pub(crate) async fn end_challenges(db: &mut Conn<'_>, name: &str, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM acme_challenges WHERE name = $1 OR expires_at <= $2";
    on!(db, c => sqlx::query(SQL).bind(name).bind(now.as_millis()).execute(c).await.map(|_| ()))?;
    Ok(())
}
