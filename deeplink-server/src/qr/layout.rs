//! The geometry of a code: the version that holds the content, and the mapping of modules to pixels or units. It
//! depends only on the style and the content's length, so a request that cannot be drawn is refused before the symbol
//! is computed.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::qr::{MAX_MARGIN, MAX_SIZE, QrFormat, QrLevel, QrShape, QrStyle};

use super::hole;

/// Minimum pixels per module; scanners fail below that.
const MIN_SCALE: u32 = 2;

/// Minimum pixels of a PDF, of 0.24 points each: viewers may refuse a page under 3 points.
const MIN_PDF_SIZE: u32 = 13;

/// Why a code cannot be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CannotDraw {
    /// No version holds the content at this level.
    #[error("this link's URL is too long for a QR code at this level of error correction")]
    TooLong,
    /// A module would be narrower than two pixels, or a PDF smaller than its pages may be.
    #[error("size must be at least {least} for this link and these options")]
    TooSmall {
        /// The smallest edge in pixels.
        least: u32,
    },
    /// The edge is over [`MAX_SIZE`].
    #[error("size must be at most {MAX_SIZE}")]
    TooLarge,
    /// The margin is over [`MAX_MARGIN`].
    #[error("margin must be at most {MAX_MARGIN}")]
    TooMuchMargin,
}

impl From<CannotDraw> for Invalid {
    fn from(why: CannotDraw) -> Self {
        let field = match why {
            CannotDraw::TooLong => return Self::whole(ErrorCode::InvalidQrOptions, why.to_string()),
            CannotDraw::TooSmall { .. } | CannotDraw::TooLarge => "size",
            CannotDraw::TooMuchMargin => "margin",
        };
        Self::field(ErrorCode::InvalidQrOptions, field, why.to_string())
    }
}

/// The geometry of one image. Lengths are in modules unless they say pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    format: QrFormat,
    size: u32,
    level: QrLevel,
    version: u8,
    margin: u32,
    ring: u32,
}

impl Layout {
    /// The layout for content of this length: the smallest version that holds it as bytes at exactly the style's level
    /// and, if the style has a logo, leaves room for one.
    pub fn of(style: &QrStyle, format: QrFormat, content: &str) -> Result<Self, CannotDraw> {
        if style.size > MAX_SIZE {
            return Err(CannotDraw::TooLarge);
        }
        if style.margin > MAX_MARGIN {
            return Err(CannotDraw::TooMuchMargin);
        }
        let version = (1..=40)
            .find(|&version| {
                content.len() <= capacity(version, style.level)
                    && (style.logo.is_none() || hole::is_allowed(style.level, modules(version)))
            })
            .ok_or(CannotDraw::TooLong)?;
        let ring = match style.shape {
            QrShape::Square => 0,
            QrShape::Circle => ring(modules(version)),
        };
        let layout = Self { format, size: style.size, level: style.level, version, margin: style.margin, ring };
        let least = match format {
            QrFormat::Png => MIN_SCALE * layout.span(),
            QrFormat::Pdf => MIN_PDF_SIZE,
            QrFormat::Svg | QrFormat::Eps => 1,
        };
        if style.size < least { Err(CannotDraw::TooSmall { least }) } else { Ok(layout) }
    }

    /// The file's format.
    pub fn format(&self) -> QrFormat {
        self.format
    }

    /// The whole edge in pixels.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Error correction of the symbol.
    pub fn level(&self) -> QrLevel {
        self.level
    }

    /// Version of the symbol (ISO/IEC 18004), 1 to 40.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The symbol's edge.
    pub fn modules(&self) -> u32 {
        modules(self.version)
    }

    /// The margin around symbol or disc.
    pub fn margin(&self) -> u32 {
        self.margin
    }

    /// How far the disc reaches beyond the symbol on each side; 0 without a disc.
    pub fn ring(&self) -> u32 {
        self.ring
    }

    /// Edge of the area of dots: the disc's diameter, or the symbol's edge.
    pub fn field(&self) -> u32 {
        self.modules() + 2 * self.ring
    }

    /// The whole edge.
    pub fn span(&self) -> u32 {
        self.field() + 2 * self.margin
    }

    /// Pixels for each module of a PNG, always whole.
    pub fn scale(&self) -> u32 {
        self.size / self.span()
    }

    /// Pixels left of and above the symbol of a PNG; right and below there may be one more.
    pub fn origin(&self) -> u32 {
        (self.size - self.scale() * self.modules()) / 2
    }
}

fn modules(version: u8) -> u32 {
    17 + 4 * u32::from(version)
}

/// The smallest a with (n + 2a)² ≥ 2n²: the disc encloses the symbol's corners.
fn ring(modules: u32) -> u32 {
    (0..modules).find(|ring| (modules + 2 * ring).pow(2) >= 2 * modules.pow(2)).unwrap_or(modules)
}

/// How many bytes a version holds at a level as one segment in byte mode.
fn capacity(version: u8, level: QrLevel) -> usize {
    let row = match level {
        QrLevel::L => &CAPACITY[0],
        QrLevel::M => &CAPACITY[1],
        QrLevel::Q => &CAPACITY[2],
        QrLevel::H => &CAPACITY[3],
    };
    usize::from(row[usize::from(version) - 1])
}

/// ISO/IEC 18004, table 7, byte mode: levels L, M, Q, H, each for versions 1 to 40.
const CAPACITY: [[u16; 40]; 4] = [
    [
        17, 32, 53, 78, 106, 134, 154, 192, 230, 271, 321, 367, 425, 458, 520, 586, 644, 718, 792, 858, 929, 1003,
        1091, 1171, 1273, 1367, 1465, 1528, 1628, 1732, 1840, 1952, 2068, 2188, 2303, 2431, 2563, 2699, 2809, 2953,
    ],
    [
        14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412, 450, 504, 560, 624, 666, 711, 779, 857,
        911, 997, 1059, 1125, 1190, 1264, 1370, 1452, 1538, 1628, 1722, 1809, 1911, 1989, 2099, 2213, 2331,
    ],
    [
        11, 20, 32, 46, 60, 74, 86, 108, 130, 151, 177, 203, 241, 258, 292, 322, 364, 394, 442, 482, 509, 565, 611,
        661, 715, 751, 805, 868, 908, 982, 1030, 1112, 1168, 1228, 1283, 1351, 1423, 1499, 1579, 1663,
    ],
    [
        7, 14, 24, 34, 44, 58, 64, 84, 98, 119, 137, 155, 177, 194, 220, 250, 280, 310, 338, 382, 403, 439, 461, 511,
        535, 593, 625, 658, 698, 742, 790, 842, 898, 958, 983, 1051, 1093, 1139, 1219, 1273,
    ],
];

#[cfg(test)]
mod tests {
    use qrcodegen::{Mask, QrCode, QrCodeEcc, QrSegment, Version};

    use super::*;

    fn of(style: &QrStyle, format: QrFormat, length: usize) -> Result<Layout, CannotDraw> {
        Layout::of(style, format, &"x".repeat(length))
    }

    #[test]
    fn capacities_are_those_of_the_encoder() {
        let levels = [QrCodeEcc::Low, QrCodeEcc::Medium, QrCodeEcc::Quartile, QrCodeEcc::High];
        for (&level, ecc) in QrLevel::ALL.iter().zip(levels) {
            for number in 1..=40 {
                let fits = |length: usize| {
                    let segment = [QrSegment::make_bytes(&vec![b'x'; length])];
                    let version = Version::new(number);
                    QrCode::encode_segments_advanced(&segment, ecc, version, version, Some(Mask::new(0)), false).is_ok()
                };
                let most = capacity(number, level);
                assert!(fits(most) && !fits(most + 1), "version {number} at {level}: {most}");
                let style = QrStyle { level, ..QrStyle::default() };
                assert_eq!(of(&style, QrFormat::Svg, most).map(|layout| layout.version()), Ok(number));
            }
            let style = QrStyle { level, ..QrStyle::default() };
            assert_eq!(of(&style, QrFormat::Svg, capacity(40, level) + 1), Err(CannotDraw::TooLong));
        }
    }

    #[test]
    fn the_layout_is_that_of_the_table() {
        use QrShape::{Circle, Square};
        // Shape, size, modules, margin; then span, scale, origin, and the pixels right of and below the symbol.
        for (shape, size, modules, margin, span, scale, origin, rest) in [
            (Square, 600, 25, 2, 29, 20, 50, 50),
            (Square, 600, 29, 2, 33, 18, 39, 39),
            (Square, 120, 25, 2, 29, 4, 10, 10),
            (Square, 300, 33, 0, 33, 9, 1, 2),
            (Square, 300, 33, 4, 41, 7, 34, 35),
            (Square, 2048, 57, 16, 89, 23, 368, 369),
            (Square, 66, 29, 2, 33, 2, 4, 4),
            (Circle, 600, 29, 2, 47, 12, 126, 126),
            (Circle, 300, 25, 4, 45, 6, 75, 75),
        ] {
            let version = u8::try_from((modules - 17) / 4).expect("a version");
            let style = QrStyle { shape, size, margin, ..QrStyle::default() };
            let layout = of(&style, QrFormat::Png, capacity(version, QrLevel::L)).expect("a layout");
            let right = size - layout.origin() - layout.modules() * layout.scale();
            assert_eq!(
                (layout.modules(), layout.span(), layout.scale(), layout.origin(), right),
                (modules, span, scale, origin, rest)
            );
        }
    }

    #[test]
    fn a_size_without_two_pixels_for_each_module_is_refused() {
        let length = capacity(3, QrLevel::L);
        let style = QrStyle { size: 65, ..QrStyle::default() };
        let refused = of(&style, QrFormat::Png, length).expect_err("a refusal");
        assert_eq!(refused, CannotDraw::TooSmall { least: 66 });
        let refused = Invalid::from(refused);
        assert_eq!((refused.code, refused.field.as_deref()), (ErrorCode::InvalidQrOptions, Some("size")));
        assert_eq!(refused.message, "size must be at least 66 for this link and these options");
        for size in [1, 65] {
            assert!(of(&QrStyle { size, ..style.clone() }, QrFormat::Svg, length).is_ok(), "geometry ignores the size");
        }
        assert_eq!(of(&QrStyle { size: 0, ..style }, QrFormat::Svg, length), Err(CannotDraw::TooSmall { least: 1 }));
    }

    #[test]
    fn numbers_outside_the_interface_are_refused() {
        for format in QrFormat::ALL {
            for size in [2_049, u32::MAX] {
                let refused = of(&QrStyle { size, ..QrStyle::default() }, *format, 20).expect_err("a refusal");
                assert_eq!(Invalid::from(refused).field.as_deref(), Some("size"));
            }
            for margin in [17, u32::MAX] {
                let refused = of(&QrStyle { margin, ..QrStyle::default() }, *format, 20).expect_err("a refusal");
                assert_eq!(Invalid::from(refused).field.as_deref(), Some("margin"));
            }
        }
        let refused = Invalid::from(CannotDraw::TooLong);
        assert_eq!((refused.code, refused.field), (ErrorCode::InvalidQrOptions, None));
    }

    #[test]
    fn the_disc_meets_the_symbols_corners() {
        for (version, n, a, diameter) in [
            (1, 21, 5, 31),
            (2, 25, 6, 37),
            (3, 29, 7, 43),
            (4, 33, 7, 47),
            (5, 37, 8, 53),
            (6, 41, 9, 59),
            (10, 57, 12, 81),
            (40, 177, 37, 251),
        ] {
            let style = QrStyle { shape: QrShape::Circle, size: 2_048, ..QrStyle::default() };
            let layout = of(&style, QrFormat::Svg, capacity(version, QrLevel::L)).expect("a layout");
            assert_eq!((layout.modules(), layout.ring(), layout.field()), (n, a, diameter));
        }
    }

    #[test]
    fn versions_grow_with_the_content_and_for_a_logo() {
        let logo = Some("https://example.com/logo.png".to_owned());
        for (level, logo, length, version) in [
            (QrLevel::L, None, 31, 2),
            (QrLevel::H, None, 31, 4),
            (QrLevel::L, None, 1, 1),
            // The smallest hole does not fit version 1 at L.
            (QrLevel::L, logo.clone(), 1, 2),
            (QrLevel::M, logo.clone(), 1, 1),
            (QrLevel::H, logo, 31, 4),
        ] {
            let style = QrStyle { level, logo, ..QrStyle::default() };
            assert_eq!(of(&style, QrFormat::Png, length).map(|layout| layout.version()), Ok(version));
        }
    }
}
