//! Rows of CSV and TSV: the header says which column is which field.

use std::sync::Arc;

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::formula;
use deeplink_core::link::CreateLink;

use super::cells::Draft;
use super::fields::{Field, OWNER_END, fold, unknown};
use super::foreign::{Cell, Foreign, Role};
use super::input::{Input, Reader};
use super::records::{Next, Record, Records};
use super::{FileOptions, Mapping};
use crate::bulk::{Row, RowFault, SourceError, SourceRow};

/// The header of a table.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) delimiter: u8,
    pub(super) header: Arc<[String]>,
    columns: Columns,
    /// Where the first row begins.
    at: u64,
    line: u64,
}

/// What each column is: a field in our own files; in an export of another service, a role from which a field may
/// be derived.
#[derive(Debug, Clone)]
enum Columns {
    Fields(Arc<[Field]>),
    Roles(Arc<Foreign>, Arc<[Option<Role>]>),
}

impl Table {
    /// Reads the header, which begins at a byte and a line.
    pub(super) fn read(
        input: &Input,
        delimiter: u8,
        (at, line): (u64, u64),
        options: &FileOptions,
        mapping: &Mapping,
    ) -> Result<Self, SourceError> {
        let mut records = Records::new(input.from(at), delimiter, at, line);
        records.skip_mark()?;
        let mut record = Record::default();
        match records.read(&mut record)? {
            Next::Record => {}
            Next::Bad(bad) => return Err(SourceError::new(bad.message).at(bad.line, bad.column)),
            Next::End => {
                return Err(SourceError::new("the input is empty; its first line must contain the column names"));
            }
        }
        let header: Vec<String> = record.values().map(|name| name.trim().to_owned()).collect();
        let mapped = mapped(&header, options).map_err(|message| SourceError::new(message).at(record.line, None))?;
        let columns = match &mapping.foreign {
            None => {
                let fields = columns(&header, &mapped, options.ignore_unknown)
                    .map_err(|(column, message)| SourceError::new(message).at(record.line, record.column(column)))?;
                Columns::Fields(fields.into())
            }
            Some(foreign) => {
                let roles = foreign
                    .roles(&header, mapping)
                    .map_err(|message| SourceError::new(message).at(record.line, None).coded(MISSING_COLUMN))?;
                Columns::Roles(Arc::clone(foreign), roles.into())
            }
        };
        let (at, line) = records.position();
        Ok(Self { delimiter, header: header.into(), columns, at, line })
    }

    pub(super) fn rows(&self, input: &Input, mapping: &Arc<Mapping>) -> TableRows {
        TableRows {
            records: Records::new(input.from(self.at), self.delimiter, self.at, self.line),
            record: Record::default(),
            header: Arc::clone(&self.header),
            columns: self.columns.clone(),
            mapping: Arc::clone(mapping),
            cells: Vec::new(),
            last: None,
            failed: false,
        }
    }

    /// The record that begins at this byte, as in the file.
    pub(super) fn record(&self, input: Reader, at: u64, record: &mut Record) -> Result<bool, SourceError> {
        let mut records = Records::new(input, self.delimiter, at, 1);
        Ok(matches!(records.read(record)?, Next::Record))
    }
}

/// The code of a header that lacks a column.
const MISSING_COLUMN: &str = "missing_column";

/// The columns that the caller mapped, with their fields.
fn mapped(header: &[String], options: &FileOptions) -> Result<Vec<(usize, Field)>, String> {
    let mut mapped = Vec::new();
    for (column, field) in &options.map {
        let Some(at) = header.iter().position(|name| fold(name) == fold(column)) else {
            let names = header.join(", ");
            return Err(format!("no column \"{}\" to map; the columns are {names}", column.escape_debug()));
        };
        mapped.push((at, map_target(field)?));
    }
    Ok(mapped)
}

/// The field of each column; the error names the column that is at fault.
fn columns(header: &[String], mapped: &[(usize, Field)], ignore_unknown: bool) -> Result<Vec<Field>, (usize, String)> {
    let mut fields = Vec::with_capacity(header.len());
    for (at, name) in header.iter().enumerate() {
        let given = mapped.iter().find(|(mapped, _)| *mapped == at).map(|(_, field)| field.clone());
        let field = match given.or_else(|| Field::named(name, false)) {
            Some(field) => field,
            None if ignore_unknown => Field::Ignored,
            None => return Err((at, unknown("column", name))),
        };
        fields.push(field);
    }
    let is_mapped = |at| mapped.iter().any(|(mapped, _)| *mapped == at);
    ignore_short_url(header, &mut fields, is_mapped);
    ignore_other_end(header, &mut fields, is_mapped);
    for (at, field) in fields.iter().enumerate() {
        let earlier = fields[..at].iter().position(|other| same(other, field));
        if let Some(earlier) = earlier {
            let message = format!("columns \"{}\" and \"{}\" both map to {field}", header[earlier], header[at]);
            return Err((at, message));
        }
    }
    Ok(fields)
}

fn same(one: &Field, other: &Field) -> bool {
    match (one, other) {
        (Field::Ignored, _) => false,
        (Field::MetaKey(one, _), Field::MetaKey(other, _)) => one == other,
        (one, other) => one == other,
    }
}

/// The field that a mapping gives.
pub(super) fn map_target(field: &str) -> Result<Field, String> {
    if fold(field) == "ignore" {
        return Ok(Field::Ignored);
    }
    Field::named(field, false).ok_or_else(|| unknown("field", field))
}

/// `url` is the web page, but next to `web_url` or `link_id` it is the short address that an export writes.
fn ignore_short_url(header: &[String], fields: &mut [Field], is_mapped: impl Fn(usize) -> bool) {
    let Some(url) = header.iter().position(|name| fold(name) == "url") else { return };
    let has_web = fields.iter().enumerate().any(|(at, field)| at != url && *field == Field::WebUrl);
    let has_link_id = header.iter().any(|name| fold(name) == "linkid");
    if (has_web || has_link_id) && !is_mapped(url) {
        fields[url] = Field::Ignored;
    }
}

/// If the owner's expiry is present, the effective expiry is ignored.
fn ignore_other_end(header: &[String], fields: &mut [Field], is_mapped: impl Fn(usize) -> bool) {
    if header.iter().any(|name| fold(name) == OWNER_END)
        && let Some(other) = header.iter().position(|name| fold(name) == "expiresat")
        && !is_mapped(other)
    {
        fields[other] = Field::Ignored;
    }
}

/// The rows of a table.
pub(super) struct TableRows {
    records: Records,
    record: Record,
    header: Arc<[String]>,
    columns: Columns,
    mapping: Arc<Mapping>,
    /// The cells of the last row without its id, and the link they make: rows that repeat them share it.
    cells: Vec<u8>,
    last: Option<(Vec<u8>, Arc<CreateLink>)>,
    failed: bool,
}

impl TableRows {
    /// The row of a record, if it is one.
    fn row(&mut self) -> Option<SourceRow> {
        let (found, expected) = (self.record.len(), self.header.len());
        if found != expected {
            let message = format!("the line has {found} values, but the header has {expected}");
            let surplus = if found > expected { Some(expected) } else { None };
            let id = match &self.columns {
                Columns::Fields(fields) => self.id(fields),
                Columns::Roles(..) => None,
            };
            return Some(self.fault(id, surplus, Invalid::whole(ErrorCode::BadRequest, message)));
        }
        match self.columns.clone() {
            Columns::Fields(fields) => Some(self.own(&fields)),
            Columns::Roles(foreign, roles) => self.foreign(&foreign, &roles),
        }
    }

    fn fault(&self, id: Option<String>, column: Option<usize>, invalid: Invalid) -> SourceRow {
        let fault = RowFault::new(self.record.line, self.record.at, id, invalid);
        let column = column.and_then(|column| self.record.column(column));
        SourceRow::Fault(column.into_iter().fold(fault, RowFault::at_column))
    }

    fn id(&self, fields: &[Field]) -> Option<String> {
        let id = fields.iter().position(|field| *field == Field::CustomId);
        let id = id.and_then(|column| self.record.get(column)).filter(|id| !id.is_empty() && *id != r"\N");
        id.map(std::borrow::Cow::into_owned)
    }

    /// The row of a file of ours.
    fn own(&mut self, fields: &[Field]) -> SourceRow {
        let (line, at, id) = (self.record.line, self.record.at, self.id(fields));
        self.cells.clear();
        for (column, _) in fields.iter().enumerate().filter(|(_, field)| is_content(field)) {
            self.record.identify(column, &mut self.cells);
        }
        if let Some((cells, link)) = &self.last
            && *cells == self.cells
        {
            return SourceRow::Row(Row::new(line, at, id, Arc::clone(link)));
        }
        match self.link(fields) {
            Ok(link) => {
                let link = Arc::new(link);
                self.last = Some((self.cells.clone(), Arc::clone(&link)));
                SourceRow::Row(Row::new(line, at, id, link))
            }
            Err((column, invalid)) => self.fault(id, column, invalid),
        }
    }

    fn link(&self, fields: &[Field]) -> Result<CreateLink, (Option<usize>, Invalid)> {
        let mut draft = Draft::new(&self.mapping.template);
        for (column, field) in fields.iter().enumerate().filter(|(_, field)| is_content(field)) {
            let text = self.record.get(column).unwrap_or_default();
            draft.cell(field, formula::restore(&text)).map_err(|invalid| (Some(column), invalid))?;
        }
        self.mapping.finish(draft).map_err(|invalid| (None, invalid))
    }

    /// The row of another service's export.
    fn foreign(&self, foreign: &Foreign, roles: &[Option<Role>]) -> Option<SourceRow> {
        let cells = roles.iter().zip(self.header.iter()).enumerate().map(|(column, (role, name))| Cell {
            column,
            name,
            role: role.clone(),
            text: self.record.get(column).unwrap_or_default(),
            items: &[],
        });
        let (line, at) = (self.record.line, self.record.at);
        match foreign.link(&self.mapping, line, &cells.collect::<Vec<_>>()) {
            Ok(found) => {
                let found = found?;
                Some(SourceRow::Row(Row::new(line, at, found.id, Arc::new(found.link)).keyed(found.key)))
            }
            Err(refused) => Some(self.fault(refused.id, refused.column, refused.invalid)),
        }
    }
}

fn is_content(field: &Field) -> bool {
    !matches!(field, Field::CustomId | Field::Ignored)
}

impl Iterator for TableRows {
    type Item = Result<SourceRow, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        loop {
            return match self.records.read(&mut self.record) {
                Ok(Next::End) => None,
                Ok(Next::Record) => match self.row() {
                    Some(row) => Some(Ok(row)),
                    None => continue,
                },
                Ok(Next::Bad(bad)) => {
                    let invalid = Invalid::whole(ErrorCode::BadRequest, bad.message);
                    let fault = RowFault::new(bad.line, bad.at, None, invalid);
                    Some(Ok(SourceRow::Fault(bad.column.into_iter().fold(fault, RowFault::at_column))))
                }
                Err(error) => {
                    self.failed = true;
                    Some(Err(error))
                }
            };
        }
    }
}

/// The most frequent delimiter in the header, outside quotes.
pub(super) fn sniff(head: &[u8]) -> u8 {
    const CANDIDATES: [u8; 4] = [b',', b';', b'\t', b'|'];
    let (mut counts, mut quoted, mut begun) = ([0_usize; 4], false, false);
    for byte in head {
        match byte {
            b'\n' | b'\r' if begun && !quoted => break,
            b'\n' | b'\r' if !begun => continue,
            b'"' => quoted = !quoted,
            byte if !quoted => {
                if let Some(at) = CANDIDATES.iter().position(|candidate| candidate == byte) {
                    counts[at] += 1;
                }
            }
            _ => {}
        }
        begun = true;
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    counts.iter().position(|count| *count == most).map_or(b',', |at| CANDIDATES[at])
}

/// Excel's first line `sep=;`: the delimiter it names, and where the next line begins.
pub(super) fn separator_line(head: &[u8]) -> Option<(u8, u64)> {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let end = text.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
    let rest = if text[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
    let line = text[..end].strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(&text[..end]);
    let [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter @ (b',' | b';' | b'\t' | b'|')] = line else {
        return None;
    };
    Some((*delimiter, (head.len() - text.len() + rest) as u64))
}
