//! Small pages that explain why a link does not open.
//!
//! They contain none of a link's values, no hyperlink and no script: the link's creator has no control over them.

use std::sync::LazyLock;

use askama::Template;
use axum::http::StatusCode;
use deeplink_core::visitor::Language;

use super::page::{BASE_CSS, compact_css};
use super::texts::Texts;

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
    language: Language,
    css: &'static str,
    title: &'static str,
    advice: &'static str,
    /// An SVG path in a 24 by 24 box.
    icon: &'static str,
    is_warning: bool,
}

const CLOCK: &str = "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 7.5V12l3 2";
const CROSSED_OUT: &str = "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M5.7 5.7l12.6 12.6";
const TRIANGLE: &str = "M12 3 2.5 20h19zM12 10v4.5M12 17.2v.1";
const MAGNIFIER: &str = "M10.5 3.5a7 7 0 1 0 0 14 7 7 0 0 0 0-14M15.5 15.5l5 5";

/// The page for a notice; send it with [`Notice::status`] and [`super::page::headers`].
pub(crate) fn render(notice: Notice, language: Language, nonce: &str) -> askama::Result<String> {
    let texts = Texts::of(language);
    let (icon, title, advice) = match notice {
        Notice::Expired => (CLOCK, texts.expired, texts.expired_advice),
        Notice::Disabled => (CROSSED_OUT, texts.disabled, texts.disabled_advice),
        Notice::Flagged => (TRIANGLE, texts.flagged, texts.flagged_advice),
        Notice::NotFound => (MAGNIFIER, texts.not_found, texts.not_found_advice),
        Notice::TooMany => (CLOCK, texts.too_many, texts.too_many_advice),
    };
    Page { nonce, language, css: &CSS, title, advice, icon, is_warning: notice == Notice::Flagged }.render()
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

    fn dom(notice: Notice, language: Language) -> Dom {
        Dom::parse(&render(notice, language, "bm9uY2U=").expect("the page renders"))
    }

    #[test]
    fn every_notice_has_its_status_and_text() {
        for (notice, status, text) in ALL {
            let page = dom(notice, Language::En);
            assert_eq!(notice.status(), status);
            assert_eq!(page.all("h1")[0].text(), text);
            assert_eq!(page.all("title")[0].text(), text);
            let is_warning = page.all("main")[0].attr("class").as_deref() == Some("warning");
            assert_eq!(is_warning, notice == Notice::Flagged);
        }
    }

    #[test]
    fn every_notice_is_in_every_language() {
        for language in Language::ALL {
            for (notice, _, english) in ALL {
                let page = dom(notice, language);
                let html = &page.all("html")[0];
                assert_eq!(html.attr("lang").as_deref(), Some(language.tag()));
                assert_eq!(html.attr("dir").as_deref(), language.is_rtl().then_some("rtl"));
                assert_eq!(page.all("h1")[0].text() == english, language == Language::En, "{notice:?} {language:?}");
            }
        }
        assert_eq!(dom(Notice::Expired, Language::Ko).all("h1")[0].text(), "만료된 링크입니다");
    }

    #[test]
    fn a_notice_leads_nowhere_and_runs_nothing() {
        for (notice, ..) in ALL {
            let page = dom(notice, Language::En);
            for absent in ["a", "script", "form", "iframe", "img"] {
                assert!(page.all(absent).is_empty(), "{absent}");
            }
            for element in page.elements() {
                assert!(!element.attr("property").unwrap_or_default().starts_with("og:"));
                assert!(element.attributes.iter().all(|(name, _)| name != "style" && !name.starts_with("on")));
            }
            assert_eq!(page.all("style")[0].attr("nonce").as_deref(), Some("bm9uY2U="));
            assert_eq!((page.all("main").len(), page.all("h1").len()), (1, 1));
        }
    }
}
