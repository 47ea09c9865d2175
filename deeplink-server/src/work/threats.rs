//! Keeps the threat list as its file is, and flags the links that lead to what it names by then.
//!
//! A file that changes is read once it stands still, so that no half-written line is taken for another host. Each change
//! is followed by a walk over all active links, in the order of their positions and in steps that no other write waits
//! for; a second walk finds what was being stored under the former list. A link that was flagged stays so when its line
//! goes: only an operator takes a status back.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;

use crate::db::DbError;
use crate::db::link_status::{self, Active, Threat};
use crate::state::App;
use crate::threats::{Reading, Stamp, ThreatFile, ThreatList, Unusable, fields};

/// How often it is looked whether the file changed.
const LOOK: Duration = Duration::from_millis(500);
/// Looks until the second walk: longer than a write may wait.
const SECOND: u32 = 20;
/// Links that one step of a walk reads.
const READ: i64 = 1_000;
/// Steps between two looks.
const STEPS: u32 = 50;
/// Links that one write flags.
const FLAG: usize = 100;

pub(super) async fn run(app: Weak<App>, file: ThreatFile) {
    let mut watch = Watch::new(file);
    let mut walk = Walk::begin();
    loop {
        {
            let Some(app) = app.upgrade() else { return };
            if app.stopping.load(Ordering::Relaxed) {
                return;
            }
            if let Some(list) = watch.look().await {
                app.threats.replace(list);
                walk.anew();
            }
            walk.go_on(&app).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Notices when the file changes.
struct Watch {
    path: PathBuf,
    /// Of the last file that was judged, and whether it could be used.
    judged: (Stamp, bool),
    /// At the last look.
    seen: Option<Stamp>,
    /// Whether it was said that the file cannot be used.
    complained: bool,
}

impl Watch {
    fn new(file: ThreatFile) -> Self {
        report(&file.path, &file.first);
        Self { path: file.path, judged: (file.first.stamp, true), seen: None, complained: false }
    }

    /// The new list, once there is one.
    async fn look(&mut self) -> Option<Arc<ThreatList>> {
        let stamp = match tokio::fs::metadata(&self.path).await.and_then(|file| Stamp::of(&file)) {
            Ok(stamp) => stamp,
            Err(error) => {
                self.seen = None;
                self.complain(&error.into());
                return None;
            }
        };
        let stands_still = self.seen.replace(stamp) == Some(stamp);
        if stamp == self.judged.0 || !stands_still {
            // Gone and back again unchanged is no reason to keep silent the next time.
            self.complained &= self.judged != (stamp, true);
            return None;
        }
        let path = self.path.clone();
        match tokio::task::spawn_blocking(move || Reading::of(&path)).await {
            Ok(Ok(reading)) if reading.stamp == stamp => {
                self.judged = (stamp, true);
                self.complained = false;
                report(&self.path, &reading);
                Some(reading.list)
            }
            Ok(Err(error)) => {
                // Permissions can change without the file; what it says cannot.
                if !matches!(error, Unusable::Unreadable(_)) {
                    self.judged = (stamp, false);
                }
                self.complain(&error);
                None
            }
            // Written in the meantime, or the service ends.
            Ok(Ok(_)) | Err(_) => None,
        }
    }

    fn complain(&mut self, error: &Unusable) {
        if !std::mem::replace(&mut self.complained, true) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "the threat list cannot be read; what it said last holds on");
        }
    }
}

fn report(path: &std::path::Path, reading: &Reading) {
    let path = path.display();
    let (hosts, urls) = reading.list.counts();
    tracing::info!(%path, hosts, urls, "the threat list is read");
    if !reading.skipped.is_empty() {
        let lines = &reading.skipped;
        tracing::warn!(%path, %lines, "lines of the threat list are neither a URL nor a host and have no effect");
    }
}

/// A way through all links.
struct Walk {
    /// The last position looked at; `None` at the end.
    at: Option<i64>,
    /// Whether the list changed on the way.
    anew: bool,
    /// Looks until it begins for the second time.
    second_in: u32,
    /// Whether it was said that it cannot go on.
    complained: bool,
}

impl Walk {
    fn begin() -> Self {
        Self { at: Some(i64::MIN), anew: false, second_in: SECOND, complained: false }
    }

    /// Begins again, or goes to the end first: a file that changes every second must not keep it from ever arriving.
    fn anew(&mut self) {
        self.anew = self.at.is_some();
        self.at.get_or_insert(i64::MIN);
        self.second_in = SECOND;
    }

    /// Goes some steps, so that the file is looked at now and then also among millions of links.
    async fn go_on(&mut self, app: &App) {
        let Some(list) = app.threats.now() else { return };
        if self.at.is_none() && self.second_in > 0 {
            self.second_in -= 1;
            self.at = (self.second_in == 0).then_some(i64::MIN);
        }
        for _ in 0..STEPS {
            let Some(from) = self.at else { return };
            match step(app, &list, from).await {
                Ok(to) => {
                    self.at = to.or_else(|| std::mem::take(&mut self.anew).then_some(i64::MIN));
                    self.complained = false;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.complained, true) {
                        tracing::warn!(%error, "links that lead to listed threats cannot be flagged; it is tried again");
                    }
                    return;
                }
            }
        }
    }
}

/// Judges the next links and flags those that lead to what is listed; the position to go on from, or `None` at the end.
async fn step(app: &App, list: &ThreatList, from: i64) -> Result<Option<i64>, DbError> {
    let now = app.clock.now();
    let links = link_status::active_after(&mut app.db.read().await?.conn(), from, READ, now).await?;
    let last = links.last().map(|link| link.position);
    let mut threats: Vec<Threat> = links.into_iter().filter_map(|link| threat(list, link)).collect();
    while !threats.is_empty() {
        let rest = threats.split_off(threats.len().min(FLAG));
        flag(app, threats).await?;
        threats = rest;
    }
    Ok(last)
}

fn threat(list: &ThreatList, link: Active) -> Option<Threat> {
    let (url, entry) = fields(&link.to).into_iter().find_map(|(_, url)| Some((url?, list.covers(url?)?)))?;
    let (url, reason) = (url.to_owned(), format!("on the threat list: {entry}"));
    Some(Threat { tenant: link.tenant, link_id: link.link_id, position: link.position, url, reason })
}

/// Flags some links in one write. As with an operator's change, what is remembered of them is forgotten.
async fn flag(app: &App, threats: Vec<Threat>) -> Result<(), DbError> {
    let (threats, now) = (Arc::new(threats), app.clock.now());
    let flagged = app
        .db
        .write::<_, DbError, _>({
            let threats = Arc::clone(&threats);
            move |mut tx| {
                let threats = Arc::clone(&threats);
                async move {
                    let mut flagged = 0;
                    for threat in &*threats {
                        flagged += u32::from(link_status::flag(&mut tx, threat, now).await?);
                    }
                    Ok(flagged)
                }
                .boxed()
            }
        })
        .await?;
    for threat in &*threats {
        app.links.drop_link(threat.tenant.as_str(), &threat.link_id);
    }
    if flagged > 0 {
        tracing::warn!(links = flagged, "links were flagged, because they lead to what the threat list names");
    }
    Ok(())
}
