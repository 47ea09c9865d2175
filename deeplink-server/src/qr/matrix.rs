//! Which modules are dots: those of the symbol that are neither eyes nor behind the logo, and those that fill the disc.

use qrcodegen::{QrCode, QrCodeEcc, QrSegment, Version};
use sha2::{Digest as _, Sha256};

use deeplink_core::qr::QrLevel;

use super::dots::{BOTTOM, LEFT, Neighbours, RIGHT, TOP};
use super::eyes;
use super::hole::Hole;
use super::layout::Layout;

/// A square field of dots with an empty border, so that every dot has four neighbors.
pub(super) struct Field {
    edge: usize,
    dots: Vec<bool>,
}

impl Field {
    fn new(edge: u32) -> Self {
        let edge = edge as usize;
        Self { edge, dots: vec![false; (edge + 2) * (edge + 2)] }
    }

    /// A field with these dots, as rows and columns.
    #[cfg(test)]
    pub(super) fn with_dots(edge: usize, dots: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut field = Self { edge, dots: vec![false; (edge + 2) * (edge + 2)] };
        for (row, column) in dots {
            let at = field.at(row, column);
            field.dots[at] = true;
        }
        field
    }

    /// The dots of the content.
    pub(super) fn of(layout: &Layout, content: &str, hole: Option<Hole>) -> Self {
        let symbol = symbol(layout, content);
        let mut field = Self::new(layout.field());
        let (modules, ring) = (layout.modules(), layout.ring());
        for row in 0..modules {
            for column in 0..modules {
                let hidden =
                    eyes::covers(modules, row, column) || hole.is_some_and(|hole| hole.covers(modules, row, column));
                if !hidden && symbol.get_module(column.cast_signed(), row.cast_signed()) {
                    field.put(ring + row, ring + column);
                }
            }
        }
        if ring > 0 {
            field.decorate(modules, ring, content);
        }
        field
    }

    /// Fills the disc around the symbol. Two modules around the symbol stay clear.
    fn decorate(&mut self, modules: u32, ring: u32, content: &str) {
        let seed = seed(content);
        let diameter = modules + 2 * ring;
        let clear = ring - 2..ring + modules + 2;
        let from_middle = |at: u32| u64::from((2 * at + 1).abs_diff(diameter)).pow(2);
        for row in 0..diameter {
            for column in 0..diameter {
                let outside = !(clear.contains(&row) && clear.contains(&column));
                let inside = from_middle(row) + from_middle(column) <= u64::from(diameter - 1).pow(2);
                if outside && inside && mix(seed ^ (u64::from(row) << 32 | u64::from(column))) & 1 == 1 {
                    self.put(row, column);
                }
            }
        }
    }

    fn put(&mut self, row: u32, column: u32) {
        let at = (row as usize + 1) * (self.edge + 2) + column as usize + 1;
        self.dots[at] = true;
    }

    /// Edge in modules.
    pub(super) fn edge(&self) -> usize {
        self.edge
    }

    /// Difference of the indices of a dot and the one below it.
    pub(super) fn stride(&self) -> usize {
        self.edge + 2
    }

    /// The index of the dot at this row and column.
    pub(super) fn at(&self, row: usize, column: usize) -> usize {
        (row + 1) * self.stride() + column + 1
    }

    /// Whether there is a dot at this index; never in the border.
    pub(super) fn is_dot(&self, at: usize) -> bool {
        self.dots[at]
    }

    /// The dots adjacent to a dot.
    pub(super) fn neighbours(&self, at: usize) -> Neighbours {
        let stride = self.stride();
        let bit = |at: usize, bit| if self.dots[at] { bit } else { 0 };
        bit(at - 1, LEFT) | bit(at + 1, RIGHT) | bit(at - stride, TOP) | bit(at + stride, BOTTOM)
    }
}

/// The symbol: one byte segment at exactly the given version and level, with the mask of lowest penalty.
fn symbol(layout: &Layout, content: &str) -> QrCode {
    let level = match layout.level() {
        QrLevel::L => QrCodeEcc::Low,
        QrLevel::M => QrCodeEcc::Medium,
        QrLevel::Q => QrCodeEcc::Quartile,
        QrLevel::H => QrCodeEcc::High,
    };
    let version = Version::new(layout.version());
    let bytes = [QrSegment::make_bytes(content.as_bytes())];
    QrCode::encode_segments_advanced(&bytes, level, version, version, None, false)
        .expect("a layout holds the content that it was made for")
}

/// Seed of the dots around a symbol; it depends on the content only.
fn seed(content: &str) -> u64 {
    let digest = Sha256::digest(content.as_bytes());
    digest[..8].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// SplitMix64's output function: bits without a visible pattern.
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use deeplink_core::qr::{QrFormat, QrShape, QrStyle};

    use super::*;
    use crate::qr::Logo;

    const CONTENT: &str = "https://go.example.com/8K2QX9ZB";

    fn field(style: &QrStyle, logo: Option<&Logo>) -> (Layout, Field) {
        let layout = Layout::of(style, QrFormat::Svg, CONTENT).expect("a layout");
        let hole = logo.and_then(|logo| Hole::for_logo(layout.level(), layout.modules(), logo));
        let field = Field::of(&layout, CONTENT, hole);
        (layout, field)
    }

    #[test]
    fn the_bits_of_the_disc_are_the_published_ones() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(seed(CONTENT), 0x081B_6371_4A83_BF34);
        let circle = QrStyle { shape: QrShape::Circle, ..QrStyle::default() };
        let (layout, field) = field(&circle, None);
        assert_eq!((layout.modules(), layout.ring(), field.edge()), (25, 6, 37));
        let cells = |row: usize| (0..37).filter(|&column| field.is_dot(field.at(row, column))).collect::<Vec<_>>();
        assert_eq!((cells(0), cells(1)), (vec![18], vec![13, 21]));
        let clear = 4..33;
        let around = (0..37 * 37).map(|at| (at / 37, at % 37));
        let around = around.filter(|(row, column)| !(clear.contains(row) && clear.contains(column)));
        assert_eq!(around.filter(|&(row, column)| field.is_dot(field.at(row, column))).count(), 92);
    }

    #[test]
    fn the_disc_has_the_cells_of_its_formula() {
        let cells = |diameter: i64, row: i64, column: i64| {
            let (dy, dx) = (2 * row + 1 - diameter, 2 * column + 1 - diameter);
            let clear = 4..33;
            !(clear.contains(&row) && clear.contains(&column)) && dy * dy + dx * dx <= (diameter - 1).pow(2)
        };
        let all = (0..37 * 37).filter(|at| cells(37, at / 37, at % 37)).count();
        assert_eq!(all, 192);
        let circle = QrStyle { shape: QrShape::Circle, ..QrStyle::default() };
        let (_, field) = field(&circle, None);
        for at in 0..37_u32 * 37 {
            let (row, column) = (at / 37, at % 37);
            if !(6..31).contains(&row) || !(6..31).contains(&column) {
                let (r, c) = (i64::from(row), i64::from(column));
                let dark =
                    cells(37, r, c) && mix(0x081B_6371_4A83_BF34 ^ (u64::from(row) << 32 | u64::from(column))) & 1 == 1;
                assert_eq!(field.is_dot(field.at(row as usize, column as usize)), dark, "{row}, {column}");
            }
        }
    }

    #[test]
    fn eyes_and_what_a_logo_covers_are_no_dots() {
        let logo = Logo::new(30, 10, vec![0; 1_200], [0; 32]).expect("a logo");
        let style = QrStyle { level: QrLevel::H, logo: Some(String::new()), ..QrStyle::default() };
        let (layout, field) = field(&style, Some(&logo));
        let symbol = symbol(&layout, CONTENT);
        let n = layout.modules();
        let hole = Hole::for_logo(QrLevel::H, n, &logo).expect("a hole");
        let mut hidden = 0;
        for (row, column) in (0..n * n).map(|at| (at / n, at % n)) {
            let eye = row < 7 && !(7..n - 7).contains(&column) || row >= n - 7 && column < 7;
            let cleared = row.abs_diff(n / 2) <= hole.height / 2 && column.abs_diff(n / 2) <= hole.width / 2;
            hidden += u32::from(cleared);
            let dark = symbol.get_module(column.cast_signed(), row.cast_signed());
            let dot = field.is_dot(field.at(row as usize, column as usize));
            assert_eq!(dot, dark && !eye && !cleared, "{row}, {column}");
        }
        assert_eq!(hidden, hole.width * hole.height);
    }

    #[test]
    fn beyond_the_edge_there_is_no_neighbour() {
        let mut field = Field::new(2);
        for (row, column) in [(0, 0), (0, 1), (1, 1)] {
            field.put(row, column);
        }
        assert_eq!(field.neighbours(field.at(0, 0)), RIGHT);
        assert_eq!(field.neighbours(field.at(0, 1)), LEFT | BOTTOM);
        assert_eq!(field.neighbours(field.at(1, 1)), TOP);
    }

    #[test]
    fn the_format_bits_show_the_asked_level() {
        for (level, bits) in [(QrLevel::L, 1), (QrLevel::M, 0), (QrLevel::Q, 3), (QrLevel::H, 2)] {
            let style = QrStyle { level, ..QrStyle::default() };
            let layout = Layout::of(&style, QrFormat::Svg, "short").expect("a layout");
            let symbol = symbol(&layout, "short");
            // The first two format bits, below the upper left eye, are masked with 10.
            let format_bits = u8::from(symbol.get_module(0, 8)) << 1 | u8::from(symbol.get_module(1, 8));
            assert_eq!(format_bits ^ 2, bits, "{level}");
        }
    }
}
