//! Files and directories that only their owner can read, whatever the process's umask says: databases and their copies,
//! locks, keys and mails.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Creates a directory and its missing parents. One that exists keeps its mode.
pub(crate) fn create_dir(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)
}

/// Options that make a newly created file private. One that exists keeps its mode.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Creates an empty file, or fails if there is one.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// Creates an empty file unless there is one.
pub(crate) fn create_if_missing(path: &Path) -> io::Result<()> {
    options().append(true).create(true).open(path).map(drop)
}

/// Whether anyone but the owner and root can enter a directory or read its contents.
pub(crate) fn is_open_to_others(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

/// Makes private a file that an earlier version created.
pub(crate) fn close_to_others(file: &File) -> io::Result<()> {
    match file.metadata()?.permissions().mode() & 0o777 {
        FILE_MODE => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(FILE_MODE)),
    }
}
