//! JPEG (ITU-T T.81): what a picture will cost, from its markers up to the first scan.

use super::{Header, SOME, take};

/// Size, and memory: the samples as a whole, and, where they come in several scans, every coefficient until the last.
pub(super) fn header(file: &[u8]) -> Option<Header> {
    let mut rest = file.get(2..)?;
    let mut frame: Option<Frame> = None;
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
        match marker {
            0xc0..=0xc2 if frame.is_none() => frame = Some(Frame::read(segment, marker == 0xc2)?),
            // A second frame, or one that is lossless, hierarchical or arithmetic; the rest are tables.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => return None,
            0xda => return frame?.header(*segment.first()?),
            0xd8 | 0xd9 => return None,
            _ => {}
        }
    }
}

struct Frame {
    width: u32,
    height: u32,
    is_progressive: bool,
    /// How often each component is sampled, across and down.
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
        // Rows of blocks on their way from coefficients to samples.
        let rows = u64::from(width) * 8 * down * 4 * 2 * 2;
        Some(Header { width, height, samples, own: coefficients + rows + SOME })
    }
}
