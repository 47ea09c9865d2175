//! The files by their structure, and curves against circles.

use std::io::Read as _;

use deeplink_core::qr::{DotType, QrFormat, QrShape};
use flate2::read::ZlibDecoder;

use super::*;
use crate::qr::outline::PathData;

const CONTENT: &str = "https://go.example.com/8K2QX9ZB-spring";

fn drawn(style: &QrStyle, format: QrFormat, logo: Option<&Logo>) -> Vec<u8> {
    let layout = Layout::of(style, format, CONTENT).expect("a layout");
    crate::qr::draw(&layout, style, CONTENT, logo)
}

fn logo(alpha: u8) -> Logo {
    let pixels = [255, 0, 0, alpha].repeat(6 * 4);
    Logo::new(6, 4, pixels, [0; 32]).expect("a logo")
}

fn with_logo() -> QrStyle {
    QrStyle { logo: Some(String::new()), level: deeplink_core::qr::QrLevel::H, ..QrStyle::default() }
}

/// Each object of a PDF, found through its table, with its stream, if it has one.
fn objects(file: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let text = String::from_utf8_lossy(file);
    let start: usize =
        text.rsplit("startxref\n").next().and_then(|end| end.lines().next()?.parse().ok()).expect("a table");
    let table = std::str::from_utf8(&file[start..]).expect("text");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("xref"));
    let count: usize = lines.next().and_then(|line| line.strip_prefix("0 ")?.parse().ok()).expect("a count");
    assert_eq!(lines.next(), Some("0000000000 65535 f "));
    let entries: Vec<_> = lines.take(count - 1).collect();
    let object = |(number, entry): (usize, &&str)| {
        assert_eq!(entry.len(), 19, "with its end, an entry has 20 bytes");
        let offset: usize = entry[..10].parse().expect("an offset");
        let body = &file[offset..];
        let head = format!("{} 0 obj\n", number + 1);
        assert!(body.starts_with(head.as_bytes()), "object {}", number + 1);
        let end = body.windows(7).position(|part| part == b"stream\n" || part == b"endobj\n").expect("an end");
        let dictionary = String::from_utf8_lossy(&body[head.len()..end]).into_owned();
        let stream = dictionary.split_once("/Length ").map(|(_, rest)| {
            let length: usize = rest.split(' ').next().and_then(|length| length.parse().ok()).expect("a length");
            let data = &body[end + 7..][..length];
            assert!(body[end + 7 + length..].starts_with(b"\nendstream\nendobj\n"));
            let mut plain = Vec::new();
            ZlibDecoder::new(data).read_to_end(&mut plain).expect("compressed data");
            plain
        });
        (dictionary, stream)
    };
    entries.iter().enumerate().map(object).collect()
}

#[test]
fn a_pdf_is_one_page_of_the_size_in_inches() {
    let style = QrStyle { dots: Rgb([255, 0, 128]), ..QrStyle::default() };
    let objects = objects(&drawn(&style, QrFormat::Pdf, None));
    assert_eq!(objects.len(), 4);
    assert!(objects[2].0.contains("/MediaBox [0 0 144 144]"), "{}", objects[2].0);
    let drawing = String::from_utf8(objects[3].1.clone().expect("a drawing")).expect("text");
    assert!(drawing.starts_with("1 g\n0 0 144 144 re f\n1.090909 0 0 -1.090909 0 144 cm\n1 0 0.502 rg\n"), "{drawing}");
    assert!(drawing.contains("\n0 g\n") && !drawing.contains("Do"));
    assert!(drawing.lines().all(|line| line.len() < 80));
    let fills = |operator: &str| drawing.lines().filter(|line| *line == operator).count();
    assert_eq!((fills("f"), fills("f*")), (2, 1));
}

#[test]
fn a_logo_is_blended_with_the_background() {
    let style = QrStyle { background: Rgb([255, 255, 0]), ..with_logo() };
    for (alpha, expected) in [(255, [255, 0, 0]), (0, [255, 255, 0]), (128, [255, 127, 0])] {
        let objects = objects(&drawn(&style, QrFormat::Pdf, Some(&logo(alpha))));
        let (dictionary, image) = objects.last().expect("an image");
        assert!(dictionary.contains("/Width 6 /Height 4") && objects[2].0.contains("/XObject << /L 5 0 R >>"));
        let image = image.as_deref().expect("pixels");
        assert_eq!((image.len(), &image[..3]), (6 * 4 * 3, &expected[..]));
        let eps = String::from_utf8(drawn(&style, QrFormat::Eps, Some(&logo(alpha)))).expect("text");
        assert!(eps.contains("/ImageMatrix [6 0 0 4 0 0]") && eps.contains("~>\ngrestore\n"), "{eps}");
    }
}

#[test]
fn an_eps_has_its_bounds_and_short_lines() {
    let style = QrStyle { size: 333, shape: QrShape::Circle, ..with_logo() };
    let eps = String::from_utf8(drawn(&style, QrFormat::Eps, Some(&logo(255)))).expect("text");
    let head =
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 80 80\n%%HiResBoundingBox: 0 0 79.92 79.92\n%%LanguageLevel: 2\n";
    assert!(eps.starts_with(head), "{eps}");
    assert!(eps.ends_with("\n%%EOF\n") && eps.is_ascii());
    assert!(eps.lines().all(|line| line.len() < 255));
    let after = eps.split_once("\n%%EndProlog\n%%Page: 1 1\n").expect("a prolog before the page").1;
    assert_eq!(after.matches("\n%%").count(), 1, "the end of the file");
    assert_eq!((eps.matches("gsave").count(), eps.matches("grestore").count()), (1, 1));
}

#[test]
fn files_are_the_same_each_time_and_scale_without_other_changes() {
    for format in [QrFormat::Pdf, QrFormat::Eps] {
        assert_eq!(drawn(&with_logo(), format, Some(&logo(9))), drawn(&with_logo(), format, Some(&logo(9))));
    }
    let path = |size: u32| {
        let eps = String::from_utf8(drawn(&QrStyle { size, ..QrStyle::default() }, QrFormat::Eps, None)).expect("text");
        eps.split_once(" cm\n").expect("coordinates").1.to_owned()
    };
    assert_eq!(path(1), path(2_048));
}

/// Both formats have the outlines of the SVG: the same ends of lines and curves.
#[test]
fn curves_are_the_outlines_of_the_svg() {
    let style = QrStyle { dot_type: DotType::ExtraRounded, ..QrStyle::default() };
    let layout = Layout::of(&style, QrFormat::Svg, CONTENT).expect("a layout");
    let field = Field::of(&layout, CONTENT, None);
    let curves = outline::parts::<Curves>(&layout, &style, &field);
    let paths = outline::parts::<PathData>(&layout, &style, &field);
    for (curves, path) in curves.into_iter().zip(paths) {
        let (curves, path) = (curves.0, path.into_text());
        let expected = ends_of_path(&path);
        let found: Vec<_> = curves.lines().map(end_of_curve).collect();
        // A half circle is two curves; the end of the first has no counterpart.
        let mut left = found.iter();
        assert!(expected.iter().all(|end| left.any(|other| other == end)), "{path}\n{curves}");
        let halves = expected.iter().filter(|(operator, ..)| *operator == 'c').count();
        assert!(found.len() - expected.len() <= halves, "{path}\n{curves}");
        assert_eq!(found.first(), expected.first(), "{path}\n{curves}");
    }
}

/// The operator of a line and the point that it ends at; none for the end of an outline.
fn end_of_curve(line: &str) -> (char, i32, i32) {
    let words: Vec<_> = line.split(' ').collect();
    match words.as_slice() {
        ["h"] => ('h', 0, 0),
        [.., x, y, operator] => {
            let number = |word: &str| word.parse().expect("a whole number");
            (operator.chars().next().expect("an operator"), number(x), number(y))
        }
        _ => panic!("{line}"),
    }
}

/// The same of the commands of a path, in quarters of a module.
fn ends_of_path(path: &str) -> Vec<(char, i32, i32)> {
    let (mut at, mut start, mut ends, mut rest) = ((0, 0), (0, 0), Vec::new(), path);
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(|other: char| other.is_ascii_alphabetic()).map_or(rest.len(), |at| at + 1);
        let numbers = quarters(&rest[1..end]);
        rest = &rest[end..];
        let ((dx, dy), operator) = match (command, numbers.as_slice()) {
            ('m', [dx, dy]) => ((*dx, *dy), 'm'),
            ('h', [dx]) => ((*dx, 0), 'l'),
            ('v', [dy]) => ((0, *dy), 'l'),
            ('a', [.., dx, dy]) => ((*dx, *dy), 'c'),
            ('z', []) => {
                at = start;
                ends.push(('h', 0, 0));
                continue;
            }
            _ => panic!("{command} {numbers:?}"),
        };
        at = (at.0 + dx, at.1 + dy);
        if operator == 'm' {
            start = at;
        }
        ends.push((operator, at.0, at.1));
    }
    ends
}

/// Numbers that are separated by spaces, signs, or a second point.
fn quarters(text: &str) -> Vec<i32> {
    let mut numbers: Vec<String> = Vec::new();
    for character in text.chars() {
        let has_point = numbers.last().is_some_and(|number| number.contains('.'));
        if numbers.is_empty() || character == ' ' || character == '-' || character == '.' && has_point {
            numbers.push(String::new());
        }
        if let (Some(number), true) = (numbers.last_mut(), character != ' ') {
            number.push(character);
        }
    }
    let number = |text: String| {
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        let digits = whole.trim_start_matches('-');
        let whole_quarters = if digits.is_empty() { 0 } else { digits.parse::<i32>().expect("a number") * 4 };
        let part = ["", "25", "5", "75"].into_iter().zip(0..).find(|(known, _)| *known == part).expect("quarters").1;
        if whole.starts_with('-') { -(whole_quarters + part) } else { whole_quarters + part }
    };
    numbers.into_iter().filter(|number| !number.is_empty()).map(number).collect()
}

#[test]
fn an_arc_runs_clockwise_along_its_circle() {
    // A disc of radius 2 around (2, 2), from its left.
    let mut ink = Curves::default();
    ink.arc(2, (0, 2), (4, 2));
    ink.arc(2, (4, 2), (2, 4));
    let expected = "0 0.895 0.895 0 2 0 c\n3.105 0 4 0.895 4 2 c\n4 3.105 3.105 4 2 4 c\n";
    assert_eq!(ink.0, expected);
}
