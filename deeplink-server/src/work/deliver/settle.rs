//! Stores what became of attempts: one write for many, whosever they are.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::id::{MailId, TenantId, WebhookId};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::db::deliveries::{self, Health, MOST_SETTLED, Settled};
use crate::db::{Conn, DbError, mails, users};
use crate::state::{App, Shared};
use crate::work::mail::Mail;

/// Results that may wait; whoever has another one waits with it.
pub(super) const WAITING: usize = 1_024;
/// How long results gather.
const GATHER: Duration = Duration::from_millis(5);
/// After how long it is tried again when the database cannot write.
const AGAIN: Duration = Duration::from_millis(250);
/// How often a webhook's row is written at most for nothing but news of what is known.
const NEWS_MILLIS: u64 = 1_000;
/// For how long a mail about a webhook that was switched off is tried.
const MAIL_DAYS: i64 = 3;

/// What became of an attempt.
pub(super) struct Done {
    pub(super) webhook: WebhookId,
    pub(super) settled: Settled,
    /// `None` if there was none.
    pub(super) attempt: Option<Attempt>,
    /// Hears the delivery's id once it is stored.
    pub(super) stored: mpsc::UnboundedSender<Stored>,
}

/// What an attempt says of its webhook.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// When it ended.
    pub(super) at: Timestamp,
    pub(super) arrived: bool,
    /// Whether it is time to judge for how long the webhook has failed.
    pub(super) judges: bool,
}

/// A result is stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) webhook: WebhookId,
    pub(super) delivery: String,
    /// Whether there is to be another attempt.
    pub(super) again: bool,
}

/// Stores results for as long as there is somebody who could bring one.
pub(super) async fn run(app: Shared, mut results: mpsc::Receiver<Done>) {
    let mut known = Known::default();
    let mut batch = Vec::with_capacity(MOST_SETTLED);
    while results.recv_many(&mut batch, MOST_SETTLED).await > 0 {
        if batch.len() < MOST_SETTLED && !app.ending.is_cancelled() {
            sleep(GATHER).await;
            while batch.len() < MOST_SETTLED
                && let Ok(done) = results.try_recv()
            {
                batch.push(done);
            }
        }
        store(&app, &mut known, &mut batch).await;
    }
}

async fn store(app: &Shared, known: &mut Known, batch: &mut Vec<Done>) {
    let news = known.news(app.clock.monotonic_millis(), batch);
    batch.sort_by(|one, other| one.settled.id.cmp(&other.settled.id));
    let rows: Arc<[Settled]> = batch.iter().map(|done| done.settled.clone()).collect();
    let news: Arc<[(WebhookId, Health)]> = news.into();
    let mut tries = 0;
    loop {
        let (rows, news, app_in) = (Arc::clone(&rows), Arc::clone(&news), Shared::clone(app));
        let written = if news.iter().any(|(_, health)| health.judges) {
            let write = app.db.write(move |mut tx| {
                let (rows, news, app) = (Arc::clone(&rows), Arc::clone(&news), Shared::clone(&app_in));
                async move { keep(&app, &mut tx, &rows, &news).await }.boxed()
            });
            write.await
        } else {
            // What is lost with the power is sent again, so nobody has to wait for the disk.
            app.clicks.write(move |mut tx| async move { keep(&app_in, &mut tx, &rows, &news).await }.boxed()).await
        };
        match written {
            Ok(paused) => {
                if paused {
                    app.mail_waits.notify_one();
                }
                break;
            }
            // What is not stored is sent again by the next process.
            Err(error) if app.ending.is_cancelled() && tries > 2 => {
                tracing::warn!(%error, "what became of deliveries could not be stored");
                break;
            }
            Err(error) => tracing::warn!(%error, "what became of deliveries cannot be stored; it is tried again"),
        }
        tries += 1;
        sleep(AGAIN).await;
    }
    for Done { webhook, settled, stored, .. } in batch.drain(..) {
        // The tenant's task may have ended.
        let _ = stored.send(Stored { webhook, again: settled.state == 0, delivery: settled.id });
    }
}

/// Stores results and what they say of their webhooks; `true` when a mail waits.
async fn keep(app: &App, tx: &mut Conn<'_>, rows: &[Settled], news: &[(WebhookId, Health)]) -> Result<bool, DbError> {
    deliveries::settle(tx, rows).await?;
    note(app, tx, news).await
}

/// Notes how webhooks fare; `true` when one was switched off and its owner is told by mail.
async fn note(app: &App, tx: &mut Conn<'_>, news: &[(WebhookId, Health)]) -> Result<bool, DbError> {
    let now = app.clock.now();
    let mut mailed = false;
    for (webhook, health) in news {
        if let Some((tenant, url, since)) = deliveries::note_health(tx, webhook, health, now).await? {
            tracing::warn!(%webhook, %tenant, "a webhook has failed for three days and is switched off");
            mailed |= tell_owners(app, tx, &tenant, &url, since, now).await?;
        }
    }
    Ok(mailed)
}

async fn tell_owners(
    app: &App,
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    url: &str,
    since: Timestamp,
    now: Timestamp,
) -> Result<bool, DbError> {
    if app.config.mail_at(&app.public_url).is_none() {
        tracing::warn!("mail is not set up, so nobody is told that the webhook is switched off");
        return Ok(false);
    }
    for owner in users::owners_of(tx, tenant).await? {
        let id = app.random(|random| MailId::new(now, random));
        let sealed = Mail::webhook_paused(owner, url, since).seal(&app.vault, &id);
        mails::insert(tx, &id, &sealed, now, now.plus_days(MAIL_DAYS)).await?;
    }
    Ok(true)
}

/// What this node has noted of webhooks lately, so that a busy one's row is not written with every batch.
#[derive(Default)]
struct Known(HashMap<WebhookId, Noted>);

/// When it was noted, whether it failed, and whether it was judged.
type Noted = (u64, bool, bool);

impl Known {
    /// What is worth a write: a change, or the same for the first time within a second.
    fn news(&mut self, now: u64, batch: &[Done]) -> Vec<(WebhookId, Health)> {
        let mut all: BTreeMap<&WebhookId, Health> = BTreeMap::new();
        for done in batch {
            if let Some(Attempt { at, arrived, judges }) = done.attempt {
                all.entry(&done.webhook).or_default().add(at, arrived, judges);
            }
        }
        self.0.retain(|_, (noted, ..)| *noted + NEWS_MILLIS > now);
        let mut news = Vec::new();
        for (webhook, health) in all {
            let fails = health.failed_at.is_some();
            // A success before the failures begins them anew.
            let is_turn = fails && health.delivered_at.is_some();
            let is_known = |&(_, failed, judged): &Noted| failed == fails && judged >= health.judges && !is_turn;
            if !self.0.get(webhook).is_some_and(is_known) {
                self.0.insert(webhook.clone(), (now, fails, health.judges));
                news.push((webhook.clone(), health));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(arrived: bool, at: i64, stored: &mpsc::UnboundedSender<Stored>) -> Done {
        let settled =
            Settled { id: format!("dlv_{at}"), before: 0, tries: 1, state: 1, due_at: at, log: "[]".to_owned() };
        let webhook = "wh_000000000000000000000001".parse().expect("an id");
        let attempt = Some(Attempt { at: Timestamp::from_millis(at), arrived, judges: false });
        Done { webhook, settled, attempt, stored: stored.clone() }
    }

    /// The same again is not written within a second; a success is never lost, though failures come before and after it.
    #[test]
    fn what_is_known_is_not_news() {
        let (stored, _hears) = mpsc::unbounded_channel();
        let mut known = Known::default();
        let mut at = 0;
        let mut noted = |now, batch: &[bool]| {
            let batch = batch.iter().map(|&arrived| {
                at += 1;
                done(arrived, at, &stored)
            });
            let news = known.news(now, &batch.collect::<Vec<_>>());
            news.first().map(|(_, health)| (health.delivered_at.is_some(), health.failed_at.is_some()))
        };
        assert_eq!(noted(0, &[false, false]), Some((false, true)));
        assert_eq!(noted(10, &[false]), None);
        assert_eq!(noted(20, &[true, false]), Some((true, true)));
        assert_eq!(noted(30, &[false]), None);
        assert_eq!(noted(40, &[false, true]), Some((true, false)));
        assert_eq!(noted(50, &[true]), None);
        assert_eq!(noted(40 + NEWS_MILLIS, &[true]), Some((true, false)));
    }
}
