//! Small pages that explain why a link does not open.
//!
//! They contain none of a link's values, no hyperlink and no script: the link's creator has no control over them.

use std::sync::LazyLock;

use askama::Template;
use axum::http::StatusCode;

use super::page::{BASE_CSS, compact_css};

static CSS: LazyLock<String> = LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../templates/notice.css")]));

/// Why a visit ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The link has expired.
    Expired,
    /// The operator disabled the link.
    Disabled,
    /// The link was flagged as unsafe; its destinations are not shown.
    Flagged,
    /// There is no such link.
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
    /// An SVG path in a 24 by 24 box.
    icon: &'static str,
    is_warning: bool,
}

const CLOCK: &str = "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 7.5V12l3 2";
const BROKEN_LINK: &str = "m12.5 7.5 3.5-3.5a4.24 4.24 0 0 1 6 6l-3.5 3.5M11.5 16.5 8 20a4.24 4.24 0 0 1-6-6l3.5-3.5M8.5 5V2.5M5 8.5H2.5M15.5 19v2.5M19 15.5h2.5";
const TRIANGLE: &str = "M12 3 2.5 20h19zM12 10v4.5M12 17.2v.1";
const MAGNIFIER: &str = "M10.5 3.5a7 7 0 1 0 0 14 7 7 0 0 0 0-14M15.5 15.5l5 5";

/// The page for a notice; send it with [`Notice::status`] and [`super::page::headers`].
pub(crate) fn render(notice: Notice, nonce: &str) -> askama::Result<String> {
    let (icon, title, advice) = match notice {
        Notice::Expired => (
            CLOCK,
            "This link has expired",
            "It was only valid for a limited time. Ask the person who shared it for a new one.",
        ),
        Notice::Disabled => (
            BROKEN_LINK,
            "This link is no longer available",
            "It has been disabled. Ask the person who shared it where to find what you were looking for.",
        ),
        Notice::Flagged => (
            TRIANGLE,
            "This link has been reported as unsafe",
            "To protect you, it has been blocked. You can close this page.",
        ),
        Notice::NotFound => (
            MAGNIFIER,
            "Link not found",
            "Check that the address is complete. Uppercase and lowercase letters are different.",
        ),
        Notice::TooMany => (CLOCK, "Too many requests", "Wait a moment, then try again."),
    };
    Page { nonce, css: &CSS, title, advice, icon, is_warning: notice == Notice::Flagged }.render()
}

#[cfg(test)]
mod tests {
    use super::super::dom::Dom;
    use super::*;

    const ALL: [(Notice, u16, &str); 5] = [
        (Notice::Expired, 410, "This link has expired"),
        (Notice::Disabled, 410, "This link is no longer available"),
        (Notice::Flagged, 200, "This link has been reported as unsafe"),
        (Notice::NotFound, 404, "Link not found"),
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
