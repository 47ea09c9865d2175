//! Clicks that somebody reports, who is answered once they are on disk: by themselves, or together with the reply that is
//! kept for a repeat.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::queue::lock;
use super::{Click, Clicks, Intake};
use crate::db::clicks::{self, NewClick, NewText};
use crate::db::{Conn, DbError};
use crate::shares::Share;

/// The outcome for a click that another report stored with its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreOutcome {
    Stored,
    /// It is not stored.
    Refused,
    /// The outcome of the commit is unknown.
    Unknown,
}

/// Reported clicks that wait to be stored, each with the sender of its outcome.
#[derive(Default)]
pub(super) struct Reports {
    waiting: Mutex<Vec<(Click, oneshot::Sender<StoreOutcome>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Clicks {
    /// Stores a click, whether or not the caller still waits.
    pub(crate) async fn report(self: &Arc<Self>, click: Click) -> Result<(), DbError> {
        let clicks = Arc::clone(self);
        let stored = tokio::spawn(async move { clicks.store_in_turn(click).await }.in_current_span());
        stored.await.unwrap_or_else(|_| Err(DbError::Unknown("a click's write panicked".into())))
    }

    /// Clicks that come while others are stored are stored together: writers wait for each other's append to the log until
    /// they are on disk, so one write each would be slow.
    async fn store_in_turn(&self, click: Click) -> Result<(), DbError> {
        let (reply, is_stored) = oneshot::channel();
        lock(&self.reports.waiting).push((click, reply));
        let turn = self.reports.turn.lock().await;
        let (clicks, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut *lock(&self.reports.waiting)).into_iter().unzip();
        if !clicks.is_empty() {
            let stored = self.store_all(clicks).await;
            let outcome = match &stored {
                Ok(()) => StoreOutcome::Stored,
                Err(DbError::Unknown(_) | DbError::Query(_)) => StoreOutcome::Unknown,
                Err(_) => StoreOutcome::Refused,
            };
            // Whoever does not wait any more will repeat it.
            for reply in waiting {
                let _ = reply.send(outcome);
            }
            if stored.is_err() {
                // Whoever came meanwhile has waited as well, and would only wait longer.
                let others = std::mem::take(&mut *lock(&self.reports.waiting));
                for (_, reply) in others {
                    let _ = reply.send(StoreOutcome::Refused);
                }
            }
            stored?;
        }
        drop(turn);
        match is_stored.await {
            Ok(StoreOutcome::Stored) => Ok(()),
            Ok(StoreOutcome::Unknown) => Err(DbError::Unknown("others stored it with theirs".into())),
            Ok(StoreOutcome::Refused) | Err(_) => Err(DbError::Overloaded),
        }
    }

    async fn store_all(&self, clicks: Vec<Click>) -> Result<(), DbError> {
        let count = clicks.len() as u64;
        let job = (Arc::clone(&self.intake), clicks);
        self.db.write(Share::Clicks, job, |tx, (intake, clicks)| store(intake, tx, clicks).boxed()).await?;
        self.intake.note_stored(count);
        Ok(())
    }

    /// Stores a click in a transaction of somebody else's, who calls [`Clicks::report_stored`] after the commit.
    pub(crate) async fn store(&self, tx: &mut Conn<'_>, click: &Click) -> Result<(), DbError> {
        store(&self.intake, tx, std::slice::from_ref(click)).await
    }

    /// The transaction is committed.
    pub(crate) fn report_stored(&self) {
        self.intake.note_stored(1);
    }
}

async fn store(intake: &Intake, tx: &mut Conn<'_>, clicks: &[Click]) -> Result<(), DbError> {
    let now = intake.clock.now().as_millis();
    let mut texts: Vec<_> = clicks
        .iter()
        .flat_map(|click| [&click.agent, &click.referer])
        .flatten()
        .map(|text| NewText { hash: text.hash(), text: text.text() })
        .collect();
    texts.sort_unstable_by_key(|text| text.hash);
    texts.dedup_by_key(|text| text.hash);
    if !texts.is_empty() {
        clicks::insert_texts(tx, &texts, now - now.rem_euclid(86_400_000)).await?;
    }
    let rows: Vec<NewClick> = clicks.iter().map(Click::row).collect();
    clicks::insert(tx, &intake.head, intake.append_position(&rows, now), &rows).await?;
    Ok(())
}
