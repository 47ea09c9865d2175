//! Read-only inspection of a database, for `check`.

use std::path::Path;

use deeplink_core::time::Timestamp;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};

use super::open::{self, MIGRATIONS, OpenError};
use super::payments::{self, Unresolved};
use super::sealed::{self, SealedValues};
use super::{Conn, DbError, on, vault_check};

/// The result of an inspection.
#[derive(Debug)]
pub(crate) enum Inspected {
    /// It does not exist; the first start creates it.
    Missing,
    /// A database that this build can serve.
    Usable {
        /// Number of accounts.
        tenants: i64,
        /// Number of links.
        links: i64,
        /// Number of pending migrations.
        pending: usize,
        /// Payments that may or may not have been settled.
        unresolved: Vec<Unresolved>,
        /// The sealed values. While migrations are pending only the check value is known.
        sealed: SealedValues,
    },
}

/// Inspects the database at `url`.
pub(crate) async fn inspect(url: &str, now: Timestamp) -> Result<Inspected, OpenError> {
    if let Some(path) = url.strip_prefix("sqlite://").map(Path::new) {
        if !path.exists() {
            return Ok(Inspected::Missing);
        }
        let options = open::sqlite_options(path).create_if_missing(false).read_only(true);
        let mut conn = SqliteConnection::connect_with(&options).await?;
        open::check_sqlite(&mut conn).await?;
        let verdict: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut conn).await?;
        if verdict != "ok" {
            return Err(OpenError::Unsafe(format!("the file is damaged, restore a backup: {verdict}")));
        }
        let seen = inspect_connection(Conn::Sqlite(&mut conn), now).await;
        conn.close().await?;
        return seen;
    }
    let options: PgConnectOptions = url.parse::<PgConnectOptions>()?.disable_statement_logging();
    let mut conn = match PgConnection::connect_with(&options).await {
        Ok(conn) => conn,
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(open::NO_SUCH_DATABASE) => {
            return Ok(Inspected::Missing);
        }
        Err(error) => return Err(error.into()),
    };
    open::check_postgres(&mut conn).await?;
    let seen = inspect_connection(Conn::Postgres(&mut conn), now).await;
    conn.close().await?;
    seen
}

async fn inspect_connection(mut db: Conn<'_>, now: Timestamp) -> Result<Inspected, OpenError> {
    const TABLE: &str = "SELECT 1 FROM _sqlx_migrations LIMIT 1";
    const APPLIED: &str = "SELECT version FROM _sqlx_migrations ORDER BY version";
    const COUNTS: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(link_count), 0) AS BIGINT) FROM tenants";
    let pending_all = MIGRATIONS.iter().count();
    // An empty database has no migrations table.
    if on!(&mut db, c => sqlx::query(TABLE).fetch_optional(c).await.map(|_| ())).is_err() {
        let (pending, unresolved) = (pending_all, Vec::new());
        let sealed = SealedValues::NONE;
        return Ok(Inspected::Usable { tenants: 0, links: 0, pending, unresolved, sealed });
    }
    let applied: Vec<i64> = on!(&mut db, c => sqlx::query_scalar(APPLIED).fetch_all(c).await)?;
    let known = |version: &i64| MIGRATIONS.iter().any(|migration| migration.version == *version);
    if let Some(version) = applied.iter().find(|version| !known(version)) {
        return Err(OpenError::Newer(format!("migration {version} is unknown to this version")));
    }
    let (tenants, links): (i64, i64) = on!(&mut db, c => sqlx::query_as(COUNTS).fetch_one(c).await)?;
    let failed = |error| match error {
        DbError::Query(error) => OpenError::Database(error),
        other => OpenError::Unsafe(other.to_string()),
    };
    let pending = pending_all.saturating_sub(applied.len());
    if pending > 0 {
        let sealed = SealedValues { check: vault_check::find(&mut db).await.map_err(failed)?, counts: None };
        return Ok(Inspected::Usable { tenants, links, pending, unresolved: Vec::new(), sealed });
    }
    let unresolved = payments::unresolved(&mut db, now).await.map_err(failed)?;
    let sealed = sealed::survey(&mut db).await.map_err(failed)?;
    Ok(Inspected::Usable { tenants, links, pending, unresolved, sealed })
}
