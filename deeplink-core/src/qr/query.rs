//! Options in a query string.

use std::borrow::Cow;
use std::net::IpAddr;

use super::QrOptions;
use super::read::{Kind, NAMES, Source};
use crate::error::Invalid;

impl QrOptions {
    /// Reads a query string. Unknown names are ignored; each known name may occur once, with a value. The error names
    /// the first one that breaks a rule, in the documented order. `allows` says which addresses outside the public
    /// internet a logo may be fetched from.
    pub fn from_query(query: &str, allows: impl Fn(IpAddr) -> bool) -> Result<Self, Invalid> {
        Self::read(&Query(query), allows)
    }

    /// Whether a query string names any option of the style, valid or not. A size is none: it applies to the design
    /// that is saved with a link.
    pub fn are_in_query(query: &str) -> bool {
        ::url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name != "size" && NAMES.contains(&&*name))
    }
}

/// A query string, in which every value is a text.
struct Query<'a>(&'a str);

impl Source for Query<'_> {
    const COLOUR_HINT: &'static str = "; in a URL, write # as %23 or omit it";

    fn text(&self, name: &'static str, _: Kind) -> Result<Option<Cow<'_, str>>, String> {
        let mut values = ::url::form_urlencoded::parse(self.0.as_bytes()).filter(|(key, _)| key == name);
        let Some((_, value)) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err("is given more than once".to_owned());
        }
        Ok(Some(value))
    }
}
