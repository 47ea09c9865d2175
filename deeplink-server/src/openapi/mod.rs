//! The OpenAPI document, and the text for language models.

mod webhooks;

use std::sync::LazyLock;

use axum::response::Response;
use bytes::Bytes;
use deeplink_core::x402;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, HeaderMap, HeaderValue};
use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{OpenApi, PathItem, RefOr};

use crate::http::documented::{paid, refusal};
use crate::http::fixed::Fixed;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "deeplink",
        version = "0.1.0",
        description = "Deep links: one URL takes people to the right place on iOS, Android or the web, and tells AI agents in JSON what it is for.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "resolve", description = "Resolving links"),
        (name = "links", description = "Creating and managing links"),
        (name = "tags", description = "Tags that group links"),
        (name = "qr-logos", description = "Uploaded logos for QR codes"),
        (name = "lifecycle", description = "Reporting clicks, installs, users and conversions"),
        (name = "analytics", description = "Reports on links and on the account"),
        (name = "apps", description = "Apps that open links"),
        (name = "domains", description = "Custom domains"),
        (name = "account", description = "Accounts"),
        (name = "sessions", description = "Signing in and out"),
        (name = "team", description = "Team members of an account"),
        (name = "keys", description = "Secret keys for servers, and publishable keys for apps and web pages"),
        (name = "affiliates", description = "Partners, and credentials limited to their links"),
        (name = "sources", description = "URLs that accept conversions without a key"),
        (name = "webhooks", description = "URLs that events are posted to, and the delivery log"),
        (name = "events", description = "The event stream"),
        (name = "billing", description = "Plans, usage and payments"),
        (name = "sdk", description = "The web SDK"),
        (name = "service", description = "The service itself"),
    ),
    // Schemas used only by parameters are not collected from the handlers.
    components(schemas(
        deeplink_core::error::ErrorBody, deeplink_core::funnel::GroupOrder, deeplink_core::visitor::ClickKind,
        deeplink_core::link::LinkSort, deeplink_core::qr::QrFormat,
        deeplink_core::qr::QrLevel, deeplink_core::qr::QrShape, deeplink_core::qr::DotType,
        deeplink_core::qr::CornerSquareType, deeplink_core::qr::CornerDotType, deeplink_core::webhook::DeliveryStatus,
        deeplink_core::event::ClickData, deeplink_core::event::AttributeData, deeplink_core::event::IdentifyData,
        deeplink_core::event::ConversionData,
    )),
)]
struct Base;

/// The document before any route is in it.
pub(crate) fn base() -> OpenApi {
    Base::openapi()
}

/// The document with what all operations share.
pub(crate) fn finished(mut document: OpenApi) -> OpenApi {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A secret key, such as `dl_live_…`"))
        .build();
    let cookie = "Set at sign-in. Requests that come from another site are rejected (`csrf_rejected`).";
    let cookie = ApiKeyValue::with_description(deeplink_core::session::COOKIE, cookie);
    let publishable = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A publishable key, such as `pk_live_…`; if no header can be set, in the query parameter `key`",
        ))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("secret_key", SecurityScheme::Http(scheme));
    components.add_security_scheme("publishable_key", SecurityScheme::Http(publishable));
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    let payment = "A payment for this single request, if the operator accepts payments. A request without a credential gets 402 with the price, in the `PAYMENT-REQUIRED` header (x402 version 2) and in the body (version 1, paid with `X-PAYMENT`). The receipt is in `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`.";
    let payment = ApiKeyValue::with_description("PAYMENT-SIGNATURE", payment);
    components.add_security_scheme("x402", SecurityScheme::ApiKey(ApiKey::Header(payment)));
    for item in document.paths.paths.values_mut() {
        for operation in [&mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten() {
            is_refused_to_the_suspended(operation);
        }
        for operation in operations(item) {
            if x402::PAID.iter().any(|paid| Some(paid.route.operation) == operation.operation_id.as_deref()) {
                can_be_paid_for(operation);
            }
            for (status, description) in [("400", "The request is malformed"), ("500", "Internal error")] {
                operation
                    .responses
                    .responses
                    .entry(status.to_owned())
                    .or_insert_with(|| refusal(description).build().into());
            }
        }
    }
    webhooks::add(&mut document);
    document
}

/// Adds payment as a credential, and its responses.
fn can_be_paid_for(operation: &mut Operation) {
    let payment = SecurityRequirement::new::<_, [&str; 0], &str>("x402", []);
    operation.security.get_or_insert_default().push(payment);
    for (status, response) in paid() {
        operation.responses.responses.entry(status).or_insert(response);
    }
}

/// Adds that changes to an account are refused while it is suspended.
fn is_refused_to_the_suspended(operation: &mut Operation) {
    const SAYS: &str = "The account is suspended and read-only (`account_suspended`)";
    // Signing out is always allowed.
    if operation.security.as_ref().is_none_or(Vec::is_empty) || operation.operation_id.as_deref() == Some("signout") {
        return;
    }
    match operation.responses.responses.entry("403".to_owned()).or_insert_with(|| refusal(SAYS).build().into()) {
        RefOr::T(response) if response.description != SAYS => {
            response.description =
                format!("{}, or the account is suspended and read-only (`account_suspended`)", response.description);
        }
        _ => {}
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
}

static TEXT: LazyLock<String> = LazyLock::new(|| crate::routes::description().to_pretty_json().unwrap_or_default());

/// The document as `/openapi.json` serves it.
pub fn text() -> &'static str {
    &TEXT
}

/// A file that changes only with a release: cached by clients but always revalidated, so that a release is seen at
/// once.
fn fixed(document: impl Into<Bytes>, media_type: HeaderValue) -> Fixed {
    Fixed::new(document, media_type).with(CACHE_CONTROL, HeaderValue::from_static("no-cache"))
}

/// API viewers on any origin may read it.
static DOCUMENT: LazyLock<Fixed> = LazyLock::new(|| {
    fixed(text(), HeaderValue::from_static("application/json"))
        .with(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"))
});

static LLMS: LazyLock<Fixed> = LazyLock::new(|| {
    fixed(include_str!("../../templates/llms.txt"), HeaderValue::from_static("text/plain; charset=utf-8"))
});

/// Returns the OpenAPI document of this API.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "service",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the cached document")),
    responses(
        (status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = serde_json::Value, headers(("ETag" = String))),
        (status = 304, description = "Not modified", headers(("ETag" = String))),
    )
)]
pub(crate) async fn document(asked: HeaderMap) -> Response {
    DOCUMENT.answer(&asked)
}

/// Returns the description of this API for language models.
#[utoipa::path(
    get, path = "/llms.txt", operation_id = "llms", tag = "service",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the cached text")),
    responses(
        (status = 200, description = "Markdown", content_type = "text/plain", body = String, headers(("ETag" = String))),
        (status = 304, description = "Not modified", headers(("ETag" = String))),
    )
)]
pub(crate) async fn llms(asked: HeaderMap) -> Response {
    LLMS.answer(&asked)
}
