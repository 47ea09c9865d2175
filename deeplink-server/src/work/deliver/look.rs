//! Looks every second for what nobody announced: deliveries of other nodes and of earlier processes, and those that wait
//! for a webhook which is switched off or gone.

use std::time::Duration;

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::db::DbError;
use crate::db::deliveries::{self, Waiting};
use crate::state::{App, Shared};

/// How often.
const LOOK: Duration = Duration::from_secs(1);
/// Webhooks of one look; the next one goes on behind them.
const MOST: i64 = 1_000;
/// Between two writes that give deliveries up, so that others come first.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn run(app: Shared, holder: String, found: mpsc::Sender<TenantId>) {
    let mut after = String::new();
    loop {
        let now = app.clock.now();
        app.http.tidy();
        match look(&app, &holder, &after, now, &found).await {
            Ok(last) => after = last,
            Err(error) => tracing::warn!(%error, "waiting deliveries cannot be looked at; it is tried again"),
        }
        if found.is_closed() {
            return;
        }
        app.clock.pause(LOOK, now).await;
    }
}

/// Looks at some webhooks behind `after`; the result is where the next look begins.
async fn look(
    app: &App,
    holder: &str,
    after: &str,
    now: Timestamp,
    found: &mpsc::Sender<TenantId>,
) -> Result<String, DbError> {
    let waiting = deliveries::waiting(&mut app.db.read().await?.conn(), after, MOST).await?;
    let is_full = i64::try_from(waiting.len()) == Ok(MOST);
    let last = waiting.last().filter(|_| is_full).map(|last| last.webhook.to_string()).unwrap_or_default();
    for Waiting { tenant, webhook, is_active, due_at } in waiting {
        if !is_active {
            cancel(app, &webhook).await?;
        } else if due_at <= now && !is_elsewhere(app, holder, &tenant, now).await? {
            // Whoever would hear it has gone, and with it the need to.
            let _ = found.send(tenant).await;
        }
    }
    Ok(last)
}

/// Whether another node sends a tenant's deliveries.
pub(super) async fn is_elsewhere(app: &App, holder: &str, tenant: &TenantId, now: Timestamp) -> Result<bool, DbError> {
    if app.db.is_sqlite() {
        return Ok(false);
    }
    deliveries::is_taken(&mut app.db.read().await?.conn(), tenant, holder, now).await
}

/// Gives up what waits for a webhook that is switched off or gone.
async fn cancel(app: &App, webhook: &WebhookId) -> Result<(), DbError> {
    let some = || {
        let webhook = webhook.clone();
        app.db.write(move |mut tx| {
            let webhook = webhook.clone();
            async move { deliveries::cancel(&mut tx, &webhook).await }.boxed()
        })
    };
    while some().await? {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
