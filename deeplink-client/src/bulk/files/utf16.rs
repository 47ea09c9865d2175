//! UTF-16, as Excel's "Unicode text" and some exports have it: recognized by its byte order mark, and read as UTF-8.

use std::io::{self, BufReader, Read};

use super::input::{Input, Reader};
use crate::bulk::SourceError;

/// The input in UTF-8 if it begins with the byte order mark of UTF-16, else as it is.
pub(super) fn decoded(input: Input) -> Result<Input, SourceError> {
    let (is_big, is_marked) = match input.head(4)?.as_slice() {
        // A ZIP file, as Excel's and OpenDocument's workbooks are.
        b"PK\x03\x04" => {
            return Err(SourceError::new("the input is an Excel workbook or another ZIP file; save it as CSV"));
        }
        [0xff, 0xfe, 0, 0] | [0, 0, 0xfe, 0xff] => {
            let message = "the input is UTF-32; save it as UTF-8 (try `iconv -f UTF-32 -t UTF-8`)";
            return Err(SourceError::new(message));
        }
        [0xff, 0xfe, ..] => (false, true),
        [0xfe, 0xff, ..] => (true, true),
        // Latin text has a zero in every second byte.
        [first, 0, second, 0] if *first != 0 && *second != 0 => (false, false),
        [0, first, 0, second] if *first != 0 && *second != 0 => (true, false),
        _ => return Ok(input),
    };
    if !is_marked {
        let order = if is_big { "BE" } else { "LE" };
        return Err(SourceError::new(format!(
            "the input is UTF-16 without a byte order mark; save it as UTF-8 (try `iconv -f UTF-16{order} -t UTF-8`)"
        )));
    }
    let input = BufReader::new(input.from(2));
    Ok(Input::spool(Utf16 { input, is_big, units: 0, ready: Vec::new(), taken: 0 })?)
}

/// Decoded bytes that are made at a time.
const READY: usize = 8 * 1024;

struct Utf16 {
    input: BufReader<Reader>,
    is_big: bool,
    /// How many were read, for messages.
    units: u64,
    ready: Vec<u8>,
    taken: usize,
}

impl Utf16 {
    fn unit(&mut self) -> io::Result<Option<u16>> {
        let (mut pair, mut read) = ([0; 2], 0);
        while read < 2 {
            match self.input.read(&mut pair[read..])? {
                0 if read == 0 => return Ok(None),
                0 => return Err(self.broken()),
                more => read += more,
            }
        }
        self.units += 1;
        Ok(Some(if self.is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }))
    }

    fn char(&mut self) -> io::Result<Option<char>> {
        let Some(unit) = self.unit()? else { return Ok(None) };
        if let Some(char) = char::from_u32(u32::from(unit)) {
            return Ok(Some(char));
        }
        let second = self.unit()?.ok_or_else(|| self.broken())?;
        match char::decode_utf16([unit, second]).next() {
            Some(Ok(char)) => Ok(Some(char)),
            _ => Err(self.broken()),
        }
    }

    fn broken(&self) -> io::Error {
        let message = format!("invalid UTF-16 near byte {}; save the input as UTF-8", (self.units + 1) * 2);
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}

impl Read for Utf16 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ready.len() {
            (self.taken, self.ready) = (0, Vec::with_capacity(READY));
            while self.ready.len() + 4 <= READY
                && let Some(char) = self.char()?
            {
                self.ready.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        let count = buffer.len().min(self.ready.len() - self.taken);
        buffer[..count].copy_from_slice(&self.ready[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
