//! Sequential records in any format. Only one page is in memory: it is written before the next is read.

use crate::error::Outcome;
use crate::escape;
use crate::output::{Field, Format, Record, Sheet, table};

/// Records being written.
pub(crate) struct Rows<'a> {
    sheet: &'a Sheet<'a>,
    envelope: Option<&'static str>,
    count: usize,
    begun: bool,
    table: Option<table::Table<'a>>,
}

impl<'a> Rows<'a> {
    pub(super) fn start(sheet: &'a Sheet<'a>, envelope: Option<&'static str>) -> Self {
        let table = (sheet.out.format == Format::Table).then(|| table::Table::new(sheet));
        Self { sheet, envelope, count: 0, begun: false, table }
    }

    /// Writes the text before the first record. It is deferred until the first response: a request that is refused
    /// leaves nothing on stdout.
    fn begin(&mut self) -> Outcome {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        match self.sheet.out.format {
            Format::Csv => self.sheet.out.csv(self.csv_fields().map(|field| field.name.to_owned())),
            Format::Json => self.sheet.out.raw(self.opening().as_bytes()),
            _ => Ok(()),
        }
    }

    /// How many records there were.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Writes a record.
    pub(crate) fn push(&mut self, json: &str) -> Outcome {
        let (sheet, out) = (self.sheet, self.sheet.out);
        self.begin()?;
        match out.format {
            Format::Table => {
                if let Some(table) = &mut self.table {
                    table.push(json);
                }
            }
            Format::Json => {
                out.raw(if self.count == 0 { b"" } else { b"," })?;
                let record = escape::json(&sheet.reduced(json), out.terminal).into_owned();
                if out.terminal {
                    let depth = if self.envelope.is_some() { "\n    " } else { "\n  " };
                    out.raw(depth.as_bytes())?;
                    out.raw(super::indent(&record).replace('\n', depth).as_bytes())?;
                } else {
                    out.raw(record.as_bytes())?;
                }
            }
            Format::Jsonl => {
                out.raw(escape::json(&compact(&sheet.reduced(json)), out.terminal).as_bytes())?;
                out.raw(b"\n")?;
            }
            Format::Csv => {
                let record = Record::read(json).unwrap_or_default();
                out.csv(self.csv_fields().map(|field| field.cell(&record).unwrap_or_default()))?;
            }
            Format::Id => out.line(&Record::read(json).and_then(|r| r.cell(sheet.noun.id)).unwrap_or_default())?,
        }
        self.count += 1;
        Ok(())
    }

    /// Flushes the page.
    pub(crate) fn page(&mut self) -> Outcome {
        if let Some(table) = &mut self.table {
            table.print()?;
        }
        self.sheet.out.flush()
    }

    /// Writes the text after the last record.
    pub(crate) fn finish(mut self, next_cursor: Option<&str>) -> Outcome {
        self.begin()?;
        self.page()?;
        if let Some(table) = &self.table {
            table.note_hidden()?;
        }
        let out = self.sheet.out;
        if out.format == Format::Json {
            let spaced = out.terminal && self.count > 0;
            match self.envelope {
                Some(_) => {
                    let cursor = serde_json::to_string(&next_cursor).unwrap_or_default();
                    let text = match (out.terminal, spaced) {
                        (true, true) => format!("\n  ],\n  \"next_cursor\": {cursor}\n}}\n"),
                        (true, false) => format!("],\n  \"next_cursor\": {cursor}\n}}\n"),
                        (false, _) => format!("],\"next_cursor\":{cursor}}}\n"),
                    };
                    out.raw(text.as_bytes())?;
                }
                None => out.raw(if spaced { b"\n]\n" } else { b"]\n" })?,
            }
        }
        out.flush()
    }

    fn opening(&self) -> String {
        match (self.envelope, self.sheet.out.terminal) {
            (Some(name), true) => format!("{{\n  \"{name}\": ["),
            (Some(name), false) => format!("{{\"{name}\":["),
            (None, _) => "[".to_owned(),
        }
    }

    fn csv_fields(&self) -> impl Iterator<Item = &'static Field> + use<'a> {
        let chosen = self.sheet.fields.as_deref();
        let all = self.sheet.noun.csv_fields().filter(move |_| chosen.is_none());
        chosen.unwrap_or_default().iter().copied().chain(all)
    }
}

/// A record on one line, without the whitespace between its tokens.
fn compact(json: &str) -> String {
    deeplink_core::metadata::Metadata::parse(json).map_or_else(|_| json.to_owned(), |text| text.as_str().to_owned())
}
