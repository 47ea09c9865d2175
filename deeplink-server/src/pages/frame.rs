//! The frame around every page's content: the head, the navigation, and who is signed in.

use std::borrow::Cow;
use std::sync::LazyLock;

use askama::Template;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;
use http::StatusCode;
use http::header::RETRY_AFTER;

use super::COMMON_CSS;
use super::form::View;
use super::headers::{Allowed, headers, nonce};
use super::notice;
use super::person::Person;
use super::time;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::state::App;
use crate::visit::page::{BASE_CSS, compact_css, compact_js};

static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, COMMON_CSS, include_str!("../../templates/pages/account.css")]));

static SCRIPT: LazyLock<String> = LazyLock::new(|| compact_js(include_str!("../../templates/pages/account.js")));

/// Rules and a script that only some pages need.
pub(super) struct Part {
    css: LazyLock<String>,
    script: LazyLock<String>,
    /// Whether the script sends requests to this service.
    connects: bool,
}

/// For pages with usage or a report.
pub(super) static REPORTS: Part = Part {
    css: LazyLock::new(|| compact_css(&[include_str!("../../templates/pages/reports.css")])),
    script: LazyLock::new(|| compact_js(include_str!("../../templates/pages/reports.js"))),
    connects: false,
};

/// For the form of a link.
pub(super) static LINK_FORM: Part = Part {
    css: LazyLock::new(|| compact_css(&[include_str!("../../templates/pages/link_form.css")])),
    script: LazyLock::new(|| compact_js(include_str!("../../templates/pages/link_form.js"))),
    connects: false,
};

/// For the list of links.
pub(super) static LINK_LIST: Part = Part {
    css: LazyLock::new(|| compact_css(&[include_str!("../../templates/pages/link_list.css")])),
    script: LazyLock::new(|| compact_js(include_str!("../../templates/pages/link_list.js"))),
    connects: true,
};

/// Initial capacity, enough for most pages.
const PAGE_BYTES: usize = 32 * 1024;

/// A section of the account: its name, its path, and its icon, as an SVG path in a 24 by 24 box.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) icon: &'static str,
}

impl Section {
    pub(super) const OVERVIEW: Self =
        Self { name: "Overview", path: "/account", icon: "M4 11.5 12 5l8 6.5M6.5 10v9h11v-9" };
    pub(super) const LINKS: Self = Self {
        name: "Links",
        path: "/account/links",
        icon: "M10 14a4 4 0 0 0 5.7 0l3-3a4 4 0 0 0-5.7-5.7l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3a4 4 0 0 0 5.7 5.7l1-1",
    };
    pub(super) const DOMAINS: Self = Self {
        name: "Domains",
        path: "/account/domains",
        icon: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M3.5 12h17M12 3.5c4.5 5 4.5 12 0 17-4.5-5-4.5-12 0-17",
    };
    pub(super) const APPS: Self = Self {
        name: "Apps",
        path: "/account/apps",
        icon: "M8.5 3.5h7a1.5 1.5 0 0 1 1.5 1.5v14a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 7 19V5a1.5 1.5 0 0 1 1.5-1.5M11 17.5h2",
    };
    pub(super) const KEYS: Self = Self {
        name: "Keys",
        path: "/account/keys",
        icon: "M8 11.5a4 4 0 1 0 0 8 4 4 0 0 0 0-8M11 13l8.5-8.5M16 8l3 3",
    };
    pub(super) const AFFILIATES: Self = Self {
        name: "Affiliates",
        path: "/account/affiliates",
        icon: "M6 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M18 4a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M18 15a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M8.3 11l7.4-3.6M8.3 13l7.4 3.6",
    };
    pub(super) const SOURCES: Self =
        Self { name: "Sources", path: "/account/sources", icon: "M12 4v10.5M7.5 10.5 12 15l4.5-4.5M4.5 14.5v5h15v-5" };
    pub(super) const WEBHOOKS: Self =
        Self { name: "Webhooks", path: "/account/webhooks", icon: "M12 20V9.5M7.5 13.5 12 9l4.5 4.5M4.5 9.5v-5h15v5" };
    pub(super) const PLAN: Self = Self {
        name: "Plan",
        path: "/account/plan",
        icon: "M4.5 6h15A1.5 1.5 0 0 1 21 7.5v9a1.5 1.5 0 0 1-1.5 1.5h-15A1.5 1.5 0 0 1 3 16.5v-9A1.5 1.5 0 0 1 4.5 6M3 10h18M6.5 14.5h4",
    };
    pub(super) const TEAM: Self = Self {
        name: "Team",
        path: "/account/team",
        icon: "M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7M3 19.5c.5-3.5 3-5 6-5s5.5 1.5 6 5M16 5.5a3.3 3.3 0 0 1 0 6M17.5 14.8c2 .7 3.2 2.2 3.5 4.7",
    };
    pub(super) const SETTINGS: Self = Self {
        name: "Settings",
        path: "/account/settings",
        icon: "M4 7h9M18 7h2M15.5 4.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M4 17h2M11 17h9M8.5 14.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5",
    };
    /// In the order of the navigation.
    const ALL: [Self; 11] = [
        Self::OVERVIEW,
        Self::LINKS,
        Self::DOMAINS,
        Self::APPS,
        Self::KEYS,
        Self::SOURCES,
        Self::WEBHOOKS,
        Self::AFFILIATES,
        Self::TEAM,
        Self::PLAN,
        Self::SETTINGS,
    ];
}

/// A link to where the page belongs: its path, and what is there.
#[derive(Clone, Copy)]
pub(super) struct Back<'a> {
    pub(super) path: &'a str,
    pub(super) name: &'a str,
}

impl Section {
    /// The link to the section.
    pub(super) const fn back(self) -> Back<'static> {
        Back { path: self.path, name: self.name }
    }
}

/// The frame of one page.
pub(super) struct Frame {
    pub(super) nonce: String,
    pub(super) css: &'static str,
    /// Rules that only this page has; nothing in them is anyone's text.
    pub(super) own_css: String,
    /// `None` on pages that have nothing for it to do, most of which hold a token.
    pub(super) script: Option<&'static str>,
    /// What only this page's script does.
    pub(super) own_script: &'static str,
    /// Whether it sends requests to this service.
    connects: bool,
    pub(super) title: String,
    /// The section that the page is in; `None` outside the account.
    pub(super) section: Option<Section>,
    /// Who is signed in.
    pub(super) email: Option<String>,
    /// Whether the operator suspended the account.
    pub(super) is_suspended: bool,
    /// When the account will be deleted, in its time zone.
    pub(super) deletes_at: Option<String>,
    /// The time zone of the account, in which the page shows times.
    zone: Zone,
    /// The result of the previous form.
    pub(super) notice: Option<Cow<'static, str>>,
    /// Whether the form has an error, which the title then starts with.
    pub(super) failed: bool,
    /// Whether accounts have a plan here.
    pub(super) has_plan: bool,
    /// Where forms may redirect to besides this service and its website.
    forms_lead_to: String,
}

impl Frame {
    /// The frame of a page of the account.
    pub(super) fn of(app: &App, person: &Person, section: Section, title: impl Into<String>) -> Self {
        let who = &person.who;
        let (email, is_suspended) = (Some(who.email.clone()), who.is_suspended);
        let time = |at| format!("{} ({})", time::minute(at, &who.zone), time::zone_name(&who.zone));
        // A suspended account's deletion waits.
        let deletes_at = who.tenant_deletes_at.filter(|_| !is_suspended).map(time);
        let (section, zone) = (Some(section), who.zone.clone());
        Self { section, email, is_suspended, deletes_at, zone, ..Self::alone(app, title).with_script() }
    }

    /// The frame of a section's list with its form.
    pub(super) fn list(app: &App, person: &Person, section: Section, view: &View<'_>) -> Self {
        Self::of(app, person, section, section.name).showing(view)
    }

    /// The frame of a page outside the account.
    pub(super) fn alone(app: &App, title: impl Into<String>) -> Self {
        Self { has_plan: app.config.billing, ..Self::bare(nonce(app), title) }
    }

    /// The same, without anything of the service.
    pub(super) fn bare(nonce: String, title: impl Into<String>) -> Self {
        Self {
            nonce,
            css: &CSS,
            own_css: String::new(),
            script: None,
            own_script: "",
            connects: false,
            title: title.into(),
            section: None,
            email: None,
            is_suspended: false,
            deletes_at: None,
            zone: Zone::default(),
            notice: None,
            failed: false,
            has_plan: false,
            forms_lead_to: String::new(),
        }
    }

    /// Adds the script.
    pub(super) fn with_script(mut self) -> Self {
        self.script = Some(&SCRIPT);
        self
    }

    /// Adds what only some pages have.
    pub(super) fn with(mut self, part: &'static Part) -> Self {
        self.own_css.push_str(&part.css);
        self.own_script = &part.script;
        self.connects = part.connects;
        self
    }

    /// Lets forms of the page redirect to the payment processor. Its pages can be on any domain, known only from its
    /// response.
    pub(super) fn leading_to_payment(mut self, app: &App) -> Self {
        if let Some(stripe) = &app.config.stripe {
            self.forms_lead_to = format!(" https: {}", stripe.base.origin().ascii_serialization());
        }
        self
    }

    /// Shows the result of the previous form.
    pub(super) fn after(mut self, query: &Query) -> Self {
        let value = |name| query.one(name).ok().flatten();
        let number = |name| value(name).and_then(|text| text.parse().ok());
        self.notice = value("done").and_then(|code| match number("n") {
            Some(changed) => notice::counted(code, changed, number("unchanged").unwrap_or(0)).map(Cow::Owned),
            None => notice::sentence(code).map(Cow::Borrowed),
        });
        self
    }

    /// Shows the result of the previous form, or that this one was refused.
    pub(super) fn showing(self, view: &View<'_>) -> Self {
        match view {
            View::Opened(Some(query)) => self.after(query),
            View::Opened(None) => self,
            View::Refused(..) => self.failed(true),
        }
    }

    /// Marks the page as one with an error.
    pub(super) fn failed(mut self, failed: bool) -> Self {
        self.failed = failed;
        self
    }

    /// The path of the section's list, which its form is submitted to.
    pub(super) fn section_path(&self) -> &'static str {
        self.section.map_or("", |section| section.path)
    }

    /// A day as the page shows it.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
    pub(super) fn day(&self, at: &Timestamp) -> String {
        time::day(*at, &self.zone)
    }

    /// A day and a time to the minute.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
    pub(super) fn minute(&self, at: &Timestamp) -> String {
        time::minute(*at, &self.zone)
    }

    /// A day and a time to the second.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
    pub(super) fn second(&self, at: &Timestamp) -> String {
        time::second(*at, &self.zone)
    }

    /// The caption of a list with times.
    pub(super) fn timed(&self, caption: &str) -> String {
        format!("{caption} Times are in {}.", self.zone_name())
    }

    /// The name of the time zone that times are in.
    pub(super) fn zone_name(&self) -> String {
        time::zone_name(&self.zone)
    }

    /// The icon of the section.
    pub(super) fn section_icon(&self) -> &'static str {
        self.section.map_or("", |section| section.icon)
    }

    /// The sections, and whether the page is in each.
    pub(super) fn sections(&self) -> impl Iterator<Item = (Section, bool)> {
        let shown = Section::ALL.into_iter().filter(|section| self.has_plan || *section != Section::PLAN);
        shown.map(|section| (section, Some(section) == self.section))
    }
}

/// Navigation through a paginated list.
pub(super) struct Pager {
    pub(super) is_first: bool,
    /// Path and query of the first page.
    pub(super) first: String,
    /// The same of the next page.
    pub(super) next: Option<String>,
    /// The labels of the links to both.
    pub(super) labels: [&'static str; 2],
}

impl Pager {
    /// For the page at `cursor` of the list whose first page is at `first`.
    pub(super) fn new(first: impl Into<String>, cursor: Option<&str>, next: Option<String>) -> Self {
        let first = first.into();
        let joined = if first.contains('?') { '&' } else { '?' };
        let next = next.map(|cursor| format!("{first}{joined}cursor={cursor}"));
        Self { is_first: cursor.is_none(), first, next, labels: ["Newest", "Older"] }
    }

    /// The same for a list with the oldest first.
    pub(super) fn oldest_first(self) -> Self {
        Self { labels: ["Oldest", "Newer"], ..self }
    }
}

/// A page's status, and the seconds after which the request may be repeated.
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

/// The response with a page.
pub(super) fn answer(app: &App, outcome: impl Into<Outcome>, frame: &Frame, page: &impl Template) -> Response {
    let outcome = outcome.into();
    let mut html = String::with_capacity(PAGE_BYTES);
    match page.render_into(&mut html) {
        Ok(()) => {
            let mut response = Response::new(Body::from(html));
            *response.status_mut() = outcome.status;
            let allowed = Allowed {
                script: frame.script.is_some(),
                connect: frame.connects,
                forms_lead_to: &frame.forms_lead_to,
            };
            response.headers_mut().extend(headers(app, &frame.nonce, &allowed));
            if let Some(seconds) = outcome.retry_after {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
        Err(error) => ApiError::Internal(error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_small_and_stay_inside_their_element() {
        for part in [&REPORTS, &LINK_FORM, &LINK_LIST] {
            let script = [&**SCRIPT, &**part.script].concat();
            assert!(script.len() <= 6 * 1_024, "{} bytes", script.len());
            assert!(!script.contains("</") && !script.contains("<!--"));
            assert!(!script.contains('`'), "a template would lose its white space");
        }
    }
}
