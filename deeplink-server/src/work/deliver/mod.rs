//! Sends deliveries of events to webhooks.
//!
//! The stages of a delivery, and the type that represents it in each:
//!
//! | Stage | Type |
//! |---|---|
//! | A scan, or a notification of this or another node, finds a webhook with pending deliveries | [`PendingWebhook`](deliveries::PendingWebhook) |
//! | The tenant's task ([`tenant`]) reads what is due into the webhook's queue ([`queue`]) | [`DueDelivery`](deliveries::DueDelivery) |
//! | An attempt ([`attempt`]) is made, within the concurrency limits ([`concurrency`]) | [`AttemptRecord`](deliveries::AttemptRecord) |
//! | Its result is stored, in batches ([`results`]): delivered, failed, or due again | [`DeliveryResult`](results::DeliveryResult), [`DeliveryUpdate`](deliveries::DeliveryUpdate) |
//! | The tenant's task removes it from the queue | [`ResultStored`](results::ResultStored) |
//!
//! If several nodes share a database, a lease decides which one sends a tenant's deliveries. All state is in the
//! database: whatever is lost with a process is still due, and is sent again under the same id and with the same bytes.

mod attempt;
mod concurrency;
mod lease;
mod queue;
mod results;
mod scan;
mod target;
mod tenant;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use self::concurrency::ConcurrencyLimit;
use crate::db::deliveries;
use crate::notifier::Notification;
use crate::shares::Share;
use crate::state::{App, Shared};

/// Maximum concurrent queries for due deliveries, so that deliveries do not take all read connections from requests.
const MAX_READS: usize = 2;
/// How long attempts in flight may take once the service was asked to stop.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// What the tasks of all tenants share.
struct Context {
    app: Shared,
    /// Identifies this process in leases.
    holder: String,
    attempts: ConcurrencyLimit,
    reads: Semaphore,
    results: mpsc::Sender<results::DeliveryResult>,
}

/// Tells a tenant's task that there may be new deliveries.
#[derive(Debug, Default)]
struct Wakeup {
    is_set: AtomicBool,
    notify: Notify,
}

impl Wakeup {
    fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Whether it was set since the last call.
    fn take(&self) -> bool {
        self.is_set.swap(false, Ordering::AcqRel)
    }
}

/// The running tasks, one for each tenant with deliveries to send.
#[derive(Default)]
struct Tasks {
    running: JoinSet<()>,
    wakeups: HashMap<TenantId, Arc<Wakeup>>,
    tenants: HashMap<Id, TenantId>,
}

impl Tasks {
    /// Wakes a tenant's task, or starts it.
    fn wake(&mut self, context: &Arc<Context>, tenant: TenantId) {
        if let Some(wakeup) = self.wakeups.get(&tenant) {
            wakeup.set();
            return;
        }
        // A new task reads everything without a wakeup. Only a later wakeup restarts it: if another node has the lease,
        // each start sends a notification to that node.
        let wakeup = Arc::<Wakeup>::default();
        let task = tenant::run(Arc::clone(context), tenant.clone(), Arc::clone(&wakeup));
        let id = self.running.spawn(task).id();
        self.tenants.insert(id, tenant.clone());
        self.wakeups.insert(tenant, wakeup);
    }

    /// Removes a task that has ended, and restarts it if it missed a wakeup.
    fn ended(&mut self, context: &Arc<Context>, id: Id) {
        let Some(tenant) = self.tenants.remove(&id) else { return };
        if self.wakeups.remove(&tenant).is_some_and(|wakeup| wakeup.take()) {
            self.wake(context, tenant);
        }
    }
}

/// Sends until the service is asked to stop, and then waits for attempts in flight to end.
pub(super) async fn run(app: Weak<App>) {
    let Some(app) = app.upgrade() else { return };
    let (results, received) = mpsc::channel(results::MAX_WAITING);
    let mut storing = AbortOnDropHandle::new(tokio::spawn(results::run(Shared::clone(&app), received)));
    let holder = hex::encode(app.random(deeplink_core::secret::Random::bytes::<8>));
    let (attempts, reads) = (ConcurrencyLimit::new(), Semaphore::new(MAX_READS));
    let context = Arc::new(Context { app, holder, attempts, reads, results });
    let mut tasks = Tasks::default();
    dispatch(&context, &mut tasks).await;
    // The tasks stop on the same signal. Attempts that do not end in time are aborted, and their deliveries stay due.
    let ended = timeout(SHUTDOWN_TIMEOUT, async { while tasks.running.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tasks.running.shutdown().await;
    }
    let (app, holder) = (Shared::clone(&context.app), context.holder.clone());
    // Drops the last sender of results, so that the results already sent are stored and then `storing` ends.
    drop(context);
    drop((&mut storing).await);
    if !app.db.is_sqlite() {
        let released =
            app.db.write(Share::Service, holder, |tx, holder| deliveries::release_leases(tx, holder, None).boxed());
        if let Err(error) = released.await {
            tracing::warn!(%error, "delivery leases could not be released; they will expire");
        }
    }
}

/// Wakes the task of each tenant for which deliveries are announced or found, until the service is asked to stop.
async fn dispatch(context: &Arc<Context>, tasks: &mut Tasks) {
    let app = &context.app;
    let mut notifications = app.notifier.subscribe();
    let (found, mut pending) = mpsc::channel(64);
    let _scan = AbortOnDropHandle::new(tokio::spawn(scan::run(Shared::clone(app), context.holder.clone(), found)));
    loop {
        tokio::select! {
            biased;
            () = app.ending.cancelled() => return,
            Some(ended) = tasks.running.join_next_with_id() => {
                let id = ended.map_or_else(|failed| failed.id(), |(id, ())| id);
                tasks.ended(context, id);
            }
            notification = notifications.recv() => match notification {
                Ok(Notification::Deliveries(tenant)) => tasks.wake(context, tenant),
                Ok(Notification::RemoteDeliveries(tenant, holder)) if holder == context.holder => tasks.wake(context, tenant),
                // The next scan finds missed deliveries.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            tenant = pending.recv() => match tenant {
                Some(tenant) => tasks.wake(context, tenant),
                None => return,
            },
        }
    }
}
