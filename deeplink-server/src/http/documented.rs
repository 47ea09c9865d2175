//! Parts of the OpenAPI document that many operations share. A status that an operation
//! describes itself, after naming a set, replaces that of the set.

use std::collections::BTreeMap;

use deeplink_core::page::MAX_LIMIT;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{
    ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Type,
};
use utoipa::{IntoParams, IntoResponses, PartialSchema};

type Responses = BTreeMap<String, RefOr<Response>>;

/// An answer with the error object.
pub(crate) fn refusal(description: &str) -> ResponseBuilder {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    ResponseBuilder::new().description(description).content("application/json", content)
}

fn with(mut set: Responses, own: &[(&str, &str)]) -> Responses {
    set.extend(own.iter().map(|(status, description)| ((*status).to_owned(), refusal(description).build().into())));
    set
}

/// Refusals of every operation that can be paid for.
pub(crate) fn paid() -> Responses {
    let own = [
        (
            "402",
            "If the operator accepts payments: the request has neither a key nor a payment, or the payment was rejected",
        ),
        (
            "409",
            "The payment was used for a different request or cannot be repeated without its Idempotency-Key \
             (`payment_replayed`), or it or another payment with the same key is being settled (`payment_in_progress`)",
        ),
    ];
    with(later("429", "Too many payments from this IP address"), &own)
}

/// A refusal that says after how many seconds to retry.
fn later(status: &str, description: &str) -> Responses {
    let retry_after = HeaderBuilder::new().schema(Some(u64::schema())).build();
    let response = refusal(description).header("Retry-After", retry_after).build();
    [(status.to_owned(), response.into())].into()
}

/// Refusals of every operation that takes a secret key.
pub(crate) struct AnyKey;

impl IntoResponses for AnyKey {
    fn responses() -> Responses {
        with(Unavailable::responses(), &[("401", "No valid key")])
    }
}

/// Refusals of the operations that an affiliate's credential cannot call.
pub(crate) struct FullKey;

impl IntoResponses for FullKey {
    fn responses() -> Responses {
        with(AnyKey::responses(), &[("403", "Not allowed with an affiliate's credential")])
    }
}

/// The parameters of a list that comes in pages.
pub(crate) struct PageQuery;

impl IntoParams for PageQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(MAX_LIMIT))
            .default(Some(MAX_LIMIT.into()));
        let mut both = optional("limit", ParameterIn::Query, "Items per page", limit);
        let cursor = ObjectBuilder::new().schema_type(Type::String);
        both.extend(optional("cursor", ParameterIn::Query, "Cursor from the previous page", cursor));
        both
    }
}

/// Refusal of an operation that lists pages.
pub(crate) struct Paged;

impl IntoResponses for Paged {
    fn responses() -> Responses {
        with(
            Responses::new(),
            &[("400", "`limit` is not 1 to 100, or the cursor belongs to a different list (`invalid_cursor`)")],
        )
    }
}

/// Refusal of an operation on one resource.
pub(crate) struct NotFound;

impl IntoResponses for NotFound {
    fn responses() -> Responses {
        with(Responses::new(), &[("404", "Not found in this account")])
    }
}

/// The responses to a deletion.
pub(crate) struct Deleted;

impl IntoResponses for Deleted {
    fn responses() -> Responses {
        let mut set = FullKey::responses();
        set.extend(NotFound::responses());
        set.insert("204".to_owned(), ResponseBuilder::new().description("Deleted").build().into());
        set
    }
}

/// Refusals of a report by an app, a page or a server.
pub(crate) struct Reporting;

impl IntoResponses for Reporting {
    fn responses() -> Responses {
        let mut set = with(FullKey::responses(), &[("400", "A field is missing or invalid")]);
        set.extend(later("429", "Too many requests with this publishable key"));
        set
    }
}

/// Refusals of a report that takes a publishable key only.
pub(crate) struct PublishableReporting;

impl IntoResponses for PublishableReporting {
    fn responses() -> Responses {
        let mut set = with(Reporting::responses(), &[("401", "No valid publishable key")]);
        set.remove("403");
        set
    }
}

/// Refusals of a JSON body of the usual size.
pub(crate) struct JsonBody;

impl IntoResponses for JsonBody {
    fn responses() -> Responses {
        with(
            Responses::new(),
            &[("413", "The body is larger than 64 KiB"), ("415", "The body is not JSON, or has a `Content-Encoding`")],
        )
    }
}

/// The same where the request may carry an `Idempotency-Key`.
pub(crate) struct KeyedBody;

impl IntoResponses for KeyedBody {
    fn responses() -> Responses {
        with(JsonBody::responses(), &[("409", "The `Idempotency-Key` was already used for a different request")])
    }
}

/// Refusals of a form.
pub(crate) struct FormBody;

impl IntoResponses for FormBody {
    fn responses() -> Responses {
        let own = [
            ("400", "A field is repeated"),
            ("413", "The form is larger than 4 KiB"),
            ("415", "The body is not a form, or has a `Content-Encoding`"),
        ];
        with(Responses::new(), &own)
    }
}

/// Refusal of an operation that sends a mail.
pub(crate) struct NeedsMail;

impl IntoResponses for NeedsMail {
    fn responses() -> Responses {
        later("503", "Not applied: email is not configured (`sessions_not_configured`), or retry after `Retry-After`")
    }
}

/// Refusal of an operation that asks the payment processor.
pub(crate) struct NeedsProcessor;

impl IntoResponses for NeedsProcessor {
    fn responses() -> Responses {
        let description = "Not applied: no payment processor is configured (`processor_not_configured`), it does not respond \
            (`upstream_unavailable`), or retry after `Retry-After`";
        later("503", description)
    }
}

/// Refusals of every operation that asks the database.
pub(crate) struct Unavailable;

impl IntoResponses for Unavailable {
    fn responses() -> Responses {
        let mut set = later(
            "503",
            "Temporarily unavailable, or too many requests from the account are pending (`overloaded`); nothing was \
             changed. Retry after `Retry-After`",
        );
        set.extend(later("429", "This IP address has requested too many IDs, hosts or keys that do not exist"));
        set
    }
}

/// A parameter that may be absent.
fn optional(name: &str, parameter_in: ParameterIn, description: &str, schema: ObjectBuilder) -> Vec<Parameter> {
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(parameter_in)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema));
    vec![parameter.build()]
}

/// The `Idempotency-Key` header.
pub(crate) struct IdempotencyKey;

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let types = SchemaType::from_iter([Type::String, Type::Null]);
        let schema = ObjectBuilder::new().schema_type(types).min_length(Some(1)).max_length(Some(255));
        let description = "A repeated request with the same key and body gets the first response";
        optional("Idempotency-Key", ParameterIn::Header, description, schema)
    }
}

/// The publishable key in the query.
pub(crate) struct PublishableKeyQuery;

impl IntoParams for PublishableKeyQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "A publishable key, if no `Authorization` header can be sent";
        optional("key", ParameterIn::Query, description, ObjectBuilder::new().schema_type(Type::String))
    }
}
