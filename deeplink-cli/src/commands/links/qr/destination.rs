//! Where codes go: stdout, one file, or a directory with a file for each link.

use deeplink_core::text::shell_word;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use deeplink_core::qr::QrFormat;

use crate::context::{Context, is_stdin};
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::files::{self, Readers};
use crate::progress::counted;

/// Where the files of the service go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf),
    Dir(PathBuf),
}

impl Destination {
    /// What `--out` names.
    pub(crate) fn out(path: PathBuf) -> Self {
        // If stdout is a file, the shell has opened it, and it must not be replaced.
        let names_stdout = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name));
        if is_stdin(&path) || names_stdout { Self::Stdout } else { Self::File(path) }
    }

    /// The file of a link.
    pub(crate) fn path(&self, id: &str, format: QrFormat) -> PathBuf {
        match self {
            Self::Stdout => PathBuf::from("-"),
            Self::File(path) => path.clone(),
            Self::Dir(dir) => dir.join(format!("{id}.{format}")),
        }
    }

    /// Refuses a destination that cannot be written, before any request.
    pub(crate) fn check(&self, ids: &[String], format: QrFormat, force: bool) -> Outcome {
        match self {
            Self::Stdout => return Ok(()),
            Self::File(path) if path.is_dir() || path.to_string_lossy().ends_with(std::path::is_separator) => {
                let what = format!("--out: {} is a directory", shown(path));
                let hint = format!("use --dir {} to write ID.{format} there", shell_word(&path.to_string_lossy()));
                return Err(Failure::usage(what).hint(hint).into());
            }
            Self::File(path) => {
                let end = end_of(path);
                let parent = end.parent().filter(|dir| !dir.as_os_str().is_empty());
                if let Some(dir) = parent.filter(|dir| !dir.is_dir()) {
                    let what = format!("--out: no such directory: {}", shown(dir));
                    return Err(Failure::usage(what)
                        .hint("create it first, or use --dir DIR, which is created if missing")
                        .into());
                }
                if is_device(path) {
                    return Ok(());
                }
            }
            Self::Dir(dir) if dir.exists() && !dir.is_dir() => {
                let what = format!("--dir: {} is a file, not a directory", shown(dir));
                return Err(Failure::usage(what).hint("use another directory; it is created if missing").into());
            }
            Self::Dir(_) => {
                let mut paths = ids.iter().map(|id| self.path(id, format));
                if let Some(path) = paths.find(|path| path.is_dir() || !force && is_device(path)) {
                    let what = format!("--dir: {} already exists and is not a file", shown(&path));
                    return Err(Failure::usage(what).hint("move it, or use another directory").into());
                }
            }
        }
        let mut there = ids.iter().map(|id| self.path(id, format)).filter(|path| !force && path.exists());
        match (there.next(), there.count()) {
            (None, _) => Ok(()),
            (Some(first), 0) => Err(self.is_there(&first)),
            (Some(first), more) => {
                let files = counted(u64::try_from(more + 1).unwrap_or(u64::MAX), "file");
                Err(self.exists(format!("{files} already exist, such as {}", shown(&first))))
            }
        }
    }

    fn is_there(&self, path: &Path) -> Stop {
        self.exists(format!("{} already exists", shown(path)))
    }

    fn exists(&self, what: String) -> Stop {
        let hint = match self {
            Self::Dir(_) => "use --skip-existing to keep existing files, or --force to replace them",
            _ => "use --force to replace it",
        };
        Failure::usage(what).code(FILE_EXISTS).hint(hint).into()
    }

    /// Writes the file of a link completely or not at all.
    pub(crate) async fn write(&self, ctx: &Context, path: &Path, image: &Bytes, force: bool) -> Outcome {
        if *self == Self::Stdout {
            // On a terminal this is always text; unexpected bytes are made printable.
            return if ctx.out.terminal {
                ctx.out.line(String::from_utf8_lossy(image).trim_end_matches('\n'))
            } else {
                ctx.out.raw(image)
            };
        }
        if is_device(path) {
            // A pipe may have no reader; Ctrl-C must work meanwhile.
            let (device, image) = (path.to_owned(), image.clone());
            let written = tokio::task::spawn_blocking(move || to_device(&device, &image)).await;
            return written.unwrap_or_else(|error| Err(Failure::file("write", path.display(), &error.into()).into()));
        }
        let end = end_of(path);
        if force {
            return files::replace(&end, image, Readers::Umask);
        }
        if files::create(&end, image, Readers::Umask)? { Ok(()) } else { Err(self.is_there(path)) }
    }
}

/// Longest chain of symbolic links that is followed, as in Linux.
const MAX_LINKS: usize = 40;

/// The file that a path leads to through symbolic links, whether it exists or not.
fn end_of(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Whether this is something other than a file, such as a pipe or `/dev/null`: it is written to, never replaced.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn to_device(path: &Path, image: &[u8]) -> Outcome {
    let mut device =
        OpenOptions::new().write(true).open(path).map_err(|error| Failure::file("write", path.display(), &error))?;
    if device.is_terminal() {
        return Err(Failure::usage(format!("{} is a terminal", shown(path)))
            .hint("use --show to display the code there")
            .into());
    }
    device.write_all(image).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::ClosedPipe,
        _ => Failure::file("write", path.display(), &error).into(),
    })
}

/// Code of a failure that concerns only one file.
pub(super) const FILE_EXISTS: &str = "file_exists";

fn shown(path: &Path) -> String {
    escape::one_line(&path.to_string_lossy()).into_owned()
}
