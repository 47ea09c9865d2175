//! Options of a QR code, and the style that results from them. The service draws.

mod choices;
mod json;
mod query;
mod read;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::colour::Rgb;
use crate::error::{ErrorCode, Invalid};
use crate::words::setters;

pub use choices::{CornerDotType, CornerSquareType, DotType, NotListed, QrFormat, QrLevel, QrShape};
pub use json::within_link;
pub use read::NAMES as OPTION_NAMES;
use read::check_logo;

/// Maximum width and height in pixels.
pub const MAX_SIZE: u32 = 2_048;
/// Default width and height in pixels.
pub const DEFAULT_SIZE: u32 = 600;
/// Maximum margin in modules.
pub const MAX_MARGIN: u32 = 16;
/// Default margin in modules.
pub const DEFAULT_MARGIN: u32 = 2;
/// Minimum contrast between the background and each part, as a WCAG 2.2 ratio. Readers need about this much; 3 or more,
/// dark on light, is recommended.
pub const MIN_CONTRAST: f64 = 2.0;
/// Minimum difference in brightness ([`Rgb::luma`]) between the background and each part: readers convert an image to
/// grayscale and fail below 24.
pub const MIN_LUMA: u8 = 32;
/// What `logo` begins with if it names an uploaded logo. No URL of a logo begins like this.
pub const UPLOADED: &str = "name:";
/// Maximum characters of an uploaded logo's name.
pub const MAX_LOGO_NAME: usize = 40;

/// The name in a `logo` that refers to an uploaded logo; `None` if it is a URL.
pub fn uploaded(logo: &str) -> Option<&str> {
    logo.strip_prefix(UPLOADED)
}

/// Whether an uploaded logo may have this name: 1 to 40 lowercase letters, digits and hyphens.
pub fn is_logo_name(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_LOGO_NAME).contains(&name.len()) && name.bytes().all(is_known)
}

/// Options of a QR code; all are optional.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QrOptions {
    /// Width and height in pixels, including the margin, 1 to 2048; 600 by default. A PNG needs 2 pixels per module.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2048))]
    pub size: Option<u32>,
    /// Error correction level; by default, `H` with a logo, otherwise `L`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<QrLevel>,
    /// Margin in modules, 0 to 16; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 16))]
    pub margin: Option<u32>,
    /// Style of the modules; `rounded` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dot_type: Option<DotType>,
    /// Shape of the corner squares; `extra-rounded` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corner_square_type: Option<CornerSquareType>,
    /// Shape of the corner dots; `dot` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corner_dot_type: Option<CornerDotType>,
    /// Overall shape; `square` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<QrShape>,
    /// Color of all parts for which no separate color is set; black by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"))]
    pub fg_color: Option<Rgb>,
    /// Background color; white by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"))]
    pub bg_color: Option<Rgb>,
    /// Color of the dots.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"))]
    pub dot_color: Option<Rgb>,
    /// Color of the corner squares.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"))]
    pub corner_square_color: Option<Rgb>,
    /// Color of the corner dots.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"))]
    pub corner_dot_color: Option<Rgb>,
    /// Omits the logo and ignores `logo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hide_logo: Option<bool>,
    /// An uploaded logo to show in the middle, as `name:` followed by its name, or the public URL of a PNG, JPEG or WebP
    /// image: at most 512 KiB, 4,096 px per side and 16 megapixels; less if decoding needs more memory, as for a
    /// progressive JPEG (2 megapixels, 4 with chroma subsampling), a WebP (7) or an interlaced PNG (12). A WebP must be
    /// lossy and without compressed transparency. Redirects are not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub logo: Option<String>,
    /// What is wrong with the JSON that they were read from.
    #[serde(skip)]
    refused: Option<Box<Refused>>,
}

/// Options that this version does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    why: Invalid,
    /// Their JSON, if they are stored.
    stored: Option<String>,
}

impl QrOptions {
    /// The default design.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the width and height in pixels.
        size: impl Into<u32>,
        /// Sets the error correction level.
        level: impl Into<QrLevel>,
        /// Sets the margin in modules.
        margin: impl Into<u32>,
        /// Sets the style of the modules.
        dot_type: impl Into<DotType>,
        /// Sets the shape of the corner squares.
        corner_square_type: impl Into<CornerSquareType>,
        /// Sets the shape of the corner dots.
        corner_dot_type: impl Into<CornerDotType>,
        /// Sets the overall shape.
        shape: impl Into<QrShape>,
        /// Sets the color of all parts for which no separate color is set.
        fg_color: impl Into<Rgb>,
        /// Sets the background color.
        bg_color: impl Into<Rgb>,
        /// Sets the color of the dots.
        dot_color: impl Into<Rgb>,
        /// Sets the color of the corner squares.
        corner_square_color: impl Into<Rgb>,
        /// Sets the color of the corner dots.
        corner_dot_color: impl Into<Rgb>,
        /// Omits the logo.
        hide_logo: impl Into<bool>,
        /// Sets the logo.
        logo: impl Into<String>,
    }

    /// These options, and `other`'s where they have none. A logo is not hidden by another's `hideLogo`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let hide_logo = if self.logo.is_some() { self.hide_logo } else { self.hide_logo.or(other.hide_logo) };
        Self {
            size: self.size.or(other.size),
            level: self.level.or(other.level),
            margin: self.margin.or(other.margin),
            dot_type: self.dot_type.or(other.dot_type),
            corner_square_type: self.corner_square_type.or(other.corner_square_type),
            corner_dot_type: self.corner_dot_type.or(other.corner_dot_type),
            shape: self.shape.or(other.shape),
            fg_color: self.fg_color.or(other.fg_color),
            bg_color: self.bg_color.or(other.bg_color),
            dot_color: self.dot_color.or(other.dot_color),
            corner_square_color: self.corner_square_color.or(other.corner_square_color),
            corner_dot_color: self.corner_dot_color.or(other.corner_dot_color),
            hide_logo,
            logo: self.logo.or(other.logo),
            refused: self.refused.or(other.refused),
        }
    }

    /// Applies defaults and rules. Only the form of a logo's URL is checked here, not its host.
    pub fn check(&self) -> Result<QrStyle, Invalid> {
        if let Some(refused) = &self.refused {
            return Err(refused.why.clone());
        }
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

    /// Readers see a grayscale image, dark on light or light on dark: each part must differ enough from the background,
    /// for people and for cameras, and all in the same direction.
    fn check_contrast(&self, style: &QrStyle) -> Result<(), Invalid> {
        let background = style.background;
        let is_darker = |colour: Rgb| colour.luma() < background.luma();
        for (part, colour, own, field) in [
            ("dots", style.dots, self.dot_color, "dotColor"),
            ("corner squares", style.frames, self.corner_square_color, "cornerSquareColor"),
            ("corner dots", style.pupils, self.corner_dot_color, "cornerDotColor"),
        ] {
            // Name the field that the caller set.
            let field = match (own, self.fg_color) {
                (Some(_), _) => field,
                (None, Some(_)) => "fgColor",
                (None, None) => "bgColor",
            };
            let ratio = background.contrast(colour);
            if ratio < MIN_CONTRAST {
                // Truncated, not rounded: 1.996 must not read as 2.00.
                let ratio = (ratio * 100.0).floor() / 100.0;
                let why = format!(
                    "the {part} ({colour}) are too close to the background ({background}): the contrast is \
                     {ratio:.2}, and at least {MIN_CONTRAST:.1} is needed"
                );
                return Err(wrong(field, &why));
            }
            if colour.luma().abs_diff(background.luma()) < MIN_LUMA {
                let why = format!(
                    "the {part} ({colour}) are as bright as the background ({background}): QR readers ignore color and \
                     cannot tell them apart"
                );
                return Err(wrong(field, &why));
            }
            if is_darker(colour) != is_darker(style.dots) {
                let why = format!(
                    "one of the {part} ({colour}) and the dots ({}) is darker than the background ({background}), and the \
                     other is lighter: readers need all parts to be darker, or all lighter",
                    style.dots
                );
                return Err(wrong(field, &why));
            }
        }
        Ok(())
    }
}

/// The style of a QR code: every option with its effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QrStyle {
    /// Width and height in pixels, including the margin.
    pub size: u32,
    /// Error correction.
    pub level: QrLevel,
    /// Margin in modules.
    pub margin: u32,
    /// How modules are drawn.
    pub dot_type: DotType,
    /// Shape of the corner squares.
    pub corner_square_type: CornerSquareType,
    /// Shape of the corner dots.
    pub corner_dot_type: CornerDotType,
    /// Outline.
    pub shape: QrShape,
    /// Color of the background.
    pub background: Rgb,
    /// Color of the dots.
    pub dots: Rgb,
    /// Color of the corner squares.
    pub frames: Rgb,
    /// Color of the corner dots.
    pub pupils: Rgb,
    /// The logo to draw: its URL, or the reference to an uploaded one.
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

fn out_of_range(least: u32, most: u32) -> String {
    format!("must be a whole number from {least} to {most}")
}

fn wrong(name: &'static str, why: &str) -> Invalid {
    Invalid::field(ErrorCode::InvalidQrOptions, name, format!("{name}: {why}"))
}
