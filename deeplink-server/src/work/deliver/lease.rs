//! The lease on a tenant's deliveries, where several nodes share the database. A SQLite file has one process.

use std::time::Duration;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use crate::db::{DbError, deliveries, notices};
use crate::state::Shared;

/// How long it holds.
const HOLDS: Duration = Duration::from_secs(10);
/// How much of it is left at least while attempts begin.
const LEFT: Duration = Duration::from_secs(6);
/// Between two words to the node that has it, so that a crowd of events is announced together.
const PAUSE: Duration = Duration::from_millis(10);

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

    /// Takes it, or takes it anew when less than [`LEFT`] is left. `false`: another node has it.
    pub(super) async fn hold(&mut self) -> Result<bool, DbError> {
        let began = Instant::now();
        if self.app.db.is_sqlite() || self.until.is_some_and(|until| until.duration_since(began) >= LEFT) {
            return Ok(true);
        }
        let now = self.app.clock.now();
        if self.until.is_none() {
            let mut reader = self.app.db.read().await?;
            let holder = deliveries::holder_of(&mut reader.conn(), &self.tenant, &self.holder, now).await?;
            drop(reader);
            if let Some(holder) = holder {
                self.announce(holder).await;
                return Ok(false);
            }
        }
        let until = now.plus_millis(i64::try_from(HOLDS.as_millis()).unwrap_or(0));
        let (holder, tenant) = (self.holder.clone(), self.tenant.clone());
        let taken = self.app.db.write(move |mut tx| {
            let (holder, tenant) = (holder.clone(), tenant.clone());
            async move { deliveries::take(&mut tx, &tenant, &holder, now, until).await }.boxed()
        });
        let is_taken = taken.await?;
        self.until = is_taken.then_some(began + HOLDS);
        Ok(is_taken)
    }

    /// Keeps it while what is under way ends. Once it is lost, it is not taken again.
    pub(super) async fn keep(&mut self) {
        if self.until.is_some()
            && let Err(error) = self.hold().await
        {
            tracing::debug!(%error, "a lease could not be taken anew; it is tried again");
        }
    }

    /// Tells whoever has it that there is something.
    async fn announce(&self, holder: String) {
        let tenant = self.tenant.clone();
        let said = self.app.db.write(move |mut tx| {
            let (holder, tenant) = (holder.clone(), tenant.clone());
            async move { notices::delivery_waits(&mut tx, &tenant, &holder).await }.boxed()
        });
        if let Err(error) = said.await {
            tracing::debug!(%error, "another node could not be told of deliveries; it looks by itself");
        }
        sleep(PAUSE).await;
    }

    /// Gives it back, so that any node may have it at once.
    pub(super) async fn give_back(&mut self) {
        if self.until.take().is_none() {
            return;
        }
        let (holder, tenant) = (self.holder.clone(), self.tenant.clone());
        let given = self.app.db.write(move |mut tx| {
            let (holder, tenant) = (holder.clone(), tenant.clone());
            async move { deliveries::give_back(&mut tx, &holder, Some(&tenant)).await }.boxed()
        });
        if let Err(error) = given.await {
            tracing::debug!(%error, "a lease could not be given back; it runs out");
        }
    }
}
