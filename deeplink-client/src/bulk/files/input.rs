//! A file that can be read several times at once, from any offset.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use deeplink_core::secret::Random;

use super::super::private::create_private;

/// A file, or input spooled into one.
#[derive(Debug, Clone)]
pub(super) struct Input(Arc<File>);

impl Input {
    /// Opens a regular file; spools anything else, such as a pipe.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.is_file() { Ok(Self(Arc::new(file))) } else { Self::spool(file) }
    }

    /// Copies everything into an unnamed file that is deleted with this value.
    pub(super) fn spool(mut input: impl Read) -> io::Result<Self> {
        let mut random = Random::system();
        let tail: String = (0..16).map(|_| random.pick(b"0123456789abcdef")).collect();
        let path = std::env::temp_dir().join(format!("deeplink-import-{tail}"));
        let mut file = create_private(&path)?;
        // Where an open file cannot be unlinked, it stays until the system clears its temporary files.
        let unlinked = std::fs::remove_file(&path);
        if cfg!(unix) {
            unlinked?;
        }
        io::copy(&mut input, &mut file)?;
        file.flush()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self(Arc::new(file)))
    }

    /// An independent reader, starting at a byte.
    pub(super) fn from(&self, at: u64) -> Reader {
        Reader { file: Arc::clone(&self.0), at }
    }

    /// The first bytes, at most `most`.
    pub(super) fn head(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.from(0).take(most as u64).read_to_end(&mut head)?;
        Ok(head)
    }
}

/// Reads a file at its own offset, independent of other readers.
#[derive(Debug)]
pub(super) struct Reader {
    file: Arc<File>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(&*self.file, buffer, self.at)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(&*self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
