//! Sends deliveries: what stands in the database, at the times that stand there.
//!
//! Each tenant that has something to send has a task ([`tenant`]) that reads what is due, a page at a time, and makes the
//! attempts, eight at one time and 256 on this node ([`places`]). What became of them is stored in batches ([`settle`]). Where several
//! nodes share a database, a lease says which one sends a tenant's deliveries. Nothing but the database remembers: whatever
//! is lost with a process is still due, and is sent again under the same id and with the same bytes.

mod attempt;
mod lane;
mod lease;
mod look;
mod places;
mod settle;
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

use crate::db::deliveries;
use crate::happened::Happened;
use crate::state::{App, Shared};

/// Pages that are read at one time, so that deliveries do not take the readers away from whoever asks.
const READS: usize = 2;
/// How long attempts under way may take once the service was asked to stop.
pub(super) const LAST_ATTEMPTS: Duration = Duration::from_secs(3);

/// What every tenant's task can reach.
struct Sending {
    app: Shared,
    /// This process, in leases.
    holder: String,
    places: places::Places,
    reads: Semaphore,
    results: mpsc::Sender<settle::Done>,
}

/// Word for a tenant's task that there may be something.
#[derive(Debug, Default)]
struct Told {
    is_told: AtomicBool,
    wakes: Notify,
}

impl Told {
    fn tell(&self) {
        self.is_told.store(true, Ordering::Release);
        self.wakes.notify_one();
    }

    /// Whether something was said since this was asked last.
    fn take(&self) -> bool {
        self.is_told.swap(false, Ordering::AcqRel)
    }
}

/// The tasks that run, one for each tenant that has something to send.
#[derive(Default)]
struct Tasks {
    running: JoinSet<()>,
    of: HashMap<TenantId, Arc<Told>>,
    whose: HashMap<Id, TenantId>,
}

impl Tasks {
    fn tell(&mut self, sending: &Arc<Sending>, tenant: TenantId) {
        if let Some(told) = self.of.get(&tenant) {
            told.tell();
            return;
        }
        // A new task looks at everything by itself. Only word that comes later makes it begin anew: where another node has
        // the lease, each beginning is a word to that node.
        let told = Arc::<Told>::default();
        let task = tenant::run(Arc::clone(sending), tenant.clone(), Arc::clone(&told));
        let id = self.running.spawn(task).id();
        self.whose.insert(id, tenant.clone());
        self.of.insert(tenant, told);
    }

    /// Takes note of a task that has ended. It begins anew when there was word that it did not hear.
    fn ended(&mut self, sending: &Arc<Sending>, id: Id) {
        let Some(tenant) = self.whose.remove(&id) else { return };
        if self.of.remove(&tenant).is_some_and(|told| told.take()) {
            self.tell(sending, tenant);
        }
    }
}

/// Sends until the service is asked to stop, and then lets what is under way end.
pub(super) async fn run(app: Weak<App>) {
    let Some(app) = app.upgrade() else { return };
    let (results, done) = mpsc::channel(settle::WAITING);
    let mut settling = AbortOnDropHandle::new(tokio::spawn(settle::run(Shared::clone(&app), done)));
    let holder = hex::encode(app.random(deeplink_core::secret::Random::bytes::<8>));
    let sending =
        Arc::new(Sending { app, holder, places: places::Places::new(), reads: Semaphore::new(READS), results });
    let mut tasks = Tasks::default();
    send(&sending, &mut tasks).await;
    // The tasks have heard it as well. What does not end in time is cut, and stays due.
    let ended = timeout(LAST_ATTEMPTS, async { while tasks.running.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tasks.running.shutdown().await;
    }
    let (app, holder) = (Shared::clone(&sending.app), sending.holder.clone());
    // The last who can say anything goes, so that what has been said is stored and no more is waited for.
    drop(sending);
    drop((&mut settling).await);
    if !app.db.is_sqlite() {
        let give = app.db.write(move |mut tx| {
            let holder = holder.clone();
            async move { deliveries::give_back(&mut tx, &holder, None).await }.boxed()
        });
        if let Err(error) = give.await {
            tracing::warn!(%error, "leases of deliveries could not be given back; they run out");
        }
    }
}

async fn send(sending: &Arc<Sending>, tasks: &mut Tasks) {
    let app = &sending.app;
    let mut heard = app.happened.hear();
    let (found, mut waiting) = mpsc::channel(64);
    let _look = AbortOnDropHandle::new(tokio::spawn(look::run(Shared::clone(app), sending.holder.clone(), found)));
    loop {
        tokio::select! {
            biased;
            () = app.ending.cancelled() => return,
            Some(ended) = tasks.running.join_next_with_id() => {
                let id = ended.map_or_else(|failed| failed.id(), |(id, ())| id);
                tasks.ended(sending, id);
            }
            word = heard.recv() => match word {
                Ok(Happened::Deliveries(tenant)) => tasks.tell(sending, tenant),
                Ok(Happened::Waiting(tenant, holder)) if holder == sending.holder => tasks.tell(sending, tenant),
                // What was missed is found at the next look.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            tenant = waiting.recv() => match tenant {
                Some(tenant) => tasks.tell(sending, tenant),
                None => return,
            },
        }
    }
}
