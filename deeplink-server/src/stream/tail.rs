//! Follows what happens: numbers events where that is left for later, and keeps what readers of the stream want to have.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, watch};

use super::{Audience, Frame, MAX_KEPT, MAX_KEPT_OF_ALL, lock};
use crate::db::events::{is_unnumbered, number, page};
use crate::db::{DbError, clicks};
use crate::happened::Happened;
use crate::state::App;

/// How long what other nodes store may go unnoticed.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks, so that a crowd of clicks is read together.
const PAUSE: Duration = Duration::from_millis(5);
/// Accounts whose events are read with one statement.
const TOGETHER: usize = 100;

pub(crate) async fn run(app: Weak<App>) {
    let Some(mut happened) = app.upgrade().map(|app| app.happened.hear()) else { return };
    let mut news = None;
    // Everything up to here is with the readers; `None` while nobody reads.
    let mut reached = None;
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        // Before the look, so that nothing falls between it and the wait.
        match app.streams.readers() {
            0 => news = None,
            _ => _ = news.get_or_insert_with(|| app.clicks.news()).borrow_and_update(),
        }
        if let Err(error) = look(&app, &mut reached).await {
            tracing::warn!(%error, "events cannot be read; it is tried again");
        }
        tokio::time::sleep(PAUSE).await;
        wait(&app, &mut happened, news.as_mut()).await;
    }
}

/// Numbers what waits for its place, and brings the readers of each account what is new.
async fn look(app: &App, reached: &mut Option<i64>) -> Result<(), DbError> {
    if !app.db.is_sqlite() {
        number_all(app).await?;
    }
    let audiences = app.streams.audiences();
    if audiences.is_empty() {
        *reached = None;
        return Ok(());
    }
    let end = clicks::head(&mut app.db.read().await?.conn()).await?;
    let from = reached.unwrap_or(end);
    let most = MAX_KEPT.min(MAX_KEPT_OF_ALL / audiences.len());
    for some in audiences.chunks(TOGETHER) {
        for (_, audience) in some {
            audience.begin(from, most);
        }
        bring(app, some, from, end).await?;
    }
    *reached = Some(end);
    Ok(())
}

async fn number_all(app: &App) -> Result<(), DbError> {
    while is_unnumbered(&mut app.db.read().await?.conn()).await? {
        let now = app.clock.now();
        app.db.write(move |mut tx| async move { number(&mut tx, now).await }.boxed()).await?;
    }
    Ok(())
}

/// Brings some accounts' readers everything between two places.
async fn bring(app: &App, some: &[(TenantId, Arc<Audience>)], from: i64, end: i64) -> Result<(), DbError> {
    let mut from = from;
    let tenants: Vec<&TenantId> = some.iter().map(|(tenant, _)| tenant).collect();
    while from < end {
        let (told, upto) = page(&mut app.db.read().await?.conn(), &tenants, (from, end), true).await?;
        for (tenant, audience) in some {
            audience.add(told.iter().filter(|told| told.tenant == *tenant).map(Frame::from), upto);
        }
        from = upto;
    }
    Ok(())
}

impl Audience {
    /// From this place on frames are kept, if they are not yet, and so many bytes of them.
    pub(super) fn begin(&self, from: i64, most: usize) {
        let mut ring = lock(&self.ring);
        ring.most = most;
        ring.shrink();
        if ring.since.is_none() {
            (ring.since, ring.upto) = (Some(from), from);
            self.news.send_replace(());
        }
    }

    /// Keeps the frames up to a place. What it has already it does not take twice.
    pub(super) fn add(&self, frames: impl Iterator<Item = Frame>, upto: i64) {
        let mut ring = lock(&self.ring);
        let (before, mut is_new) = (ring.upto, false);
        for frame in frames.filter(|frame| frame.position > before) {
            ring.add(frame);
            is_new = true;
        }
        ring.upto = before.max(upto);
        drop(ring);
        if is_new {
            self.news.send_replace(());
        }
    }
}

/// Waits until something may have happened.
async fn wait(app: &App, happened: &mut broadcast::Receiver<Happened>, news: Option<&mut watch::Receiver<()>>) {
    let clicked = async {
        match news {
            Some(news) => drop(news.changed().await),
            None => std::future::pending().await,
        }
    };
    let told = async { while let Ok(Happened::Deliveries(_) | Happened::Waiting(..)) = happened.recv().await {} };
    tokio::select! {
        () = clicked => {}
        () = told => {}
        () = app.streams.opened.notified() => {}
        () = tokio::time::sleep(LOOK) => {}
    }
    // One look sees all that was said by now.
    while !matches!(happened.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
}
