//! Draws links as QR codes.
//!
//! The same options, content and logo give the same bytes, on every node and after a restart; whoever changes what is
//! drawn raises [`RENDERER_VERSION`]. Nothing here waits or reads anything, so the caller chooses the thread.

mod coverage;
mod dots;
mod eyes;
mod hole;
mod layout;
mod logo;
mod matrix;
mod outline;
mod png;
mod scale;
mod svg;

use deeplink_core::qr::{QrFormat, QrStyle};

pub use layout::{CannotDraw, Layout};
pub use logo::Logo;

use hole::Hole;
use matrix::Field;

/// The renderer's version, a part of every `ETag`: what an older one drew is not taken for what this one draws.
pub const RENDERER_VERSION: u32 = 1;

/// The finished file: a PNG, or an SVG in UTF-8. `layout` must be that of the same style and content.
///
/// # Panics
///
/// If the content is longer than the one that the layout was made for.
pub fn draw(layout: &Layout, style: &QrStyle, content: &str, logo: Option<&Logo>) -> Vec<u8> {
    let logo = logo.and_then(|logo| Some((logo, Hole::for_logo(layout.level(), layout.modules(), logo)?)));
    let field = Field::of(layout, content, logo.map(|(_, hole)| hole));
    match layout.format() {
        QrFormat::Png => png::draw(layout, style, &field, logo),
        QrFormat::Svg => svg::draw(layout, style, &field, logo).into_bytes(),
    }
}
