//! What all pages have around their content: the head, the way around the account, and who is signed in.

use std::sync::LazyLock;

use askama::Template;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;

use super::headers::{headers, nonce};
use super::notice;
use super::person::Person;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::state::App;
use crate::visit::page::{BASE_CSS, compact_css};

static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../templates/pages/account.css")]));

/// Room for most pages, so that rendering seldom grows its text.
const PAGE_BYTES: usize = 32 * 1024;

/// A part of the account: what it is called, where it is, and the sign beside its name, as a path in a square of 24.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) sign: &'static str,
}

impl Section {
    pub(super) const OVERVIEW: Self =
        Self { name: "Overview", path: "/account", sign: "M4 11.5 12 5l8 6.5M6.5 10v9h11v-9" };
    pub(super) const LINKS: Self = Self {
        name: "Links",
        path: "/account/links",
        sign: "M10 14a4 4 0 0 0 5.7 0l3-3a4 4 0 0 0-5.7-5.7l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3a4 4 0 0 0 5.7 5.7l1-1",
    };
    pub(super) const DOMAINS: Self = Self {
        name: "Domains",
        path: "/account/domains",
        sign: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M3.5 12h17M12 3.5c4.5 5 4.5 12 0 17-4.5-5-4.5-12 0-17",
    };
    pub(super) const APPS: Self = Self {
        name: "Apps",
        path: "/account/apps",
        sign: "M8.5 3.5h7a1.5 1.5 0 0 1 1.5 1.5v14a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 7 19V5a1.5 1.5 0 0 1 1.5-1.5M11 17.5h2",
    };
    pub(super) const KEYS: Self = Self {
        name: "Keys",
        path: "/account/keys",
        sign: "M8 11.5a4 4 0 1 0 0 8 4 4 0 0 0 0-8M11 13l8.5-8.5M16 8l3 3",
    };
    pub(super) const AFFILIATES: Self = Self {
        name: "Affiliates",
        path: "/account/affiliates",
        sign: "M6 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M18 4a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M18 15a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M8.3 11l7.4-3.6M8.3 13l7.4 3.6",
    };
    pub(super) const SOURCES: Self =
        Self { name: "Sources", path: "/account/sources", sign: "M12 4v10.5M7.5 10.5 12 15l4.5-4.5M4.5 14.5v5h15v-5" };
    pub(super) const WEBHOOKS: Self =
        Self { name: "Webhooks", path: "/account/webhooks", sign: "M12 20V9.5M7.5 13.5 12 9l4.5 4.5M4.5 9.5v-5h15v5" };
    pub(super) const TEAM: Self = Self {
        name: "Team",
        path: "/account/team",
        sign: "M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7M3 19.5c.5-3.5 3-5 6-5s5.5 1.5 6 5M16 5.5a3.3 3.3 0 0 1 0 6M17.5 14.8c2 .7 3.2 2.2 3.5 4.7",
    };
    /// In the order of the way around.
    const ALL: [Self; 9] = [
        Self::OVERVIEW,
        Self::LINKS,
        Self::DOMAINS,
        Self::APPS,
        Self::KEYS,
        Self::SOURCES,
        Self::WEBHOOKS,
        Self::AFFILIATES,
        Self::TEAM,
    ];
}

/// The frame of one page.
pub(super) struct Frame {
    pub(super) nonce: String,
    pub(super) css: &'static str,
    pub(super) title: String,
    /// Where in the account the page is; `None` outside of it.
    section: Option<Section>,
    /// Who is signed in.
    pub(super) email: Option<String>,
    /// What became of the form before.
    pub(super) notice: Option<&'static str>,
    /// Whether something in the form is wrong, which the title says first.
    pub(super) failed: bool,
}

impl Frame {
    /// The frame of a page of the account.
    pub(super) fn of(app: &App, person: &Person, section: Section, title: impl Into<String>) -> Self {
        let email = Some(person.who.email.clone());
        Self { section: Some(section), email, ..Self::alone(app, title) }
    }

    /// The frame of a page outside the account.
    pub(super) fn alone(app: &App, title: impl Into<String>) -> Self {
        Self {
            nonce: nonce(app),
            css: &CSS,
            title: title.into(),
            section: None,
            email: None,
            notice: None,
            failed: false,
        }
    }

    /// Takes what the page's address says of the form before.
    pub(super) fn after<'q>(mut self, query: impl Into<Option<&'q Query>>) -> Self {
        self.notice = query.into().and_then(|query| query.one("done").ok().flatten()).and_then(notice::sentence);
        self
    }

    /// Says first that something is wrong.
    pub(super) fn failed(mut self, failed: bool) -> Self {
        self.failed = failed;
        self
    }

    /// The way around, with where the page is.
    pub(super) fn sections(&self) -> impl Iterator<Item = (Section, bool)> {
        Section::ALL.into_iter().map(|section| (section, Some(section) == self.section))
    }
}

/// How a page ends: its status, and the seconds after which it may be asked for again.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<u64>,
}

impl From<StatusCode> for Outcome {
    fn from(status: StatusCode) -> Self {
        Self { status, retry_after: None }
    }
}

/// A page on its way out.
pub(super) fn answer(app: &App, outcome: impl Into<Outcome>, frame: &Frame, page: &impl Template) -> Response {
    let outcome = outcome.into();
    let mut html = String::with_capacity(PAGE_BYTES);
    match page.render_into(&mut html) {
        Ok(()) => {
            let mut response = Response::new(Body::from(html));
            *response.status_mut() = outcome.status;
            response.headers_mut().extend(headers(app, &frame.nonce));
            if let Some(seconds) = outcome.retry_after {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
        Err(error) => ApiError::Internal(error.to_string()).into_response(),
    }
}
