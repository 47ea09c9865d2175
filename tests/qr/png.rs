//! The bytes of a PNG: no chunks beside the image, and whole pixels per module.

use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrFormat, QrLevel, QrOptions};
use deeplink_core::secret::Random;
use deeplink_server::qr::Layout;

use crate::cases::{Case, LENGTHS, MARGINS, below, colour, link, sample, spread};
use crate::logos::Artwork;
use crate::pictures::decoded;
use crate::readers::each;

const SEED: u64 = 20_260_707;

/// A chunk's name and what it holds.
fn chunks(png: &[u8]) -> Vec<(&str, &[u8])> {
    let mut rest = png.strip_prefix(b"\x89PNG\r\n\x1a\n").expect("a PNG");
    let mut chunks = Vec::new();
    while let [a, b, c, d, after @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (name, after) = after.split_at(4);
        let (data, after) = after.split_at(length);
        chunks.push((std::str::from_utf8(name).expect("a name"), data));
        rest = &after[4..];
    }
    chunks
}

fn is_plain(case: &Case) -> Result<(), String> {
    let file = case.draw();
    let chunks = chunks(&file);
    let header = chunks[0].1;
    let size = case.style().size.to_be_bytes();
    let names: Vec<_> = chunks.iter().map(|(name, _)| *name).collect();
    let pixels = names.iter().filter(|name| **name == "IDAT").count();
    // Grey, RGB or a palette; never with alpha.
    let mut wanted = match header[9] {
        0 | 2 => vec!["IHDR"],
        3 => vec!["IHDR", "PLTE"],
        other => return Err(format!("{case}: colour type {other}")),
    };
    wanted.extend(["IDAT"].repeat(pixels.max(1)));
    wanted.push("IEND");
    // Width, height, 8 bit, and no interlacing.
    let whole = header[..4] == size && header[4..8] == size && header[8] == 8 && header[10..] == [0, 0, 0];
    if names == wanted && whole { Ok(()) } else { Err(format!("{case}: {names:?}, {header:?}")) }
}

/// O1: size, depth and chunks, with and without colours and logos.
#[test]
fn o1_a_png_is_its_pixels_and_nothing_else() {
    let random = &mut Random::seeded(SEED);
    let mut cases = sample(60, random);
    for (at, case) in cases.iter_mut().enumerate() {
        if at % 3 == 1 {
            case.options.dot_color = Some(colour(random)).filter(|colour| colour.luminance() < 0.3);
        }
        if at % 3 == 2 {
            let artworks = Artwork::all();
            *case = case.clone().with_artwork(artworks[below(artworks.len(), random)]);
        }
    }
    each(&cases, is_plain).is_perfect("PNG files");
}

/// O1: square modules have no anti-aliasing.
#[test]
fn o1_square_modules_are_flat_blocks() {
    let random = &mut Random::seeded(SEED);
    let lengths = spread(&LENGTHS, 24, random);
    let margins = spread(&MARGINS, 24, random);
    let cases = lengths.into_iter().zip(margins).map(|(length, margin)| {
        let size = 200 + u32::try_from(below(700, random)).expect("few");
        let options = QrOptions::new().size(size).margin(margin).dot_type(DotType::Square);
        let options = options.corner_square_type(CornerSquareType::Square).corner_dot_type(CornerDotType::Square);
        Case { options, ..Case::new(link(length, random)) }
    });
    let cases: Vec<_> = cases.collect();
    let outcome = each(&cases, |case| {
        let layout = Layout::of(&case.style(), QrFormat::Png, &case.content).expect("a layout");
        let (scale, origin) = (layout.scale(), layout.origin());
        let picture = decoded(&case.draw());
        for (x, y, pixel) in picture.enumerate_pixels() {
            let module = |at: u32| at.checked_sub(origin).map(|at| at / scale).filter(|&at| at < layout.modules());
            let first = match (module(x), module(y)) {
                (Some(column), Some(row)) => picture.get_pixel(origin + column * scale, origin + row * scale).0,
                _ => [255; 3],
            };
            if pixel.0 != first || !matches!(first, [0, 0, 0] | [255, 255, 255]) {
                return Err(format!("{case}: {pixel:?} at {x}, {y}"));
            }
        }
        Ok(())
    });
    outcome.is_perfect("flat modules");
}

/// Every size from the smallest that a link of 31 bytes has at level Q, which is 66.
#[test]
fn every_size_is_drawn_from_the_smallest_up() {
    let content = link(31, &mut Random::seeded(SEED));
    let case = |size: u32| {
        let options = QrOptions::new().size(size).level(QrLevel::Q);
        Case { options, ..Case::new(content.clone()) }
    };
    let refused = Layout::of(&case(65).style(), QrFormat::Png, &content).expect_err("too small");
    assert_eq!(refused.to_string(), "size must be at least 66 for this link and these options");
    let sizes: Vec<_> = (66..300).chain((300..2_048).step_by(97)).chain([2_047, 2_048]).map(case).collect();
    each(&sizes, is_plain).is_perfect("sizes");
    for size in 66..=2_048 {
        let layout = Layout::of(&case(size).style(), QrFormat::Png, &content).expect("a layout");
        let drawn = layout.scale() * layout.modules();
        let rest = size - drawn - layout.origin();
        assert!(layout.scale() >= 2 && rest - layout.origin() <= 1, "{size}: {layout:?}");
        assert!(layout.origin() >= layout.scale() * layout.margin(), "{size}: {layout:?}");
    }
}
