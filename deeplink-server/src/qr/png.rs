//! The code as PNG: whole pixels for each module, filled from one tile for each set of neighbours.

use std::borrow::Cow;

use deeplink_core::colour::Rgb;
use deeplink_core::qr::QrStyle;
use png::{BitDepth, ColorType, Compression, Encoder, Filter};

use super::coverage::{Cut, Shape, WHOLE};
use super::dots::{self, Neighbours};
use super::eyes::{self, Square};
use super::hole::Hole;
use super::layout::Layout;
use super::matrix::Field;
use super::{Logo, scale};

/// Steps from the background to a colour. More are not seen, and fewer colours are a smaller file.
const STEPS: u32 = 32;

/// The whole file.
pub(super) fn draw(layout: &Layout, style: &QrStyle, field: &Field, logo: Option<(&Logo, Hole)>) -> Vec<u8> {
    let mut canvas = Canvas::new(layout, style);
    canvas.dots(field);
    canvas.eyes();
    let size = layout.size();
    match logo {
        None => encode(size, size, ColorType::Indexed, Some(canvas.palette.bytes()), &canvas.pixels),
        Some((logo, hole)) => encode(size, size, ColorType::Rgb, None, &canvas.with_logo(logo, hole)),
    }
}

/// A logo as a PNG of its own, its longer edge at most this long. It is never enlarged.
pub(super) fn picture(logo: &Logo, longest: u32) -> Vec<u8> {
    let (width, height) = (logo.width(), logo.height());
    let edge = width.max(height);
    let fitted = |length: u32| {
        let (length, edge) = (u64::from(length) * u64::from(longest), u64::from(edge));
        u32::try_from((2 * length + edge) / (2 * edge)).unwrap_or(longest).max(1)
    };
    let (width, height) = if edge <= longest { (width, height) } else { (fitted(width), fitted(height)) };
    let pixels = scale::resize(logo, width, height);
    if pixels.iter().all(|pixel| byte(255.0 * pixel[3]) == 255) {
        let rgb: Vec<u8> = pixels.iter().flat_map(|&[red, green, blue, _]| [red, green, blue].map(byte)).collect();
        return encode(width, height, ColorType::Rgb, None, &rgb);
    }
    let rgba: Vec<u8> = pixels
        .iter()
        .flat_map(|&[red, green, blue, alpha]| {
            let of = |channel: f32| if alpha > 0.0 { byte(channel / alpha) } else { 0 };
            [of(red), of(green), of(blue), byte(255.0 * alpha)]
        })
        .collect();
    encode(width, height, ColorType::Rgba, None, &rgba)
}

/// The nearest byte.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn byte(value: f32) -> u8 {
    (value + 0.5) as u8
}

/// A PNG with the chunks that it must have and no others.
fn encode(width: u32, height: u32, colours: ColorType, palette: Option<Vec<u8>>, pixels: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(16 * 1024);
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(colours);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Up);
    if let Some(palette) = palette {
        encoder.set_palette(Cow::Owned(palette));
    }
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(pixels)?;
        writer.finish()
    });
    written.expect("memory takes what is written, and the pixels are as many as the header says");
    file
}

/// The colours of an image: the background, and for each ink the steps that are used.
struct Palette {
    background: Rgb,
    colours: Vec<[u8; 3]>,
    used: Vec<(Rgb, [Option<u8>; STEPS as usize + 1])>,
}

impl Palette {
    fn new(background: Rgb) -> Self {
        Self { background, colours: vec![background.0], used: Vec::new() }
    }

    /// The number of an ink that covers so much of a pixel, of [`WHOLE`].
    fn index(&mut self, ink: Rgb, covered: u32) -> u8 {
        let step = (covered * STEPS + WHOLE / 2) / WHOLE;
        if step == 0 {
            return 0;
        }
        let of_ink = match self.used.iter().position(|(one, _)| *one == ink) {
            Some(at) => at,
            None => {
                self.used.push((ink, [None; STEPS as usize + 1]));
                self.used.len() - 1
            }
        };
        let slot = &mut self.used[of_ink].1[step as usize];
        *slot.get_or_insert_with(|| {
            self.colours.push(mixed(self.background, ink, step));
            // Three inks of as many steps fit.
            u8::try_from(self.colours.len() - 1).unwrap_or(0)
        })
    }

    fn bytes(&self) -> Vec<u8> {
        self.colours.concat()
    }
}

/// A colour so many steps from the background.
fn mixed(background: Rgb, ink: Rgb, step: u32) -> [u8; 3] {
    let mut mixed = [0; 3];
    for (channel, (from, to)) in mixed.iter_mut().zip(background.0.into_iter().zip(ink.0)) {
        let sum = u32::from(from) * (STEPS - step) + u32::from(to) * step;
        *channel = u8::try_from((sum + STEPS / 2) / STEPS).unwrap_or(u8::MAX);
    }
    mixed
}

/// An image of palette indices.
struct Canvas<'a> {
    layout: &'a Layout,
    style: &'a QrStyle,
    palette: Palette,
    pixels: Vec<u8>,
}

impl<'a> Canvas<'a> {
    fn new(layout: &'a Layout, style: &'a QrStyle) -> Self {
        let size = layout.size() as usize;
        Self { layout, style, palette: Palette::new(style.background), pixels: vec![0; size * size] }
    }

    /// Draws every dot by copying the tile of its neighbours.
    fn dots(&mut self, field: &Field) {
        let (size, scale) = (self.layout.size() as usize, self.layout.scale() as usize);
        let origin = (self.layout.origin() - self.layout.ring() * self.layout.scale()) as usize;
        let tiles = Tiles::new(self.style, self.layout.scale(), &mut self.palette);
        let mut row_of_dots: Vec<(usize, &[u8])> = Vec::with_capacity(field.edge());
        for row in 0..field.edge() {
            let dots = (0..field.edge()).map(|column| (column, field.at(row, column)));
            row_of_dots.clear();
            row_of_dots.extend(
                dots.filter(|(_, at)| field.is_dot(*at))
                    .map(|(column, at)| (origin + column * scale, tiles.of(field.neighbours(at)))),
            );
            let lines = self.pixels[(origin + row * scale) * size..].chunks_exact_mut(size).take(scale);
            for (line, pixels) in lines.enumerate() {
                for (x, tile) in &row_of_dots {
                    pixels[*x..][..scale].copy_from_slice(&tile[line * scale..][..scale]);
                }
            }
        }
    }

    /// Draws one eye and copies it to its three places.
    fn eyes(&mut self) {
        let style = self.style;
        let scale = self.layout.scale();
        let (outer, inner) = eyes::frame(style.corner_square_type);
        let pupil = eyes::pupil(style.corner_dot_type, style.corner_square_type);
        let cuts = [outer, inner, pupil].map(|square| Cut::new(square.radius, scale));
        let part = |square: Square, at: usize| Shape {
            edge: (square.edge * scale) as usize,
            corners: [(square.radius > 0).then_some(&cuts[at]); 4],
        };
        let (frame, gap, middle) = (part(outer, 0), part(inner, 1), part(pupil, 2));
        let inset = |square: Square| (square.inset() * scale) as usize;
        let edge = frame.edge;
        let mut eye = vec![0; edge * edge];
        for (at, pixel) in eye.iter_mut().enumerate() {
            let (row, column) = (at / edge, at % edge);
            // Outside a part the distance wraps to a large number, where the part covers nothing.
            let covered = |shape: &Shape<'_>, square: Square| {
                shape.at(row.wrapping_sub(inset(square)), column.wrapping_sub(inset(square)))
            };
            let in_pupil = covered(&middle, pupil);
            *pixel = if in_pupil > 0 {
                self.palette.index(style.pupils, in_pupil)
            } else {
                self.palette.index(style.frames, frame.at(row, column) - covered(&gap, inner))
            };
        }
        let size = self.layout.size() as usize;
        for (row, column) in eyes::places(self.layout.modules()) {
            let place = |module: u32| (self.layout.origin() + module * scale) as usize;
            let lines = self.pixels[place(row) * size..].chunks_exact_mut(size);
            for (pixels, line) in lines.zip(eye.chunks_exact(edge)) {
                pixels[place(column)..][..edge].copy_from_slice(line);
            }
        }
    }

    /// The image as colours, with the logo in the middle of the symbol.
    fn with_logo(&self, logo: &Logo, hole: Hole) -> Vec<u8> {
        let size = self.layout.size() as usize;
        let mut rgb: Vec<u8> = self.pixels.iter().flat_map(|&index| self.palette.colours[usize::from(index)]).collect();
        let scale = self.layout.scale();
        let (width, height) = hole.logo_size(scale);
        let place = |length: u32| (self.layout.origin() + (self.layout.modules() * scale - length) / 2) as usize;
        let background = self.style.background.0;
        let logo = scale::resize(logo, width, height);
        let (width, left) = (width as usize, place(width));
        let lines = rgb[place(height) * size * 3..].chunks_exact_mut(size * 3);
        for (line, row) in lines.zip(logo.chunks_exact(width)) {
            for (pixel, drawn) in line[left * 3..].chunks_exact_mut(3).zip(row) {
                for (channel, (value, behind)) in pixel.iter_mut().zip(drawn.iter().zip(background)) {
                    *channel = byte(value + f32::from(behind) * (1.0 - drawn[3]));
                }
            }
        }
        rgb
    }
}

/// One tile for each set of neighbours, row by row.
struct Tiles {
    edge: usize,
    pixels: Vec<u8>,
}

impl Tiles {
    fn new(style: &QrStyle, scale: u32, palette: &mut Palette) -> Self {
        let cuts = [2, 4].map(|radius| (radius, Cut::new(radius, scale)));
        let edge = scale as usize;
        let mut pixels = Vec::with_capacity(16 * edge * edge);
        for neighbours in 0..16 {
            let corners = dots::corners(style.dot_type, neighbours)
                .map(|corner| cuts.iter().find(|(radius, _)| *radius == corner).map(|(_, cut)| cut));
            let shape = Shape { edge, corners };
            for row in 0..edge {
                pixels.extend((0..edge).map(|column| palette.index(style.dots, shape.at(row, column))));
            }
        }
        Self { edge, pixels }
    }

    fn of(&self, neighbours: Neighbours) -> &[u8] {
        let area = self.edge * self.edge;
        &self.pixels[usize::from(neighbours) * area..][..area]
    }
}
