//! The OpenAPI document: checked in, true, and complete.

use std::collections::BTreeSet;

use deeplink_core::error::ErrorCode;
use deeplink_core::routes::{self, Credential};
use serde_json::Value;

use deeplink_testing::{operations, spawn};

fn document() -> Value {
    serde_json::from_str(deeplink_server::openapi::text()).expect("JSON")
}

/// `deeplink-server openapi > openapi.json` regenerates it.
#[test]
fn the_document_in_the_repository_is_the_one_that_is_served() {
    let kept = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json")).expect("openapi.json");
    assert!(
        kept.trim_end() == deeplink_server::openapi::text().trim_end(),
        "openapi.json is stale; run: cargo run -p deeplink-server -- openapi > openapi.json"
    );
}

#[tokio::test]
async fn it_is_served_and_read_by_the_client() {
    let world = spawn().await;
    let served = world.nobody.public().openapi().await.expect("the document");
    assert_eq!(served, document());
    assert_eq!(
        (served["openapi"].as_str().map(|v| &v[..3]), &served["info"]["version"]),
        (Some("3.1"), &"0.1.0".into())
    );
    assert_eq!(served["info"]["title"], "deeplink");
    let llms = world.nobody.public().llms().await.expect("the text");
    for path in ["/v1/links", "/v1/links/bulk", "/r/", "/openapi.json", "Authorization: Bearer"] {
        assert!(llms.contains(path), "{path} is not in /llms.txt");
    }
}

/// Metadata is declared as an object with any members; without that, generators read it as an object without any.
#[test]
fn metadata_has_any_members() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for schema in [&schemas["Metadata"], &schemas["Convert"]["properties"]["metadata"]] {
        assert_eq!(schema["additionalProperties"], true, "{schema}");
        assert!(schema["description"].is_string(), "{schema}");
    }
    // A description is for callers, and does not name functions.
    let text = document.to_string();
    assert!(!text.contains("[`") && !text.contains("::check"), "a description refers to code");
}

#[test]
fn every_operation_says_who_may_call_it_and_how_it_refuses() {
    for operation in operations::all() {
        let route = routes::ALL.iter().find(|route| route.operation == operation.id).expect("a route of the table");
        assert_eq!((route.method, route.path), (operation.method.as_str(), operation.path.as_str()));
        let is_public = matches!(route.credential, Credential::Public | Credential::Browser | Credential::Processor);
        assert_eq!(operation.is_public, is_public, "{}", operation.id);
        assert_eq!(operation.takes_session, route.credential == Credential::Session, "{}", operation.id);
        let mut expected = BTreeSet::from([400, 500]);
        if !operation.is_public {
            expected.extend([401, 429, 503]);
        }
        if operation.has_body || operation.has_form {
            expected.extend([413, 415]);
        }
        // Putting a logo creates what does not exist.
        if operation.path.contains('{') && operation.id != "put_qr_logo" {
            expected.insert(404);
        }
        // An affiliate's key, and a cross-site request.
        let is_changing_session = route.credential == Credential::Session && route.method != "GET";
        if matches!(route.credential, Credential::SecretKey | Credential::SdkKey) || is_changing_session {
            expected.insert(403);
        }
        let missing: Vec<_> = expected.difference(&operation.statuses).collect();
        assert!(missing.is_empty(), "{} does not document {missing:?}", operation.id);
    }
}

#[test]
fn every_error_is_documented_as_the_error_record() {
    let document = document();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            for field in ["summary", "operationId", "tags"] {
                assert!(!operation[field].is_null(), "{method} {path} has no {field}");
            }
            for (status, response) in operation["responses"].as_object().expect("responses") {
                assert!(
                    response["description"].as_str().is_some_and(|text| !text.is_empty()),
                    "{method} {path} {status}"
                );
                let is_page_only = status == "410";
                if status.as_str() >= "400" && !is_page_only {
                    let schema = &response["content"]["application/json"]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/ErrorBody", "{method} {path} {status}");
                }
                if matches!(status.as_str(), "429" | "503") {
                    assert!(!response["headers"]["Retry-After"].is_null(), "{method} {path} {status}");
                }
            }
        }
    }
}

/// The document tells receivers what they get, and how to verify that it is from the service: the examples are events,
/// and their signatures follow the recipe.
#[test]
fn what_receivers_are_posted_is_described_with_events_that_verify() {
    use deeplink_core::event::{Event, EventKind};
    use deeplink_core::signature::{Signer, WebhookSecret};

    let document = document();
    let told = document["webhooks"].as_object().expect("webhooks");
    let kinds: Vec<_> = EventKind::ALL.iter().map(EventKind::as_str).collect();
    assert_eq!(told.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from_iter(kinds));
    let parameters = &document["components"]["parameters"];
    for (kind, item) in told {
        let content = &item["post"]["requestBody"]["content"]["application/json"];
        let event = Event::parse(content["example"].to_string().as_bytes()).expect("an event");
        assert_eq!(event.kind.as_str(), kind);
        let schema = &content["schema"]["properties"];
        assert_eq!(schema["event"]["enum"], serde_json::json!([kind]));
        let data = schema["data"]["$ref"].as_str().and_then(|name| name.rsplit('/').next()).expect("a schema");
        let known = document["components"]["schemas"][data]["properties"].as_object().expect("members");
        let members = content["example"]["data"].as_object().expect("data");
        assert!(members.keys().all(|member| known.contains_key(member)), "{kind}: {members:?}");
        for parameter in item["post"]["parameters"].as_array().expect("headers") {
            let name = parameter["$ref"].as_str().and_then(|name| name.rsplit('/').next()).expect("a name");
            assert_eq!(parameters[name]["in"], "header", "{name}");
        }
    }
    let example = |name: &str| parameters[name]["example"].as_str().expect("an example");
    let body = told["click"]["post"]["requestBody"]["content"]["application/json"]["example"].to_string();
    let recipe = parameters["ServiceSignature"]["description"].as_str().expect("a recipe");
    let secret = recipe.split('`').find(|word| word.starts_with("whsec_") && word.len() > 6).expect("a secret");
    let signer = Signer::new(&WebhookSecret::new(secret)).expect("a secret");
    assert!(signer.is_service(example("ServiceSignature"), body.as_bytes()));
    let (id, at, signature) = (example("WebhookId"), example("WebhookTimestamp"), example("WebhookSignature"));
    assert!(signer.is_standard(signature, id, at, body.as_bytes()));
}

/// Two types of one name would silently overwrite each other, so such names are not used.
#[test]
fn every_reference_leads_to_a_schema_and_every_schema_is_used() {
    let document = document();
    let schemas: BTreeSet<_> =
        document["components"]["schemas"].as_object().expect("schemas").keys().cloned().collect();
    let text = document.to_string();
    let referenced: BTreeSet<_> = text
        .split("#/components/schemas/")
        .skip(1)
        .map(|rest| rest.split('"').next().expect("a name").to_owned())
        .collect();
    assert_eq!(schemas, referenced);
}

#[test]
fn every_error_code_has_a_status_that_some_operation_documents_or_belongs_to_the_protocol() {
    let documented: BTreeSet<u16> = operations::all().iter().flat_map(|operation| operation.statuses.clone()).collect();
    for code in ErrorCode::ALL {
        let status = code.status().expect("a known code");
        assert!(documented.contains(&status) || status == 405, "{code} has status {status}, which nothing documents");
    }
}
