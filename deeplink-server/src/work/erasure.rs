//! Deletes the accounts whose deletion is due. What a process leaves unfinished is continued by the next scan of any node.

use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;

use crate::db::erasure::{self, Progress};
use crate::db::{Db, DbError};
use crate::state::App;

/// Pause between two batches, so that other writes come first.
const BATCH_PAUSE: Duration = Duration::from_millis(5);

/// Deletes what is due.
pub(super) async fn run_due(app: &App) -> Result<(), DbError> {
    let now = app.clock.now();
    let due = erasure::due(&mut app.db.read().await?.conn(), now).await?;
    for tenant in due {
        let begun = app.db.write(&tenant, tenant.clone(), move |tx, tenant| erasure::begin(tx, tenant, now).boxed());
        if !begun.await? {
            continue;
        }
        app.forget_account(&tenant);
        let deleted = erase(&app.db, &tenant, || app.stopping.load(Ordering::Relaxed)).await?;
        app.forget_account(&tenant);
        if let Some(rows) = deleted {
            tracing::info!(%tenant, rows, "account deleted");
        }
    }
    Ok(())
}

/// Deletes all rows of an account whose deletion was begun, and returns how many they were; `None` when it was stopped.
pub(crate) async fn erase(db: &Db, tenant: &TenantId, is_stopped: impl Fn() -> bool) -> Result<Option<u64>, DbError> {
    let mut total = 0;
    loop {
        let (mut found, mut progress) = (0, Progress::START);
        while progress != Progress::Done {
            if is_stopped() {
                return Ok(None);
            }
            let step = db.write(tenant, (tenant.clone(), progress), |tx, (tenant, progress)| {
                erasure::step(tx, tenant, *progress).boxed()
            });
            let (rows, next): (u64, Progress) = step.await?;
            found += rows;
            progress = next;
            tokio::time::sleep(BATCH_PAUSE).await;
        }
        total += found;
        // Until nothing is found, so that what was being stored when it began is deleted as well.
        if found == 0 {
            db.write(tenant, tenant.clone(), |tx, tenant| erasure::finish(tx, tenant).boxed()).await?;
            return Ok(Some(total));
        }
    }
}
