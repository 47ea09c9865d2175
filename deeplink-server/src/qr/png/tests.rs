//! Drawn files read back with a decoder.

use deeplink_core::colour::Rgb;
use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrFormat, QrLevel, QrShape};
use png::{Decoder, Transformations};

use super::*;
use crate::qr::eyes;

const CONTENT: &str = "https://go.example.com/8K2QX9ZB";

fn png(style: &QrStyle, logo: Option<&Logo>) -> (Layout, Vec<u8>) {
    let layout = Layout::of(style, QrFormat::Png, CONTENT).expect("a layout");
    let file = crate::qr::draw(&layout, style, CONTENT, logo);
    (layout, file)
}

/// The pixels of a file, row by row.
fn pixels(file: &[u8]) -> Vec<Vec<[u8; 3]>> {
    let mut decoder = Decoder::new(std::io::Cursor::new(file));
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().expect("a PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut bytes).expect("pixels");
    assert_eq!((info.color_type, info.bit_depth), (ColorType::Rgb, BitDepth::Eight));
    let rgb: Vec<_> = bytes.as_chunks().0.to_vec();
    rgb.chunks(info.width as usize).map(<[_]>::to_vec).collect()
}

/// The names and lengths of the chunks.
fn chunks(file: &[u8]) -> Vec<(String, usize)> {
    let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").expect("the signature");
    let mut chunks = Vec::new();
    while let Some((head, behind)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes(head[..4].try_into().expect("four bytes")) as usize;
        chunks.push((String::from_utf8_lossy(&head[4..]).into_owned(), length));
        rest = &behind[length + 4..];
    }
    chunks
}

fn logo(rgba: [u8; 4]) -> Logo {
    Logo::new(40, 40, rgba.repeat(1_600), [0; 32]).expect("a logo")
}

#[test]
fn files_have_no_other_chunks_than_they_need() {
    let names = |file: &[u8]| {
        let mut names: Vec<_> = chunks(file).into_iter().map(|(name, _)| name).collect();
        names.dedup();
        names.join(" ")
    };
    let (_, plain) = png(&QrStyle::default(), None);
    assert_eq!(names(&plain), "IHDR PLTE IDAT IEND");
    assert_eq!(plain[24..29], [8, 3, 0, 0, 0], "8 bit, palette, not interlaced");
    assert!(plain.len() < 25 * 1_024, "{} bytes", plain.len());
    let style = QrStyle { level: QrLevel::H, logo: Some(String::new()), ..QrStyle::default() };
    let (_, plain) = png(&style, Some(&logo([200, 0, 0, 128])));
    assert_eq!(names(&plain), "IHDR PLTE IDAT IEND");
    assert_eq!(plain[24..29], [8, 3, 0, 0, 0], "a logo of few colours fits into the palette");
    let colourful: Vec<u8> = (0..40).flat_map(|y| (0..40).flat_map(move |x| [x * 6, y * 6, x ^ y, 255])).collect();
    let (_, picture) = png(&style, Logo::new(40, 40, colourful, [0; 32]).as_ref());
    assert_eq!(names(&picture), "IHDR IDAT IEND");
    assert_eq!(picture[24..29], [8, 2, 0, 0, 0], "8 bit, opaque colours, not interlaced");
}

#[test]
fn images_have_exactly_their_size() {
    for size in (66..=2_048).step_by(293).chain([66, 67, 600, 2_048]) {
        for shape in [QrShape::Square, QrShape::Circle] {
            let style = QrStyle { size, shape, ..QrStyle::default() };
            let Ok(layout) = Layout::of(&style, QrFormat::Png, CONTENT) else { continue };
            let file = crate::qr::draw(&layout, &style, CONTENT, None);
            assert_eq!(file[16..24], [size.to_be_bytes(), size.to_be_bytes()].concat());
            let rows = pixels(&file);
            assert_eq!((rows.len(), rows[0].len()), (size as usize, size as usize));
        }
    }
}

/// Squares only: the image is the symbol, each module one block of one colour, without gaps.
#[test]
fn squares_are_flat_blocks() {
    let (dots, frames, pupils, background) = (Rgb([10, 0, 0]), Rgb([0, 20, 0]), Rgb([0, 0, 30]), Rgb([250, 240, 230]));
    for (size, margin) in [(120, 2), (301, 0), (600, 4)] {
        let style = QrStyle {
            size,
            margin,
            dot_type: DotType::Square,
            corner_square_type: CornerSquareType::Square,
            corner_dot_type: CornerDotType::Square,
            background,
            dots,
            frames,
            pupils,
            ..QrStyle::default()
        };
        let (layout, file) = png(&style, None);
        let field = Field::of(&layout, CONTENT, None);
        let rows = pixels(&file);
        let (origin, scale, modules) = (layout.origin(), layout.scale(), layout.modules());
        let module = |at: u32| (at.checked_sub(origin)? / scale < modules).then_some((at - origin) / scale);
        for (y, x) in (0..size * size).map(|at| (at / size, at % size)) {
            let expected = match (module(y), module(x)) {
                (Some(row), Some(column)) if eyes::covers(modules, row, column) => {
                    let far = |at: u32| at.min(modules - 1 - at).abs_diff(3);
                    match far(row).max(far(column)) {
                        3 => frames,
                        2 => background,
                        _ => pupils,
                    }
                }
                (Some(row), Some(column)) if field.is_dot(field.at(row as usize, column as usize)) => dots,
                _ => background,
            };
            assert_eq!(rows[y as usize][x as usize], expected.0, "{size} px: {x}, {y}");
        }
        assert!(chunks(&file).contains(&("PLTE".into(), 12)), "four colours");
    }
}

/// Between two dots that touch there is no pixel of another colour.
#[test]
fn runs_have_no_seam() {
    for &dot_type in DotType::ALL.iter().filter(|dot_type| **dot_type != DotType::Dots) {
        for size in [99, 600] {
            let style = QrStyle { size, dot_type, ..QrStyle::default() };
            let (layout, file) = png(&style, None);
            let field = Field::of(&layout, CONTENT, None);
            let rows = pixels(&file);
            let place = |module: usize| layout.origin() as usize + module * layout.scale() as usize;
            let middle = layout.scale() as usize / 2;
            let mut joints = 0;
            for (row, column) in (0..25 * 25).map(|at| (at / 25, at % 25)) {
                let at = field.at(row, column);
                if field.is_dot(at) && field.is_dot(at + 1) {
                    let line = &rows[place(row) + middle][place(column) + middle..=place(column + 1) + middle];
                    assert!(line.iter().all(|pixel| *pixel == [0; 3]), "{dot_type} {row}, {column}");
                    joints += 1;
                }
            }
            assert!(joints > 50);
        }
    }
}

#[test]
fn eyes_are_alike_and_symmetric() {
    for &corner_square_type in CornerSquareType::ALL {
        for &corner_dot_type in CornerDotType::ALL {
            for size in [58, 217, 600] {
                let style = QrStyle { size, corner_square_type, corner_dot_type, ..QrStyle::default() };
                let (layout, file) = png(&style, None);
                let rows = pixels(&file);
                let edge = (eyes::EDGE * layout.scale()) as usize;
                let eye = |(row, column): (u32, u32)| -> Vec<Vec<[u8; 3]>> {
                    let place = |module: u32| (layout.origin() + module * layout.scale()) as usize;
                    rows[place(row)..][..edge].iter().map(|line| line[place(column)..][..edge].to_vec()).collect()
                };
                let positions = eyes::positions(layout.modules());
                let first = eye(positions[0]);
                assert!(positions.iter().all(|position| eye(*position) == first));
                for (row, column) in (0..edge * edge).map(|at| (at / edge, at % edge)) {
                    let turned = [first[edge - 1 - row][column], first[row][edge - 1 - column], first[column][row]];
                    assert_eq!(turned, [first[row][column]; 3], "{corner_square_type} {corner_dot_type}");
                }
            }
        }
    }
}

#[test]
fn a_logo_is_blended_over_the_background() {
    let style = QrStyle {
        level: QrLevel::H,
        logo: Some(String::new()),
        background: Rgb([200, 250, 100]),
        ..QrStyle::default()
    };
    for (rgba, expected) in
        [([10, 20, 30, 255], [10, 20, 30]), ([10, 20, 30, 0], [200, 250, 100]), ([100, 50, 0, 51], [180, 210, 80])]
    {
        let (layout, file) = png(&style, Some(&logo(rgba)));
        let rows = pixels(&file);
        let hole = Hole::for_logo(style.level, layout.modules(), &logo(rgba)).expect("a hole");
        let (width, height) = hole.logo_size(layout.scale());
        assert_eq!((width, height), (8 * layout.scale(), 8 * layout.scale()));
        let middle = layout.origin() + layout.modules() * layout.scale() / 2;
        for (y, row) in rows.iter().enumerate() {
            for (x, pixel) in row.iter().enumerate() {
                let far = |at: usize| (2 * at + 1).abs_diff(2 * middle as usize);
                let far = far(x).max(far(y));
                if far <= width as usize {
                    assert_eq!(*pixel, expected, "{x}, {y}");
                } else if far < (hole.width * layout.scale()) as usize {
                    assert_eq!(*pixel, style.background.0, "{x}, {y}");
                }
            }
        }
    }
}
