//! Files and directories that only their owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Opens or creates a file that only its owner can read and write.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    options().create(true).truncate(false).open(path)
}

/// Creates such a file; an existing one is an error.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    options().create_new(true).open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory that only its owner can enter, and its parents. An existing one is left as it is.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    sync_parent(path)
}

/// Replaces a file so that a crash leaves the old one or the new one.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_parent(path)
}

/// Ensures that a file's name survives a crash.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        #[cfg(unix)]
        Some(parent) => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}
