//! The page that shows a new secret, this once.

use askama::Template;

use super::frame::Frame;

/// Who carries a secret, and so what the page shows of its use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Programs that call.
    Programs,
    /// Apps and pages that report.
    Pages,
    /// Receivers of events, which verify with it.
    Receivers,
}

/// A new secret. The page is the form's own answer and is kept nowhere: to load it again sends the form again, which
/// leads to the list.
#[derive(Template)]
#[template(path = "pages/secret.html")]
pub(super) struct Secret<'a> {
    pub(super) frame: &'a Frame,
    pub(super) lead: &'a str,
    pub(super) secret: &'a str,
    /// Where the service is.
    pub(super) base: &'a str,
    pub(super) carried_by: Carrier,
    pub(super) back: &'a str,
}
