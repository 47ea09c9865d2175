//! The spill: files in the data directory for clicks that the database cannot take in time, and memory for when the
//! disk cannot take them either.
//!
//! A click is appended by one `write()`, so a killed process loses none that was answered. A file names its clicks'
//! texts before their first use; it is stored piece by piece ([`super::replay`]) and then removed.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deeplink_core::secret::Random;

use super::Click;
use super::record::{Frame, header};
use crate::db::clicks::{Hash, Mark};
use crate::private;

/// A file is closed beyond this, so that storing one takes bounded memory.
const FILE_BYTES: u64 = 8 << 20;
/// Clicks kept in memory when no file can be written.
const MAX_IN_MEMORY: usize = 100_000;
/// Clicks that move from memory to a file at a time.
const MAX_MOVED: usize = 1_024;
/// What every file ends with once it is ready.
pub(super) const SUFFIX: &str = ".spill";
const PREFIX: &str = "clicks-";

/// A click, and the batch that may have stored it.
#[derive(Debug, Clone)]
pub(super) struct Spilled {
    pub(super) click: Click,
    pub(super) batch: Option<Mark>,
}

/// What became of clicks given to the spill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SpillOutcome {
    pub(super) spilled: u64,
    pub(super) dropped: u64,
}

/// Clicks from memory on their way to the database, under a number as a file has one.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) number: i64,
    pub(super) clicks: Vec<Spilled>,
}

/// Where spilled clicks go.
#[derive(Debug)]
pub(super) struct Spill {
    directory: PathBuf,
    random: Random,
    open: Option<Open>,
    memory: VecDeque<Spilled>,
    /// Something may be left to be stored. An earlier process may have left something.
    pending: bool,
    /// Clicks that left the memory and may be in the database.
    pub(super) chunk: Option<Arc<Chunk>>,
    /// Makes writing fail, as a full disk does.
    #[cfg(test)]
    pub(super) is_full: bool,
}

#[derive(Debug)]
struct Open {
    file: File,
    length: u64,
    texts: HashSet<Hash>,
    synced: u64,
}

impl Spill {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            random: Random::system(),
            open: None,
            memory: VecDeque::new(),
            pending: true,
            chunk: None,
            #[cfg(test)]
            is_full: false,
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Keeps clicks, which `batch` may store as well.
    pub(super) fn add(&mut self, clicks: &[Click], batch: Option<Mark>) -> SpillOutcome {
        self.pending = true;
        let written = self.empty_memory() && {
            let spilled = clicks.iter().map(|click| (click, batch));
            self.append(spilled).is_ok()
        };
        if written {
            return SpillOutcome { spilled: clicks.len() as u64, dropped: 0 };
        }
        let room = MAX_IN_MEMORY.saturating_sub(self.in_memory()).min(clicks.len());
        self.memory.extend(clicks[..room].iter().map(|click| Spilled { click: click.clone(), batch }));
        SpillOutcome { spilled: room as u64, dropped: (clicks.len() - room) as u64 }
    }

    /// Moves some of what waits in memory to a file. `true` when nothing prevents writing.
    fn empty_memory(&mut self) -> bool {
        if self.memory.is_empty() {
            return true;
        }
        let clicks: Vec<_> = self.memory.drain(..MAX_MOVED.min(self.memory.len())).collect();
        let written = self.append(clicks.iter().map(|spilled| (&spilled.click, spilled.batch))).is_ok();
        if !written {
            for spilled in clicks.into_iter().rev() {
                self.memory.push_front(spilled);
            }
        }
        written
    }

    fn append<'a>(&mut self, clicks: impl Iterator<Item = (&'a Click, Option<Mark>)>) -> io::Result<()> {
        #[cfg(test)]
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut open = match self.open.take() {
            Some(open) if open.length < FILE_BYTES => open,
            _ => create(&self.directory, draw(&mut self.random))?,
        };
        let result = open.append(clicks);
        if result.is_ok() {
            self.open = Some(open);
        }
        // Else the file may end in half an append, which counts for nothing; the next one begins another file.
        result
    }

    /// Ends the file that is written, so that it can be stored. The next click begins another. When there is none, and
    /// none in memory, nothing is left to be stored; the result is whether there was one.
    pub(super) fn close(&mut self) -> bool {
        let closed = self.open.take().is_some();
        self.pending = closed || self.in_memory() > 0;
        closed
    }

    /// How many clicks are in memory only.
    pub(super) fn in_memory(&self) -> usize {
        self.memory.len() + self.chunk.as_ref().map_or(0, |chunk| chunk.clicks.len())
    }

    /// Whether something may be left to be stored.
    pub(super) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Clicks that are in memory only, to be stored from there: the same ones until [`Self::chunk`] is cleared.
    pub(super) fn chunk(&mut self, most: usize) -> Option<Arc<Chunk>> {
        if self.chunk.is_none() && !self.memory.is_empty() {
            let clicks = self.memory.drain(..most.min(self.memory.len())).collect();
            self.chunk = Some(Arc::new(Chunk { number: draw(&mut self.random), clicks }));
        }
        self.chunk.clone()
    }

    /// Puts everything into files, at the end. Gives the number of clicks that could not be.
    pub(super) fn save(&mut self) -> usize {
        let mut lost = 0;
        if let Some(chunk) = self.chunk.take() {
            // Under its own number: its clicks may be in the database already, and that number says so.
            let clicks = chunk.clicks.iter().map(|spilled| (&spilled.click, spilled.batch));
            let saved = create(&self.directory, chunk.number).and_then(|mut open| open.append(clicks));
            lost += if saved.is_ok() { 0 } else { chunk.clicks.len() };
        }
        while !self.memory.is_empty() && self.empty_memory() {}
        lost += self.memory.len();
        self.memory.clear();
        self.open = None;
        lost
    }

    /// A handle of the file if it holds what the disk may not; the caller syncs it away from this lock.
    pub(super) fn unsynced(&mut self) -> Option<File> {
        let open = self.open.as_mut().filter(|open| open.synced < open.length)?;
        let file = open.file.try_clone().ok()?;
        open.synced = open.length;
        Some(file)
    }
}

impl Open {
    fn append<'a>(&mut self, clicks: impl Iterator<Item = (&'a Click, Option<Mark>)>) -> io::Result<()> {
        let mut frame = Frame::new();
        for (click, batch) in clicks {
            for text in [&click.agent, &click.referer].into_iter().flatten() {
                if self.texts.insert(text.hash()) {
                    frame.text(&text.hash(), text.text());
                }
            }
            frame.click(&click.row(), batch);
        }
        let bytes = frame.finish();
        self.file.write_all(&bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Random, so that files of several nodes and of all times have different ones.
fn draw(random: &mut Random) -> i64 {
    i64::try_from(random.below(1 << 62)).unwrap_or(0) + 1
}

/// Begins a file. It is locked while it is written, and gets its name only then: nobody stores it before it is closed.
fn create(directory: &Path, number: i64) -> io::Result<Open> {
    let path = directory.join(format!("{PREFIX}{number:016x}{SUFFIX}"));
    let unready = path.with_extension("new");
    let mut file = private::options().append(true).create_new(true).open(&unready)?;
    let header = header(number);
    let begun = file
        .try_lock()
        .map_err(io::Error::from)
        .and_then(|()| file.write_all(&header))
        .and_then(|()| std::fs::rename(&unready, &path));
    if let Err(error) = begun {
        // One that stays has no clicks and is no loss.
        drop(std::fs::remove_file(&unready));
        return Err(error);
    }
    Ok(Open { file, length: header.len() as u64, texts: HashSet::new(), synced: 0 })
}

/// The files that wait to be stored, and those being written.
pub(super) fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if is_ours {
            files.push(directory.join(name));
        }
    }
    files.sort();
    Ok(files)
}
