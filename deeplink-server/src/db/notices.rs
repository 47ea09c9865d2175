//! Telling other nodes what changed. On SQLite there are none; operator commands are noticed by the writer.

use std::sync::Arc;
use std::time::Duration;

use deeplink_core::domain::DomainName;
use deeplink_core::id::TenantId;
use sqlx::postgres::PgListener;

use super::{Conn, DbError};
use crate::happened::Happened;
use crate::state::App;

const CHANNEL: &str = "deeplink";
/// Where senders of deliveries speak to each other.
const DELIVERIES: &str = "deeplink_deliveries";
/// How often a quiet listener proves that it still hears.
const PROOF: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(1);

/// Tells other nodes, with the commit, that a link changed or went. Never called for creates or clicks: notices
/// serialise commits.
pub(crate) async fn link_changed(db: &mut Conn<'_>, tenant: &TenantId, link_id: &str) -> Result<(), DbError> {
    notify(db, &format!("link {tenant} {link_id}")).await
}

/// Tells other nodes, with the commit, that a tenant's domains or apps changed.
pub(crate) async fn tenant_changed(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(), DbError> {
    notify(db, &format!("tenant {tenant}")).await
}

/// Tells other nodes, with the commit, that a host became a tenant's, or is its no more.
pub(crate) async fn host_changed(db: &mut Conn<'_>, host: &DomainName, tenant: &TenantId) -> Result<(), DbError> {
    notify(db, &format!("host {host} {tenant}")).await
}

/// Tells other nodes, with the commit, that a key is gone or its affiliate changed.
pub(crate) async fn key_changed(db: &mut Conn<'_>, key_hash: &str) -> Result<(), DbError> {
    notify(db, &format!("key {key_hash}")).await
}

/// Tells the node that sends a tenant's deliveries that there are some.
pub(crate) async fn delivery_waits(db: &mut Conn<'_>, tenant: &TenantId, holder: &str) -> Result<(), DbError> {
    notify_at(db, DELIVERIES, &format!("{tenant} {holder}")).await
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

/// Listens for as long as the process runs. While nothing is heard, cached entries are believed for seconds only; what
/// was said meanwhile is lost, so everything cached is read again after each loss.
pub(crate) async fn listen(app: Arc<App>, url: String) {
    loop {
        if let Err(error) = hear(&app, &url).await {
            tracing::warn!(%error, "notices from other nodes are not heard; cached entries are kept for seconds only");
        }
        app.links.belief.set_hears(false);
        tokio::time::sleep(AGAIN).await;
    }
}

async fn hear(app: &App, url: &str) -> Result<(), sqlx::Error> {
    // A connection of its own: one taken from the pool would keep a place there for ever.
    let mut listener = PgListener::connect(url).await?;
    listener.ignore_pool_close_event(true);
    listener.eager_reconnect(false);
    listener.listen_all([CHANNEL, DELIVERIES]).await?;
    app.links.belief.doubt_all(app.clock.monotonic_millis());
    app.forget_all();
    app.links.belief.set_hears(true);
    loop {
        match tokio::time::timeout(PROOF, listener.try_recv()).await {
            Ok(Ok(Some(notice))) if notice.channel() == DELIVERIES => pass_on(app, notice.payload()),
            Ok(Ok(Some(notice))) => apply(app, notice.payload()),
            // `None` says that the connection was lost and with it what was notified.
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let proof = sqlx::query("SELECT 1").execute(&mut listener);
                match tokio::time::timeout(PROOF, proof).await {
                    Ok(done) => _ = done?,
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}

fn pass_on(app: &App, notice: &str) {
    if let Some((tenant, holder)) = notice.split_once(' ')
        && let Ok(tenant) = tenant.parse()
    {
        app.happened.say(Happened::Waiting(tenant, holder.to_owned()));
    }
}

fn apply(app: &App, notice: &str) {
    let mut words = notice.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("link"), Some(tenant), Some(link_id)) => app.links.drop_link(tenant, link_id),
        (Some("key"), Some(hash), None) => app.forget_key(hash),
        (Some("tenant"), Some(tenant), None) if let Ok(tenant) = tenant.parse() => app.forget_tenant(&tenant),
        (Some("host"), Some(host), Some(tenant)) if let (Ok(host), Ok(tenant)) = (host.parse(), tenant.parse()) => {
            app.forget_host(&host, &tenant);
        }
        _ => {
            app.forget_all();
            app.links.belief.doubt_all(app.clock.monotonic_millis());
        }
    }
}

/// Watches for commits of operator commands on the SQLite file.
pub(crate) async fn watch_file(app: Arc<App>) {
    let Some(mut commits) = app.db.foreign_commits() else { return };
    let mut links = 0;
    while commits.changed().await.is_ok() {
        let seen = commits.borrow_and_update().links;
        app.forget_all();
        if std::mem::replace(&mut links, seen) != seen {
            app.links.belief.doubt_all(app.clock.monotonic_millis());
        }
    }
}
