//! Batches: rows that go in one request, and the request they make.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::journal::{Form, Intent, RowSet};
use super::template::Prepared;
use crate::clock;

/// A row in a batch.
#[derive(Debug, Clone)]
pub(crate) struct BatchRow {
    pub(crate) row: u64,
    pub(crate) line: u64,
    pub(crate) at: u64,
    pub(crate) id: String,
    /// The id was generated, on this try.
    pub(crate) made: Option<u32>,
    pub(crate) template: Arc<Prepared>,
}

/// Rows that go in one request.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) number: u64,
    /// How many times rows of this batch were sent under another key before.
    pub(crate) attempt: u32,
    pub(crate) form: Form,
    pub(crate) rows: Vec<BatchRow>,
    /// Some of these links may exist already: an earlier request, whose response was lost, may have created them.
    pub(crate) maybe_ours: bool,
    /// The key of that earlier request, while the service still remembers it.
    pub(crate) key: Option<String>,
}

impl Batch {
    pub(crate) fn new(number: u64, form: Form, rows: Vec<BatchRow>) -> Self {
        Self { number, attempt: 0, form, rows, maybe_ours: false, key: None }
    }

    /// The same batch, or the rest of it, under a new key.
    pub(crate) fn again(&self, rows: Vec<BatchRow>) -> Self {
        Self { attempt: self.attempt + 1, rows, key: None, ..*self }
    }

    /// The template that the whole request shares.
    pub(crate) fn template(&self) -> Option<&Arc<Prepared>> {
        if self.form == Form::Template { self.rows.first().map(|row| &row.template) } else { None }
    }

    /// The body, with the fields in the order of the type.
    pub(crate) fn body(&self) -> Bytes {
        let mut body = String::with_capacity(self.size() + 64);
        match (self.form, self.template(), self.rows.first()) {
            (Form::Template, Some(template), _) => {
                body.push_str("{\"template\":");
                body.push_str(template.json());
                body.push_str(",\"custom_ids\":[");
                for (at, row) in self.rows.iter().enumerate() {
                    // Checked ids need no escapes.
                    body.push_str(if at == 0 { "\"" } else { ",\"" });
                    body.push_str(&row.id);
                    body.push('"');
                }
                body.push_str("]}");
            }
            (Form::Single, _, Some(row)) => row.template.with_id(&row.id, &mut body),
            _ => {
                body.push_str("{\"links\":[");
                for (at, row) in self.rows.iter().enumerate() {
                    if at > 0 {
                        body.push(',');
                    }
                    row.template.with_id(&row.id, &mut body);
                }
                body.push_str("]}");
            }
        }
        body.into()
    }

    fn size(&self) -> usize {
        self.rows.iter().map(|row| row.id.len() + 24).sum::<usize>()
            + match self.form {
                Form::Template => self.template().map_or(0, |template| template.json().len()),
                _ => self.rows.iter().map(|row| row.template.json().len()).sum(),
            }
    }

    /// The journal entry written before the request is sent.
    pub(crate) fn intent(&self, body: &Bytes, run: &str) -> Intent {
        Intent {
            batch: self.number,
            attempt: self.attempt,
            form: self.form,
            rows: self.rows.iter().map(|row| row.row).collect::<RowSet>(),
            ids: self.rows.iter().map(|row| row.id.clone()).collect(),
            body: hex_digest(body),
            key: self.key.clone().unwrap_or_else(|| format!("dl-{run}-{}-{}", self.number, self.attempt)),
            at: clock::now(),
        }
    }
}

/// SHA-256 in hex.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lowercase hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
