//! Hosts, and the branding of tenants: their verified domains and apps.

use deeplink_core::id::TenantId;
use sqlx::FromRow;

use super::domains::hosts_of;
use super::{Conn, DbError, on, suspensions, takedowns};

/// A verified custom host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    pub(crate) alternate: bool,
    /// Where people who open `/` are sent.
    pub(crate) root_url: Option<String>,
    /// Where people who open a link that does not exist are sent.
    pub(crate) not_found_url: Option<String>,
    /// The hosts that long links may lead to; `None`: they are not followed.
    pub(crate) long_links: Option<Vec<String>>,
}

#[derive(FromRow)]
struct HostRow {
    tenant_id: String,
    role: String,
    root_url: Option<String>,
    not_found_url: Option<String>,
    long_links: bool,
    allowed_hosts: Option<String>,
}

/// The tenant that has verified a host name, and where the host sends people who open no link: nowhere if the operator
/// suspended the account, or took down a link that led there.
pub(crate) async fn find(db: &mut Conn<'_>, name: &str) -> Result<Option<Host>, DbError> {
    const SQL: &str = "
        SELECT tenant_id, role, root_url, not_found_url, long_links, allowed_hosts FROM domains
        WHERE domain = $1 AND verified_at IS NOT NULL";
    let row: Option<HostRow> = on!(db, c => sqlx::query_as(SQL).bind(name).fetch_optional(c).await)?;
    let Some(row) = row else { return Ok(None) };
    let tenant: TenantId = row.tenant_id.parse().map_err(|_| DbError::corrupt("domains", "tenant_id", name))?;
    let (mut root_url, mut not_found_url) = (row.root_url, row.not_found_url);
    if root_url.is_some() || not_found_url.is_some() {
        let is_suspended = suspensions::is_suspended(db, &tenant).await?;
        let urls = [&root_url, &not_found_url].into_iter().filter_map(Option::as_deref);
        let blocked = takedowns::blocked(db, &tenant, urls).await?;
        for url in [&mut root_url, &mut not_found_url] {
            url.take_if(|url| is_suspended || blocked.refuses(url));
        }
    }
    let allowed = hosts_of(row.allowed_hosts.as_deref());
    let allowed = allowed.ok_or_else(|| DbError::corrupt("domains", "allowed_hosts", name))?;
    let long_links = row.long_links.then_some(allowed);
    let alternate = row.role == "alternate";
    Ok(Some(Host { tenant, name: name.to_owned(), alternate, root_url, not_found_url, long_links }))
}

/// What the service shows of a link's tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TenantBranding {
    /// ID of the tenant.
    pub(crate) tenant: String,
    /// Verified primary, else any verified domain.
    pub(crate) domain: Option<String>,
    /// The oldest verified domain of role `primary`, which its links use.
    pub(crate) primary: Option<String>,
    /// The origin of the verified domain of role `alternate`.
    pub(crate) alternate: Option<String>,
    /// The oldest iOS app.
    pub(crate) ios: Option<AppBranding>,
    /// The oldest Android app.
    pub(crate) android: Option<AppBranding>,
    /// Whether the oldest app of all is the one for Android.
    pub(crate) android_is_oldest: bool,
    /// The packages of the Android apps.
    pub(crate) android_packages: Vec<String>,
    /// Whether the operator suspended the account: visitors see its links disabled.
    pub(crate) is_suspended: bool,
    /// The account's own icon and color.
    pub(crate) icon_url: Option<String>,
    pub(crate) theme_color: Option<String>,
}

/// What a page shows of an app.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AppBranding {
    pub(crate) name: Option<String>,
    pub(crate) icon_url: Option<String>,
    pub(crate) theme_color: Option<String>,
}

impl AppBranding {
    /// Its display name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

#[derive(FromRow, Default)]
struct AccountRow {
    is_suspended: bool,
    icon_url: Option<String>,
    theme_color: Option<String>,
}

#[derive(FromRow)]
struct AppRow {
    platform: String,
    identifier: String,
    app_name: Option<String>,
    icon_url: Option<String>,
    theme_color: Option<String>,
}

/// The branding of a tenant; `origin_of` gives the origin of a domain.
pub(crate) async fn branding_of(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    origin_of: impl Fn(&str) -> String,
) -> Result<TenantBranding, DbError> {
    const ACCOUNT: &str = "
        SELECT suspended_at IS NOT NULL AS is_suspended, icon_url, theme_color FROM tenants WHERE id = $1";
    const DOMAINS: &str = "
        SELECT domain, role FROM domains WHERE tenant_id = $1 AND verified_at IS NOT NULL ORDER BY created_at, id";
    const APPS: &str = "
        SELECT platform, identifier, app_name, icon_url, theme_color FROM apps WHERE tenant_id = $1
        ORDER BY created_at, id";
    let account: Option<AccountRow> =
        on!(db, c => sqlx::query_as(ACCOUNT).bind(tenant.as_str()).fetch_optional(c).await)?;
    let account = account.unwrap_or_default();
    let domains: Vec<(String, String)> =
        on!(db, c => sqlx::query_as(DOMAINS).bind(tenant.as_str()).fetch_all(c).await)?;
    let apps: Vec<AppRow> = on!(db, c => sqlx::query_as(APPS).bind(tenant.as_str()).fetch_all(c).await)?;
    let of = |role: &str| domains.iter().find(|(_, its)| its == role).map(|(domain, _)| domain.clone());
    let primary = of("primary");
    let android_is_oldest = apps.first().is_some_and(|app| app.platform == "android");
    let (ios, android): (Vec<AppRow>, Vec<AppRow>) = apps.into_iter().partition(|app| app.platform == "ios");
    let android_packages = android.iter().map(|app| app.identifier.clone()).collect();
    let oldest = |apps: Vec<AppRow>| {
        let app = apps.into_iter().next()?;
        Some(AppBranding { name: app.app_name, icon_url: app.icon_url, theme_color: app.theme_color })
    };
    Ok(TenantBranding {
        tenant: tenant.as_str().to_owned(),
        domain: primary.clone().or_else(|| domains.first().map(|(domain, _)| domain.clone())),
        primary,
        alternate: of("alternate").map(|host| origin_of(&host)),
        ios: oldest(ios),
        android: oldest(android),
        android_is_oldest,
        android_packages,
        is_suspended: account.is_suspended,
        icon_url: account.icon_url,
        theme_color: account.theme_color,
    })
}
