//! The public URL that the server last ran with, for commands that print links.

use futures_util::FutureExt;
use url::Url;

use super::{Conn, Db, DbError, execute, on};
use crate::shares::Share;

/// The row's name in `service`.
const NAME: &str = "public_url";

/// The URL, if a server has run.
pub(crate) async fn find(db: &mut Conn<'_>) -> Result<Option<Url>, DbError> {
    const SQL: &str = "SELECT value FROM service WHERE name = $1";
    let stored: Option<String> = on!(db, c => sqlx::query_scalar(SQL).bind(NAME).fetch_optional(c).await)?;
    stored.map(|url| url.parse().map_err(|_| DbError::corrupt("service", "value", NAME))).transpose()
}

/// Stores the URL, unless it is stored already.
pub(crate) async fn keep(db: &Db, url: &Url) -> Result<(), DbError> {
    // One that is damaged is replaced.
    if find(&mut db.read().await?.conn()).await.ok().flatten().as_ref() == Some(url) {
        return Ok(());
    }
    db.write(Share::Service, url.clone(), |tx, url| store(tx, url).boxed()).await
}

async fn store(db: &mut Conn<'_>, url: &Url) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO service (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    execute!(db, SQL; NAME, url.as_str())?;
    Ok(())
}
