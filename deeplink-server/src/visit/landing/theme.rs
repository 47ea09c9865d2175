//! The colour of the primary button, and of the letters on it.

use std::fmt;

/// What pages look like without a colour of the app's.
const DEFAULT: Rgb = Rgb([0x3b, 0x63, 0xf0]);
/// The card in light and in dark, as `page.css` has it.
const CARDS: [Rgb; 2] = [Rgb([0xff, 0xff, 0xff]), Rgb([0x19, 0x19, 0x1c])];
/// Differs enough from both cards.
const EDGE: &str = "#808080";
/// What WCAG 2.2 (1.4.11) asks of the outline of a control.
const OUTLINE_CONTRAST: f64 = 3.0;

/// A page's colours, as CSS values that can be nothing but colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Theme<'a> {
    /// The button.
    pub(super) brand: Rgb,
    /// Its label: black or white, whichever contrasts more.
    pub(super) on_brand: Rgb,
    /// The app's own colour as stored, if it is one.
    pub(super) chosen: Option<&'a str>,
}

impl<'a> Theme<'a> {
    /// From `#rgb` or `#rrggbb`; anything else is no colour.
    pub(super) fn of(theme_color: Option<&'a str>) -> Self {
        let chosen = theme_color.and_then(|text| Some((text, Rgb::parse(text)?)));
        let brand = chosen.map_or(DEFAULT, |(_, colour)| colour);
        Self { brand, on_brand: brand.readable_on(), chosen: chosen.map(|(text, _)| text) }
    }
}

/// As declarations: the colours, and a line around what is painted in them where that hardly differs from the card.
impl fmt::Display for Theme<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [light, dark] =
            CARDS.map(|card| if self.brand.contrast(card) < OUTLINE_CONTRAST { EDGE } else { "transparent" });
        write!(f, "--brand:{};--on-brand:{};--edge-light:{light};--edge-dark:{dark}", self.brand, self.on_brand)
    }
}

/// A colour, displayed as `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rgb([u8; 3]);

impl Rgb {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#')?.as_bytes();
        let digit = |at: usize| char::from(digits[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match digits.len() {
            3 => Some(Self([digit(0)? * 17, digit(1)? * 17, digit(2)? * 17])),
            6 => Some(Self([digit(0)? * 16 + digit(1)?, digit(2)? * 16 + digit(3)?, digit(4)? * 16 + digit(5)?])),
            _ => None,
        }
    }

    /// Relative luminance as WCAG 2.2 defines it.
    fn luminance(self) -> f64 {
        let linear = self.0.map(|channel| {
            let channel = f64::from(channel) / 255.0;
            if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    /// Contrast ratio as WCAG 2.2 defines it, from 1 to 21.
    fn contrast(self, other: Self) -> f64 {
        let (one, other) = (self.luminance() + 0.05, other.luminance() + 0.05);
        (one / other).max(other / one)
    }

    /// Black or white, whichever contrasts more with this colour.
    fn readable_on(self) -> Self {
        let (black, white) = (Self([0; 3]), Self([255; 3]));
        if self.contrast(black) >= self.contrast(white) { black } else { white }
    }
}

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L5: a colour is `#` and 3 or 6 hex digits; nothing else reaches a style sheet.
    #[test]
    fn l5_only_three_or_six_hex_digits_are_a_colour() {
        for (text, brand) in [("#0f8", "#00ff88"), ("#12aBc9", "#12abc9"), ("#000000", "#000000")] {
            assert_eq!(Theme::of(Some(text)).brand.to_string(), brand);
            assert_eq!(Theme::of(Some(text)).chosen, Some(text));
        }
        let hostile = ["", "#", "#ffff", "fff", "#ggg", "#+1+1+1", "red;}body{", "#fff\"/><script>", "#éé", " #fff"];
        for text in hostile.map(Some).into_iter().chain([None]) {
            assert_eq!(Theme::of(text), Theme { brand: DEFAULT, on_brand: Rgb([255; 3]), chosen: None }, "{text:?}");
        }
    }

    #[test]
    fn the_label_reads_on_every_colour() {
        for (brand, label) in [("#fff", "#000000"), ("#000", "#ffffff"), ("#ff0", "#000000"), ("#00f", "#ffffff")] {
            assert_eq!(Theme::of(Some(brand)).on_brand.to_string(), label);
        }
        for step in (0..0x1000).step_by(7) {
            let text = format!("#{step:03x}");
            let theme = Theme::of(Some(&text));
            let contrast = theme.brand.contrast(theme.on_brand);
            assert!(contrast >= 4.5, "{step:03x}: {contrast}");
        }
    }

    #[test]
    fn the_button_stands_out_from_both_cards() {
        for card in CARDS {
            assert!(include_str!("../../../templates/page.css").contains(&format!("--card: {}", card.short())));
            assert!(DEFAULT.contrast(card) >= OUTLINE_CONTRAST, "the default needs no line");
            assert!(Rgb::parse(EDGE).expect("a colour").contrast(card) >= OUTLINE_CONTRAST);
        }
        for (brand, edges) in [
            ("#fff", "--edge-light:#808080;--edge-dark:transparent"),
            ("#ff0", "--edge-light:#808080;--edge-dark:transparent"),
            ("#000", "--edge-light:transparent;--edge-dark:#808080"),
            ("#3b63f0", "--edge-light:transparent;--edge-dark:transparent"),
        ] {
            assert!(Theme::of(Some(brand)).to_string().ends_with(edges), "{brand}");
        }
    }

    impl Rgb {
        /// As people write it: `#fff`.
        fn short(self) -> String {
            if self == Self([255; 3]) { "#fff".to_owned() } else { self.to_string() }
        }
    }
}
