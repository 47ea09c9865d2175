//! Where one HTTP/1 request ends and the next begins, read from the raw bytes.
//!
//! hyper parses the requests. This scan runs beside it for what the parsed form no longer shows: a repeated
//! `Content-Length` and a `Content-Length` beside `Transfer-Encoding` are silently merged there, and whether half
//! a head lies in the parser's buffer cannot be asked. It never decides what a request means; where the two could
//! disagree the parser refuses the request, or the connection ends with the answer.

use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, Method};

/// Longest line kept when it is split over two reads; only `Content-Length` lines need their end.
const KEPT: usize = 64;

/// Follows the bytes of one connection. Costs one pass over a head and nothing over a body or a plain `GET`.
#[derive(Debug)]
pub(super) struct HeadScan {
    place: Place,
    /// The beginning of a line whose end has not arrived.
    kept: [u8; KEPT],
    kept_len: usize,
    /// Length of the split line; more than `KEPT` when it was cut.
    line_len: usize,
    length: Length,
    chunked: bool,
    first: bool,
    trust: Trust,
    http2: bool,
}

/// What the scan can say of the requests with a body that have been read and not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Their lengths are beyond doubt.
    Sure = 0,
    /// They have not been looked at: answer them, and then read nothing more.
    Unread = 1,
    /// The length of one is ambiguous. Nothing behind it is read.
    Doubtful = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before a request line.
    Boundary,
    /// After a request line, before the empty line.
    Head,
    /// In a body with this many bytes to come.
    Body(u64),
    /// Nothing that follows is another HTTP/1 request of ours.
    Beyond,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Absent,
    Once(u64),
    /// Repeated: even equal values are refused, since a proxy may have read the other one.
    Twice,
}

impl HeadScan {
    pub(super) const fn new() -> Self {
        Self {
            place: Place::Boundary,
            kept: [0; KEPT],
            kept_len: 0,
            line_len: 0,
            length: Length::Absent,
            chunked: false,
            first: true,
            trust: Trust::Sure,
            http2: false,
        }
    }

    /// Takes the next bytes as they arrived and returns those it has no use for.
    pub(super) fn feed<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        if self.place == Place::Boundary && self.line_len == 0 {
            // The visits this service lives on: one read, one whole head, no body. Should there be a body after all,
            // or more requests in between, the first one that has a body ends the connection.
            if (bytes.starts_with(b"GET ") || bytes.starts_with(b"HEAD ")) && bytes.ends_with(b"\r\n\r\n") {
                self.trust = Trust::Unread;
                return &[];
            }
            self.trust = Trust::Sure;
        }
        while !bytes.is_empty() {
            match self.place {
                Place::Beyond => return bytes,
                Place::Body(left) => {
                    let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    bytes = &bytes[taken..];
                    let left = left - taken as u64;
                    self.place = if left == 0 { Place::Boundary } else { Place::Body(left) };
                }
                Place::Boundary | Place::Head => match line_end(bytes) {
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
                            let cut = self.line_len > KEPT;
                            (self.kept_len, self.line_len) = (0, 0);
                            self.line(&kept[..len]);
                            // A `Content-Length` spread over more than this is nobody's honest request.
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
        self.place == Place::Head || self.line_len > 0
    }

    /// Whether the last byte seen ended a request.
    pub(super) fn at_boundary(&self) -> bool {
        self.place == Place::Boundary && self.line_len == 0
    }

    pub(super) fn trust(&self) -> Trust {
        self.trust
    }

    /// Whether the connection began with the preface of HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.http2
    }

    fn keep(&mut self, part: &[u8]) {
        let room = part.len().min(KEPT - self.kept_len);
        self.kept[self.kept_len..self.kept_len + room].copy_from_slice(&part[..room]);
        self.kept_len += room;
        self.line_len += part.len();
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match (self.place, line) {
            // Empty lines before a request line are skipped, as the parser does.
            (Place::Boundary, b"") => {}
            (Place::Boundary, _) => {
                self.http2 = self.first && line == b"PRI * HTTP/2.0";
                self.place = Place::Head;
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
        let doubtful = self.length == Length::Twice || self.chunked && self.length != Length::Absent;
        if doubtful {
            self.trust = Trust::Doubtful;
        }
        self.place = match self.length {
            // A chunked request is always the last one of its connection, so its end is not needed.
            _ if doubtful || self.chunked || self.http2 => Place::Beyond,
            Length::Once(length) if length > 0 => Place::Body(length),
            _ => Place::Boundary,
        };
    }
}

/// What the `Transfer-Encoding` of a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    None,
    /// `chunked`, and nothing else.
    Chunked,
    /// Others would reach a handler undecoded, and codings in a row are how two readers come to differ.
    Other,
}

/// Reads `Transfer-Encoding`.
pub(super) fn coding(headers: &HeaderMap) -> Coding {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Coding::None,
        (Some(line), None) if line.as_bytes().eq_ignore_ascii_case(b"chunked") => Coding::Chunked,
        (Some(_), _) => Coding::Other,
    }
}

/// Methods that no route may ever serve: TRACE echoes what a proxy added (cookies, addresses), CONNECT asks for a
/// tunnel. Routers answer them like any other wrong method.
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

/// The next line feed, looked for in eight bytes at once: this runs over every head that is not a plain `GET`.
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

    /// What is left open after some bytes, however they are cut.
    #[test]
    fn half_heads_and_bodies_are_told_apart() {
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

    /// Two lengths, or a length beside a coding, are doubtful wherever the reads were cut.
    #[test]
    fn ambiguous_lengths_are_seen_at_every_cut() {
        let cases: [(&str, Trust); 9] = [
            ("Content-Length: 3\r\n", Trust::Sure),
            ("Content-Length: 3\r\nContent-Length: 3\r\n", Trust::Doubtful),
            ("content-length: 3\r\nX: y\r\nCONTENT-LENGTH: 4\r\n", Trust::Doubtful),
            ("Content-Length: 3, 3\r\n", Trust::Doubtful),
            ("Content-Length: +3\r\n", Trust::Doubtful),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", Trust::Doubtful),
            ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", Trust::Doubtful),
            ("X-Content-Length: 3\r\nContent-Lengths: 4\r\n", Trust::Sure),
            ("Content-Length:                                                                    3\r\n", Trust::Sure),
        ];
        for (fields, trust) in cases {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n");
            for size in 1..=head.len() {
                let scan = scanned(head.as_bytes(), size);
                let cut_short = fields.len() > KEPT && size < head.len();
                assert!(scan.trust() == trust || cut_short && scan.trust() == Trust::Doubtful, "{fields:?} by {size}");
            }
        }
    }

    /// A plain GET is not read, so a body that it nevertheless has is not trusted; the next read starts afresh.
    #[test]
    fn what_was_not_read_is_not_trusted() {
        let mut scan = HeadScan::new();
        scan.feed(b"GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n");
        assert_eq!(scan.trust(), Trust::Unread);
        scan.feed(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(scan.trust(), Trust::Sure);
    }

    #[test]
    fn the_preface_of_http2_is_known_as_the_first_thing_only() {
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
        fn line_ends_are_found_like_the_plain_search_does(bytes in proptest::collection::vec(8_u8..14, 0..80)) {
            prop_assert_eq!(line_end(&bytes), bytes.iter().position(|byte| *byte == b'\n'));
        }
    }
}
