//! The check value, which only the right master keys can decrypt.

use super::{Conn, DbError, execute, on};

/// The row's name in `service`.
pub(crate) const NAME: &str = "vault_check";

/// The check value, if a node has stored it.
pub(crate) async fn find(db: &mut Conn<'_>) -> Result<Option<String>, DbError> {
    const SQL: &str = "SELECT value FROM service WHERE name = $1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(NAME).fetch_optional(c).await)?)
}

/// Stores the check value unless there is one.
pub(crate) async fn insert(db: &mut Conn<'_>, value: &str) -> Result<(), DbError> {
    const SQL: &str = "INSERT INTO service (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    execute!(db, SQL; NAME, value)?;
    Ok(())
}

/// Replaces the check value.
pub(crate) async fn replace(db: &mut Conn<'_>, value: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE service SET value = $2 WHERE name = $1";
    execute!(db, SQL; NAME, value)?;
    Ok(())
}
