//! Follows new clicks and events: on PostgreSQL assigns positions to events, and buffers frames for the readers of streams.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deeplink_core::event::EventKind;
use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, watch};

use crate::db::events::{Wanted, assign_positions, has_unassigned, page};
use crate::db::{DbError, clicks};
use crate::notifier::Notification;
use crate::shares::Share;
use crate::state::App;
use crate::stream::{Feed, Frame, MAX_BUFFERED, MAX_BUFFERED_TOTAL};

/// How often to check for events stored by other nodes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum pause between reads, so that many clicks are read together.
const MIN_PAUSE: Duration = Duration::from_millis(5);
/// Accounts whose events are read with one statement.
const TENANTS_PER_PAGE: usize = 100;

pub(crate) async fn run(app: Weak<App>) {
    let Some(mut notifications) = app.upgrade().map(|app| app.notifier.subscribe()) else { return };
    let mut clicked = None;
    // Everything up to this position has been buffered; `None` while there are no readers.
    let mut position = None;
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        // Before the read, so that a click between the read and the wait is not missed.
        match app.streams.readers() {
            0 => clicked = None,
            _ => _ = clicked.get_or_insert_with(|| app.clicks.news()).borrow_and_update(),
        }
        if let Err(error) = update(&app, &mut position).await {
            tracing::warn!(%error, "events could not be read; will retry");
        }
        tokio::time::sleep(MIN_PAUSE).await;
        wait(&app, &mut notifications, clicked.as_mut()).await;
    }
}

/// Assigns positions to new events, and buffers the new ones for the readers of each account.
async fn update(app: &App, position: &mut Option<i64>) -> Result<(), DbError> {
    if !app.db.is_sqlite() {
        assign_all_positions(app).await?;
    }
    let feeds = app.streams.feeds();
    if feeds.is_empty() {
        *position = None;
        return Ok(());
    }
    let end = clicks::head(&mut app.db.read().await?.conn()).await?;
    let from = position.unwrap_or(end);
    let max_bytes = MAX_BUFFERED.min(MAX_BUFFERED_TOTAL / feeds.len());
    for some in feeds.chunks(TENANTS_PER_PAGE) {
        for (_, feed) in some {
            feed.begin(from, max_bytes);
        }
        buffer(app, some, from, end).await?;
    }
    *position = Some(end);
    Ok(())
}

async fn assign_all_positions(app: &App) -> Result<(), DbError> {
    while has_unassigned(&mut app.db.read().await?.conn()).await? {
        let now = app.clock.now();
        app.db.write(Share::Service, (), move |tx, ()| assign_positions(tx, now).boxed()).await?;
    }
    Ok(())
}

/// Buffers the events of some accounts between two positions.
async fn buffer(app: &App, some: &[(TenantId, Arc<Feed>)], from: i64, end: i64) -> Result<(), DbError> {
    let mut from = from;
    let tenants: Vec<&TenantId> = some.iter().map(|(tenant, _)| tenant).collect();
    let wanted = Wanted { tenants: &tenants, kinds: EventKind::ALL, clicked: None };
    while from < end {
        let (events, read_to) = page(&mut app.db.read().await?.conn(), wanted, (from, end)).await?;
        for (tenant, feed) in some {
            feed.add(events.iter().filter(|event| event.tenant == *tenant).map(Frame::from), read_to);
        }
        from = read_to;
    }
    Ok(())
}

/// Waits until there may be new events.
async fn wait(
    app: &App,
    notifications: &mut broadcast::Receiver<Notification>,
    clicked: Option<&mut watch::Receiver<()>>,
) {
    let clicked = async {
        match clicked {
            Some(clicked) => drop(clicked.changed().await),
            None => std::future::pending().await,
        }
    };
    let stored = async {
        while let Ok(Notification::Deliveries(_) | Notification::RemoteDeliveries(..)) = notifications.recv().await {}
    };
    tokio::select! {
        () = clicked => {}
        () = stored => {}
        () = app.streams.opened.notified() => {}
        () = tokio::time::sleep(POLL_INTERVAL) => {}
    }
    // One read covers all notifications received so far.
    while !matches!(notifications.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
}
