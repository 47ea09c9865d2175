//! The `webhooks` of the document: for each kind of event the schema and an example of the posted body, and how to
//! verify its signatures.
//!
//! The example bodies are the samples that `dl webhooks sample` prints, with matching example headers.

use deeplink_core::event::{EventKind, sample};
use deeplink_core::signature::{
    SERVICE_SIGNATURE, SERVICE_TEST, Signer, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, WebhookSecret,
};
use serde_json::{Value, json};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{
    ContentBuilder, OpenApi, PathItem, Paths, PathsBuilder, Ref, Required, ResponseBuilder, ResponsesBuilder,
};

/// The secret that signs the example.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// The event id and the time of the example; a conversion has its own id.
const EXAMPLE_ID: &str = "evt_019b76da8000000000000000";
const EXAMPLE_SECONDS: i64 = 1_767_225_600;

/// Each kind with the schema of its data and when it is sent.
const KINDS: [(EventKind, &str, &str); 4] = [
    (EventKind::Click, "ClickEvent", "A person or an agent clicked or resolved a link."),
    (EventKind::Attribute, "AttributeEvent", "An app was opened from a link."),
    (EventKind::Identify, "IdentifyEvent", "An install was bound to a user."),
    (EventKind::Conversion, "ConversionEvent", "A user with a known install converted."),
];

const HOW: &str = "Posted to the `url` of each webhook that subscribes to this kind. Respond with a 2xx status within 10 seconds, \
     once the event is stored. Anything else, including a redirect, is a failure, and the same bytes are sent again after 0, 1, 5 and \
     25 seconds with the same `webhook-id`. Events can arrive more than once and out of order.\n\n\
     Verify one of the two signatures against the raw body before parsing it, and compare in constant time. Prefer \
     `webhook-signature` if you can: it also covers the ID and the time, so you can reject duplicates and events older than five \
     minutes. Any [Standard Webhooks](https://www.standardwebhooks.com) library does this.";

/// Adds the events that receivers get.
pub(super) fn add(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for (name, parameter) in headers() {
        components.parameters.insert(name.to_owned(), parameter.into());
    }
    let paths = KINDS.iter().fold(PathsBuilder::new(), |paths, (kind, data, when)| {
        paths.path(kind.as_str(), PathItem::new(HttpMethod::Post, operation(kind, data, when)))
    });
    document.webhooks = Some(Paths::from(paths));
}

fn operation(kind: &EventKind, data: &str, when: &str) -> Operation {
    let accepted = ResponseBuilder::new().description("Accepted: the event is sent again only on request");
    let failed = ResponseBuilder::new()
        .description("Failed: the event is sent again until `retry_for` ends (by default, five attempts in total)");
    let operation = OperationBuilder::new()
        .tag("webhooks")
        .summary(Some(when))
        .description(Some(HOW))
        .operation_id(Some(format!("on_{kind}")))
        .request_body(Some(body(kind, data)))
        .responses(ResponsesBuilder::new().response("2XX", accepted).response("default", failed));
    let reference = |name: &&str| Ref::new(format!("#/components/parameters/{name}"));
    NAMES.iter().fold(operation, |operation, name| operation.parameter_ref(reference(name))).build()
}

fn body(kind: &EventKind, data: &str) -> RequestBody {
    let event = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([kind.as_str()]));
    let moment =
        ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let schema = ObjectBuilder::new()
        .property("event", event.description(Some("Kind of event")))
        .required("event")
        .property("timestamp", moment.description(Some("When the event happened")))
        .required("timestamp")
        .property("data", Ref::from_schema_name(data))
        .required("data");
    let content = ContentBuilder::new().schema(Some(schema.build())).example(Some(example(kind)));
    RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content.build()).build()
}

/// The sample of a kind.
fn example(kind: &EventKind) -> Value {
    sample::sample(kind, 1).and_then(|event| serde_json::from_str(&event.raw).ok()).unwrap_or(Value::Null)
}

/// The headers of a post by their names in the document, in the order in which they are shown.
const NAMES: [&str; 5] = ["ServiceSignature", "WebhookId", "WebhookTimestamp", "WebhookSignature", "ServiceTest"];

fn headers() -> impl Iterator<Item = (&'static str, Parameter)> {
    let signed = sample::sample(&EventKind::Click, 1).zip(Signer::new(&WebhookSecret::new(SECRET)).ok());
    let signed = signed.map(|(event, signer)| signer.sign(EXAMPLE_ID, EXAMPLE_SECONDS, event.raw.as_bytes()));
    let (service, standard) = signed.map(|signed| (signed.service, signed.standard)).unwrap_or_default();
    let of_what = format!(
        "The example is for the click’s example body without whitespace, the ID `{EXAMPLE_ID}` and the time \
         `{EXAMPLE_SECONDS}`, with the secret `{SECRET}`."
    );
    let all = [
        (
            SERVICE_SIGNATURE,
            true,
            json!(service),
            format!(
                "The lowercase hex HMAC-SHA-256 of the body. The key is the whole secret as text, including `whsec_`. {of_what}"
            ),
        ),
        (
            WEBHOOK_ID,
            true,
            json!(EXAMPLE_ID),
            "The event’s ID, the same in every attempt and every replay: use it to detect duplicates.".into(),
        ),
        (
            WEBHOOK_TIMESTAMP,
            true,
            json!(EXAMPLE_SECONDS.to_string()),
            "Time of this attempt, in seconds since 1970.".into(),
        ),
        (
            WEBHOOK_SIGNATURE,
            true,
            json!(standard),
            format!(
                "`v1,` and the base64 HMAC-SHA-256 of `webhook-id`, `.`, `webhook-timestamp`, `.` and the body. The key is the bytes \
             that follow `whsec_` in base64. For 24 hours after a rotation there are two signatures, separated by a space, one for \
             each secret. {of_what}"
            ),
        ),
        (
            SERVICE_TEST,
            false,
            json!("true"),
            "Only on test events, with the value `true`: the event did not actually happen. This header is not signed."
                .into(),
        ),
    ];
    NAMES.into_iter().zip(all.map(|(name, always, example, description)| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(if always { Required::True } else { Required::False })
            .description(Some(description))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .example(Some(example))
            .build()
    }))
}
