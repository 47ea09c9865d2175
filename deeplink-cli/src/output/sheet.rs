//! Records of one kind on stdout, in any format.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Field, Format, Noun, Out, Record, Rows, table};
use crate::error::{Failure, Outcome, Stop};
use crate::escape;

/// Stdout, ready for records of one kind.
pub(crate) struct Sheet<'a> {
    pub(crate) out: &'a Out,
    pub(crate) noun: &'static Noun,
    pub(crate) fields: Option<Vec<&'static Field>>,
}

impl Out {
    /// Prepares to print records of a kind. Unknown `--fields` end the command here, before any request.
    pub(crate) fn sheet(&self, noun: &'static Noun) -> Outcome<Sheet<'_>> {
        let Some(names) = &self.fields else { return Ok(Sheet { out: self, noun, fields: None }) };
        let known = || {
            let entries = noun.field("metadata").map(|_| "metadata.KEY");
            noun.fields.iter().map(|field| field.name).chain(entries).collect::<Vec<_>>().join(", ")
        };
        let find = |name: &String| {
            noun.field_or_path(name).ok_or_else(|| {
                let what = format!("{}: unknown field \"{}\"", self.fields_flag, escape::visible(name));
                // `--json` of other tools takes no value, so that what follows it may be meant for the command.
                let all = match self.fields_flag {
                    "--json" if names.len() == 1 => format!("; for all fields, use -o json {}", escape::visible(name)),
                    _ => String::new(),
                };
                Stop::from(Failure::usage(what).hint(format!("available fields: {}{all}", known())))
            })
        };
        let mut fields: Vec<&Field> = Vec::new();
        for name in names {
            let field = find(name)?;
            // One that is named twice would be two members of an object with one name.
            if !fields.iter().any(|before| before.path == field.path) {
                fields.push(field);
            }
        }
        Ok(Sheet { out: self, noun, fields: Some(fields) })
    }
}

impl Sheet<'_> {
    /// Prints one record, with every field that it has.
    pub(crate) fn one(&self, json: &str) -> Outcome {
        match self.out.format {
            Format::Table if self.fields.is_none() => table::detail(self, json)?,
            Format::Json => self.out.json(&self.reduced(json))?,
            _ => {
                let mut rows = self.several();
                rows.push(json)?;
                rows.finish(None)?;
            }
        }
        self.out.flush()
    }

    /// Prints the answer to a create: in a table, only the one field that matters.
    pub(crate) fn created(&self, json: &str) -> Outcome {
        if self.out.format != Format::Table || self.fields.is_some() {
            return self.one(json);
        }
        let record = Record::read(json).unwrap_or_default();
        self.out.line(&record.cell(self.noun.created).unwrap_or_default())?;
        self.out.flush()
    }

    /// Prints several records that were requested one by one: an array in JSON.
    pub(crate) fn several(&self) -> Rows<'_> {
        Rows::start(self, None)
    }

    /// Prints a list that the service returns in one response, with the members that `mark` adds to each record, except
    /// in the whole JSON document.
    pub(crate) fn whole_marked(&self, raw: &[u8], mark: impl Fn(&Record<'_>) -> String) -> Outcome {
        let text = String::from_utf8_lossy(raw);
        let items = Record::read(&text).unwrap_or_default().items(self.noun.list);
        let marked = |item: &RawValue| match Record::read(item.get()) {
            Some(record) => match item.get().trim_end().strip_suffix('}') {
                Some(open) => format!("{open}{}}}", mark(&record)),
                None => item.get().to_owned(),
            },
            None => item.get().to_owned(),
        };
        if self.out.format == Format::Json {
            if self.fields.is_none() {
                self.out.json(&text)?;
            } else {
                let records: Vec<String> = items.iter().map(|item| self.reduced(&marked(item)).into_owned()).collect();
                self.out.json(&format!("{{\"{}\":[{}]}}", self.noun.list, records.join(",")))?;
            }
            self.out.flush()?;
        } else {
            let mut rows = self.several();
            for item in &items {
                rows.push(&marked(item))?;
            }
            rows.finish(None)?;
        }
        Ok(())
    }

    /// Prints a list: its envelope in JSON, written as pages arrive.
    pub(crate) fn list(&self) -> Rows<'_> {
        Rows::start(self, Some(self.noun.list))
    }

    /// A record with the chosen fields only.
    pub(super) fn reduced<'j>(&self, json: &'j str) -> Cow<'j, str> {
        let Some(fields) = &self.fields else { return json.into() };
        let record = Record::read(json).unwrap_or_default();
        let value = |field: &Field| record.get(field.path).map_or("null", |value| value.get());
        let member =
            |field: &&Field| format!("{}:{}", serde_json::to_string(field.name).unwrap_or_default(), value(field));
        let members: Vec<String> = fields.iter().map(member).collect();
        format!("{{{}}}", members.join(",")).into()
    }
}
