//! Clicks left by versions without a journal, stored once at the first start: clicks in the log that are not counted
//! yet, and files ("spill files") with clicks that the database could not accept in time.
//!
//! ```text
//! header  "DLCLICK1", number of the file (8)
//! frame   length of the items (4), items, checksum of all that (4)
//! item    "T", hash (16), length (2), text
//!         "C", link (8), at (8), kind (1), platform (1), present (1), agent (0 or 16), referer (0 or 16),
//!              batch: position, link, at (0 or 24)
//! ```

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deeplink_core::visitor::referer_host;
use futures_util::FutureExt;

use super::Intake;
use crate::db::clicks::{self, Group, Hash, JournalState, NewClick, NewText, StoredBatch};
use crate::db::{Conn, Db, DbError};
use crate::shares::Share;

/// Clicks that are stored at a time.
const MAX_CLICKS: usize = 1_024;
const SUFFIX: &str = "spill";

/// Stores all of it.
pub(super) async fn take_over(intake: &Intake, db: &Db) -> Result<(), DbError> {
    while let Some(batch) = clicks::next_uncounted(&mut db.read().await?.conn()).await? {
        let job = (batch, intake.months);
        db.write(Share::Clicks, job, |tx, (batch, months)| clicks::count_earlier(tx, batch, *months).boxed()).await?;
    }
    for path in spill_files(&intake.data) {
        let read = std::fs::read(&path).ok().and_then(|bytes| SpillFile::read(&bytes));
        let Some(file) = read else {
            tracing::error!(path = %path.display(), "spill file of an earlier version cannot be read; its clicks remain in the file");
            continue;
        };
        store_file(intake, db, file).await?;
        match std::fs::remove_file(&path) {
            Ok(()) => tracing::info!(path = %path.display(), "spill file of an earlier version loaded"),
            Err(error) => tracing::error!(path = %path.display(), %error, "loaded spill file cannot be removed"),
        }
    }
    Ok(())
}

fn spill_files(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == SUFFIX)).collect();
    files.sort();
    files
}

/// A file of clicks, each with the batch that may have stored it.
#[derive(Debug, Default)]
struct SpillFile {
    number: i64,
    clicks: Vec<(NewClick, Option<StoredBatch>)>,
    texts: BTreeMap<Hash, String>,
}

async fn store_file(intake: &Intake, db: &Db, file: SpillFile) -> Result<(), DbError> {
    let file = Arc::new(file);
    let mut from = 0;
    while from < file.clicks.len() {
        let to = file.clicks.len().min(from + MAX_CLICKS);
        let now = intake.clock.now().as_millis();
        let rows: Vec<_> = file.clicks[from..to].iter().map(|(click, _)| *click).collect();
        let append = intake.append_position(&rows, now);
        let job = (Arc::clone(&file), Arc::clone(&intake.head), intake.months);
        let stored = db.write(Share::Clicks, job, move |tx, (file, head, months)| {
            async move {
                let (begin, end) = (from as u64, to as u64);
                if let Some(stored) =
                    clicks::claim_piece(tx, file.number, JournalState::beginning(0), (begin, end), now).await?
                {
                    return Ok::<_, DbError>(Some(stored));
                }
                let clicks = file.unstored(tx, from, to).await?;
                file.store(tx, &clicks, now).await?;
                if !clicks.is_empty() {
                    clicks::insert(tx, head, append, &clicks).await?;
                    let group = |click: &NewClick| Group::of_one(click, file.host(click.referer));
                    clicks::add_counts(tx, &clicks.iter().map(group).collect::<Vec<_>>(), *months).await?;
                }
                Ok(None)
            }
            .boxed()
        });
        from = match stored.await? {
            None => to,
            Some(stored) => usize::try_from(stored).unwrap_or(to),
        };
    }
    Ok(())
}

impl SpillFile {
    /// Reads a spill file up to the first damaged frame. `None` if it is not a spill file.
    fn read(mut from: &[u8]) -> Option<Self> {
        if take(&mut from)? != *b"DLCLICK1" {
            return None;
        }
        let mut file = Self { number: i64::from_le_bytes(take(&mut from)?), ..Self::default() };
        while let Some((mut items, after)) = frame(from) {
            while !items.is_empty() {
                file.read_item(&mut items)?;
            }
            from = after;
        }
        Some(file)
    }

    fn read_item(&mut self, from: &mut &[u8]) -> Option<()> {
        match take(from)? {
            [b'T'] => {
                let hash = take(from)?;
                let length = usize::from(u16::from_le_bytes(take(from)?));
                let (text, rest) = from.split_at_checked(length)?;
                *from = rest;
                self.texts.insert(hash, String::from_utf8_lossy(text).into_owned());
            }
            [b'C'] => {
                let [link, at] = numbers(from)?;
                let [kind, platform, present] = take(from)?;
                let agent = if present & 1 == 0 { None } else { Some(take(from)?) };
                let referer = if present & 2 == 0 { None } else { Some(take(from)?) };
                let batch = if present & 4 == 0 { None } else { Some(numbers(from)?) };
                let batch = batch.map(|[position, link, at]| StoredBatch { position, link, at });
                self.clicks
                    .push((NewClick { link, at, kind, platform, agent_code: 0, country: 0, agent, referer }, batch));
            }
            _ => return None,
        }
        Some(())
    }

    /// The clicks in a range, except those whose batch is in the log.
    async fn unstored(&self, tx: &mut Conn<'_>, from: usize, to: usize) -> Result<Vec<NewClick>, DbError> {
        let (mut stored, mut clicks) = (BTreeMap::new(), Vec::new());
        for (click, batch) in &self.clicks[from..to] {
            let is_stored = match batch {
                None => false,
                Some(batch) => match stored.get(&batch.position) {
                    Some(known) => *known,
                    None => {
                        let found = clicks::is_stored(tx, *batch).await?;
                        stored.insert(batch.position, found);
                        found
                    }
                },
            };
            if !is_stored {
                clicks.push(*click);
            }
        }
        Ok(clicks)
    }

    /// Stores the texts of clicks.
    async fn store(&self, tx: &mut Conn<'_>, clicks: &[NewClick], now: i64) -> Result<(), DbError> {
        let named: HashSet<Hash> = clicks.iter().flat_map(|click| [click.agent, click.referer]).flatten().collect();
        let texts = self.texts.iter().filter(|(hash, _)| named.contains(*hash));
        let texts: Vec<_> = texts.map(|(hash, text)| NewText { hash: *hash, text }).collect();
        clicks::insert_texts(tx, &texts, now - now.rem_euclid(86_400_000)).await
    }

    fn host(&self, referer: Option<Hash>) -> String {
        referer.and_then(|hash| self.texts.get(&hash)).map(|text| referer_host(text)).unwrap_or_default()
    }
}

/// The items of the frame that begins here, and the remaining bytes. `None` if no complete frame begins here.
fn frame(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u32::from_le_bytes(*from.first_chunk()?)).ok()?;
    let (checked, mut rest) = from.split_at_checked(length.checked_add(4)?)?;
    (checksum(checked) == u32::from_le_bytes(take(&mut rest)?)).then_some((&checked[4..], rest))
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

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
