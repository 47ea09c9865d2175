//! Clicks that somebody reports, who is answered once they are on disk: by themselves, or together with the reply that is
//! kept for a repeat.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::queue::lock;
use super::{Click, Clicks, Intake};
use crate::db::clicks::{self, NewClick, NewText};
use crate::db::{Conn, DbError};

/// What became of a click that others stored with theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Stored,
    /// Nothing of it is there.
    Refused,
    /// Whether it is there is not known: its commit was cut off.
    Unknown,
}

/// Reported clicks that wait to be stored, each with whom to tell whether it is.
#[derive(Default)]
pub(super) struct Reports {
    waiting: Mutex<Vec<(Click, oneshot::Sender<Told>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Clicks {
    /// Stores a click. Those that come while others are stored are stored together: writers wait for each other's place in
    /// the log until they are on disk, so one write each would be slow. To be called from a task that nobody cancels.
    pub(crate) async fn report(&self, click: Click) -> Result<(), DbError> {
        let (told, is_stored) = oneshot::channel();
        lock(&self.reports.waiting).push((click, told));
        let turn = self.reports.turn.lock().await;
        let (clicks, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut *lock(&self.reports.waiting)).into_iter().unzip();
        if !clicks.is_empty() {
            let stored = self.store_all(clicks).await;
            let what = match &stored {
                Ok(()) => Told::Stored,
                Err(DbError::Unknown(_) | DbError::Query(_)) => Told::Unknown,
                Err(_) => Told::Refused,
            };
            // Whoever does not wait any more will repeat it.
            for told in waiting {
                let _ = told.send(what);
            }
            if stored.is_err() {
                // Whoever came meanwhile has waited as well, and would only wait longer.
                let others = std::mem::take(&mut *lock(&self.reports.waiting));
                for (_, told) in others {
                    let _ = told.send(Told::Refused);
                }
            }
            stored?;
        }
        drop(turn);
        match is_stored.await {
            Ok(Told::Stored) => Ok(()),
            Ok(Told::Unknown) => Err(DbError::Unknown("others stored it with theirs".into())),
            Ok(Told::Refused) | Err(_) => Err(DbError::Overloaded),
        }
    }

    async fn store_all(&self, clicks: Vec<Click>) -> Result<(), DbError> {
        let count = clicks.len() as u64;
        let job = Arc::new((Arc::clone(&self.intake), clicks));
        let stored = self.db.write(move |mut tx| {
            let job = Arc::clone(&job);
            async move { store(&job.0, &mut tx, &job.1).await }.boxed()
        });
        stored.await?;
        self.intake.have_stored(count);
        Ok(())
    }

    /// Stores a click in a transaction of somebody else's, who calls [`Clicks::stored_alongside`] after the commit.
    pub(crate) async fn store(&self, tx: &mut Conn<'_>, click: &Click) -> Result<(), DbError> {
        store(&self.intake, tx, std::slice::from_ref(click)).await
    }

    /// The transaction is committed.
    pub(crate) fn stored_alongside(&self) {
        self.intake.have_stored(1);
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
    clicks::insert(tx, &intake.head, intake.place(&rows, now), &rows).await?;
    Ok(())
}
