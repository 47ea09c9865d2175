//! A QR code in characters: half blocks, each showing two modules, or two ASCII characters per module.

use qrcodegen::{DataTooLong, QrCode, QrCodeEcc, QrSegment, Version};

/// Light modules that ISO/IEC 18004 requires on each side.
const QUIET: i32 = 4;
/// Black on white, from the 256-color cube: themes change the first sixteen colors.
const BLACK_ON_WHITE: &str = "\u{1b}[38;5;16;48;5;231m";
const ON_BLACK: &str = "\u{1b}[48;5;16m";
const ON_WHITE: &str = "\u{1b}[48;5;231m";
const RESET: &str = "\u{1b}[0m";

/// How the code is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pen {
    /// Set black and white; without colors the light modules are drawn in the terminal's own foreground.
    pub(super) color: bool,
    /// Without colors, the dark modules are drawn.
    pub(super) invert: bool,
    /// Half blocks can be shown.
    pub(super) utf8: bool,
}

/// A code that is to be drawn: error correction L, the lowest version that holds the text, the best mask.
pub(super) struct Drawing(QrCode);

impl Drawing {
    /// The code of a text, which may have 2,953 bytes.
    pub(super) fn of(text: &str) -> Result<Self, DataTooLong> {
        let segments = [QrSegment::make_bytes(text.as_bytes())];
        let (level, any) = (QrCodeEcc::Low, (Version::MIN, Version::MAX));
        QrCode::encode_segments_advanced(&segments, level, any.0, any.1, None, false).map(Self)
    }

    /// Modules of a side, the quiet zone included.
    fn side(&self) -> i32 {
        self.0.size() + 2 * QUIET
    }

    /// How many columns it takes.
    pub(super) fn columns(&self, pen: Pen) -> usize {
        usize::try_from(self.side()).unwrap_or_default() * if pen.utf8 { 1 } else { 2 }
    }

    /// How many rows it takes.
    pub(super) fn rows(&self, pen: Pen) -> usize {
        usize::try_from(self.side()).unwrap_or_default().div_ceil(if pen.utf8 { 2 } else { 1 })
    }

    /// The lines, each with its line break.
    pub(super) fn lines(&self, pen: Pen) -> String {
        if pen.utf8 { self.half_blocks(pen) } else { self.pairs(pen) }
    }

    /// Everything outside the symbol is light.
    fn is_dark(&self, x: i32, y: i32) -> bool {
        self.0.get_module(x - QUIET, y - QUIET)
    }

    /// Whether a module is drawn in the foreground.
    fn is_inked(&self, pen: Pen, x: i32, y: i32) -> bool {
        self.is_dark(x, y) == (pen.color || pen.invert)
    }

    fn half_blocks(&self, pen: Pen) -> String {
        let mut out = String::new();
        // The number of rows is odd, so the last line has an extra, light row below the code.
        for y in (0..self.side()).step_by(2) {
            out.push_str(if pen.color { BLACK_ON_WHITE } else { "" });
            out.extend((0..self.side()).map(|x| match (self.is_inked(pen, x, y), self.is_inked(pen, x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            }));
            out.push_str(if pen.color { RESET } else { "" });
            out.push('\n');
        }
        out
    }

    fn pairs(&self, pen: Pen) -> String {
        let mut out = String::new();
        for y in 0..self.side() {
            let mut before = None;
            for x in 0..self.side() {
                let dark = self.is_dark(x, y);
                if pen.color && before.replace(dark) != Some(dark) {
                    out.push_str(if dark { ON_BLACK } else { ON_WHITE });
                }
                out.push_str(if !pen.color && self.is_inked(pen, x, y) { "##" } else { "  " });
            }
            out.push_str(if pen.color { RESET } else { "" });
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use deeplink_client::qr_reader::read_luma;

    use super::*;

    const URL: &str = "https://go.example.com/spring-42";

    /// What a camera sees of characters without colors, where ink is dark or light.
    fn seen(text: &str, utf8: bool, ink_is_dark: bool) -> Option<String> {
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        let mut rows = Vec::new();
        for line in &lines {
            if utf8 {
                rows.push(line.iter().map(|c| matches!(c, '█' | '▀')).collect::<Vec<_>>());
                rows.push(line.iter().map(|c| matches!(c, '█' | '▄')).collect());
            } else {
                rows.push(line.chunks(2).map(|pair| *pair == ['#', '#']).collect());
            }
        }
        const SCALE: usize = 4;
        let (width, height) = (rows[0].len() * SCALE, rows.len() * SCALE);
        let luma = (0..width * height)
            .map(|at| if rows[at / width / SCALE][at % width / SCALE] == ink_is_dark { 0 } else { 255 })
            .collect();
        read_luma(width.try_into().ok()?, height.try_into().ok()?, luma)
    }

    #[test]
    fn what_is_drawn_can_be_read() {
        for length in [20, 32, 33, 100, 330] {
            let url = format!("https://example.com/{}", "a".repeat(length - 20));
            let drawing = Drawing::of(&url).expect("it fits");
            for (utf8, invert) in [(true, false), (true, true), (false, false), (false, true)] {
                let pen = Pen { color: false, invert, utf8 };
                let text = drawing.lines(pen);
                assert_eq!(seen(&text, utf8, invert).as_deref(), Some(url.as_str()), "{pen:?}\n{text}");
                assert!(text.lines().all(|line| line.chars().count() == drawing.columns(pen)), "{text}");
                assert_eq!((text.is_ascii(), text.lines().count()), (!utf8, drawing.rows(pen)));
            }
        }
    }

    #[test]
    fn the_lowest_version_and_four_light_modules_all_round() {
        let pen = Pen { color: false, invert: true, utf8: false };
        // The capacity of version 2 at level L, and one byte more.
        for (bytes, side) in [(32, 25), (33, 29)] {
            let drawing = Drawing::of(&"a".repeat(bytes)).expect("it fits");
            assert_eq!(drawing.columns(pen), 2 * (side + 8));
            let text = drawing.lines(pen);
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), side + 8);
            let empty = |line: &&&str| line.trim().is_empty();
            assert_eq!((lines.iter().take_while(empty).count(), lines.iter().rev().take_while(empty).count()), (4, 4));
            assert!(lines.iter().all(|line| line.starts_with("        ") && line.ends_with("        ")), "{text}");
        }
        assert!(Drawing::of(&"a".repeat(2_954)).is_err());
    }

    #[test]
    fn colours_are_set_on_each_line_and_taken_back() {
        let drawing = Drawing::of(URL).expect("it fits");
        for invert in [false, true] {
            let blocks = drawing.lines(Pen { color: true, invert, utf8: true });
            for line in blocks.lines() {
                let inner = line.strip_prefix(BLACK_ON_WHITE).and_then(|line| line.strip_suffix(RESET));
                assert!(inner.is_some_and(|inner| !inner.contains('\u{1b}')), "{line:?}");
            }
            // Ink is black whatever the theme, so that it shows the dark modules.
            let bare = blocks.replace(BLACK_ON_WHITE, "").replace(RESET, "");
            assert_eq!(bare, drawing.lines(Pen { color: false, invert: true, utf8: true }));
        }
        let pairs = drawing.lines(Pen { color: true, invert: false, utf8: false });
        assert!(pairs.is_ascii() && pairs.lines().all(|line| line.starts_with(ON_WHITE) && line.ends_with(RESET)));
        assert!(!pairs.contains('#'));
    }
}
