//! CSV and TSV records (RFC 4180), with the physical line and the byte on which each begins.
//!
//! One pass over the bytes finds the fields; a value is copied only if quotes inside it must be unescaped. A record
//! that cannot be read is one fault, and reading continues after it.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

use super::input::Reader;
use crate::bulk::SourceError;

/// Largest record.
pub(super) const MAX_RECORD: usize = 1 << 20;
const READ: usize = 64 * 1024;

/// Reads records sequentially.
pub(super) struct Records {
    input: Reader,
    delimiter: u8,
    buffer: Vec<u8>,
    /// Where the current record begins in the buffer, and how far the buffer is filled.
    start: usize,
    end: usize,
    ended: bool,
    /// Byte of the file and physical line of `start`.
    at: u64,
    line: u64,
}

/// One record, valid until the next is read.
#[derive(Debug, Default, Clone)]
pub(super) struct Record {
    /// The record's bytes, as in the file.
    raw: String,
    fields: Vec<Field>,
    pub(super) line: u64,
    pub(super) at: u64,
}

#[derive(Debug, Clone)]
struct Field {
    /// Without the outer quotes.
    range: Range<usize>,
    /// Holds doubled quotes.
    doubled: bool,
}

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadRecord {
    pub(super) line: u64,
    pub(super) at: u64,
    pub(super) column: Option<u64>,
    pub(super) message: String,
}

/// The result of a read.
pub(super) enum Next {
    Record,
    Bad(BadRecord),
    End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote inside quotes: the end of the value, or the first half of a doubled quote.
    Closed,
}

impl Record {
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// A value.
    pub(super) fn get(&self, at: usize) -> Option<Cow<'_, str>> {
        let field = self.fields.get(at)?;
        let text = &self.raw[field.range.clone()];
        Some(if field.doubled { Cow::Owned(text.replace("\"\"", "\"")) } else { Cow::Borrowed(text) })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = Cow<'_, str>> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Appends what identifies a value: equal exactly for equal values of equal quoting.
    pub(super) fn identify(&self, at: usize, out: &mut Vec<u8>) {
        let Some(field) = self.fields.get(at) else { return };
        let length = u32::try_from(field.range.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&(length << 1 | u32::from(field.doubled)).to_le_bytes());
        out.extend_from_slice(&self.raw.as_bytes()[field.range.clone()]);
    }

    /// The column on which a value begins, counted in characters from 1; `None` if it is on a later line.
    pub(super) fn column(&self, at: usize) -> Option<u64> {
        let before = &self.raw[..self.fields.get(at)?.range.start];
        let quoted = before.ends_with('"');
        if before.contains(['\n', '\r']) { None } else { Some(before.chars().count() as u64 + u64::from(!quoted)) }
    }
}

impl Records {
    /// Reads from this byte, which is the beginning of `line`.
    pub(super) fn new(input: Reader, delimiter: u8, at: u64, line: u64) -> Self {
        Self { input, delimiter, buffer: Vec::new(), start: 0, end: 0, ended: false, at, line }
    }

    /// Skips the byte order mark that some programs put before UTF-8.
    pub(super) fn skip_mark(&mut self) -> io::Result<()> {
        const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
        for (offset, expected) in MARK.iter().enumerate() {
            if self.byte(offset)? != Some(*expected) {
                return Ok(());
            }
        }
        self.start += MARK.len();
        self.at += MARK.len() as u64;
        Ok(())
    }

    /// Byte and line on which the next record begins.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.at, self.line)
    }

    /// Reads the next record that is not an empty line.
    pub(super) fn read(&mut self, record: &mut Record) -> Result<Next, SourceError> {
        loop {
            match self.read_any(record)? {
                Next::Record if record.raw.is_empty() => {}
                next => return Ok(next),
            }
        }
    }

    /// The byte at an offset from `start`, reading more when needed; `None` at the end of the file.
    fn byte(&mut self, offset: usize) -> io::Result<Option<u8>> {
        while self.start + offset >= self.end {
            if self.ended {
                return Ok(None);
            }
            self.refill()?;
        }
        Ok(Some(self.buffer[self.start + offset]))
    }

    fn refill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < self.end + READ {
            self.buffer.resize(self.end + READ, 0);
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(read) => self.end += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn read_any(&mut self, record: &mut Record) -> Result<Next, SourceError> {
        record.fields.clear();
        (record.line, record.at) = (self.line, self.at);
        let mut state = State::FieldStart;
        let mut field = Field { range: 0..0, doubled: false };
        let (mut offset, mut lines, mut fault) = (0, 0, None);
        // The column of the quote that is open, for a message if it never closes.
        let mut opened = 0;
        let mut skipped = 0_u64;
        let terminator = loop {
            // A record that is too long is read to its end, but not kept.
            if offset > MAX_RECORD {
                fault.get_or_insert((None, format!("the record is longer than 1 MiB{}", open_quote(state, opened))));
                self.start += offset;
                skipped += offset as u64;
                offset = 0;
                record.fields.clear();
            }
            let Some(byte) = self.byte(offset)? else { break 0 };
            if state == State::FieldStart {
                field = Field { range: offset..offset, doubled: false };
                if byte == b'"' {
                    (state, opened) = (State::Quoted, offset);
                    field.range = offset + 1..offset + 1;
                    offset += 1;
                    continue;
                }
                state = State::Plain;
            }
            match (state, byte) {
                (State::Quoted, b'"') => state = State::Closed,
                (State::Quoted, b'\n') => lines += 1,
                (State::Quoted, b'\r') if self.byte(offset + 1)? != Some(b'\n') => lines += 1,
                (State::Quoted, _) => {}
                (State::Closed, b'"') => {
                    field.doubled = true;
                    state = State::Quoted;
                }
                (_, b'\n') => break 1,
                (_, b'\r') => break if self.byte(offset + 1)? == Some(b'\n') { 2 } else { 1 },
                (_, byte) if byte == self.delimiter => {
                    field.range.end = offset - usize::from(state == State::Closed);
                    record.fields.push(field.clone());
                    state = State::FieldStart;
                    // A delimiter at the very end is followed by one more empty value.
                    field = Field { range: offset + 1..offset + 1, doubled: false };
                }
                (State::Closed, _) => {
                    let why = "there is text after the closing quote; to include a quote in a quoted value, write \"\"";
                    fault.get_or_insert((Some(offset), why.to_owned()));
                    state = State::Plain;
                }
                _ => {}
            }
            offset += 1;
        };
        if self.ended && offset == 0 && skipped == 0 && terminator == 0 && record.fields.is_empty() {
            return Ok(Next::End);
        }
        if state == State::Quoted {
            fault.get_or_insert((Some(opened), "the quote is never closed".to_owned()));
        }
        field.range.end = offset - usize::from(state == State::Closed && offset > 0);
        record.fields.push(field);
        let bad = self.finish(record, offset, fault)?;
        self.start += offset + terminator;
        self.at += skipped + (offset + terminator) as u64;
        self.line += lines + u64::from(terminator > 0);
        Ok(bad.map_or(Next::Record, Next::Bad))
    }

    /// Checks the text of a record that lies between `start` and `offset`.
    fn finish(
        &self,
        record: &mut Record,
        offset: usize,
        fault: Option<(Option<usize>, String)>,
    ) -> Result<Option<BadRecord>, SourceError> {
        let bytes = &self.buffer[self.start..self.start + offset];
        record.raw.clear();
        let position_of = |at: usize| position_in(&bytes[..at.min(bytes.len())], record.line);
        if let Some((at, message)) = fault {
            let (line, column) = at.map_or((record.line, None), |at| {
                let (line, column) = position_of(at);
                (line, Some(column))
            });
            let is_later = line != record.line;
            let message =
                if is_later { format!("{message} (line {line}, column {})", column.unwrap_or(1)) } else { message };
            return Ok(Some(BadRecord {
                line: record.line,
                at: record.at,
                column: column.filter(|_| !is_later),
                message,
            }));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                record.raw.push_str(text);
                Ok(None)
            }
            Err(wrong) => {
                let (line, column) = position_of(wrong.valid_up_to());
                Err(not_utf8(line, column))
            }
        }
    }
}

fn open_quote(state: State, opened: usize) -> String {
    if state == State::Quoted {
        format!("; the quote at byte {} may never be closed", opened + 1)
    } else {
        String::new()
    }
}

/// Line and column of the end of some text.
fn position_in(before: &[u8], line: u64) -> (u64, u64) {
    let (mut line, mut begin) = (line, 0);
    for (at, byte) in before.iter().enumerate() {
        let lone = *byte == b'\r' && before.get(at + 1) != Some(&b'\n');
        if *byte == b'\n' || lone {
            line += 1;
            begin = at + 1;
        }
    }
    // Bytes that continue a character are not counted.
    let column = before[begin..].iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64 + 1;
    (line, column)
}

pub(super) fn not_utf8(line: u64, column: u64) -> SourceError {
    let hint = "the input is not UTF-8; save it as UTF-8 (try `iconv -f WINDOWS-1252 -t UTF-8`)";
    SourceError::new(hint).at(line, Some(column))
}
