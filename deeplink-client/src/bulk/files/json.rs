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
use super::foreign::{Cell, Foreign, Role};
use super::input::{Input, Reader};
use super::records::{MAX_RECORD, not_utf8};
use super::scan::{Position, Scanned, Scanner};
use crate::bulk::{Row, RowFault, SourceError, SourceRow};

/// Where the rows of a JSON file are.
#[derive(Debug, Clone)]
pub(super) enum Layout {
    /// A list of objects that begins here.
    Links(Position),
    /// A template, and a list of ids that begins here.
    Ids(Arc<CreateLink>, Position),
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
            Some(b'[') => Ok(Self::Links(json.position)),
            Some(b'{') => Self::read_object(&mut json, mapping),
            None => Err(json.position.wrong("the input is empty")),
            Some(_) => Err(json.unexpected("a list or an object")),
        }
    }

    /// Finds another service's list of links: at the top, or where these keys lead.
    fn read_foreign(mut json: Scanner, path: &[&str], input: &Input, foreign: &Foreign) -> Result<Self, SourceError> {
        let begin = json.position;
        if json.token()? == Some(b'[') {
            return Ok(Self::Links(json.position));
        }
        for key in path {
            let mut found = None;
            json.expect(b'{', "a list or an object")?;
            while json.token()? != Some(b'}') {
                let (name, _) = key_of(&mut json)?;
                match name.as_str() {
                    name if name == *key => found = Some(json.skip()?),
                    "pagination" => note_pages(json.value()?.text.as_deref().unwrap_or_default(), foreign),
                    _ => drop(json.skip()?),
                }
                if !json.take(b',')? && json.token()? != Some(b'}') {
                    return Err(json.unexpected("',' or '}'"));
                }
            }
            let Some(position) = found else { break };
            json = Scanner::new(input.from(position.at), position);
        }
        if json.token()? == Some(b'[') {
            return Ok(Self::Links(json.position));
        }
        let keys = path.join(".");
        let or = if keys.is_empty() { String::new() } else { format!(", or an object with one in {keys}") };
        Err(begin.wrong(format!("the input must be a list of links{or}")))
    }

    fn read_object(json: &mut Scanner, mapping: &Arc<Mapping>) -> Result<Self, SourceError> {
        const FORMS: &str = "a list of links, or an object with `links`, or one with `template` and `custom_ids`";
        let (mut template, mut links, mut ids) = (None, None, None);
        let begin = json.position;
        json.expect(b'{', "'{'")?;
        while json.token()? != Some(b'}') {
            let (name, position) = key_of(json)?;
            match name.as_str() {
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
            if !json.take(b',')? && json.token()? != Some(b'}') {
                return Err(json.unexpected("',' or '}'"));
            }
        }
        json.expect(b'}', "'}'")?;
        if json.token()?.is_some() {
            return Err(json.unexpected("the end of the input"));
        }
        match (template, links, ids) {
            (None, Some(links), None) => Ok(Self::Links(links)),
            (Some(template), None, Some(ids)) => {
                let link = Objects::new(mapping).link(template.text.as_deref().unwrap_or_default());
                let wrong = |fault: Fault| template.position.wrong(format!("template: {}", fault.invalid.message));
                Ok(Self::Ids(Arc::new(link.map_err(wrong)?.1), ids))
            }
            _ => Err(begin.wrong(format!("the input must be {FORMS}"))),
        }
    }
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
        current_page: u64,
        pages_count: u64,
    }
    if let Ok(pages) = serde_json::from_str::<Pagination>(pagination) {
        foreign.note_page(pages.current_page, pages.pages_count);
    }
}

/// The rows of a JSON file.
pub(super) struct ListRows {
    json: Scanner,
    objects: Objects,
    template: Option<Arc<CreateLink>>,
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
        let (position, template) = match layout {
            Layout::Links(position) => (*position, None),
            Layout::Ids(template, position) => (*position, Some(Arc::clone(template))),
        };
        let json = Scanner::new(input.from(position.at), position);
        Self { json, objects: Objects::new(mapping), template, next: 0, state: ListState::Before }
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
        // What follows a list inside an object was checked before.
        let rest = self.json.token()?;
        if matches!(rest, None | Some(b',' | b'}')) {
            Ok(None)
        } else {
            Err(self.json.unexpected("the end of the input"))
        }
    }

    fn row(&mut self, found: &Scanned) -> SourceRow {
        let line = self.next;
        self.next += 1;
        let position = found.position;
        let whole = |message: String| {
            let message = format!("{message} (line {}, column {})", position.line, position.column);
            SourceRow::Fault(RowFault::new(line, position.at, None, Invalid::whole(ErrorCode::BadRequest, message)))
        };
        let Some(text) = &found.text else { return whole("the element is longer than 1 MiB".to_owned()) };
        if let Some(template) = &self.template {
            return match serde_json::from_str::<String>(text) {
                Ok(id) => SourceRow::Row(Row::new(line, position.at, Some(id), Arc::clone(template))),
                Err(_) => whole("an ID must be a string".to_owned()),
            };
        }
        match self.objects.shared(text) {
            Ok((id, link)) => SourceRow::Row(Row::new(line, position.at, id, link)),
            Err(fault) => {
                let mut invalid = fault.invalid;
                if let Some((down, right)) = fault.position {
                    let column = if down == 1 { position.column + right - 1 } else { right };
                    invalid.message =
                        format!("{} (line {}, column {column})", invalid.message, position.line + down - 1);
                }
                SourceRow::Fault(RowFault::new(line, position.at, fault.id, invalid))
            }
        }
    }
}

impl Iterator for ListRows {
    type Item = Result<SourceRow, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == ListState::End {
            return None;
        }
        match self.element() {
            Ok(found) => found.map(|found| Ok(self.row(&found))),
            Err(error) => {
                self.state = ListState::End;
                Some(Err(error))
            }
        }
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
            return Ok(Some(match self.objects.shared(text) {
                Ok((id, link)) => SourceRow::Row(Row::new(line, at, id, link)),
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
    invalid: Invalid,
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

    /// As [`Objects::link`]; objects that differ only in their id share the link.
    fn shared(&mut self, text: &str) -> Result<(Option<String>, Arc<CreateLink>), Fault> {
        if let Some(foreign) = self.mapping.foreign.clone() {
            return self.foreign(&foreign, text).map(|(id, link)| (id, Arc::new(link)));
        }
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

    /// The id and the link of another service's object, whose nested members are columns such as `meta.validUntil`.
    fn foreign(&mut self, foreign: &Foreign, text: &str) -> Result<(Option<String>, CreateLink), Fault> {
        let mapping = Arc::clone(&self.mapping);
        let mut values = Vec::new();
        for (key, value) in parse(text)? {
            let value = serde_json::from_str(value.get()).map_err(|_| {
                Invalid::whole(ErrorCode::BadRequest, format!("\"{}\" is not valid JSON", key.escape_debug()))
            })?;
            flatten(key, value, &mut values);
        }
        let cells: Vec<Cell<'_>> = values
            .iter()
            .enumerate()
            .map(|(column, (name, text))| {
                let role = match self.roles.get(name) {
                    Some(role) => role.clone(),
                    None => {
                        let role = foreign.role(name, &mapping);
                        if self.roles.len() < 256 {
                            self.roles.insert(name.clone(), role.clone());
                        }
                        role
                    }
                };
                Cell { column, name, role, text: text.as_str().into() }
            })
            .collect();
        foreign.link(&mapping, &cells).map_err(|refused| Fault {
            invalid: refused.invalid,
            id: refused.id,
            position: None,
        })
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

/// A member as text under its name; those of an object under `name.member`, those of a list with commas between them.
fn flatten(name: String, value: serde_json::Value, values: &mut Vec<(String, String)>) {
    use serde_json::Value;
    match value {
        Value::Null => {}
        Value::String(text) => values.push((name, text)),
        Value::Object(members) => {
            members.into_iter().for_each(|(key, value)| flatten(format!("{name}.{key}"), value, values));
        }
        Value::Array(items) => {
            let text = |item: &Value| match item {
                Value::String(text) => text.clone(),
                // Dub's tags.
                Value::Object(members) => members.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
                other => other.to_string(),
            };
            values.push((name, items.iter().map(text).collect::<Vec<_>>().join(",")));
        }
        other => values.push((name, other.to_string())),
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
