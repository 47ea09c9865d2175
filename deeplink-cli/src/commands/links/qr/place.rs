//! Where codes go: stdout, one file, or a directory with a file for each link.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use deeplink_core::qr::QrFormat;

use crate::context::{Context, is_stdin};
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::files;
use crate::progress::counted;

/// Where the files of the service go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Stdout,
    File(PathBuf),
    Dir(PathBuf),
}

impl Place {
    /// What `--out` names.
    pub(super) fn out(path: PathBuf) -> Self {
        if is_stdin(&path) { Self::Stdout } else { Self::File(path) }
    }

    /// The file of a link.
    pub(super) fn path(&self, id: &str, format: QrFormat) -> PathBuf {
        match self {
            Self::Stdout => PathBuf::from("-"),
            Self::File(path) => path.clone(),
            Self::Dir(dir) => dir.join(format!("{id}.{format}")),
        }
    }

    /// Refuses what could not be written in the end, before anything is asked for.
    pub(super) fn check(&self, ids: &[String], format: QrFormat, force: bool) -> Outcome {
        match self {
            Self::Stdout => return Ok(()),
            Self::File(path) if path.is_dir() => {
                let what = format!("--out: {} is a directory", shown(path));
                return Err(Failure::usage(what).hint("--dir writes ID.FORMAT into it").into());
            }
            Self::File(path) => {
                let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
                if let Some(dir) = parent.filter(|dir| !dir.is_dir()) {
                    return Err(Failure::usage(format!("--out: there is no directory {}", shown(dir))).into());
                }
                if is_device(path) {
                    return Ok(());
                }
            }
            Self::Dir(dir) if dir.exists() && !dir.is_dir() => {
                return Err(Failure::usage(format!("--dir: {} is no directory", shown(dir))).into());
            }
            Self::Dir(_) => {}
        }
        let mut there = ids.iter().map(|id| self.path(id, format)).filter(|path| !force && path.exists());
        match (there.next(), there.count()) {
            (None, _) => Ok(()),
            (Some(first), 0) => Err(is_there(&first)),
            (Some(first), more) => {
                let files = counted(u64::try_from(more + 1).unwrap_or(u64::MAX), "file");
                Err(exists(format!("{files} are there already, such as {}", shown(&first))))
            }
        }
    }

    /// Writes the file of a link, whole or not at all.
    pub(super) fn write(&self, ctx: &Context, path: &Path, image: &[u8], force: bool) -> Outcome {
        if *self == Self::Stdout {
            // On a terminal this is an SVG; whatever else came would not be one.
            return if ctx.out.terminal {
                ctx.out.line(String::from_utf8_lossy(image).trim_end_matches('\n'))
            } else {
                ctx.out.raw(image)
            };
        }
        if is_device(path) {
            return to_device(path, image);
        }
        if force {
            return files::replace(path, image);
        }
        if files::create(path, image)? { Ok(()) } else { Err(is_there(path)) }
    }
}

/// Whether this is something else than a file, such as a pipe or `/dev/null`: it is written to, never replaced.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn to_device(path: &Path, image: &[u8]) -> Outcome {
    let mut device =
        OpenOptions::new().write(true).open(path).map_err(|error| Failure::file("write", path.display(), &error))?;
    if device.is_terminal() {
        return Err(Failure::usage(format!("{} is a terminal", shown(path)))
            .hint("--show draws the code there")
            .into());
    }
    device.write_all(image).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::ClosedPipe,
        _ => Failure::file("write", path.display(), &error).into(),
    })
}

fn is_there(path: &Path) -> Stop {
    exists(format!("{} is there already", shown(path)))
}

fn exists(what: String) -> Stop {
    Failure::usage(what).code("file_exists").hint("--force replaces what is there").into()
}

fn shown(path: &Path) -> String {
    escape::one_line(&path.to_string_lossy()).into_owned()
}
