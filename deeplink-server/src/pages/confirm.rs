//! The page that asks for confirmation before something that cannot be undone.

use askama::Template;
use axum::response::Response;

use super::form::{FormError, draw_id, status_of};
use super::frame::{Back, Frame, Section, answer};
use super::person::Person;
use crate::state::App;

/// The question to confirm. The form is submitted to the page's own path, unless it was another form that asked.
pub(super) struct Question<'a> {
    pub(super) section: Section,
    pub(super) title: String,
    /// What the action applies to.
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

#[derive(Template)]
#[template(path = "pages/confirm.html")]
struct ConfirmPage<'a> {
    frame: &'a Frame,
    question: &'a Question<'a>,
    action: &'a str,
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
        self.page(app, person, (&person.path, &[]), error)
    }

    /// The page for a form that is submitted to `action` again once it is confirmed, with these fields.
    pub(super) fn ask_with(&self, app: &App, person: &Person, action: &str, fields: &[(&str, &str)]) -> Response {
        self.page(app, person, (action, fields), None)
    }

    fn page(
        &self,
        app: &App,
        person: &Person,
        (action, fields): (&str, &[(&str, &str)]),
        error: Option<&FormError>,
    ) -> Response {
        let frame = Frame::of(app, person, self.section, &*self.title).failed(error.is_some());
        let text = error.map(|error| error.text.as_str());
        let page = ConfirmPage { frame: &frame, question: self, action, fields, form_id: draw_id(app), error: text };
        answer(app, status_of(error), &frame, &page)
    }
}
