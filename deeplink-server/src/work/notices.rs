//! Invalidates caches when other processes have changed something: other nodes send notifications, and on SQLite the writer
//! detects changes by operator commands.

use std::sync::Arc;
use std::time::Duration;

use crate::db::notices::{self, Notice};
use crate::notifier::Notification;
use crate::state::App;

const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Receives notifications for as long as the process runs. While disconnected, cached entries are used for seconds only.
/// Notifications sent meanwhile are lost, so after a reconnect all caches are invalidated.
pub(crate) async fn listen(app: Arc<App>, url: String) {
    loop {
        let begun = || {
            app.links.freshness.expire_all(app.clock.monotonic_millis());
            app.forget_all();
            app.links.freshness.set_hears(true);
        };
        if let Err(error) = notices::hear(&url, begun, |notice| apply(&app, notice)).await {
            tracing::warn!(%error, "not receiving notifications from other nodes; caching for seconds only");
        }
        app.links.freshness.set_hears(false);
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

fn apply(app: &App, notice: Notice<'_>) {
    match notice {
        Notice::Link(tenant, link_id) => app.links.drop_link(tenant, link_id),
        Notice::Key(hash) => app.forget_key(hash),
        Notice::Tenant(tenant) => app.forget_tenant(&tenant),
        Notice::Account(tenant) => app.forget_account(&tenant),
        Notice::Host(host, tenant) => app.forget_host(&host, &tenant),
        Notice::Deliveries(tenant, holder) => {
            app.notifier.notify(Notification::RemoteDeliveries(tenant, holder.to_owned()));
        }
        Notice::Other => {
            app.forget_all();
            app.links.freshness.expire_all(app.clock.monotonic_millis());
        }
    }
}

/// Invalidates caches after commits of operator commands on the SQLite file.
pub(crate) async fn watch_file(app: Arc<App>) {
    let Some(mut commits) = app.db.foreign_commits() else { return };
    let mut links = 0;
    while commits.changed().await.is_ok() {
        let seen = commits.borrow_and_update().links;
        app.forget_all();
        if std::mem::replace(&mut links, seen) != seen {
            app.links.freshness.expire_all(app.clock.monotonic_millis());
        }
    }
}
