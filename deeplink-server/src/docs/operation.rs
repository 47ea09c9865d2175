//! The operations of the OpenAPI document, and the events that it describes.

use deeplink_core::routes::{self, Credential};
use http::StatusCode;
use serde_json::Value;

use super::example;
use super::markdown;
use super::schema::{Field, Schemas, restrictions, words};

/// An operation, or an event that is posted. Its texts are HTML, except for the names in a request.
pub(super) struct Operation {
    /// The operation's name, which is also its anchor.
    pub(super) id: String,
    pub(super) method: String,
    /// The path; the kind of an event.
    pub(super) path: String,
    /// What it does, as text and as HTML.
    pub(super) heading: String,
    pub(super) summary: String,
    pub(super) about: String,
    /// Who may call it; `None` for an event.
    pub(super) callers: Option<&'static str>,
    pub(super) can_be_paid: bool,
    pub(super) parameters: Vec<Field>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Answer>,
    /// A shell command; the body of an event.
    pub(super) example: Option<String>,
    /// Everything that a search looks at.
    pub(super) words: String,
}

/// The body of a request.
pub(super) struct Body {
    pub(super) is_required: bool,
    pub(super) media_types: Vec<String>,
    pub(super) fields: Vec<Field>,
}

/// A response.
pub(super) struct Answer {
    pub(super) status: String,
    pub(super) reason: &'static str,
    pub(super) about: String,
    /// The type of a successful response's body.
    pub(super) kind: String,
    pub(super) headers: Vec<Header>,
}

/// A header of a response.
pub(super) struct Header {
    pub(super) name: String,
    /// May be empty.
    pub(super) about: String,
}

/// Reads operations.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    document: &'a Value,
    pub(super) schemas: Schemas<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document, schemas: Schemas(&document["components"]["schemas"]) }
    }

    /// What a part of the document refers to, or the part itself.
    fn resolved(self, part: &'a Value) -> &'a Value {
        let target = part["$ref"].as_str().and_then(|path| self.document.pointer(path.trim_start_matches('#')));
        target.unwrap_or(part)
    }

    /// The operations with a tag in a section of the document, each with its path and method.
    pub(super) fn tagged(self, section: &str, tag: &str) -> impl Iterator<Item = (&'a str, &'a str, &'a Value)> {
        let items = self.document[section].as_object().into_iter().flatten();
        let operations = items.flat_map(|(path, item)| {
            let operations = item.as_object().into_iter().flatten();
            operations.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
        });
        operations.filter(move |(_, _, operation)| operation["tags"][0] == tag)
    }

    fn parameters(self, operation: &'a Value) -> impl Iterator<Item = &'a Value> {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.map(move |parameter| self.resolved(parameter))
    }

    fn responses(self, operation: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let responses = operation["responses"].as_object().into_iter().flatten();
        responses.map(move |(status, response)| (status.as_str(), self.resolved(response)))
    }

    /// Adds the names of the schemas that an operation refers to, except that of its body, which is shown in its place.
    pub(super) fn collect(self, operation: &'a Value, names: &mut Vec<&'a str>) {
        for (_, schema) in media_types(self.resolved(&operation["requestBody"])) {
            self.schemas.collect_inside(schema, names);
        }
        self.parameters(operation).for_each(|parameter| self.schemas.collect(parameter, names));
        let successes = self.responses(operation).filter(|(status, _)| is_success(status));
        for (_, schema) in successes.flat_map(|(_, response)| media_types(response)) {
            self.schemas.collect(schema, names);
        }
    }

    pub(super) fn operation(self, method: &str, path: &str, operation: &'a Value) -> Operation {
        let read = self.event(method, path, operation);
        let credential = routes::ALL.iter().find(|route| route.operation == read.id);
        let credential = credential.map_or(Credential::Public, |route| route.credential);
        let security = operation["security"].as_array();
        let parameters: Vec<_> = self.parameters(operation).collect();
        let body = media_types(self.resolved(&operation["requestBody"])).next();
        Operation {
            callers: Some(callers(credential)),
            can_be_paid: security.is_some_and(|schemes| schemes.iter().any(|scheme| !scheme["x402"].is_null())),
            example: example::command(self.schemas, (&read.method, path), &parameters, body, credential),
            ..read
        }
    }

    /// What is posted when something happens; an operation without its credential.
    pub(super) fn event(self, method: &str, path: &str, event: &'a Value) -> Operation {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let (summary, more) = text("summary").split_once(". ").unwrap_or((text("summary"), ""));
        let about = format!("{more}\n\n{}", text("description"));
        let parameters: Vec<_> = self.parameters(event).map(|parameter| field(self.schemas, parameter)).collect();
        let request = self.resolved(&event["requestBody"]);
        let types: Vec<_> = media_types(request).collect();
        let body = types.first().map(|(_, schema)| Body {
            is_required: request["required"] == true,
            media_types: types.iter().map(|(name, _)| (*name).to_owned()).collect(),
            fields: self.schemas.fields(schema),
        });
        let fields = words(body.iter().flat_map(|body| &body.fields).chain(&parameters));
        let answers: Vec<_> =
            self.responses(event).map(|(status, response)| answer(self.schemas, status, response)).collect();
        let statuses =
            answers.iter().map(|answer| format!("{} {}", answer.status, answer.reason)).collect::<Vec<_>>().join(" ");
        let method = method.to_uppercase();
        Operation {
            id: text("operationId").to_owned(),
            heading: summary.trim_end_matches('.').replace('`', ""),
            summary: markdown::line(summary.trim_end_matches('.')),
            callers: None,
            can_be_paid: false,
            words: format!("{method} {path} {} {} {fields} {statuses}", text("operationId"), about.replace('`', "")),
            about: markdown::text(&about),
            answers,
            example: serde_json::to_string_pretty(&request["content"]["application/json"]["example"]).ok(),
            path: path.to_owned(),
            method,
            parameters,
            body,
        }
    }
}

fn is_success(status: &str) -> bool {
    status.starts_with('2')
}

/// The media types of a body, with their schemas.
fn media_types(message: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let types = message["content"].as_object().into_iter().flatten();
    types.map(|(name, content)| (name.as_str(), &content["schema"]))
}

fn field(schemas: Schemas<'_>, parameter: &Value) -> Field {
    let text = |name: &str| parameter[name].as_str().unwrap_or_default();
    let mut limits = schemas.limits(&parameter["schema"], text("description"));
    limits.extend(restrictions(parameter, text("description")));
    Field {
        name: text("name").to_owned(),
        place: text("in").to_owned(),
        kind: schemas.kind(&parameter["schema"]),
        is_required: parameter["required"] == true,
        about: markdown::line(text("description")),
        limits: markdown::line(&limits.join("; ")),
        words: schemas.words(text("name"), &parameter["schema"], text("description")),
    }
}

fn callers(credential: Credential) -> &'static str {
    match credential {
        Credential::SecretKey => "an account’s secret key",
        Credential::LinkWriter => "an account’s secret key, or an affiliate’s credential",
        Credential::SdkKey => "a publishable key, or an account’s secret key",
        Credential::PublishableKey => "a publishable key",
        Credential::Session => "the session cookie of a signed-in user",
        Credential::Browser => "none; for browsers, not for API clients",
        Credential::Processor => "a signature from the payment processor",
        _ => "none",
    }
}

fn answer(schemas: Schemas<'_>, status: &str, response: &Value) -> Answer {
    let kinds = media_types(response).filter(|_| is_success(status)).map(|(name, schema)| match name {
        "application/json" => schemas.kind(schema),
        name => format!("<code>{name}</code>"),
    });
    let headers = response["headers"].as_object().into_iter().flatten().map(|(name, header)| Header {
        name: name.clone(),
        about: markdown::line(header["description"].as_str().unwrap_or_default()),
    });
    Answer {
        reason: status.parse().ok().and_then(|code: StatusCode| code.canonical_reason()).unwrap_or_default(),
        about: markdown::line(response["description"].as_str().unwrap_or_default()),
        kind: kinds.collect::<Vec<_>>().join(", "),
        status: status.to_owned(),
        headers: headers.collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_operation_refers_to_is_shown() {
        let limit = json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 50});
        let document = json!({
            "paths": {"/a": {"get": {
                "tags": ["a"], "operationId": "a", "summary": "Does it.",
                "parameters": [{"$ref": "#/components/parameters/Limit"}],
                "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
                "responses": {"200": {"$ref": "#/components/responses/Done"}},
            }}},
            "components": {
                "parameters": {"Limit": {
                    "name": "limit", "in": "query", "description": "How many", "deprecated": true, "schema": limit,
                }},
                "responses": {"Done": {"description": "Done", "headers": {
                    "ETag": {}, "Link": {"description": "The `next` page"},
                }}},
            },
        });
        let reader = Reader::new(&document);
        let (path, method, operation) = reader.tagged("paths", "a").next().expect("an operation");
        let read = reader.operation(method, path, operation);
        let [parameter] = &read.parameters[..] else { panic!("one parameter") };
        assert_eq!((&*parameter.name, &*parameter.about), ("limit", "How many"));
        assert_eq!(parameter.limits, "default <code>50</code>; 1 to 100; deprecated");
        assert!(!read.body.expect("a body").is_required);
        let [answer] = &read.answers[..] else { panic!("one response") };
        let headers: Vec<_> = answer.headers.iter().map(|header| (&*header.name, &*header.about)).collect();
        assert_eq!(answer.about, "Done");
        assert_eq!(headers, [("ETag", ""), ("Link", "The <code>next</code> page")]);
    }
}
