//! The page that asks for confirmation before something that cannot be undone.

use askama::Template;
use axum::response::Response;
use deeplink_core::link::LinkDetail;

use super::form::{FormError, draw_id, status_of};
use super::frame::{Back, Frame, Section, answer};
use super::links::{destination_of, name_of};
use super::person::Person;
use crate::state::App;

/// The question to confirm. The form is submitted to the page's own path, unless it was another form that asked.
pub(super) struct Question<'a> {
    pub(super) section: Section,
    pub(super) title: String,
    /// What the action applies to; empty if that is a list of links.
    pub(super) subject: &'a str,
    /// The consequences of the action.
    pub(super) lead: &'a str,
    pub(super) submit: String,
    /// Whether the subject must be typed to confirm.
    pub(super) is_typed: bool,
    /// The label of the link that cancels.
    pub(super) keep: &'static str,
    /// The target of that link.
    pub(super) back: Back<'a>,
}

/// A link that a question is about, named as in the list of links.
struct SubjectLink {
    id: String,
    name: Option<String>,
    leads_to: Option<String>,
}

impl From<LinkDetail> for SubjectLink {
    fn from(link: LinkDetail) -> Self {
        Self { name: name_of(&link), leads_to: destination_of(&link), id: link.link_id }
    }
}

#[derive(Template)]
#[template(path = "pages/confirm.html")]
struct ConfirmPage<'a> {
    frame: &'a Frame,
    question: &'a Question<'a>,
    action: &'a str,
    /// The links that the action applies to; empty if it applies to the question's subject.
    links: Vec<SubjectLink>,
    /// What the form sends besides that it was confirmed.
    fields: &'a [(&'a str, &'a str)],
    /// An id, so that a confirmed action creates something only once.
    form_id: String,
    error: Option<&'a str>,
}

impl<'a> Question<'a> {
    /// Asks whether to delete something.
    pub(super) fn delete(section: Section, noun: &str, subject: &'a str, lead: &'a str, back: Back<'a>) -> Self {
        let (title, submit) = (format!("Delete this {noun}?"), format!("Delete {noun}"));
        Self { section, title, subject, lead, submit, is_typed: false, keep: "Cancel", back }
    }

    /// The page; `error` is why the action failed.
    pub(super) fn ask(&self, app: &App, person: &Person, error: Option<&FormError>) -> Response {
        self.page(app, person, (&person.path, &[]), Vec::new(), error)
    }

    /// The page for a form about these links that is submitted to `action` again once it is confirmed, with these fields.
    pub(super) fn ask_about(
        &self,
        app: &App,
        person: &Person,
        links: Vec<LinkDetail>,
        form: (&str, &[(&str, &str)]),
    ) -> Response {
        self.page(app, person, form, links.into_iter().map(SubjectLink::from).collect(), None)
    }

    fn page(
        &self,
        app: &App,
        person: &Person,
        (action, fields): (&str, &[(&str, &str)]),
        links: Vec<SubjectLink>,
        error: Option<&FormError>,
    ) -> Response {
        let frame = Frame::of(app, person, self.section, &*self.title).failed(error.is_some());
        let text = error.map(|error| error.text.as_str());
        let form_id = draw_id(app);
        let page = ConfirmPage { frame: &frame, question: self, action, links, fields, form_id, error: text };
        answer(app, status_of(error), &frame, &page)
    }
}
