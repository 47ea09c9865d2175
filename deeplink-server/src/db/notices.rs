//! Notifications between nodes on PostgreSQL. On SQLite there is one node, and the writer detects changes by operator
//! commands.

use std::time::Duration;

use deeplink_core::domain::DomainName;
use deeplink_core::id::TenantId;
use sqlx::postgres::PgListener;

use super::{Conn, DbError};

const CHANNEL: &str = "deeplink";
/// For nodes that send webhook deliveries.
const DELIVERIES_CHANNEL: &str = "deeplink_deliveries";
/// Interval and timeout of checks that an idle connection still works.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// Notifies other nodes at commit that a link was changed or deleted. Never called for creates or clicks, because
/// notifications serialize commits.
pub(crate) async fn link_changed(db: &mut Conn<'_>, tenant: &TenantId, link_id: &str) -> Result<(), DbError> {
    notify(db, &format!("link {tenant} {link_id}")).await
}

/// The same for several links.
pub(crate) async fn links_changed(db: &mut Conn<'_>, tenant: &TenantId, link_ids: &[&str]) -> Result<(), DbError> {
    const POSTGRES: &str = "SELECT count(pg_notify($1, 'link ' || $2 || ' ' || link)) FROM unnest($3) AS link";
    if let Conn::Postgres(conn) = db {
        let query = sqlx::query(POSTGRES).bind(CHANNEL).bind(tenant.as_str()).bind(link_ids);
        query.execute(&mut **conn).await?;
    }
    Ok(())
}

/// Notifies other nodes at commit that a tenant's domains or apps changed.
pub(crate) async fn tenant_changed(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    notify(db, &format!("tenant {tenant}")).await
}

/// Notifies the nodes at commit that an account was suspended or resumed.
pub(crate) async fn account_changed(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    notify(db, &format!("account {tenant}")).await
}

/// Notifies other nodes at commit that a tenant gained or lost a host.
pub(crate) async fn host_changed(db: &mut Conn<'_>, host: &DomainName, tenant: &TenantId) -> Result<(), DbError> {
    notify(db, &format!("host {host} {tenant}")).await
}

/// Notifies other nodes at commit that a key was deleted or its affiliate changed.
pub(crate) async fn key_changed(db: &mut Conn<'_>, key_hash: &str) -> Result<(), DbError> {
    notify(db, &format!("key {key_hash}")).await
}

/// Notifies other nodes at commit that keys were deleted, however many in one statement.
pub(crate) async fn keys_deleted(db: &mut Conn<'_>, key_hashes: &[String]) -> Result<(), DbError> {
    const POSTGRES: &str = "SELECT count(pg_notify($1, 'key ' || hash)) FROM unnest($2) AS hash";
    if let Conn::Postgres(conn) = db {
        sqlx::query(POSTGRES).bind(CHANNEL).bind(key_hashes).execute(&mut **conn).await?;
    }
    Ok(())
}

/// Notifies the node that sends a tenant's deliveries that there are new ones.
pub(crate) async fn delivery_waits(db: &mut Conn<'_>, tenant: &TenantId, holder: &str) -> Result<(), DbError> {
    notify_at(db, DELIVERIES_CHANNEL, &format!("{tenant} {holder}")).await
}

async fn notify(db: &mut Conn<'_>, payload: &str) -> Result<(), DbError> {
    notify_at(db, CHANNEL, payload).await
}

async fn notify_at(db: &mut Conn<'_>, channel: &str, payload: &str) -> Result<(), DbError> {
    if let Conn::Postgres(conn) = db {
        sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(payload).execute(&mut **conn).await?;
    }
    Ok(())
}

/// A change that another node has notified of.
pub(crate) enum Notice<'a> {
    /// A link of a tenant was changed or deleted.
    Link(&'a str, &'a str),
    /// The key of this hash was deleted, or its affiliate changed.
    Key(&'a str),
    /// A tenant's domains or apps changed.
    Tenant(TenantId),
    /// An account was suspended or resumed.
    Account(TenantId),
    /// A host was verified for a tenant, or removed from it.
    Host(DomainName, TenantId),
    /// Deliveries of a tenant wait for the sender of this name.
    Deliveries(TenantId, &'a str),
    /// Not known to this version.
    Other,
}

impl<'a> Notice<'a> {
    fn read(channel: &str, payload: &'a str) -> Option<Self> {
        if channel == DELIVERIES_CHANNEL {
            let (tenant, holder) = payload.split_once(' ')?;
            return Some(Self::Deliveries(tenant.parse().ok()?, holder));
        }
        let mut words = payload.split(' ');
        Some(match (words.next(), words.next(), words.next()) {
            (Some("link"), Some(tenant), Some(link_id)) => Self::Link(tenant, link_id),
            (Some("key"), Some(hash), None) => Self::Key(hash),
            (Some("tenant"), Some(tenant), None) if let Ok(tenant) = tenant.parse() => Self::Tenant(tenant),
            (Some("account"), Some(tenant), None) if let Ok(tenant) = tenant.parse() => Self::Account(tenant),
            (Some("host"), Some(host), Some(tenant)) if let (Ok(host), Ok(tenant)) = (host.parse(), tenant.parse()) => {
                Self::Host(host, tenant)
            }
            _ => Self::Other,
        })
    }
}

/// Receives notifications until the connection is lost; those sent after that are lost too. Calls `begun` once
/// connected.
pub(crate) async fn hear(url: &str, begun: impl FnOnce(), heard: impl Fn(Notice<'_>)) -> Result<(), DbError> {
    // Not from the pool, where it would occupy a connection permanently.
    let mut listener = PgListener::connect(url).await?;
    listener.ignore_pool_close_event(true);
    listener.eager_reconnect(false);
    listener.listen_all([CHANNEL, DELIVERIES_CHANNEL]).await?;
    begun();
    loop {
        match tokio::time::timeout(KEEPALIVE_INTERVAL, listener.try_recv()).await {
            Ok(Ok(Some(notice))) => _ = Notice::read(notice.channel(), notice.payload()).map(&heard),
            // `None`: the connection, and so notifications, were lost.
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                let query = sqlx::query("SELECT 1").execute(&mut listener);
                match tokio::time::timeout(KEEPALIVE_INTERVAL, query).await {
                    Ok(done) => _ = done?,
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}
