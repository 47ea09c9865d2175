//! The one timer of the clicks: it sleeps until the oldest click that waits has waited too long.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Intake;
use super::queue::lock;

/// How often what is in a spill file is brought onto the disk.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Gives up on the writer when it takes too long.
pub(super) async fn run(intake: Arc<Intake>) {
    loop {
        if let Some(oldest) = intake.oldest() {
            tokio::time::sleep_until(oldest + intake.store_timeout).await;
            intake.abandon_overdue(Instant::now());
        } else {
            intake.unwatched.store(true, Ordering::SeqCst);
            // A click that came before that was stored woke nobody.
            if intake.oldest().is_none() {
                intake.wake_watch.notified().await;
            }
            intake.unwatched.store(false, Ordering::SeqCst);
        }
    }
}

impl Intake {
    /// Since when the oldest click waits that is not settled.
    fn oldest(&self) -> Option<Instant> {
        let running = lock(&self.running);
        running.iter().map(|running| running.since).chain(self.queue.oldest()).min()
    }

    /// Once a click has waited too long, nothing waits any longer: the rest would only wait as long.
    fn abandon_overdue(&self, now: Instant) {
        if self.oldest().is_some_and(|oldest| oldest + self.store_timeout <= now) {
            self.begin_spilling();
            self.abandon_all();
        }
    }
}

/// Syncs the spill file while it grows: a power failure costs the last second at most.
pub(super) async fn sync(intake: Arc<Intake>) {
    loop {
        intake.wake_sync.notified().await;
        tokio::time::sleep(SYNC_INTERVAL).await;
        let file = lock(&intake.spill).unsynced();
        let Some(file) = file else { continue };
        let synced = tokio::task::spawn_blocking(move || File::sync_data(&file)).await;
        if let Ok(Err(error)) = synced {
            tracing::error!(%error, "spill file could not be synced");
        }
    }
}
