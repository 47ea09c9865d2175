//! Records results in the journal and emits them; ends a run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::time::Instant;

use super::{Driver, Gone, Ready};
use crate::bulk::OnError;
use crate::bulk::batch::{Batch, BatchRow};
use crate::bulk::journal::{Done, Entry, Finished, RowSet, Settled};
use crate::bulk::outcome::{Position, RowOutcome, RowResult, Stopped};

impl Driver {
    /// Journals that a request was answered and that its remaining rows go into other requests.
    pub(super) fn close(&self, batch: &Batch) {
        self.write(Done { batch: batch.number, attempt: batch.attempt, rows: Vec::new(), base: String::new() });
    }

    /// Appends without waiting for the sync: an entry lost in a crash only means that the request is repeated.
    pub(super) fn write(&self, done: Done) {
        if let Some(journal) = &self.start.journal {
            drop(journal.append(Entry::Done(done)));
        }
    }

    /// Settles the rows of a request that is not retried: unknown if it may have arrived, otherwise not sent.
    pub(super) async fn give_up(&mut self, ready: &Ready, message: &str) -> Result<(), Gone> {
        if !ready.open {
            return Ok(());
        }
        let unknown = || RowResult::Unknown { message: message.to_owned() };
        self.settle(&ready.batch, ready.batch.rows.iter().map(|row| (row, unknown())).collect()).await
    }

    /// Journals and emits settled rows.
    pub(super) async fn settle(&mut self, batch: &Batch, ends: Vec<(&BatchRow, RowResult)>) -> Result<(), Gone> {
        let mut groups: Vec<(String, Settled, Vec<u64>)> = Vec::new();
        for (row, result) in &ends {
            let Some(settled) = settled(result) else { continue };
            let base = result.url().and_then(|url| url.strip_suffix(row.id.as_str())).unwrap_or_default();
            match groups.iter_mut().find(|(known, end, _)| known == base && *end == settled) {
                Some((.., rows)) => rows.push(row.row),
                None => groups.push((base.to_owned(), settled, vec![row.row])),
            }
        }
        for (base, settled, rows) in groups {
            let rows = vec![(settled, rows.into_iter().collect::<RowSet>())];
            self.write(Done { batch: batch.number, attempt: batch.attempt, rows, base });
        }
        let is_rejected = ends.iter().any(|(_, result)| matches!(result, RowResult::Rejected { .. }));
        let outcomes = ends.into_iter().map(|(row, result)| outcome(batch.number, row, result)).collect();
        if is_rejected && self.start.settings.on_error == OnError::Stop {
            self.halt(Stopped::RowRejected);
        }
        self.emit(outcomes).await
    }

    pub(super) async fn emit(&mut self, outcomes: Vec<RowOutcome>) -> Result<(), Gone> {
        for outcome in &outcomes {
            self.counts.add(&outcome.result);
        }
        self.publish();
        if outcomes.is_empty() { Ok(()) } else { self.start.outcomes.send(outcomes).await.map_err(|_| Gone) }
    }

    /// Stops sending.
    pub(super) fn halt(&mut self, why: Stopped) {
        if self.stopped.is_none() {
            self.stopped = Some(why);
            self.drain_until = Some(Instant::now() + self.pace.drain());
            self.start.planned.close();
        }
    }

    /// Settles the requests in flight when the run stopped.
    pub(super) async fn abandon(&mut self) -> Result<(), Gone> {
        self.jobs.abort_all();
        let ready = std::mem::take(&mut self.ready).into_iter();
        let delayed = std::mem::take(&mut self.delayed).into_iter().map(|(_, ready)| ready);
        for ready in ready.chain(delayed) {
            self.give_up(&ready, "the run was stopped").await?;
        }
        for held in std::mem::take(&mut self.under_way).into_values() {
            if held.is_sent {
                let unknown = || RowResult::Unknown { message: "no response before the run ended".to_owned() };
                self.settle(&held.batch, held.batch.rows.iter().map(|row| (row, unknown())).collect()).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn conclude(&mut self) {
        self.counts.requests += self.comparer.updates.load(Ordering::Relaxed);
        self.counts.unsent = self.counts.rows.saturating_sub(self.counts.settled());
        let complete = self.counts.unsent == 0 && self.counts.unknown == 0;
        if let Some(journal) = &self.start.journal {
            let written = journal.append(Entry::Finished(Finished { counts: self.counts, complete })).await;
            if let Err(error) = written {
                self.stopped.get_or_insert(Stopped::Journal(Arc::new(error)));
            }
        }
        self.publish();
    }

    pub(super) fn publish(&self) {
        let position = Position {
            counts: self.counts,
            in_flight: u32::try_from(self.under_way.len()).unwrap_or(u32::MAX),
            concurrency: self.pace.limit(),
            paused_until: self.pace.paused_until.map(Instant::into_std),
        };
        self.start.shared.progress.send_replace(position);
        let mut summary = self.start.shared.summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.counts = self.counts;
        summary.elapsed = self.started.elapsed();
        summary.stopped.clone_from(&self.stopped);
    }
}

fn settled(result: &RowResult) -> Option<Settled> {
    Some(match result {
        RowResult::Created { .. } => Settled::Created,
        RowResult::Existed { .. } => Settled::Existed,
        RowResult::Updated { .. } => Settled::Updated,
        RowResult::Skipped => Settled::Skipped,
        RowResult::Rejected { .. } | RowResult::Unknown { .. } => return None,
    })
}

fn outcome(batch: u64, row: &BatchRow, result: RowResult) -> RowOutcome {
    RowOutcome { line: row.line, at: row.at, id: Some(row.id.clone()), batch, result }
}
