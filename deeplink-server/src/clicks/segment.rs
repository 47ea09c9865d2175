//! A part of the journal: a file, or memory while no file can be written.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;
use super::record::{HEADER, HEADER_BYTES, begins_header, segment_of};

pub(super) const SUFFIX: &str = "clicks";
/// Segments that are not, or not wholly, what this program writes.
pub(super) const SET_ASIDE: &str = "set-aside";
/// Copies of segments that are being written.
pub(super) const UNREADY: &str = "new";

/// A part of the journal.
pub(super) struct Segment {
    /// Random, so that segments of all nodes and times have different ones.
    pub(super) id: i64,
    /// Whether this process wrote it.
    pub(super) is_own: bool,
    /// If so, the bytes of the records that it had accepted before.
    before: u64,
    pub(super) bytes: Mutex<Bytes>,
    /// How many bytes hold whole records.
    pub(super) length: AtomicU64,
    pub(super) clicks: AtomicU64,
    pub(super) is_closed: AtomicBool,
    pub(super) was_left: AtomicBool,
}

pub(super) enum Bytes {
    File(PathBuf),
    Memory(Vec<u8>),
}

impl Segment {
    /// One of this process, after this many bytes of records, or of an earlier process.
    pub(super) fn new(id: i64, before: Option<u64>, bytes: Bytes, length: u64) -> Self {
        let is_own = before.is_some();
        Self {
            id,
            is_own,
            before: before.unwrap_or(0),
            bytes: Mutex::new(bytes),
            length: AtomicU64::new(length),
            clicks: AtomicU64::new(0),
            is_closed: AtomicBool::new(!is_own),
            was_left: AtomicBool::new(false),
        }
    }

    /// How much of what this process has accepted ends at an offset of this segment.
    pub(super) fn accepted_at(&self, offset: u64) -> u64 {
        self.before + offset.saturating_sub(HEADER)
    }

    /// How far it can be read now.
    pub(super) fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Whether nothing more will be appended.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether it could once not be read.
    pub(super) fn was_left(&self) -> bool {
        self.was_left.load(Ordering::Relaxed)
    }

    pub(super) fn is_in_memory(&self) -> bool {
        matches!(*lock(&self.bytes), Bytes::Memory(_))
    }

    /// The name of its file; `None` while it is in memory.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &*lock(&self.bytes) {
            Bytes::File(path) => Some(path.clone()),
            Bytes::Memory(_) => None,
        }
    }

    /// The bytes from `from` up to `until`; fewer if another program has truncated the file.
    pub(super) fn read(&self, from: u64, until: u64) -> io::Result<Vec<u8>> {
        let room = |until: u64| vec![0; usize::try_from(until.saturating_sub(from)).unwrap_or(0)];
        let mut read = room(until);
        match &*lock(&self.bytes) {
            Bytes::File(path) => {
                let file = File::open(path)?;
                read = room(until.min(file.metadata()?.len()));
                file.read_exact_at(&mut read, from)?;
            }
            Bytes::Memory(bytes) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let kept = bytes.get(from..from.saturating_add(read.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
                read.copy_from_slice(kept);
            }
        }
        Ok(read)
    }
}

/// The segments that earlier processes left, oldest first, and the files that cannot be opened.
pub(super) fn left_behind(folder: &Path) -> io::Result<(VecDeque<Arc<Segment>>, Vec<PathBuf>)> {
    let mut paths = files(folder, SUFFIX)?;
    paths.sort();
    let (mut left, mut unopened) = (VecDeque::new(), Vec::new());
    for path in paths {
        match opened(&path) {
            Ok(segment) => left.extend(segment.map(Arc::new)),
            // The others and the service must not wait for it.
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "journal segment cannot be read; will retry later");
                unopened.push(path);
            }
        }
    }
    Ok((left, unopened))
}

/// A segment that an earlier process left; `None` if the file is none.
pub(super) fn opened(path: &Path) -> io::Result<Option<Segment>> {
    let (mut start, file) = ([0; HEADER_BYTES], File::open(path)?);
    let length = file.metadata()?.len();
    let start = &mut start[..HEADER_BYTES.min(usize::try_from(length).unwrap_or(HEADER_BYTES))];
    file.read_exact_at(start, 0)?;
    match segment_of(start) {
        Some(id) => return Ok(Some(Segment::new(id, None, Bytes::File(path.to_owned()), length))),
        None if length < HEADER && begins_header(start) => std::fs::remove_file(path)?,
        None => {
            let aside = path.with_extension(SET_ASIDE);
            std::fs::rename(path, &aside)?;
            tracing::error!(path = %aside.display(), "not a segment of the click journal; set aside");
        }
    }
    Ok(None)
}

/// Whether a file has the name of a segment: 15 digits, `-` and 16 hex digits before the suffix.
pub(super) fn is_named(path: &Path) -> bool {
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    stem.split_once('-').is_some_and(|(millis, id)| {
        (millis.len(), id.len()) == (15, 16)
            && millis.bytes().all(|byte| byte.is_ascii_digit())
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The files of one kind in a folder.
pub(super) fn files(folder: &Path, kind: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == kind) {
            files.push(path);
        }
    }
    Ok(files)
}
