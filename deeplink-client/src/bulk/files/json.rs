//! Rows of JSON: one object a line (JSONL), a list of objects, or the bodies of a bulk create.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::CreateLink;
use deeplink_core::metadata::Metadata;
use serde::de::DeserializeOwned;

use super::Mapping;
use super::cells::{Draft, members};
use super::fields::{Field, OWNER_END, fold, unknown};
use super::foreign::{Cell, Foreign, Found, Member, Role, flatten};
use super::input::{Input, Reader};
use super::layout::{Layout, Place, expect_end};
use super::records::{MAX_RECORD, not_utf8};
use super::scan::{Scanned, Scanner};
use crate::bulk::{Row, RowFault, SourceError, SourceRow};

/// The rows of a JSON file.
pub(super) struct ListRows {
    json: Scanner,
    objects: Objects,
    template: Option<Arc<CreateLink>>,
    place: Place,
    next: u64,
    state: ListState,
}

#[derive(PartialEq, Eq)]
enum ListState {
    Before,
    Inside,
    End,
}

impl ListRows {
    pub(super) fn new(input: &Input, layout: &Layout, mapping: &Arc<Mapping>) -> Self {
        let (position, place, template) = match layout {
            Layout::Links(position, place) => (*position, *place, None),
            Layout::Ids(template, position) => (*position, Place::Inside, Some(Arc::clone(template))),
        };
        let json = Scanner::new(input.from(position.at), position);
        Self { json, objects: Objects::new(mapping), template, place, next: 0, state: ListState::Before }
    }

    /// The next element, if there is one.
    fn element(&mut self) -> Result<Option<Scanned>, SourceError> {
        if self.state == ListState::Before {
            self.json.expect(b'[', "a list")?;
            self.state = ListState::Inside;
            if self.json.take(b']')? {
                return self.end();
            }
        } else if self.json.take(b']')? {
            return self.end();
        } else {
            self.json.expect(b',', "',' or ']'")?;
        }
        self.json.value().map(Some)
    }

    fn end(&mut self) -> Result<Option<Scanned>, SourceError> {
        self.state = ListState::End;
        if self.place == Place::Top {
            expect_end(&mut self.json)?;
        }
        if let Some(foreign) = &self.objects.mapping.foreign {
            foreign.note_end(self.next);
        }
        Ok(None)
    }

    /// The row of an element, if it is one.
    fn row(&mut self, found: &Scanned) -> Option<SourceRow> {
        let line = self.next;
        self.next += 1;
        let position = found.position;
        let whole = |message: String| {
            let message = format!("{message} (line {}, column {})", position.line, position.column);
            let invalid = Invalid::whole(ErrorCode::BadRequest, message);
            Some(SourceRow::Fault(RowFault::new(line, position.at, None, invalid)))
        };
        let Some(text) = &found.text else { return whole("the element is longer than 1 MiB".to_owned()) };
        if let Some(template) = &self.template {
            return match serde_json::from_str::<String>(text) {
                Ok(id) => Some(SourceRow::Row(Row::new(line, position.at, Some(id), Arc::clone(template)))),
                Err(_) => whole("an ID must be a string".to_owned()),
            };
        }
        match self.objects.row(text, line, position.at) {
            Ok(row) => row.map(SourceRow::Row),
            Err(fault) => {
                let mut invalid = fault.invalid;
                if let Some((down, right)) = fault.position {
                    let column = if down == 1 { position.column + right - 1 } else { right };
                    invalid.message =
                        format!("{} (line {}, column {column})", invalid.message, position.line + down - 1);
                }
                Some(SourceRow::Fault(RowFault::new(line, position.at, fault.id, invalid)))
            }
        }
    }
}

impl Iterator for ListRows {
    type Item = Result<SourceRow, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.state != ListState::End {
            match self.element() {
                Ok(found) => {
                    if let Some(row) = self.row(&found?) {
                        return Some(Ok(row));
                    }
                }
                Err(error) => {
                    self.state = ListState::End;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The rows of a JSONL file.
pub(super) struct LineRows {
    input: BufReader<Reader>,
    objects: Objects,
    text: Vec<u8>,
    at: u64,
    line: u64,
    failed: bool,
}

impl LineRows {
    pub(super) fn new(input: &Input, mapping: &Arc<Mapping>) -> Self {
        let input = BufReader::with_capacity(1 << 16, input.from(0));
        Self { input, objects: Objects::new(mapping), text: Vec::new(), at: 0, line: 0, failed: false }
    }

    /// Reads a line of up to this many bytes; a longer one is skipped. `false` at the end of the input.
    fn read_line(&mut self) -> Result<Option<(u64, bool)>, SourceError> {
        let at = self.at;
        self.text.clear();
        let most = MAX_RECORD as u64 + 2;
        let mut read = self.input.by_ref().take(most).read_until(b'\n', &mut self.text)? as u64;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        let too_long = read == most && self.text.last() != Some(&b'\n');
        if too_long {
            read += self.input.skip_until(b'\n')? as u64;
        }
        self.at += read;
        Ok(Some((at, too_long)))
    }

    fn next_row(&mut self) -> Result<Option<SourceRow>, SourceError> {
        loop {
            let Some((at, too_long)) = self.read_line()? else { return Ok(None) };
            let line = self.line;
            let fault = |invalid, id| RowFault::new(line, at, id, invalid);
            if too_long {
                let invalid = Invalid::whole(ErrorCode::BadRequest, "the line is longer than 1 MiB");
                return Ok(Some(SourceRow::Fault(fault(invalid, None))));
            }
            let bytes =
                if at == 0 { self.text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.text) } else { &self.text };
            let text = std::str::from_utf8(bytes).map_err(|wrong| {
                let before = String::from_utf8_lossy(&bytes[..wrong.valid_up_to()]);
                not_utf8(line, before.chars().count() as u64 + 1)
            })?;
            let text = text.trim_end_matches(['\n', '\r']);
            if text.trim().is_empty() {
                continue;
            }
            return Ok(Some(match self.objects.row(text, line, at) {
                Ok(Some(row)) => SourceRow::Row(row),
                Ok(None) => continue,
                Err(wrong) => {
                    let fault = fault(wrong.invalid, wrong.id);
                    SourceRow::Fault(
                        wrong.position.into_iter().fold(fault, |fault, (_, column)| fault.at_column(column)),
                    )
                }
            }));
        }
    }
}

impl Iterator for LineRows {
    type Item = Result<SourceRow, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let row = self.next_row().transpose();
        self.failed = matches!(row, Some(Err(_)));
        row
    }
}

/// Why an object is not a row: the rule, and line and column inside the text if known.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) invalid: Invalid,
    id: Option<String>,
    position: Option<(u64, u64)>,
}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Self {
        Self { invalid, id: None, position: None }
    }
}

/// Makes links from JSON objects.
pub(super) struct Objects {
    mapping: Arc<Mapping>,
    /// Names of keys that were looked up before.
    known: HashMap<String, Option<Field>>,
    /// The same for an export of another service.
    roles: HashMap<String, Option<Role>>,
    /// The last object without its id, and the link it made.
    cells: Vec<u8>,
    last: Option<(Vec<u8>, Arc<CreateLink>)>,
}

impl Objects {
    pub(super) fn new(mapping: &Arc<Mapping>) -> Self {
        Self {
            mapping: Arc::clone(mapping),
            known: HashMap::new(),
            roles: HashMap::new(),
            cells: Vec::new(),
            last: None,
        }
    }

    fn field(&mut self, key: &str) -> Option<Field> {
        if let Some(field) = self.known.get(key) {
            return field.clone();
        }
        let field = self.mapping.field(key).or_else(|| Field::named(key, true));
        if self.known.len() < 256 {
            self.known.insert(key.to_owned(), field.clone());
        }
        field
    }

    /// The row of an object, if it is one.
    fn row(&mut self, text: &str, line: u64, at: u64) -> Result<Option<Row>, Fault> {
        let Some(foreign) = self.mapping.foreign.clone() else {
            return self.shared(text).map(|(id, link)| Some(Row::new(line, at, id, link)));
        };
        let found = self.foreign(&foreign, line, text)?;
        Ok(found.map(|found| Row::new(line, at, found.id, Arc::new(found.link)).keyed(found.key)))
    }

    /// As [`Objects::link`]; objects that differ only in their id share the link.
    fn shared(&mut self, text: &str) -> Result<(Option<String>, Arc<CreateLink>), Fault> {
        let members = parse(text)?;
        self.cells.clear();
        let (mut id, mut ids) = (None, 0);
        for (key, value) in &members {
            if self.field(key) == Some(Field::CustomId) {
                id = serde_json::from_str::<Option<String>>(value.get()).ok().flatten();
                ids += 1;
                continue;
            }
            for part in [key.as_bytes(), value.get().as_bytes()] {
                self.cells.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
                self.cells.extend_from_slice(part);
            }
        }
        if let Some((cells, link)) = &self.last
            && (ids, cells) == (1, &self.cells)
            && id.is_some()
        {
            return Ok((id, Arc::clone(link)));
        }
        let (id, link) = self.link(text).map_err(|fault| Fault { id: fault.id.or(id), ..fault })?;
        let link = Arc::new(link);
        self.last = Some((self.cells.clone(), Arc::clone(&link)));
        Ok((id, link))
    }

    /// What another service's object says; its nested members are columns such as `meta.validUntil`.
    fn foreign(&mut self, foreign: &Foreign, line: u64, text: &str) -> Result<Option<Found>, Fault> {
        let mapping = Arc::clone(&self.mapping);
        let mut values = Vec::new();
        for (key, value) in parse(text)? {
            let value = serde_json::from_str(value.get()).map_err(|_| {
                Invalid::whole(ErrorCode::BadRequest, format!("\"{}\" is not valid JSON", key.escape_debug()))
            })?;
            flatten(key, value, &mut values);
        }
        let mut cells = Vec::with_capacity(values.len());
        for (column, Member { name, text, items }) in values.iter().enumerate() {
            let role = self.role(foreign, name, &mapping);
            cells.push(Cell { column, name, role, text: text.as_str().into(), items });
        }
        foreign.link(&mapping, line, &cells).map_err(|refused| Fault {
            invalid: refused.invalid,
            id: refused.id,
            position: None,
        })
    }

    fn role(&mut self, foreign: &Foreign, name: &str, mapping: &Mapping) -> Option<Role> {
        if let Some(role) = self.roles.get(name) {
            return role.clone();
        }
        let role = foreign.role(name, mapping);
        if self.roles.len() < 256 {
            self.roles.insert(name.to_owned(), role.clone());
        }
        role
    }

    /// The id and the link of an object.
    pub(super) fn link(&mut self, text: &str) -> Result<(Option<String>, CreateLink), Fault> {
        let members = parse(text)?;
        let mut fields: Vec<(Field, &str)> = Vec::with_capacity(members.len());
        let short_url = members.iter().any(|(key, _)| matches!(fold(key).as_str(), "linkid" | "weburl"));
        let owner_end = members.iter().any(|(key, _)| fold(key) == OWNER_END);
        for (key, value) in &members {
            let field = match self.field(key) {
                Some(Field::ExpiresAt) if owner_end && fold(key) != OWNER_END => Field::Ignored,
                Some(Field::WebUrl) if short_url && fold(key) == "url" => Field::Ignored,
                Some(field) => field,
                None if self.mapping.ignore_unknown => Field::Ignored,
                None => return Err(Invalid::whole(ErrorCode::BadRequest, unknown("field", key)).into()),
            };
            if field != Field::Ignored && fields.iter().any(|(other, _)| *other == field) {
                return Err(Invalid::whole(ErrorCode::BadRequest, format!("duplicate field {field}")).into());
            }
            fields.push((field, value.get()));
        }
        let mapping = Arc::clone(&self.mapping);
        let (mut draft, mut id) = (Draft::new(&mapping.template), None);
        for (field, json) in fields {
            match field {
                Field::Ignored => {}
                Field::CustomId => id = typed::<String>(&field, json, "a string")?,
                Field::Enabled => draft.enabled(typed::<bool>(&field, json, "true or false")?),
                Field::Tags => draft.tags(typed::<Vec<String>>(&field, json, "an array of strings")?),
                Field::Aliases => draft.aliases(typed::<Vec<String>>(&field, json, "an array of strings")?),
                Field::Qr => draft.qr(typed(&field, json, "an object")?),
                Field::ImportedClicks => draft.imported_clicks(typed::<i64>(&field, json, "a whole number")?),
                Field::Metadata => draft.metadata(typed::<Metadata>(&field, json, "JSON")?),
                Field::AgentContext => draft.agent_context(typed(&field, json, "an object of strings")?),
                Field::SocialPreview => draft.social_preview(typed(&field, json, "an object of strings")?),
                Field::MetaKey(key, _) => draft.meta_json(&key, json),
                field => draft.apply(&field, typed::<String>(&field, json, "a string")?.as_deref())?,
            }
        }
        Ok((id, mapping.finish(draft)?))
    }
}

fn parse(text: &str) -> Result<Vec<(String, &serde_json::value::RawValue)>, Fault> {
    members(text).map_err(|why| {
        let message = why.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        let (line, column) = (why.line(), why.column());
        let before = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        // The parser counts bytes.
        let column = before.char_indices().take_while(|(at, _)| *at + 1 < column).count() + 1;
        let invalid = Invalid::whole(ErrorCode::BadRequest, format!("not a JSON object: {message}"));
        Fault { invalid, id: None, position: Some((line as u64, column as u64)) }
    })
}

/// A value that may be null.
fn typed<T: DeserializeOwned>(field: &Field, json: &str, what: &str) -> Result<Option<T>, Invalid> {
    serde_json::from_str(json).map_err(|_| {
        Invalid::field(ErrorCode::BadRequest, field.to_string(), format!("{field} must be {what} or null"))
    })
}
