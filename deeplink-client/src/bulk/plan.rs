//! The second pass: rows into batches. Each row is in one batch; rows that an earlier process settled are in none, and
//! rows of a request that may have arrived are put into the same request again.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deeplink_core::bulk::MAX_ROWS;
use tokio::sync::mpsc;

use super::batch::{Batch, BatchRow, hex_digest};
use super::journal::{Form, Intent};
use super::judge::{Judge, Judged, Name};
use super::outcome::{RowOutcome, RowResult};
use super::past::Past;
use super::source::{RowFault, RowSource, SourceError};
use super::survey::Survey;
use super::template::{Prepared, derived_id};
use crate::clock;

/// Maximum bytes in batches that are not full yet.
const OPEN_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of one request: below the service's limit of 1 MiB.
const REQUEST_BYTES: usize = 1_000_000;
/// Outcomes per message.
const CHUNK: usize = 256;
/// How long the service remembers a key, with an hour to spare.
const KEY_AGE_MILLIS: i64 = 23 * 3_600_000;

/// The output of the second pass.
pub(crate) enum Planned {
    Batch(Batch),
    /// Rows that need no request: settled before, or invalid and left out.
    Settled(Vec<RowOutcome>),
    Failed(SourceError),
}

/// The second pass.
pub(crate) struct Planner {
    pub(crate) source: Arc<dyn RowSource>,
    pub(crate) salt: Option<String>,
    pub(crate) survey: Survey,
    pub(crate) past: Past,
    pub(crate) rows: u64,
    /// Batch numbers, assigned here and where batches are split.
    pub(crate) numbers: Arc<AtomicU64>,
}

/// The receiver was dropped: the run has ended.
struct Gone;

impl Planner {
    /// Reads all rows and sends batches until the receiver is dropped. Blocks while the channel is full.
    pub(crate) fn run(mut self, out: &mpsc::Sender<Planned>) {
        let open = self.past.take_open();
        let mut batches = OpenBatches::new(Arc::clone(&self.numbers), open, self.salt.clone().unwrap_or_default(), out);
        let fault = match self.fill(&mut batches) {
            Ok(Some(fault)) => fault,
            Ok(None) | Err(Gone) => return,
        };
        let _ = out.blocking_send(Planned::Failed(fault));
    }

    fn fill(&self, batches: &mut OpenBatches<'_>) -> Result<Option<SourceError>, Gone> {
        let judge = match Judge::new(&*self.source, self.salt.as_deref()) {
            Ok(judge) => judge,
            Err(fault) => return Ok(Some(fault)),
        };
        let mut read = 0;
        for judged in judge {
            match judged {
                Ok(judged) => self.dispatch(judged, batches)?,
                Err(fault) => return Ok(Some(fault)),
            }
            read += 1;
            if batches.out.is_closed() {
                return Err(Gone);
            }
        }
        if read != self.rows {
            let message = format!("the input has changed: it had {} rows and now has {read}", self.rows);
            return Ok(Some(SourceError::new(message)));
        }
        batches.flush().map(|()| None)
    }

    fn dispatch(&self, judged: Judged, batches: &mut OpenBatches<'_>) -> Result<(), Gone> {
        let Judged { row, line, at, id, is_made, verdict, .. } = judged;
        let made = if is_made { self.past.made_id(row) } else { None };
        let named = made.or(id.as_deref()).unwrap_or_default();
        if let Some(result) = self.past.result(row, named) {
            let id = Some(named.to_owned());
            return batches.settled(RowOutcome { line, at, id, batch: 0, result });
        }
        let verdict = match (verdict, self.survey.duplicate(row)) {
            (Ok(_), Some(name)) => {
                // The report named the first row; the run only leaves this one out.
                let what = match name {
                    Name::Id => "duplicate ID: an earlier row has it",
                    Name::Alias(_) => "duplicate alias: an earlier row has it",
                };
                Err(RowFault::new(line, at, id.clone(), name.refuse(what)))
            }
            (verdict, _) => verdict,
        };
        let template = match verdict {
            Ok(template) => template,
            Err(fault) => {
                let result = RowResult::Rejected { code: fault.code.clone(), message: fault.to_string() };
                return batches.settled(RowOutcome { line, at, id, batch: 0, result });
            }
        };
        let first_try = self.survey.first_try(row);
        let id = match (&self.salt, is_made, id) {
            (Some(salt), true, _) if first_try > 0 => derived_id(salt, &template, row, first_try),
            (.., id) => id.unwrap_or_default(),
        };
        let is_group = self.survey.is_group(&template);
        batches.put(BatchRow { row, line, at, id, made: is_made.then_some(first_try), template }, is_group)
    }
}

/// Batches that are being filled.
struct OpenBatches<'a> {
    out: &'a mpsc::Sender<Planned>,
    salt: String,
    numbers: Arc<AtomicU64>,
    groups: HashMap<Arc<Prepared>, Vec<BatchRow>>,
    others: Vec<BatchRow>,
    other_bytes: usize,
    /// Bytes held by `groups`.
    bytes: usize,
    settled: Vec<RowOutcome>,
    /// Requests that may have arrived, and the rows of each found so far.
    open: Vec<(Intent, Vec<Option<BatchRow>>)>,
    /// Row to request and index in it.
    expected: HashMap<u64, (usize, usize)>,
}

fn weight(row: &BatchRow) -> usize {
    row.id.len() + std::mem::size_of::<BatchRow>()
}

impl<'a> OpenBatches<'a> {
    fn new(numbers: Arc<AtomicU64>, open: Vec<Intent>, salt: String, out: &'a mpsc::Sender<Planned>) -> Self {
        let mut expected = HashMap::new();
        for (at, intent) in open.iter().enumerate() {
            expected.extend(intent.rows.iter().enumerate().map(|(index, row)| (row, (at, index))));
        }
        let empty = |intent: Intent| {
            let rows = vec![None; intent.ids.len()];
            (intent, rows)
        };
        Self {
            out,
            salt,
            numbers,
            groups: HashMap::new(),
            others: Vec::new(),
            other_bytes: 0,
            bytes: 0,
            settled: Vec::new(),
            open: open.into_iter().map(empty).collect(),
            expected,
        }
    }

    fn settled(&mut self, outcome: RowOutcome) -> Result<(), Gone> {
        self.settled.push(outcome);
        if self.settled.len() < CHUNK { Ok(()) } else { self.send_settled() }
    }

    fn send_settled(&mut self) -> Result<(), Gone> {
        let settled = std::mem::take(&mut self.settled);
        if settled.is_empty() { Ok(()) } else { self.send(Planned::Settled(settled)) }
    }

    fn send(&self, planned: Planned) -> Result<(), Gone> {
        self.out.blocking_send(planned).map_err(|_| Gone)
    }

    fn give(&mut self, form: Form, rows: Vec<BatchRow>) -> Result<(), Gone> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.send(Planned::Batch(Batch::new(number, form, rows)))
    }

    fn put(&mut self, row: BatchRow, is_group: bool) -> Result<(), Gone> {
        if let Some((request, index)) = self.expected.remove(&row.row) {
            return self.rejoin(row, request, index);
        }
        if is_group { self.put_group(row) } else { self.put_other(row) }
    }

    fn put_group(&mut self, mut row: BatchRow) -> Result<(), Gone> {
        let rows = match self.groups.entry(Arc::clone(&row.template)) {
            MapEntry::Occupied(group) => {
                // One allocation for all rows of the group.
                row.template = Arc::clone(group.key());
                group.into_mut()
            }
            MapEntry::Vacant(group) => {
                self.bytes += row.template.json().len();
                group.insert(Vec::new())
            }
        };
        self.bytes += weight(&row);
        let template = Arc::clone(&row.template);
        rows.push(row);
        if rows.len() >= MAX_ROWS {
            return self.give_group(&template);
        }
        if self.bytes > OPEN_BYTES { self.give_largest() } else { Ok(()) }
    }

    fn give_group(&mut self, template: &Arc<Prepared>) -> Result<(), Gone> {
        let Some(rows) = self.groups.remove(template) else { return Ok(()) };
        self.bytes -= template.json().len() + rows.iter().map(weight).sum::<usize>();
        self.give(Form::Template, rows)
    }

    fn give_largest(&mut self) -> Result<(), Gone> {
        let size = |(template, rows): &(&Arc<Prepared>, &Vec<BatchRow>)| {
            template.json().len() + rows.iter().map(weight).sum::<usize>()
        };
        let largest = self.groups.iter().max_by_key(size).map(|(template, _)| Arc::clone(template));
        largest.map_or(Ok(()), |template| self.give_group(&template))
    }

    fn put_other(&mut self, row: BatchRow) -> Result<(), Gone> {
        let bytes = row.template.json().len() + row.id.len() + 24;
        if self.other_bytes + bytes > REQUEST_BYTES {
            self.give_others()?;
        }
        self.other_bytes += bytes;
        self.others.push(row);
        if self.others.len() >= MAX_ROWS { self.give_others() } else { Ok(()) }
    }

    fn give_others(&mut self) -> Result<(), Gone> {
        self.other_bytes = 0;
        let rows = std::mem::take(&mut self.others);
        if rows.is_empty() { Ok(()) } else { self.give(Form::Links, rows) }
    }

    /// Adds a row to the request that an earlier process was about to send.
    fn rejoin(&mut self, row: BatchRow, request: usize, index: usize) -> Result<(), Gone> {
        let (intent, rows) = &mut self.open[request];
        if let Some(slot) = rows.get_mut(index) {
            let id = intent.ids[index].clone();
            // A generated id may be that of a later try.
            let is_try = |attempt: &u32| derived_id(&self.salt, &row.template, row.row, *attempt) == id;
            let made = row.made.map(|first| (first..first + 64).find(is_try).unwrap_or(first));
            *slot = Some(BatchRow { id, made, ..row });
        }
        if rows.iter().any(Option::is_none) {
            return Ok(());
        }
        let rows: Vec<BatchRow> = std::mem::take(rows).into_iter().flatten().collect();
        let mut batch = Batch::new(intent.batch, intent.form, rows);
        batch.attempt = intent.attempt;
        batch.maybe_ours = true;
        let age = clock::now().as_millis().saturating_sub(intent.at.as_millis());
        if (0..KEY_AGE_MILLIS).contains(&age) && hex_digest(&batch.body()) == intent.body {
            batch.key = Some(intent.key.clone());
        } else {
            batch.attempt += 1;
        }
        self.send(Planned::Batch(batch))
    }

    fn flush(&mut self) -> Result<(), Gone> {
        let left: Vec<Arc<Prepared>> = self.groups.keys().cloned().collect();
        for template in left {
            self.give_group(&template)?;
        }
        self.give_others()?;
        // Requests with missing rows cannot be repeated: the rows found are sent as a new batch.
        for (intent, rows) in std::mem::take(&mut self.open) {
            let rows: Vec<BatchRow> = rows.into_iter().flatten().collect();
            if !rows.is_empty() {
                let mut batch = Batch::new(intent.batch, intent.form, rows);
                (batch.attempt, batch.maybe_ours) = (intent.attempt + 1, true);
                self.send(Planned::Batch(batch))?;
            }
        }
        self.send_settled()
    }
}
