//! What receivers of webhooks are posted: the document's `webhooks`, with a schema and an example for each kind of event, and
//! how to tell that the service speaks.
//!
//! The example bodies are the samples that `dl webhooks sample` prints, and the example headers are theirs.

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

/// What the example is signed with.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// The event and the time of the example: the id of a conversion is its own.
const EXAMPLE_ID: &str = "evt_019b76da8000000000000000";
const EXAMPLE_SECONDS: i64 = 1_767_225_600;

/// A kind, the schema of its data, and when it is told.
const KINDS: [(EventKind, &str, &str); 4] = [
    (EventKind::Click, "ClickEvent", "A person or an agent clicked or resolved a link."),
    (EventKind::Attribute, "AttributeEvent", "A link opened an install."),
    (EventKind::Identify, "IdentifyEvent", "An install was bound to a user."),
    (EventKind::Conversion, "ConversionEvent", "A user whose install is known did something."),
];

const HOW: &str = "Posted to the `url` of each webhook that subscribes to this kind. Answer with a status from 200 to 299 within 10 \
     seconds, once the event is stored; anything else is a failure, a redirect too, and the same bytes come again after 0, 1, 5 \
     and 25 seconds under the same `webhook-id`. An event may come more than once, and in no particular order.\n\n\
     Verify one of the two signatures on the body as it came, before it is parsed, and compare in constant time. Check \
     `webhook-signature` where you can: it is of the id and the time too, so that you can refuse what is older than five minutes \
     and what you have seen. Any library of [Standard Webhooks](https://www.standardwebhooks.com) does that.";

/// Adds what receivers are posted to the document.
pub(super) fn add(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for (name, parameter) in headers() {
        components.parameters.insert(name.to_owned(), parameter.into());
    }
    let told = KINDS.iter().fold(PathsBuilder::new(), |told, (kind, data, when)| {
        told.path(kind.as_str(), PathItem::new(HttpMethod::Post, operation(kind, data, when)))
    });
    document.webhooks = Some(Paths::from(told));
}

fn operation(kind: &EventKind, data: &str, when: &str) -> Operation {
    let taken = ResponseBuilder::new().description("Taken: it is not sent again, unless somebody asks for it");
    let other = ResponseBuilder::new().description("Not taken: it is tried again, five times in all");
    let operation = OperationBuilder::new()
        .tag("webhooks")
        .summary(Some(when))
        .description(Some(HOW))
        .operation_id(Some(format!("on_{kind}")))
        .request_body(Some(body(kind, data)))
        .responses(ResponsesBuilder::new().response("2XX", taken).response("default", other));
    let reference = |name: &&str| Ref::new(format!("#/components/parameters/{name}"));
    NAMES.iter().fold(operation, |operation, name| operation.parameter_ref(reference(name))).build()
}

fn body(kind: &EventKind, data: &str) -> RequestBody {
    let event = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([kind.as_str()]));
    let moment =
        ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let schema = ObjectBuilder::new()
        .property("event", event.description(Some("The kind")))
        .required("event")
        .property("timestamp", moment.description(Some("When it happened")))
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
        "The example is of the click’s example body without white space, the id `{EXAMPLE_ID}` and the time \
         `{EXAMPLE_SECONDS}`, with the secret `{SECRET}`."
    );
    let all = [
        (SERVICE_SIGNATURE, true, json!(service), format!(
            "The lower-case hex HMAC-SHA-256 of the body. The key is the whole secret as text, `whsec_` included. {of_what}"
        )),
        (WEBHOOK_ID, true, json!(EXAMPLE_ID), "The event’s id, the same in every attempt and every replay: what to recognise repeats by.".into()),
        (WEBHOOK_TIMESTAMP, true, json!(EXAMPLE_SECONDS.to_string()), "When this attempt was made, in seconds since 1970.".into()),
        (WEBHOOK_SIGNATURE, true, json!(standard), format!(
            "`v1,` and the base64 HMAC-SHA-256 of `webhook-id`, `.`, `webhook-timestamp`, `.` and the body. The key is the bytes \
             that stand in base64 after `whsec_`. For 24 hours after a rotation there are two, separated by a space: one of each \
             secret. {of_what}"
        )),
        (SERVICE_TEST, false, json!("true"), "Only with an event that was made up to try the webhook, with the value `true`: it tells of nothing that happened. This header is not signed.".into()),
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
