//! The journal: where visits append their clicks, in files of the data directory ("segments").
//!
//! Each click is one `write()` before its visit is answered, so that a killed process loses none. While no file can be
//! written, the same bytes are kept in memory. The loader takes segments in order and removes each once its clicks are
//! in the database.

mod left;
mod memory;
mod sync;

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deeplink_core::secret::Random;
use tokio::time::Instant;

#[cfg(test)]
pub(super) use self::memory::MAX_MEMORY_BYTES;
use self::sync::{Unsynced, sync_folder};
use super::record::{ClickRecord, HEADER, TextRecord, header, put_click, put_text};
use super::segment::{Bytes, SET_ASIDE, SUFFIX, Segment, UNREADY, files, is_named, left_behind};
use super::texts::TextRef;
use super::{Click, lock};
use crate::clock::Clock;
use crate::private;

/// The size at which a segment is closed.
const SEGMENT_BYTES: u64 = 32 << 20;
/// The age at which a segment is closed, whatever its size: the database forgets segments that were begun long ago.
pub(super) const SEGMENT_AGE: Duration = Duration::from_hours(24);
/// The lock file, held by the process that writes the journal.
const LOCK: &str = "lock";

/// The journal of this process.
pub(super) struct Journal {
    folder: PathBuf,
    clock: Clock,
    state: Mutex<State>,
    /// Bytes of the records that were accepted.
    appended: AtomicU64,
    /// Clicks for which there was no room.
    dropped: AtomicU64,
    /// Called before each sync of a file, to be a broken or slow disk.
    #[cfg(test)]
    disk: Mutex<Disk>,
}

#[cfg(test)]
type Disk = Box<dyn FnMut() -> io::Result<()> + Send>;

struct State {
    /// Released when another process may take over.
    lock: Option<File>,
    random: Random,
    open: Option<Open>,
    /// Segments for the loader, oldest first; the last one may be open.
    waiting: VecDeque<Arc<Segment>>,
    /// Segments that could not be read.
    left: Vec<Arc<Segment>>,
    /// Files of earlier processes that could not even be opened.
    unopened: Vec<PathBuf>,
    /// Since when there have been any of both.
    left_since: Option<Instant>,
    has_left_anew: bool,
    /// Set when a file cannot be written, cleared when one can.
    cannot_write: bool,
    in_memory: u64,
    /// Of the segments in memory.
    memory_bytes: u64,
    /// What may not be on the disk yet.
    unsynced: Vec<Unsynced>,
    /// Whether the folder must be synced too, because it has new file names.
    has_new_names: bool,
    /// How many segments this process has begun: identifies the segment that a text's number belongs to.
    begun: u32,
    buffer: Vec<u8>,
    /// Makes writing fail, as a full disk does.
    #[cfg(test)]
    is_full: bool,
}

/// The segment that is being written.
struct Open {
    segment: Arc<Segment>,
    /// `None` for one in memory.
    file: Option<Arc<File>>,
    number: u32,
    texts: u32,
    began: Instant,
    is_synced: bool,
}

/// How far the loader is behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) segments: usize,
    /// Including the loaded part of the first one.
    pub(super) bytes: u64,
    /// Of these, the bytes of segments that could not be read.
    pub(super) left_bytes: u64,
    /// Clicks in memory only.
    pub(super) in_memory: u64,
}

impl Journal {
    /// Opens the journal in `folder`, which no other process may use, including the segments of earlier processes.
    pub(super) fn open(folder: &Path, clock: Clock) -> io::Result<Self> {
        private::create_dir(folder).map_err(|error| at(folder, &error))?;
        if let Some(parent) = folder.parent() {
            // Of a relative path of one component, it is empty.
            sync_folder(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
        }
        let lock = Some(locked(folder)?);
        let (waiting, unopened) = left_behind(folder).map_err(|error| at(folder, &error))?;
        // Copies that the process was writing when it died; what they were made from is still there, or in the database.
        for path in files(folder, UNREADY)?.iter().filter(|path| is_named(path)) {
            drop(std::fs::remove_file(path));
        }
        // The process that left them may not have synced their ends.
        let unsynced = waiting.iter().filter_map(|segment| {
            let file = File::open(segment.path()?).ok()?;
            Some(Unsynced { segment: Arc::clone(segment), file: Some(Arc::new(file)) })
        });
        let unsynced = unsynced.collect();
        let state = State {
            lock,
            random: Random::system(),
            open: None,
            waiting,
            left: Vec::new(),
            unopened,
            left_since: None,
            has_left_anew: false,
            cannot_write: false,
            in_memory: 0,
            memory_bytes: 0,
            unsynced,
            has_new_names: true,
            begun: 0,
            buffer: Vec::with_capacity(256),
            #[cfg(test)]
            is_full: false,
        };
        Ok(Self {
            folder: folder.to_owned(),
            clock,
            state: Mutex::new(state),
            appended: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            #[cfg(test)]
            disk: Mutex::new(Box::new(|| Ok(()))),
        })
    }

    /// Appends a click. Once it is in a file, only a power failure within a second can lose it.
    pub(super) fn append(&self, click: &Click) {
        let mut state = lock(&self.state);
        if state.append_to_file(self, click) || state.append_to_memory(self, click) {
            return;
        }
        drop(state);
        if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!("clicks are being lost: the journal cannot be written, and the memory buffer is full");
        }
    }

    /// Bytes of the records that were accepted.
    pub(super) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Clicks for which there was no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn waiting(&self) -> Waiting {
        let state = lock(&self.state);
        let bytes = state.all().map(|segment| segment.length().saturating_sub(HEADER)).sum();
        let segments = state.all().count() + state.unopened.len();
        let left = state.all().filter(|segment| segment.was_left());
        let left_bytes = left.map(|segment| segment.length().saturating_sub(HEADER)).sum();
        Waiting { segments, bytes, left_bytes, in_memory: state.in_memory }
    }

    /// The oldest segment.
    pub(super) fn first(&self) -> Option<Arc<Segment>> {
        lock(&self.state).waiting.front().cloned()
    }

    /// How many segments of earlier processes are waiting.
    pub(super) fn left_behind(&self) -> usize {
        lock(&self.state).waiting.iter().filter(|segment| !segment.is_own).count()
    }

    /// Closes the current segment. With `loaded`, only if it is that segment, in memory and loaded to its end.
    pub(super) fn close(&self, loaded: Option<(&Arc<Segment>, u64)>) {
        let mut state = lock(&self.state);
        let is_it = state.open.as_ref().is_some_and(|open| match loaded {
            None => true,
            Some((segment, offset)) => {
                Arc::ptr_eq(&open.segment, segment) && open.file.is_none() && segment.length() == offset
            }
        });
        if is_it {
            state.close();
        }
    }

    /// Removes a segment that is in the database. `false` if it was in memory only.
    pub(super) fn remove(&self, segment: &Arc<Segment>) -> io::Result<bool> {
        let Some(path) = self.take_out(segment) else { return Ok(false) };
        // A segment that is being rewritten must not come back.
        let _bytes = lock(&segment.bytes);
        std::fs::remove_file(path).map(|()| true)
    }

    /// Sets a segment aside, because it could not be read to its end. Returns the path of its file.
    pub(super) fn set_aside(&self, segment: &Arc<Segment>) -> io::Result<Option<PathBuf>> {
        let Some(path) = self.take_out(segment) else { return Ok(None) };
        let aside = path.with_extension(SET_ASIDE);
        let _bytes = lock(&segment.bytes);
        std::fs::rename(path, &aside)?;
        Ok(Some(aside))
    }

    /// Removes a segment whose file is gone.
    pub(super) fn forget(&self, segment: &Arc<Segment>) {
        self.take_out(segment);
    }

    fn take_out(&self, segment: &Arc<Segment>) -> Option<PathBuf> {
        let mut state = lock(&self.state);
        state.waiting.retain(|waiting| !Arc::ptr_eq(waiting, segment));
        // Another program may have truncated the segment that is still being written.
        if state.open.as_ref().is_some_and(|open| Arc::ptr_eq(&open.segment, segment)) {
            state.close();
        }
        let path = segment.path();
        if path.is_none() {
            state.no_longer_in_memory(segment);
        }
        path
    }

    /// Closes the current segment if it is old. `true` if it was.
    pub(super) fn close_old(&self, age: Duration) -> bool {
        let mut state = lock(&self.state);
        let is_old = state.open.as_ref().is_some_and(|open| open.began.elapsed() >= age);
        if is_old {
            state.close();
        }
        is_old
    }

    /// Closes the journal when the process ends: clicks in memory are written to files. Returns the number of clicks
    /// that could not be written.
    pub(super) fn end(&self) -> u64 {
        let mut state = lock(&self.state);
        state.close();
        let saved = loop {
            match state.save_first(self) {
                Ok(true) => {}
                ended => break ended,
            }
        };
        let lost = if saved.is_err() { state.in_memory } else { 0 };
        state.waiting.clear();
        state.left.clear();
        state.unopened.clear();
        drop(state);
        // What cannot be synced is rewritten the second time.
        if let Err(error) = self.sync().or_else(|_| self.sync()) {
            tracing::error!(%error, "the click journal cannot be synced");
        }
        lock(&self.state).lock = None;
        self.dropped.fetch_add(lost, Ordering::Relaxed);
        lost
    }

    /// The name of a new segment's file; names sort by age.
    fn path_of(&self, id: i64) -> PathBuf {
        self.folder.join(format!("{:015}-{id:016x}.{SUFFIX}", self.clock.now().as_millis().max(0)))
    }

    /// How many files, and whether names of files, are not synced.
    #[cfg(test)]
    pub(super) fn unsynced(&self) -> (usize, bool) {
        let state = lock(&self.state);
        let open = state.open.as_ref().is_some_and(|open| !open.is_synced);
        (state.unsynced.len() + usize::from(open), state.has_new_names)
    }

    #[cfg(test)]
    pub(super) fn set_full(&self, is_full: bool) {
        lock(&self.state).is_full = is_full;
    }

    #[cfg(test)]
    pub(super) fn set_disk(&self, disk: impl FnMut() -> io::Result<()> + Send + 'static) {
        *lock(&self.disk) = Box::new(disk);
    }

    /// As if the process were killed: clicks in memory are lost, and another process can open the journal.
    #[cfg(test)]
    pub(super) fn kill(&self) -> Vec<Arc<Segment>> {
        let mut state = lock(&self.state);
        state.open = None;
        state.lock = None;
        state.waiting.drain(..).filter(|segment| segment.is_in_memory()).collect()
    }
}

/// The lock of a folder, unless another process has it.
fn locked(folder: &Path) -> io::Result<File> {
    let path = folder.join(LOCK);
    let open = private::options().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(|error| at(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let folder = folder.display();
            let text = format!("{folder} is in use by another process; each needs its own data directory");
            Err(io::Error::other(text))
        }
        Err(TryLockError::Error(error)) => Err(at(&path, &error)),
    }
}

/// An error that names its file or folder.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl State {
    /// The segments that are not in the database yet.
    fn all(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.waiting.iter().chain(&self.left)
    }

    /// `false` if no file can be written.
    fn append_to_file(&mut self, journal: &Journal, click: &Click) -> bool {
        if self.cannot_write {
            return false;
        }
        if self.open.is_none()
            && let Err(error) = self.begin(journal)
        {
            self.fail(&error);
            return false;
        }
        let (Some(open), buffer) = (&mut self.open, &mut self.buffer) else { return false };
        let Some(file) = open.file.clone() else { return false };
        buffer.clear();
        open.put(buffer, click);
        #[cfg(test)]
        let written = if self.is_full { Err(io::ErrorKind::StorageFull.into()) } else { (&*file).write_all(buffer) };
        #[cfg(not(test))]
        let written = (&*file).write_all(buffer);
        if let Err(error) = written {
            // The file may end in a partial record, which is ignored; the next click begins another segment.
            self.close();
            self.fail(&error);
            return false;
        }
        if open.grow(journal, buffer.len(), SEGMENT_BYTES) {
            self.close();
        }
        true
    }

    /// Begins a segment in a file.
    fn begin(&mut self, journal: &Journal) -> io::Result<()> {
        #[cfg(test)]
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = draw(&mut self.random);
        let path = journal.path_of(id);
        let mut file = private::options().append(true).create_new(true).open(&path)?;
        if let Err(error) = file.write_all(&header(id)) {
            // If the file remains, no harm is done: it contains no clicks.
            drop(std::fs::remove_file(&path));
            return Err(error);
        }
        self.close();
        self.has_new_names = true;
        let segment = Segment::new(id, Some(journal.appended()), Bytes::File(path), HEADER);
        self.open(segment, Some(Arc::new(file)));
        Ok(())
    }

    fn open(&mut self, segment: Segment, file: Option<Arc<File>>) {
        let segment = Arc::new(segment);
        self.waiting.push_back(Arc::clone(&segment));
        self.begun = self.begun.wrapping_add(1).max(1);
        self.open = Some(Open { segment, file, number: self.begun, texts: 0, began: Instant::now(), is_synced: true });
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        open.segment.is_closed.store(true, Ordering::Release);
        if !open.is_synced {
            self.unsynced.extend(open.unsynced());
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.cannot_write = true;
        tracing::error!(%error, "the click journal cannot be written; clicks are kept in memory");
    }
}

impl Open {
    fn unsynced(&self) -> Option<Unsynced> {
        Some(Unsynced { segment: Arc::clone(&self.segment), file: Some(Arc::clone(self.file.as_ref()?)) })
    }

    /// The record of a click, after the records of texts that the segment does not contain yet.
    fn put(&mut self, into: &mut Vec<u8>, click: &Click) {
        let [agent, referer] = [&click.agent, &click.referer].map(|text| match text {
            None => 0,
            Some(text) => self.number_of(into, text),
        });
        let Click { link, at, kind, platform, agent_code, country, .. } = *click;
        put_click(into, &ClickRecord { link, at, kind, platform, agent_code, country, agent, referer });
    }

    fn number_of(&mut self, into: &mut Vec<u8>, text: &TextRef) -> u32 {
        if let Some(known) = text.number_in(self.number) {
            return known;
        }
        self.texts += 1;
        let record = TextRecord { hash: text.hash(), text: text.text(), is_beyond: text.is_beyond() };
        put_text(into, &record);
        text.set_number(self.number, self.texts, record.is_beyond);
        self.texts
    }

    /// Records that a click was appended. `true` once the segment is full.
    fn grow(&mut self, journal: &Journal, bytes: usize, most: u64) -> bool {
        self.is_synced = false;
        // Before the length, so that everything the loader reads is counted as accepted.
        journal.appended.fetch_add(bytes as u64, Ordering::Release);
        self.segment.clicks.fetch_add(1, Ordering::Relaxed);
        self.segment.length.fetch_add(bytes as u64, Ordering::Release) + bytes as u64 >= most
    }
}

fn draw(random: &mut Random) -> i64 {
    i64::try_from(random.below(1 << 62)).unwrap_or(0) + 1
}
