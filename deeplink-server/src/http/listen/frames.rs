//! Detects incomplete request heads on an HTTP/2 connection.
//!
//! The protocol library limits the size and number of a head's frames, but not its time. This scan parses only the nine-byte
//! frame headers.

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const FRAME_HEADER: usize = 9;
/// Bytes of the preface after the part that looks like a request head: `SM` and two line ends.
const PREFACE_REST: usize = 6;

#[derive(Debug)]
pub(super) struct FrameScan {
    header: [u8; FRAME_HEADER],
    header_len: usize,
    payload_left: usize,
    /// The current payload belongs to a head.
    of_head: bool,
    /// A head has begun, and its last frame has not.
    open_head: bool,
}

impl FrameScan {
    /// Starts after the part of the preface that looks like an HTTP/1 request head.
    pub(super) const fn new() -> Self {
        Self { header: [0; FRAME_HEADER], header_len: 0, payload_left: PREFACE_REST, of_head: false, open_head: false }
    }

    /// Scans the next bytes.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let taken = self.payload_left.min(bytes.len());
                self.payload_left -= taken;
                bytes = &bytes[taken..];
                continue;
            }
            let taken = (FRAME_HEADER - self.header_len).min(bytes.len());
            self.header[self.header_len..self.header_len + taken].copy_from_slice(&bytes[..taken]);
            self.header_len += taken;
            bytes = &bytes[taken..];
            if self.header_len == FRAME_HEADER {
                self.header_len = 0;
                self.frame();
            }
        }
    }

    /// Whether a head has begun and not ended.
    pub(super) fn in_head(&self) -> bool {
        self.open_head || self.header_len > 0 || self.of_head && self.payload_left > 0
    }

    /// Whether a frame with the beginning of a head has arrived, and the rest has not.
    pub(super) fn has_open_head(&self) -> bool {
        self.open_head && self.payload_left == 0
    }

    /// Whether a frame has begun and not ended.
    pub(super) fn in_frame(&self) -> bool {
        self.header_len > 0 || self.payload_left > 0
    }

    fn frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.payload_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.of_head = matches!(kind, HEADERS | CONTINUATION);
        if self.of_head {
            self.open_head = flags & END_HEADERS == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = u8::try_from(payload.len()).unwrap();
        [&[0, 0, len, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// The result does not depend on how the bytes are split into reads.
    #[test]
    fn incomplete_heads_are_detected_at_every_split() {
        let bytes = [
            b"SM\r\n\r\n".to_vec(),
            frame(4, 0, b""),
            frame(HEADERS, 0, b"abc"),
            frame(CONTINUATION, 0, b""),
            frame(CONTINUATION, END_HEADERS, b"d"),
            frame(0, 1, b"body"),
        ];
        let ends: Vec<usize> = bytes
            .iter()
            .scan(0, |end, part| {
                *end += part.len();
                Some(*end)
            })
            .collect();
        let (preface, settings, last) = (ends[0], ends[1], ends[4]);
        let all = bytes.concat();
        for size in 1..all.len() {
            let mut scan = FrameScan::new();
            let mut seen = 0;
            for piece in all.chunks(size) {
                scan.feed(piece);
                seen += piece.len();
                let between_frames = seen <= preface || seen == settings || seen >= last + FRAME_HEADER || seen == last;
                assert_eq!(scan.in_head(), !between_frames, "after {seen} bytes in pieces of {size}");
            }
        }
    }
}
