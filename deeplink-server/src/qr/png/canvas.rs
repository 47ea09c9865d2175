//! An image of palette indices, filled tile by tile.

use std::collections::HashMap;

use deeplink_core::qr::QrStyle;

use super::byte;
use super::palette::Palette;
use crate::qr::coverage::{Cut, Shape};
use crate::qr::dots::{self, Corners, Neighbours};
use crate::qr::eyes::{self, Square};
use crate::qr::hole::Hole;
use crate::qr::layout::Layout;
use crate::qr::matrix::Field;
use crate::qr::{Logo, scale};

/// An image of palette indices.
pub(super) struct Canvas<'a> {
    layout: &'a Layout,
    style: &'a QrStyle,
    palette: Palette,
    pixels: Vec<u8>,
}

impl<'a> Canvas<'a> {
    /// The canvas with dots and eyes.
    pub(super) fn drawn(layout: &'a Layout, style: &'a QrStyle, field: &Field) -> Self {
        let size = layout.size() as usize;
        let mut canvas = Self { layout, style, palette: Palette::new(style.background), pixels: vec![0; size * size] };
        canvas.dots(field);
        canvas.eyes();
        canvas
    }

    /// The palette indices, row by row.
    pub(super) fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Three bytes for each color of the palette.
    pub(super) fn palette(&self) -> Vec<u8> {
        self.palette.colours().concat()
    }

    /// Draws every dot by copying the tile of its neighbors.
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

    /// Draws one eye and copies it to its three positions.
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
        for (row, column) in eyes::positions(self.layout.modules()) {
            let place = |module: u32| (self.layout.origin() + module * scale) as usize;
            let lines = self.pixels[place(row) * size..].chunks_exact_mut(size);
            for (pixels, line) in lines.zip(eye.chunks_exact(edge)) {
                pixels[place(column)..][..edge].copy_from_slice(line);
            }
        }
    }

    /// The logo on the background, resized for the middle of the symbol.
    pub(super) fn place_logo(&self, logo: &Logo, hole: Hole) -> PlacedLogo {
        let scale = self.layout.scale();
        let (width, height) = hole.logo_size(scale);
        let place = |length: u32| (self.layout.origin() + (self.layout.modules() * scale - length) / 2) as usize;
        let background = self.style.background.0.map(f32::from);
        let drawn = scale::resize(logo, width, height);
        let on_background = |pixel: [f32; 4]| {
            let [red, green, blue, alpha] = pixel;
            let [behind_red, behind_green, behind_blue] = background.map(|channel| channel * (1.0 - alpha));
            [byte(red + behind_red), byte(green + behind_green), byte(blue + behind_blue)]
        };
        let pixels = drawn.into_iter().map(on_background).collect();
        PlacedLogo { left: place(width), top: place(height), width: width as usize, pixels }
    }

    /// Draws the logo, if its colors fit into the palette beside the others.
    pub(super) fn draw_logo(&mut self, logo: &PlacedLogo) -> bool {
        let mut known = HashMap::new();
        let mut indices = Vec::with_capacity(logo.pixels.len());
        for colour in &logo.pixels {
            let index = match known.get(colour) {
                Some(index) => *index,
                None => {
                    let Some(index) = self.palette.add(*colour) else { return false };
                    known.insert(*colour, index);
                    index
                }
            };
            indices.push(index);
        }
        let size = self.layout.size() as usize;
        let lines = self.pixels[logo.top * size..].chunks_exact_mut(size);
        for (line, row) in lines.zip(indices.chunks_exact(logo.width)) {
            line[logo.left..][..logo.width].copy_from_slice(row);
        }
        true
    }

    /// The image as RGB, with the logo.
    pub(super) fn rgb_with_logo(&self, logo: &PlacedLogo) -> Vec<u8> {
        let size = self.layout.size() as usize;
        let colours = self.palette.colours();
        let mut rgb: Vec<u8> = self.pixels.iter().flat_map(|&index| colours[usize::from(index)]).collect();
        let lines = rgb[logo.top * size * 3..].chunks_exact_mut(size * 3);
        for (line, row) in lines.zip(logo.pixels.chunks_exact(logo.width)) {
            line[logo.left * 3..][..logo.width * 3].copy_from_slice(row.as_flattened());
        }
        rgb
    }
}

/// A logo's pixels and their position.
pub(super) struct PlacedLogo {
    left: usize,
    top: usize,
    width: usize,
    pixels: Vec<[u8; 3]>,
}

/// One tile for each set of neighbors, row by row. Sets whose dots look alike share a tile.
struct Tiles {
    drawn: Vec<(Corners, Vec<u8>)>,
    /// The tile of each set.
    index: [usize; 16],
}

impl Tiles {
    fn new(style: &QrStyle, scale: u32, palette: &mut Palette) -> Self {
        let cuts = [2, 4].map(|radius| (radius, Cut::new(radius, scale)));
        let edge = scale as usize;
        let mut tiles = Self { drawn: Vec::new(), index: [0; 16] };
        for neighbours in 0..16 {
            let corners = dots::corners(style.dot_type, neighbours);
            let known = tiles.drawn.iter().position(|(drawn, _)| *drawn == corners);
            tiles.index[usize::from(neighbours)] = known.unwrap_or(tiles.drawn.len());
            if known.is_none() {
                let cut = |radius| cuts.iter().find(|(of, _)| *of == radius).map(|(_, cut)| cut);
                let shape = Shape { edge, corners: corners.map(cut) };
                let pixels = (0..edge * edge).map(|at| palette.index(style.dots, shape.at(at / edge, at % edge)));
                tiles.drawn.push((corners, pixels.collect()));
            }
        }
        tiles
    }

    fn of(&self, neighbours: Neighbours) -> &[u8] {
        &self.drawn[self.index[usize::from(neighbours)]].1
    }
}
