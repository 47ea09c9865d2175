//! Puts clicks on their way to the webhooks that want them.
//!
//! The click log is the record; a mark says how far it was told. Nodes share it: the mark moves in the write that stores the
//! deliveries, and only from where it was found. Where nobody wants clicks the log is not even looked at.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::db::DbError;
use crate::db::events::{next_clicks, tell_clicks};
use crate::happened::Happened;
use crate::state::App;

/// How often it is looked whether somebody wants clicks, and what other nodes have stored.
const LOOK: Duration = Duration::from_secs(1);
/// Between two writes, so that visits come first and a crowd of clicks is told together.
const PAUSE: Duration = Duration::from_millis(2);
/// After clicks that nobody wanted: everybody's come by here as soon as one webhook wants some.
const IDLE: Duration = Duration::from_millis(10);
/// How often the mark moves while nobody wants what passes. Until then a process that starts looks at it once more.
const MARK: Duration = Duration::from_secs(1);

/// How far this process has looked, and when the mark was last moved.
struct Seen {
    upto: i64,
    marked: Instant,
}

pub(super) async fn run(app: Weak<App>) {
    let mut news = None;
    let mut seen = Seen { upto: 0, marked: Instant::now() };
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let mut heard = news.take().unwrap_or_else(|| app.clicks.news());
        heard.borrow_and_update();
        let is_wanted = look(&app, &mut seen).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "clicks cannot be told to webhooks; it is tried again");
            None
        });
        if let Some(pause) = is_wanted {
            tokio::time::sleep(pause).await;
            drop(tokio::time::timeout(LOOK, heard.changed()).await);
            news = Some(heard);
        } else {
            drop(heard);
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Tells what there is to tell. Gives how long to wait before the next look; `None` when nobody wants clicks.
async fn look(app: &App, seen: &mut Seen) -> Result<Option<Duration>, DbError> {
    loop {
        let Some(next) = next_clicks(&mut app.db.read().await?.conn(), seen.upto).await? else { return Ok(None) };
        let Some(batch) = next.map(Arc::new) else { return Ok(Some(IDLE)) };
        let is_empty = batch.is_empty();
        if !is_empty || seen.marked.elapsed() >= MARK {
            let (told, telling) = (Arc::clone(&batch), app.telling(app.clock.now()));
            let is_told =
                app.clicks.write(move |mut tx| async move { tell_clicks(&mut tx, &told, &telling).await }.boxed());
            seen.marked = Instant::now();
            if is_told.await? {
                for tenant in batch.tenants() {
                    app.happened.say(Happened::Deliveries(tenant.clone()));
                }
            } else if !is_empty {
                // Another node has told some of it, and looks for itself.
                continue;
            }
        }
        seen.upto = batch.upto;
        if !batch.is_full || app.stopping.load(Ordering::Relaxed) {
            return Ok(Some(if is_empty { IDLE } else { PAUSE }));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
