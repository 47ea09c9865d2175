//! Options in a query string.

use std::net::IpAddr;
use std::str::FromStr;

use super::{MAX_MARGIN, MAX_SIZE, NotListed, QrOptions, out_of_range, wrong};
use crate::colour::Rgb;
use crate::error::Invalid;
use crate::url;

impl QrOptions {
    /// Reads a query string. Unknown names are ignored; each known name may occur once, with a value. The error names
    /// the first one that breaks a rule, in the documented order. `allows` says which addresses outside the public
    /// internet a logo may be fetched from.
    pub fn from_query(query: &str, allows: impl Fn(IpAddr) -> bool) -> Result<Self, Invalid> {
        let query = Query(query);
        let mut options = Self {
            size: query.number("size", 1, MAX_SIZE)?,
            level: query.choice("level")?,
            margin: query.number("margin", 0, MAX_MARGIN)?,
            ..Self::default()
        };
        // Deprecated for `margin=0`.
        if query.boolean("includeMargin")? == Some(false) {
            options.margin = options.margin.or(Some(0));
        }
        options.dot_type = query.choice("dotType")?;
        options.corner_square_type = query.choice("cornerSquareType")?;
        options.corner_dot_type = query.choice("cornerDotType")?;
        options.shape = query.choice("shape")?;
        options.fg_color = query.colour("fgColor")?;
        options.bg_color = query.colour("bgColor")?;
        options.dot_color = query.colour("dotColor")?;
        options.corner_square_color = query.colour("cornerSquareColor")?;
        options.corner_dot_color = query.colour("cornerDotColor")?;
        options.hide_logo = query.boolean("hideLogo")?;
        if options.hide_logo != Some(true) {
            options.logo = query.parsed("logo", |text| check_logo(text, allows))?;
        }
        Ok(options)
    }
}

/// A query string, read one name at a time.
struct Query<'a>(&'a str);

impl Query<'_> {
    fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Invalid> {
        let mut values = ::url::form_urlencoded::parse(self.0.as_bytes()).filter(|(key, _)| key == name);
        let Some((_, value)) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(wrong(name, "is given more than once"));
        }
        parse(&value).map(Some).map_err(|why| wrong(name, &why))
    }

    fn number(&self, name: &'static str, least: u32, most: u32) -> Result<Option<u32>, Invalid> {
        self.parsed(name, |text| {
            let plain = matches!(text.len(), 1..=9) && text.bytes().all(|byte| byte.is_ascii_digit());
            let value = if plain { text.parse().ok() } else { None };
            value.filter(|value| (least..=most).contains(value)).ok_or_else(|| out_of_range(least, most))
        })
    }

    fn choice<T: FromStr<Err = NotListed>>(&self, name: &'static str) -> Result<Option<T>, Invalid> {
        self.parsed(name, |text| text.parse().map_err(|why: NotListed| why.to_string()))
    }

    fn boolean(&self, name: &'static str) -> Result<Option<bool>, Invalid> {
        self.parsed(name, |text| match text {
            "1" => Ok(true),
            "0" => Ok(false),
            _ if text.eq_ignore_ascii_case("true") => Ok(true),
            _ if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err("must be true or false, or 1 or 0".to_owned()),
        })
    }

    fn colour(&self, name: &'static str) -> Result<Option<Rgb>, Invalid> {
        self.parsed(name, |text| {
            Rgb::parse_lenient(text).ok_or_else(|| {
                "must be 3 or 6 hex digits, such as 0a7cff; in a URL, write # as %23 or omit it".to_owned()
            })
        })
    }
}

pub(super) fn check_logo(text: &str, allows: impl Fn(IpAddr) -> bool) -> Result<String, String> {
    url::outbound(text, allows).map(String::from).map_err(|why| why.to_string())
}
