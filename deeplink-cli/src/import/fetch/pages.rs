//! The links that have been read: one per line in a file, and beside it a record of how far the reading has come.
//!
//! The lines of a page are durable before the record counts them. After an interruption, reading continues with the first
//! page that the record does not count.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::apis::{Cursor, Page};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::files::{self, Readers};

/// How far the reading has come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) begun_at: Timestamp,
    /// Length of the lines that count.
    bytes: u64,
    pub(super) links: u64,
    pub(super) pages: u64,
    /// `None` once everything has been read.
    pub(super) next: Option<Cursor>,
}

impl Record {
    fn new() -> Self {
        Self { begun_at: crate::clock::now(), bytes: 0, links: 0, pages: 0, next: Some(Cursor::Start) }
    }

    /// Whether a file of this length has all the lines that count. A complete one may have been edited.
    fn fits(&self, length: u64) -> bool {
        match self.next {
            Some(_) => length >= self.bytes,
            None => length > 0 || self.bytes == 0,
        }
    }
}

/// The file of lines and its record.
pub(super) struct Pages {
    path: PathBuf,
    file: File,
    pub(super) record: Record,
}

impl Pages {
    /// Opens or creates the file, and locks it. With `restart`, what it has is dropped.
    pub(super) fn open(path: &Path, restart: bool) -> Outcome<Self> {
        let failed = |error: &io::Error| Failure::file("write", path.display(), error);
        files::make_dir(files::dir_of(path)).map_err(|error| failed(&error))?;
        let file = files::open_private(path).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = "another dl is reading these links";
                return Err(Failure::new(Exit::Conflict, what)
                    .code("run_locked")
                    .hint("wait until it finishes")
                    .into());
            }
            Err(TryLockError::Error(error)) => return Err(failed(&error).into()),
        }
        let length = file.metadata().map_err(|error| failed(&error))?.len();
        let known = if restart { None } else { files::read_private(&record_path(path))? };
        let known = known.and_then(|text| serde_json::from_str::<Record>(&text).ok());
        let record = known.filter(|record| record.fits(length)).unwrap_or_else(Record::new);
        if record.next.is_some() {
            file.set_len(record.bytes).map_err(|error| failed(&error))?;
        }
        let pages = Self { path: path.to_owned(), file, record };
        pages.save()?;
        Ok(pages)
    }

    /// Adds a page.
    pub(super) fn add(&mut self, page: Page) -> Outcome {
        if let Some(links) = page.links {
            let mut lines = String::new();
            for link in &links {
                // In JSON, a line break can only be between values.
                lines.push_str(&link.get().replace(['\n', '\r'], " "));
                lines.push('\n');
            }
            let at = self.record.bytes;
            self.write(at, lines.as_bytes()).map_err(|error| Failure::file("write", self.path.display(), &error))?;
            self.record.bytes += lines.len() as u64;
            self.record.links += links.len() as u64;
            self.record.pages += 1;
        }
        self.record.next = page.next;
        self.save()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }

    fn save(&self) -> Outcome {
        let text = serde_json::to_string(&self.record)
            .map_err(|error| Failure::new(Exit::Failure, format!("{}: {error}", self.path.display())))?;
        files::replace(&record_path(&self.path), text.as_bytes(), Readers::Owner)
    }
}

/// Removes a file and its record.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    // In this order, what an interruption leaves is recognized as incomplete.
    fs::remove_file(path)?;
    fs::remove_file(record_path(path))
}

fn record_path(path: &Path) -> PathBuf {
    path.with_extension("state")
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn page(link: &str, next: Option<Cursor>) -> Page {
        Page { links: Some(vec![RawValue::from_string(link.to_owned()).expect("JSON")]), next }
    }

    #[test]
    fn only_what_the_record_counts_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("reads").join("dub-1.jsonl");
        let text = || fs::read_to_string(&path).expect("a file");
        let mut pages = Pages::open(&path, false).expect("opened");
        pages.add(page("{\n\"id\": 1}", Some(Cursor::Page(2)))).expect("added");
        assert!(Pages::open(&path, false).is_err(), "it is locked");
        drop(pages);
        // The process ended while it wrote the second page.
        fs::write(&path, text() + "{\"id\": 2}\n{\"id").expect("written");
        let mut pages = Pages::open(&path, false).expect("opened");
        assert_eq!((pages.record.links, &pages.record.next), (1, &Some(Cursor::Page(2))));
        assert_eq!(text(), "{ \"id\": 1}\n");
        pages.add(page("{\"id\": 3}", None)).expect("added");
        drop(pages);
        let pages = Pages::open(&path, false).expect("opened");
        assert_eq!((pages.record.links, pages.record.pages, &pages.record.next), (2, 2, &None));
        assert_eq!(text(), "{ \"id\": 1}\n{\"id\": 3}\n");
        drop(pages);
        // A complete file can be edited, but not emptied.
        fs::write(&path, "{}\n").expect("written");
        assert_eq!(Pages::open(&path, false).expect("opened").record.next, None);
        fs::write(&path, "").expect("written");
        assert_eq!(Pages::open(&path, false).expect("opened").record.next, Some(Cursor::Start));
        remove(&path).expect("removed");
        assert_eq!(fs::read_dir(path.parent().expect("a directory")).expect("listed").count(), 0);
    }

    #[test]
    fn a_restart_drops_what_has_been_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("dub-1.jsonl");
        Pages::open(&path, false).expect("opened").add(page("{}", None)).expect("added");
        let pages = Pages::open(&path, true).expect("opened");
        assert_eq!((pages.record.links, &pages.record.next), (0, &Some(Cursor::Start)));
        assert_eq!(fs::read_to_string(&path).expect("a file"), "");
    }
}
