//! Server-sent events, from chunks of any size (WHATWG HTML, section 9.2.6).

use std::collections::VecDeque;

use crate::error::{Error, Kind, Result};

/// Maximum bytes of a frame: far more than an event has.
const MAX_FRAME: usize = 1024 * 1024;

/// An event's id and data; without data it gives the position in the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    pub(super) id: String,
    pub(super) data: String,
}

/// Splits a stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// An incomplete line.
    line: Vec<u8>,
    /// An incomplete frame.
    open: Frame,
    whole: VecDeque<Frame>,
}

impl Frames {
    /// Takes the next bytes.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.end_line(line.strip_suffix(b"\r").unwrap_or(&line));
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.open.data.len() > MAX_FRAME {
            return Err(Error::from_source(Kind::Decode, "an event is larger than 1 MiB", "too large"));
        }
        Ok(())
    }

    /// The next whole frame.
    pub(super) fn next(&mut self) -> Option<Frame> {
        self.whole.pop_front()
    }

    fn end_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.open);
            if frame != Frame::default() {
                self.whole.push_back(frame);
            }
            return;
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut self.open.id),
            "data" => {
                if !self.open.data.is_empty() {
                    self.open.data.push('\n');
                }
                self.open.data.push_str(value);
            }
            // The kind is in the data as well; comments have no name.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_the_same_however_they_are_cut() {
        let text = ": begin\n\nid: evt_1\nevent: click\ndata: {\"a\":1}\n\n: heartbeat\n\nid: 2\r\ndata:x\r\ndata: y\r\n\r\nid: 3\n\nretry\n";
        let frame = |id: &str, data: &str| Frame { id: id.into(), data: data.into() };
        for size in 1..text.len() {
            let mut frames = Frames::default();
            for piece in text.as_bytes().chunks(size) {
                frames.feed(piece).expect("frames");
            }
            let whole: Vec<Frame> = std::iter::from_fn(|| frames.next()).collect();
            assert_eq!(whole, [frame("evt_1", "{\"a\":1}"), frame("2", "x\ny"), frame("3", "")], "in pieces of {size}");
        }
        assert!(Frames::default().feed(&vec![b'x'; MAX_FRAME + 1]).is_err());
    }
}
