//! One segment of the journal as the loader reads it: pieces for the log, and their counts.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use deeplink_core::visitor::{OTHER, referer_host};

use super::record::{ClickRecord, HEADER, Record, TextRecord, take};
use super::segment::Segment;
use super::texts::hash_of;
use crate::db::clicks::{Group, Hash, JournalState, NewClick};

/// Bytes that are read at a time: about 4,000 clicks, which occupy the writer for a few milliseconds.
const PIECE_BYTES: u64 = 128 << 10;
const HOUR: i64 = 3_600_000;
/// Groups that are counted at a time: they occupy the writer for about 15 ms.
const MAX_GROUPS: usize = 2_048;

/// A text of the segment.
#[derive(Debug, Clone)]
pub(super) struct SegmentText {
    pub(super) hash: Hash,
    pub(super) text: Arc<str>,
    /// Stored as `other` unless it is already in the database.
    is_beyond: bool,
    /// The day it was last stored; each text is stored again each day, so that the database knows which are in use.
    pub(super) stored_on: Option<i64>,
}

/// Consecutive clicks of a segment, from one offset to another.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) clicks: Vec<ClickRecord>,
}

/// The key of a count; the host is that of the referer with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    link: i64,
    hour: i64,
    kind: u8,
    platform: u8,
    agent_code: u32,
    country: u16,
    referer: u32,
}

#[derive(Debug, Clone, Copy)]
struct Sum {
    clicks: i64,
    first_at: i64,
    last_at: i64,
}

/// Groups that are counted by one transaction.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) groups: Vec<Group>,
    /// The state of the segment before and after this chunk is counted.
    pub(super) before: JournalState,
    pub(super) after: JournalState,
}

/// A segment that is being loaded.
pub(super) struct Reading {
    pub(super) segment: Arc<Segment>,
    /// How far it was read.
    offset: u64,
    /// How much of it the database already has.
    state: JournalState,
    pub(super) texts: Vec<SegmentText>,
    /// How many of them have their final name.
    settled: usize,
    /// The piece that is being stored.
    pub(super) piece: Option<Arc<Piece>>,
    sums: HashMap<Key, Sum>,
    /// Counts that are being stored.
    pub(super) chunks: Vec<Arc<Chunk>>,
    is_torn: bool,
}

impl Reading {
    pub(super) fn new(segment: Arc<Segment>, state: Option<JournalState>) -> Self {
        let state = state.unwrap_or(JournalState::beginning(HEADER));
        Self {
            segment,
            offset: HEADER,
            state,
            texts: Vec::new(),
            settled: 0,
            piece: None,
            sums: HashMap::new(),
            chunks: Vec::new(),
            is_torn: false,
        }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether it ends in bytes that are not a record.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// How many groups wait to be counted.
    pub(super) fn groups(&self) -> usize {
        self.sums.len()
    }

    /// Whether part of it was read but is not counted.
    pub(super) fn is_uncounted(&self) -> bool {
        !self.chunks.is_empty() || self.offset > self.state.counted
    }

    /// Whether all of it was read, and nothing will be added.
    pub(super) fn is_at_end(&self) -> bool {
        // Check first whether it is closed: the length does not change after that.
        self.segment.is_closed() && (self.is_torn || self.offset >= self.segment.length())
    }

    /// Whether what was read must be counted before more is read, because an earlier process had counted part of it.
    pub(super) fn ends_a_part(&self) -> bool {
        self.offset == self.state.counting && self.offset > self.state.counted
    }

    /// Where reading stops next: at the end, or at an offset up to which the database has stored or counted clicks.
    fn next_end(&self) -> u64 {
        let length = self.segment.length();
        let limits = [self.state.counted, self.state.counting, self.state.loaded];
        limits.into_iter().filter(|&limit| limit > self.offset).fold(length, u64::min)
    }

    /// Reads the next piece to be stored. Clicks that are already stored but not counted are added to the counts.
    /// `false` if there is nothing to read now.
    pub(super) fn next_piece(&mut self) -> io::Result<bool> {
        while self.piece.is_none() && !self.is_torn && !self.ends_a_part() {
            let end = self.next_end();
            if self.offset >= end {
                return Ok(false);
            }
            let until = end.min(self.offset + PIECE_BYTES);
            let bytes = self.segment.read(self.offset, until)?;
            let piece = self.parse(&bytes);
            if piece.to == piece.from {
                // A record is shorter than a piece. In our own segments, all records up to the length are complete.
                self.is_torn = true;
            } else if piece.to <= self.state.loaded {
                self.add(&piece);
            } else {
                self.piece = Some(Arc::new(piece));
            }
        }
        Ok(self.piece.is_some())
    }

    fn parse(&mut self, bytes: &[u8]) -> Piece {
        let (mut rest, mut clicks) = (bytes, Vec::with_capacity(bytes.len() / 33));
        while let Some(record) = take(&mut rest) {
            match record {
                Record::Text(TextRecord { hash, text, is_beyond }) => {
                    self.texts.push(SegmentText { hash, text: text.into(), is_beyond, stored_on: None });
                }
                Record::Click(click) => clicks.push(click),
            }
        }
        let to = self.offset + (bytes.len() - rest.len()) as u64;
        Piece { from: self.offset, to, clicks }
    }

    /// The texts to look up in the database.
    pub(super) fn beyond(&self) -> Vec<Hash> {
        self.texts[self.settled..].iter().filter(|text| text.is_beyond).map(|text| text.hash).collect()
    }

    /// Records which of them the database has; the rest become `other`.
    pub(super) fn settle(&mut self, known: &HashSet<Hash>) {
        let (hash, other) = (hash_of(OTHER), Arc::<str>::from(OTHER));
        for text in self.texts[self.settled..].iter_mut().filter(|text| text.is_beyond && !known.contains(&text.hash)) {
            (text.hash, text.text) = (hash, Arc::clone(&other));
        }
        self.settled = self.texts.len();
    }

    fn text(&self, number: u32) -> Option<&SegmentText> {
        self.texts.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The rows of a piece, and the numbers of its texts that were not stored on that day, sorted by hash.
    pub(super) fn rows(&self, piece: &Piece, day: i64) -> (Vec<NewClick>, Vec<u32>) {
        let hash = |number| self.text(number).map(|text| text.hash);
        let rows = piece.clicks.iter().map(|click| {
            let ClickRecord { link, at, kind, platform, agent_code, country, agent, referer } = *click;
            NewClick { link, at, kind, platform, agent_code, country, agent: hash(agent), referer: hash(referer) }
        });
        let named = piece.clicks.iter().flat_map(|click| [click.agent, click.referer]);
        let is_new = |number: &u32| self.text(*number).is_some_and(|text| text.stored_on != Some(day));
        let mut new: Vec<u32> = named.filter(is_new).collect();
        new.sort_unstable();
        new.dedup();
        new.sort_unstable_by_key(|number| hash(*number));
        new.dedup_by_key(|number| hash(*number));
        (rows.collect(), new)
    }

    /// The groups of the piece that is being stored, to be counted in the same transaction: clicks that are only in
    /// memory could not be counted after a crash.
    pub(super) fn groups_of(&self, piece: &Piece) -> Vec<Group> {
        let mut sums = HashMap::new();
        piece.clicks.iter().for_each(|click| add(&mut sums, click));
        sums.into_iter().map(|(key, sum)| self.group(key, sum)).collect()
    }

    /// Notes that the piece is in the log and, if `is_counted`, in the counts.
    pub(super) fn stored(&mut self, texts: &[u32], day: i64, is_counted: bool) -> usize {
        for number in texts {
            if let Some(text) = self.texts.get_mut(*number as usize - 1) {
                text.stored_on = Some(day);
            }
        }
        let Some(piece) = self.piece.take() else { return 0 };
        self.state.loaded = piece.to;
        if is_counted {
            self.state.counted = piece.to;
        }
        self.add(&piece);
        piece.clicks.len()
    }

    /// Adds a piece that is in the log to the clicks to be counted.
    fn add(&mut self, piece: &Piece) {
        self.offset = piece.to;
        if piece.to <= self.state.counted {
            return;
        }
        // In a part that an earlier process was counting, links are counted in order.
        let counted_link = if piece.to <= self.state.counting { self.state.counted_link } else { i64::MIN };
        for click in &piece.clicks {
            if click.link > counted_link || counted_link == i64::MIN {
                add(&mut self.sums, click);
            }
        }
    }

    /// Divides the counts of what was read into chunks, unless some are being stored. A part that an earlier process
    /// was counting must be read completely first.
    pub(super) fn begin_count(&mut self) {
        // After a power failure, the database may have counted what the segment no longer has.
        let is_incomplete = self.offset < self.state.counting && !self.is_at_end();
        if !self.is_uncounted() || !self.chunks.is_empty() || is_incomplete {
            return;
        }
        let sums = std::mem::take(&mut self.sums);
        let mut groups: Vec<Group> = sums.into_iter().map(|(key, sum)| self.group(key, sum)).collect();
        groups.sort_unstable_by_key(|group| group.link);
        let mut chunks: Vec<Vec<Group>> = vec![Vec::new()];
        for group in groups {
            let last = chunks.last().and_then(|chunk| chunk.last());
            // A chunk ends between two links, because the database stores its last link.
            if last.is_some_and(|last| last.link != group.link) && chunks.last().is_some_and(|c| c.len() >= MAX_GROUPS)
            {
                chunks.push(Vec::new());
            }
            if let Some(chunk) = chunks.last_mut() {
                chunk.push(group);
            }
        }
        // A part that this segment lacks may be in a longer copy of it; some of its links are counted already.
        let counted = self.offset.max(self.state.counting);
        let count = chunks.len();
        let mut before = self.state;
        for (nth, groups) in chunks.into_iter().enumerate() {
            let is_last = nth + 1 == count;
            let after = match groups.last() {
                Some(last) if !is_last => JournalState { counting: counted, counted_link: last.link, ..before },
                _ => JournalState { counted, counting: 0, counted_link: i64::MIN, ..before },
            };
            self.chunks.push(Arc::new(Chunk { groups, before, after }));
            before = after;
        }
        // They are taken from the end.
        self.chunks.reverse();
    }

    /// Records that the next chunk is counted.
    pub(super) fn counted(&mut self) {
        if let Some(chunk) = self.chunks.pop() {
            self.state = JournalState { loaded: self.state.loaded, ..chunk.after };
        }
    }

    /// How much of it the database already has.
    pub(super) fn state(&self) -> JournalState {
        self.state
    }

    fn group(&self, key: Key, sum: Sum) -> Group {
        Group {
            link: key.link,
            hour: key.hour,
            kind: key.kind,
            platform: key.platform,
            agent_code: key.agent_code,
            country: key.country,
            host: self.text(key.referer).map(|text| referer_host(&text.text)).unwrap_or_default(),
            clicks: sum.clicks,
            first_at: sum.first_at,
            last_at: sum.last_at,
        }
    }
}

fn add(sums: &mut HashMap<Key, Sum>, click: &ClickRecord) {
    let ClickRecord { link, at, kind, platform, agent_code, country, referer, .. } = *click;
    let key = Key { link, hour: at - at.rem_euclid(HOUR), kind, platform, agent_code, country, referer };
    let sum = sums.entry(key).or_insert(Sum { clicks: 0, first_at: at, last_at: at });
    sum.clicks += 1;
    sum.first_at = sum.first_at.min(at);
    sum.last_at = sum.last_at.max(at);
}
