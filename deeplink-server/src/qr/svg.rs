//! The code as SVG: a background, at most three paths in units of one module, and the logo. No text of the caller is in
//! it, and nothing that a viewer would have to fetch.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::qr::QrStyle;

use super::hole::Hole;
use super::layout::Layout;
use super::matrix::Field;
use super::outline::Pen;
use super::{Logo, eyes, png};

/// Longest edge of an embedded logo in pixels.
const LOGO_EDGE: u32 = 512;

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
    let (mut dots, mut frames, mut pupils) = (Pen::default(), Pen::default(), Pen::default());
    dots.dots(field, style.dot_type, layout.margin());
    let origin = layout.margin() + layout.ring();
    let (outer, inner) = eyes::frame(style.corner_square_type);
    let pupil = eyes::pupil(style.corner_dot_type, style.corner_square_type);
    for (row, column) in eyes::places(layout.modules()) {
        let (row, column) = (origin + row, origin + column);
        frames.square(row, column, outer);
        frames.square(row, column, inner);
        pupils.square(row, column, pupil);
    }
    for (pen, colour, rule) in
        [(dots, style.dots, ""), (frames, style.frames, " fill-rule=\"evenodd\""), (pupils, style.pupils, "")]
    {
        push(&mut svg, format_args!("<path fill=\"{colour}\"{rule} d=\"{}\"/>", pen.into_data()));
    }
    if let Some((logo, hole)) = logo {
        embed(&mut svg, layout, logo, hole);
    }
    svg.push_str("</svg>");
    svg
}

/// The logo in the middle. Older readers know only the second of the two references.
fn embed(svg: &mut String, layout: &Layout, logo: &Logo, hole: Hole) {
    let (width, height) = hole.logo_size(1_000);
    let middle = layout.span() * 500;
    let (x, y) = (Thousandths(middle - width / 2), Thousandths(middle - height / 2));
    let data = STANDARD.encode(png::picture(logo, LOGO_EDGE));
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
    // Writing to a text cannot fail.
    let _ = svg.write_fmt(text);
}

/// A number with three decimals, of which zeros at the end are left out.
struct Thousandths(u32);

impl std::fmt::Display for Thousandths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}
