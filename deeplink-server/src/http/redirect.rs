//! Where a browser goes next.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, REFERRER_POLICY};

use crate::error::ApiError;

/// The response to a form: where its browser goes next.
pub(crate) fn see_other(location: &str) -> Response {
    let Ok(location) = HeaderValue::try_from(location) else {
        return ApiError::Internal("redirect target is not a valid header value".into()).into_response();
    };
    (
        StatusCode::SEE_OTHER,
        [
            (LOCATION, location),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        ],
    )
        .into_response()
}
