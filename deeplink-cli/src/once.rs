//! Secrets that are shown once: on stdout, or in a file that was made before they were.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::files;
use crate::output::{Format, Record, Sheet};

/// Where a new secret goes.
#[derive(Debug, Args)]
pub(crate) struct SecretOut {
    /// File for the key, which must not be there yet; without it the key goes to stdout
    #[arg(long, value_name = "FILE")]
    out_file: Option<PathBuf>,
}

/// Ready to take a secret.
pub(crate) struct Place<'a> {
    ctx: &'a Context,
    /// Which member of the answer is the secret.
    member: &'static str,
    file: Option<Empty>,
}

/// A file that is there for a secret and goes again without one.
struct Empty {
    path: PathBuf,
    file: File,
    filled: bool,
}

impl Drop for Empty {
    fn drop(&mut self) {
        if !self.filled {
            // It is ours and holds nothing.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl SecretOut {
    /// Makes sure, before anything is asked for, that the secret will not be lost.
    pub(crate) fn prepare<'a>(&self, ctx: &'a Context, sheet: &Sheet<'_>, member: &'static str) -> Outcome<Place<'a>> {
        let shown = match &sheet.fields {
            Some(fields) => fields.iter().any(|field| field.name == member),
            None => ctx.out.format != Format::Id,
        };
        let file = match &self.out_file {
            _ if ctx.global.dry_run => None,
            Some(path) => Some(make(path)?),
            None if shown => None,
            None => {
                let what = "the key is shown this once, and this form of output leaves it out";
                return Err(Failure::usage(what).hint("--out-file FILE keeps it").into());
            }
        };
        Ok(Place { ctx, member, file })
    }
}

fn make(path: &Path) -> Outcome<Empty> {
    match files::make_private(path) {
        Ok(file) => Ok(Empty { path: path.to_owned(), file, filled: false }),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let what = format!("{} is there already, and is not overwritten", path.display());
            Err(Failure::usage(what).code("file_exists").hint("--out-file takes the name of a new file").into())
        }
        Err(error) => Err(Failure::file("write", path.display(), &error).into()),
    }
}

impl Place<'_> {
    /// Puts the secret of an answer where it goes, and prints the answer.
    pub(crate) fn take(self, sheet: &Sheet<'_>, raw: &[u8], secret: &str) -> Outcome {
        self.ctx.console.hide(secret);
        let raw = String::from_utf8_lossy(raw);
        let Some(mut empty) = self.file else { return sheet.created(&raw) };
        if let Err(error) = write(&mut empty, secret) {
            let failure = Failure::file("write", empty.path.display(), &error);
            return Err(print_instead(self.ctx, secret, failure.into(), "the key could not be written to its file"));
        }
        let record = Record::read(&raw).unwrap_or_default();
        self.ctx.console.say(&format!("the key is in {}", empty.path.display()));
        match (self.ctx.out.format, &sheet.fields) {
            (Format::Table, None) => {
                self.ctx.out.line(&record.cell(sheet.noun.id).unwrap_or_default())?;
                self.ctx.out.flush()
            }
            _ => sheet.one(&record.without(self.member)),
        }
    }
}

fn write(empty: &mut Empty, secret: &str) -> std::io::Result<()> {
    empty.file.write_all(format!("{secret}\n").as_bytes())?;
    empty.file.sync_all()?;
    empty.filled = true;
    Ok(())
}

/// A secret that is in one answer and nowhere else: better on the screen than lost.
pub(crate) fn print_instead(ctx: &Context, secret: &str, why: Stop, what: &str) -> Stop {
    if let Err(stop) = ctx.out.line(secret).and_then(|()| ctx.out.flush()) {
        return stop;
    }
    if let Stop::Failed(failure) = why {
        ctx.console.failure(&failure);
    }
    let failure = Failure::new(Exit::Failure, format!("{what}; it is printed above, once"));
    failure.hint("dl login --with-key keeps it").into()
}
