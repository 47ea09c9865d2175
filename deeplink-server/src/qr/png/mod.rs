//! The code as PNG: whole pixels for each module, filled from one tile for each set of neighbors.

mod canvas;
mod palette;

use std::borrow::Cow;

use deeplink_core::qr::QrStyle;
use png::{BitDepth, ColorType, Compression, Encoder, Filter};

use super::Logo;
use super::hole::Hole;
use super::layout::Layout;
use super::matrix::Field;
use super::scale::{self, Pixel};
use canvas::Canvas;

/// The whole file.
pub(super) fn draw(layout: &Layout, style: &QrStyle, field: &Field, logo: Option<(&Logo, Hole)>) -> Vec<u8> {
    let mut canvas = Canvas::drawn(layout, style, field);
    let size = (layout.size(), layout.size());
    if let Some((logo, hole)) = logo {
        let logo = canvas.place_logo(logo, hole);
        if !canvas.draw_logo(&logo) {
            return encode(size, ColorType::Rgb, None, Filter::Up, &canvas.rgb_with_logo(&logo));
        }
    }
    encode(size, ColorType::Indexed, Some(canvas.palette()), Filter::Up, canvas.pixels())
}

/// A logo's pixels with at most `longest` on an edge, and how many there are. It is never enlarged.
pub(super) fn fitted(logo: &Logo, longest: u32) -> (u32, u32, Vec<Pixel>) {
    let (width, height) = (logo.width(), logo.height());
    let edge = width.max(height);
    let fitted = |length: u32| {
        let (length, edge) = (u64::from(length) * u64::from(longest), u64::from(edge));
        u32::try_from((2 * length + edge) / (2 * edge)).unwrap_or(longest).max(1)
    };
    let (width, height) = if edge <= longest { (width, height) } else { (fitted(width), fitted(height)) };
    (width, height, scale::resize(logo, width, height))
}

/// Encodes a logo as a PNG with at most `longest` pixels on an edge. It is never enlarged.
pub(super) fn encode_logo(logo: &Logo, longest: u32) -> Vec<u8> {
    let (width, height, pixels) = fitted(logo, longest);
    if pixels.iter().all(|pixel| byte(255.0 * pixel[3]) == 255) {
        let rgb: Vec<u8> = pixels.iter().flat_map(|&[red, green, blue, _]| [red, green, blue].map(byte)).collect();
        return encode((width, height), ColorType::Rgb, None, Filter::Adaptive, &rgb);
    }
    let rgba: Vec<u8> = pixels
        .iter()
        .flat_map(|&[red, green, blue, alpha]| {
            let of = |channel: f32| if alpha > 0.0 { byte(channel / alpha) } else { 0 };
            [of(red), of(green), of(blue), byte(255.0 * alpha)]
        })
        .collect();
    encode((width, height), ColorType::Rgba, None, Filter::Adaptive, &rgba)
}

/// Rounds to the nearest byte.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(super) fn byte(value: f32) -> u8 {
    (value + 0.5) as u8
}

/// A PNG with only the required chunks. Codes without a photo use the fastest compressor: where most rows repeat the
/// row above, its files are twice as large as the slowest's, in a twentieth of the time. Photos would be four times as
/// large, so they use the default one.
fn encode(
    (width, height): (u32, u32),
    colours: ColorType,
    palette: Option<Vec<u8>>,
    filter: Filter,
    pixels: &[u8],
) -> Vec<u8> {
    let mut file = Vec::with_capacity(16 * 1024);
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(colours);
    encoder.set_depth(BitDepth::Eight);
    let is_code = colours == ColorType::Indexed;
    encoder.set_compression(if is_code { Compression::Fast } else { Compression::Balanced });
    encoder.set_filter(filter);
    if let Some(palette) = palette {
        encoder.set_palette(Cow::Owned(palette));
    }
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(pixels)?;
        writer.finish()
    });
    written.expect("writing to memory does not fail, and the pixels match the header");
    file
}

#[cfg(test)]
mod tests;
