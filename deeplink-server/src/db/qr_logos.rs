//! Logos that accounts upload for their QR codes.

use deeplink_core::id::TenantId;
use deeplink_core::qr_logo::QrLogo;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::{Conn, DbError, execute, on};

/// A logo to store.
#[derive(Debug)]
pub(crate) struct NewLogo {
    pub(crate) name: String,
    /// A PNG.
    pub(crate) image: Vec<u8>,
    /// Its SHA-256 in hex.
    pub(crate) digest: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

#[derive(FromRow)]
struct Row {
    name: String,
    width: i64,
    height: i64,
    bytes: i64,
    created_at: i64,
    updated_at: i64,
}

impl TryFrom<Row> for QrLogo {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("qr_logos", column, &row.name);
        let width = u32::try_from(row.width).map_err(|_| corrupt("width"))?;
        let height = u32::try_from(row.height).map_err(|_| corrupt("height"))?;
        let bytes = u64::try_from(row.bytes).map_err(|_| corrupt("bytes"))?;
        let [created, updated] = [row.created_at, row.updated_at].map(Timestamp::from_millis);
        Ok(Self::new(row.name, width, height, bytes, created, updated))
    }
}

/// Stores a logo. One with the same name is replaced, and keeps the time of its creation.
pub(crate) async fn put(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    logo: &NewLogo,
    now: Timestamp,
) -> Result<QrLogo, DbError> {
    const SQL: &str = "
        INSERT INTO qr_logos (tenant_id, name, image, digest, width, height, bytes, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
        ON CONFLICT (tenant_id, name) DO UPDATE SET image = excluded.image, digest = excluded.digest,
            width = excluded.width, height = excluded.height, bytes = excluded.bytes,
            updated_at = excluded.updated_at
        RETURNING name, width, height, bytes, created_at, updated_at";
    let bytes = i64::try_from(logo.image.len()).unwrap_or(i64::MAX);
    let row: Row = on!(db, c => sqlx::query_as(SQL)
        .bind(tenant.as_str()).bind(&logo.name).bind(logo.image.as_slice()).bind(&logo.digest)
        .bind(i64::from(logo.width)).bind(i64::from(logo.height)).bind(bytes).bind(now.as_millis())
        .fetch_one(c).await)?;
    row.try_into()
}

/// An account's logos, in alphabetical order.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<QrLogo>, DbError> {
    const SQL: &str = "
        SELECT name, width, height, bytes, created_at, updated_at FROM qr_logos WHERE tenant_id = $1 ORDER BY name";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    rows.into_iter().map(QrLogo::try_from).collect()
}

/// The names of an account's logos, in alphabetical order, from the index alone.
pub(crate) async fn names(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<String>, DbError> {
    const SQL: &str = "SELECT name FROM qr_logos WHERE tenant_id = $1 ORDER BY name";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_all(c).await)?)
}

/// The digest of one of an account's logos.
pub(crate) async fn digest(db: &mut Conn<'_>, tenant: &TenantId, name: &str) -> Result<Option<String>, DbError> {
    const SQL: &str = "SELECT digest FROM qr_logos WHERE tenant_id = $1 AND name = $2";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(name).fetch_optional(c).await)?)
}

/// One of an account's logos: the digest and the PNG.
pub(crate) async fn image(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    name: &str,
) -> Result<Option<(String, Vec<u8>)>, DbError> {
    const SQL: &str = "SELECT digest, image FROM qr_logos WHERE tenant_id = $1 AND name = $2";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(name).fetch_optional(c).await)?)
}

/// Deletes a logo. `false` if the account has none with this name.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, name: &str) -> Result<bool, DbError> {
    const SQL: &str = "DELETE FROM qr_logos WHERE tenant_id = $1 AND name = $2";
    Ok(execute!(db, SQL; tenant.as_str(), name)? == 1)
}
