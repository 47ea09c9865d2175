//! Deletes the accounts whose deletion is due, on one node at a time. What a process leaves unfinished is continued by
//! the next scan of any node.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::db::account::Scheduled;
use crate::db::erasure::{self, Progress};
use crate::db::{Db, DbError, leases};
use crate::shares::Share;
use crate::state::App;

/// Between two looks for what is due.
const TICK: Duration = Duration::from_secs(5);
/// How long a node has the lease, and when it renews it. Two nodes that think they have it do no harm.
const LEASE_MILLIS: i64 = 60_000;
const RENEWAL_MILLIS: u64 = 15_000;
/// The shortest pause between two batches; a slow batch is followed by a pause of its own length, so that other writes
/// come first.
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
    let lease = Lease { app, holder, renewed: AtomicU64::new(0) };
    for tenant in due {
        if !lease.is_held().await? {
            return Ok(());
        }
        if let Err(error) = delete(app, &tenant, &lease).await {
            tracing::warn!(%error, %tenant, "account could not be deleted; will retry");
        }
    }
    Ok(())
}

async fn delete(app: &App, tenant: &TenantId, lease: &Lease<'_>) -> Result<(), DbError> {
    let now = app.clock.now();
    let begun = app.db.write(tenant, tenant.clone(), move |tx, tenant| erasure::begin(tx, tenant, now).boxed());
    match begun.await? {
        // Its rows follow when requests and counts that are under way are done.
        Some(Scheduled::Yes) => {
            app.forget_credentials(tenant);
            return Ok(());
        }
        Some(Scheduled::Already) => {}
        _ => return Ok(()),
    }
    let Some(rows) = erase(&app.db, tenant, Some(lease)).await? else { return Ok(()) };
    app.forget_credentials(tenant);
    let now = app.clock.now();
    app.db.write(tenant, tenant.clone(), move |tx, tenant| erasure::finish(tx, tenant, now).boxed()).await?;
    tracing::info!(%tenant, rows, "account deleted");
    Ok(())
}

/// What this node has while it deletes accounts.
pub(crate) struct Lease<'a> {
    app: &'a App,
    holder: &'a str,
    /// When it was renewed, by the monotonic clock; 0: it is not held.
    renewed: AtomicU64,
}

impl Lease<'_> {
    /// Whether to go on: renews the lease in time. `false`: the service is stopping, or another node has it.
    async fn is_held(&self) -> Result<bool, DbError> {
        if self.app.stopping.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let (since, moment) = (self.renewed.load(Ordering::Relaxed), self.app.clock.monotonic_millis());
        if since > 0 && moment < since + RENEWAL_MILLIS {
            return Ok(true);
        }
        let now = self.app.clock.now();
        let taken = self.app.db.write(Share::Service, self.holder.to_owned(), move |tx, holder| {
            leases::take(tx, leases::ERASURE, holder, now, now.plus_millis(LEASE_MILLIS)).boxed()
        });
        let is_taken = taken.await?;
        self.renewed.store(if is_taken { moment.max(1) } else { 0 }, Ordering::Relaxed);
        Ok(is_taken)
    }
}

/// Deletes all rows of an account whose deletion was begun, and returns how many they were; `None` when the lease is
/// lost or the service stops.
pub(crate) async fn erase(db: &Db, tenant: &TenantId, lease: Option<&Lease<'_>>) -> Result<Option<u64>, DbError> {
    let mut total = 0;
    loop {
        let Some(found) = pass(db, tenant, lease).await? else { return Ok(None) };
        total += found;
        if found == 0 {
            return Ok(Some(total));
        }
    }
}

/// Goes through all tables once.
async fn pass(db: &Db, tenant: &TenantId, lease: Option<&Lease<'_>>) -> Result<Option<u64>, DbError> {
    let (mut found, mut progress) = (0, Progress::START);
    while progress != Progress::Done {
        if let Some(lease) = lease
            && !lease.is_held().await?
        {
            return Ok(None);
        }
        let begun = Instant::now();
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
