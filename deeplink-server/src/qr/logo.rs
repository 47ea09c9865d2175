//! A logo's pixels, without the rest of its file.

use std::fmt;

use bytes::Bytes;

use super::picture::{NotALogo, Picture};
use super::png;

/// A decoded picture.
pub struct Logo {
    width: u32,
    height: u32,
    rgba: Vec<u8>,
    digest: [u8; 32],
}

impl Logo {
    /// A picture of `width` × `height` pixels, four bytes each (red, green, blue, alpha, not premultiplied), row by row.
    /// `digest` is the SHA-256 of the file that it was decoded from. `None` if the length does not match the size.
    pub fn new(width: u32, height: u32, rgba: Vec<u8>, digest: [u8; 32]) -> Option<Self> {
        let pixels = usize::try_from(u64::from(width) * u64::from(height)).ok()?;
        (pixels > 0 && rgba.len() == pixels * 4).then_some(Self { width, height, rgba, digest })
    }

    /// Decodes a PNG, JPEG or lossy WebP file: its first frame, as stored, with 8 bits per channel. An image with more
    /// than 2,048 px on an edge or 262,144 px in total, about what the largest codes draw, is scaled down. Everything
    /// but the pixels is dropped.
    pub fn decode(file: &[u8]) -> Result<Self, NotALogo> {
        Picture::read(Bytes::copy_from_slice(file))?.decode()
    }

    /// The picture as a PNG.
    pub fn to_png(&self) -> Vec<u8> {
        png::encode_logo(self, self.width.max(self.height))
    }

    /// Width in pixels.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The pixels, as [`Logo::new`] takes them.
    pub fn rgba(&self) -> &[u8] {
        &self.rgba
    }

    /// SHA-256 of the file.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

impl fmt::Debug for Logo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logo({} × {})", self.width, self.height)
    }
}
