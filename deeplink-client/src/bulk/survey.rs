//! The first pass: every row is read and validated before anything is sent.
//!
//! Only eight bytes are kept per row, a hash of its id. If two hashes are equal, the source is read again and the ids
//! themselves are compared, so that no decision relies on a hash.

use std::collections::{HashMap, HashSet};

use deeplink_core::bulk::MAX_ROWS;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::check_custom_id;
use std::sync::Arc;

use super::source::{RowFault, RowSource, Rows, SourceError, SourceRow};
use super::template::{Prepared, Templates, derived_id, hash, keyed_id};
use super::{Batches, Report};

/// Groups of at least this many rows are sent as a template with ids.
const SMALLEST_GROUP: u64 = 10;
/// Ids compared per additional pass over the source.
const COMPARED: usize = 50_000;
/// Maximum pairs that a report names.
const KEPT_PAIRS: usize = 20;

/// The findings of the first pass that the second needs.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Rows whose id occurs earlier too, by position, sorted.
    duplicates: Vec<u64>,
    /// Rows whose first generated id was not unique, with the try that is.
    tries: HashMap<u64, u32>,
    /// Templates that many rows share, with their number.
    groups: HashMap<u64, u64>,
}

impl Survey {
    pub(crate) fn is_duplicate(&self, row: u64) -> bool {
        self.duplicates.binary_search(&row).is_ok()
    }

    pub(crate) fn first_try(&self, row: u64) -> u32 {
        self.tries.get(&row).copied().unwrap_or(0)
    }

    pub(crate) fn is_group(&self, template: &Prepared) -> bool {
        self.groups.contains_key(&template.hash())
    }
}

/// A row that was read, and whether it may be sent.
pub(crate) struct Judged {
    /// Position in the source, from 0.
    pub(crate) row: u64,
    pub(crate) line: u64,
    pub(crate) at: u64,
    /// The id it names, or the one made for it.
    pub(crate) id: Option<String>,
    pub(crate) is_made: bool,
    pub(crate) verdict: Result<Arc<Prepared>, RowFault>,
}

/// Reads a source and validates its rows, with the same results in every pass.
pub(crate) struct Judge<'a> {
    rows: Rows,
    templates: Templates,
    salt: Option<&'a str>,
    next: u64,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(source: &dyn RowSource, salt: Option<&'a str>) -> Result<Self, SourceError> {
        Ok(Self { rows: source.rows()?, templates: Templates::new(), salt, next: 0 })
    }

    fn judge(&mut self, row: SourceRow) -> Judged {
        let number = self.next;
        self.next += 1;
        let row = match row {
            SourceRow::Fault(fault) => {
                let (line, at, id) = (fault.line, fault.at, fault.id.clone());
                return Judged { row: number, line, at, id, is_made: false, verdict: Err(fault) };
            }
            SourceRow::Row(row) => row,
        };
        let own = match &row.id {
            Some(id) => check_custom_id(id),
            None if self.salt.is_some() => Ok(()),
            None => Err(Invalid::field(ErrorCode::InvalidCustomId, "custom_id", "the row has no ID")),
        };
        let verdict = own.and_then(|()| self.templates.prepare(&row.template));
        let made = match (&row.id, &verdict, self.salt) {
            (None, Ok(template), Some(salt)) => Some(match &row.key {
                Some(key) => keyed_id(salt, key),
                None => derived_id(salt, template, number, 0),
            }),
            _ => None,
        };
        // An ID derived from a key counts as given in the row: if it is taken, no other is tried.
        let is_made = made.is_some() && row.key.is_none();
        let verdict = verdict.map_err(|invalid| RowFault::new(row.line, row.at, row.id.clone(), invalid));
        Judged { row: number, line: row.line, at: row.at, id: row.id.or(made), is_made, verdict }
    }
}

impl Iterator for Judge<'_> {
    type Item = Result<Judged, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some(row.map(|row| self.judge(row)))
    }
}

/// Hash of an id regardless of case: equal for equal ids, and for ids that differ only in case.
fn folded(id: &str) -> u64 {
    let mut bytes = [0_u8; 64];
    let length = id.len().min(64);
    bytes[..length].copy_from_slice(&id.as_bytes()[..length]);
    bytes[..length].make_ascii_lowercase();
    hash(&bytes[..length])
}

/// The first pass.
pub(crate) fn survey(
    source: &dyn RowSource,
    salt: Option<&str>,
    kept_faults: usize,
) -> Result<(Report, Survey), SourceError> {
    let mut faults = Faults { most: kept_faults, ..Faults::default() };
    let (mut ids, mut groups) = (Vec::new(), GroupCount::default());
    let mut judge = Judge::new(source, salt)?;
    let mut rows = 0_u64;
    while let Some(judged) = judge.next().transpose()? {
        rows += 1;
        if let Some(id) = &judged.id {
            ids.push(folded(id));
        }
        match judged.verdict {
            Ok(template) => groups.add(template.hash()),
            Err(fault) => faults.add(fault),
        }
    }
    drop(judge);
    ids.sort_unstable();
    let suspects = repeated(&ids);
    let mut survey = Survey::default();
    let mut case_pairs = Vec::new();
    for suspects in suspects.chunks(COMPARED) {
        let mut again = Comparison { ids: &ids, salt, survey: &mut survey, faults: &mut faults, groups: &mut groups };
        again.read(source, suspects, &mut case_pairs)?;
        faults.end_of_reading();
    }
    survey.duplicates.sort_unstable();
    let plan;
    (survey.groups, plan) = groups.finish(rows - faults.count);
    Ok((Report { rows, invalid: faults.count, faults: faults.finish(), case_pairs, plan }, survey))
}

/// The first faults in line order, and how many there are.
#[derive(Default)]
struct Faults {
    most: usize,
    count: u64,
    /// Rows that break a rule by themselves.
    own: Vec<RowFault>,
    /// Rows whose id occurs earlier: those of earlier passes, then those of the current one.
    duplicates: Vec<RowFault>,
    read_before: usize,
}

impl Faults {
    fn add(&mut self, fault: RowFault) {
        self.count += 1;
        if self.own.len() < self.most {
            self.own.push(fault);
        }
    }

    fn add_duplicate(&mut self, fault: RowFault) {
        self.count += 1;
        if self.duplicates.len() - self.read_before < self.most {
            self.duplicates.push(fault);
        }
    }

    fn end_of_reading(&mut self) {
        self.duplicates.sort_by_key(|fault| fault.line);
        self.duplicates.truncate(self.most);
        self.read_before = self.duplicates.len();
    }

    fn finish(mut self) -> Vec<RowFault> {
        self.own.append(&mut self.duplicates);
        self.own.sort_by_key(|fault| fault.line);
        self.own.truncate(self.most);
        self.own
    }
}

/// How many rows share each template: runs of one template cost nothing, single rows eight bytes.
#[derive(Default)]
struct GroupCount {
    large: HashMap<u64, u64>,
    single: Vec<u64>,
    run: (u64, u64),
    /// Rows that were counted and turned out to be duplicates.
    removed: HashMap<u64, u64>,
}

impl GroupCount {
    fn add(&mut self, template: u64) {
        if self.run.0 == template {
            self.run.1 += 1;
        } else {
            self.end_run();
            self.run = (template, 1);
        }
    }

    fn end_run(&mut self) {
        let (template, rows) = self.run;
        match self.large.get_mut(&template) {
            Some(count) => *count += rows,
            None if rows >= SMALLEST_GROUP => drop(self.large.insert(template, rows)),
            None => self.single.extend((0..rows).map(|_| template)),
        }
    }

    fn finish(mut self, valid: u64) -> (HashMap<u64, u64>, Batches) {
        self.end_run();
        self.single.sort_unstable();
        for same in self.single.chunk_by(|one, other| one == other) {
            let rows = u64::try_from(same.len()).unwrap_or(u64::MAX);
            match self.large.get_mut(&same[0]) {
                Some(count) => *count += rows,
                None if rows >= SMALLEST_GROUP => drop(self.large.insert(same[0], rows)),
                None => {}
            }
        }
        for (template, rows) in self.removed {
            self.large.entry(template).and_modify(|count| *count -= rows);
        }
        let requests = |rows: u64| rows.div_ceil(MAX_ROWS as u64);
        let template_rows = self.large.values().sum::<u64>();
        let plan = Batches {
            groups: self.large.len() as u64,
            template_rows,
            template_requests: self.large.values().map(|rows| requests(*rows)).sum(),
            other_rows: valid - template_rows,
            other_requests: requests(valid - template_rows),
        };
        (self.large, plan)
    }
}

/// Values that occur more than once in a sorted list.
fn repeated(sorted: &[u64]) -> Vec<u64> {
    let mut repeated: Vec<u64> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    repeated.dedup();
    repeated
}

/// An additional pass over the source, in which ids with equal hashes are compared.
struct Comparison<'a> {
    ids: &'a [u64],
    salt: Option<&'a str>,
    survey: &'a mut Survey,
    faults: &'a mut Faults,
    groups: &'a mut GroupCount,
}

/// The row that currently holds an id.
struct Holder {
    id: String,
    row: u64,
    line: u64,
    made: Option<Arc<Prepared>>,
}

impl Comparison<'_> {
    fn read(
        &mut self,
        source: &dyn RowSource,
        suspects: &[u64],
        case_pairs: &mut Vec<(u64, u64, String)>,
    ) -> Result<(), SourceError> {
        // Per id regardless of case: who holds each of its spellings.
        let mut holders: HashMap<String, Vec<Holder>> = HashMap::new();
        for judged in Judge::new(source, self.salt)? {
            let judged = judged?;
            let Some(id) = judged.id.as_deref() else { continue };
            if suspects.binary_search(&folded(id)).is_err() {
                continue;
            }
            let spellings = holders.entry(id.to_ascii_lowercase()).or_default();
            match spellings.iter_mut().find(|holder| holder.id == id) {
                Some(holder) => self.same_id(judged, holder, source),
                None => {
                    if let Some(other) = spellings.first()
                        && case_pairs.len() < KEPT_PAIRS
                    {
                        case_pairs.push((other.line, judged.line, id.to_owned()));
                    }
                    let made = judged.verdict.ok().filter(|_| judged.is_made);
                    let (id, row, line) = (judged.id.unwrap_or_default(), judged.row, judged.line);
                    spellings.push(Holder { id, row, line, made });
                }
            }
        }
        Ok(())
    }

    fn same_id(&mut self, judged: Judged, holder: &mut Holder, source: &dyn RowSource) {
        if judged.is_made {
            if let Ok(template) = &judged.verdict {
                self.try_next(judged.row, template);
            }
        } else if let Some(template) = holder.made.take() {
            // An id in the source takes precedence over a generated one.
            self.try_next(holder.row, &template);
            (holder.row, holder.line) = (judged.row, judged.line);
        } else if let Ok(template) = &judged.verdict {
            let invalid = duplicate(format!("also {}", source.reference(holder.line)));
            self.survey.duplicates.push(judged.row);
            self.faults.add_duplicate(RowFault::new(judged.line, judged.at, judged.id, invalid));
            *self.groups.removed.entry(template.hash()).or_default() += 1;
        }
    }

    /// Finds the first try whose id no other row has.
    fn try_next(&mut self, row: u64, template: &Prepared) {
        let salt = self.salt.unwrap_or_default();
        let is_free = |attempt: &u32| {
            let id = derived_id(salt, template, row, *attempt);
            self.ids.binary_search(&folded(&id)).is_err()
        };
        if let Some(attempt) = (1..u32::MAX).find(is_free) {
            self.survey.tries.insert(row, attempt);
        }
    }
}

/// The fault of a row whose id occurs earlier.
pub(crate) fn duplicate(message: impl Into<String>) -> Invalid {
    Invalid::field(ErrorCode::DuplicateCustomIdInBatch, "custom_id", message)
}

/// Every fault of a source in line order.
pub(crate) fn each_fault(
    source: &dyn RowSource,
    salt: Option<&str>,
    survey: &Survey,
    each: &mut dyn FnMut(&RowFault),
) -> Result<(), SourceError> {
    // First lines of duplicate ids, collected during the pass: they always come before their repeats.
    let mut repeats: HashSet<u64> = HashSet::new();
    for judged in Judge::new(source, salt)? {
        let judged = judged?;
        if survey.is_duplicate(judged.row)
            && let Some(id) = &judged.id
        {
            repeats.insert(hash(id.as_bytes()));
        }
    }
    let mut first: HashMap<String, u64> = HashMap::new();
    for judged in Judge::new(source, salt)? {
        let judged = judged?;
        let suspect = judged.id.as_ref().filter(|id| repeats.contains(&hash(id.as_bytes())));
        let earlier = suspect.and_then(|id| match first.get(id) {
            Some(line) => Some(*line),
            None => {
                first.insert(id.clone(), judged.line);
                None
            }
        });
        match judged.verdict {
            Err(fault) => each(&fault),
            Ok(_) if survey.is_duplicate(judged.row) => {
                let invalid = duplicate(format!("also {}", source.reference(earlier.unwrap_or_default())));
                each(&RowFault::new(judged.line, judged.at, judged.id, invalid));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}
