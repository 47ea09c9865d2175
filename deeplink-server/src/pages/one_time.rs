//! The page of a one-time link, which asks for the person's email address and signs them in. Opening it changes nothing,
//! because scanners and previews open links too.

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::secret::Token;
use deeplink_core::user::Email;
use http::HeaderMap;

use super::PageResult;
use super::form::{Field, Form, FormView, Group, Kind, View};
use super::frame::{Frame, answer};
use super::headers::see_other;
use crate::api::one_time_links::{self, Opens, PATH};
use crate::http::client_ip::Peer;
use crate::http::extract::{Query, SIGN_IN_BODY_LIMIT};
use crate::state::{App, Shared};

/// Redirect for a link that is used, unknown or has expired.
const INVALID: &str = "/signin?error=once_invalid";

#[derive(Template)]
#[template(path = "pages/one_time.html")]
struct OneTimePage<'a> {
    frame: &'a Frame,
    opens: &'a Opens,
    /// Whether an address that is new to the account is taken.
    takes_new: bool,
    form: FormView,
    action: &'static str,
}

/// Shows the form.
pub(super) async fn show(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    query: Query,
) -> PageResult {
    one_time_links::require_sessions(&app)?;
    let token = query.one("token")?.unwrap_or_default();
    let Some(opens) = one_time_links::find(&app, peer, &headers, &Token::new(token)).await? else {
        return Ok(see_other(INVALID));
    };
    let email = if let Opens::Known(email) = &opens { Some(email.as_str()) } else { None };
    let form = Form::with([("token", Some(token)), ("email", email)]);
    Ok(page(&app, &opens, &form, &View::Opened(None)))
}

/// Uses the link up and signs in.
pub(super) async fn enter(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> PageResult {
    let headers = request.headers().clone();
    one_time_links::admit(&app, peer, &headers)?;
    let form = Form::read(request, SIGN_IN_BODY_LIMIT).await?;
    let token = Token::new(form.value("token"));
    let Some(opens) = one_time_links::find(&app, peer, &headers, &token).await? else {
        return Ok(see_other(INVALID));
    };
    let entered = async {
        let email = form.value("email").parse::<Email>()?;
        one_time_links::enter(&app, &headers, &token, email).await
    };
    match entered.await {
        Ok(Some(signed_in)) => Ok(signed_in),
        Ok(None) => Ok(see_other(INVALID)),
        Err(error) => Ok(page(&app, &opens, &form, &View::refused(&form, error)?)),
    }
}

fn page(app: &App, opens: &Opens, values: &Form, view: &View<'_>) -> Response {
    let email = Field::email("email", "Email address", "").required().autocomplete("email");
    let email = Field { focused: true, ..email.placeholder("you@example.com") };
    let fields = vec![Field::hidden("token"), email];
    let form = FormView::new(app, vec![Group::plain(fields)], values, view);
    let title = if matches!(opens, Opens::Known(_)) { "Sign in" } else { "Open your account" };
    let frame = Frame::alone(app, title).failed(view.error().is_some());
    let takes_new = one_time_links::takes_unproved_addresses(app);
    answer(app, view.outcome(), &frame, &OneTimePage { frame: &frame, opens, takes_new, form, action: PATH })
}
