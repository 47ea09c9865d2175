//! The code as SVG: a background, at most three paths in units of one module, and the logo. It contains no text of the
//! caller and no external references.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::qr::QrStyle;

use super::hole::Hole;
use super::layout::Layout;
use super::matrix::Field;
use super::number::Thousandths;
use super::outline::{self, PathData};
use super::{Logo, png};

/// Longest edge of an embedded logo in pixels.
pub(super) const MAX_LOGO_EDGE: u32 = 512;

/// The whole file.
pub(super) fn draw(layout: &Layout, style: &QrStyle, field: &Field, logo: Option<(&Logo, Hole)>) -> String {
    let (size, span) = (layout.size(), layout.span());
    let xlink = if logo.is_some() { " xmlns:xlink=\"http://www.w3.org/1999/xlink\"" } else { "" };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\"{xlink} width=\"{size}\" height=\"{size}\" \
         viewBox=\"0 0 {span} {span}\" role=\"img\" aria-label=\"QR code\">\
         <rect width=\"{span}\" height=\"{span}\" fill=\"{}\"/>",
        style.background
    );
    let [dots, frames, pupils] = outline::parts::<PathData>(layout, style, field);
    for (path, colour, rule) in
        [(dots, style.dots, ""), (frames, style.frames, " fill-rule=\"evenodd\""), (pupils, style.pupils, "")]
    {
        push(&mut svg, format_args!("<path fill=\"{colour}\"{rule} d=\"{}\"/>", path.into_text()));
    }
    if let Some((logo, hole)) = logo {
        embed(&mut svg, layout, logo, hole);
    }
    svg.push_str("</svg>");
    svg
}

/// The logo in the middle. Older viewers support only `xlink:href`.
fn embed(svg: &mut String, layout: &Layout, logo: &Logo, hole: Hole) {
    let (width, height) = hole.logo_size(1_000);
    let middle = layout.span() * 500;
    let (x, y) = (Thousandths(middle - width / 2), Thousandths(middle - height / 2));
    let data = STANDARD.encode(png::encode_logo(logo, MAX_LOGO_EDGE));
    push(
        svg,
        format_args!(
            "<image x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
             href=\"data:image/png;base64,{data}\" xlink:href=\"data:image/png;base64,{data}\"/>",
            Thousandths(width),
            Thousandths(height),
        ),
    );
}

fn push(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = svg.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use deeplink_core::colour::Rgb;
    use deeplink_core::qr::{QrFormat, QrLevel, QrShape};

    use super::*;

    const CONTENT: &str = "https://go.example.com/8K2QX9ZB-spring";

    fn svg(style: &QrStyle, logo: Option<&Logo>) -> String {
        let layout = Layout::of(style, QrFormat::Svg, CONTENT).expect("a layout");
        String::from_utf8(crate::qr::draw(&layout, style, CONTENT, logo)).expect("text")
    }

    fn count(svg: &str, tag: &str) -> usize {
        svg.matches(tag).count()
    }

    #[test]
    fn a_code_is_a_background_and_three_paths() {
        let style = QrStyle {
            size: 333,
            background: Rgb([0xFF, 0xFA, 0xEB]),
            dots: Rgb([0xAB, 0, 1]),
            frames: Rgb([0, 0xCD, 2]),
            pupils: Rgb([3, 4, 0xEF]),
            ..QrStyle::default()
        };
        let svg = svg(&style, None);
        let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"333\" height=\"333\" viewBox=\"0 0 33 33\" \
            role=\"img\" aria-label=\"QR code\"><rect width=\"33\" height=\"33\" fill=\"#fffaeb\"/><path fill=\"#ab0001\" d=\"";
        assert!(svg.starts_with(head), "{svg}");
        assert!(
            svg.contains("<path fill=\"#00cd02\" fill-rule=\"evenodd\" d=\"m2 4.5a2.5 2.5 0 0 1 2.5-2.5h2a"),
            "{svg}"
        );
        assert!(svg.contains("<path fill=\"#0304ef\" d=\"m4 5.5a1.5 1.5 0 0 1 3 0a"), "{svg}");
        assert!(svg.ends_with("z\"/></svg>"));
        assert_eq!((count(&svg, "<"), count(&svg, "<path "), count(&svg, "fill-rule")), (6, 3, 1));
    }

    #[test]
    fn a_link_of_36_bytes_takes_a_few_kilobytes() {
        let layout = Layout::of(&QrStyle::default(), QrFormat::Svg, &CONTENT[..36]).expect("a layout");
        let svg = crate::qr::draw(&layout, &QrStyle::default(), &CONTENT[..36], None);
        assert!(svg.len() < 8 * 1_024, "{} bytes", svg.len());
    }

    #[test]
    fn geometry_does_not_depend_on_the_size() {
        let of = |size: u32| svg(&QrStyle { size, ..QrStyle::default() }, None).replace(&format!("\"{size}\""), "\"\"");
        assert_eq!(of(1), of(2_048));
    }

    #[test]
    fn a_disc_reaches_to_the_margin() {
        let style = QrStyle { shape: QrShape::Circle, ..QrStyle::default() };
        let svg = svg(&style, None);
        assert!(svg.contains("viewBox=\"0 0 47 47\""), "{svg}");
        // The symbol begins after a margin of 2 and a ring of 7.
        assert!(svg.contains("d=\"m9 11.5a2.5"), "{svg}");
    }

    #[test]
    fn a_logo_is_embedded_twice_alike_and_at_most_512_pixels_long() {
        let style = QrStyle { level: QrLevel::H, logo: Some(String::new()), ..QrStyle::default() };
        for (width, height, expected) in [(1_500, 500, (512, 171)), (30, 10, (30, 10)), (4, 2_000, (1, 512))] {
            let logo = Logo::new(width, height, vec![128; (width * height * 4) as usize], [0; 32]).expect("a logo");
            let svg = svg(&style, Some(&logo));
            assert_eq!((count(&svg, "<"), count(&svg, "<image ")), (7, 1));
            let data: Vec<_> = svg.split("href=\"data:image/png;base64,").skip(1).collect();
            let data: Vec<_> = data.iter().map(|rest| rest.split('"').next().expect("data")).collect();
            assert_eq!((data.len(), data[0]), (2, data[1]));
            let png = STANDARD.decode(data[0]).expect("base64");
            let edge = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
            assert_eq!((edge(16), edge(20)), expected);
        }
        // Of the cleared 17 × 7 modules the logo covers 16 × 5.333, centered in 41.
        let logo = Logo::new(3, 1, vec![9; 12], [0; 32]).expect("a logo");
        let layout = Layout::of(&style, QrFormat::Svg, CONTENT).expect("a layout");
        let hole = Hole::for_logo(style.level, layout.modules(), &logo).expect("a hole");
        assert_eq!((layout.span(), hole.width, hole.height), (41, 17, 7));
        let place = "<image x=\"12.5\" y=\"17.834\" width=\"16\" height=\"5.333\" preserveAspectRatio=\"none\" href=";
        assert!(svg(&style, Some(&logo)).contains(place));
    }
}
