//! The format of a journal segment: a header, then records, each with its length and a checksum. A record is either
//! valid as a whole or ignored, so a partial write adds nothing.
//!
//! ```text
//! header  "DLCLICK4", number of the segment (8)
//! record  length of the body (2), body, CRC-32 of both (4)
//! body    "T", hash (16), text
//!         "K", the same: a text that is stored as "other" unless it is already in the database
//!         "C", link (8), time (8), kind (1), platform (1), user agent (4), referer (4), code of the user agent (4),
//!         country (2)
//! ```
//! Integers are little-endian. A click names a text by its number: texts are numbered from 1 in the order of their
//! records, and 0 means none. In "DLCLICK3" clicks have no country, and in "DLCLICK2" no
//! code of a user agent either.

use crate::db::clicks::Hash;

/// The format, and earlier ones that can still be read.
const MAGIC: [u8; 8] = *b"DLCLICK4";
const EARLIER: [[u8; 8]; 2] = [*b"DLCLICK3", *b"DLCLICK2"];
/// Bytes of the header, and as an offset.
pub(super) const HEADER_BYTES: usize = 16;
pub(super) const HEADER: u64 = HEADER_BYTES as u64;
const TEXT: u8 = b'T';
const KNOWN_TEXT: u8 = b'K';
const CLICK: u8 = b'C';
const LENGTH: usize = 2;
const CHECKSUM: usize = 4;

/// The record of a click.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClickRecord {
    /// `links.position`.
    pub(super) link: i64,
    /// Unix milliseconds.
    pub(super) at: i64,
    pub(super) kind: u8,
    pub(super) platform: u8,
    pub(super) agent_code: u32,
    /// [`Country::code`](deeplink_core::visitor::Country::code).
    pub(super) country: u16,
    /// Number of the user agent's text in the segment; 0 if there was no such header.
    pub(super) agent: u32,
    /// The same of the referer.
    pub(super) referer: u32,
}

/// The record of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextRecord<'a> {
    pub(super) hash: Hash,
    pub(super) text: &'a str,
    /// Stored as `other` unless it is already in the database.
    pub(super) is_beyond: bool,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Text(TextRecord<'a>),
    Click(ClickRecord),
}

/// The header of a segment.
pub(super) fn header(segment: i64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..].copy_from_slice(&segment.to_le_bytes());
    header
}

/// The number in a header; `None` if it is not the header of a segment.
pub(super) fn segment_of(header: &[u8]) -> Option<i64> {
    let (magic, rest) = header.split_first_chunk()?;
    (*magic == MAGIC || EARLIER.contains(magic)).then(|| rest.first_chunk().copied().map(i64::from_le_bytes)).flatten()
}

/// Whether these bytes are an incomplete header, left by a process that died while it began a segment.
pub(super) fn begins_header(start: &[u8]) -> bool {
    let magics = EARLIER.iter().chain([&MAGIC]);
    magics.into_iter().any(|magic| start.iter().zip(magic).all(|(found, expected)| found == expected))
}

/// Appends the record of a text.
pub(super) fn put_text(into: &mut Vec<u8>, text: &TextRecord<'_>) {
    // 512 characters are at most 2,048 bytes.
    put(into, |body| {
        body.push(if text.is_beyond { KNOWN_TEXT } else { TEXT });
        body.extend_from_slice(&text.hash);
        body.extend_from_slice(text.text.as_bytes());
    });
}

/// Appends the record of a click.
pub(super) fn put_click(into: &mut Vec<u8>, click: &ClickRecord) {
    put(into, |body| {
        body.push(CLICK);
        body.extend_from_slice(&click.link.to_le_bytes());
        body.extend_from_slice(&click.at.to_le_bytes());
        body.extend_from_slice(&[click.kind, click.platform]);
        body.extend_from_slice(&click.agent.to_le_bytes());
        body.extend_from_slice(&click.referer.to_le_bytes());
        body.extend_from_slice(&click.agent_code.to_le_bytes());
        body.extend_from_slice(&click.country.to_le_bytes());
    });
}

fn put(into: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend_from_slice(&[0; LENGTH]);
    body(into);
    let length = u16::try_from(into.len() - start - LENGTH).unwrap_or(u16::MAX);
    into[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(&into[start..]);
    into.extend_from_slice(&checksum.to_le_bytes());
}

/// Takes the first record of some bytes. `None` if no complete record begins there.
pub(super) fn take<'a>(from: &mut &'a [u8]) -> Option<Record<'a>> {
    let length = usize::from(u16::from_le_bytes(*from.first_chunk()?));
    let (checked, rest) = from.split_at_checked(LENGTH + length)?;
    let (checksum, rest) = rest.split_first_chunk::<CHECKSUM>()?;
    if crc32fast::hash(checked) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (kind, body) = checked[LENGTH..].split_first()?;
    let record = match *kind {
        TEXT | KNOWN_TEXT => {
            let (hash, text) = body.split_first_chunk()?;
            let (text, is_beyond) = (std::str::from_utf8(text).ok()?, *kind == KNOWN_TEXT);
            Record::Text(TextRecord { hash: *hash, text, is_beyond })
        }
        CLICK => Record::Click(click(body)?),
        _ => return None,
    };
    *from = rest;
    Some(record)
}

fn click(mut body: &[u8]) -> Option<ClickRecord> {
    let body = &mut body;
    let (link, at) = (i64::from_le_bytes(bytes(body)?), i64::from_le_bytes(bytes(body)?));
    let [kind, platform] = bytes(body)?;
    let (agent, referer) = (u32::from_le_bytes(bytes(body)?), u32::from_le_bytes(bytes(body)?));
    let agent_code = if body.is_empty() { 0 } else { u32::from_le_bytes(bytes(body)?) };
    let country = if body.is_empty() { 0 } else { u16::from_le_bytes(bytes(body)?) };
    body.is_empty().then_some(ClickRecord { link, at, kind, platform, agent_code, country, agent, referer })
}

fn bytes<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Put {
        Text(Hash, String, bool),
        Click(ClickRecord),
    }

    fn puts() -> impl Strategy<Value = Vec<Put>> {
        let click = any::<(i64, i64, u8, u8, u32, u16, u32, u32)>().prop_map(
            |(link, at, kind, platform, agent_code, country, agent, referer)| {
                Put::Click(ClickRecord { link, at, kind, platform, agent_code, country, agent, referer })
            },
        );
        let text = (any::<Hash>(), ".{0,512}", any::<bool>())
            .prop_map(|(hash, text, is_beyond)| Put::Text(hash, text, is_beyond));
        prop::collection::vec(prop_oneof![click, text], 1..12)
    }

    /// The bytes of records, and where each ends.
    fn written(puts: &[Put]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for put in puts {
            match put {
                Put::Text(hash, text, is_beyond) => {
                    put_text(&mut bytes, &TextRecord { hash: *hash, text, is_beyond: *is_beyond });
                }
                Put::Click(click) => put_click(&mut bytes, click),
            }
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn read(mut bytes: &[u8]) -> Vec<Put> {
        std::iter::from_fn(|| take(&mut bytes))
            .map(|record| match record {
                Record::Text(text) => Put::Text(text.hash, text.text.to_owned(), text.is_beyond),
                Record::Click(click) => Put::Click(click),
            })
            .collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_up_to_where_it_was_torn(
            puts in puts(), cut in any::<prop::sample::Index>(), noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let (whole, ends) = written(&puts);
            prop_assert_eq!(&read(&whole), &puts);
            // Noise that happens to continue what was cut is no noise.
            let torn = [&whole[..cut.index(whole.len())], &noise[..]].concat();
            let same = torn.iter().zip(&whole).take_while(|(torn, whole)| torn == whole).count();
            let kept = ends.iter().filter(|&&end| end <= same).count();
            prop_assert_eq!(read(&torn), &puts[..kept]);
        }

        #[test]
        fn a_flipped_bit_spoils_its_record_and_none_before_it(
            puts in puts(), at in any::<prop::sample::Index>(), bit in 0_u32..8,
        ) {
            let (mut bytes, ends) = written(&puts);
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            let kept = ends.iter().filter(|&&end| end <= at).count();
            prop_assert_eq!(read(&bytes), &puts[..kept]);
        }
    }

    #[test]
    fn only_a_header_of_this_format_has_a_number() {
        assert_eq!(segment_of(&header(-7)), Some(-7));
        for other in [&b""[..], b"DLCLICK2", b"DLCLICK1........", b"SQLite format 3\0"] {
            assert_eq!(segment_of(other), None);
        }
        assert_eq!(read(&[0; 64]), []);
    }

    #[test]
    fn segments_of_the_formats_before_are_read() {
        let body = b"C\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\x04\x05\0\0\0\x06\0\0\0";
        for (magic, more, agent_code) in [(b"DLCLICK2", &b""[..], 0), (b"DLCLICK3", b"\x09\0\0\x02", 0x0200_0009)] {
            assert_eq!(segment_of(&[&magic[..], b"\x07\0\0\0\0\0\0\0"].concat()), Some(7));
            let length = u8::try_from(body.len() + more.len()).expect("short");
            let mut record = [&[length, 0], &body[..], more].concat();
            let checksum = crc32fast::hash(&record);
            record.extend_from_slice(&checksum.to_le_bytes());
            let click =
                ClickRecord { link: 1, at: 2, kind: 3, platform: 4, agent_code, country: 0, agent: 5, referer: 6 };
            assert_eq!(read(&record), [Put::Click(click)]);
        }
    }
}
