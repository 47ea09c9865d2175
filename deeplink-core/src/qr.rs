//! What a QR code may look like: options as a caller gives them, and the style that follows from them. Drawing is the
//! service's.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::colour::Rgb;
use crate::error::{ErrorCode, Invalid};
use crate::link::setters;
use crate::url;

/// Longest edge in pixels.
pub const MAX_SIZE: u32 = 2_048;
/// Edge in pixels when the caller does not say.
pub const DEFAULT_SIZE: u32 = 600;
/// Widest margin in modules.
pub const MAX_MARGIN: u32 = 16;
/// Margin in modules when the caller does not say.
pub const DEFAULT_MARGIN: u32 = 2;
/// Least contrast between the background and each part, as a WCAG 2.2 ratio. Readers need about this much; 3 and more,
/// dark on light, is what to choose.
pub const MIN_CONTRAST: f64 = 2.0;

/// Least difference in brightness ([`Rgb::luma`]) between the background and each part: readers turn a picture grey,
/// and give up below 24.
pub const MIN_LUMA: u8 = 32;

/// A word outside its list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {0}")]
pub struct NotListed(&'static str);

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            const WORDS: &'static str = {
                const LISTED: &str = concat!($(", ", $word),+);
                LISTED.split_at(2).1
            };

            /// The word for it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl FromStr for $name {
            type Err = NotListed;

            fn from_str(text: &str) -> Result<Self, NotListed> {
                Self::ALL.iter().copied().find(|one| one.as_str().eq_ignore_ascii_case(text)).ok_or(NotListed(Self::WORDS))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($word,)+]))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    };
}

choices! {
    /// File format of a code.
    QrFormat {
        /// Pixels: a whole number of them for each module.
        Png = "png",
        /// Paths, sharp at any size.
        Svg = "svg",
    }
}

impl QrFormat {
    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Svg => "image/svg+xml; charset=utf-8",
        }
    }
}

choices! {
    /// How much of a code may be unreadable (ISO/IEC 18004).
    QrLevel {
        /// About 7 %.
        L = "L",
        /// About 15 %.
        M = "M",
        /// About 25 %.
        Q = "Q",
        /// About 30 %.
        H = "H",
    }
}

choices! {
    /// How the modules are drawn.
    DotType {
        /// Squares.
        Square = "square",
        /// Circles, each on its own.
        Dots = "dots",
        /// Runs with round ends and corners.
        Rounded = "rounded",
        /// Runs with two round corners.
        Classy = "classy",
        /// Runs with two wide round corners.
        ClassyRounded = "classy-rounded",
        /// Runs with round ends and wide round corners.
        ExtraRounded = "extra-rounded",
    }
}

choices! {
    /// How the frames of the three eyes are drawn.
    CornerSquareType {
        /// A square.
        Square = "square",
        /// A ring.
        Dot = "dot",
        /// A square with round corners.
        ExtraRounded = "extra-rounded",
    }
}

choices! {
    /// How the pupils of the three eyes are drawn.
    CornerDotType {
        /// A disc.
        Dot = "dot",
        /// A square.
        Square = "square",
    }
}

choices! {
    /// Outline of the whole.
    QrShape {
        /// The symbol alone.
        Square = "square",
        /// A disc around the symbol, filled with dots that mean nothing.
        Circle = "circle",
    }
}

/// What a caller may say about a QR code; everything is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QrOptions {
    /// Whole edge in pixels, margin included, 1 to 2048; 600 when absent. A PNG needs 2 pixels for each module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Error correction; `H` when a logo is drawn, else `L`, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<QrLevel>,
    /// Margin in modules, 0 to 16; 2 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<u32>,
    /// How modules are drawn; `rounded` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dot_type: Option<DotType>,
    /// How the eyes' frames are drawn; `extra-rounded` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corner_square_type: Option<CornerSquareType>,
    /// How the eyes' pupils are drawn; `dot` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corner_dot_type: Option<CornerDotType>,
    /// Outline; `square` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<QrShape>,
    /// Colour of whatever has none of its own; black when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fg_color: Option<Rgb>,
    /// Background; white when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bg_color: Option<Rgb>,
    /// Colour of the dots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dot_color: Option<Rgb>,
    /// Colour of the eyes' frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corner_square_color: Option<Rgb>,
    /// Colour of the eyes' pupils.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corner_dot_color: Option<Rgb>,
    /// Leaves the logo out, and does not even look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hide_logo: Option<bool>,
    /// Web address of a PNG, JPEG or WebP image to put in the middle: at most 512 KiB, 4,096 px a side, 16 megapixels.
    /// The service fetches it; it must be reachable on the public internet, without a redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
}

impl QrOptions {
    /// The default look.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the edge in pixels.
        size: impl Into<u32>,
        /// Sets the error correction.
        level: impl Into<QrLevel>,
        /// Sets the margin in modules.
        margin: impl Into<u32>,
        /// Sets how modules are drawn.
        dot_type: impl Into<DotType>,
        /// Sets how the eyes' frames are drawn.
        corner_square_type: impl Into<CornerSquareType>,
        /// Sets how the eyes' pupils are drawn.
        corner_dot_type: impl Into<CornerDotType>,
        /// Sets the outline.
        shape: impl Into<QrShape>,
        /// Sets the colour of whatever has none of its own.
        fg_color: impl Into<Rgb>,
        /// Sets the background.
        bg_color: impl Into<Rgb>,
        /// Sets the colour of the dots.
        dot_color: impl Into<Rgb>,
        /// Sets the colour of the eyes' frames.
        corner_square_color: impl Into<Rgb>,
        /// Sets the colour of the eyes' pupils.
        corner_dot_color: impl Into<Rgb>,
        /// Leaves the logo out.
        hide_logo: impl Into<bool>,
        /// Sets the logo.
        logo: impl Into<String>,
    }

    /// Reads a query string. Unknown names are ignored; of the known ones each may stand once, with a value. The first
    /// that breaks a rule is named, in the order of the interface. `allows` says which addresses outside the public
    /// internet a logo may be fetched from.
    pub fn from_query(query: &str, allows: impl Fn(IpAddr) -> bool) -> Result<Self, Invalid> {
        let query = Query(query);
        let mut options = Self {
            size: query.number("size", 1, MAX_SIZE)?,
            level: query.choice("level")?,
            margin: query.number("margin", 0, MAX_MARGIN)?,
            ..Self::default()
        };
        // The older way to say "no margin".
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

    /// Applies defaults and rules. Of a logo's address only the form is judged here, not where it is.
    pub fn check(&self) -> Result<QrStyle, Invalid> {
        let within = |name, value: Option<u32>, least, most| match value {
            Some(value) if !(least..=most).contains(&value) => Err(wrong(name, &out_of_range(least, most))),
            _ => Ok(()),
        };
        within("size", self.size, 1, MAX_SIZE)?;
        within("margin", self.margin, 0, MAX_MARGIN)?;
        let logo = self.logo.as_deref().filter(|_| self.hide_logo != Some(true));
        let logo = logo.map(|text| check_logo(text, |_| true)).transpose().map_err(|why| wrong("logo", &why))?;
        let foreground = self.fg_color.unwrap_or(Rgb::BLACK);
        let style = QrStyle {
            size: self.size.unwrap_or(DEFAULT_SIZE),
            level: self.level.unwrap_or(if logo.is_some() { QrLevel::H } else { QrLevel::L }),
            margin: self.margin.unwrap_or(DEFAULT_MARGIN),
            dot_type: self.dot_type.unwrap_or(DotType::Rounded),
            corner_square_type: self.corner_square_type.unwrap_or(CornerSquareType::ExtraRounded),
            corner_dot_type: self.corner_dot_type.unwrap_or(CornerDotType::Dot),
            shape: self.shape.unwrap_or(QrShape::Square),
            background: self.bg_color.unwrap_or(Rgb::WHITE),
            dots: self.dot_color.unwrap_or(foreground),
            frames: self.corner_square_color.unwrap_or(foreground),
            pupils: self.corner_dot_color.unwrap_or(foreground),
            logo,
        };
        self.check_contrast(&style)?;
        Ok(style)
    }

    /// Readers see a grey picture, and in it dark on light or light on dark: each part must differ enough from the
    /// background, for people as for cameras, and all in the same direction.
    fn check_contrast(&self, style: &QrStyle) -> Result<(), Invalid> {
        let background = style.background;
        let is_darker = |colour: Rgb| colour.luma() < background.luma();
        for (part, colour, own, field) in [
            ("dots", style.dots, self.dot_color, "dotColor"),
            ("frames of the eyes", style.frames, self.corner_square_color, "cornerSquareColor"),
            ("pupils of the eyes", style.pupils, self.corner_dot_color, "cornerDotColor"),
        ] {
            // What is named is what the caller wrote.
            let field = match (own, self.fg_color) {
                (Some(_), _) => field,
                (None, Some(_)) => "fgColor",
                (None, None) => "bgColor",
            };
            let ratio = background.contrast(colour);
            if ratio < MIN_CONTRAST {
                // Cut, not rounded: 1.996 must not read as 2.00.
                let ratio = (ratio * 100.0).floor() / 100.0;
                let why = format!(
                    "the {part} ({colour}) hardly differ from the background ({background}): the contrast is \
                     {ratio:.2}, and at least {MIN_CONTRAST:.1} is needed"
                );
                return Err(wrong(field, &why));
            }
            if colour.luma().abs_diff(background.luma()) < MIN_LUMA {
                let why = format!(
                    "the {part} ({colour}) are as bright as the background ({background}): readers see no colours and \
                     would not tell them apart"
                );
                return Err(wrong(field, &why));
            }
            if is_darker(colour) != is_darker(style.dots) {
                let why = format!(
                    "the {part} ({colour}) and the dots ({}) lie on both sides of the background ({background}): \
                     readers need all parts darker than it, or all lighter",
                    style.dots
                );
                return Err(wrong(field, &why));
            }
        }
        Ok(())
    }
}

/// What a QR code looks like: every option with its effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QrStyle {
    /// Whole edge in pixels, margin included.
    pub size: u32,
    /// Error correction.
    pub level: QrLevel,
    /// Margin in modules.
    pub margin: u32,
    /// How modules are drawn.
    pub dot_type: DotType,
    /// How the eyes' frames are drawn.
    pub corner_square_type: CornerSquareType,
    /// How the eyes' pupils are drawn.
    pub corner_dot_type: CornerDotType,
    /// Outline.
    pub shape: QrShape,
    /// Colour of the background.
    pub background: Rgb,
    /// Colour of the dots.
    pub dots: Rgb,
    /// Colour of the eyes' frames.
    pub frames: Rgb,
    /// Colour of the eyes' pupils.
    pub pupils: Rgb,
    /// Where the logo is that is to be drawn.
    pub logo: Option<String>,
}

impl Default for QrStyle {
    fn default() -> Self {
        Self {
            size: DEFAULT_SIZE,
            level: QrLevel::L,
            margin: DEFAULT_MARGIN,
            dot_type: DotType::Rounded,
            corner_square_type: CornerSquareType::ExtraRounded,
            corner_dot_type: CornerDotType::Dot,
            shape: QrShape::Square,
            background: Rgb::WHITE,
            dots: Rgb::BLACK,
            frames: Rgb::BLACK,
            pupils: Rgb::BLACK,
            logo: None,
        }
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
            return Err(wrong(name, "stands more than once"));
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
            _ => Err("must be true or false".to_owned()),
        })
    }

    fn colour(&self, name: &'static str) -> Result<Option<Rgb>, Invalid> {
        self.parsed(name, |text| {
            Rgb::parse_lenient(text).ok_or_else(|| "must be 3 or 6 hex digits, such as 0a7cff".to_owned())
        })
    }
}

fn check_logo(text: &str, allows: impl Fn(IpAddr) -> bool) -> Result<String, String> {
    url::outbound(text, allows).map(String::from).map_err(|why| why.to_string())
}

fn out_of_range(least: u32, most: u32) -> String {
    format!("must be a whole number from {least} to {most}")
}

fn wrong(name: &'static str, why: &str) -> Invalid {
    Invalid::field(ErrorCode::InvalidQrOptions, name, format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(query: &str) -> Result<QrStyle, Invalid> {
        QrOptions::from_query(query, |_| false)?.check()
    }

    /// The parameter that is named in the refusal.
    fn at_fault(query: &str) -> Option<String> {
        let refused = style(query).err()?;
        assert_eq!(refused.code, ErrorCode::InvalidQrOptions, "{query}");
        let field = refused.field.expect("a field").into_owned();
        assert!(refused.message.starts_with(&format!("{field}: ")), "{}", refused.message);
        Some(field)
    }

    #[test]
    fn each_parameter_takes_its_values_and_no_others() {
        let colours = (
            "000 fff %23000000 #AbCdEf 0a7cff",
            "red #ffff #12345g rgb(0,0,0) %23%23fff fffffff red;}body{ %23fff\"/><script>",
        );
        let logos = (
            "https://example.com/x.png http://example.com:8080/x https://8.8.8.8/a?b=c",
            "ftp://example.com/x https://localhost/x.png https://127.0.0.1/x https://u@example.com/x x.png",
        );
        for (name, (accepted, refused)) in [
            ("size", ("1 600 2048 0600", "0 2049 -1 %2B5 6e2 600.0 abc 4294967296 1e9 0000000600 ٣")),
            ("level", ("L M Q H l m q h", "X LOW 0")),
            ("margin", ("0 2 16 016", "17 -1 2.5 %20")),
            ("includeMargin", ("true false 1 0 TRUE False", "yes 2 no")),
            (
                "dotType",
                ("square dots rounded classy classy-rounded extra-rounded Classy-Rounded", "dot classyrounded"),
            ),
            ("cornerSquareType", ("square dot extra-rounded", "rounded dots")),
            ("cornerDotType", ("dot square DOT", "dots extra-rounded")),
            ("shape", ("square circle", "round")),
            ("fgColor", colours),
            ("bgColor", colours),
            ("dotColor", colours),
            ("cornerSquareColor", colours),
            ("cornerDotColor", colours),
            ("hideLogo", ("true false 1 0", "2")),
            ("logo", logos),
        ] {
            for value in accepted.split(' ') {
                let query = format!("{name}={}", value.replace('#', "%23"));
                assert!(QrOptions::from_query(&query, |_| false).is_ok(), "{query}");
            }
            for value in refused.split(' ') {
                let query = format!("{name}={}", value.replace('#', "%23"));
                assert_eq!(at_fault(&query).as_deref(), Some(name), "{query}");
            }
            let (value, _) = accepted.split_once(' ').expect("a value");
            let twice = format!("{name}={value}&{name}={value}");
            for query in [format!("{name}="), name.to_owned(), twice] {
                assert_eq!(at_fault(&query).as_deref(), Some(name), "{query}");
            }
            let elsewhere = format!("{}=%00&unknown=1&unknown=2&{}", name.to_uppercase(), "x");
            assert_eq!(style(&elsewhere), Ok(QrStyle::default()), "names are case-sensitive, unknown ones ignored");
        }
    }

    #[test]
    fn the_first_parameter_at_fault_is_named() {
        let order = [
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
        for at in 0..order.len() {
            let query: Vec<_> = order[at..].iter().rev().map(|name| format!("{name}=?")).collect();
            assert_eq!(at_fault(&query.join("&")).as_deref(), Some(order[at]));
        }
    }

    #[test]
    fn margin_and_logo_have_their_defaults() {
        for (query, margin) in [
            ("", 2),
            ("includeMargin=true", 2),
            ("includeMargin=false", 0),
            ("includeMargin=0&margin=5", 5),
            ("margin=0", 0),
        ] {
            assert_eq!(style(query).map(|style| style.margin), Ok(margin), "{query}");
        }
        assert_eq!(at_fault("includeMargin=x&margin=4").as_deref(), Some("includeMargin"));
        let logo = "logo=https://example.com/x.png";
        for (query, drawn, level) in [
            (String::new(), false, QrLevel::L),
            ("hideLogo=true".into(), false, QrLevel::L),
            (logo.into(), true, QrLevel::H),
            (format!("{logo}&hideLogo=0"), true, QrLevel::H),
            (format!("{logo}&hideLogo=1"), false, QrLevel::L),
            (format!("{logo}&level=L"), true, QrLevel::L),
            // Hidden, it is not looked at.
            ("hideLogo=true&logo=ftp://localhost".into(), false, QrLevel::L),
        ] {
            let style = style(&query).expect("a style");
            assert_eq!((style.logo.is_some(), style.level), (drawn, level), "{query}");
        }
    }

    #[test]
    fn what_hardly_differs_from_the_background_is_refused() {
        for (fg, bg, ratio, passes) in [
            ("000000", "FFFFFF", 21.00, true),
            ("C8C8C8", "FFFFFF", 1.67, false),
            ("B7B7B7", "FFFFFF", 2.006, true),
            ("B8B8B8", "FFFFFF", 1.984, false),
            ("FFFFFF", "1A1A1A", 17.40, true),
            ("FFCC00", "FFFFFF", 1.51, false),
            ("FF0000", "0000FF", 2.15, true),
            ("777777", "888888", 1.26, false),
        ] {
            let contrast =
                Rgb::parse_lenient(fg).expect("a colour").contrast(Rgb::parse_lenient(bg).expect("a colour"));
            assert!((contrast - ratio).abs() < 0.005, "{fg} on {bg}: {contrast}");
            assert_eq!(style(&format!("fgColor={fg}&bgColor={bg}")).is_ok(), passes, "{fg} on {bg}");
        }
        for (query, field) in [
            ("bgColor=000", "bgColor"),
            ("fgColor=eee&dotColor=000", "fgColor"),
            ("dotColor=eee&cornerDotColor=eee", "dotColor"),
            ("cornerSquareColor=eee&cornerDotColor=eee", "cornerSquareColor"),
            ("cornerDotColor=eee", "cornerDotColor"),
            // Contrast is judged after every parameter.
            ("fgColor=fff&logo=x", "logo"),
        ] {
            assert_eq!(at_fault(query).as_deref(), Some(field), "{query}");
        }
        // Readable for people, not for readers: as bright as the background, or on both sides of it.
        for (query, field) in [
            ("bgColor=1ace08&cornerDotColor=77795c", "cornerDotColor"),
            ("bgColor=ec6c1d&cornerSquareColor=36f118", "cornerSquareColor"),
            ("bgColor=b681d0&dotColor=0efd56", "dotColor"),
            ("bgColor=777&cornerSquareColor=fff", "cornerSquareColor"),
            ("bgColor=777&fgColor=fff&cornerDotColor=000", "cornerDotColor"),
            ("bgColor=777&fgColor=fff&dotColor=000", "fgColor"),
        ] {
            assert_eq!(at_fault(query).as_deref(), Some(field), "{query}");
        }
        let own = "fgColor=fff&dotColor=000&cornerSquareColor=00f&cornerDotColor=700";
        assert!(style(own).is_ok(), "each part has a colour of its own");
        let refused = style("fgColor=B8B8B8").expect_err("a refusal");
        assert!(refused.message.contains("the contrast is 1.98"), "{}", refused.message);
    }

    #[test]
    fn options_that_are_sent_are_options_that_are_read() {
        let options = QrOptions::new()
            .size(300_u32)
            .level(QrLevel::Q)
            .margin(0_u32)
            .dot_type(DotType::ClassyRounded)
            .corner_square_type(CornerSquareType::Dot)
            .corner_dot_type(CornerDotType::Square)
            .shape(QrShape::Circle)
            .fg_color(Rgb([1, 2, 3]))
            .bg_color(Rgb([250, 251, 252]))
            .dot_color(Rgb([0, 0, 9]))
            .corner_square_color(Rgb([0, 9, 0]))
            .corner_dot_color(Rgb([9, 0, 0]))
            .hide_logo(false)
            .logo("https://example.com/a.png?b=c&d=e");
        let sent = serde_json::to_value(&options).expect("an object");
        let mut query = ::url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in sent.as_object().expect("an object") {
            query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        assert_eq!(QrOptions::from_query(&query.finish(), |_| false), Ok(options));
        for options in [QrOptions::new().size(2_049_u32), QrOptions::new().margin(17_u32), QrOptions::new().logo("x")] {
            assert!(options.check().is_err(), "{options:?}");
        }
    }

    #[test]
    fn where_a_logo_may_be_fetched_from_can_be_widened() {
        let query = "logo=http://127.0.0.1:8080/x.png";
        assert!(QrOptions::from_query(query, |_| false).is_err());
        assert!(QrOptions::from_query(query, |address| address.is_loopback()).is_ok());
    }
}
