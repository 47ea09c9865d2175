//! The outer structure of a JSON file: where its list of rows is.

use std::sync::Arc;

use deeplink_core::link::CreateLink;

use super::Mapping;
use super::foreign::Foreign;
use super::input::Input;
use super::json::{Fault, Objects};
use super::scan::{Position, Scanner};
use crate::bulk::SourceError;

/// Where the rows of a JSON file are.
#[derive(Debug, Clone)]
pub(super) enum Layout {
    /// A list of objects that begins here.
    Links(Position, Place),
    /// A template, and a list of ids that begins here.
    Ids(Arc<CreateLink>, Position),
}

/// Where a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the whole input.
    Top,
    /// In an object, which was read to the end of the input.
    Inside,
}

impl Layout {
    /// Determines the outer structure of a JSON file.
    pub(super) fn read(input: &Input, mapping: &Arc<Mapping>) -> Result<Self, SourceError> {
        let mut json = Scanner::new(input.from(0), Position::START);
        json.skip_mark()?;
        if let Some(foreign) = &mapping.foreign {
            let path = foreign.json_path().map_err(SourceError::new)?;
            return Self::read_foreign(json, path, input, foreign);
        }
        match json.token()? {
            Some(b'[') => Ok(Self::Links(json.position, Place::Top)),
            Some(b'{') => Self::read_object(&mut json, mapping),
            None => Err(json.position.wrong("the input is empty")),
            Some(_) => Err(json.unexpected("a list or an object")),
        }
    }

    /// Finds another service's list of links: at the top, or where these keys lead.
    fn read_foreign(mut json: Scanner, path: &[&str], input: &Input, foreign: &Foreign) -> Result<Self, SourceError> {
        let begin = json.position;
        if json.token()? == Some(b'[') {
            return Ok(Self::Links(json.position, Place::Top));
        }
        for (depth, key) in path.iter().enumerate() {
            let mut found = None;
            read_members(&mut json, "a list or an object", |json, name, _| {
                match name {
                    name if name == *key => found = Some(json.skip()?),
                    "pagination" => note_pages(json.value()?.text.as_deref().unwrap_or_default(), foreign),
                    _ => drop(json.skip()?),
                }
                Ok(())
            })?;
            if depth == 0 {
                expect_end(&mut json)?;
            }
            let Some(position) = found else { break };
            json = Scanner::new(input.from(position.at), position);
        }
        if json.token()? == Some(b'[') {
            return Ok(Self::Links(json.position, Place::Inside));
        }
        let keys = path.join(".");
        let or = if keys.is_empty() { String::new() } else { format!(", or an object with one in {keys}") };
        Err(begin.wrong(format!("the input must be a list of links{or}")))
    }

    fn read_object(json: &mut Scanner, mapping: &Arc<Mapping>) -> Result<Self, SourceError> {
        const FORMS: &str = "a list of links, or an object with `links`, or one with `template` and `custom_ids`";
        let (mut template, mut links, mut ids) = (None, None, None);
        let begin = json.position;
        read_members(json, "'{'", |json, name, position| {
            match name {
                "template" => template = Some(json.value()?),
                "links" => links = Some(json.skip()?),
                "custom_ids" => ids = Some(json.skip()?),
                _ if mapping.ignore_unknown => drop(json.skip()?),
                _ => {
                    return Err(
                        position.wrong(format!("unexpected \"{}\": the input must be {FORMS}", name.escape_debug()))
                    );
                }
            }
            Ok(())
        })?;
        expect_end(json)?;
        match (template, links, ids) {
            (None, Some(links), None) => Ok(Self::Links(links, Place::Inside)),
            (Some(template), None, Some(ids)) => {
                let link = Objects::new(mapping).link(template.text.as_deref().unwrap_or_default());
                let wrong = |fault: Fault| template.position.wrong(format!("template: {}", fault.invalid.message));
                Ok(Self::Ids(Arc::new(link.map_err(wrong)?.1), ids))
            }
            _ => Err(begin.wrong(format!("the input must be {FORMS}"))),
        }
    }
}

/// Reads an object; the closure reads the value of each member, whose name and position it gets.
fn read_members(
    json: &mut Scanner,
    what: &str,
    mut member: impl FnMut(&mut Scanner, &str, Position) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    json.expect(b'{', what)?;
    while json.token()? != Some(b'}') {
        let (name, position) = key_of(json)?;
        member(json, &name, position)?;
        if !json.take(b',')? && json.token()? != Some(b'}') {
            return Err(json.unexpected("',' or '}'"));
        }
    }
    json.expect(b'}', "'}'")
}

pub(super) fn expect_end(json: &mut Scanner) -> Result<(), SourceError> {
    if json.token()?.is_some() { Err(json.unexpected("the end of the input")) } else { Ok(()) }
}

/// The next key of an object, and its position.
fn key_of(json: &mut Scanner) -> Result<(String, Position), SourceError> {
    let key = json.value()?;
    let name = serde_json::from_str::<String>(key.text.as_deref().unwrap_or_default());
    let name = name.map_err(|_| key.position.wrong("expected a key in quotes"))?;
    json.expect(b':', "':'")?;
    Ok((name, key.position))
}

/// Notes that a list is not the only page.
fn note_pages(pagination: &str, foreign: &Foreign) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Pagination {
        #[serde(default = "first")]
        current_page: u64,
        pages_count: u64,
    }
    fn first() -> u64 {
        1
    }
    if let Ok(pages) = serde_json::from_str::<Pagination>(pagination) {
        foreign.note_page(pages.current_page, pages.pages_count);
    }
}
