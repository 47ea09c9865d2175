//! Conversion sources. A token is stored as its hash for lookup, and sealed because its URL is shown again.

use deeplink_core::id::{SourceId, TenantId};
use deeplink_core::secret::Token;
use deeplink_core::source::SourceType;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, execute, on};

/// A source to store.
#[derive(Debug, Clone)]
pub(crate) struct NewSource {
    pub(crate) id: SourceId,
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    pub(crate) source_type: SourceType,
    /// Only its hash is stored.
    pub(crate) token: Token,
    /// The token, sealed under the row's id.
    pub(crate) sealed: String,
    pub(crate) created_at: Timestamp,
}

/// A stored source without the hash.
#[derive(Debug, Clone)]
pub(crate) struct StoredSource {
    pub(crate) id: SourceId,
    pub(crate) name: String,
    pub(crate) source_type: SourceType,
    pub(crate) sealed: String,
    pub(crate) created_at: Timestamp,
}

#[derive(FromRow)]
struct Row {
    id: String,
    name: String,
    source_type: String,
    sealed: String,
    created_at: i64,
}

impl TryFrom<Row> for StoredSource {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        Ok(Self {
            id: row.id.parse().map_err(|_| DbError::corrupt("sources", "id", &row.id))?,
            name: row.name,
            source_type: SourceType::from(row.source_type.as_str()),
            sealed: row.sealed,
            created_at: Timestamp::from_millis(row.created_at),
        })
    }
}

/// Stores a source; `false` if another one of the account has its name.
pub(crate) async fn insert(db: &mut Conn<'_>, new: &NewSource) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO sources (id, tenant_id, name, source_type, token_hash, sealed, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant_id, name) DO NOTHING";
    let rows = execute!(db, SQL;
        new.id.as_str(), new.tenant.as_str(), &new.name, new.source_type.as_str(), new.token.hash(), &new.sealed,
        new.created_at.as_millis())?;
    Ok(rows == 1)
}

/// The number of an account's sources.
pub(crate) async fn count(db: &mut Conn<'_>, tenant: &TenantId) -> Result<i64, DbError> {
    const SQL: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM sources WHERE tenant_id = $1";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// An account's sources, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId, span: &Span) -> Result<Vec<StoredSource>, DbError> {
    const SQL: &str =
        newest_first!("SELECT id, name, source_type, sealed, created_at FROM sources WHERE tenant_id = $3");
    let rows: Vec<Row> = pages::read(db, SQL, SourceId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(StoredSource::try_from).collect()
}

/// An account's source by id.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, id: &SourceId) -> Result<Option<StoredSource>, DbError> {
    const SQL: &str = "
        SELECT id, name, source_type, sealed, created_at FROM sources WHERE tenant_id = $1 AND id = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(StoredSource::try_from).transpose()
}

/// A source as the address that conversions are posted to.
#[derive(Debug)]
pub(crate) struct SourceUse {
    pub(crate) id: SourceId,
    pub(crate) tenant: TenantId,
    pub(crate) is_suspended: bool,
}

/// The source and its account, by the token's hash.
pub(crate) async fn by_hash(db: &mut Conn<'_>, hash: &str) -> Result<Option<SourceUse>, DbError> {
    const SQL: &str = "
        SELECT s.id, s.tenant_id, t.suspended_at IS NOT NULL FROM sources s JOIN tenants t ON t.id = s.tenant_id
        WHERE s.token_hash = $1";
    let row: Option<(String, String, bool)> = on!(db, c => sqlx::query_as(SQL).bind(hash).fetch_optional(c).await)?;
    let Some((id, tenant, is_suspended)) = row else { return Ok(None) };
    let corrupt = |column| DbError::corrupt("sources", column, &id);
    let tenant = tenant.parse().map_err(|_| corrupt("tenant_id"))?;
    Ok(Some(SourceUse { id: id.parse().map_err(|_| corrupt("id"))?, tenant, is_suspended }))
}

/// Deletes a source and returns its name; `None` if the account has none with this id.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, id: &SourceId) -> Result<Option<String>, DbError> {
    const SQL: &str = "DELETE FROM sources WHERE tenant_id = $1 AND id = $2 RETURNING name";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?)
}
