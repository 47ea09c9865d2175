//! Picture files of strangers: what they are is read from their first bytes, what they will cost from their headers, and
//! only what is affordable is decoded.

mod jpeg;
mod png;
mod prefix;
mod shrink;
mod vp8l;
mod webp;

use std::io::Cursor;

use image::ImageDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::webp::WebPDecoder;
use sha2::{Digest, Sha256};

use self::shrink::Shrink;
use super::Logo;

/// Longest edge of a file's picture, in pixels.
const EDGE: u32 = 4_096;
/// Most pixels of a file's picture.
const PIXELS: u64 = 16_000_000;
/// Most memory that decoding may take, in bytes: samples and what the decoder takes for itself.
const MEMORY: u64 = SAMPLES + OWN;
/// Most memory for samples: enough for a JPEG with the most pixels.
pub(super) const SAMPLES: u64 = 46 << 20;
/// Most memory that a decoder may take for itself. It comes in pieces that the allocator keeps when they are freed, so it
/// counts for as long as the process lives, beside the samples of every later picture.
const OWN: u64 = 13 << 20;
/// Pieces of this size are mapped, whatever was freed before, and given back at once; what is not touched takes nothing.
pub(super) const MAPPED: usize = 33 << 20;
/// What a decoder needs whatever the picture: tables, rows, buffers.
const SOME: u64 = 1 << 20;

/// Why a file is no logo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotALogo {
    /// It is something else, or broken.
    #[error("not a PNG, JPEG or WebP image")]
    NotAnImage,
    /// It has more than 4,096 px on an edge or 16,000,000 px in all, or takes too much memory to decode: more than 46 MiB
    /// for its samples, or 13 MiB beside them, which the scans of a progressive JPEG or the layers of a WebP may need.
    #[error("image too large")]
    TooLarge,
}

use NotALogo::{NotAnImage, TooLarge};

/// What a file's headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    width: u32,
    height: u32,
    /// Bytes of the decoded samples; 0 for those that come row by row.
    samples: u64,
    /// Bytes that the decoder takes beside them at one time.
    own: u64,
    /// Fewest bytes that such a picture can be written in.
    least: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Png,
    Jpeg,
    WebP,
}

/// A file whose headers were read and are within the limits.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    file: &'a [u8],
    format: Format,
    header: Header,
}

impl<'a> Picture<'a> {
    /// Reads the headers of a file. A short one that announces a large picture is none: room is not made for it.
    pub(super) fn read(file: &'a [u8]) -> Result<Self, NotALogo> {
        let format = Format::of(file).ok_or(NotAnImage)?;
        let header = match format {
            Format::Png => png::header(file),
            Format::Jpeg => jpeg::header(file),
            Format::WebP => webp::header(file),
        };
        let header = header.ok_or(NotAnImage)?;
        let (width, height) = (header.width, header.height);
        if width == 0 || height == 0 {
            return Err(NotAnImage);
        }
        let pixels = u64::from(width) * u64::from(height);
        if width > EDGE || height > EDGE || pixels > PIXELS || header.samples > SAMPLES || header.own > OWN {
            return Err(TooLarge);
        }
        if u64::try_from(file.len()).unwrap_or(u64::MAX) < header.least {
            return Err(NotAnImage);
        }
        Ok(Self { file, format, header })
    }

    /// Bytes of the decoded samples; at most [`SAMPLES`].
    pub(super) fn samples(&self) -> u64 {
        self.header.samples
    }

    /// The pixels.
    pub(super) fn decode(&self) -> Result<Logo, NotALogo> {
        let mut shrink = Shrink::new(self.header.width, self.header.height);
        match self.format {
            Format::Png => png::rows(self.file, &self.header, &mut shrink)?,
            Format::Jpeg => {
                let plain = jpeg::plain(self.file).ok_or(NotAnImage)?;
                self.whole(JpegDecoder::new(Cursor::new(plain)), &mut shrink)?;
            }
            Format::WebP => match webp::as_if_with_alpha(self.file) {
                Some(file) => {
                    shrink.is_opaque = true;
                    self.whole(WebPDecoder::new(Cursor::new(file)), &mut shrink)?;
                }
                None => self.whole(WebPDecoder::new(Cursor::new(self.file)), &mut shrink)?,
            },
        }
        let (width, height, rgba) = shrink.finish().ok_or(NotAnImage)?;
        Logo::new(width, height, rgba, Sha256::digest(self.file).into()).ok_or(NotAnImage)
    }

    /// Decodes what only comes as a whole.
    fn whole(&self, decoder: image::ImageResult<impl ImageDecoder>, shrink: &mut Shrink) -> Result<(), NotALogo> {
        let mut decoder = decoder.map_err(|_| NotAnImage)?;
        // Two readings of one header that differ are a trap.
        if decoder.dimensions() != (self.header.width, self.header.height)
            || decoder.total_bytes() > self.header.samples
        {
            return Err(NotAnImage);
        }
        let mut limits = image::Limits::default();
        (limits.max_image_width, limits.max_image_height) = (Some(EDGE), Some(EDGE));
        limits.max_alloc = Some(MEMORY);
        decoder.set_limits(limits).map_err(|_| TooLarge)?;
        let channels = usize::from(decoder.color_type().bytes_per_pixel());
        let mut pixels = zeros(usize::try_from(decoder.total_bytes()).map_err(|_| TooLarge)?);
        decoder.read_image(&mut pixels).map_err(|_| NotAnImage)?;
        let line = self.header.width as usize * channels;
        pixels.chunks_exact(line).for_each(|row| shrink.row(row));
        Ok(())
    }
}

/// Room for the pixels of a whole picture.
fn zeros(count: usize) -> Vec<u8> {
    let mut zeros = Vec::with_capacity(count.max(MAPPED));
    zeros.resize(count, 0);
    zeros
}

impl Format {
    /// By the first bytes; and by the last, because a file that goes on behind its end is two files in one. Zeros are
    /// nothing.
    fn of(file: &[u8]) -> Option<Self> {
        let end = file.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let is_whole_png = || file[..end].ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82");
        let is_whole_webp = || {
            let length = file.get(4..8)?.try_into().ok().map(u32::from_le_bytes)?;
            let length = usize::try_from(length).ok()?.checked_add(8)?;
            (end <= length && length <= file.len()).then_some(())
        };
        match file {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] if is_whole_png() => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] if file[..end].ends_with(&[0xff, 0xd9]) => Some(Self::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => is_whole_webp().map(|()| Self::WebP),
            _ => None,
        }
    }
}

/// Takes a piece from the front of a slice.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests;
