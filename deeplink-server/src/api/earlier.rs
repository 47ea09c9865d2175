//! Earlier forms of the lifecycle: the same operations under other names. Each answer says which operation came after it.

use axum::extract::{Request, State};
use deeplink_core::error::ErrorBody;
use deeplink_core::lifecycle::{Attribute, Done, Identify, TrackClick, TrackedClick};
use deeplink_core::routes;
use http::{HeaderMap, HeaderValue};

use super::lifecycle;
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::once::Answer;
use crate::http::sdk_key::PublishableCaller;
use crate::state::Shared;

/// Since when the others are the way to report: 2026-11-20, as RFC 9745 writes it.
const DEPRECATED_SINCE: HeaderValue = HeaderValue::from_static("@1795132800");

/// The `Link` header that names what came after the operation of a path; `None` for paths that are none of these.
pub(crate) fn successor(path: &str) -> Option<HeaderValue> {
    let link = |path: &str| HeaderValue::try_from(format!("<{path}>; rel=\"successor-version\"")).ok();
    let successors = [
        (routes::ATTRIBUTION_CLICK, routes::TRACK_CLICK),
        (routes::ATTRIBUTION_REPORT, routes::ATTRIBUTE),
        (routes::ATTRIBUTION_LINK, routes::IDENTIFY),
    ];
    successors.into_iter().find(|(earlier, _)| earlier.path == path).and_then(|(_, later)| link(later.path))
}

/// Says that an operation is an earlier form.
pub(crate) fn mark(headers: &mut HeaderMap, successor: HeaderValue) {
    headers.insert("deprecation", DEPRECATED_SINCE);
    headers.insert("link", successor);
}

/// Records a click (earlier form of `track_click`).
#[utoipa::path(
    post, path = "/v1/attribution/click", operation_id = "attribution_click", tag = "lifecycle",
    security(("publishable_key" = [])),
    params(
        ("key" = Option<String>, Query, description = "A publishable key, where no `Authorization` header can be sent"),
        ("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255),
    ),
    request_body = TrackClick,
    responses(
        (status = 200, description = "Recorded", body = TrackedClick, headers(("Deprecation" = String), ("Link" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "A field is missing or breaks a rule", body = ErrorBody),
        (status = 401, description = "No valid publishable key", body = ErrorBody),
        (status = 404, description = "There is no such link, or it is not active", body = ErrorBody),
        (status = 409, description = "The idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 429, description = "Too many reports with this key", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn click(
    State(app): State<Shared>,
    PublishableCaller(caller): PublishableCaller,
    request: Request,
) -> Result<Answer, ApiError> {
    lifecycle::click_for(&app, &caller, request).await
}

/// Records that a link opened an install (earlier form of `attribute`).
#[utoipa::path(
    post, path = "/v1/attribution/report", operation_id = "attribution_report", tag = "lifecycle",
    security(("publishable_key" = [])),
    params(
        ("key" = Option<String>, Query, description = "A publishable key, where no `Authorization` header can be sent"),
        ("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key and body give the first reply", min_length = 1, max_length = 255),
    ),
    request_body = Attribute,
    responses(
        (status = 200, description = "Recorded", body = Done, headers(("Deprecation" = String), ("Link" = String), ("Idempotency-Replayed" = String))),
        (status = 400, description = "A field is missing or breaks a rule", body = ErrorBody),
        (status = 401, description = "No valid publishable key", body = ErrorBody),
        (status = 404, description = "There is no such link", body = ErrorBody),
        (status = 409, description = "The idempotency key was used for another request", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 429, description = "Too many reports with this key", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn report(
    State(app): State<Shared>,
    PublishableCaller(caller): PublishableCaller,
    request: Request,
) -> Result<Answer, ApiError> {
    lifecycle::attribute_for(&app, caller, request).await
}

/// Binds an install to a user (earlier form of `identify`).
#[utoipa::path(
    put, path = "/v1/attribution/link", operation_id = "attribution_link", tag = "lifecycle",
    security(("secret_key" = [])),
    request_body = Identify,
    responses(
        (status = 200, description = "Bound", body = Done, headers(("Deprecation" = String), ("Link" = String))),
        (status = 400, description = "A field is missing or breaks a rule", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 409, description = "The install belongs to another user (`identify_conflict`)", body = ErrorBody),
        (status = 413, description = "The body is larger than 64 KiB", body = ErrorBody),
        (status = 415, description = "The body is not JSON", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn link(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer, ApiError> {
    lifecycle::identify_for(&app, caller, request).await
}
