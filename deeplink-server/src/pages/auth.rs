//! The pages that emailed links lead to: each is one form with one button. Opening one uses up nothing, because scanners
//! open links too; a link that no longer works says so at once.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::error::ErrorBody;
use deeplink_core::secret::Token;
use deeplink_core::session::NextPath;
use deeplink_core::user::CONFIRM_PATH;
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};

use super::PageResult;
use super::form::Form;
use super::frame::{Frame, Section, answer};
use super::headers::see_other;
use super::person::Person;
use super::secret::{Secret, SecretKind};
use crate::api::callback::{self, MailedLink, is_dead};
use crate::api::{self, invites};
use crate::error::ApiError;
use crate::http::client_ip::Peer;
use crate::http::extract::{Query, SIGN_IN_BODY_LIMIT};
use crate::http::host::OnServiceHost;
use crate::state::Shared;

#[derive(Template)]
#[template(path = "pages/token.html")]
struct TokenPage<'a> {
    frame: &'a Frame,
    text: Vec<String>,
    button: &'static str,
    otherwise: &'static str,
    action: &'static str,
    token: &'a str,
    next: Option<&'a str>,
}

/// Shows the sign-in page for an emailed link. Opening the page does not use up the token.
#[utoipa::path(
    get, path = "/v1/auth/callback", operation_id = "callback_page", tag = "sessions",
    params(
        ("token" = String, Query, description = "The link's token"),
        ("next" = Option<String>, Query, description = "Path on this service to go to after signing in"),
    ),
    responses(
        (status = 200, description = "A page with a form", content_type = "text/html", body = String),
        (status = 303, description = "The link was already used or has expired; redirects to `/signin?error=link_expired`", headers(("Location" = String))),
        (status = 400, description = "The token is missing or repeated", body = ErrorBody),
    )
)]
pub(crate) async fn sign_in(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    _: OnServiceHost,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let token = token(&query)?;
    let next = query.one("next")?.map(NextPath::read);
    if is_dead(&app, peer, &headers, &Token::new(token), MailedLink::SignIn).await {
        return Ok(see_other(callback::EXPIRED));
    }
    let frame = Frame::alone(&app, "Sign in");
    let next = next.as_ref().map(NextPath::as_str);
    Ok(answer(&app, StatusCode::OK, &frame, &sign_in_page(&frame, &app.service_host, token, next)))
}

fn token(query: &Query) -> Result<&str, ApiError> {
    query.one("token")?.ok_or_else(|| ApiError::bad_field("token", "the link has no token"))
}

fn sign_in_page<'a>(frame: &'a Frame, host: &str, token: &'a str, next: Option<&'a str>) -> TokenPage<'a> {
    TokenPage {
        frame,
        text: vec![format!("Continue to sign in to {host}.")],
        button: "Continue",
        otherwise: "If you did not request this, close this page.",
        action: "/v1/auth/callback",
        token,
        next,
    }
}

/// Shows the page that confirms a sign-up. Opening the page does not use up the token.
pub(super) async fn sign_up(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    query: Query,
) -> PageResult {
    let token = token(&query)?;
    if is_dead(&app, peer, &headers, &Token::new(token), MailedLink::SignUp).await {
        return Ok(see_other(INVALID));
    }
    let frame = Frame::alone(&app, "Confirm your email address");
    Ok(answer(&app, StatusCode::OK, &frame, &sign_up_page(&frame, &app.service_host, token)))
}

fn sign_up_page<'a>(frame: &'a Frame, host: &str, token: &'a str) -> TokenPage<'a> {
    let text = vec![
        format!("Someone created an account on {host} with this email address and has a secret key for it."),
        "When you confirm, the account becomes yours: all its keys, webhooks and sources stop working, and you get a \
         new secret key. Its links, domains and apps are kept, so review them."
            .to_owned(),
    ];
    TokenPage {
        frame,
        text,
        button: "Confirm email address",
        otherwise: "If that was not you, close this page, and the account will stay unconfirmed. To create your \
                    own account, sign in with this address instead.",
        action: CONFIRM_PATH,
        token,
        next: None,
    }
}

/// Redirect for an invalid token; also when the page with the new key is reloaded.
const INVALID: &str = "/signin?error=signup_invalid";

/// Confirms a sign-up, and shows the account's new key once.
pub(super) async fn confirm(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> PageResult {
    let headers = request.headers().clone();
    let token = Token::new(Form::read(request, SIGN_IN_BODY_LIMIT).await?.value("token"));
    let confirmed = api::signup::confirm(&app, peer, &headers, &token).await?;
    let Some(confirmed) = confirmed else { return Ok(see_other(INVALID)) };
    let caller = Arc::new(confirmed.who.caller());
    let person = Person { who: confirmed.who, caller, path: CONFIRM_PATH.to_owned() };
    let secret = Secret {
        section: Section::KEYS,
        title: "Your new secret key",
        lead: "Your email address is confirmed. The account’s previous keys no longer work. Anyone with this key has full access to your account. Keep it secret.",
        kind: SecretKind::ApiKey,
        back: Section::KEYS.back(),
        repeated: "key-shown",
    };
    let mut response = secret.show(&app, &person, Some(confirmed.key.expose()));
    response.headers_mut().insert(SET_COOKIE, confirmed.cookie);
    Ok(response)
}

/// Shows the page for an invitation. Opening the page does not use up the token.
#[utoipa::path(
    get, path = "/v1/auth/verify", operation_id = "verify_page", tag = "team",
    params(("token" = String, Query, description = "The invitation's token")),
    responses(
        (status = 200, description = "A page with a form", content_type = "text/html", body = String),
        (status = 303, description = "The invitation was used or withdrawn or has expired; redirects to the website's `/signin?error=invite_invalid`", headers(("Location" = String))),
        (status = 400, description = "The token is missing or repeated", body = ErrorBody),
    )
)]
pub(crate) async fn invitation(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    _: OnServiceHost,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let token = token(&query)?;
    if is_dead(&app, peer, &headers, &Token::new(token), MailedLink::Invitation).await {
        return Ok(invites::invalid(&app));
    }
    let frame = Frame::alone(&app, "Join the team");
    Ok(answer(&app, StatusCode::OK, &frame, &invitation_page(&frame, &app.service_host, token)))
}

fn invitation_page<'a>(frame: &'a Frame, host: &str, token: &'a str) -> TokenPage<'a> {
    TokenPage {
        frame,
        text: vec![format!(
            "You have been invited to a team on {host}. Accept, then sign in with the invited email address."
        )],
        button: "Accept invitation",
        otherwise: "If you do not want to join, close this page.",
        action: "/v1/auth/verify",
        token,
        next: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visit::dom::Dom;

    const NONCE: &str = "bm9uY2U=";

    const HOST: &str = "links.example.com";

    type Draw = for<'a> fn(&'a Frame, &str, &'a str) -> TokenPage<'a>;

    fn dom(page: &TokenPage<'_>) -> Dom {
        Dom::parse(&page.render().expect("a page"))
    }

    /// S11: whatever the token or path contains, the page has the same elements, fetches nothing, and its form sends
    /// back exactly that text.
    #[test]
    fn s11_a_token_is_a_value_of_one_hidden_field() {
        let frame = Frame::bare(NONCE.to_owned(), "Sign in");
        let token = "0".repeat(64);
        let plain = dom(&sign_in_page(&frame, HOST, &token, Some("/account")));
        let invited = dom(&invitation_page(&frame, HOST, &token));
        let confirming = dom(&sign_up_page(&frame, HOST, &token));
        for hostile in [
            "\"><svg onload=1>",
            "'><img src=x onerror=1>",
            "</form><form action=//e.example>",
            "</style><script>1</script>",
            "&quot;&gt;&lt;b&gt;",
            "` onfocus=1 autofocus ",
            "{{ token }}{% raw %}",
            "\u{2028}<!--",
            "]]><!DOCTYPE x>",
        ] {
            let page = dom(&sign_in_page(&frame, HOST, hostile, Some(hostile)));
            assert_eq!(page.shape(), plain.shape(), "{hostile}");
            let fields: Vec<_> =
                page.all("input").iter().map(|field| (field.attr("name"), field.attr("value"))).collect();
            let sent = |name: &str| (Some(name.to_owned()), Some(hostile.to_owned()));
            assert_eq!(fields, [sent("token"), sent("next")]);
            for (draw, expected) in [(invitation_page as Draw, &invited), (sign_up_page, &confirming)] {
                let page = dom(&draw(&frame, HOST, hostile));
                assert_eq!(page.shape(), expected.shape(), "{hostile}");
                assert_eq!(page.all("input")[0].attr("value").as_deref(), Some(hostile));
            }
        }
        for (page, action) in
            [(plain, "/v1/auth/callback"), (invited, "/v1/auth/verify"), (confirming, "/account/confirm")]
        {
            for absent in ["script", "img", "iframe", "a", "object", "base"] {
                assert!(page.all(absent).is_empty(), "{absent}");
            }
            for element in page.elements() {
                let leaves = |value: &str| value.contains("//");
                let speaks = |(name, value): &(String, String)| {
                    name == "style" || name.starts_with("on") || name == "src" || leaves(value)
                };
                assert!(!element.attributes.iter().any(speaks), "{}", element.name);
            }
            let form = &page.all("form")[0];
            assert_eq!((form.attr("method").as_deref(), form.attr("action").as_deref()), (Some("post"), Some(action)));
            assert_eq!((page.all("main").len(), page.all("h1").len(), page.all("button").len()), (1, 1, 1));
            assert_eq!(page.all("html")[0].attr("lang").as_deref(), Some("en"));
            assert_eq!(page.all("style")[0].attr("nonce").as_deref(), Some(NONCE));
        }
    }
}
