//! Files that are written completely or not at all. What may hold a secret only its owner may read, and it is refused if
//! others can.

use deeplink_core::text::shell_word;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;

/// Largest key or configuration file that is read.
const MAX_LEN: u64 = 1 << 20;

/// Who may read what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its owner alone: it may hold a secret.
    Owner,
    /// Whom the umask allows, as with any other program.
    Umask,
}

/// Creates a directory that only its owner may enter; an existing one is left as it is.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Holds a directory's lock until it is dropped, so that two runs do not overwrite each other's change.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

impl Lock {
    /// Waits for the lock of a directory, which is created if missing.
    pub(crate) fn of(dir: &Path) -> Outcome<Self> {
        let path = dir.join("lock");
        let open = || -> io::Result<File> {
            make_dir(dir)?;
            let file = open_private(&path)?;
            file.lock()?;
            Ok(file)
        };
        Ok(Self(open().map_err(|error| Failure::file("lock", path.display(), &error))?))
    }
}

/// Replaces a file in one step: exclusive temporary file, fsync, rename, fsync of the directory. At any time
/// the file has the old or the new content.
pub(crate) fn replace(path: &Path, content: &[u8], readers: Readers) -> Outcome {
    // Through a symbolic link (a managed dotfile), the file itself is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let write = || temporary(&path, content, readers)?.persist(&path).map(drop).map_err(io::Error::from);
    write()
        .and_then(|()| sync_dir(dir_of(&path)))
        .map_err(|error| Failure::file("write", path.display(), &error).into())
}

/// The same for a file that does not exist yet; `false` if it does, and then it is left as it is.
pub(crate) fn create(path: &Path, content: &[u8], readers: Readers) -> Outcome<bool> {
    let failed = |error: io::Error| Stop::from(Failure::file("write", path.display(), &error));
    // A folder that cannot be created because a file has its name also counts as existing: no reason to try another
    // name.
    let file = temporary(path, content, readers).map_err(failed)?;
    match file.persist_noclobber(path).map_err(io::Error::from).and_then(|_| sync_dir(dir_of(path))) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Creates a new file that only its owner may read.
pub(crate) fn make_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    options.open(path)
}

/// Opens a file that only its owner may read, or creates it; its content is left as it is.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    private(&mut options);
    options.open(path)
}

/// The directory a file is in.
pub(crate) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A synced temporary file beside `path` with this content; it is removed unless it is renamed.
fn temporary(path: &Path, content: &[u8], readers: Readers) -> io::Result<tempfile::NamedTempFile> {
    // tempfile opens with O_EXCL and mode 0600, whatever the umask.
    let mut builder = tempfile::Builder::new();
    builder.prefix(".dl-");
    match readers {
        Readers::Owner => make_dir(dir_of(path))?,
        Readers::Umask => {
            fs::create_dir_all(dir_of(path))?;
            #[cfg(unix)]
            builder.permissions(public(path));
        }
    }
    let mut file = builder.tempfile_in(dir_of(path))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Syncs a directory.
#[cfg(unix)]
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Syncs a directory.
#[cfg(not(unix))]
pub(crate) fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The mode of a file that may be replaced, else that of any new file; the umask limits both.
#[cfg(unix)]
fn public(path: &Path) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;

    let mode = fs::metadata(path).map_or(0o666, |there| there.permissions().mode() & 0o777);
    fs::Permissions::from_mode(mode)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

/// Reads a file that only its owner may read or write; `None` if it does not exist.
pub(crate) fn read_private(path: &Path) -> Outcome<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file("read", path.display(), &error).into()),
    };
    // Checked on the open file, so that it cannot be swapped in between.
    check_owner(&file, path)?;
    let mut text = String::new();
    match file.take(MAX_LEN).read_to_string(&mut text) {
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Failure::invalid(format!("{} is not UTF-8 text", path.display())).into())
        }
        Err(error) => Err(Failure::file("read", path.display(), &error).into()),
    }
}

#[cfg(unix)]
fn check_owner(file: &File, path: &Path) -> Outcome {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let found = file.metadata().map_err(|error| Failure::file("read", path.display(), &error))?;
    // A pipe (as of `<(…)`) belongs to the process that made it, and its mode does not matter.
    if !found.is_file() {
        return Ok(());
    }
    let refuse = |what: String, fix: String| Err(Failure::new(Exit::Auth, what).code("unsafe_file").hint(fix).into());
    let shown = path.display();
    let quoted = path.to_string_lossy();
    let quoted = shell_word(&quoted);
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return refuse(format!("{shown} is readable by other users (mode {mode:04o})"), format!("chmod 600 {quoted}"));
    }
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me && found.uid() != 0 {
        let what = format!("{shown} belongs to another user (uid {})", found.uid());
        return refuse(what, format!("chown {me} {quoted} && chmod 600 {quoted}"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &File, _: &Path) -> Outcome {
    Ok(())
}
