//! Looks every second for what nobody announced: deliveries of other nodes and of earlier processes, and those that wait
//! for a webhook which is switched off or gone.

use std::time::Duration;

use deeplink_core::id::TenantId;
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
/// How soon again while there is more to give up than one write does, so that others come between.
const SOON: Duration = Duration::from_millis(25);

/// What a look came to.
struct Seen {
    /// Where the next one begins.
    last: String,
    /// Whether there is more to put right.
    has_more: bool,
}

pub(super) async fn run(app: Shared, holder: String, found: mpsc::Sender<TenantId>) {
    let mut after = String::new();
    loop {
        let now = app.clock.now();
        app.http.tidy();
        let mut length = LOOK;
        match look(&app, &holder, &after, now, &found).await {
            Ok(seen) => {
                after = seen.last;
                if seen.has_more {
                    length = SOON;
                }
            }
            Err(error) => tracing::warn!(%error, "waiting deliveries cannot be looked at; it is tried again"),
        }
        if found.is_closed() {
            return;
        }
        app.clock.pause(length, now).await;
    }
}

/// Looks at some webhooks behind `after`.
async fn look(
    app: &App,
    holder: &str,
    after: &str,
    now: Timestamp,
    found: &mpsc::Sender<TenantId>,
) -> Result<Seen, DbError> {
    let waiting = deliveries::waiting(&mut app.db.read().await?.conn(), after, MOST, holder, now).await?;
    let is_full = i64::try_from(waiting.len()) == Ok(MOST);
    let last = waiting.last().filter(|_| is_full).map(|last| last.webhook.to_string()).unwrap_or_default();
    for one in waiting.iter().filter(|one| one.is_active && one.due_at <= now && !one.is_elsewhere) {
        // Whoever would hear it has gone, and with it the need to.
        let _ = found.send(one.tenant.clone()).await;
    }
    let mut has_more = false;
    for one in waiting {
        if !one.is_active {
            has_more |= put_right(app, &one, Wrong::NobodyWaits).await?;
        } else if one.last_at.as_millis() > deliveries::farthest(now) {
            has_more |= put_right(app, &one, Wrong::TooFar(now)).await?;
            let _ = found.send(one.tenant).await;
        }
    }
    Ok(Seen { last, has_more })
}

/// What is wrong with deliveries that wait.
#[derive(Clone, Copy)]
enum Wrong {
    /// Their webhook is switched off or gone.
    NobodyWaits,
    /// They are due further ahead than any can be.
    TooFar(Timestamp),
}

/// Puts some of a webhook's deliveries right. `true` when there may be more.
async fn put_right(app: &App, of: &Waiting, wrong: Wrong) -> Result<bool, DbError> {
    let webhook = of.webhook.clone();
    let write = app.db.write(move |mut tx| {
        let webhook = webhook.clone();
        async move {
            match wrong {
                Wrong::NobodyWaits => deliveries::cancel(&mut tx, &webhook).await,
                Wrong::TooFar(now) => deliveries::bring_back(&mut tx, &webhook, now).await,
            }
        }
        .boxed()
    });
    write.await
}
