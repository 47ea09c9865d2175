//! Reloads the country database when its file changes.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::country::{Database, GeoFile};
use crate::state::App;
use crate::watched_file::{LoadError, Watch};

/// Interval between checks of the file.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn run(app: Weak<App>, file: GeoFile) {
    tracing::info!(file = ?file, "country database loaded");
    let mut watch = Watch::new(file.path, Database::from_file, file.stamp);
    loop {
        let (clock, began) = {
            let Some(app) = app.upgrade() else { return };
            let (clock, began) = (app.clock.clone(), app.clock.now());
            if app.stopping.load(Ordering::Relaxed) {
                return;
            }
            let loaded = watch.poll().await;
            let path = watch.path.display();
            match loaded {
                Some(Ok(database)) => {
                    tracing::info!(file = format!("{path} ({})", database.about()), "country database loaded");
                    app.countries.replace(Some(database));
                }
                Some(Err(error)) => {
                    tracing::warn!(%path, %error, "country database cannot be read; clicks are counted without a country");
                    if matches!(error, LoadError::Unreadable(_)) {
                        watch.forget();
                    }
                    app.countries.replace(None);
                }
                None => {}
            }
            (clock, began)
        };
        clock.pause(SCAN_INTERVAL, began).await;
    }
}
