//! How a command ends early: a failure to report, a closed pipe, or an end that has already been reported.

use std::borrow::Cow;
use std::fmt;
use std::io;

use serde::Serialize;

use crate::exit::Exit;
use crate::hints;

/// What every command returns.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A failure to report.
    Failed(Box<Failure>),
    /// Stdout was closed: the rest is not wanted, and nothing is reported.
    ClosedPipe,
    /// `--dry-run` did not send the request.
    NotSent,
    /// Everything was reported; only the exit code is left.
    Exit(Exit),
}

/// One failure: what happened, to what, and what to do next.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) code: Option<Cow<'static, str>>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) request_id: Option<String>,
    pub(crate) field: Option<String>,
    pub(crate) retryable: bool,
    pub(crate) items: Vec<Item>,
}

/// One of several things that failed: a row of a batch, or an id among many.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
}

impl Failure {
    /// A failure without a specific code.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: None,
            message: message.into(),
            hint: None,
            status: None,
            request_id: None,
            field: None,
            retryable: false,
            items: Vec::new(),
        }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The input breaks a rule; nothing was sent.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Exit::Invalid, message)
    }

    /// A file could not be read or written.
    pub(crate) fn file(doing: &str, path: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(Exit::Failure, format!("cannot {doing} {path}: {}", plain(error)))
    }

    pub(crate) fn code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The error code for programs: the exact one, else that of the exit code.
    pub(crate) fn code_or_word(&self) -> &str {
        self.code.as_deref().unwrap_or(self.exit.word())
    }

    /// The same failure as one among several.
    pub(crate) fn as_item(&self, id: &str) -> Item {
        Item {
            index: None,
            id: Some(id.to_owned()),
            code: self.code_or_word().to_owned(),
            message: self.message.clone(),
            field: self.field.clone(),
            status: self.status,
            request_id: self.request_id.clone(),
        }
    }

    /// The one line that `-o json` and `-o jsonl` put on stderr.
    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Envelope<'a> {
            error: Body<'a>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            code: &'a str,
            message: &'a str,
            status: Option<u16>,
            request_id: Option<&'a str>,
            field: Option<&'a str>,
            hint: Option<&'a str>,
            retryable: bool,
            #[serde(skip_serializing_if = "<[Item]>::is_empty")]
            items: &'a [Item],
        }
        let body = Body {
            code: self.code_or_word(),
            message: &self.message,
            status: self.status,
            request_id: self.request_id.as_deref(),
            field: self.field.as_deref(),
            hint: self.hint.as_deref(),
            retryable: self.retryable,
            items: &self.items,
        };
        // Strings, numbers and booleans always serialize.
        serde_json::to_string(&Envelope { error: body }).unwrap_or_default()
    }
}

/// The text of an I/O error without the operating system's number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

impl Stop {
    /// The same with another hint.
    pub(crate) fn hinting(self, hint: &str) -> Self {
        match self {
            Self::Failed(failure) => failure.hint(hint).into(),
            other => other,
        }
    }

    /// The same, with what was not found if the service does not name it.
    pub(crate) fn naming(self, what: &str) -> Self {
        match self {
            Self::Failed(failure) if failure.message == "not found (HTTP 404)" => {
                Failure { message: format!("no {what} (HTTP 404)"), ..*failure }.into()
            }
            other => other,
        }
    }

    /// The same for a link, with how to find one like it.
    pub(crate) fn naming_link(self, id: &str) -> Self {
        match self.naming(&format!("link with ID {id}")) {
            Self::Failed(failure) if failure.hint.as_deref() == Some(hints::LISTS_LINKS) => {
                failure.hint(format!("dl links list --search {id} looks for it in IDs, names, tags and URLs")).into()
            }
            other => other,
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<deeplink_core::error::Invalid> for Failure {
    fn from(invalid: deeplink_core::error::Invalid) -> Self {
        let failure = Self::invalid(invalid.message).code(invalid.code.as_str().to_owned());
        match invalid.field {
            Some(field) => failure.field(field),
            None => failure,
        }
    }
}

impl From<deeplink_core::error::Invalid> for Stop {
    fn from(invalid: deeplink_core::error::Invalid) -> Self {
        Failure::from(invalid).into()
    }
}
