//! Rules for every page: its host, who may submit its forms, and how errors look.

use askama::Template;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::ErrorCode;
use http::header::{ALLOW, RETRY_AFTER};
use http::{Method, StatusCode, Uri};
use url::form_urlencoded;

use super::frame::{self, Frame};
use super::headers::see_other;
use super::{HOME, missing};
use crate::error::{ApiError, Record};
use crate::http::host::OnServiceHost;
use crate::http::{csrf, request_id};
use crate::state::{App, Shared};

/// Pages are on the service's own host, forms from other sites do nothing, and an error is a page.
pub(super) async fn guard(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match OnServiceHost::from_request_parts(&mut parts, &app).await {
        Ok(OnServiceHost) => {}
        Err(error) if error.is_not_found() => return missing::answer(&app, &mut parts).await,
        Err(error) => return error.into_response(),
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) && csrf::is_cross_site(&app, &parts.headers) {
        return see_other("/signin?error=invalid_request");
    }
    let id = request_id::of(&parts.headers);
    let path = first_page(&parts.uri);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    match response.extensions_mut().remove::<Record>() {
        Some(record) => {
            let id = id.to_str().unwrap_or_default();
            record.log(id);
            error_page(&app, &response, &record, (&path, id))
        }
        None => response,
    }
}

/// Path and query of the first page of the list that was asked for.
fn first_page(uri: &Uri) -> String {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query.filter(|(name, _)| name != "cursor"))
        .finish();
    if query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) }
}

/// The page for an error of a request that no page has taken.
pub(super) fn page_of(app: &App, error: &ApiError, path: &str) -> Response {
    let mut refused = error.to_response();
    match refused.extensions_mut().remove::<Record>() {
        Some(record) => error_page(app, &refused, &record, (path, "")),
        None => refused,
    }
}

#[derive(Template)]
#[template(path = "pages/error.html")]
struct ErrorPage<'a> {
    frame: &'a Frame,
    advice: &'static str,
    /// The request's id in the log, if an operator may need to look it up.
    request_id: Option<&'a str>,
    /// Where to go from here, and the label of that button.
    next: (&'a str, &'static str),
}

/// The page for an error that a form cannot show.
fn error_page(app: &App, refused: &Response, record: &Record, (path, request_id): (&str, &str)) -> Response {
    let status = refused.status();
    let (heading, advice) = text_of(&record.body().code, status);
    let frame = Frame::alone(app, heading);
    let next = match record.body().code {
        ErrorCode::InvalidCursor => (path, "Back to the first page"),
        ErrorCode::NotFound if !path.starts_with("/account") => (HOME, "Go to the home page"),
        _ => ("/account", "Go to your account"),
    };
    let request_id = status.is_server_error().then_some(request_id);
    let page = ErrorPage { frame: &frame, advice, request_id, next };
    let mut page = frame::answer(app, status, &frame, &page);
    for name in [RETRY_AFTER, ALLOW] {
        if let Some(value) = refused.headers().get(&name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}

/// An error message for people: what happened, and what to do.
pub(super) fn text_of(code: &ErrorCode, status: StatusCode) -> (&'static str, &'static str) {
    match (code, status.as_u16()) {
        (code, _) if code.is_not_configured() => {
            ("This is not set up on this service", "Ask the operator of the service to set it up.")
        }
        (ErrorCode::InvalidCursor, _) => ("This list has changed", "Start again from the first page."),
        (ErrorCode::AccountSuspended, _) => (
            "This account is suspended",
            "The operator of this service suspended it, so nothing was changed. You can still view everything. To \
             resolve this, contact the operator.",
        ),
        (_, 404) => ("Page not found", "It may have been deleted, or the address may be incomplete."),
        (_, 405) => ("That action isn’t available", "Go back to your account and try again from there."),
        (_, 413) => ("The form is too large", "Shorten what you entered and try again."),
        (_, 429) => ("Too many requests", "Wait a minute, then try again."),
        (ErrorCode::UpstreamUnavailable, _) => {
            ("The payment processor did not respond", "Nothing was changed. Try again in a moment.")
        }
        (ErrorCode::StorageFull, _) => ("The service is out of storage", "Nothing was saved. Try again later."),
        (ErrorCode::Overloaded, _) => (
            "Too many requests at once",
            "Nothing was saved. If one of your downloads is in progress, wait until it finishes; otherwise, try again \
             in a moment.",
        ),
        (_, 503) => ("The service is temporarily unavailable", "Nothing was saved. Try again in a moment."),
        (_, 400..500) => ("The request is not valid", "Go back, check what you entered, and try again."),
        _ => ("Something went wrong", "Try again. If it keeps happening, contact the operator of this service."),
    }
}
