//! The user of a page. [`Person`] in a handler's signature is the permission; without a session it redirects to
//! sign-in.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use deeplink_core::session::NextPath;
use http::Method;
use http::request::Parts;

use super::headers::see_other;
use super::selected_links;
use crate::caller::{Caller, SignedIn};
use crate::http::anonymous::Anonymous;
use crate::http::auth::admit;
use crate::http::session::{self, Presented};
use crate::state::Shared;

/// A signed-in user. Only the session cookie counts here.
pub(super) struct Person {
    pub(super) who: Arc<SignedIn>,
    /// The same user as a caller of the API's operations.
    pub(super) caller: Arc<Caller>,
    /// The page's path.
    pub(super) path: String,
}

impl FromRequestParts<Shared> for Person {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Response> {
        let Leaving(person) = Leaving::from_request_parts(parts, app).await?;
        admit(person.who.is_suspended, &parts.method).map_err(IntoResponse::into_response)?;
        Ok(person)
    }
}

/// A user who signs out, which is always allowed, whatever the account's state.
pub(super) struct Leaving(pub(super) Person);

impl FromRequestParts<Shared> for Leaving {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Response> {
        let presented = session::presented(&parts.headers);
        let found = match &presented {
            Presented::One(token) => session::find(app, parts, token).await.map_err(IntoResponse::into_response)?,
            Presented::None | Presented::Several => None,
        };
        let had_one = !matches!(presented, Presented::None);
        match found {
            Some(who) => {
                Anonymous::end(parts, app, &who.tenant).map_err(IntoResponse::into_response)?;
                Ok(Self(Person { caller: Arc::new(who.caller()), who, path: parts.uri.path().to_owned() }))
            }
            None => Err(to_signin(parts, had_one)),
        }
    }
}

/// Redirects to sign-in and from there back to the page; a form cannot be resubmitted automatically. The query of other forms
/// can have the notice about an earlier one.
fn to_signin(parts: &Parts, had_one: bool) -> Response {
    let has_own_query = parts.method == Method::GET || parts.uri.path() == selected_links::PATH;
    let here = match parts.uri.path_and_query() {
        Some(path) if has_own_query => path.as_str(),
        _ => page_of(parts.uri.path()),
    };
    let next = NextPath::read(here);
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    if had_one {
        query.append_pair("error", "session_expired");
    }
    query.append_pair("next", next.as_str());
    see_other(&format!("/signin?{}", query.finish()))
}

/// The page that shows a form: most forms are submitted to their own page.
fn page_of(form: &str) -> &str {
    ["/signout", "/publishable", "/credentials", "/checkout", "/portal", "/cancel-deletion"]
        .iter()
        .find_map(|end| form.strip_suffix(end))
        .unwrap_or(form)
}

/// The signed-in user, if any.
pub(super) struct MaybeSignedIn(pub(super) Option<Arc<SignedIn>>);

impl FromRequestParts<Shared> for MaybeSignedIn {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Infallible> {
        Ok(Self(match session::presented(&parts.headers) {
            // The sign-in page is shown even while sessions cannot be looked up.
            Presented::One(token) => session::find(app, parts, &token).await.ok().flatten(),
            Presented::None | Presented::Several => None,
        }))
    }
}
