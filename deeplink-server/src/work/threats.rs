//! Reloads the threat list when its file changes, and flags the links that lead to what it lists.
//!
//! A changed file is read once two scans find it unchanged, so that no half-written line is taken for another host. Each
//! change is followed by a pass over all active links, by position and in steps too short to delay other writes; a second
//! pass finds links that were being stored under the former list. A flagged link stays flagged when its line is removed:
//! only an operator resets a status.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;

use crate::db::DbError;
use crate::db::link_status::{self, Active, Threat};
use crate::shares::Share;
use crate::state::{App, Shared};
use crate::threats::{LoadedList, ThreatFile, ThreatList};
use crate::watched_file::Watch;

/// Interval between checks of the file.
const SCAN_INTERVAL: Duration = Duration::from_millis(500);
/// Scans until the second pass: longer than a write may wait.
const SCANS_UNTIL_SECOND_PASS: u32 = 20;
/// Links that one step of a pass reads.
const LINKS_PER_STEP: i64 = 1_000;
/// Steps between two scans.
const STEPS_PER_SCAN: u32 = 50;
/// Links that one write flags.
const MAX_FLAGS_PER_WRITE: usize = 100;

pub(super) async fn run(app: Weak<App>, file: ThreatFile) {
    report(&file.path, &file.initial);
    let mut watch = Watch::new(file.path, LoadedList::from_file, file.stamp);
    let mut pass = Pass::begin();
    loop {
        let (clock, began) = {
            let Some(app) = app.upgrade() else { return };
            let (clock, began) = (app.clock.clone(), app.clock.now());
            if app.stopping.load(Ordering::Relaxed) {
                return;
            }
            let loaded = watch.poll().await;
            let path = watch.path.display();
            tracing::trace!(%path, "threat list file checked");
            match loaded {
                Some(Ok(loaded)) => {
                    report(&watch.path, &loaded);
                    app.threats.replace(loaded.list);
                    pass.restart();
                }
                Some(Err(error)) => {
                    tracing::warn!(%path, %error, "threat list cannot be read; keeping the previous one");
                }
                None => {}
            }
            pass.advance(&app).await;
            (clock, began)
        };
        clock.pause(SCAN_INTERVAL, began).await;
    }
}

fn report(path: &std::path::Path, loaded: &LoadedList) {
    let path = path.display();
    let (hosts, urls) = loaded.list.counts();
    tracing::info!(%path, hosts, urls, "threat list loaded");
    if !loaded.skipped.is_empty() {
        let lines = &loaded.skipped;
        tracing::warn!(%path, %lines, "threat list: lines that are neither a URL nor a host were ignored");
    }
}

/// A pass over all links.
struct Pass {
    /// The last position that was checked; `None` at the end.
    at: Option<i64>,
    /// Whether the list changed during the pass.
    restart: bool,
    /// Scans until the second pass begins.
    scans_until_second: u32,
    /// Whether the log has a warning that links could not be flagged.
    warned: bool,
}

impl Pass {
    fn begin() -> Self {
        Self { at: Some(i64::MIN), restart: false, scans_until_second: SCANS_UNTIL_SECOND_PASS, warned: false }
    }

    /// Starts a new pass, after the current one: a file that changes every second must not keep a pass from completing.
    fn restart(&mut self) {
        self.restart = self.at.is_some();
        self.at.get_or_insert(i64::MIN);
        self.scans_until_second = SCANS_UNTIL_SECOND_PASS;
    }

    /// Takes some steps, so that the file is checked between them even with millions of links.
    async fn advance(&mut self, app: &Shared) {
        let Some(list) = app.threats.current() else { return };
        if self.at.is_none() && self.scans_until_second > 0 {
            self.scans_until_second -= 1;
            self.at = (self.scans_until_second == 0).then_some(i64::MIN);
        }
        for _ in 0..STEPS_PER_SCAN {
            let Some(from) = self.at else { return };
            match step(app, &list, from).await {
                Ok(to) => {
                    self.at = to.or_else(|| std::mem::take(&mut self.restart).then_some(i64::MIN));
                    self.warned = false;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.warned, true) {
                        tracing::warn!(%error, "links to listed threats could not be flagged; will retry");
                    }
                    return;
                }
            }
        }
    }
}

/// Checks the next links and flags those that lead to a listed URL. Returns the position to continue from, or `None` at
/// the end.
async fn step(app: &Shared, list: &ThreatList, from: i64) -> Result<Option<i64>, DbError> {
    let now = app.clock.now();
    let links = link_status::active_after(&mut app.db.read().await?.conn(), from, LINKS_PER_STEP, now).await?;
    let last = links.last().map(|link| link.position);
    let mut threats: Vec<Threat> = links.into_iter().filter_map(|link| threat(list, link)).collect();
    while !threats.is_empty() {
        let rest = threats.split_off(threats.len().min(MAX_FLAGS_PER_WRITE));
        flag(app, threats).await?;
        threats = rest;
    }
    Ok(last)
}

fn threat(list: &ThreatList, link: Active) -> Option<Threat> {
    let (url, entry) = link.to.as_deref().each().find_map(|(_, url)| Some((url?, list.covers(url?)?)))?;
    let (url, reason) = (url.to_owned(), format!("on the threat list: {entry}"));
    Some(Threat { tenant: link.tenant, link_id: link.link_id, position: link.position, url, reason })
}

/// Flags some links in one write. As with an operator's change, they are dropped from the cache.
async fn flag(app: &Shared, threats: Vec<Threat>) -> Result<(), DbError> {
    let now = app.clock.now();
    let flagged = app.write(
        Share::Service,
        threats,
        move |tx, threats| {
            async move {
                let mut flagged = 0;
                for threat in threats {
                    flagged += u32::from(link_status::flag(tx, threat, now).await?);
                }
                Ok::<_, DbError>(flagged)
            }
            .boxed()
        },
        |app, threats, _| {
            for threat in threats {
                app.links.drop_link(threat.tenant.as_str(), &threat.link_id);
            }
        },
    );
    let flagged = flagged.await?;
    if flagged > 0 {
        tracing::warn!(links = flagged, "links flagged by the threat list");
    }
    Ok(())
}
