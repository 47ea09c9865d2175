//! What holds for every page, before and after its handler.

use askama::Template;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::ErrorCode;
use http::header::{ALLOW, RETRY_AFTER};
use http::{Method, StatusCode};

use super::frame::{self, Frame};
use super::headers::see_other;
use crate::error::Record;
use crate::http::host::OnServiceHost;
use crate::http::{csrf, request_id};
use crate::state::{App, Shared};

/// Pages are on the service's own host; a form that another site sends does nothing; a refusal is a page.
pub(super) async fn around(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(error) = OnServiceHost::from_request_parts(&mut parts, &app).await {
        return error.into_response();
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) && csrf::is_foreign(&app, &parts.headers) {
        return see_other("/signin?error=invalid_request");
    }
    let id = request_id::of(&parts.headers);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    match response.extensions_mut().remove::<Record>() {
        Some(record) => {
            let id = id.to_str().unwrap_or_default();
            record.log(id);
            refusal(&app, &response, &record, id)
        }
        None => response,
    }
}

#[derive(Template)]
#[template(path = "pages/refusal.html")]
struct Refusal<'a> {
    frame: &'a Frame,
    heading: &'static str,
    advice: &'static str,
    /// The request's name in the log, where somebody may have to look for it.
    id: Option<&'a str>,
    /// Where it goes on, and what that is called.
    way: &'static str,
    name: &'static str,
}

/// The page for a refusal that no form can show.
fn refusal(app: &App, refused: &Response, record: &Record, id: &str) -> Response {
    let status = refused.status();
    let (heading, advice) = words(&record.body().code, status);
    let frame = Frame::alone(app, heading);
    let (way, name) = match record.body().code {
        ErrorCode::InvalidCursor => ("/account/links", "Go to the newest links"),
        _ => ("/account", "Go to your account"),
    };
    let id = status.is_server_error().then_some(id);
    let page = Refusal { frame: &frame, heading, advice, id, way, name };
    let mut page = frame::answer(app, status, &frame, &page);
    for name in [RETRY_AFTER, ALLOW] {
        if let Some(value) = refused.headers().get(&name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}

/// A refusal for people: what happened, and what to do.
pub(super) fn words(code: &ErrorCode, status: StatusCode) -> (&'static str, &'static str) {
    match (code, status.as_u16()) {
        (code, _) if code.is_not_configured() => {
            ("This is not set up on this service", "Whoever runs the service can set it up.")
        }
        (ErrorCode::InvalidCursor, _) => ("This list has moved on", "Begin again with the newest."),
        (_, 404) => ("There is nothing here", "It may have been deleted. Check that the address is complete."),
        (_, 405) => ("This page cannot be asked that way", "Go back to your account and try again from there."),
        (_, 413) => ("That was too much", "What the form holds is larger than can be stored."),
        (_, 429) => ("Too many requests", "Wait a minute, then try again."),
        (ErrorCode::StorageFull, _) => ("Nothing can be stored right now", "Nothing was done. Try again later."),
        (_, 503) => ("This did not work", "Nothing was done. Try again in a moment."),
        (_, 400..500) => ("This request cannot be understood", "Go back, look over what you sent, and try again."),
        _ => ("Something failed here", "It is not your fault. Try again; if it stays, tell whoever runs this service."),
    }
}
