//! PNG (W3C Recommendation, third edition): decoded row by row, unless it is interlaced.

use std::io::Cursor;

use png::{DecodeOptions, Decoder, InterlaceInfo, Limits, Transformations};

use super::NotALogo::{self, NotAnImage, TooLarge};
use super::shrink::Shrink;
use super::{BASE_BYTES, Header, take, zeros};

/// Maximum bytes of data after the last row: a checksum, an empty block. More is a decompression bomb.
const MAX_TRAILING_BYTES: u64 = 1_024;

/// Maximum bytes that one byte of deflated data can expand to (RFC 1951).
const MAX_DEFLATE_RATIO: u64 = 1_032;

/// Reads the first chunk.
pub(super) fn header(file: &[u8]) -> Option<Header> {
    let mut rest = file.get(8..)?;
    if take(&mut rest, 8)? != b"\0\0\0\x0dIHDR" {
        return None;
    }
    let mut number = || Some(u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?));
    let (width, height) = (number()?, number()?);
    let &[depth, kind, _compression, _filter, interlaced] = take(&mut rest, 5)? else { return None };
    // Channels when decoded, and in the file.
    let (channels, parts) = match kind {
        0 => (2, 1),
        2 => (4, 3),
        3 => (4, 1),
        4 => (4, 2),
        6 => (4, 4),
        _ => return None,
    };
    let pixels = u64::from(width) * u64::from(height);
    let samples = if interlaced == 0 { 0 } else { pixels.saturating_mul(channels) };
    let min_file_bytes = pixels.saturating_mul(parts * u64::from(depth)) / 8 / MAX_DEFLATE_RATIO;
    Some(Header { width, height, samples, decoder_bytes: BASE_BYTES, min_file_bytes })
}

/// Passes every row on, with 8 bits per channel.
pub(super) fn rows(file: &[u8], header: &Header, shrink: &mut Shrink) -> Result<(), NotALogo> {
    let mut options = DecodeOptions::default();
    // None of these is needed, and each can expand to a thousand times its size.
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    let mut read = Cursor::new(file);
    let mut decoder = Decoder::new_with_options(&mut read, options);
    decoder.set_limits(Limits { bytes: usize::try_from(BASE_BYTES).unwrap_or(usize::MAX) });
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|_| NotAnImage)?;
    if reader.info().size() != (header.width, header.height) {
        return Err(NotAnImage);
    }
    let line = reader.output_line_size(header.width).ok_or(TooLarge)?;
    let bits = u8::try_from(line / header.width as usize * 8).map_err(|_| NotAnImage)?;
    let is_interlaced = reader.info().interlaced;
    let mut whole = if is_interlaced { zeros(reader.output_buffer_size().ok_or(TooLarge)?) } else { Vec::new() };
    // Counted, because a request for one more makes the decoder expand all remaining data.
    for _ in 0..if is_interlaced { passes(header) } else { header.height } {
        let row = reader.next_interlaced_row().map_err(|_| NotAnImage)?.ok_or(NotAnImage)?;
        match row.interlace() {
            InterlaceInfo::Null(_) => shrink.row(row.data()),
            InterlaceInfo::Adam7(pass) => png::expand_interlaced_row(&mut whole, line, row.data(), pass, bits),
        }
    }
    whole.chunks_exact(line).for_each(|row| shrink.row(row));
    drop(reader);
    if end_of_data(file).ok_or(NotAnImage)?.saturating_sub(read.position()) > MAX_TRAILING_BYTES {
        return Err(NotAnImage);
    }
    Ok(())
}

/// Rows of all seven passes of an interlaced picture.
fn passes(header: &Header) -> u32 {
    /// First column and row, and distance between rows.
    const PASSES: [(u32, u32, u32); 7] = [(0, 0, 8), (4, 0, 8), (0, 4, 8), (2, 0, 4), (0, 2, 4), (1, 0, 2), (0, 1, 2)];
    let of_pass = |&(column, row, distance): &(u32, u32, u32)| {
        if header.width > column { header.height.saturating_sub(row).div_ceil(distance) } else { 0 }
    };
    PASSES.iter().map(of_pass).sum()
}

/// Where the last chunk of image data ends in the file.
fn end_of_data(file: &[u8]) -> Option<u64> {
    let (mut rest, mut end) = (file.get(8..)?, 0);
    while !rest.is_empty() {
        let length = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?);
        let kind = take(&mut rest, 4)?;
        take(&mut rest, usize::try_from(length).ok()?.checked_add(4)?)?;
        if kind == b"IDAT" {
            end = file.len() - rest.len();
        }
        if kind == b"IEND" {
            break;
        }
    }
    u64::try_from(end).ok()
}
