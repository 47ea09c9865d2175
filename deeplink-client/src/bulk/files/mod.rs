//! Files of rows (CSV, TSV, JSON, JSONL), files of results, and exports that can be imported again.

mod cells;
mod export;
mod fields;
mod foreign;
mod input;
mod json;
mod layout;
mod records;
mod rejects;
mod results;
mod scan;
mod table;
#[cfg(test)]
mod tests;
mod utf16;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use deeplink_core::error::Invalid;
use deeplink_core::link::CreateLink;
use deeplink_core::time::Timestamp;
use sha2::{Digest, Sha256};

pub use export::LinkWriter;
pub use foreign::{ForeignHost, ForeignNotes, MarkedRows, Provider};
pub use rejects::RejectsWriter;
pub use results::ResultsWriter;

use super::{RowSource, Rows, SourceError};
use cells::Draft;
use fields::{Field, fold};
use foreign::{Foreign, Reading};
use input::Input;
use json::{LineRows, ListRows};
use layout::Layout;
use table::{Table, map_target, separator_line, sniff};

/// Bytes that are read to detect the format.
const HEAD: usize = 64 * 1024;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Values separated by commas, semicolons, tabs or vertical bars, detected from the header.
    Csv,
    /// Values separated by tabs.
    Tsv,
    /// A list of objects, or the body of a bulk create.
    Json,
    /// A JSON object on each line.
    Jsonl,
}

impl Format {
    /// The format by file name, if known.
    pub fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::Jsonl,
            _ => return None,
        })
    }

    /// The format by the first bytes.
    fn of_content(head: &[u8]) -> Self {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        match head.trim_ascii_start().first() {
            Some(b'[') => Self::Json,
            Some(b'{') => {
                // An object that ends on its line is one of many, unless it is the body of a bulk create or holds a list.
                let line = head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
                let members = line.and_then(|line| std::str::from_utf8(line).ok()).map(cells::members);
                match members {
                    Some(Ok(members))
                        if !members
                            .iter()
                            .any(|(key, _)| matches!(key.as_str(), "template" | "links" | "shortUrls")) =>
                    {
                        Self::Jsonl
                    }
                    _ => Self::Json,
                }
            }
            _ => Self::Csv,
        }
    }
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
    provider: Option<Provider>,
    reading: Reading,
}

impl FileOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format; by default, it is detected from the file's name and content.
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Maps a column to this field, whatever its name; `ignore` skips the column.
    pub fn map(mut self, column: impl Into<String>, field: impl Into<String>) -> Self {
        self.map.push((column.into(), field.into()));
        self
    }

    /// Defaults for fields that a row does not set.
    pub fn template(mut self, template: CreateLink) -> Self {
        self.template = template;
        self
    }

    /// A value for every row, overriding the row; `\N` for null.
    pub fn set(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.push((field.into(), value.into()));
        self
    }

    /// Ignores columns that match no field.
    pub fn ignore_unknown(mut self, ignore: bool) -> Self {
        self.ignore_unknown = ignore;
        self
    }

    /// Reads the export of another service. Its columns decide what becomes which field; [`FileSource::notes`] lists
    /// ignored columns that have values, except those known to be irrelevant.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = Some(provider);
        self
    }

    /// In an export of another service, replaces characters that are not allowed in an ID with `-`.
    pub fn sanitize_ids(mut self, sanitize: bool) -> Self {
        self.reading.sanitize_ids = sanitize;
        self
    }

    /// In an export of another service, treats rows with an invalid ID as rows without one, so that
    /// [`BulkImport::generate_ids`](crate::bulk::BulkImport::generate_ids) generates it from the original short link.
    pub fn replace_ids(mut self, replace: bool) -> Self {
        self.reading.replace_ids = replace;
        self
    }

    /// In an export of another service, uses the last segment of a short link's path as the ID. Otherwise a path with several
    /// segments is an invalid ID.
    pub fn last_segment(mut self, last: bool) -> Self {
        self.reading.last_segment = last;
        self
    }

    /// In an export of another service, puts this before each ID, so that the IDs of two services cannot collide. The
    /// paths of the short links become aliases.
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.reading.id_prefix = prefix.into();
        self
    }

    /// In a Branch export, the URI scheme of the app, such as `myapp`, for deep links that are only paths: they are
    /// relative to it.
    pub fn app_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.reading.app_scheme = Some(scheme.into());
        self
    }

    /// Keeps values of another service's export for which links have no field, such as creation dates and campaigns, as
    /// metadata, which is public.
    pub fn keep_details(mut self, keep: bool) -> Self {
        self.reading.keep_details = keep;
        self
    }

    /// The time that determines which links in an export of another service have expired or are not active yet.
    pub fn now(mut self, now: Timestamp) -> Self {
        self.reading.now = Some(now);
        self
    }

    /// Opens a file. Anything but a regular file, such as a pipe, is copied first.
    pub fn open(self, path: impl AsRef<Path>) -> Result<FileSource, SourceError> {
        let path = path.as_ref();
        let failed = |why| SourceError::new(format!("{} could not be read", path.display())).because(why);
        let name =
            path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        self.read(Input::open(path).map_err(failed)?, name)
    }

    /// Copies input that cannot be read twice, such as standard input, into an unnamed file.
    pub fn spool(self, input: impl Read, name: impl Into<String>) -> Result<FileSource, SourceError> {
        self.read(Input::spool(input)?, name.into())
    }

    fn read(self, input: Input, name: String) -> Result<FileSource, SourceError> {
        let input = utf16::decoded(input)?;
        let head = input.head(HEAD)?;
        let format = self.format.or_else(|| Format::of_name(&name)).unwrap_or_else(|| Format::of_content(&head));
        let mapping = Arc::new(self.mapping().map_err(SourceError::new)?);
        if let (Some(foreign), Format::Json | Format::Jsonl) = (&mapping.foreign, format) {
            foreign.json_path().map_err(SourceError::new)?;
        }
        let shape = match format {
            Format::Csv | Format::Tsv => {
                let separator = separator_line(&head);
                let begin = separator.map_or((0, 1), |(_, at)| (at, 2));
                let delimiter = match (self.format, separator) {
                    (Some(Format::Tsv), _) => b'\t',
                    (_, Some((delimiter, _))) => delimiter,
                    (_, None) if format == Format::Tsv => b'\t',
                    (_, None) => sniff(&head),
                };
                Shape::Table(Table::read(&input, delimiter, begin, &self, &mapping)?)
            }
            Format::Json => Shape::List(Layout::read(&input, &mapping)?),
            Format::Jsonl => Shape::Lines,
        };
        Ok(FileSource { name, format, input, shape, mapping, options: self })
    }

    fn mapping(&self) -> Result<Mapping, String> {
        let map = self.map.iter().map(|(column, field)| Ok((fold(column), map_target(field)?)));
        let set = self.set.iter().map(|(name, value)| {
            let field = map_target(name)?;
            if matches!(field, Field::CustomId | Field::Ignored) {
                return Err(format!("\"{}\" cannot be set for every row", name.escape_debug()));
            }
            Ok((field, value.clone()))
        });
        let mapping = Mapping {
            template: self.template.clone(),
            map: map.collect::<Result<_, String>>()?,
            set: set.collect::<Result<_, String>>()?,
            ignore_unknown: self.ignore_unknown,
            foreign: self.provider.map(|provider| Arc::new(Foreign::new(provider, self.reading.clone()))),
        };
        mapping.finish(Draft::new(&mapping.template)).map_err(|invalid| invalid.message)?;
        Ok(mapping)
    }
}

/// Settings that apply to every row.
#[derive(Debug)]
struct Mapping {
    template: CreateLink,
    map: Vec<(String, Field)>,
    set: Vec<(Field, String)>,
    ignore_unknown: bool,
    /// How the export of another service is read.
    foreign: Option<Arc<Foreign>>,
}

impl Mapping {
    fn field(&self, key: &str) -> Option<Field> {
        let folded = fold(key);
        self.map.iter().find(|(column, _)| *column == folded).map(|(_, field)| field.clone())
    }

    /// Whether a column is mapped to this field.
    fn maps(&self, field: &Field) -> bool {
        self.map.iter().any(|(_, mapped)| mapped == field)
    }

    /// Whether every row has a destination that it need not name.
    fn sets_destination(&self) -> bool {
        self.template.destinations().into_array().into_iter().any(Option::is_some)
            || self.set.iter().any(|(field, _)| field.is_destination())
    }

    /// Applies the values set for every row.
    fn finish(&self, mut draft: Draft) -> Result<CreateLink, Invalid> {
        for (field, value) in &self.set {
            draft.cell(field, value)?;
        }
        draft.finish()
    }
}

/// A file of rows.
#[derive(Debug, Clone)]
pub struct FileSource {
    name: String,
    format: Format,
    input: Input,
    shape: Shape,
    mapping: Arc<Mapping>,
    options: FileOptions,
}

#[derive(Debug, Clone)]
enum Shape {
    Table(Table),
    List(Layout),
    Lines,
}

impl FileSource {
    /// The detected format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the last pass over the export of another service left out or changed; `None` for any other file.
    pub fn notes(&self) -> Option<ForeignNotes> {
        self.mapping.foreign.as_ref().map(|foreign| foreign.noted())
    }
}

impl RowSource for FileSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn location(&self, line: u64, column: Option<u64>) -> String {
        let name = &self.name;
        match (&self.shape, column) {
            (Shape::List(_), _) => format!("{name}[{line}]"),
            (_, Some(column)) => format!("{name}:{line}:{column}"),
            (_, None) => format!("{name}:{line}"),
        }
    }

    fn reference(&self, line: u64) -> String {
        match self.shape {
            Shape::List(_) => format!("in element {line}"),
            _ => format!("on line {line}"),
        }
    }

    fn digest(&self) -> Result<[u8; 32], SourceError> {
        let options = &self.options;
        let template = serde_json::to_string(&options.template)
            .map_err(|why| SourceError::new("the template cannot be written as JSON").because(why))?;
        let mut digest = Sha256::new();
        // Debug text of plain data: the same for the same options in this version of the program.
        digest.update(format!(
            "{:?} {:?} {:?} {template} {}\n",
            self.format, options.map, options.set, options.ignore_unknown
        ));
        if let Some(provider) = options.provider {
            // The same at any time.
            let reading = Reading { now: None, ..options.reading.clone() };
            digest.update(format!("{provider:?} {reading:?}\n"));
        }
        let (mut reader, mut buffer) = (self.input.from(0), vec![0; HEAD]);
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(digest.finalize().into()),
                read => digest.update(&buffer[..read]),
            }
        }
    }

    fn rows(&self) -> Result<Rows, SourceError> {
        if let Some(foreign) = &self.mapping.foreign {
            foreign.begin();
        }
        Ok(match &self.shape {
            Shape::Table(table) => Box::new(table.rows(&self.input, &self.mapping)),
            Shape::List(layout) => Box::new(ListRows::new(&self.input, layout, &self.mapping)),
            Shape::Lines => Box::new(LineRows::new(&self.input, &self.mapping)),
        })
    }
}
