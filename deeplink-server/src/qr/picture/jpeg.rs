//! JPEG (ITU-T T.81): the cost of decoding, from the markers up to the first scan.

use super::{BASE_BYTES, Header, take};

/// Maximum number of scans of an image. The few bytes that begin one can cost a row or, in a progressive image, a whole
/// pass.
const MAX_SCANS: usize = 100;
/// Maximum segments before the first scan: cameras write fewer than a hundred, and a color profile takes at most 255.
const MAX_SEGMENTS: usize = 4_096;

/// Size and memory: all samples, and with several scans every coefficient until the last scan.
pub(super) fn header(file: &[u8]) -> Option<Header> {
    let head = Head::read(file)?;
    head.frame.header(*head.segments.last()?.1.first()?)
}

/// The same image without unneeded segments, so that the decoder sees exactly what was counted: it accepts markers where
/// the standard has none, and skips others.
pub(super) fn plain(file: &[u8]) -> Option<Vec<u8>> {
    let head = Head::read(file)?;
    let mut plain = Vec::with_capacity(file.len());
    plain.extend([0xff, 0xd8]);
    for (marker, segment) in head.segments {
        // The frame, its tables, restarts, Adobe's color transform, the scan.
        if matches!(marker, 0xc0..=0xc2 | 0xc4 | 0xda | 0xdb | 0xdd | 0xee) {
            plain.extend([0xff, marker]);
            plain.extend(u16::try_from(segment.len() + 2).ok()?.to_be_bytes());
            plain.extend(segment);
        }
    }
    plain.extend(head.rest);
    Some(plain)
}

/// Everything before the data of the first scan.
struct Head<'a> {
    /// Markers with their segments; the last one starts the scan.
    segments: Vec<(u8, &'a [u8])>,
    frame: Frame,
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(file: &'a [u8]) -> Option<Self> {
        let mut rest = file.get(2..)?;
        let (mut segments, mut frame) = (Vec::new(), None);
        loop {
            if take(&mut rest, 1)? != [0xff] {
                return None;
            }
            let mut marker = take(&mut rest, 1)?[0];
            // Fill bytes (B.1.1.2).
            while marker == 0xff {
                marker = take(&mut rest, 1)?[0];
            }
            // Markers without a segment.
            if matches!(marker, 0x01 | 0xd0..=0xd7) {
                continue;
            }
            let length = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
            let segment = take(&mut rest, usize::from(length).checked_sub(2)?)?;
            if segments.len() == MAX_SEGMENTS {
                return None;
            }
            segments.push((marker, segment));
            match marker {
                0xc0..=0xc2 if frame.is_none() => frame = Some(Frame::read(segment, marker == 0xc2)?),
                // A second frame, or one that is lossless, hierarchical or arithmetic; the rest are tables.
                0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => return None,
                0xda if scans_in(rest) < MAX_SCANS => return Some(Self { segments, frame: frame?, rest }),
                // Too many scans, no image, or a second one.
                0xd8..=0xda => return None,
                _ => {}
            }
        }
    }
}

/// How many scans begin here. The marker cannot occur in their data, but can in a table.
fn scans_in(rest: &[u8]) -> usize {
    rest.windows(2).filter(|two| *two == [0xff, 0xda]).count()
}

struct Frame {
    width: u32,
    height: u32,
    is_progressive: bool,
    /// Sampling factors of each component, across and down.
    sampling: Vec<(u64, u64)>,
}

impl Frame {
    /// The segment that begins a frame (B.2.2).
    fn read(segment: &[u8], is_progressive: bool) -> Option<Self> {
        let (&[8, h1, h2, w1, w2, count], components) = segment.split_first_chunk::<6>()? else { return None };
        let count = usize::from(count);
        if !matches!(count, 1 | 3 | 4) || components.len() != count * 3 {
            return None;
        }
        let sampling = components.chunks_exact(3).map(|component| (component[1] >> 4, component[1] & 15));
        let sampling: Vec<_> = sampling.map(|(across, down)| (u64::from(across), u64::from(down))).collect();
        let fits = sampling.iter().all(|(across, down)| (1..=4).contains(across) && (1..=4).contains(down));
        let (width, height) = (u16::from_be_bytes([w1, w2]).into(), u16::from_be_bytes([h1, h2]).into());
        fits.then_some(Self { width, height, is_progressive, sampling })
    }

    fn header(&self, components_of_scan: u8) -> Option<Header> {
        let (width, height) = (self.width, self.height);
        let across = self.sampling.iter().map(|(across, _)| *across).max()?;
        let down = self.sampling.iter().map(|(_, down)| *down).max()?;
        let units = u64::from(width).div_ceil(8 * across) * u64::from(height).div_ceil(8 * down);
        let blocks: u64 = self.sampling.iter().map(|(across, down)| units * across * down).sum();
        let is_in_scans = self.is_progressive || usize::from(components_of_scan) < self.sampling.len();
        let coefficients = if is_in_scans { blocks * 64 * 2 } else { 0 };
        let channels = if self.sampling.len() == 1 { 1 } else { 3 };
        let samples = u64::from(width) * u64::from(height) * channels;
        let rows = self.rows(across, down);
        // One bit per two blocks of 8 × 8 pixels: each coded block takes at least a bit, and there are half as many if
        // no component has all columns and rows.
        let min_file_bytes = u64::from(width) * u64::from(height) / 1_024;
        Some(Header { width, height, samples, decoder_bytes: coefficients + rows + BASE_BYTES, min_file_bytes })
    }

    /// Bytes to convert one row of blocks of each component from coefficients to samples. A component before one that
    /// is sampled more often across gets the width that it would have without that one.
    fn rows(&self, across: u64, down: u64) -> u64 {
        let (width, mut so_far, mut bytes) = (u64::from(self.width), 1, 0);
        for &(h, v) in &self.sampling {
            so_far = so_far.max(h);
            let stride = width.div_ceil(8 * so_far) * 8 * h;
            let enlarged = (across / h) * (down / v);
            let stretched = if h < across { 2 * v } else { 0 };
            // Eight lines; the same enlarged, with spare room, or stretched; the last line enlarged; two more lines.
            bytes += stride * (8 * v + 8 * (2 * enlarged).max(stretched) + v * enlarged + 2 * v) * 2;
        }
        bytes + width * 8 * 2
    }
}
