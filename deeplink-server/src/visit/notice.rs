//! Small pages that say why there is nothing to open.
//!
//! They hold none of a link's values, no link and no script: whoever made the link cannot speak through them.

use std::sync::LazyLock;

use askama::Template;
use axum::http::StatusCode;

use super::page::{BASE_CSS, compact_css};

static CSS: LazyLock<String> = LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../templates/notice.css")]));

/// Why a visit ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The link's time is over.
    Expired,
    /// The operator switched the link off.
    Disabled,
    /// The link was reported; there is no way through.
    Flagged,
    /// No such link here.
    NotFound,
    /// Too many unknown links from one address.
    TooMany,
}

impl Notice {
    /// The status of the answer.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Expired | Self::Disabled => StatusCode::GONE,
            Self::Flagged => StatusCode::OK,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

#[derive(Template)]
#[template(path = "notice.html")]
struct Page<'a> {
    nonce: &'a str,
    css: &'static str,
    title: &'static str,
    advice: &'static str,
    is_warning: bool,
}

/// The page for a notice; it goes out with [`Notice::status`] and [`super::page::headers`].
pub(crate) fn render(notice: Notice, nonce: &str) -> askama::Result<String> {
    let (title, advice) = match notice {
        Notice::Expired => {
            ("This link has expired", "It was made for a limited time. Ask whoever shared it for a new one.")
        }
        Notice::Disabled => (
            "This link is no longer available",
            "It has been switched off. Ask whoever shared it where to find what you were looking for.",
        ),
        Notice::Flagged => {
            ("This link has been reported as unsafe", "To protect you, it leads no further. You can close this page.")
        }
        Notice::NotFound => {
            ("There is no such link", "Check that the address is complete; capital and small letters differ.")
        }
        Notice::TooMany => ("Too many requests", "Wait a moment, then try again."),
    };
    Page { nonce, css: &CSS, title, advice, is_warning: notice == Notice::Flagged }.render()
}

#[cfg(test)]
mod tests {
    use super::super::dom::Dom;
    use super::*;

    const ALL: [(Notice, u16, &str); 5] = [
        (Notice::Expired, 410, "This link has expired"),
        (Notice::Disabled, 410, "This link is no longer available"),
        (Notice::Flagged, 200, "This link has been reported as unsafe"),
        (Notice::NotFound, 404, "There is no such link"),
        (Notice::TooMany, 429, "Too many requests"),
    ];

    #[test]
    fn every_notice_has_its_status_and_text() {
        for (notice, status, text) in ALL {
            let page = Dom::parse(&render(notice, "bm9uY2U=").expect("the page renders"));
            assert_eq!(notice.status(), status);
            assert_eq!(page.all("h1")[0].text(), text);
            assert_eq!(page.all("title")[0].text(), text);
            let is_warning = page.all("main")[0].attr("class").as_deref() == Some("warning");
            assert_eq!(is_warning, notice == Notice::Flagged);
        }
    }

    #[test]
    fn a_notice_leads_nowhere_and_runs_nothing() {
        for (notice, ..) in ALL {
            let page = Dom::parse(&render(notice, "bm9uY2U=").expect("the page renders"));
            for absent in ["a", "script", "form", "iframe", "img"] {
                assert!(page.all(absent).is_empty(), "{absent}");
            }
            for element in page.elements() {
                assert!(!element.attr("property").unwrap_or_default().starts_with("og:"));
                assert!(element.attributes.iter().all(|(name, _)| name != "style" && !name.starts_with("on")));
            }
            assert_eq!(page.all("style")[0].attr("nonce").as_deref(), Some("bm9uY2U="));
            assert_eq!((page.all("main").len(), page.all("h1").len()), (1, 1));
            assert_eq!(page.all("html")[0].attr("lang").as_deref(), Some("en"));
        }
    }
}
