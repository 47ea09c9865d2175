//! Finds JSON values in a stream without holding more than one of them, with the position of each.

use std::io::{self, Read};

use super::input::Reader;
use super::records::{MAX_RECORD, not_utf8};
use crate::bulk::SourceError;

const READ: usize = 64 * 1024;

/// Scans JSON byte by byte.
pub(super) struct Scanner {
    input: Reader,
    buffer: Vec<u8>,
    next: usize,
    end: usize,
    /// Where `next` is in the file.
    pub(super) position: Position,
}

/// A position in a file: byte from 0, line and column from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) at: u64,
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Position {
    pub(super) const START: Self = Self { at: 0, line: 1, column: 1 };

    pub(super) fn wrong(self, message: impl Into<String>) -> SourceError {
        SourceError::new(message).at(self.line, Some(self.column))
    }

    fn step(&mut self, byte: u8) {
        self.at += 1;
        if byte == b'\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else if byte & 0xc0 != 0x80 {
            self.column += 1;
        }
    }
}

/// The text of a value and its position; no text if it is too long.
pub(super) struct Scanned {
    pub(super) text: Option<String>,
    pub(super) position: Position,
}

impl Scanner {
    pub(super) fn new(input: Reader, position: Position) -> Self {
        Self { input, buffer: vec![0; READ], next: 0, end: 0, position }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        while self.next == self.end {
            self.next = 0;
            self.end = match self.input.read(&mut self.buffer) {
                Ok(0) => {
                    self.end = 0;
                    return Ok(None);
                }
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
            };
        }
        Ok(Some(self.buffer[self.next]))
    }

    fn bump(&mut self, byte: u8) {
        self.next += 1;
        self.position.step(byte);
    }

    /// Skips a byte order mark at the very beginning.
    pub(super) fn skip_mark(&mut self) -> io::Result<()> {
        self.peek()?;
        if self.buffer[self.next..self.end].starts_with(&[0xef, 0xbb, 0xbf]) {
            self.next += 3;
            self.position.at += 3;
        }
        Ok(())
    }

    /// The next byte that is not whitespace.
    pub(super) fn token(&mut self) -> io::Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(Some(byte));
            }
            self.bump(byte);
        }
        Ok(None)
    }

    /// Takes the next byte that is not whitespace, if it is this one.
    pub(super) fn take(&mut self, wanted: u8) -> io::Result<bool> {
        let is_there = self.token()? == Some(wanted);
        if is_there {
            self.bump(wanted);
        }
        Ok(is_there)
    }

    /// Takes it, or fails and names what was found instead.
    pub(super) fn expect(&mut self, wanted: u8, what: &str) -> Result<(), SourceError> {
        if self.take(wanted)? { Ok(()) } else { Err(self.unexpected(what)) }
    }

    pub(super) fn unexpected(&mut self, expected: &str) -> SourceError {
        match self.peek() {
            Ok(None) => self.position.wrong(format!("expected {expected}, but the input ends here")),
            Ok(Some(byte)) => {
                let found = char::from(byte).escape_debug();
                self.position.wrong(format!("expected {expected}, not '{found}'"))
            }
            Err(error) => error.into(),
        }
    }

    /// Takes the next value. A parser checks later whether it is well-formed.
    pub(super) fn value(&mut self) -> Result<Scanned, SourceError> {
        self.scan(true)
    }

    /// Skips the next value, however long.
    pub(super) fn skip(&mut self) -> Result<Position, SourceError> {
        self.scan(false).map(|found| found.position)
    }

    fn scan(&mut self, keep: bool) -> Result<Scanned, SourceError> {
        if matches!(self.token()?, None | Some(b',' | b':' | b']' | b'}')) {
            return Err(self.unexpected("a value"));
        }
        let start = self.position;
        let mut bytes = Vec::new();
        let (mut depth, mut inside, mut escaped) = (0_u32, false, false);
        loop {
            let Some(byte) = self.peek()? else {
                if depth > 0 || inside {
                    return Err(self.position.wrong(format!(
                        "the input ends inside the value that begins on line {}, column {}",
                        start.line, start.column
                    )));
                }
                break;
            };
            let is_end =
                !inside && depth == 0 && matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\n' | b'\r');
            if is_end {
                break;
            }
            self.bump(byte);
            if keep && bytes.len() <= MAX_RECORD {
                bytes.push(byte);
            }
            if inside {
                inside = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
                if !inside && depth == 0 {
                    break;
                }
                continue;
            }
            match byte {
                b'"' => inside = true,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        if bytes.len() > MAX_RECORD {
            return Ok(Scanned { text: None, position: start });
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Scanned { text: Some(text), position: start }),
            Err(wrong) => {
                let mut position = start;
                wrong.as_bytes()[..wrong.utf8_error().valid_up_to()].iter().for_each(|byte| position.step(*byte));
                Err(not_utf8(position.line, position.column))
            }
        }
    }
}
