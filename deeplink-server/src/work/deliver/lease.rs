//! The lease on a tenant's deliveries when several nodes share the database. A SQLite file has only one process.

use std::time::Duration;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use crate::db::{DbError, deliveries, notices};
use crate::state::Shared;

/// How long a lease lasts.
const DURATION: Duration = Duration::from_secs(10);
/// How much of it must be left while attempts begin.
const MIN_LEFT: Duration = Duration::from_secs(6);
/// Time between two notifications to the node that has the lease, so that many events are announced together.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct Lease {
    app: Shared,
    holder: String,
    tenant: TenantId,
    until: Option<Instant>,
}

impl Lease {
    pub(super) fn new(app: &Shared, holder: &str, tenant: &TenantId) -> Self {
        Self { app: Shared::clone(app), holder: holder.to_owned(), tenant: tenant.clone(), until: None }
    }

    /// Takes it, or renews it when less than [`MIN_LEFT`] is left. `false`: another node has it.
    pub(super) async fn acquire(&mut self) -> Result<bool, DbError> {
        let began = Instant::now();
        if self.app.db.is_sqlite() || self.until.is_some_and(|until| until.duration_since(began) >= MIN_LEFT) {
            return Ok(true);
        }
        let now = self.app.clock.now();
        if self.until.is_none() {
            let mut reader = self.app.db.read().await?;
            let holder = deliveries::holder_of(&mut reader.conn(), &self.tenant, &self.holder, now).await?;
            drop(reader);
            if let Some(holder) = holder {
                self.notify(holder).await;
                return Ok(false);
            }
        }
        let until = now.plus_millis(i64::try_from(DURATION.as_millis()).unwrap_or(0));
        let taken =
            self.app.db.write(&self.tenant, (self.holder.clone(), self.tenant.clone()), move |tx, (holder, tenant)| {
                deliveries::take_lease(tx, tenant, holder, now, until).boxed()
            });
        let is_taken = taken.await?;
        self.until = is_taken.then_some(began + DURATION);
        Ok(is_taken)
    }

    /// Renews it while attempts in flight end. A lost lease is not taken again.
    pub(super) async fn renew(&mut self) {
        if self.until.is_some()
            && let Err(error) = self.acquire().await
        {
            tracing::debug!(%error, "delivery lease could not be renewed; will retry");
        }
    }

    /// Notifies the node that has it of new deliveries.
    async fn notify(&self, holder: String) {
        let sent = self.app.db.write(&self.tenant, (holder, self.tenant.clone()), |tx, (holder, tenant)| {
            notices::delivery_waits(tx, tenant, holder).boxed()
        });
        if let Err(error) = sent.await {
            tracing::debug!(%error, "another node could not be notified of deliveries; its next scan finds them");
        }
        sleep(NOTIFY_INTERVAL).await;
    }

    /// Releases it, so that any node may take it at once.
    pub(super) async fn release(&mut self) {
        if self.until.take().is_none() {
            return;
        }
        let released =
            self.app.db.write(&self.tenant, (self.holder.clone(), self.tenant.clone()), |tx, (holder, tenant)| {
                deliveries::release_leases(tx, holder, Some(tenant)).boxed()
            });
        if let Err(error) = released.await {
            tracing::debug!(%error, "delivery lease could not be released; it will expire");
        }
    }
}
