//! The API reference, read from the OpenAPI document.

use deeplink_core::error::ErrorCode;
use serde_json::Value;

use super::markdown;
use super::operation::{Operation, Reader};
use super::schema::{Field, Object, Schemas};

/// The operations with a tag.
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) title: String,
    /// A few words on what the operations do.
    pub(super) about: String,
    pub(super) operations: Vec<Operation>,
    /// What the service posts to the servers of its users.
    pub(super) events: Vec<Operation>,
    /// The objects that the fields of both refer to.
    pub(super) objects: Vec<Object>,
}

impl Tag {
    pub(super) fn path(&self) -> String {
        format!("/docs/reference/{}", self.name)
    }

    /// The operations, then the events.
    pub(super) fn all(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter().chain(&self.events)
    }
}

/// The error object, the objects that its fields refer to, and the codes.
pub(super) struct Errors {
    pub(super) fields: Vec<Field>,
    pub(super) objects: Vec<Object>,
    pub(super) codes: Vec<Code>,
}

/// An error code.
pub(super) struct Code {
    pub(super) name: &'static str,
    pub(super) status: u16,
    /// What it means, as text and as HTML.
    pub(super) words: String,
    pub(super) about: String,
}

pub(super) fn errors(document: &Value) -> Errors {
    let schemas = Schemas(&document["components"]["schemas"]);
    let body = &document["components"]["schemas"]["ErrorBody"];
    let mut names = Vec::new();
    schemas.collect(body, &mut names);
    let code = |code: &'static ErrorCode| {
        let meaning = code.meaning().unwrap_or_default();
        let (words, about) = (meaning.replace('`', ""), markdown::line(meaning));
        Code { name: code.as_str(), status: code.status().unwrap_or_default(), words, about }
    };
    let codes = ErrorCode::ALL.iter().map(code).collect();
    Errors { fields: schemas.fields(body), objects: schemas.objects(names), codes }
}

/// All operations, by tag, in the order of the document's tags.
pub(super) fn tags(document: &Value) -> Vec<Tag> {
    let tags = document["tags"].as_array().into_iter().flatten();
    tags.filter_map(|tag| Some(self::tag(document, tag["name"].as_str()?, tag["description"].as_str()?))).collect()
}

fn tag(document: &Value, name: &str, about: &str) -> Tag {
    let (reader, mut names) = (Reader::new(document), Vec::new());
    let (mut operations, mut events) = (Vec::new(), Vec::new());
    for (path, method, operation) in reader.tagged("paths", name) {
        reader.collect(operation, &mut names);
        operations.push(reader.operation(method, path, operation));
    }
    for (kind, method, event) in reader.tagged("webhooks", name) {
        reader.collect(event, &mut names);
        events.push(reader.event(method, kind, event));
    }
    let (name, title) = (name.to_owned(), title(name));
    Tag { name, title, about: about.to_owned(), operations, events, objects: reader.schemas.objects(names) }
}

fn title(tag: &str) -> String {
    match tag {
        "qr-logos" => "QR logos".to_owned(),
        "sdk" => "Web SDK".to_owned(),
        _ => tag[..1].to_uppercase() + &tag[1..],
    }
}
