//! The code for print, as PDF and as EPS: outlines and, with a logo, one image. Both formats have the same operators under
//! different names, so the drawing is written once, and EPS defines the names of PDF. A pixel of the size is 1/300 inch:
//! 600 are 50.8 mm. There is no time, font or text in the files.

mod eps;
mod pdf;

use std::fmt::Write as _;

use deeplink_core::colour::Rgb;
use deeplink_core::qr::QrStyle;

use super::hole::Hole;
use super::layout::Layout;
use super::matrix::Field;
use super::number::Thousandths;
use super::outline::{self, Ink};
use super::{Logo, png};

pub(super) use eps::draw as eps;
pub(super) use pdf::draw as pdf;

/// Points of 1/72 inch in a pixel of 1/300 inch, in thousandths.
const POINT: u32 = 240;
/// Longest edge of an embedded logo in pixels: 300 an inch on 43 mm.
const MAX_LOGO_EDGE: u32 = super::svg::MAX_LOGO_EDGE;
/// The length of the handles of a Bézier curve that is a quarter of a circle, in millionths of the radius.
const HANDLE: i64 = 552_285;

/// The edge of the page in points.
fn edge(layout: &Layout) -> Thousandths {
    Thousandths(layout.size() * POINT)
}

/// Sets up the coordinates, paints the background, and draws everything but the logo. The unit is a quarter of a module,
/// from the upper left corner, until the end of the page.
fn operators(layout: &Layout, style: &QrStyle, field: &Field) -> String {
    let (edge, units) = (edge(layout), u64::from(layout.span()) * 4);
    let scale = Millionths((u64::from(layout.size() * POINT) * 2_000 + units) / (2 * units));
    let mut text = format!("{}0 0 {edge} {edge} re f\n{scale} 0 0 -{scale} 0 {edge} cm\n", Fill(style.background));
    let [dots, frames, pupils] = outline::parts::<Curves>(layout, style, field);
    for (path, colour, operator) in [(dots, style.dots, "f"), (frames, style.frames, "f*"), (pupils, style.pupils, "f")]
    {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{}{operator}", Fill(colour), path.0);
    }
    text
}

/// The place of a logo in these coordinates: its left and upper edges, its width and its height.
fn place(layout: &Layout, hole: Hole) -> [Thousandths; 4] {
    let (width, height) = hole.logo_size(4_000);
    let middle = layout.span() * 2_000;
    [middle - width / 2, middle - height / 2, width, height].map(Thousandths)
}

/// A logo over the background, in RGB: printers do not blend.
struct Image {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Image {
    fn of(logo: &Logo, background: Rgb) -> Self {
        let (width, height, pixels) = png::fitted(logo, MAX_LOGO_EDGE);
        let blend = |[red, green, blue, alpha]: [f32; 4]| {
            let channels = [red, green, blue].into_iter().zip(background.0);
            channels.map(move |(channel, below)| png::byte(channel + (1.0 - alpha) * f32::from(below)))
        };
        Self { width, height, rgb: pixels.into_iter().flat_map(blend).collect() }
    }
}

/// Sets the color. A gray is printed with black ink alone.
struct Fill(Rgb);

impl std::fmt::Display for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [red, green, blue] = self.0.0.map(|channel| Thousandths((u32::from(channel) * 1_000 + 127) / 255));
        if self.0.0.iter().all(|channel| *channel == self.0.0[0]) {
            writeln!(f, "{red} g")
        } else {
            writeln!(f, "{red} {green} {blue} rg")
        }
    }
}

/// A number with six decimals.
struct Millionths(u64);

impl std::fmt::Display for Millionths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Outlines as lines and Bézier curves, an operator a line.
#[derive(Default)]
struct Curves(String);

impl Curves {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
    }

    /// A quarter of a circle, clockwise.
    fn quarter(&mut self, radius: i32, from: (i32, i32), to: (i32, i32)) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        // Along the tangents at both ends, of which the second is the first turned clockwise.
        let ahead = (i32::midpoint(dx, dy), (dy - dx) / 2);
        let turned = (dx - ahead.0, dy - ahead.1);
        let handle = |from: i32, by: i32| {
            let length = i64::from(by.signum()) * (i64::from(radius) * HANDLE + 500) / 1_000;
            Signed(i64::from(from) * 1_000 + length)
        };
        self.put(format_args!(
            "{} {} {} {} {} {} c\n",
            handle(from.0, ahead.0),
            handle(from.1, ahead.1),
            handle(to.0, -turned.0),
            handle(to.1, -turned.1),
            to.0,
            to.1
        ));
    }
}

impl Ink for Curves {
    fn start(&mut self, _: (i32, i32), (x, y): (i32, i32)) {
        self.put(format_args!("{x} {y} m\n"));
    }

    fn line(&mut self, _: (i32, i32), (x, y): (i32, i32)) {
        self.put(format_args!("{x} {y} l\n"));
    }

    fn arc(&mut self, radius: i32, from: (i32, i32), to: (i32, i32)) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        if dx != 0 && dy != 0 {
            return self.quarter(radius, from, to);
        }
        // Half a circle clockwise: the middle is to the left of the way from one end to the other.
        let middle = (from.0 + dx / 2 + dy / 2, from.1 + dy / 2 - dx / 2);
        self.quarter(radius, from, middle);
        self.quarter(radius, middle, to);
    }

    fn close(&mut self) {
        self.0.push_str("h\n");
    }
}

/// Thousandths that may be negative.
struct Signed(i64);

impl std::fmt::Display for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", Thousandths(u32::try_from(self.0.unsigned_abs()).unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests;
