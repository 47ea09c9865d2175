//! WebP (RFC 9649): what a picture will cost, from its chunks. The sizes inside are compared with the one outside, because
//! the decoder believes each of them on its own.

use super::{Header, SOME, take, vp8l};

const ANIMATED: u8 = 0x02;
const ALPHA: u8 = 0x10;
/// Where a file's first chunk says whether there is alpha, with the bit [`ALPHA`]: of a lossless bitstream, and of a list
/// of chunks.
const LOSSLESS_ALPHA: usize = 24;
const LIST_ALPHA: usize = 20;

/// Size, and memory: the samples as a whole, and whatever they are put together from. Of several frames the first counts.
pub(super) fn header(file: &[u8]) -> Option<Header> {
    let length = usize::try_from(u32::from_le_bytes(file.get(4..8)?.try_into().ok()?)).ok()?;
    let mut rest = file.get(12..length + 8)?;
    let (kind, data) = chunk(&mut rest)?;
    let size = match kind {
        b"VP8 " => lossy_size(data)?,
        b"VP8L" => lossless_size(data)?,
        b"VP8X" => Size::less_one(data.get(4..10)?)?,
        _ => return None,
    };
    let Size { width, height } = size;
    // Whoever is too large outside is not looked into.
    if size.is_too_large() {
        return Some(Header { width, height, samples: 0, own: 0, least: 0 });
    }
    let (channels, own) = match kind {
        b"VP8 " => (3, size.planes()),
        b"VP8L" => (4, vp8l::memory(data, None)?),
        _ => {
            let flags = *data.first()?;
            let own = if flags & ANIMATED == 0 { frame(rest, size, false)? } else { first_frame(rest, size)? };
            (if flags & ALPHA == 0 && !holds_lossless(rest) { 3 } else { 4 }, own)
        }
    };
    // One colour takes no bit for each pixel.
    Some(Header { width, height, samples: channels * size.pixels(), own: own + SOME, least: 0 })
}

/// A picture without alpha whose decoder would put it together with alpha first, and take its memory twice: the same file
/// as if it had alpha, which then says nothing.
pub(super) fn as_if_with_alpha(file: &[u8]) -> Option<Vec<u8>> {
    let mut chunks = file.get(12..)?;
    let (kind, data) = chunk(&mut chunks)?;
    let at = match kind {
        b"VP8L" => LOSSLESS_ALPHA,
        b"VP8X" if data.first()? & ANIMATED == 0 && holds_lossless(chunks) => LIST_ALPHA,
        _ => return None,
    };
    if file.get(at)? & ALPHA != 0 {
        return None;
    }
    let mut file = file.to_vec();
    file[at] |= ALPHA;
    Some(file)
}

fn holds_lossless(mut chunks: &[u8]) -> bool {
    std::iter::from_fn(|| chunk(&mut chunks)).any(|(kind, _)| kind == b"VP8L")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    width: u32,
    height: u32,
}

impl Size {
    /// Two numbers of 24 bits, each one less than what it stands for.
    fn less_one(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)) + 1;
        let (width, height) = bytes.split_at_checked(3)?;
        Some(Self { width: number(width), height: number(height) })
    }

    fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Blocks of 16 × 16 pixels: brightness for each pixel and colour for each fourth, and what is known of the block, in
    /// a list that doubles as it grows.
    fn planes(self) -> u64 {
        let blocks = u64::from(self.width.div_ceil(16)) * u64::from(self.height.div_ceil(16));
        blocks * (16 * 16 * 3 / 2 + 64)
    }

    fn is_too_large(self) -> bool {
        self.width > super::EDGE || self.height > super::EDGE || self.pixels() > super::PIXELS
    }
}

fn chunk<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8; 4], &'a [u8])> {
    let kind = take(rest, 4)?.try_into().ok()?;
    let length = usize::try_from(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?)).ok()?;
    let data = take(rest, length)?;
    // The last one may be without its padding.
    let _ = take(rest, length % 2);
    Some((kind, data))
}

/// What the chunks of one picture cost beside the samples that come out. Each kind comes once, and alpha first: which of
/// two the decoder takes is its choice.
fn frame(mut chunks: &[u8], size: Size, is_animated: bool) -> Option<u64> {
    let (mut alpha, mut picture) = (None, None);
    while !chunks.is_empty() {
        let (kind, data) = chunk(&mut chunks)?;
        match kind {
            _ if picture.is_some() && matches!(kind, b"ALPH" | b"VP8 " | b"VP8L") => return None,
            b"VP8 " if lossy_size(data)? == size => {
                let samples = if is_animated { 4 * size.pixels() } else { 0 };
                picture = Some(samples + size.planes());
            }
            b"VP8L" if alpha.is_none() && lossless_size(data)? == size => {
                let samples = if is_animated { 4 * size.pixels() } else { 0 };
                picture = Some(samples + vp8l::memory(data, None)?);
            }
            b"ALPH" if alpha.is_none() => {
                alpha = Some(match data.split_first()? {
                    (flags, _) if flags.trailing_zeros() >= 2 => size.pixels(),
                    (_, stream) => 5 * size.pixels() + vp8l::memory(stream, Some((size.width, size.height)))?,
                });
            }
            b"VP8 " | b"VP8L" | b"ALPH" | b"ANMF" => return None,
            // What stands first in a frame is decoded as a picture, whatever it is called.
            _ if is_animated && picture.is_none() => return None,
            _ => {}
        }
    }
    Some(alpha.unwrap_or(0) + picture?)
}

/// What the first frame of an animation costs, with the canvas that it is put on.
fn first_frame(mut chunks: &[u8], canvas: Size) -> Option<u64> {
    loop {
        let (kind, data) = chunk(&mut chunks)?;
        if kind == b"ANMF" {
            let size = Size::less_one(data.get(6..12)?)?;
            if size.width > canvas.width || size.height > canvas.height {
                return None;
            }
            return Some(4 * canvas.pixels() + frame(data.get(16..)?, size, true)?);
        }
    }
}

/// The size in a lossy bitstream's first frame (RFC 6386, section 9.1).
fn lossy_size(data: &[u8]) -> Option<Size> {
    let &[tag, _, _, 0x9d, 0x01, 0x2a, w1, w2, h1, h2] = data.first_chunk::<10>()? else { return None };
    let edge = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    (tag & 1 == 0).then_some(Size { width: edge(w1, w2), height: edge(h1, h2) })
}

/// The size in a lossless bitstream's header (RFC 9649, section 3.4).
fn lossless_size(data: &[u8]) -> Option<Size> {
    let &[0x2f, a, b, c, d] = data.first_chunk::<5>()? else { return None };
    let bits = u32::from_le_bytes([a, b, c, d]);
    let edge = |bits: u32| (bits & 0x3fff) + 1;
    Some(Size { width: edge(bits), height: edge(bits >> 14) })
}
