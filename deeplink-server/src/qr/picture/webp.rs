//! WebP (RFC 9649): what a picture will cost, from its chunks. The sizes inside are compared with the one outside, because
//! the decoder believes each of them on its own.

use super::{Header, SOME, take, vp8l};

const ANIMATED: u8 = 0x02;
const ALPHA: u8 = 0x10;

/// Size, and memory: the samples as a whole, and whatever they are put together from.
pub(super) fn header(file: &[u8]) -> Option<Header> {
    let length = usize::try_from(u32::from_le_bytes(file.get(4..8)?.try_into().ok()?)).ok()?;
    let mut rest = file.get(12..length + 8)?;
    let (kind, data) = chunk(&mut rest)?;
    let (canvas, samples, inner) = match kind {
        b"VP8 " => {
            let size = lossy_size(data)?;
            (size, 3, size.planes())
        }
        b"VP8L" => {
            let (size, has_alpha) = lossless_size(data)?;
            let (samples, more) = if has_alpha { (4, 0) } else { (3, 4) };
            (size, samples, more * size.pixels() + vp8l::memory(data, None)?)
        }
        b"VP8X" => {
            let (&flags, size) = (data.first()?, Size::less_one(data.get(4..10)?)?);
            let samples = if flags & ALPHA == 0 { 3 } else { 4 };
            // Whoever is too large outside is not looked into.
            let inside = if size.is_too_large() {
                0
            } else if flags & ANIMATED == 0 {
                frame(rest, size, flags & ALPHA == 0)?
            } else {
                4 * size.pixels() + largest_frame(rest, size)?
            };
            (size, samples, inside)
        }
        _ => return None,
    };
    let (Size { width, height }, inner) = (canvas, inner + SOME);
    Some(Header { width, height, memory: samples * canvas.pixels() + inner, inner })
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

    /// Brightness for each pixel and colour for each fourth, in blocks of 16.
    fn planes(self) -> u64 {
        let up = |edge: u32| u64::from(edge).next_multiple_of(16);
        up(self.width) * up(self.height) * 3 / 2
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

/// What the chunks of one frame cost beside the samples that come out. Chunks that come twice cost twice.
fn frame(mut chunks: &[u8], size: Size, is_opaque: bool) -> Option<u64> {
    let mut memory = 0;
    while !chunks.is_empty() {
        let (kind, data) = chunk(&mut chunks)?;
        memory += match kind {
            b"VP8 " if lossy_size(data)? == size => size.planes(),
            b"VP8L" if lossless_size(data)?.0 == size => {
                let samples = if is_opaque { 4 * size.pixels() } else { 0 };
                samples + vp8l::memory(data, None)?
            }
            b"VP8 " | b"VP8L" => return None,
            b"ALPH" => match data.split_first()? {
                (flags, _) if flags.trailing_zeros() >= 2 => size.pixels(),
                (_, stream) => 5 * size.pixels() + vp8l::memory(stream, Some((size.width, size.height)))?,
            },
            _ => 0,
        };
    }
    Some(memory)
}

/// The most that any frame of an animation costs: which one the decoder takes for the first is its choice.
fn largest_frame(mut chunks: &[u8], canvas: Size) -> Option<u64> {
    let mut largest = None;
    while !chunks.is_empty() {
        let (kind, data) = chunk(&mut chunks)?;
        if kind == b"ANMF" {
            let size = Size::less_one(data.get(6..12)?)?;
            if size.width > canvas.width || size.height > canvas.height {
                return None;
            }
            let samples = 4 * size.pixels();
            largest = largest.max(Some(samples + frame(data.get(16..)?, size, false)?));
        }
    }
    largest
}

/// The size in a lossy bitstream's first frame (RFC 6386, section 9.1).
fn lossy_size(data: &[u8]) -> Option<Size> {
    let &[tag, _, _, 0x9d, 0x01, 0x2a, w1, w2, h1, h2] = data.first_chunk::<10>()? else { return None };
    let edge = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    (tag & 1 == 0).then_some(Size { width: edge(w1, w2), height: edge(h1, h2) })
}

/// The size in a lossless bitstream's header, and whether it says that it has alpha (RFC 9649, section 3.4).
fn lossless_size(data: &[u8]) -> Option<(Size, bool)> {
    let &[0x2f, a, b, c, d] = data.first_chunk::<5>()? else { return None };
    let bits = u32::from_le_bytes([a, b, c, d]);
    let edge = |bits: u32| (bits & 0x3fff) + 1;
    Some((Size { width: edge(bits), height: edge(bits >> 14) }, bits >> 28 & 1 == 1))
}
