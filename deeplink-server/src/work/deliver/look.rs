//! Looks every second for what nobody announced: deliveries of other nodes and of earlier processes, and those that wait
//! for a webhook which is switched off or gone.

use std::time::Duration;

use deeplink_core::id::{TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

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
#[derive(Default)]
struct Seen {
    /// Where the next one begins.
    last: String,
    /// Of what there is more to put right.
    left: Vec<(WebhookId, Wrong)>,
}

pub(super) async fn run(app: Shared, holder: String, found: mpsc::Sender<TenantId>) {
    let mut seen = Seen::default();
    let mut looked = None::<Instant>;
    loop {
        let now = app.clock.now();
        app.http.tidy();
        // While one webhook's are given up, the others are looked at as often as otherwise.
        let (left, last) = (std::mem::take(&mut seen.left), seen.last.clone());
        let outcome = if left.is_empty() || looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            looked = Some(Instant::now());
            look(&app, &holder, &last, now, &found).await
        } else {
            put_all_right(&app, left).await.map(|left| Seen { last, left })
        };
        match outcome {
            Ok(now) => seen = now,
            Err(error) => tracing::warn!(%error, "waiting deliveries cannot be looked at; it is tried again"),
        }
        if found.is_closed() {
            return;
        }
        app.clock.pause(if seen.left.is_empty() { LOOK } else { SOON }, now).await;
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
    let is_too_far = |one: &Waiting| one.last_at.as_millis() > deliveries::farthest(now);
    let wrong = waiting.iter().filter_map(|one| {
        let wrong = if one.is_active { Wrong::TooFar(now) } else { Wrong::NobodyWaits };
        (!one.is_active || is_too_far(one)).then(|| (one.webhook.clone(), wrong))
    });
    let left = put_all_right(app, wrong.collect()).await?;
    for one in waiting.into_iter().filter(|one| one.is_active && is_too_far(one)) {
        let _ = found.send(one.tenant).await;
    }
    Ok(Seen { last, left })
}

/// What is wrong with deliveries that wait.
#[derive(Clone, Copy)]
enum Wrong {
    /// Their webhook is switched off or gone.
    NobodyWaits,
    /// They are due further ahead than any can be.
    TooFar(Timestamp),
}

/// Puts some of each webhook's deliveries right, and gives those of which there may be more.
async fn put_all_right(app: &App, wrong: Vec<(WebhookId, Wrong)>) -> Result<Vec<(WebhookId, Wrong)>, DbError> {
    let mut left = Vec::new();
    for (webhook, wrong) in wrong {
        if put_right(app, &webhook, wrong).await? {
            left.push((webhook, wrong));
        }
    }
    Ok(left)
}

/// Puts some of a webhook's deliveries right. `true` when there may be more.
async fn put_right(app: &App, webhook: &WebhookId, wrong: Wrong) -> Result<bool, DbError> {
    let webhook = webhook.clone();
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
