//! The first pass: every row is read and validated before anything is sent.
//!
//! Only eight bytes are kept per name, a hash of an id or an alias. If two hashes are equal, the source is read again and
//! the names themselves are compared, so that no decision relies on a hash.

use std::collections::{HashMap, HashSet};

use deeplink_core::bulk::MAX_ROWS;
use std::sync::Arc;

use super::judge::{Judge, Judged, Name};
use super::source::{RowFault, RowSource, SourceError};
use super::template::{Prepared, derived_id, hash};
use super::{Batches, Report};

/// Groups of at least this many rows are sent as a template with ids.
const SMALLEST_GROUP: u64 = 10;
/// Names compared per additional pass over the source.
const COMPARED: usize = 50_000;
/// Maximum pairs that a report names.
const KEPT_PAIRS: usize = 20;

/// The findings of the first pass that the second needs.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Rows with a name that occurs earlier too, by position, sorted, and the name.
    duplicates: Vec<(u64, Name)>,
    /// Rows whose first generated id was not unique, with the try that is.
    tries: HashMap<u64, u32>,
    /// Templates that many rows share, with their number.
    groups: HashMap<u64, u64>,
}

impl Survey {
    /// The name of a row that occurs earlier too.
    pub(crate) fn duplicate(&self, row: u64) -> Option<Name> {
        name_of(&self.duplicates, row)
    }

    pub(crate) fn first_try(&self, row: u64) -> u32 {
        self.tries.get(&row).copied().unwrap_or(0)
    }

    pub(crate) fn is_group(&self, template: &Prepared) -> bool {
        self.groups.contains_key(&template.hash())
    }
}

/// The name of a row in a sorted list.
fn name_of(duplicates: &[(u64, Name)], row: u64) -> Option<Name> {
    duplicates.binary_search_by_key(&row, |(row, _)| *row).ok().map(|at| duplicates[at].1)
}

/// Hash of a name regardless of case: equal for equal names, and for names that differ only in case.
fn folded(name: &str) -> u64 {
    let mut bytes = [0_u8; 64];
    let Some(bytes) = bytes.get_mut(..name.len()) else {
        return hash(name.to_ascii_lowercase().as_bytes());
    };
    bytes.copy_from_slice(name.as_bytes());
    bytes.make_ascii_lowercase();
    hash(bytes)
}

/// The first pass.
pub(crate) fn survey(
    source: &dyn RowSource,
    salt: Option<&str>,
    kept_faults: usize,
) -> Result<(Report, Survey), SourceError> {
    let mut faults = Faults { most: kept_faults, ..Faults::default() };
    let (mut names, mut groups) = (Vec::new(), GroupCount::default());
    let mut judge = Judge::new(source, salt)?;
    let mut rows = 0_u64;
    while let Some(judged) = judge.next().transpose()? {
        rows += 1;
        names.extend(judged.names().map(|(_, name)| folded(&name)));
        match judged.verdict {
            // A template cannot have aliases.
            Ok(template) if template.has_aliases() => {}
            Ok(template) => groups.add(template.hash()),
            Err(fault) => faults.add(fault),
        }
    }
    drop(judge);
    names.sort_unstable();
    let suspects = repeated(&names);
    let mut survey = Survey::default();
    let mut case_pairs = Vec::new();
    for suspects in suspects.chunks(COMPARED) {
        let known = survey.duplicates.len();
        let mut again =
            Comparison { names: &names, salt, known, survey: &mut survey, faults: &mut faults, groups: &mut groups };
        again.read(source, suspects, &mut case_pairs)?;
        faults.end_of_reading();
        survey.duplicates.sort_unstable_by_key(|(row, _)| *row);
    }
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
    /// Rows with a name that occurs earlier: those of earlier passes, then those of the current one.
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

/// An additional pass over the source, in which names with equal hashes are compared.
struct Comparison<'a> {
    names: &'a [u64],
    salt: Option<&'a str>,
    /// The number of duplicates that earlier passes found.
    known: usize,
    survey: &'a mut Survey,
    faults: &'a mut Faults,
    groups: &'a mut GroupCount,
}

/// The row that currently holds a name.
struct Holder {
    text: String,
    name: Name,
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
        // Per name regardless of case: who holds each of its spellings.
        let mut holders: HashMap<String, Vec<Holder>> = HashMap::new();
        for judged in Judge::new(source, self.salt)? {
            let judged = judged?;
            for (name, text) in judged.names() {
                if suspects.binary_search(&folded(&text)).is_err() {
                    continue;
                }
                let spellings = holders.entry(text.to_ascii_lowercase()).or_default();
                if let Some(holder) = spellings.iter_mut().find(|holder| holder.text == text) {
                    self.same_name(&judged, name, holder, source);
                    continue;
                }
                if let Some(other) = spellings.iter().find(|holder| holder.name == Name::Id)
                    && name == Name::Id
                    && case_pairs.len() < KEPT_PAIRS
                {
                    case_pairs.push((other.line, judged.line, text.to_string()));
                }
                let made = judged.verdict.as_ref().ok().filter(|_| judged.has_made(name)).cloned();
                spellings.push(Holder { text: text.into_owned(), name, row: judged.row, line: judged.line, made });
            }
        }
        Ok(())
    }

    fn same_name(&mut self, judged: &Judged, name: Name, holder: &mut Holder, source: &dyn RowSource) {
        if judged.has_made(name) {
            if let Ok(template) = &judged.verdict {
                self.try_next(judged.row, template);
            }
        } else if let Some(template) = holder.made.take() {
            // A name in the source takes precedence over a generated one.
            self.try_next(holder.row, &template);
            (holder.name, holder.row, holder.line) = (name, judged.row, judged.line);
        } else if let Ok(template) = &judged.verdict
            && !self.is_duplicate(judged.row)
        {
            let invalid = name.refuse_after(&holder.text, holder.name, &source.reference(holder.line));
            self.survey.duplicates.push((judged.row, name));
            self.faults.add_duplicate(judged.fault(invalid));
            *self.groups.removed.entry(template.hash()).or_default() += 1;
        }
    }

    /// Whether a row is known to have a name that occurs earlier: since an earlier pass, or by another of its names.
    fn is_duplicate(&self, row: u64) -> bool {
        let (known, new) = self.survey.duplicates.split_at(self.known);
        new.last().is_some_and(|(last, _)| *last == row) || name_of(known, row).is_some()
    }

    /// Finds the first try whose id is no name of another row.
    fn try_next(&mut self, row: u64, template: &Prepared) {
        let salt = self.salt.unwrap_or_default();
        let is_free = |attempt: &u32| {
            let id = derived_id(salt, template, row, *attempt);
            self.names.binary_search(&folded(&id)).is_err()
        };
        if let Some(attempt) = (1..u32::MAX).find(is_free) {
            self.survey.tries.insert(row, attempt);
        }
    }
}

/// Every fault of a source in line order.
pub(crate) fn each_fault(
    source: &dyn RowSource,
    salt: Option<&str>,
    survey: &Survey,
    each: &mut dyn FnMut(&RowFault),
) -> Result<(), SourceError> {
    // First lines of duplicate names, collected during the pass: they always come before their repeats.
    let mut repeats: HashSet<u64> = HashSet::new();
    for judged in Judge::new(source, salt)? {
        let judged = judged?;
        if let Some(name) = survey.duplicate(judged.row) {
            repeats.extend(judged.names().filter(|(own, _)| *own == name).map(|(_, text)| hash(text.as_bytes())));
        }
    }
    let mut first: HashMap<String, (Name, u64)> = HashMap::new();
    for judged in Judge::new(source, salt)? {
        let judged = judged?;
        let duplicate = survey.duplicate(judged.row);
        let mut invalid = None;
        for (name, text) in judged.names().filter(|(name, _)| !judged.has_made(*name)) {
            if !repeats.contains(&hash(text.as_bytes())) {
                continue;
            }
            match first.get(&*text) {
                Some((earlier, line)) if duplicate == Some(name) => {
                    invalid = Some(name.refuse_after(&text, *earlier, &source.reference(*line)));
                }
                Some(_) => {}
                None => drop(first.insert(text.into_owned(), (name, judged.line))),
            }
        }
        match (&judged.verdict, invalid) {
            (Err(fault), _) => each(fault),
            (Ok(_), Some(invalid)) => each(&judged.fault(invalid)),
            (Ok(_), None) => {}
        }
    }
    Ok(())
}
