//! What a path that does not exist answers: a page to a browser, the error object to programs.

use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::visitor::{Form, wants_json};
use http::header::{ACCEPT, HeaderValue, VARY};
use http::request::Parts;

use super::guard::page_of;
use crate::error::ApiError;
use crate::http::host::OnServiceHost;
use crate::state::Shared;
use crate::visit;

/// The answer to any path that has no route.
pub(crate) async fn show(State(app): State<Shared>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    answer(&app, &mut parts).await
}

/// The same for a request that a route has taken. A browser is recognized by an `Accept` that names HTML, as for links; on a
/// host that is nobody's, a page has no way on, because nothing of the service is for people there.
pub(super) async fn answer(app: &Shared, parts: &mut Parts) -> Response {
    let form = wants_json(parts.headers.get_all(ACCEPT));
    let error = ApiError::not_found();
    if form != (Form::Html { explicit: true }) {
        return negotiated(error.into_response());
    }
    match OnServiceHost::from_request_parts(parts, app).await {
        Ok(OnServiceHost) => negotiated(page_of(app, &error, parts.uri.path())),
        Err(_) => visit::refused(app, &parts.headers, error, form),
    }
}

/// Adds that the answer depends on `Accept`.
pub(super) fn negotiated(mut response: Response) -> Response {
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}
