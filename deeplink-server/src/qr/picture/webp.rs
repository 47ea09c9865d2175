//! WebP (RFC 9649): the cost of decoding, from the chunks. The inner sizes are compared with the outer one, because the
//! decoder trusts each of them separately.
//!
//! Only lossy data is decoded. A few bytes of lossless data, which includes compressed alpha, can demand a thousand
//! times as much memory for tables, and image-webp's memory limit does not count these: once it does, lossless files
//! can be accepted.

use super::NotALogo::{self, Lossless, NotAnImage};
use super::{BASE_BYTES, Header, take};

const ANIMATED: u8 = 0x02;
const ALPHA: u8 = 0x10;
/// In the first byte of an alpha chunk: how it is compressed.
const ALPHA_COMPRESSION: u8 = 0x03;

/// Size and memory: all samples, and the buffers they are assembled from. Of several frames the first counts.
pub(super) fn header(file: &[u8]) -> Result<Header, NotALogo> {
    let mut rest = contents(file).ok_or(NotAnImage)?;
    let (kind, data) = chunk(&mut rest).ok_or(NotAnImage)?;
    let size = match kind {
        b"VP8 " => lossy_size(data),
        b"VP8L" => return Err(Lossless),
        b"VP8X" => data.get(4..10).and_then(Size::less_one),
        _ => None,
    };
    let size = size.ok_or(NotAnImage)?;
    let Size { width, height } = size;
    // The inner sizes of an image that is too large do not matter.
    if size.is_too_large() {
        return Ok(Header { width, height, samples: 0, decoder_bytes: 0, min_file_bytes: 0 });
    }
    let flags = if kind == b"VP8X" { data[0] } else { 0 };
    let decoder_bytes = match kind {
        b"VP8X" if flags & ANIMATED == 0 => frame(rest, size, false)?,
        b"VP8X" => first_frame(rest, size)?,
        _ => size.planes(),
    };
    let channels = if flags & ALPHA == 0 { 3 } else { 4 };
    // An image of one color may use no bits per pixel.
    Ok(Header {
        width,
        height,
        samples: channels * size.pixels(),
        decoder_bytes: decoder_bytes + BASE_BYTES,
        min_file_bytes: 0,
    })
}

/// The chunks of a file, which may be followed by zeros.
fn contents(file: &[u8]) -> Option<&[u8]> {
    let length = usize::try_from(u32::from_le_bytes(file.get(4..8)?.try_into().ok()?)).ok()?;
    file.get(12..length + 8)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    width: u32,
    height: u32,
}

impl Size {
    /// Reads two 24-bit numbers, each stored as its value minus one.
    fn less_one(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)) + 1;
        let (width, height) = bytes.split_at_checked(3)?;
        Some(Self { width: number(width), height: number(height) })
    }

    fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Bytes for blocks of 16 × 16 pixels: brightness for each pixel, color for every fourth, and the block's
    /// metadata, in a list that doubles as it grows.
    fn planes(self) -> u64 {
        let blocks = u64::from(self.width.div_ceil(16)) * u64::from(self.height.div_ceil(16));
        blocks * (16 * 16 * 3 / 2 + 64)
    }

    fn is_too_large(self) -> bool {
        self.width > super::MAX_EDGE || self.height > super::MAX_EDGE || self.pixels() > super::MAX_PIXELS
    }
}

fn chunk<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8; 4], &'a [u8])> {
    let kind = take(rest, 4)?.try_into().ok()?;
    let length = usize::try_from(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?)).ok()?;
    let data = take(rest, length)?;
    // The last chunk may lack its padding.
    let _ = take(rest, length % 2);
    Some((kind, data))
}

/// The memory that the chunks of one picture take besides the resulting samples. Each kind must occur once, alpha
/// first, because it is undefined which of two the decoder takes.
fn frame(mut chunks: &[u8], size: Size, is_animated: bool) -> Result<u64, NotALogo> {
    let (mut alpha, mut picture) = (None, None);
    while !chunks.is_empty() {
        let (kind, data) = chunk(&mut chunks).ok_or(NotAnImage)?;
        match kind {
            _ if picture.is_some() && matches!(kind, b"ALPH" | b"VP8 " | b"VP8L") => return Err(NotAnImage),
            b"VP8 " if lossy_size(data) == Some(size) => {
                let samples = if is_animated { 4 * size.pixels() } else { 0 };
                picture = Some(samples + size.planes());
            }
            b"VP8L" => return Err(Lossless),
            b"ALPH" if alpha.is_none() => {
                if data.first().ok_or(NotAnImage)? & ALPHA_COMPRESSION != 0 {
                    return Err(Lossless);
                }
                alpha = Some(size.pixels());
            }
            b"VP8 " | b"ALPH" | b"ANMF" => return Err(NotAnImage),
            // The decoder takes the first chunk of a frame for the image, whatever its name.
            _ if is_animated && picture.is_none() => return Err(NotAnImage),
            _ => {}
        }
    }
    Ok(alpha.unwrap_or(0) + picture.ok_or(NotAnImage)?)
}

/// The memory for the first frame of an animation, including its canvas.
fn first_frame(mut chunks: &[u8], canvas: Size) -> Result<u64, NotALogo> {
    loop {
        let (kind, data) = chunk(&mut chunks).ok_or(NotAnImage)?;
        if kind == b"ANMF" {
            let size = data.get(6..12).and_then(Size::less_one);
            let size = size.filter(|size| size.width <= canvas.width && size.height <= canvas.height);
            let (size, chunks) = size.zip(data.get(16..)).ok_or(NotAnImage)?;
            return Ok(4 * canvas.pixels() + frame(chunks, size, true)?);
        }
    }
}

/// The size in a lossy bitstream's first frame (RFC 6386, section 9.1).
fn lossy_size(data: &[u8]) -> Option<Size> {
    let &[tag, _, _, 0x9d, 0x01, 0x2a, w1, w2, h1, h2] = data.first_chunk::<10>()? else { return None };
    let edge = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    (tag & 1 == 0).then_some(Size { width: edge(w1, w2), height: edge(h1, h2) })
}
