//! The pages that emailed links lead to: each is one form with one button.

use std::sync::LazyLock;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::error::ErrorBody;
use deeplink_core::session::NextPath;
use http::StatusCode;

use super::headers::page;
use crate::error::ApiError;
use crate::http::extract::Query;
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
    text: &'a str,
    button: &'static str,
    otherwise: &'static str,
    /// An SVG path in a 24 by 24 box.
    icon: &'static str,
    action: &'static str,
    token: &'a str,
    next: Option<&'a str>,
}

const KEY: &str = "M15.5 3a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M11.6 12.4 3 21M6 18l2.5 2.5M16.8 7.2v.1";
const PEOPLE: &str = "M9 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8M2 20.5c.6-3.6 3.4-5.5 7-5.5s6.4 1.9 7 5.5M19 8v6M16 11h6";

/// Shows the form of a mailed link. Nothing is used up by it, however often it is opened.
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
    let text = format!("Continue to sign in to {host}.");
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

/// Shows the form of an invitation. Nothing is used up by it, however often it is opened.
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
    let text = format!(
        "You have been invited to a team on {host}. Accept, then sign in with the email address that was invited."
    );
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

    /// S11: whatever stands in the place of a token or a path, the page is made of the same elements, fetches nothing, and
    /// its form sends back exactly that.
    #[test]
    fn s11_a_token_is_a_value_of_one_hidden_field() {
        let plain =
            Dom::parse(&sign_in_page(NONCE, "links.example.com", &"0".repeat(64), Some("/account")).expect("a page"));
        let invited = Dom::parse(&invitation_page(NONCE, "links.example.com", &"0".repeat(64)).expect("a page"));
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
            let page = Dom::parse(&invitation_page(NONCE, "links.example.com", hostile).expect("a page"));
            assert_eq!(page.shape(), invited.shape(), "{hostile}");
            assert_eq!(page.all("input")[0].attr("value").as_deref(), Some(hostile));
        }
        for (page, action) in [(plain, "/v1/auth/callback"), (invited, "/v1/auth/verify")] {
            for absent in ["script", "img", "iframe", "a", "object", "base"] {
                assert!(page.all(absent).is_empty(), "{absent}");
            }
            for element in page.elements() {
                let speaks = |(name, value): &(String, String)| {
                    name == "style" || name.starts_with("on") || name == "src" || value.contains("//")
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
