//! Image files from untrusted servers: the format is detected by the first bytes, the cost of decoding is computed from
//! the headers, and only files within the limits are decoded.

mod jpeg;
mod png;
mod shrink;
mod webp;

use std::io::Cursor;

use bytes::Bytes;
use image::ImageDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::webp::WebPDecoder;
use sha2::{Digest, Sha256};

use self::shrink::Shrink;
use super::Logo;

/// Longest edge of a file's picture, in pixels.
const MAX_EDGE: u32 = 4_096;
/// Maximum pixels of a file's picture.
const MAX_PIXELS: u64 = 16_000_000;
/// Maximum memory for decoding, in bytes: samples and the decoder's own.
const MAX_MEMORY: u64 = MAX_SAMPLE_BYTES + MAX_DECODER_BYTES;
/// Maximum memory for samples: enough for a JPEG with the maximum number of pixels.
pub(super) const MAX_SAMPLE_BYTES: u64 = 46 << 20;
/// Maximum memory for the decoder itself. It is allocated in small blocks that the allocator keeps, so it counts for
/// the life of the process, in addition to the samples of every later image.
const MAX_DECODER_BYTES: u64 = 13 << 20;
/// The allocator always maps blocks of this size and unmaps them when freed; untouched pages take no memory.
pub(super) const MMAP_BYTES: usize = 33 << 20;
/// Memory that a decoder needs for any image: tables, rows, buffers.
const BASE_BYTES: u64 = 1 << 20;

/// Why a file is not a logo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotALogo {
    /// It is something else, or broken.
    #[error("not a PNG, JPEG or WebP image")]
    NotAnImage,
    /// It has more than 4,096 px on an edge or 16,000,000 px in total, or takes too much memory to decode: more than 46
    /// MiB for its samples, or another 13 MiB, which the scans of a progressive JPEG or the layers of a WebP may need.
    #[error("image too large")]
    TooLarge,
    /// It is a WebP with lossless data, for a picture or for its alpha: the memory for decoding is not known in
    /// advance.
    #[error("lossless WebP and WebP with compressed transparency are not supported; use PNG")]
    Lossless,
}

use NotALogo::{NotAnImage, TooLarge};

/// The values from a file's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    width: u32,
    height: u32,
    /// Bytes of the decoded samples; 0 if they are decoded row by row.
    samples: u64,
    /// Peak bytes that the decoder takes besides the samples.
    decoder_bytes: u64,
    /// Minimum bytes of a file with such an image.
    min_file_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Png,
    Jpeg,
    WebP,
}

/// A file whose headers were read and are within the limits.
#[derive(Debug)]
pub(super) struct Picture {
    file: Bytes,
    format: Format,
    header: Header,
}

impl Picture {
    /// Reads the headers of a file. A file too short for the size in its headers is refused before memory is allocated.
    pub(super) fn read(file: Bytes) -> Result<Self, NotALogo> {
        let format = Format::of(&file).ok_or(NotAnImage)?;
        let header = match format {
            Format::Png => png::header(&file).ok_or(NotAnImage)?,
            Format::Jpeg => jpeg::header(&file).ok_or(NotAnImage)?,
            Format::WebP => webp::header(&file)?,
        };
        let (width, height) = (header.width, header.height);
        if width == 0 || height == 0 {
            return Err(NotAnImage);
        }
        let pixels = u64::from(width) * u64::from(height);
        if width > MAX_EDGE
            || height > MAX_EDGE
            || pixels > MAX_PIXELS
            || header.samples > MAX_SAMPLE_BYTES
            || header.decoder_bytes > MAX_DECODER_BYTES
        {
            return Err(TooLarge);
        }
        if u64::try_from(file.len()).unwrap_or(u64::MAX) < header.min_file_bytes {
            return Err(NotAnImage);
        }
        Ok(Self { file, format, header })
    }

    /// Bytes of the decoded samples; at most [`MAX_SAMPLE_BYTES`].
    pub(super) fn samples(&self) -> u64 {
        self.header.samples
    }

    /// Number of pixels; at most 16,000,000.
    pub(super) fn pixels(&self) -> usize {
        self.header.width as usize * self.header.height as usize
    }

    /// The pixels.
    pub(super) fn decode(&self) -> Result<Logo, NotALogo> {
        let mut shrink = Shrink::new(self.header.width, self.header.height);
        match self.format {
            Format::Png => png::rows(&self.file, &self.header, &mut shrink)?,
            Format::Jpeg => {
                let plain = jpeg::plain(&self.file).ok_or(NotAnImage)?;
                self.whole(JpegDecoder::new(Cursor::new(plain)), &mut shrink)?;
            }
            Format::WebP => self.whole(WebPDecoder::new(Cursor::new(&*self.file)), &mut shrink)?,
        }
        let (width, height, rgba) = shrink.finish().ok_or(NotAnImage)?;
        Logo::new(width, height, rgba, Sha256::digest(&self.file).into()).ok_or(NotAnImage)
    }

    /// Decodes a format that cannot be decoded row by row.
    fn whole(&self, decoder: image::ImageResult<impl ImageDecoder>, shrink: &mut Shrink) -> Result<(), NotALogo> {
        let mut decoder = decoder.map_err(|_| NotAnImage)?;
        // A header that the decoder reads differently is an attack.
        if decoder.dimensions() != (self.header.width, self.header.height)
            || decoder.total_bytes() > self.header.samples
        {
            return Err(NotAnImage);
        }
        let mut limits = image::Limits::default();
        (limits.max_image_width, limits.max_image_height) = (Some(MAX_EDGE), Some(MAX_EDGE));
        limits.max_alloc = Some(MAX_MEMORY);
        decoder.set_limits(limits).map_err(|_| TooLarge)?;
        let channels = usize::from(decoder.color_type().bytes_per_pixel());
        let mut pixels = zeros(usize::try_from(decoder.total_bytes()).map_err(|_| TooLarge)?);
        decoder.read_image(&mut pixels).map_err(|_| NotAnImage)?;
        let line = self.header.width as usize * channels;
        pixels.chunks_exact(line).for_each(|row| shrink.row(row));
        Ok(())
    }
}

/// A buffer for the pixels of a whole image.
fn zeros(count: usize) -> Vec<u8> {
    let mut zeros = Vec::with_capacity(count.max(MMAP_BYTES));
    zeros.resize(count, 0);
    zeros
}

impl Format {
    /// Detects the format by the first bytes, and by the last, because data after the end may be a second file. Zeros
    /// are allowed.
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

/// Takes `count` bytes from the front of a slice.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests;
