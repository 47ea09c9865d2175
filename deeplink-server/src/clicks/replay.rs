//! From the spill into the log: files of this and of earlier processes, then what is in memory only.
//!
//! Each piece commits together with the number of the file's clicks that are stored, and a file goes only when all of
//! them are: whenever the process dies, the next one goes on where this one stopped. Files that another process writes
//! are locked and left alone.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;

use super::queue::{MAX_BATCH, lock};
use super::record::Contents;
use super::{Intake, spill};
use crate::db::clicks::{self, Claim, Hash, Mark, NewClick, NewText};
use crate::db::{Conn, Db, DbError};
use crate::shares::Share;

/// Delay between two attempts while the database accepts nothing.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How long a file that somebody has locked is left alone: another process that writes it, or this one while it syncs it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Stores what is in the spill, at the start and whenever something went there.
pub(super) async fn run(intake: Arc<Intake>, db: Db) {
    let mut reported = ReportedFiles::default();
    loop {
        let left = match replay(&intake, &db, &mut reported).await {
            Ok(found) => {
                // The next click will find out whether the database takes it.
                intake.end_spilling();
                found
            }
            Err(error) => {
                tracing::debug!(%error, "spilled clicks are waiting for the database");
                Left::Unstored
            }
        };
        let is_pending = intake.spilling.load(Ordering::Relaxed) || lock(&intake.spill).is_pending();
        match left {
            Left::Unstored => tokio::time::sleep(RETRY_INTERVAL).await,
            _ if is_pending => tokio::time::sleep(RETRY_INTERVAL).await,
            // Nobody says when it is let go.
            Left::Busy => drop(tokio::time::timeout(BUSY_TIMEOUT, intake.wake_replay.notified()).await),
            Left::Nothing => intake.wake_replay.notified().await,
        }
    }
}

/// What a replay left in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// Somebody has one of them locked, or it cannot be removed.
    Busy,
    /// The database did not take them.
    Unstored,
}

/// Files whose problem is in the log already.
#[derive(Default)]
pub(super) struct ReportedFiles {
    unreadable: HashSet<PathBuf>,
    undeletable: HashSet<PathBuf>,
}

pub(super) async fn replay(intake: &Arc<Intake>, db: &Db, reported: &mut ReportedFiles) -> Result<Left, DbError> {
    loop {
        let mut left = Left::Nothing;
        let directory = lock(&intake.spill).directory().to_owned();
        let files = spill::files(&directory).unwrap_or_else(|error| {
            tracing::error!(%error, "data directory cannot be read");
            Vec::new()
        });
        for path in files {
            if reported.unreadable.contains(&path) {
                continue;
            }
            match replay_file(intake, db, &path).await? {
                Ok(Replayed::Gone) => {}
                Ok(Replayed::Busy) => left = Left::Busy,
                Ok(Replayed::Stays(error)) => {
                    left = Left::Busy;
                    if reported.undeletable.insert(path.clone()) {
                        tracing::error!(path = %path.display(), %error, "loaded spill file cannot be removed");
                    }
                }
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "spill file cannot be read; its clicks stay in it");
                    reported.unreadable.insert(path);
                }
            }
        }
        loop {
            let chunk = lock(&intake.spill).chunk(MAX_BATCH);
            let Some(chunk) = chunk else { break };
            let texts = chunk.clicks.iter().flat_map(|spilled| [&spilled.click.agent, &spilled.click.referer]);
            let texts = texts.flatten().map(|text| (text.hash(), text.text().to_owned())).collect();
            let clicks = chunk.clicks.iter().map(|spilled| (spilled.click.row(), spilled.batch)).collect();
            store(intake, db, &Arc::new(Pieces { number: chunk.number, clicks, texts })).await?;
            lock(&intake.spill).chunk = None;
        }
        // The file being written comes last, so that an attempt that fails does not leave another small one.
        if !lock(&intake.spill).close() {
            return Ok(left);
        }
    }
}

/// What became of a file.
enum Replayed {
    Gone,
    /// Somebody has it locked.
    Busy,
    /// Its clicks are stored; the file could not be removed. It is tried again, so that it does not outlive the note of it.
    Stays(io::Error),
}

/// Stores a file and removes it. The inner error is the file's.
async fn replay_file(intake: &Arc<Intake>, db: &Db, path: &Path) -> Result<io::Result<Replayed>, DbError> {
    let opened = tokio::task::spawn_blocking({
        let path = path.to_owned();
        move || open(&path)
    });
    let (_lock, contents) = match opened.await {
        Ok(Ok(Opened::Yours(file, contents))) => (file, contents),
        Ok(Ok(Opened::Gone)) => return Ok(Ok(Replayed::Gone)),
        Ok(Ok(Opened::Busy)) => return Ok(Ok(Replayed::Busy)),
        Ok(Err(error)) => return Ok(Err(error)),
        Err(error) => return Ok(Err(io::Error::other(error))),
    };
    if contents.torn > 0 {
        tracing::warn!(path = %path.display(), bytes = contents.torn, "spill file ends in a broken record");
    }
    let count = contents.clicks.len();
    let pieces = Pieces { number: contents.number, clicks: contents.clicks, texts: contents.texts };
    store(intake, db, &Arc::new(pieces)).await?;
    tracing::info!(path = %path.display(), clicks = count, "spill file loaded into the database");
    Ok(Ok(std::fs::remove_file(path).map_or_else(Replayed::Stays, |()| Replayed::Gone)))
}

enum Opened {
    /// Locked, so that nobody else stores it, and what it holds.
    Yours(File, Contents),
    /// Another process writes it or stores it, or this one writes or syncs it.
    Busy,
    Gone,
}

/// Reads a file.
fn open(path: &Path) -> io::Result<Opened> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Opened::Gone),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Opened::Busy),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let contents = Contents::read(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Opened::Yours(file, contents))
}

/// Clicks that are stored piece by piece.
struct Pieces {
    number: i64,
    clicks: Vec<(NewClick, Option<Mark>)>,
    texts: BTreeMap<Hash, String>,
}

async fn store(intake: &Arc<Intake>, db: &Db, pieces: &Arc<Pieces>) -> Result<(), DbError> {
    let mut from = 0;
    while from < pieces.clicks.len() {
        let to = pieces.clicks.len().min(from + MAX_BATCH);
        let piece = (Arc::clone(intake), Arc::clone(pieces));
        let stored = if to == pieces.clicks.len() {
            // On the disk before the file goes.
            db.write(Share::Clicks, piece, move |tx, (at, all)| all.store(tx, at, from, to).boxed()).await?
        } else {
            intake.write(db, piece, move |tx, (at, all)| all.store(tx, at, from, to).boxed()).await?
        };
        match stored {
            Stored::Now(clicks) => {
                intake.note_stored(clicks as u64);
                from = to;
            }
            Stored::Before(clicks) => {
                intake.note_stored(0);
                from = usize::try_from(clicks).unwrap_or(0);
            }
        }
        intake.end_spilling();
    }
    Ok(())
}

enum Stored {
    /// So many clicks were stored.
    Now(usize),
    /// So many clicks of the file are stored already.
    Before(i64),
}

impl Pieces {
    /// Stores the clicks from the `from`-th up to the `to`-th, but those whose batch is in the log after all.
    async fn store(&self, tx: &mut Conn<'_>, intake: &Intake, from: usize, to: usize) -> Result<Stored, DbError> {
        let now = intake.clock.now().as_millis();
        let count = |clicks| i64::try_from(clicks).unwrap_or(i64::MAX);
        match clicks::claim_spilled(tx, self.number, count(from), count(to), now).await? {
            Claim::Yours => {}
            Claim::Stored(clicks) => return Ok(Stored::Before(clicks)),
        }
        let piece = &self.clicks[from..to];
        let stored = stored_batches(tx, piece).await?;
        let clicks: Vec<_> = piece
            .iter()
            .filter(|(_, batch)| batch.is_none_or(|batch| !stored.contains(&batch)))
            .map(|(c, _)| *c)
            .collect();
        if clicks.is_empty() {
            return Ok(Stored::Now(0));
        }
        let hashes: BTreeMap<_, _> = clicks
            .iter()
            .flat_map(|click| [click.agent, click.referer])
            .flatten()
            .filter_map(|hash| self.texts.get_key_value(&hash))
            .collect();
        let texts: Vec<_> = hashes.into_iter().map(|(hash, text)| NewText { hash: *hash, text }).collect();
        if !texts.is_empty() {
            clicks::insert_texts(tx, &texts, now - now.rem_euclid(86_400_000)).await?;
        }
        clicks::insert(tx, &intake.head, intake.append_position(&clicks, now), &clicks).await?;
        Ok(Stored::Now(clicks.len()))
    }
}

/// Which of the batches that the clicks name are in the log.
async fn stored_batches(tx: &mut Conn<'_>, piece: &[(NewClick, Option<Mark>)]) -> Result<HashSet<Mark>, DbError> {
    let batches: HashSet<_> = piece.iter().filter_map(|(_, batch)| *batch).collect();
    let mut stored = HashSet::new();
    if !batches.is_empty() {
        // The transaction of such a batch may still be open, with its answer lost on the way.
        clicks::lock_log(tx).await?;
    }
    for batch in batches {
        if clicks::is_stored(tx, batch).await? {
            stored.insert(batch);
        }
    }
    Ok(stored)
}
