//! The format of a spill file: a header, then one frame for each append, with its length and a checksum. A frame is
//! valid as a whole or not at all, so an append that broke off halfway stores nothing.
//!
//! ```text
//! header  "DLCLICK1", number of the file (8)
//! frame   length of the items (4), items, checksum of all that (4)
//! item    "T", hash (16), length (2), text
//!         "C", link (8), at (8), kind (1), platform (1), present (1), agent (0 or 16), referer (0 or 16),
//!              batch: position, link, at (0 or 24)
//! ```
//! Numbers are little-endian.

use std::collections::BTreeMap;

use crate::db::clicks::{Hash, Mark, NewClick};

const MAGIC: &[u8; 8] = b"DLCLICK1";
const TEXT: u8 = b'T';
const CLICK: u8 = b'C';
const AGENT: u8 = 1;
const REFERER: u8 = 2;
const BATCH: u8 = 4;

/// What every file begins with.
pub(super) fn header(number: i64) -> [u8; 16] {
    let mut header = [0; 16];
    header[..8].copy_from_slice(MAGIC);
    header[8..].copy_from_slice(&number.to_le_bytes());
    header
}

/// One append in the making.
#[derive(Debug)]
pub(super) struct Frame(Vec<u8>);

impl Frame {
    pub(super) fn new() -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        Self(bytes)
    }

    /// A text, before the first click that names it.
    pub(super) fn text(&mut self, hash: &Hash, text: &str) {
        // 512 characters are at most 2,048 bytes.
        let length = u16::try_from(text.len()).unwrap_or(0);
        self.0.push(TEXT);
        self.0.extend_from_slice(hash);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(&text.as_bytes()[..usize::from(length)]);
    }

    /// A click, and the batch that may have stored it.
    pub(super) fn click(&mut self, click: &NewClick, batch: Option<Mark>) {
        self.0.push(CLICK);
        self.numbers(&[click.link, click.at]);
        let present =
            click.agent.map_or(0, |_| AGENT) | click.referer.map_or(0, |_| REFERER) | batch.map_or(0, |_| BATCH);
        self.0.extend_from_slice(&[click.kind, click.platform, present]);
        for hash in [&click.agent, &click.referer].into_iter().flatten() {
            self.0.extend_from_slice(hash);
        }
        if let Some(Mark { position, link, at }) = batch {
            self.numbers(&[position, link, at]);
        }
    }

    fn numbers(&mut self, numbers: &[i64]) {
        for number in numbers {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// The bytes to append.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        let check = checksum(&self.0);
        self.0.extend_from_slice(&check.to_le_bytes());
        self.0
    }
}

/// FNV-1a: enough to tell a frame from what a torn write left.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// What a spill file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) number: i64,
    /// Clicks, each with the batch that may have stored it.
    pub(super) clicks: Vec<(NewClick, Option<Mark>)>,
    pub(super) texts: BTreeMap<Hash, String>,
    /// Bytes at the end that are no whole frame.
    pub(super) torn: usize,
}

impl Contents {
    /// Reads a file. `None` when it is not one of these.
    pub(super) fn read(file: &[u8]) -> Option<Self> {
        let mut rest = file;
        if take(&mut rest)? != *MAGIC {
            return None;
        }
        let mut contents = Self { number: i64::from_le_bytes(take(&mut rest)?), ..Self::default() };
        while let Some((mut items, after)) = frame(rest) {
            while !items.is_empty() {
                contents.read_item(&mut items)?;
            }
            rest = after;
        }
        contents.torn = rest.len();
        Some(contents)
    }

    /// Reads an item of a valid frame. `None` when it is of another version.
    fn read_item(&mut self, from: &mut &[u8]) -> Option<()> {
        match take(from)? {
            [TEXT] => {
                let hash = take(from)?;
                let length = usize::from(u16::from_le_bytes(take(from)?));
                let (text, rest) = from.split_at_checked(length)?;
                *from = rest;
                self.texts.insert(hash, String::from_utf8_lossy(text).into_owned());
            }
            [CLICK] => {
                let [link, at] = numbers(from)?;
                let [kind, platform, present] = take(from)?;
                let agent = if present & AGENT == 0 { None } else { Some(take(from)?) };
                let referer = if present & REFERER == 0 { None } else { Some(take(from)?) };
                let batch = if present & BATCH == 0 { None } else { Some(numbers(from)?) };
                let batch = batch.map(|[position, link, at]| Mark { position, link, at });
                self.clicks.push((NewClick { link, at, kind, platform, agent, referer }, batch));
            }
            _ => return None,
        }
        Some(())
    }
}

/// The items of the frame that begins here, and what follows it. `None` where no whole frame begins.
fn frame(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u32::from_le_bytes(*from.first_chunk()?)).ok()?;
    let (checked, mut rest) = from.split_at_checked(length.checked_add(4)?)?;
    (checksum(checked) == u32::from_le_bytes(take(&mut rest)?)).then_some((&checked[4..], rest))
}

/// The next `N` bytes.
fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

fn numbers<const N: usize>(from: &mut &[u8]) -> Option<[i64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = i64::from_le_bytes(take(from)?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_click()(
            link in any::<i64>(), at in any::<i64>(), kind in 0_u8..4, platform in 0_u8..5,
            agent in any::<Option<Hash>>(), referer in any::<Option<Hash>>(),
            batch in any::<Option<(i64, i64, i64)>>(),
        ) -> (NewClick, Option<Mark>) {
            let batch = batch.map(|(position, link, at)| Mark { position, link, at });
            (NewClick { link, at, kind, platform, agent, referer }, batch)
        }
    }

    type Append = (Vec<(Hash, String)>, Vec<(NewClick, Option<Mark>)>);

    fn appends() -> impl Strategy<Value = Vec<Append>> {
        let texts = prop::collection::vec((any::<Hash>(), ".{0,512}"), 0..3);
        prop::collection::vec((texts, prop::collection::vec(any_click(), 1..6)), 1..6)
    }

    /// A file, and where each append ends in it.
    fn file(number: i64, appends: &[Append]) -> (Vec<u8>, Vec<usize>) {
        let mut file = header(number).to_vec();
        let mut ends = Vec::new();
        for (texts, clicks) in appends {
            let mut frame = Frame::new();
            for (hash, text) in texts {
                frame.text(hash, text);
            }
            for (click, batch) in clicks {
                frame.click(click, *batch);
            }
            file.extend(frame.finish());
            ends.push(file.len());
        }
        (file, ends)
    }

    fn clicks(appends: &[Append]) -> Vec<(NewClick, Option<Mark>)> {
        appends.iter().flat_map(|(_, clicks)| clicks.clone()).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_up_to_where_it_was_torn(
            number in any::<i64>(), appends in appends(), cut in any::<prop::sample::Index>(),
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let (whole, ends) = file(number, &appends);
            let read = Contents::read(&whole).expect("a header");
            prop_assert_eq!((read.number, read.torn), (number, 0));
            prop_assert_eq!(&read.clicks, &clicks(&appends));
            prop_assert_eq!(&read.texts, &appends.iter().flat_map(|(texts, _)| texts.clone()).collect());

            // An append counts as a whole or not at all. Noise that happens to continue what was cut is no noise.
            let kept = 16 + cut.index(whole.len() - 16);
            let torn = [&whole[..kept], &noise[..]].concat();
            let same = torn.iter().zip(&whole).take_while(|(torn, whole)| torn == whole).count();
            let whole_appends = ends.iter().filter(|&&end| end <= same).count();
            let read = Contents::read(&torn).expect("a header");
            prop_assert_eq!(read.clicks, clicks(&appends[..whole_appends]));
        }

        #[test]
        fn a_flipped_bit_spoils_its_append_and_none_before_it(
            appends in appends(), at in any::<prop::sample::Index>(), bit in 0_u32..8,
        ) {
            let (mut bytes, ends) = file(7, &appends);
            let at = 16 + at.index(bytes.len() - 16);
            bytes[at] ^= 1_u8 << bit;
            let before = ends.iter().filter(|&&end| end <= at).count();
            let read = Contents::read(&bytes).expect("a header");
            prop_assert_eq!(read.clicks, clicks(&appends[..before]));
        }
    }

    #[test]
    fn other_files_are_not_read() {
        assert_eq!(Contents::read(b""), None);
        assert_eq!(Contents::read(b"DLCLICK1"), None);
        assert_eq!(Contents::read(b"DLCLICK2........"), None);
        assert_eq!(Contents::read(&header(3)), Some(Contents { number: 3, ..Contents::default() }));
        let zeros = [&header(3)[..], &[0; 64]].concat();
        assert_eq!(Contents::read(&zeros).map(|read| (read.clicks.len(), read.torn)), Some((0, 64)));
    }
}
