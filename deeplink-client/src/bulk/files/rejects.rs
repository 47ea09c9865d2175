//! Rejected rows, as they were in the input.

use std::io::{self, Write};
use std::path::PathBuf;

use super::cells::members;
use super::fields::fold;
use super::layout::Layout;
use super::records::Record;
use super::results::{Part, is_jsonl, write_record};
use super::scan::{Position, Scanner};
use super::{FileSource, Shape};
use crate::bulk::SourceError;

/// The column that says what is wrong; imports ignore it.
const ERROR: &str = "_error";

/// Writes the rejected rows as they were in the input, with `_error`, so that they can be fixed and imported again.
/// Rows of a table are written as a table, rows of JSON as JSONL. The file is `NAME.part` until it is complete,
/// readable only by its owner.
#[derive(Debug)]
pub struct RejectsWriter {
    part: Part,
    source: FileSource,
    record: Record,
}

impl RejectsWriter {
    /// Creates the file for rows of `source`; an existing file is replaced once the new one is complete.
    pub fn create(path: impl Into<PathBuf>, source: &FileSource) -> io::Result<Self> {
        let path = path.into();
        let is_table = matches!(source.shape, Shape::Table(_));
        if is_table == is_jsonl(&path) {
            let (form, name) = if is_table { ("a table", ".csv") } else { ("JSONL", ".jsonl") };
            let message = format!(
                "rejected rows of this input are written as {form}: use a file name that ends with \
                {name}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut part = Part::create(path)?;
        if let Shape::Table(table) = &source.shape {
            write_record(&mut part.file, table.delimiter, |cells| {
                cells.extend(table.header.iter().filter(|name| !is_error(name)).cloned());
                cells.push(ERROR.to_owned());
            })?;
        }
        Ok(Self { part, source: source.clone(), record: Record::default() })
    }

    /// Adds the row at a mark ([`crate::bulk::RowFault::at`], [`crate::bulk::RowOutcome::at`]), with what is wrong.
    pub fn write(&mut self, at: u64, error: &str) -> io::Result<()> {
        let input = self.source.input.from(at);
        match &self.source.shape {
            Shape::Table(table) => {
                // An unreadable record has no values to repeat; its position is in the message.
                if !table.record(input, at, &mut self.record).map_err(failed)? {
                    self.record = Record::default();
                }
                let record = &self.record;
                write_record(&mut self.part.file, table.delimiter, |cells| {
                    for (column, _) in table.header.iter().enumerate().filter(|(_, name)| !is_error(name)) {
                        cells.push(record.get(column).unwrap_or_default().into_owned());
                    }
                    cells.push(error.to_owned());
                })
            }
            Shape::Lines | Shape::List(Layout::Links(..)) => {
                let found = Scanner::new(input, Position { at, ..Position::START }).value();
                // Anything but an object is kept as text.
                let text = found.ok().and_then(|found| found.text).unwrap_or_default();
                let line = with_error(&text, error)
                    .unwrap_or_else(|| serde_json::json!({ "_input": text, ERROR: error }).to_string());
                self.line(&line)
            }
            Shape::List(Layout::Ids(template, _)) => {
                let found = Scanner::new(input, Position { at, ..Position::START }).value().map_err(failed)?;
                let id = found.text.unwrap_or_default();
                let mut template = (**template).clone();
                template.custom_id = None;
                let template = serde_json::to_string(&template)?;
                let rest = if template == "{}" { "}" } else { &template[1..] };
                let comma = if template == "{}" { "" } else { "," };
                let line = with_error(&format!("{{\"custom_id\":{id}{comma}{rest}"), error);
                self.line(&line.unwrap_or_else(|| serde_json::json!({ ERROR: error }).to_string()))
            }
        }
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.part.file.write_all(line.as_bytes())?;
        self.part.file.write_all(b"\n")
    }

    /// Completes the file and gives it its final name.
    pub fn finish(self) -> io::Result<()> {
        self.part.finish()
    }
}

fn is_error(name: &str) -> bool {
    fold(name) == fold(ERROR)
}

fn failed(error: SourceError) -> io::Error {
    io::Error::other(error)
}

/// An object with `_error` as its last member; its other members are unchanged.
fn with_error(object: &str, error: &str) -> Option<String> {
    let mut line = String::from("{");
    for (key, value) in members(object).ok()?.into_iter().filter(|(key, _)| !is_error(key)) {
        line.push_str(&serde_json::Value::from(key).to_string());
        line.push(':');
        // An element may span lines; between tokens a line break is whitespace.
        line.push_str(&value.get().replace(['\n', '\r'], " "));
        line.push(',');
    }
    line.push_str(&serde_json::Value::from(ERROR).to_string());
    line.push(':');
    line.push_str(&serde_json::Value::from(error).to_string());
    line.push('}');
    Some(line)
}
