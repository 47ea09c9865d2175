//! The page that shows a new secret, this once.

use askama::Template;

use super::frame::Frame;

/// A new secret. The page is the form's own answer and is kept nowhere: to load it again sends the form again, which
/// leads to the list.
#[derive(Template)]
#[template(path = "pages/secret.html")]
pub(super) struct Secret<'a> {
    pub(super) frame: &'a Frame,
    pub(super) lead: &'a str,
    pub(super) secret: &'a str,
    /// Where it is used, for a key that programs call with.
    pub(super) base: Option<&'a str>,
    pub(super) back: &'a str,
}
