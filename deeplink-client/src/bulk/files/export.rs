//! Links as files that change nothing when they are imported again.

use std::fmt;
use std::io::{self, Write};

use deeplink_core::formula;
use deeplink_core::link::LinkDetail;
use deeplink_core::link::row::{COLUMNS, cells};

/// Writes links so that importing them changes nothing: CSV or JSONL.
pub struct LinkWriter<W: Write> {
    form: Form<W>,
    spreadsheet_safe: bool,
    begun: bool,
}

enum Form<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Jsonl(W),
}

impl<W: Write> LinkWriter<W> {
    /// RFC 4180 with a header.
    pub fn csv(out: W) -> Self {
        let writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
        Self { form: Form::Csv(Box::new(writer)), spreadsheet_safe: false, begun: false }
    }

    /// One object per line.
    pub fn jsonl(out: W) -> Self {
        Self { form: Form::Jsonl(out), spreadsheet_safe: false, begun: false }
    }

    /// Puts `'` before cells that a spreadsheet would treat as formulas; see [`formula::defuse`]. An import removes it.
    #[must_use]
    pub fn spreadsheet_safe(mut self, safe: bool) -> Self {
        self.spreadsheet_safe = safe;
        self
    }

    /// Continues a file that already has its header.
    #[must_use]
    pub fn resumed(mut self) -> Self {
        self.begun = true;
        self
    }

    /// Writes the header, if the format has one and it is not written yet; [`LinkWriter::write`] does so too.
    pub fn begin(&mut self) -> io::Result<()> {
        if let (Form::Csv(csv), false) = (&mut self.form, self.begun) {
            csv.write_record(COLUMNS)?;
        }
        self.begun = true;
        Ok(())
    }

    /// Adds a link.
    pub fn write(&mut self, link: &LinkDetail) -> io::Result<()> {
        self.begin()?;
        match &mut self.form {
            Form::Jsonl(out) => {
                // If imported again, the account's expiry would become the owner's.
                serde_json::to_writer(&mut *out, &LinkDetail { expires_at: link.owner_expires_at, ..link.clone() })?;
                out.write_all(b"\n")
            }
            Form::Csv(csv) => {
                for cell in cells(link) {
                    csv.write_field(formula::written(&cell, self.spreadsheet_safe).as_ref())?;
                }
                csv.write_record(None::<&[u8]>)?;
                Ok(())
            }
        }
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.form {
            Form::Csv(csv) => csv.flush(),
            Form::Jsonl(out) => out.flush(),
        }
    }

    /// Returns the inner writer.
    pub fn into_inner(self) -> io::Result<W> {
        match self.form {
            Form::Csv(csv) => {
                csv.into_inner().map_err(|failed| io::Error::new(failed.error().kind(), failed.to_string()))
            }
            Form::Jsonl(out) => Ok(out),
        }
    }
}

impl<W: Write> fmt::Debug for LinkWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkWriter").field("spreadsheet_safe", &self.spreadsheet_safe).finish_non_exhaustive()
    }
}
