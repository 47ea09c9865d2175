//! The pages that mailed links lead to: each is one form with one button.

use std::sync::LazyLock;

use askama::Template;
use axum::response::Response;
use deeplink_core::session::NextPath;
use http::StatusCode;

use super::headers::page;
use crate::state::App;
use crate::visit::page::{BASE_CSS, compact_css};

static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../templates/auth/token.css")]));

#[derive(Template)]
#[template(path = "auth/token.html")]
struct TokenPage<'a> {
    nonce: &'a str,
    css: &'static str,
    title: &'a str,
    says: &'a str,
    button: &'static str,
    otherwise: &'static str,
    /// A path of lines in a square of 24 units.
    sign: &'static str,
    action: &'static str,
    token: &'a str,
    next: Option<&'a str>,
}

const KEY: &str = "M15.5 3a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M11.6 12.4 3 21M6 18l2.5 2.5M16.8 7.2v.1";
const PEOPLE: &str = "M9 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8M2 20.5c.6-3.6 3.4-5.5 7-5.5s6.4 1.9 7 5.5M19 8v6M16 11h6";

/// The page of a link that signs in.
pub(crate) fn sign_in(app: &App, token: &str, next: Option<&NextPath>) -> Response {
    page(app, StatusCode::OK, |nonce| sign_in_page(nonce, &app.service_host, token, next.map(NextPath::as_str)))
}

fn sign_in_page(nonce: &str, host: &str, token: &str, next: Option<&str>) -> askama::Result<String> {
    let says = format!("One more step, and you are signed in to {host}.");
    TokenPage {
        nonce,
        css: &CSS,
        title: "Sign in",
        says: &says,
        button: "Continue",
        otherwise: "If you did not ask for this, close this page.",
        sign: KEY,
        action: "/v1/auth/callback",
        token,
        next,
    }
    .render()
}

/// The page of an invitation.
pub(crate) fn invitation(app: &App, token: &str) -> Response {
    page(app, StatusCode::OK, |nonce| invitation_page(nonce, &app.service_host, token))
}

fn invitation_page(nonce: &str, host: &str, token: &str) -> askama::Result<String> {
    let says = format!("You are invited to a team at {host}. Join it, then sign in with the address that was invited.");
    TokenPage {
        nonce,
        css: &CSS,
        title: "Join the team",
        says: &says,
        button: "Accept invitation",
        otherwise: "If you do not want to join, close this page.",
        sign: PEOPLE,
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
