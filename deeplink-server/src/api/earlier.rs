//! Deprecated operations. Each response names the successor. Those of the lifecycle are here, the same operations under
//! other names; those of reports on one link are with the reports.

use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::error::ErrorBody;
use deeplink_core::lifecycle::{Attribute, Done, Identify, TrackClick, TrackedClick};
use deeplink_core::link::is_link_id;
use deeplink_core::routes;
use http::HeaderValue;
use serde_json::value::RawValue;

use super::lifecycle;
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{
    FullKey, IdempotencyKey, JsonBody, KeyedBody, NotFound, PublishableKeyQuery, PublishableReporting,
};
use crate::http::once::Answer;
use crate::http::sdk_key::PublishableCaller;
use crate::state::Shared;

/// When these operations were deprecated: 2026-11-20, in the format of RFC 9745.
const DEPRECATED_SINCE: HeaderValue = HeaderValue::from_static("@1795132800");

/// The successor of an operation, as values of `Link` headers.
pub(crate) struct Successor {
    general: HeaderValue,
    /// For the requested resource; where that does not exist, only the status says so.
    asked: Option<HeaderValue>,
}

/// The successor of the operation of a path; `None` if it is not deprecated.
pub(crate) fn successor(path: &str) -> Option<Successor> {
    let link = |path: &str| HeaderValue::try_from(format!("<{path}>; rel=\"successor-version\"")).ok();
    let funnel = routes::FUNNEL.path;
    if let Some(id) = reported_link(path) {
        let asked = if is_link_id(id) { link(&format!("{funnel}?link_ids={id}")) } else { None };
        return Some(Successor { general: link(funnel)?, asked });
    }
    let successors = [
        (routes::ATTRIBUTION_CLICK, routes::TRACK_CLICK),
        (routes::ATTRIBUTION_REPORT, routes::ATTRIBUTE),
        (routes::ATTRIBUTION_LINK, routes::IDENTIFY),
    ];
    let (_, later) = successors.into_iter().find(|(earlier, _)| earlier.path == path)?;
    Some(Successor { general: link(later.path)?, asked: None })
}

/// The link id in the path of a report.
fn reported_link(path: &str) -> Option<&str> {
    let reports = [routes::LINK_STATS, routes::LINK_TIMESERIES];
    reports.iter().find_map(|report| {
        let (before, after) = report.path.split_once("{link_id}")?;
        path.strip_prefix(before)?.strip_suffix(after).filter(|id| !id.is_empty() && !id.contains('/'))
    })
}

/// Marks the response of a deprecated operation.
pub(crate) fn mark(response: &mut Response, Successor { general, asked }: Successor) {
    let link = asked.filter(|_| response.status().is_success()).unwrap_or(general);
    response.headers_mut().insert("deprecation", DEPRECATED_SINCE);
    response.headers_mut().insert("link", link);
}

/// Records a click (legacy form of `track_click`).
#[utoipa::path(
    post, path = "/v1/attribution/click", operation_id = "attribution_click", tag = "lifecycle",
    security(("publishable_key" = [])),
    params(PublishableKeyQuery, IdempotencyKey), request_body = TrackClick,
    responses(
        (status = 200, description = "Recorded", body = TrackedClick, headers(("Deprecation" = String), ("Link" = String), ("Idempotency-Replayed" = String))),
        PublishableReporting, KeyedBody,
        (status = 404, description = "No such link, or the link is not active", body = ErrorBody),
    )
)]
pub(crate) async fn click(
    State(app): State<Shared>,
    PublishableCaller(caller): PublishableCaller,
    request: Request,
) -> Result<Answer<Box<RawValue>>, ApiError> {
    lifecycle::click_for(&app, &caller, request).await
}

/// Records that an app was opened from a link (legacy form of `attribute`).
#[utoipa::path(
    post, path = "/v1/attribution/report", operation_id = "attribution_report", tag = "lifecycle",
    security(("publishable_key" = [])),
    params(PublishableKeyQuery, IdempotencyKey), request_body = Attribute,
    responses(
        (status = 200, description = "Recorded", body = Done, headers(("Deprecation" = String), ("Link" = String), ("Idempotency-Replayed" = String))),
        PublishableReporting, KeyedBody, NotFound,
    )
)]
pub(crate) async fn report(
    State(app): State<Shared>,
    PublishableCaller(caller): PublishableCaller,
    request: Request,
) -> Result<Answer<Done>, ApiError> {
    lifecycle::attribute_for(&app, caller, request).await
}

/// Binds an install to a user (legacy form of `identify`).
#[utoipa::path(
    put, path = "/v1/attribution/link", operation_id = "attribution_link", tag = "lifecycle",
    security(("secret_key" = [])),
    request_body = Identify,
    responses(
        (status = 200, description = "Bound", body = Done, headers(("Deprecation" = String), ("Link" = String))),
        FullKey, JsonBody,
        (status = 400, description = "A field is missing or invalid", body = ErrorBody),
        (status = 409, description = "The install belongs to another user (`identify_conflict`)", body = ErrorBody),
    )
)]
pub(crate) async fn link(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<Done>, ApiError> {
    lifecycle::identify_for(&app, caller, request).await
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn what_came_after_an_operation_is_named() {
        let of = |path: &str, status: StatusCode| {
            let mut response = Response::default();
            *response.status_mut() = status;
            mark(&mut response, successor(path)?);
            let headers = response.headers();
            assert_eq!(headers["deprecation"], "@1795132800");
            headers["link"].to_str().ok()?.strip_suffix("; rel=\"successor-version\"").map(str::to_owned)
        };
        for (path, well, otherwise) in [
            ("/v1/attribution/link", "</v1/lifecycle/identify>", "</v1/lifecycle/identify>"),
            ("/v1/links/SUMMER24/timeseries", "</v1/analytics/stats?link_ids=SUMMER24>", "</v1/analytics/stats>"),
            ("/v1/links/SUMMER24/stats", "</v1/analytics/stats?link_ids=SUMMER24>", "</v1/analytics/stats>"),
            ("/v1/links/%3E/stats", "</v1/analytics/stats>", "</v1/analytics/stats>"),
        ] {
            assert_eq!(of(path, StatusCode::OK).as_deref(), Some(well), "{path}");
            assert_eq!(of(path, StatusCode::NOT_FOUND).as_deref(), Some(otherwise), "{path}");
        }
        for other in
            ["/v1/links/stats", "/v1/links//stats", "/v1/links/a/b/stats", "/v1/analytics/stats", "/v1/links/a"]
        {
            assert_eq!(of(other, StatusCode::OK), None, "{other}");
        }
    }
}
