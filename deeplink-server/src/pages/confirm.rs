//! The page that asks once more before something is done that cannot be taken back.

use askama::Template;
use axum::response::Response;

use super::form::{Trouble, draw_id, status_of};
use super::frame::{Frame, Section, answer};
use super::person::Person;
use crate::state::App;

/// What is asked.
pub(super) struct Question<'a> {
    pub(super) section: Section,
    pub(super) title: &'static str,
    /// What it is about.
    pub(super) name: &'a str,
    /// What follows from it.
    pub(super) lead: &'a str,
    /// Where the form goes.
    pub(super) action: &'a str,
    pub(super) submit: &'static str,
    /// Where it leads back to when the answer is no.
    pub(super) back: &'a str,
}

#[derive(Template)]
#[template(path = "pages/confirm.html")]
struct ConfirmPage<'a> {
    frame: &'a Frame,
    question: &'a Question<'a>,
    /// So that what makes something makes it once.
    form_id: String,
    trouble: Option<&'a str>,
}

impl Question<'_> {
    /// Asks it; `trouble` is why it could not be done.
    pub(super) fn ask(&self, app: &App, person: &Person, trouble: Option<&Trouble>) -> Response {
        let frame = Frame::of(app, person, self.section, self.title).failed(trouble.is_some());
        let text = trouble.map(|trouble| trouble.text.as_str());
        let page = ConfirmPage { frame: &frame, question: self, form_id: draw_id(app), trouble: text };
        answer(app, status_of(trouble), &frame, &page)
    }
}
