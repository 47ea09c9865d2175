//! Sequential records in any format. Only one page is in memory: it is written before the next is read.

use crate::error::Outcome;
use crate::escape;
use crate::output::{Field, Format, Record, Sheet, table, yaml};

/// Records being written.
pub(crate) struct Rows<'a> {
    sheet: &'a Sheet<'a>,
    envelope: Option<&'static str>,
    count: usize,
    begun: bool,
    /// The document so far, if a program or a template is to get it whole.
    whole: Option<String>,
    table: Option<table::Table<'a>>,
}

impl<'a> Rows<'a> {
    pub(super) fn start(sheet: &'a Sheet<'a>, envelope: Option<&'static str>) -> Self {
        let table = (sheet.out.format == Format::Table).then(|| table::Table::new(sheet));
        let whole = (sheet.out.format == Format::Json && sheet.out.is_filtered()).then(String::new);
        Self { sheet, envelope, count: 0, begun: false, whole, table }
    }

    /// Writes the text before the first record. It is deferred until the first response: a request that is refused
    /// leaves nothing on stdout.
    fn begin(&mut self) -> Outcome {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        match self.sheet.out.format {
            Format::Csv => self.sheet.out.csv(self.csv_fields().map(|field| field.name.to_owned())),
            Format::Json => match (&mut self.whole, self.sheet.out.is_yaml()) {
                (Some(whole), _) => {
                    whole.push_str(&opening(self.envelope, false));
                    Ok(())
                }
                (None, true) => self.sheet.out.yaml_begins(),
                (None, false) => self.sheet.out.raw(opening(self.envelope, self.sheet.out.terminal).as_bytes()),
            },
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
            // `Wanted` makes JSON of YAML.
            Format::Json | Format::Yaml => self.push_json(&sheet.reduced(json))?,
            Format::Jsonl => out.json_line(&compact(&sheet.reduced(json)))?,
            Format::Csv => {
                let record = Record::read(json).unwrap_or_default();
                out.csv(self.csv_fields().map(|field| field.cell(&record).unwrap_or_default()))?;
            }
            Format::Id => out.line(&Record::read(json).and_then(|r| r.cell(sheet.noun.id)).unwrap_or_default())?,
        }
        self.count += 1;
        Ok(())
    }

    /// Writes a record of a JSON document.
    fn push_json(&mut self, json: &str) -> Outcome {
        let (out, is_first) = (self.sheet.out, self.count == 0);
        let separator = if is_first { "" } else { "," };
        if let Some(whole) = &mut self.whole {
            whole.push_str(separator);
            whole.push_str(json);
            return Ok(());
        }
        if out.is_yaml() {
            if let Some(name) = self.envelope.filter(|_| is_first) {
                out.yaml(&format!("{name}:\n"))?;
            }
            return out.yaml(&yaml::item(super::shallow(json)?, if self.envelope.is_some() { 2 } else { 0 }));
        }
        out.raw(separator.as_bytes())?;
        let record = escape::json(json, out.terminal);
        if out.terminal {
            let depth = if self.envelope.is_some() { "\n    " } else { "\n  " };
            out.raw(depth.as_bytes())?;
            return out.raw(super::indent(&record).replace('\n', depth).as_bytes());
        }
        out.raw(record.as_bytes())
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
        if self.sheet.out.format == Format::Json {
            self.finish_json(next_cursor)?;
        }
        if let Some(list) = self.envelope {
            self.sheet.out.note_only_nulls(list);
        }
        self.sheet.out.flush()
    }

    fn finish_json(&mut self, next_cursor: Option<&str>) -> Outcome {
        let out = self.sheet.out;
        let cursor = serde_json::to_string(&next_cursor).unwrap_or_default();
        if let Some(whole) = self.whole.take() {
            return out.json(&(whole + &closing(self.envelope, &cursor)));
        }
        if out.is_yaml() {
            let cursor = next_cursor.map_or_else(|| "null".to_owned(), yaml::string);
            return out.yaml(&match (self.envelope, self.count) {
                (Some(name), 0) => format!("{name}: []\nnext_cursor: {cursor}\n"),
                (Some(_), _) => format!("next_cursor: {cursor}\n"),
                (None, 0) => "[]\n".to_owned(),
                (None, _) => String::new(),
            });
        }
        let spaced = out.terminal && self.count > 0;
        let text = match (self.envelope, out.terminal, spaced) {
            (Some(_), true, true) => format!("\n  ],\n  \"next_cursor\": {cursor}\n}}\n"),
            (Some(_), true, false) => format!("],\n  \"next_cursor\": {cursor}\n}}\n"),
            (None, _, true) => "\n]\n".to_owned(),
            _ => closing(self.envelope, &cursor) + "\n",
        };
        out.raw(text.as_bytes())
    }

    fn csv_fields(&self) -> impl Iterator<Item = &'static Field> + use<'a> {
        let chosen = self.sheet.fields.as_deref();
        let all = self.sheet.noun.csv_fields().filter(move |_| chosen.is_none());
        chosen.unwrap_or_default().iter().copied().chain(all)
    }
}

/// What is before the first record.
fn opening(envelope: Option<&str>, spaced: bool) -> String {
    match (envelope, spaced) {
        (Some(name), true) => format!("{{\n  \"{name}\": ["),
        (Some(name), false) => format!("{{\"{name}\":["),
        (None, _) => "[".to_owned(),
    }
}

/// What is after the last one.
fn closing(envelope: Option<&str>, cursor: &str) -> String {
    envelope.map_or_else(|| "]".to_owned(), |_| format!("],\"next_cursor\":{cursor}}}"))
}

/// A record on one line, without the whitespace between its tokens.
fn compact(json: &str) -> String {
    deeplink_core::metadata::Metadata::parse(json).map_or_else(|_| json.to_owned(), |text| text.as_str().to_owned())
}
