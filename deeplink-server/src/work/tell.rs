//! Puts clicks on their way to the webhooks that want them.
//!
//! The click log is the record; a mark says how far it was told. Nodes share it: the mark moves in the write that stores the
//! deliveries, and only from where it was found. Where nobody wants clicks the log is not even looked at.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;

use crate::db::DbError;
use crate::db::events::{next_clicks, tell_clicks};
use crate::happened::Happened;
use crate::state::App;

/// How often it is looked whether somebody wants clicks, and what other nodes have stored.
const LOOK: Duration = Duration::from_secs(1);
/// Between two writes, so that visits come first and a crowd of clicks is told together.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn run(app: Weak<App>) {
    let mut news = None;
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let mut heard = news.take().unwrap_or_else(|| app.clicks.news());
        heard.borrow_and_update();
        let is_wanted = look(&app).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "clicks cannot be told to webhooks; it is tried again");
            false
        });
        if is_wanted {
            tokio::time::sleep(PAUSE).await;
            drop(tokio::time::timeout(LOOK, heard.changed()).await);
            news = Some(heard);
        } else {
            drop(heard);
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Tells what there is to tell; whether anybody wants clicks at all.
async fn look(app: &App) -> Result<bool, DbError> {
    loop {
        let Some(next) = next_clicks(&mut app.db.read().await?.conn()).await? else { return Ok(false) };
        let Some(batch) = next.map(Arc::new) else { return Ok(true) };
        let (told, telling) = (Arc::clone(&batch), app.telling(app.clock.now()));
        let is_told =
            app.clicks.write(move |mut tx| async move { tell_clicks(&mut tx, &told, &telling).await }.boxed()).await?;
        if is_told {
            for tenant in batch.tenants() {
                app.happened.say(Happened::Deliveries(tenant.clone()));
            }
        }
        if !batch.is_full || app.stopping.load(Ordering::Relaxed) {
            return Ok(true);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
