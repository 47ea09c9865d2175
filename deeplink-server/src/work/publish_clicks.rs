//! Publishes clicks to the webhooks that subscribe to them.
//!
//! The click log is the record; a watermark says how far it is published. Nodes share it: the watermark moves in the
//! write that stores the deliveries, and only from where it was read. While no webhook subscribes to clicks, the log is
//! not read.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::db::DbError;
use crate::db::events::{publish_clicks, unpublished_clicks};
use crate::notifier::Notification;
use crate::shares::Share;
use crate::state::App;

/// Time between two checks for subscribers, and for clicks that other nodes have stored.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two writes, so that visits come first and many clicks are published together.
const WRITE_PAUSE: Duration = Duration::from_millis(2);
/// The same after clicks without a subscriber: all clicks are read as soon as one webhook subscribes.
const IDLE_PAUSE: Duration = Duration::from_millis(10);
/// How often the watermark moves past clicks without a subscriber. A process that starts reads them once more until then.
const WATERMARK_INTERVAL: Duration = Duration::from_secs(1);

/// How far this process has read, and when the watermark was last moved.
struct Progress {
    upto: i64,
    marked: Instant,
}

pub(super) async fn run(app: Weak<App>) {
    let mut news = None;
    let mut progress = Progress { upto: 0, marked: Instant::now() };
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let mut stored = news.take().unwrap_or_else(|| app.clicks.news());
        stored.borrow_and_update();
        let pause = publish(&app, &mut progress).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "clicks could not be published to webhooks; will retry");
            None
        });
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
            drop(tokio::time::timeout(SCAN_INTERVAL, stored.changed()).await);
            news = Some(stored);
        } else {
            drop(stored);
            tokio::time::sleep(SCAN_INTERVAL).await;
        }
    }
}

/// Publishes available clicks. Returns how long to wait before the next time; `None` if no webhook subscribes to
/// clicks.
async fn publish(app: &App, progress: &mut Progress) -> Result<Option<Duration>, DbError> {
    loop {
        let Some(next) = unpublished_clicks(&mut app.db.read().await?.conn(), progress.upto).await? else {
            return Ok(None);
        };
        let Some(batch) = next.map(Arc::new) else { return Ok(Some(IDLE_PAUSE)) };
        let is_empty = batch.is_empty();
        if !is_empty || progress.marked.elapsed() >= WATERMARK_INTERVAL {
            let job = (Arc::clone(&batch), app.publisher(app.clock.now()));
            // It waits for the disk: otherwise a crash of the database could undo clicks whose webhooks were sent, and they
            // would be sent again with other IDs.
            let is_published = app
                .db
                .write(Share::Service, job, |tx, (batch, publisher)| publish_clicks(tx, batch, publisher).boxed());
            progress.marked = Instant::now();
            if is_published.await? {
                for tenant in batch.tenants() {
                    app.notifier.notify(Notification::Deliveries(tenant.clone()));
                }
            } else if !is_empty {
                // Another node has published some of it, and notifies for itself.
                continue;
            }
        }
        progress.upto = batch.upto;
        if !batch.may_have_more || app.stopping.load(Ordering::Relaxed) {
            return Ok(Some(if is_empty { IDLE_PAUSE } else { WRITE_PAUSE }));
        }
        tokio::time::sleep(WRITE_PAUSE).await;
    }
}
