//! Files of rows (CSV, TSV, JSON, JSONL), and files of what became of them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use deeplink_core::link::{CreateLink, LinkDetail};

use super::{RowOutcome, RowSource, Rows, SourceError};

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Comma, semicolon, tab or bar between values, whichever the header has.
    Csv,
    /// Tabs between values.
    Tsv,
    /// One JSON object.
    Json,
    /// A JSON object on each line.
    Jsonl,
}

/// How a file is read.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct FileOptions {
    format: Option<Format>,
    map: Vec<(String, String)>,
    template: CreateLink,
    set: Vec<(String, String)>,
    ignore_unknown: bool,
}

impl FileOptions {
    /// Everything as the file says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the form; without it, the file's name and beginning decide.
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Reads a column as this field, whatever its name.
    pub fn map(mut self, column: impl Into<String>, field: impl Into<String>) -> Self {
        self.map.push((column.into(), field.into()));
        self
    }

    /// What rows have unless they say otherwise.
    pub fn template(mut self, template: CreateLink) -> Self {
        self.template = template;
        self
    }

    /// What every row has, whatever it says.
    pub fn set(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.push((field.into(), value.into()));
        self
    }

    /// Leaves columns out that no field is known for.
    pub fn ignore_unknown(mut self, ignore: bool) -> Self {
        self.ignore_unknown = ignore;
        self
    }

    /// Opens a file.
    pub fn open(self, path: impl AsRef<Path>) -> Result<FileSource, SourceError> {
        let _ = (path.as_ref(), &self.map, &self.template, &self.set, self.ignore_unknown);
        Err(SourceError::new("in the making"))
    }

    /// Copies what cannot be read twice, such as standard input, into a file without a name.
    pub fn spool(self, input: impl Read, name: impl Into<String>) -> Result<FileSource, SourceError> {
        let _ = (input, name.into(), self.format);
        Err(SourceError::new("in the making"))
    }
}

/// A file of rows.
#[derive(Debug)]
pub struct FileSource {
    name: String,
    format: Format,
}

impl FileSource {
    /// The form it turned out to have.
    pub fn format(&self) -> Format {
        self.format
    }
}

impl RowSource for FileSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn digest(&self) -> Result<[u8; 32], SourceError> {
        Err(SourceError::new("in the making"))
    }

    fn rows(&self) -> Result<Rows, SourceError> {
        Err(SourceError::new("in the making"))
    }
}

/// Writes what became of each row: CSV, or JSONL if the name ends so. It grows as `NAME.part`.
#[derive(Debug)]
pub struct ResultsWriter {
    path: PathBuf,
}

impl ResultsWriter {
    /// Begins the file; whatever the path held is replaced at the end.
    pub fn create(path: impl Into<PathBuf>) -> std::io::Result<Self> {
        Ok(Self { path: path.into() })
    }

    /// Adds a row.
    pub fn write(&mut self, outcome: &RowOutcome) -> std::io::Result<()> {
        let _ = (outcome, &self.path);
        Ok(())
    }

    /// Gives the file its name.
    pub fn finish(self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the rows that were refused, as the input had them and with `_error`, so that they can be imported after
/// repair. It grows as `NAME.part`; a file without a row is not made.
#[derive(Debug)]
pub struct RejectsWriter {
    path: PathBuf,
}

impl RejectsWriter {
    /// Begins the file for rows of `source`.
    pub fn create(path: impl Into<PathBuf>, source: &FileSource) -> std::io::Result<Self> {
        let _ = source;
        Ok(Self { path: path.into() })
    }

    /// Adds the row at a mark ([`crate::bulk::RowFault::at`], [`RowOutcome::at`]), with what is wrong.
    pub fn write(&mut self, at: u64, error: &str) -> std::io::Result<()> {
        let _ = (at, error, &self.path);
        Ok(())
    }

    /// Gives the file its name.
    pub fn finish(self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes links so that importing them changes nothing: CSV or JSONL.
#[derive(Debug)]
pub struct LinkWriter<W: Write> {
    out: W,
    spreadsheet_safe: bool,
}

impl<W: Write> LinkWriter<W> {
    /// RFC 4180 with a header.
    pub fn csv(out: W) -> Self {
        Self { out, spreadsheet_safe: false }
    }

    /// One object a line.
    pub fn jsonl(out: W) -> Self {
        Self { out, spreadsheet_safe: false }
    }

    /// Puts `'` before cells that a spreadsheet would take for a formula. This is not undone on import.
    pub fn spreadsheet_safe(mut self, safe: bool) -> Self {
        self.spreadsheet_safe = safe;
        self
    }

    /// Goes on with a file that already has its header.
    pub fn resumed(self) -> Self {
        self
    }

    /// Adds a link.
    pub fn write(&mut self, link: &LinkDetail) -> std::io::Result<()> {
        let _ = link;
        self.out.flush()
    }

    /// Writes out what is held back.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }

    /// The writer that was given.
    pub fn into_inner(self) -> std::io::Result<W> {
        Ok(self.out)
    }
}
