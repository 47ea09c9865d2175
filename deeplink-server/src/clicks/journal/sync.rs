//! Syncs the journal to the disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::super::lock;
use super::super::segment::{Segment, UNREADY};
use super::{Journal, at};
use crate::private;

/// A segment that must be synced.
pub(super) struct Unsynced {
    pub(super) segment: Arc<Segment>,
    /// `None` once syncing it has failed.
    pub(super) file: Option<Arc<File>>,
}

impl Journal {
    /// Syncs what may not be on the disk yet. A segment that cannot be synced is written to another file next time.
    pub(in crate::clicks) fn sync(&self) -> io::Result<()> {
        let unsynced = {
            let mut state = lock(&self.state);
            let mut unsynced = std::mem::take(&mut state.unsynced);
            if let Some(open) = state.open.as_mut().filter(|open| !open.is_synced) {
                open.is_synced = true;
                unsynced.extend(open.unsynced());
            }
            unsynced
        };
        let mut synced = Ok(());
        let mut can_rewrite = true;
        let (mut failed, mut skipped, mut uncopied) = (Vec::new(), Vec::new(), Vec::new());
        for Unsynced { segment, file } in unsynced {
            let done = match &file {
                Some(file) => self.sync_file(file),
                // One attempt says enough about the disk: each writes up to a whole segment.
                None if can_rewrite => self.rewrite(&segment).inspect_err(|_| can_rewrite = false),
                None => {
                    skipped.push(Unsynced { segment, file });
                    continue;
                }
            };
            if let Err(error) = done {
                synced = Err(error);
                let mut state = lock(&self.state);
                if state.open.as_ref().is_some_and(|open| Arc::ptr_eq(&open.segment, &segment)) {
                    state.close();
                }
                drop(state);
                let list = if file.is_some() { &mut failed } else { &mut uncopied };
                list.push(Unsynced { segment, file: None });
            }
        }
        // One that cannot be copied holds up no other next time.
        lock(&self.state).unsynced.extend(skipped.into_iter().chain(failed).chain(uncopied));
        // Also those of files that were rewritten.
        let has_new_names = std::mem::take(&mut lock(&self.state).has_new_names);
        if has_new_names && let Err(error) = sync_folder(&self.folder) {
            synced = Err(error);
            lock(&self.state).has_new_names = true;
        }
        synced
    }

    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "the disk breaks in tests"))]
    fn sync_file(&self, file: &File) -> io::Result<()> {
        #[cfg(test)]
        lock(&self.disk)()?;
        file.sync_data()
    }

    /// Writes a closed segment whose file could not be synced to another file. Syncing the first one again would succeed
    /// without effect, because the kernel reports a failure once; what it could not write is still in its cache.
    fn rewrite(&self, segment: &Segment) -> io::Result<()> {
        let Some(path) = segment.path() else { return Ok(()) };
        let written = match std::fs::read(&path) {
            Ok(written) => written,
            // It is in the database.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let unready = path.with_extension(UNREADY);
        let mut file = private::options().write(true).create(true).truncate(true).open(&unready)?;
        let copied = file.write_all(&written).and_then(|()| self.sync_file(&file));
        if let Err(error) = copied.and_then(|()| put_in_place(segment, &unready, &path)) {
            drop(std::fs::remove_file(&unready));
            return Err(error);
        }
        lock(&self.state).has_new_names = true;
        Ok(())
    }
}

/// Replaces the file of a segment, unless it was removed or set aside while it was copied.
fn put_in_place(segment: &Segment, unready: &Path, path: &Path) -> io::Result<()> {
    // Only now, so that nobody waits for the disk.
    let _bytes = lock(&segment.bytes);
    if path.try_exists()? { std::fs::rename(unready, path) } else { std::fs::remove_file(unready) }
}

/// Syncs the names in a folder.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| at(folder, &error))
}
