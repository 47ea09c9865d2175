//! Rows as every pass reads them: validated, each with the names that it gives its link.

use std::borrow::Cow;
use std::sync::Arc;

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{Alias, CreateLink, MAX_ALIASES, check_custom_id, check_not_own};

use super::source::{RowFault, RowSource, Rows, SourceError, SourceRow};
use super::template::{Prepared, Templates, derived_id, keyed_id};

/// What a row calls its link. IDs and aliases share one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Id,
    /// An alias, by its index in the row's list.
    Alias(usize),
}

impl Name {
    /// The fault of a row with a name that an earlier row has.
    pub(crate) fn refuse(self, message: impl Into<String>) -> Invalid {
        match self {
            Self::Id => Invalid::field(ErrorCode::DuplicateCustomIdInBatch, "custom_id", message),
            Self::Alias(index) => Invalid::field(ErrorCode::AliasTaken, format!("aliases[{index}]"), message),
        }
    }

    /// The same, naming the earlier row: as which name it has this one, and where it is.
    pub(crate) fn refuse_after(self, text: &str, earlier: Self, reference: &str) -> Invalid {
        self.refuse(match (self, earlier) {
            (Self::Id, Self::Id) => format!("also {reference}"),
            (Self::Id, Self::Alias(_)) => format!("also an alias {reference}"),
            (Self::Alias(_), Self::Id) => format!("\"{text}\" is also the ID {reference}"),
            (Self::Alias(_), Self::Alias(_)) => format!("\"{text}\" is also an alias {reference}"),
        })
    }
}

/// A row that was read, and whether it may be sent.
pub(crate) struct Judged {
    /// Position in the source, from 0.
    pub(crate) row: u64,
    pub(crate) line: u64,
    pub(crate) at: u64,
    /// The id it names, or the one made for it.
    pub(crate) id: Option<String>,
    pub(crate) is_made: bool,
    /// Its content, if it could be read.
    link: Option<Arc<CreateLink>>,
    pub(crate) verdict: Result<Arc<Prepared>, RowFault>,
}

impl Judged {
    /// Its ID and its aliases, as they are stored, each once.
    pub(crate) fn names(&self) -> impl Iterator<Item = (Name, Cow<'_, str>)> {
        let texts = self.link.iter().flat_map(|link| link.aliases.iter().flatten()).take(MAX_ALIASES);
        let mut aliases: Vec<(Name, Alias)> = Vec::new();
        for (index, text) in texts.enumerate() {
            if let Ok(alias) = Alias::parse(text)
                && aliases.iter().all(|(_, known)| *known != alias)
            {
                aliases.push((Name::Alias(index), alias));
            }
        }
        let id = self.id.as_deref().map(|id| (Name::Id, Cow::Borrowed(id)));
        id.into_iter().chain(aliases.into_iter().map(|(name, alias)| (name, Cow::Owned(alias.into_text()))))
    }

    /// Whether a name is an ID that was made for it: another one is tried if it is taken.
    pub(crate) fn has_made(&self, name: Name) -> bool {
        self.is_made && name == Name::Id
    }

    /// Its fault because of a name that an earlier row has.
    pub(crate) fn fault(&self, invalid: Invalid) -> RowFault {
        RowFault::new(self.line, self.at, self.id.clone().filter(|_| !self.is_made), invalid)
    }
}

/// Reads a source and validates its rows, with the same results in every pass.
pub(crate) struct Judge<'a> {
    rows: Rows,
    templates: Templates,
    salt: Option<&'a str>,
    next: u64,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(source: &dyn RowSource, salt: Option<&'a str>) -> Result<Self, SourceError> {
        Ok(Self { rows: source.rows()?, templates: Templates::new(), salt, next: 0 })
    }

    fn judge(&mut self, row: SourceRow) -> Judged {
        let number = self.next;
        self.next += 1;
        let row = match row {
            SourceRow::Fault(fault) => {
                let (line, at, id) = (fault.line, fault.at, fault.id.clone());
                return Judged { row: number, line, at, id, is_made: false, link: None, verdict: Err(fault) };
            }
            SourceRow::Row(row) => row,
        };
        let aliases = row.template.aliases.as_deref().unwrap_or_default();
        let own = match &row.id {
            Some(id) => check_custom_id(id),
            None if self.salt.is_some() => Ok(()),
            None => Err(Invalid::field(ErrorCode::InvalidCustomId, "custom_id", "the row has no ID")),
        };
        let verdict = own.and_then(|()| self.templates.prepare(&row.template));
        let verdict = verdict.and_then(|prepared| {
            check_not_own(aliases, row.id.as_deref().unwrap_or_default())?;
            Ok(prepared)
        });
        let made = match (&row.id, &verdict, self.salt) {
            (None, Ok(template), Some(salt)) => Some(match &row.key {
                Some(key) => keyed_id(salt, key),
                None => derived_id(salt, template, number, 0),
            }),
            _ => None,
        };
        // An ID derived from a key counts as given in the row: if it is taken, no other is tried.
        let is_made = made.is_some() && row.key.is_none();
        let verdict = verdict.map_err(|invalid| RowFault::new(row.line, row.at, row.id.clone(), invalid));
        let (id, link) = (row.id.or(made), Some(row.template));
        Judged { row: number, line: row.line, at: row.at, id, is_made, link, verdict }
    }
}

impl Iterator for Judge<'_> {
    type Item = Result<Judged, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some(row.map(|row| self.judge(row)))
    }
}
