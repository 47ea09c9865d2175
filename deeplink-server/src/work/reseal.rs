//! Re-encrypts with the first master key what other nodes still encrypt with older ones, for as long as those are
//! configured.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::state::App;

/// Interval between scans.
const SCAN_INTERVAL: Duration = Duration::from_mins(1);

pub(super) async fn run(app: Weak<App>) {
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let (clock, begun) = (app.clock.clone(), app.clock.now());
        if let Err(error) = app.vault.reseal_if_latest(&app.db).await {
            tracing::warn!(%error, "not everything is encrypted with the first master key yet; will retry");
        }
        drop(app);
        clock.pause(SCAN_INTERVAL, begun).await;
    }
}
