//! Colors in hex notation, and the contrast between two.

use std::fmt;

use serde::{Serialize, Serializer};

/// An opaque color in sRGB, displayed as `#rrggbb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rgb(pub [u8; 3]);

impl Rgb {
    /// Black.
    pub const BLACK: Self = Self([0; 3]);
    /// White.
    pub const WHITE: Self = Self([255; 3]);

    /// Reads `#rgb` or `#rrggbb`, in either case; each of three digits stands for two.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_digits(text.strip_prefix('#')?)
    }

    /// Like [`Rgb::parse`], but the `#` is optional, as in a query, where it would have to be escaped.
    pub fn parse_lenient(text: &str) -> Option<Self> {
        Self::parse_digits(text.strip_prefix('#').unwrap_or(text))
    }

    /// A color as people type it, with the `#` that [`Rgb::parse`] needs if only that is missing; any other text as it is.
    pub fn with_hash(text: String) -> String {
        let lacks_hash = Self::parse(&text).is_none() && Self::parse_lenient(&text).is_some();
        if lacks_hash { format!("#{text}") } else { text }
    }

    fn parse_digits(digits: &str) -> Option<Self> {
        let digits = digits.as_bytes();
        let digit = |at: usize| char::from(digits[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match digits.len() {
            3 => Some(Self([digit(0)? * 17, digit(1)? * 17, digit(2)? * 17])),
            6 => Some(Self([digit(0)? * 16 + digit(1)?, digit(2)? * 16 + digit(3)?, digit(4)? * 16 + digit(5)?])),
            _ => None,
        }
    }

    /// Relative luminance as WCAG 2.2 defines it, from 0 to 1.
    pub fn luminance(self) -> f64 {
        let linear = self.0.map(|channel| {
            let channel = f64::from(channel) / 255.0;
            if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    /// Brightness as ITU-R BT.601 weighs the channels, from 0 to 255: the shade of a color in a grayscale image.
    pub fn luma(self) -> u8 {
        let [red, green, blue] = self.0.map(u32::from);
        u8::try_from((306 * red + 601 * green + 117 * blue) >> 10).unwrap_or(u8::MAX)
    }

    /// Contrast ratio as WCAG 2.2 defines it, from 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let (one, other) = (self.luminance() + 0.05, other.luminance() + 0.05);
        (one / other).max(other / one)
    }
}

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

impl Serialize for Rgb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brightness_goes_from_black_to_white() {
        for (colour, luma) in [("#000", 0), ("#fff", 255), ("#f00", 76), ("#0f0", 149), ("#00f", 29), ("#777", 119)] {
            assert_eq!(Rgb::parse(colour).map(Rgb::luma), Some(luma), "{colour}");
        }
    }

    #[test]
    fn colours_are_three_or_six_hex_digits() {
        for (text, colour) in [("#abc", "#aabbcc"), ("#0A7cFf", "#0a7cff"), ("#000", "#000000")] {
            let digits = &text[1..];
            assert_eq!(Rgb::parse(text).map(|rgb| rgb.to_string()).as_deref(), Some(colour));
            assert_eq!(Rgb::parse_lenient(text), Rgb::parse(text));
            assert_eq!((Rgb::parse(digits), Rgb::parse_lenient(digits)), (None, Rgb::parse(text)));
            assert_eq!([text, digits].map(|typed| Rgb::with_hash(typed.to_owned())), [text, text]);
        }
        for text in
            ["", "#", "##fff", "#ffff", "#12345g", "red", "rgb(0,0,0)", "#ff", "#fffffff", "#é", "#fffé", " #fff"]
        {
            assert_eq!((Rgb::parse(text), Rgb::parse_lenient(text)), (None, None), "{text:?}");
            assert_eq!(Rgb::with_hash(text.to_owned()), text);
        }
    }
}
