//! Where rows come from. A source is read more than once and must return the same rows each time.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::CreateLink;

/// Rows to import. [`RowSource::rows`] is called once per pass and must return the same rows in the same order each
/// time.
pub trait RowSource: Send + Sync + 'static {
    /// The source's display name, such as the file's name.
    fn name(&self) -> String;

    /// Where a row is, for messages: `links.csv:17`, `links.csv:17:5` or `links.json[17]`.
    fn location(&self, line: u64, column: Option<u64>) -> String {
        let name = self.name();
        column.map_or_else(|| format!("{name}:{line}"), |column| format!("{name}:{line}:{column}"))
    }

    /// How a message refers to another row of the same source: `on line 88` or `in element 88`.
    fn reference(&self, line: u64) -> String {
        format!("on line {line}")
    }

    /// A digest of everything that determines the rows. Two sources with the same digest give the same rows.
    fn digest(&self) -> Result<[u8; 32], SourceError>;

    /// The rows from the beginning.
    fn rows(&self) -> Result<Rows, SourceError>;
}

impl<S: RowSource + ?Sized> RowSource for Arc<S> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn location(&self, line: u64, column: Option<u64>) -> String {
        (**self).location(line, column)
    }

    fn reference(&self, line: u64) -> String {
        (**self).reference(line)
    }

    fn digest(&self) -> Result<[u8; 32], SourceError> {
        (**self).digest()
    }

    fn rows(&self) -> Result<Rows, SourceError> {
        (**self).rows()
    }
}

/// The rows of one pass.
pub type Rows = Box<dyn Iterator<Item = Result<SourceRow, SourceError>> + Send>;

/// One record of a source.
#[derive(Debug, Clone)]
pub enum SourceRow {
    /// A row; whether it is a valid link is checked later.
    Row(Row),
    /// A record that cannot be read as a row.
    Fault(RowFault),
}

/// One row.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Row {
    /// The line it starts on, or its position, from 1 in lines and from 0 in lists.
    pub line: u64,
    /// The source's own marker for the row, used to find its text again.
    pub at: u64,
    /// The id it names.
    pub id: Option<String>,
    /// What a generated id is derived from if the row has none: the same for the same link in every version of the
    /// source. Without it, the id is derived from the content and the position.
    pub key: Option<String>,
    /// Everything else; `custom_id` is ignored. Rows that share a template may share the allocation.
    pub template: Arc<CreateLink>,
}

impl Row {
    /// A row.
    pub fn new(line: u64, at: u64, id: Option<String>, template: Arc<CreateLink>) -> Self {
        Self { line, at, id, key: None, template }
    }

    /// Sets what a generated id is derived from.
    pub fn keyed(mut self, key: Option<String>) -> Self {
        self.key = key;
        self
    }
}

/// Why a row cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowFault {
    /// The row's line, as in [`Row::line`].
    pub line: u64,
    /// The column within the line, from 1, where the reader knows it.
    pub column: Option<u64>,
    /// The source's own marker for the row.
    pub at: u64,
    /// The id it names, if it could be read.
    pub id: Option<String>,
    /// The field at fault.
    pub field: Option<String>,
    /// What is wrong, as a code.
    pub code: ErrorCode,
    /// What is wrong, as a message.
    pub message: String,
}

impl RowFault {
    /// A row that breaks one of the service's rules.
    pub fn new(line: u64, at: u64, id: Option<String>, invalid: Invalid) -> Self {
        let field = invalid.field.map(std::borrow::Cow::into_owned);
        Self { line, column: None, at, id, field, code: invalid.code, message: invalid.message }
    }

    /// Names the column of the fault.
    pub fn at_column(mut self, column: u64) -> Self {
        self.column = Some(column);
        self
    }
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.field.as_deref(), &self.id) {
            (Some("custom_id"), Some(id)) => write!(f, "custom_id \"{}\": ", id.escape_debug())?,
            // Most messages begin with the field.
            (Some(field), _) if !self.message.starts_with(field) => write!(f, "{field}: ")?,
            _ => {}
        }
        write!(f, "{} [{}]", self.message, self.code)
    }
}

/// A source that cannot be read, or not to its end.
#[derive(Debug)]
pub struct SourceError {
    message: String,
    line: Option<u64>,
    column: Option<u64>,
    code: Option<&'static str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl SourceError {
    /// What is wrong with the source as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: None, column: None, code: None, source: None }
    }

    /// Adds the location.
    pub fn at(mut self, line: u64, column: Option<u64>) -> Self {
        self.line = Some(line);
        self.column = column;
        self
    }

    /// Adds a code, for programs.
    pub fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Adds the cause.
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The message, without the location.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The line of the fault, if known.
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// The code, if it has one.
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The column, if it is known.
    pub fn column(&self) -> Option<u64> {
        self.column
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "line {line}, column {column}: ")?,
            (Some(line), None) => write!(f, "line {line}: ")?,
            _ => {}
        }
        f.write_str(&self.message)
    }
}

impl StdError for SourceError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<std::io::Error> for SourceError {
    fn from(error: std::io::Error) -> Self {
        Self::new("the input cannot be read").because(error)
    }
}
