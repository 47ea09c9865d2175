//! Hosts and what a tenant shows of itself: its verified domains and its apps.

use deeplink_core::id::TenantId;
use sqlx::FromRow;

use super::{Conn, DbError, on};
use crate::cache::{Face, FaceApp};
use crate::state::Host;

/// The tenant that has verified a host name.
pub(crate) async fn find(db: &mut Conn<'_>, name: &str) -> Result<Option<Host>, DbError> {
    const SQL: &str = "SELECT tenant_id, role FROM domains WHERE domain = $1 AND verified_at IS NOT NULL";
    let row: Option<(String, String)> = on!(db, c => sqlx::query_as(SQL).bind(name).fetch_optional(c).await)?;
    row.map(|(tenant, role)| {
        let tenant = tenant.parse().map_err(|_| DbError::corrupt("domains", "tenant_id", name))?;
        Ok(Host { tenant, alternate: role == "alternate" })
    })
    .transpose()
}

#[derive(FromRow)]
struct AppRow {
    platform: String,
    identifier: String,
    app_name: Option<String>,
    icon_url: Option<String>,
    theme_color: Option<String>,
}

/// What a tenant shows of itself.
pub(crate) async fn face_of(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Face, DbError> {
    const DOMAINS: &str = "
        SELECT domain, role FROM domains WHERE tenant_id = $1 AND verified_at IS NOT NULL ORDER BY created_at, id";
    const APPS: &str = "
        SELECT platform, identifier, app_name, icon_url, theme_color FROM apps WHERE tenant_id = $1
        ORDER BY created_at, id";
    let domains: Vec<(String, String)> =
        on!(db, c => sqlx::query_as(DOMAINS).bind(tenant.as_str()).fetch_all(c).await)?;
    let apps: Vec<AppRow> = on!(db, c => sqlx::query_as(APPS).bind(tenant.as_str()).fetch_all(c).await)?;
    let of = |role: &str| domains.iter().find(|(_, its)| its == role).map(|(domain, _)| domain.clone());
    let primary = of("primary");
    let android_is_oldest = apps.first().is_some_and(|app| app.platform == "android");
    let (ios, android): (Vec<AppRow>, Vec<AppRow>) = apps.into_iter().partition(|app| app.platform == "ios");
    let only_android_package = match android.as_slice() {
        [only] => Some(only.identifier.clone()),
        _ => None,
    };
    let oldest = |apps: Vec<AppRow>| {
        let app = apps.into_iter().next()?;
        Some(FaceApp { name: app.app_name, icon_url: app.icon_url, theme_color: app.theme_color })
    };
    Ok(Face {
        domain: primary.clone().or_else(|| domains.first().map(|(domain, _)| domain.clone())),
        primary,
        alternate: of("alternate"),
        ios: oldest(ios),
        android: oldest(android),
        android_is_oldest,
        only_android_package,
    })
}
