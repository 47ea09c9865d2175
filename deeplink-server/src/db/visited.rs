//! What visitors find under an ID or an alias: one lookup in the index of IDs, and one more only for an alias.

use deeplink_core::id::TenantId;

use super::links::{Link, Row, select_where};
use super::{Conn, DbError, on};

/// What a name leads to.
#[derive(Debug)]
pub(crate) enum Visited {
    /// The link with this ID, including one that was taken down and then deleted.
    Link(Box<Link>),
    /// The link with another ID, of which the name is an alias.
    Alias(TenantId, String),
}

/// What visitors of a tenant's hosts find under a name.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, name: &str) -> Result<Option<Visited>, DbError> {
    const SQL: &str = select_where!(visited: "tenant_id = $1 AND link_id = $2");
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(name).fetch_optional(c).await)?;
    of(db, row).await
}

/// The same for a name on the service's own host.
pub(crate) async fn find_claimed(db: &mut Conn<'_>, name: &str) -> Result<Option<Visited>, DbError> {
    const SQL: &str = select_where!(visited: "link_id = $1 AND claimed");
    let row: Option<Row> = on!(db, c => sqlx::query_as(SQL).bind(name).fetch_optional(c).await)?;
    of(db, row).await
}

async fn of(db: &mut Conn<'_>, row: Option<Row>) -> Result<Option<Visited>, DbError> {
    const LINK: &str = "SELECT link_id FROM links WHERE position = $1";
    let Some(row) = row else { return Ok(None) };
    let position = row.alias_of;
    let link = Link::try_from(row)?;
    let Some(position) = position else { return Ok(Some(Visited::Link(Box::new(link)))) };
    let found: Option<String> = on!(db, c => sqlx::query_scalar(LINK).bind(position).fetch_optional(c).await)?;
    Ok(found.map(|link_id| Visited::Alias(link.tenant, link_id)))
}
