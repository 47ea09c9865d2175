//! The API reference, read from the OpenAPI document.

use deeplink_core::error::ErrorCode;
use deeplink_core::routes::{self, Credential};
use http::StatusCode;
use serde_json::Value;

use super::markdown;
use super::schema::{Field, Object, Schemas};

/// The operations with a tag.
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) title: String,
    /// A few words on what the operations do.
    pub(super) about: String,
    pub(super) operations: Vec<Operation>,
    /// The objects that the operations' fields refer to.
    pub(super) objects: Vec<Object>,
}

impl Tag {
    pub(super) fn path(&self) -> String {
        format!("/docs/reference/{}", self.name)
    }
}

/// An operation. Its texts are HTML, except for the names in a request.
pub(super) struct Operation {
    /// The operation's name, which is also its anchor.
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    /// What it does, as text and as HTML.
    pub(super) heading: String,
    pub(super) summary: String,
    pub(super) about: String,
    /// Who may call it.
    pub(super) callers: &'static str,
    pub(super) can_be_paid: bool,
    pub(super) parameters: Vec<Field>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Answer>,
    /// A shell command.
    pub(super) example: Option<String>,
    /// Everything that a search looks at.
    pub(super) words: String,
}

/// The body of a request.
pub(super) struct Body {
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
    let schemas = Schemas(&document["components"]["schemas"]);
    let (mut operations, mut names) = (Vec::new(), Vec::new());
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            if operation["tags"][0] == name {
                operations.push(self::operation(schemas, method, path, operation));
                request_types(operation).for_each(|(_, schema)| schemas.collect_inside(schema, &mut names));
                schemas.collect(&operation["parameters"], &mut names);
                success_types(operation).for_each(|(_, schema)| schemas.collect(schema, &mut names));
            }
        }
    }
    let (name, title) = (name.to_owned(), title(name));
    Tag { name, title, about: about.to_owned(), operations, objects: schemas.objects(names) }
}

fn title(tag: &str) -> String {
    match tag {
        "qr-logos" => "QR logos".to_owned(),
        "sdk" => "Web SDK".to_owned(),
        _ => tag[..1].to_uppercase() + &tag[1..],
    }
}

/// The media types of a request, with their schemas.
fn request_types(operation: &Value) -> impl Iterator<Item = (&str, &Value)> {
    media_types(&operation["requestBody"])
}

/// The same of the successful responses.
fn success_types(operation: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let responses = operation["responses"].as_object().into_iter().flatten();
    responses.filter(|(status, _)| status.starts_with('2')).flat_map(|(_, response)| media_types(response))
}

fn media_types(message: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let types = message["content"].as_object().into_iter().flatten();
    types.map(|(name, content)| (name.as_str(), &content["schema"]))
}

fn operation<'a>(schemas: Schemas<'a>, method: &str, path: &str, operation: &'a Value) -> Operation {
    let text = |name: &str| operation[name].as_str().unwrap_or_default();
    let (summary, more) = text("summary").split_once(". ").unwrap_or((text("summary"), ""));
    let about = format!("{more}\n\n{}", text("description"));
    let parameters: Vec<_> =
        operation["parameters"].as_array().into_iter().flatten().map(|parameter| field(schemas, parameter)).collect();
    let types: Vec<_> = request_types(operation).collect();
    let body = types.first().map(|(_, schema)| Body {
        media_types: types.iter().map(|(name, _)| (*name).to_owned()).collect(),
        fields: schemas.fields(schema),
    });
    let credential = routes::ALL.iter().find(|route| route.operation == text("operationId"));
    let credential = credential.map_or(Credential::Public, |route| route.credential);
    let security = operation["security"].as_array();
    let fields = body.iter().flat_map(|body| &body.fields).chain(&parameters).map(|field| field.name.as_str());
    let names = fields.collect::<Vec<_>>().join(" ");
    let method = method.to_uppercase();
    Operation {
        id: text("operationId").to_owned(),
        heading: summary.trim_end_matches('.').replace('`', ""),
        summary: markdown::line(summary.trim_end_matches('.')),
        callers: callers(credential),
        can_be_paid: security.is_some_and(|schemes| schemes.iter().any(|scheme| !scheme["x402"].is_null())),
        words: format!("{method} {path} {} {} {names}", text("operationId"), about.replace('`', "")),
        about: markdown::text(&about),
        answers: answers(schemas, &operation["responses"]),
        example: example(schemas, &method, path, operation, credential),
        path: path.to_owned(),
        method,
        parameters,
        body,
    }
}

fn field(schemas: Schemas<'_>, parameter: &Value) -> Field {
    let text = |name: &str| parameter[name].as_str().unwrap_or_default();
    Field {
        name: text("name").to_owned(),
        place: text("in").to_owned(),
        kind: schemas.kind(&parameter["schema"]),
        is_required: parameter["required"] == true,
        about: markdown::line(text("description")),
    }
}

fn callers(credential: Credential) -> &'static str {
    match credential {
        Credential::SecretKey => "an account’s secret key",
        Credential::LinkWriter => "an account’s secret key, or an affiliate’s credential",
        Credential::SdkKey => "a publishable key, or an account’s secret key",
        Credential::PublishableKey => "a publishable key",
        Credential::Session => "the session cookie of a signed-in person",
        Credential::Browser => "none; for a person’s browser, not for programs",
        Credential::Processor => "a signature of the payment processor",
        _ => "none",
    }
}

fn answers(schemas: Schemas<'_>, responses: &Value) -> Vec<Answer> {
    let responses = responses.as_object().into_iter().flatten();
    let answer = |(status, response): (&String, &Value)| {
        let is_success = status.starts_with('2');
        let kinds = media_types(response).filter(|_| is_success).map(|(name, schema)| match name {
            "application/json" => schemas.kind(schema),
            name => format!("<code>{name}</code>"),
        });
        Answer {
            reason: status.parse().ok().and_then(|code: StatusCode| code.canonical_reason()).unwrap_or_default(),
            about: markdown::line(response["description"].as_str().unwrap_or_default()),
            kind: kinds.collect::<Vec<_>>().join(", "),
            status: status.clone(),
        }
    };
    responses.map(answer).collect()
}

/// A command that calls the operation; `None` for those that no program calls.
fn example<'a>(
    schemas: Schemas<'a>,
    method: &str,
    path: &str,
    operation: &'a Value,
    credential: Credential,
) -> Option<String> {
    if !credential.is_for_programs() {
        return None;
    }
    let (mut url, mut query) = (path.to_owned(), Vec::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str()?;
        let given = || parameter["example"].as_str().or_else(|| schemas.example(&parameter["schema"])?.as_str());
        match parameter["in"].as_str()? {
            "path" => url = url.replace(&format!("{{{name}}}"), given()?),
            "query" if parameter["required"] == true => query.push(format!("{name}={}", given()?)),
            _ => {}
        }
    }
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    let how = if method == "GET" { String::new() } else { format!("-X {method} ") };
    let mut lines = vec![format!("curl {how}\"$DL_BASE_URL{url}\"")];
    lines.extend(match credential {
        Credential::SecretKey | Credential::LinkWriter => Some("-H \"Authorization: Bearer $DL_API_KEY\"".to_owned()),
        Credential::SdkKey | Credential::PublishableKey => {
            Some("-H \"Authorization: Bearer $DL_PUBLISHABLE_KEY\"".to_owned())
        }
        Credential::Session => Some("-H \"Cookie: session_token=$SESSION_TOKEN\"".to_owned()),
        _ => None,
    });
    if let Some((media_type, schema)) = request_types(operation).next() {
        lines.extend(example_body(schemas, media_type, schema)?);
    }
    Some(lines.join(" \\\n  "))
}

/// The options that send a body.
fn example_body(schemas: Schemas<'_>, media_type: &str, schema: &Value) -> Option<Vec<String>> {
    let kind = format!("-H 'Content-Type: {media_type}'");
    match media_type {
        "application/json" => {
            let body = schemas.example(schema)?.to_string();
            Some(vec![kind, format!("-d '{}'", body.replace('\'', "'\\''"))])
        }
        // The type that curl sends if no other is given.
        "application/x-www-form-urlencoded" => {
            let fields = schemas.example(schema)?.as_object()?.iter();
            fields.map(|(name, value)| Some(format!("--data-urlencode '{name}={}'", value.as_str()?))).collect()
        }
        _ => Some(vec![kind, "--data-binary @FILE".to_owned()]),
    }
}
