//! ACME accounts and pending challenges.

use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// An account as it is stored.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct Account {
    /// The URL of the ACME server's directory; the sealed value is bound to it.
    pub(crate) directory: String,
    /// The contact address registered with the ACME server.
    pub(crate) contact: Option<String>,
    pub(crate) sealed: String,
}

/// The account at an ACME server.
pub(crate) async fn find_account(db: &mut Conn<'_>, directory: &str) -> Result<Option<Account>, DbError> {
    const SQL: &str = "SELECT directory, contact, sealed FROM acme_accounts WHERE directory = $1";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(directory).fetch_optional(c).await)?)
}

/// Stores an account, replacing an earlier one.
pub(crate) async fn keep_account(db: &mut Conn<'_>, account: &Account, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO acme_accounts (directory, contact, sealed, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (directory) DO UPDATE SET
            contact = excluded.contact, sealed = excluded.sealed, created_at = excluded.created_at";
    execute!(db, SQL; &account.directory, account.contact.as_deref(), &account.sealed, now.as_millis())?;
    Ok(())
}

/// Deletes an account that the ACME server does not know.
pub(crate) async fn forget_account(db: &mut Conn<'_>, directory: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM acme_accounts WHERE directory = $1";
    execute!(db, SQL; directory)?;
    Ok(())
}

/// Deletes the accounts that are sealed with a master key that is lost.
pub(crate) async fn forget_sealed_with(db: &mut Conn<'_>, key: &str) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM acme_accounts WHERE substr(sealed, 1, 8) = $1";
    execute!(db, SQL; key)?;
    Ok(())
}

/// An HTTP-01 challenge.
#[derive(Debug, Clone)]
pub(crate) struct Challenge {
    pub(crate) token: String,
    pub(crate) name: String,
    pub(crate) key_authorization: String,
    pub(crate) expires_at: Timestamp,
}

/// Stores a challenge, so that every node can answer it.
pub(crate) async fn insert_challenge(db: &mut Conn<'_>, challenge: &Challenge) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO acme_challenges (token, name, key_authorization, expires_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (token) DO UPDATE SET
            name = excluded.name, key_authorization = excluded.key_authorization, expires_at = excluded.expires_at";
    execute!(db, SQL;
        &challenge.token, &challenge.name, &challenge.key_authorization, challenge.expires_at.as_millis())?;
    Ok(())
}

/// The key authorization of a pending challenge.
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

/// Deletes the challenges of a name whose order has ended, and expired ones.
pub(crate) async fn end_challenges(db: &mut Conn<'_>, name: &str, now: Timestamp) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM acme_challenges WHERE name = $1 OR expires_at <= $2";
    execute!(db, SQL; name, now.as_millis())?;
    Ok(())
}
