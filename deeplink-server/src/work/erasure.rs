//! Deletes the accounts whose deletion is due, on one node at a time. What a process leaves unfinished is continued by the next
//! scan of any node.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use crate::db::erasure::{self, Progress};
use crate::db::{Db, DbError, leases};
use crate::shares::Share;
use crate::state::App;

/// Between two looks for what is due.
const TICK: Duration = Duration::from_secs(5);
/// How long a node has the lease; it is renewed before each account, and one that takes longer is safe on two nodes as well.
const LEASE_MILLIS: i64 = 60_000;
/// The shortest pause between two batches; a slow batch is followed by a pause of its own length, so that other writes come first.
const BATCH_PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn run(app: Weak<App>) {
    let mut holder = None;
    loop {
        tokio::time::sleep(TICK).await;
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let holder = holder.get_or_insert_with(|| app.random(|random| hex::encode(random.bytes::<8>())));
        if let Err(error) = scan(&app, holder).await {
            tracing::warn!(%error, "accounts to delete could not be listed; will retry");
        }
    }
}

/// Continues with each account that is due. One that fails does not delay the others.
async fn scan(app: &App, holder: &str) -> Result<(), DbError> {
    let due = erasure::due(&mut app.db.read().await?.conn(), app.clock.now()).await?;
    for tenant in due {
        let now = app.clock.now();
        let lease = app.db.write(Share::Service, holder.to_owned(), move |tx, holder| {
            leases::take(tx, leases::ERASURE, holder, now, now.plus_millis(LEASE_MILLIS)).boxed()
        });
        if !lease.await? {
            return Ok(());
        }
        if let Err(error) = delete(app, &tenant, now).await {
            tracing::warn!(%error, %tenant, "account could not be deleted; will retry");
        }
    }
    Ok(())
}

async fn delete(app: &App, tenant: &TenantId, now: Timestamp) -> Result<(), DbError> {
    let begun = app.db.write(tenant, tenant.clone(), move |tx, tenant| erasure::begin(tx, tenant, now).boxed());
    if !begun.await? {
        return Ok(());
    }
    app.forget_credentials(tenant);
    // Clicks of its links are being counted, and requests are under way.
    if !erasure::is_settled(&mut app.db.read().await?.conn(), tenant, now).await? {
        return Ok(());
    }
    let Some(rows) = erase(&app.db, tenant, || app.stopping.load(Ordering::Relaxed)).await? else { return Ok(()) };
    app.forget_credentials(tenant);
    let now = app.clock.now();
    if rows > 0 {
        tracing::info!(%tenant, rows, "account deleted");
    }
    let finished = app.db.write(tenant, tenant.clone(), move |tx, tenant| erasure::finish(tx, tenant, now).boxed());
    finished.await.map(drop)
}

/// Deletes all rows of an account whose deletion was begun, and returns how many they were; `None` when it was stopped.
pub(crate) async fn erase(db: &Db, tenant: &TenantId, is_stopped: impl Fn() -> bool) -> Result<Option<u64>, DbError> {
    let mut total = 0;
    loop {
        let Some(found) = pass(db, tenant, &is_stopped).await? else { return Ok(None) };
        total += found;
        if found == 0 {
            return Ok(Some(total));
        }
    }
}

/// Goes through all tables once.
async fn pass(db: &Db, tenant: &TenantId, is_stopped: &impl Fn() -> bool) -> Result<Option<u64>, DbError> {
    let (mut found, mut progress) = (0, Progress::START);
    while progress != Progress::Done {
        if is_stopped() {
            return Ok(None);
        }
        let begun = tokio::time::Instant::now();
        if let Progress::ClicksAfter(after) = progress {
            progress = erasure::find_clicks(&mut db.read().await?.conn(), tenant, after).await?;
        } else {
            let step = db.write(tenant, (tenant.clone(), progress), |tx, (tenant, progress)| {
                erasure::step(tx, tenant, *progress).boxed()
            });
            let (rows, next) = step.await?;
            found += rows;
            progress = next;
        }
        tokio::time::sleep(begun.elapsed().max(BATCH_PAUSE)).await;
    }
    Ok(Some(found))
}
