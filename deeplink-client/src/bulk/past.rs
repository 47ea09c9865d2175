//! The state of a resumed run, read back from the journal: which rows are settled, and which requests
//! were about to be sent and may have arrived.

use std::collections::HashMap;
use std::sync::Arc;

use deeplink_core::link::GENERATED_ID_LEN;

use super::journal::{Done, Entry, Intent, Journal, JournalError, Settled};
use super::outcome::RowResult;

/// The journal of a resumed run. A million settled rows take two megabytes, and eight more for generated ids.
#[derive(Default)]
pub(crate) struct Past {
    /// Per row: 0 for nothing, else its result, and the index in `bases` of its address's base.
    rows: Vec<(u8, u8)>,
    bases: Vec<Arc<str>>,
    /// Per row, the last id generated for it.
    made: Option<Vec<[u8; GENERATED_ID_LEN]>>,
    /// Requests that were about to be sent when the process ended, by batch and try.
    open: HashMap<(u64, u32), Intent>,
    last_batch: u64,
    /// A link that the run has made or found.
    sample: Option<String>,
}

/// Codes of results in `rows`, in this order from 1.
const ENDS: [Settled; 4] = [Settled::Created, Settled::Existed, Settled::Updated, Settled::Skipped];

impl Past {
    /// Reads a journal. With `makes_ids`, the ids of rows are kept too, because the source does not name them.
    pub(crate) fn read(journal: &dyn Journal, makes_ids: bool) -> Result<Self, JournalError> {
        let mut past = Self { made: makes_ids.then(Vec::new), ..Self::default() };
        journal.replay(&mut |entry| match entry {
            Entry::Intent(intent) => past.intend(intent),
            Entry::Done(done) => past.settle(&done),
            Entry::Finished(_) => {}
        })?;
        Ok(past)
    }

    fn intend(&mut self, intent: Intent) {
        self.last_batch = self.last_batch.max(intent.batch);
        if let Some(made) = &mut self.made {
            for (row, id) in intent.rows.iter().zip(&intent.ids) {
                if let (Ok(id), Ok(at)) = (id.as_bytes().try_into(), usize::try_from(row)) {
                    made.resize(made.len().max(at + 1), [0; GENERATED_ID_LEN]);
                    made[at] = id;
                }
            }
        }
        // A later try of a batch replaces the earlier one.
        self.open.retain(|(batch, attempt), _| *batch != intent.batch || *attempt > intent.attempt);
        self.open.insert((intent.batch, intent.attempt), intent);
    }

    fn settle(&mut self, done: &Done) {
        let intent = self.open.remove(&(done.batch, done.attempt));
        let base = self.base(&done.base);
        for (settled, rows) in &done.rows {
            let end = ENDS.iter().position(|end| end == settled).map_or(0, |at| at + 1);
            for row in rows.iter() {
                let Ok(at) = usize::try_from(row) else { continue };
                self.rows.resize(self.rows.len().max(at + 1), (0, 0));
                self.rows[at] = (u8::try_from(end).unwrap_or(0), base);
            }
        }
        if let (None, Some(intent)) = (&self.sample, intent) {
            let linked = done.rows.iter().find(|(settled, rows)| *settled != Settled::Skipped && !rows.is_empty());
            let row = linked.and_then(|(_, rows)| rows.iter().next());
            let named = intent.rows.iter().zip(&intent.ids).find(|(other, _)| Some(*other) == row);
            self.sample = named.map(|(_, id)| id.clone());
        }
    }

    /// The number of a base, interned; addresses past the 255th different base are not kept.
    fn base(&mut self, base: &str) -> u8 {
        let known = self.bases.iter().position(|known| **known == *base);
        let at = known.unwrap_or_else(|| {
            if self.bases.len() < 255 {
                self.bases.push(base.into());
            }
            self.bases.len() - 1
        });
        u8::try_from(at).unwrap_or(255)
    }

    /// The result of a row, if it is settled. `id` is the link's.
    pub(crate) fn result(&self, row: u64, id: &str) -> Option<RowResult> {
        let (end, base) = usize::try_from(row).ok().and_then(|at| self.rows.get(at)).copied()?;
        let settled = ENDS.get(usize::from(end).checked_sub(1)?)?;
        let base = self.bases.get(usize::from(base)).filter(|base| !base.is_empty());
        let url = base.map(|base| format!("{base}{id}")).unwrap_or_default();
        Some(match settled {
            Settled::Created => RowResult::Created { url },
            Settled::Existed => RowResult::Existed { url },
            Settled::Updated => RowResult::Updated { url },
            Settled::Skipped => RowResult::Skipped,
        })
    }

    /// The id generated for a row.
    pub(crate) fn made_id(&self, row: u64) -> Option<&str> {
        let made = self.made.as_ref()?.get(usize::try_from(row).ok()?)?;
        if made[0] == 0 { None } else { std::str::from_utf8(made).ok() }
    }

    pub(crate) fn next_batch(&self) -> u64 {
        self.last_batch + 1
    }

    pub(crate) fn sample(&self) -> Option<&str> {
        self.sample.as_deref()
    }

    /// The requests that may have arrived.
    pub(crate) fn take_open(&mut self) -> Vec<Intent> {
        let mut open: Vec<Intent> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_by_key(|intent| (intent.batch, intent.attempt));
        open
    }
}
