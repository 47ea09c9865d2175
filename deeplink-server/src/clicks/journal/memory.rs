//! Segments in memory: where clicks are kept while no file can be written, up to a limit, and how they get to files later.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::Click;
use super::super::lock;
use super::super::record::{HEADER, header};
use super::super::segment::{Bytes, Segment, UNREADY};
use super::sync::Unsynced;
use super::{Journal, State, draw};
use crate::private;

/// The size at which a segment in memory is closed: small, because its memory is freed only all at once.
const MEMORY_SEGMENT_BYTES: u64 = 128 << 10;
/// Maximum clicks that are kept in memory, and their bytes: five times the usual size of that many.
const MAX_IN_MEMORY: u64 = 100_000;
pub(in crate::clicks) const MAX_MEMORY_BYTES: u64 = 16 << 20;

impl Journal {
    /// Whether clicks are in memory only, or will be.
    pub(in crate::clicks) fn lacks_files(&self) -> bool {
        let state = lock(&self.state);
        state.cannot_write || state.in_memory > 0
    }

    /// If files can be written again, writes the clicks in memory to files, and later clicks too.
    pub(in crate::clicks) fn leave_memory(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.cannot_write {
            state.begin(self)?;
            state.cannot_write = false;
            tracing::info!("the click journal can be written again");
        }
        drop(state);
        // Visits can append between any two.
        while lock(&self.state).save_first(self)? {}
        Ok(())
    }
}

impl State {
    pub(super) fn append_to_memory(&mut self, journal: &Journal, click: &Click) -> bool {
        if self.in_memory >= MAX_IN_MEMORY || self.memory_bytes >= MAX_MEMORY_BYTES {
            return false;
        }
        if self.open.is_none() {
            let id = draw(&mut self.random);
            let bytes = Bytes::Memory(header(id).to_vec());
            self.open(Segment::new(id, Some(journal.appended()), bytes, HEADER), None);
        }
        let Some(open) = &mut self.open else { return false };
        let segment = Arc::clone(&open.segment);
        let mut bytes = lock(&segment.bytes);
        let Bytes::Memory(bytes) = &mut *bytes else { return false };
        let before = bytes.len();
        open.put(bytes, click);
        let added = bytes.len() - before;
        self.in_memory += 1;
        self.memory_bytes += added as u64;
        if open.grow(journal, added, MEMORY_SEGMENT_BYTES) {
            self.close();
        }
        true
    }

    /// Writes the oldest segment in memory to a file, unless it is open. `false` if there is none.
    pub(super) fn save_first(&mut self, journal: &Journal) -> io::Result<bool> {
        let first = self.waiting.iter().find(|segment| segment.is_in_memory() && segment.is_closed()).cloned();
        first.map_or(Ok(false), |first| self.save(journal, &first).map(|()| true))
    }

    /// Writes a closed segment that is in memory to a file.
    fn save(&mut self, journal: &Journal, segment: &Arc<Segment>) -> io::Result<()> {
        #[cfg(test)]
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut bytes = lock(&segment.bytes);
        let Bytes::Memory(kept) = &*bytes else { return Ok(()) };
        let path = journal.path_of(segment.id);
        let unready = path.with_extension(UNREADY);
        let mut file = private::options().write(true).create(true).truncate(true).open(&unready)?;
        let written = file.write_all(kept).and_then(|()| std::fs::rename(&unready, &path));
        if let Err(error) = written {
            drop(std::fs::remove_file(&unready));
            return Err(error);
        }
        self.no_longer_in_memory(segment);
        self.unsynced.push(Unsynced { segment: Arc::clone(segment), file: Some(Arc::new(file)) });
        self.has_new_names = true;
        *bytes = Bytes::File(path);
        Ok(())
    }

    pub(super) fn no_longer_in_memory(&mut self, segment: &Segment) {
        self.in_memory -= segment.clicks.load(Ordering::Relaxed);
        self.memory_bytes -= segment.length() - HEADER;
    }
}
