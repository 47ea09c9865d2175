//! Apps in the database.

use deeplink_core::app::{AppDetail, AppPlatform, Identity, NewApp};
use deeplink_core::id::{AppId, TenantId};
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, on};

#[derive(FromRow)]
struct Row {
    id: String,
    platform: String,
    identifier: String,
    team_id: Option<String>,
    fingerprints: Option<String>,
    app_name: Option<String>,
    icon_url: Option<String>,
    theme_color: Option<String>,
    created_at: i64,
}

impl TryFrom<Row> for AppDetail {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("apps", column, &row.id);
        let platform = AppPlatform::from(row.platform.as_str());
        let sha256_fingerprints =
            row.fingerprints.as_deref().map(serde_json::from_str).transpose().map_err(|_| corrupt("fingerprints"))?;
        let (bundle_id, package_name) = match platform {
            AppPlatform::Ios => (Some(row.identifier), None),
            AppPlatform::Android => (None, Some(row.identifier)),
            _ => return Err(corrupt("platform")),
        };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            platform,
            app_name: row.app_name,
            bundle_id,
            package_name,
            team_id: row.team_id,
            sha256_fingerprints,
            icon_url: row.icon_url,
            theme_color: row.theme_color,
            created_at: Timestamp::from_millis(row.created_at),
        })
    }
}

/// Stores an app. One with the same platform and bundle or package is replaced and keeps its id and its position in
/// lists.
pub(crate) async fn put(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    id: &AppId,
    app: &NewApp,
    now: Timestamp,
) -> Result<AppDetail, DbError> {
    const SQL: &str = "
        INSERT INTO apps (id, tenant_id, platform, identifier, team_id, fingerprints, app_name, icon_url, theme_color,
            created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        ON CONFLICT (tenant_id, platform, identifier) DO UPDATE SET team_id = excluded.team_id,
            fingerprints = excluded.fingerprints, app_name = excluded.app_name, icon_url = excluded.icon_url,
            theme_color = excluded.theme_color
        RETURNING id, platform, identifier, team_id, fingerprints, app_name, icon_url, theme_color, created_at";
    let (platform, identifier, team_id, fingerprints) = match &app.identity {
        Identity::Ios { bundle_id, team_id } => (AppPlatform::Ios, bundle_id, Some(team_id.as_str()), None),
        Identity::Android { package_name, fingerprints } => {
            let list = serde_json::to_string(fingerprints)
                .map_err(|_| DbError::corrupt("apps", "fingerprints", id.as_str()))?;
            (AppPlatform::Android, package_name, None, Some(list))
        }
        _ => return Err(DbError::corrupt("apps", "platform", id.as_str())),
    };
    let row: Row = on!(db, c => sqlx::query_as(SQL)
        .bind(id.as_str())
        .bind(tenant.as_str())
        .bind(platform.as_str())
        .bind(identifier.as_str())
        .bind(team_id)
        .bind(fingerprints.as_deref())
        .bind(app.app_name.as_deref())
        .bind(app.icon_url.as_deref())
        .bind(app.theme_color.as_deref())
        .bind(now.as_millis())
        .fetch_one(c).await)?;
    row.try_into()
}

/// The number of a tenant's apps for a platform.
pub(crate) async fn count(db: &mut Conn<'_>, tenant: &TenantId, platform: &AppPlatform) -> Result<i64, DbError> {
    const SQL: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM apps WHERE tenant_id = $1 AND platform = $2";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(platform.as_str()).fetch_one(c).await)?)
}

/// A tenant's apps, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId, span: &Span) -> Result<Vec<AppDetail>, DbError> {
    const SQL: &str = newest_first!(
        "SELECT id, platform, identifier, team_id, fingerprints, app_name, icon_url, theme_color, created_at
        FROM apps WHERE tenant_id = $3"
    );
    let rows: Vec<Row> = pages::read(db, SQL, AppId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(AppDetail::try_from).collect()
}

/// One of a tenant's apps.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, id: &AppId) -> Result<Option<AppDetail>, DbError> {
    const SQL: &str = "
        SELECT id, platform, identifier, team_id, fingerprints, app_name, icon_url, theme_color, created_at
        FROM apps WHERE tenant_id = $1 AND id = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(AppDetail::try_from).transpose()
}

/// Deletes an app and returns its bundle or package; `None` if the tenant has none with this id.
pub(crate) async fn delete(db: &mut Conn<'_>, tenant: &TenantId, id: &AppId) -> Result<Option<String>, DbError> {
    const SQL: &str = "DELETE FROM apps WHERE tenant_id = $1 AND id = $2 RETURNING identifier";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?)
}
