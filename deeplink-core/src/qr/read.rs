//! Options read by name, whether they come in a query string or in JSON.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;

use super::{MAX_LOGO_NAME, MAX_MARGIN, MAX_SIZE, NotListed, QrOptions, is_logo_name, out_of_range, uploaded, wrong};
use crate::colour::Rgb;
use crate::error::Invalid;
use crate::url;

/// The names of all options, in the order in which they are read.
pub const NAMES: [&str; 15] = [
    "size",
    "level",
    "margin",
    "includeMargin",
    "dotType",
    "cornerSquareType",
    "cornerDotType",
    "shape",
    "fgColor",
    "bgColor",
    "dotColor",
    "cornerSquareColor",
    "cornerDotColor",
    "hideLogo",
    "logo",
];

/// What a value is, where that is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Boolean,
    Text,
}

/// Where options come from.
pub(super) trait Source {
    /// What to do about a color that is wrong.
    const COLOUR_HINT: &'static str;

    /// The text of an option, or why it has none. It has one at most.
    fn text(&self, name: &'static str, kind: Kind) -> Result<Option<Cow<'_, str>>, String>;
}

impl QrOptions {
    pub(super) fn read<S: Source>(source: &S, allows: impl Fn(IpAddr) -> bool) -> Result<Self, Invalid> {
        let read = Reader(source);
        let mut options = Self {
            size: read.number("size", 1, MAX_SIZE)?,
            level: read.choice("level")?,
            margin: read.number("margin", 0, MAX_MARGIN)?,
            ..Self::default()
        };
        // Deprecated for `margin=0`.
        if read.boolean("includeMargin")? == Some(false) {
            options.margin = options.margin.or(Some(0));
        }
        options.dot_type = read.choice("dotType")?;
        options.corner_square_type = read.choice("cornerSquareType")?;
        options.corner_dot_type = read.choice("cornerDotType")?;
        options.shape = read.choice("shape")?;
        options.fg_color = read.colour("fgColor")?;
        options.bg_color = read.colour("bgColor")?;
        options.dot_color = read.colour("dotColor")?;
        options.corner_square_color = read.colour("cornerSquareColor")?;
        options.corner_dot_color = read.colour("cornerDotColor")?;
        options.hide_logo = read.boolean("hideLogo")?;
        if options.hide_logo != Some(true) {
            options.logo = read.parsed("logo", Kind::Text, |text| check_logo(text, allows))?;
        }
        Ok(options)
    }
}

/// Options, read one at a time.
struct Reader<'a, S>(&'a S);

impl<S: Source> Reader<'_, S> {
    fn parsed<T>(
        &self,
        name: &'static str,
        kind: Kind,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Invalid> {
        let text = self.0.text(name, kind).map_err(|why| wrong(name, &why))?;
        text.map(|text| parse(&text)).transpose().map_err(|why| wrong(name, &why))
    }

    fn number(&self, name: &'static str, least: u32, most: u32) -> Result<Option<u32>, Invalid> {
        self.parsed(name, Kind::Number, |text| {
            let plain = matches!(text.len(), 1..=9) && text.bytes().all(|byte| byte.is_ascii_digit());
            let value = if plain { text.parse().ok() } else { None };
            value.filter(|value| (least..=most).contains(value)).ok_or_else(|| out_of_range(least, most))
        })
    }

    fn choice<T: FromStr<Err = NotListed>>(&self, name: &'static str) -> Result<Option<T>, Invalid> {
        self.parsed(name, Kind::Text, |text| text.parse().map_err(|why: NotListed| why.to_string()))
    }

    fn boolean(&self, name: &'static str) -> Result<Option<bool>, Invalid> {
        self.parsed(name, Kind::Boolean, |text| match text {
            "1" => Ok(true),
            "0" => Ok(false),
            _ if text.eq_ignore_ascii_case("true") => Ok(true),
            _ if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err("must be true or false, or 1 or 0".to_owned()),
        })
    }

    fn colour(&self, name: &'static str) -> Result<Option<Rgb>, Invalid> {
        self.parsed(name, Kind::Text, |text| {
            Rgb::parse_lenient(text)
                .ok_or_else(|| format!("must be 3 or 6 hex digits, such as 0a7cff{}", S::COLOUR_HINT))
        })
    }
}

/// The URL of a logo as it is stored, or the reference to an uploaded one.
pub(super) fn check_logo(text: &str, allows: impl Fn(IpAddr) -> bool) -> Result<String, String> {
    match uploaded(text) {
        Some(name) if is_logo_name(name) => Ok(text.to_owned()),
        Some(_) => Err(format!(
            "the name of an uploaded logo is 1 to {MAX_LOGO_NAME} lowercase letters, digits and hyphens, as in name:acme"
        )),
        None => url::outbound(text, allows).map(String::from).map_err(|why| why.to_string()),
    }
}
