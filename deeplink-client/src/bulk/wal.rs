//! The journal in a directory: `plan.json` describes the import, `journal.wal` has intents and results, `lock` is held
//! by the running process, `summary.json` says how it ended. Readable only by its owner; contains no secrets.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::journal::{Entry, Finished, Journal, JournalError, Opened, RunInfo, RunPlan};
use super::outcome::Counts;
use super::private::{create_dir, open_private, write_atomically};
use crate::clock;
use crate::transport::BoxFuture;

/// Largest entry: a request has at most 100 rows.
const MAX_ENTRY: usize = 1 << 20;
/// How long to wait for another run of this process to release its lock.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Keeps each run in its own directory below `root`, readable only by its owner.
#[derive(Debug)]
pub struct FileJournal {
    root: PathBuf,
    command: Option<String>,
    restart: bool,
    lock_wait: Duration,
    open: Mutex<Option<Writer>>,
}

/// `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
struct PlanFile {
    version: u32,
    run: String,
    command: String,
    started_at: Timestamp,
    #[serde(flatten)]
    plan: RunPlan,
}

impl FileJournal {
    /// Runs below `root`, which is created when needed.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), command: None, restart: false, lock_wait: LOCK_WAIT, open: Mutex::new(None) }
    }

    /// What identifies the command (file, mapping, profile): the unfinished run of the same command is resumed, and
    /// an error if its content or service has changed. Without it, the unfinished run of the same content is resumed.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Begins a new run even if another is unfinished.
    pub fn restart(mut self, restart: bool) -> Self {
        self.restart = restart;
        self
    }

    /// The unfinished run that [`FileJournal::command`] would resume.
    pub fn pending(&self) -> Result<Option<RunInfo>, JournalError> {
        let Some(command) = self.command.as_deref().filter(|_| !self.restart) else { return Ok(None) };
        let runs = Self::list(&self.root)?;
        Ok(runs.into_iter().rev().find(|run| !run.finished && run.command == command))
    }

    /// All runs below `root`, oldest first.
    pub fn list(root: &Path) -> Result<Vec<RunInfo>, JournalError> {
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error(root, error)),
        };
        let mut runs = Vec::new();
        for entry in entries {
            let dir = entry.map_err(|error| io_error(root, error))?.path();
            if dir.join(PLAN).is_file() {
                runs.push(info(dir)?);
            }
        }
        runs.sort_by(|one, other| (one.started_at, &one.run).cmp(&(other.started_at, &other.run)));
        Ok(runs)
    }

    /// Removes a run; an error while another process is working on it.
    pub fn remove(run: &RunInfo) -> Result<(), JournalError> {
        let lock = lock(&run.dir, &run.run, Duration::ZERO)?;
        fs::remove_dir_all(&run.dir).map_err(|error| io_error(&run.dir, error))?;
        drop(lock);
        Ok(())
    }

    /// Waits as long as it takes for another run, however slow the disk is.
    #[cfg(test)]
    pub(super) fn patient(mut self) -> Self {
        self.lock_wait = Duration::from_mins(1);
        self
    }

    fn resumable(&self, plan: &RunPlan) -> Result<Option<RunInfo>, JournalError> {
        if self.restart {
            return Ok(None);
        }
        if self.command.is_none() {
            let same =
                |run: &RunInfo| !run.finished && run.plan.digest == plan.digest && run.plan.origin == plan.origin;
            return Ok(Self::list(&self.root)?.into_iter().rev().find(same));
        }
        let Some(run) = self.pending()? else { return Ok(None) };
        let what = match (run.plan.origin == plan.origin, run.plan.digest == plan.digest) {
            (false, _) => "service",
            (true, false) => "content",
            (true, true) => return Ok(Some(run)),
        };
        Err(JournalError::Changed { run: run.run, what })
    }

    fn begin(&self, plan: &RunPlan) -> Result<(PathBuf, String), JournalError> {
        create_dir(&self.root).map_err(|error| io_error(&self.root, error))?;
        let started_at = clock::now();
        let mut random = Random::system();
        let tail: String = (0..6).map(|_| random.pick(b"0123456789abcdefghijklmnopqrstuvwxyz")).collect();
        let stamp: String = started_at.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
        let run = format!("{stamp}-{tail}");
        let dir = self.root.join(&run);
        create_dir(&dir).map_err(|error| io_error(&dir, error))?;
        let command = self.command.clone().unwrap_or_default();
        let file = PlanFile { version: 1, run: run.clone(), command, started_at, plan: plan.clone() };
        write_json(&dir.join(PLAN), &file)?;
        Ok((dir, run))
    }
}

const PLAN: &str = "plan.json";
const WAL: &str = "journal.wal";
const SUMMARY: &str = "summary.json";

impl Journal for FileJournal {
    fn open(&self, plan: &RunPlan) -> Result<Opened, JournalError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Reopening a journal releases its lock first.
        *open = None;
        let resumed = self.resumable(plan)?;
        let is_resumed = resumed.is_some();
        let (dir, run) = match resumed {
            Some(run) => (run.dir, run.run),
            None => self.begin(plan)?,
        };
        let lock = lock(&dir, &run, self.lock_wait)?;
        let path = dir.join(WAL);
        let mut file = open_private(&path).map_err(|error| io_error(&path, error))?;
        let end = read_entries(&path, &mut file, &mut |_| {})?;
        // A torn tail is what a killed process was writing; it was never acknowledged.
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        cut.and_then(|_| file.sync_all()).map_err(|error| io_error(&path, error))?;
        *open = Some(Writer::start(dir, file, lock));
        Ok(Opened::new(run, is_resumed))
    }

    fn replay(&self, each: &mut dyn FnMut(Entry)) -> Result<(), JournalError> {
        let dir = self.open.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|open| open.dir.clone());
        let path = dir.ok_or(JournalError::Closed)?.join(WAL);
        let mut file = File::open(&path).map_err(|error| io_error(&path, error))?;
        read_entries(&path, &mut file, each).map(drop)
    }

    fn append(&self, entry: Entry) -> BoxFuture<'static, Result<(), JournalError>> {
        let (done, written) = oneshot::channel();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = open.as_ref().is_some_and(|open| open.send(entry, done));
        Box::pin(async move {
            if sent { written.await.unwrap_or(Err(JournalError::Closed)) } else { Err(JournalError::Closed) }
        })
    }
}

/// An entry to be written, and its waiter.
struct Waiting {
    entry: Entry,
    done: oneshot::Sender<Result<(), JournalError>>,
}

/// The writer thread: entries that arrive during a sync share the next write and sync.
#[derive(Debug)]
struct Writer {
    dir: PathBuf,
    queue: Option<Sender<Waiting>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(dir: PathBuf, file: File, lock: File) -> Self {
        let (queue, waiting) = channel();
        let at = dir.clone();
        let thread = std::thread::spawn(move || {
            write_entries(&at, file, &waiting);
            drop(lock);
        });
        Self { dir, queue: Some(queue), thread: Some(thread) }
    }

    fn send(&self, entry: Entry, done: oneshot::Sender<Result<(), JournalError>>) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.send(Waiting { entry, done }).is_ok())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends with its queue; failed writes were reported to the waiting callers.
            let _ = thread.join();
        }
    }
}

fn write_entries(dir: &Path, mut file: File, queue: &Receiver<Waiting>) {
    let path = dir.join(WAL);
    while let Ok(first) = queue.recv() {
        let group: Vec<Waiting> = std::iter::once(first).chain(queue.try_iter()).collect();
        let mut bytes = Vec::new();
        for waiting in &group {
            frame(&waiting.entry, &mut bytes);
        }
        // Entries without a waiter are synced with the next one.
        let is_awaited = group.iter().any(|waiting| !waiting.done.is_closed());
        let mut written = file.write_all(&bytes);
        if is_awaited {
            written = written.and_then(|()| file.sync_data());
        }
        for waiting in group {
            if let (Ok(()), Entry::Finished(finished)) = (&written, &waiting.entry) {
                let _ = write_json(&dir.join(SUMMARY), finished);
            }
            let result = match &written {
                Ok(()) => Ok(()),
                Err(error) => Err(io_error(&path, copy(error))),
            };
            let _ = waiting.done.send(result);
        }
        if written.is_err() {
            return;
        }
    }
    let _ = file.sync_data();
}

/// Length, checksum, JSON.
fn frame(entry: &Entry, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    // Entries contain no non-string keys and no numbers that JSON lacks, so serializing cannot fail.
    let _ = serde_json::to_writer(&mut *out, entry);
    let length = u32::try_from(out.len() - start - 8).unwrap_or(u32::MAX);
    let sum = crc32(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Passes on every complete entry and returns where the last one ends.
fn read_entries(path: &Path, file: &mut File, each: &mut dyn FnMut(Entry)) -> Result<u64, JournalError> {
    let wrong = |error| io_error(path, error);
    file.seek(SeekFrom::Start(0)).map_err(wrong)?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let (mut end, mut entry) = (0, Vec::new());
    loop {
        let (mut length, mut sum) = ([0; 4], [0; 4]);
        if !read_whole(&mut file, &mut length).map_err(wrong)? || !read_whole(&mut file, &mut sum).map_err(wrong)? {
            return Ok(end);
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_ENTRY {
            return Ok(end);
        }
        entry.resize(length, 0);
        if !read_whole(&mut file, &mut entry).map_err(wrong)? || crc32(&entry) != u32::from_le_bytes(sum) {
            return Ok(end);
        }
        let Ok(parsed) = serde_json::from_slice(&entry) else {
            return Err(JournalError::Corrupt { path: path.to_owned(), what: format!("the entry at byte {end}") });
        };
        each(parsed);
        end += 8 + length as u64;
    }
}

/// Fills the buffer; `false` if the file ends first.
fn read_whole(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// CRC-32 as in zlib and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0_u32;
        while byte < 256 {
            let mut value = byte;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[byte as usize] = value;
            byte += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |sum: u32, byte| TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ sum >> 8)
}

fn info(dir: PathBuf) -> Result<RunInfo, JournalError> {
    let plan: PlanFile = read_json(&dir.join(PLAN))?
        .ok_or_else(|| JournalError::Corrupt { path: dir.join(PLAN), what: "it is missing".to_owned() })?;
    let summary: Option<Finished> = read_json(&dir.join(SUMMARY))?;
    let finished = summary.as_ref().is_some_and(|summary| summary.complete);
    let counts = match summary {
        Some(summary) if summary.complete => summary.counts,
        _ => counts_so_far(&dir.join(WAL), plan.plan.rows)?,
    };
    let locked = matches!(lock(&dir, &plan.run, Duration::ZERO), Err(JournalError::Locked { .. }));
    Ok(RunInfo {
        run: plan.run,
        dir,
        plan: plan.plan,
        command: plan.command,
        started_at: plan.started_at,
        counts,
        finished,
        locked,
    })
}

fn counts_so_far(path: &Path, rows: u64) -> Result<Counts, JournalError> {
    let mut counts = Counts { rows, ..Counts::default() };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Counts { unsent: rows, ..counts }),
        Err(error) => return Err(io_error(path, error)),
    };
    read_entries(path, &mut file, &mut |entry| match entry {
        Entry::Done(done) => {
            for (settled, rows) in &done.rows {
                *counts.of(*settled) += rows.len();
            }
        }
        Entry::Intent(_) => counts.requests += 1,
        Entry::Finished(_) => {}
    })?;
    counts.unsent = rows.saturating_sub(counts.settled());
    Ok(counts)
}

/// Takes the run's lock, which is released with the file.
fn lock(dir: &Path, run: &str, timeout: Duration) -> Result<File, JournalError> {
    let path = dir.join("lock");
    let file = open_private(&path).map_err(|error| io_error(&path, error))?;
    let until = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::WouldBlock) => return Err(JournalError::Locked { run: run.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(io_error(&path, error)),
        }
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), JournalError> {
    let json = serde_json::to_vec_pretty(value).map_err(|error| io_error(path, error.into()))?;
    write_atomically(path, &json).map_err(|error| io_error(path, error))
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, JournalError> {
    let json = match fs::read(path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path, error)),
    };
    let corrupt = |why: serde_json::Error| JournalError::Corrupt { path: path.to_owned(), what: why.to_string() };
    serde_json::from_slice(&json).map(Some).map_err(corrupt)
}

fn io_error(path: &Path, source: io::Error) -> JournalError {
    JournalError::Io { path: path.to_owned(), source }
}

/// A copy of the error for each waiter.
fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}
