//! Finds the boundaries of HTTP/1 requests in the raw bytes.
//!
//! hyper parses the requests. This scan detects what the parsed form does not show: hyper silently merges repeated
//! `Content-Length` headers and accepts `Content-Length` beside `Transfer-Encoding`, and it does not tell whether its buffer
//! contains an incomplete head. The scan never interprets requests; where the two could disagree, the parser refuses the
//! request or the connection ends after the response.

use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, Method};

/// Bytes kept of a line that is split over reads; only `Content-Length` lines are needed in full.
const MAX_KEPT_LINE: usize = 64;

/// Scans the bytes of one connection: heads once, bodies and plain `GET` requests not at all.
#[derive(Debug)]
pub(super) struct HeadScan {
    state: State,
    /// The beginning of an incomplete line.
    kept: [u8; MAX_KEPT_LINE],
    kept_len: usize,
    /// Length of the split line; more than `MAX_KEPT_LINE` if it was truncated.
    line_len: usize,
    length: Length,
    chunked: bool,
    first: bool,
    framing: Framing,
    http2: bool,
}

/// How reliable the lengths of the unanswered requests with a body are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Their lengths are unambiguous.
    Valid = 0,
    /// They were not scanned: respond, then read nothing more.
    Unscanned = 1,
    /// The length of one is ambiguous. Nothing after it is read.
    Ambiguous = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a request line.
    Boundary,
    /// After a request line, before the empty line.
    Head,
    /// In a body with this many bytes to come.
    Body(u64),
    /// No further HTTP/1 request follows.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Absent,
    Once(u64),
    /// Repeated: refused even if equal, because a proxy may have used the other one.
    Twice,
}

impl HeadScan {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Boundary,
            kept: [0; MAX_KEPT_LINE],
            kept_len: 0,
            line_len: 0,
            length: Length::Absent,
            chunked: false,
            first: true,
            framing: Framing::Valid,
            http2: false,
        }
    }

    /// Scans the next bytes and returns those it does not need.
    pub(super) fn feed<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        if self.state == State::Boundary && self.line_len == 0 {
            // The common case, a tap: one read, one complete head, no body. If there are more requests or a body after
            // all, the first request with a body ends the connection.
            if (bytes.starts_with(b"GET ") || bytes.starts_with(b"HEAD ")) && bytes.ends_with(b"\r\n\r\n") {
                self.framing = Framing::Unscanned;
                return &[];
            }
            self.framing = Framing::Valid;
        }
        while !bytes.is_empty() {
            match self.state {
                State::End => return bytes,
                State::Body(left) => {
                    let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    bytes = &bytes[taken..];
                    let left = left - taken as u64;
                    self.state = if left == 0 { State::Boundary } else { State::Body(left) };
                }
                State::Boundary | State::Head => match line_end(bytes) {
                    None => {
                        self.keep(bytes);
                        return &[];
                    }
                    Some(end) => {
                        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
                        if self.line_len == 0 {
                            self.line(line);
                        } else {
                            self.keep(line);
                            let (kept, len) = (self.kept, self.kept_len);
                            let cut = self.line_len > MAX_KEPT_LINE;
                            (self.kept_len, self.line_len) = (0, 0);
                            self.line(&kept[..len]);
                            // No legitimate `Content-Length` line is longer.
                            if cut && matches!(self.length, Length::Once(_)) && is_named(&kept, b"content-length") {
                                self.length = Length::Twice;
                            }
                        }
                        bytes = rest;
                    }
                },
            }
        }
        &[]
    }

    /// Whether a head has begun and not ended.
    pub(super) fn in_head(&self) -> bool {
        self.state == State::Head || self.line_len > 0
    }

    /// Whether the last byte seen ended a request.
    pub(super) fn at_boundary(&self) -> bool {
        self.state == State::Boundary && self.line_len == 0
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether the connection began with the preface of HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.http2
    }

    fn keep(&mut self, part: &[u8]) {
        let room = part.len().min(MAX_KEPT_LINE - self.kept_len);
        self.kept[self.kept_len..self.kept_len + room].copy_from_slice(&part[..room]);
        self.kept_len += room;
        self.line_len += part.len();
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match (self.state, line) {
            // Empty lines before a request line are skipped, as the parser does.
            (State::Boundary, b"") => {}
            (State::Boundary, _) => {
                self.http2 = self.first && line == b"PRI * HTTP/2.0";
                self.state = State::Head;
                self.length = Length::Absent;
                self.chunked = false;
            }
            (_, b"") => self.end_of_head(),
            (_, _) => self.field(line),
        }
    }

    fn field(&mut self, line: &[u8]) {
        match line[0] | 0x20 {
            b'c' if is_named(line, b"content-length") => {
                self.length = match (self.length, digits(&line[b"content-length:".len()..])) {
                    (Length::Absent, Some(length)) => Length::Once(length),
                    _ => Length::Twice,
                };
            }
            b't' if is_named(line, b"transfer-encoding") => self.chunked = true,
            _ => {}
        }
    }

    fn end_of_head(&mut self) {
        self.first = false;
        let ambiguous = self.length == Length::Twice || self.chunked && self.length != Length::Absent;
        if ambiguous {
            self.framing = Framing::Ambiguous;
        }
        self.state = match self.length {
            // A chunked request always ends its connection, so its end is not needed.
            _ if ambiguous || self.chunked || self.http2 => State::End,
            Length::Once(length) if length > 0 => State::Body(length),
            _ => State::Boundary,
        };
    }
}

/// The `Transfer-Encoding` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    None,
    /// `chunked`, and nothing else.
    Chunked,
    /// Refused: other codings are not decoded, and lists of codings enable request smuggling.
    Other,
}

/// Parses `Transfer-Encoding`.
pub(super) fn coding(headers: &HeaderMap) -> Coding {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Coding::None,
        (Some(line), None) if line.as_bytes().eq_ignore_ascii_case(b"chunked") => Coding::Chunked,
        (Some(_), _) => Coding::Other,
    }
}

/// Methods that no route may serve: TRACE echoes headers that a proxy added, CONNECT requests a tunnel. Routers respond as to
/// any other wrong method.
pub fn is_refused_method(method: &Method) -> bool {
    matches!(*method, Method::TRACE | Method::CONNECT)
}

fn is_named(line: &[u8], name: &[u8]) -> bool {
    line.len() > name.len() && line[name.len()] == b':' && line[..name.len()].eq_ignore_ascii_case(name)
}

fn digits(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(value).ok()?.parse().ok()
}

/// The next line feed, searched eight bytes at a time: this scans every head that is not a plain `GET`.
fn line_end(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // A zero byte is where the line feed is; the lowest bit set marks the first.
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'\n'));
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(index * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| *byte == b'\n').map(|at| words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scanned(bytes: &[u8], size: usize) -> HeadScan {
        let mut scan = HeadScan::new();
        for piece in bytes.chunks(size) {
            scan.feed(piece);
        }
        scan
    }

    /// The state after some bytes, however they are split into reads.
    #[test]
    fn incomplete_heads_and_bodies_are_distinguished() {
        let cases: [(&str, bool, bool); 10] = [
            ("", false, true),
            ("\r\n", false, true),
            ("G", true, false),
            ("GET / HTTP/1.1\r\nHost: a\r\n", true, false),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, true),
            ("GET / HTTP/1.1\nHost: a\n\n", false, true),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", false, false),
            ("POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", false, true),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HT", true, false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HT", false, false),
        ];
        for (bytes, in_head, at_boundary) in cases {
            for size in 1..=bytes.len().max(1) {
                let scan = scanned(bytes.as_bytes(), size);
                assert_eq!((scan.in_head(), scan.at_boundary()), (in_head, at_boundary), "{bytes:?} by {size}");
            }
        }
    }

    /// Two lengths, or a length beside a coding, are ambiguous wherever the reads are split.
    #[test]
    fn ambiguous_lengths_are_detected_at_every_split() {
        let cases: [(&str, Framing); 9] = [
            ("Content-Length: 3\r\n", Framing::Valid),
            ("Content-Length: 3\r\nContent-Length: 3\r\n", Framing::Ambiguous),
            ("content-length: 3\r\nX: y\r\nCONTENT-LENGTH: 4\r\n", Framing::Ambiguous),
            ("Content-Length: 3, 3\r\n", Framing::Ambiguous),
            ("Content-Length: +3\r\n", Framing::Ambiguous),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", Framing::Ambiguous),
            ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", Framing::Ambiguous),
            ("X-Content-Length: 3\r\nContent-Lengths: 4\r\n", Framing::Valid),
            (
                "Content-Length:                                                                    3\r\n",
                Framing::Valid,
            ),
        ];
        for (fields, framing) in cases {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n");
            for size in 1..=head.len() {
                let scan = scanned(head.as_bytes(), size);
                let cut_short = fields.len() > MAX_KEPT_LINE && size < head.len();
                assert!(
                    scan.framing() == framing || cut_short && scan.framing() == Framing::Ambiguous,
                    "{fields:?} by {size}"
                );
            }
        }
    }

    /// A plain GET is not scanned, so a body that it has after all is not trusted; the next read starts over.
    #[test]
    fn requests_that_are_not_scanned_are_not_trusted() {
        let mut scan = HeadScan::new();
        scan.feed(b"GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n");
        assert_eq!(scan.framing(), Framing::Unscanned);
        scan.feed(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(scan.framing(), Framing::Valid);
    }

    #[test]
    fn the_http2_preface_is_recognized_only_at_the_start() {
        let mut scan = HeadScan::new();
        assert_eq!(scan.feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n...."), b"SM\r\n\r\n....");
        assert!(scan.is_http2());
        let mut scan = HeadScan::new();
        scan.feed(b"POST / HTTP/1.1\r\n\r\n");
        scan.feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert!(!scan.is_http2());
    }

    proptest! {
        #[test]
        fn line_end_agrees_with_a_linear_search(bytes in proptest::collection::vec(8_u8..14, 0..80)) {
            prop_assert_eq!(line_end(&bytes), bytes.iter().position(|byte| *byte == b'\n'));
        }
    }
}
