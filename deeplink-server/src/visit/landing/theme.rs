//! The color of the primary button, and of the letters on it.

use std::fmt;

use deeplink_core::colour::Rgb;

/// The color of pages without an app's color.
const DEFAULT: Rgb = Rgb([0x3b, 0x63, 0xf0]);
/// The card's background in light and dark mode, as in `page.css`.
const CARDS: [Rgb; 2] = [Rgb([0xff, 0xff, 0xff]), Rgb([0x19, 0x19, 0x1c])];
/// How much of the button's color its outline has, in percent; the rest is that of its label. It contrasts with the card where
/// the button does not.
const EDGE_BRAND: u16 = 55;
/// The contrast that WCAG 2.2 (1.4.11) requires for the outline of a control.
const OUTLINE_CONTRAST: f64 = 3.0;

/// A page's colors, as CSS values that can only be colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Theme<'a> {
    /// The button.
    pub(super) brand: Rgb,
    /// Its label: black or white, whichever contrasts more.
    pub(super) on_brand: Rgb,
    /// The app's color as stored, if it is valid.
    pub(super) chosen: Option<&'a str>,
}

impl<'a> Theme<'a> {
    /// From `#rgb` or `#rrggbb`; anything else is ignored.
    pub(super) fn of(theme_color: Option<&'a str>) -> Self {
        let chosen = theme_color.and_then(|text| Some((text, Rgb::parse(text)?)));
        let brand = chosen.map_or(DEFAULT, |(_, colour)| colour);
        Self { brand, on_brand: readable_on(brand), chosen: chosen.map(|(text, _)| text) }
    }

    fn edge(self) -> Rgb {
        let mixed = |at: usize| {
            let [brand, label] = [self.brand, self.on_brand].map(|colour| u16::from(colour.0[at]));
            u8::try_from((brand * EDGE_BRAND + label * (100 - EDGE_BRAND)) / 100).unwrap_or(u8::MAX)
        };
        Rgb([0, 1, 2].map(mixed))
    }
}

/// As CSS rules: the colors, and an outline if they hardly contrast with the card.
impl fmt::Display for Theme<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = self.edge().to_string();
        let [light, dark] =
            CARDS.map(|card| if self.brand.contrast(card) < OUTLINE_CONTRAST { &*edge } else { "transparent" });
        write!(f, ":root{{--brand:{};--on-brand:{};--edge:{light}}}", self.brand, self.on_brand)?;
        if dark == light { Ok(()) } else { write!(f, "@media(prefers-color-scheme:dark){{:root{{--edge:{dark}}}}}") }
    }
}

/// Black or white, whichever contrasts more with this color.
fn readable_on(colour: Rgb) -> Rgb {
    if colour.contrast(Rgb::BLACK) >= colour.contrast(Rgb::WHITE) { Rgb::BLACK } else { Rgb::WHITE }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L5: a color is `#` and 3 or 6 hex digits; nothing else reaches a style sheet.
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
            assert!(include_str!("../../../templates/page.css").contains(&format!("--card: {}", short(card))));
            assert!(DEFAULT.contrast(card) >= OUTLINE_CONTRAST, "the default needs no line");
            for step in 0..0x1000 {
                let theme = format!("#{step:03x}");
                let theme = Theme::of(Some(&theme));
                let best = theme.brand.contrast(card).max(theme.edge().contrast(card));
                assert!(best >= OUTLINE_CONTRAST, "{step:03x}: {best}");
            }
        }
        for (brand, edges) in [
            ("#fff", ";--edge:#8c8c8c}@media(prefers-color-scheme:dark){:root{--edge:transparent}}"),
            ("#ff0", ";--edge:#8c8c00}@media(prefers-color-scheme:dark){:root{--edge:transparent}}"),
            ("#000", ";--edge:transparent}@media(prefers-color-scheme:dark){:root{--edge:#727272}}"),
            ("#3b63f0", ";--edge:transparent}"),
        ] {
            assert!(Theme::of(Some(brand)).to_string().ends_with(edges), "{brand}");
        }
    }

    /// The short form: `#fff`.
    fn short(colour: Rgb) -> String {
        if colour == Rgb::WHITE { "#fff".to_owned() } else { colour.to_string() }
    }
}
