//! The pages that emailed links lead to: each is one form with one button.

use std::sync::{Arc, LazyLock};

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::error::ErrorBody;
use deeplink_core::secret::Token;
use deeplink_core::session::NextPath;
use deeplink_core::user::CONFIRM_PATH;
use http::StatusCode;
use http::header::SET_COOKIE;

use super::PageResult;
use super::form::Form;
use super::frame::Section;
use super::headers::{page, see_other};
use super::person::Person;
use super::secret::{Secret, SecretKind};
use crate::api;
use crate::error::ApiError;
use crate::http::client_ip::Peer;
use crate::http::extract::{Query, SIGN_IN_BODY_LIMIT};
use crate::http::host::OnServiceHost;
use crate::state::Shared;
use crate::visit::page::{BASE_CSS, compact_css};

static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../templates/auth/token.css")]));

#[derive(Template)]
#[template(path = "auth/token.html")]
struct TokenPage<'a> {
    nonce: &'a str,
    css: &'static str,
    title: &'a str,
    text: &'a [String],
    button: &'static str,
    otherwise: &'static str,
    /// An SVG path in a 24 by 24 box.
    icon: &'static str,
    action: &'static str,
    token: &'a str,
    next: Option<&'a str>,
}

const KEY: &str = "M15.5 3a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M11.6 12.4 3 21M6 18l2.5 2.5M16.8 7.2v.1";
const ENVELOPE: &str = "M4.5 5.5h15A1.5 1.5 0 0 1 21 7v10a1.5 1.5 0 0 1-1.5 1.5h-15A1.5 1.5 0 0 1 3 17V7a1.5 1.5 0 0 1 1.5-1.5M3.5 7.5 12 13l8.5-5.5";
const PEOPLE: &str = "M9 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8M2 20.5c.6-3.6 3.4-5.5 7-5.5s6.4 1.9 7 5.5M19 8v6M16 11h6";

/// Shows the form of a mailed link. Opening it does not use up the token.
#[utoipa::path(
    get, path = "/v1/auth/callback", operation_id = "callback_page", tag = "sessions",
    params(
        ("token" = String, Query, description = "The link's token"),
        ("next" = Option<String>, Query, description = "Path of this service to go to after the sign-in"),
    ),
    responses(
        (status = 200, description = "A page with a form", content_type = "text/html", body = String),
        (status = 400, description = "There is no token, or more than one", body = ErrorBody),
    )
)]
pub(crate) async fn sign_in(State(app): State<Shared>, _: OnServiceHost, query: Query) -> Result<Response, ApiError> {
    let token = token(&query)?;
    let next = query.one("next")?.map(NextPath::read);
    let next = next.as_ref().map(NextPath::as_str);
    Ok(page(&app, StatusCode::OK, |nonce| sign_in_page(nonce, &app.service_host, token, next)))
}

fn token(query: &Query) -> Result<&str, ApiError> {
    query.one("token")?.ok_or_else(|| ApiError::bad_field("token", "the link has no token"))
}

fn sign_in_page(nonce: &str, host: &str, token: &str, next: Option<&str>) -> askama::Result<String> {
    let text = [format!("Continue to sign in to {host}.")];
    TokenPage {
        nonce,
        css: &CSS,
        title: "Sign in",
        text: &text,
        button: "Continue",
        otherwise: "If you did not request this, close this page.",
        icon: KEY,
        action: "/v1/auth/callback",
        token,
        next,
    }
    .render()
}

/// Shows the form that confirms a sign-up. Opening it does not use up the token.
pub(super) async fn sign_up(State(app): State<Shared>, query: Query) -> PageResult {
    let token = token(&query)?;
    Ok(page(&app, StatusCode::OK, |nonce| sign_up_page(nonce, &app.service_host, token)))
}

fn sign_up_page(nonce: &str, host: &str, token: &str) -> askama::Result<String> {
    let text = [
        format!("Someone created an account on {host} with this email address and holds a secret key for it."),
        "When you confirm, the account becomes yours: all its keys, webhooks and sources stop working, and you get a \
         new secret key. Its links, domains and apps stay, so look through them."
            .to_owned(),
    ];
    TokenPage {
        nonce,
        css: &CSS,
        title: "Confirm your email address",
        text: &text,
        button: "Confirm email address",
        otherwise: "If that was not you, close this page, and the account stays unconfirmed. To get an account of \
                    your own, sign in with this address instead.",
        icon: ENVELOPE,
        action: CONFIRM_PATH,
        token,
        next: None,
    }
    .render()
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
        lead: "Your email address is confirmed. Keys that this account had before no longer work. Anyone who has this one can do everything in this account that you can. Store it where only your programs can read it.",
        kind: SecretKind::ApiKey,
        back: "/account/keys",
        repeated: "key-shown",
    };
    let mut response = secret.show(&app, &person, Some(confirmed.key.expose()));
    response.headers_mut().insert(SET_COOKIE, confirmed.cookie);
    Ok(response)
}

/// Shows the form of an invitation. Opening it does not use up the token.
#[utoipa::path(
    get, path = "/v1/auth/verify", operation_id = "verify_page", tag = "team",
    params(("token" = String, Query, description = "The invitation's token")),
    responses(
        (status = 200, description = "A page with a form", content_type = "text/html", body = String),
        (status = 400, description = "There is no token, or more than one", body = ErrorBody),
    )
)]
pub(crate) async fn invitation(
    State(app): State<Shared>,
    _: OnServiceHost,
    query: Query,
) -> Result<Response, ApiError> {
    let token = token(&query)?;
    Ok(page(&app, StatusCode::OK, |nonce| invitation_page(nonce, &app.service_host, token)))
}

fn invitation_page(nonce: &str, host: &str, token: &str) -> askama::Result<String> {
    let text = [format!(
        "You have been invited to a team on {host}. Accept, then sign in with the email address that was invited."
    )];
    TokenPage {
        nonce,
        css: &CSS,
        title: "Join the team",
        text: &text,
        button: "Accept invitation",
        otherwise: "If you do not want to join, close this page.",
        icon: PEOPLE,
        action: "/v1/auth/verify",
        token,
        next: None,
    }
    .render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visit::dom::Dom;

    const NONCE: &str = "bm9uY2U=";

    type Render = fn(&str, &str, &str) -> askama::Result<String>;

    /// S11: whatever the token or path contains, the page has the same elements, fetches nothing, and its form sends
    /// back exactly that text.
    #[test]
    fn s11_a_token_is_a_value_of_one_hidden_field() {
        let plain =
            Dom::parse(&sign_in_page(NONCE, "links.example.com", &"0".repeat(64), Some("/account")).expect("a page"));
        let invited = Dom::parse(&invitation_page(NONCE, "links.example.com", &"0".repeat(64)).expect("a page"));
        let confirming = Dom::parse(&sign_up_page(NONCE, "links.example.com", &"0".repeat(64)).expect("a page"));
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
            let page = Dom::parse(&sign_in_page(NONCE, "links.example.com", hostile, Some(hostile)).expect("a page"));
            assert_eq!(page.shape(), plain.shape(), "{hostile}");
            let fields: Vec<_> =
                page.all("input").iter().map(|field| (field.attr("name"), field.attr("value"))).collect();
            let sent = |name: &str| (Some(name.to_owned()), Some(hostile.to_owned()));
            assert_eq!(fields, [sent("token"), sent("next")]);
            for (render, expected) in [(invitation_page as Render, &invited), (sign_up_page, &confirming)] {
                let page = Dom::parse(&render(NONCE, "links.example.com", hostile).expect("a page"));
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
                // The icon is in the page itself.
                let leaves = |value: &str| value.contains("//") && !value.starts_with("data:image/svg+xml,");
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
