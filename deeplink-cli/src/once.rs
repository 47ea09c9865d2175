//! Secrets that are shown once: on stdout, or in a file that was made before they were.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use deeplink_core::secret::SecretKey;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop, plain};
use crate::exit::Exit;
use crate::files;
use crate::output::{Format, Record, Sheet};
use crate::signals::Patient;
use crate::store::Unkept;

/// Where a new secret goes.
#[derive(Debug, Args)]
pub(crate) struct SecretOut {
    /// File for the secret, which must not be there yet; without it the secret goes to stdout
    #[arg(long, value_name = "FILE")]
    out_file: Option<PathBuf>,
}

/// A sort of secret that is about to be made.
pub(crate) struct Kind {
    /// Which member of the answer is the secret.
    pub(crate) member: &'static str,
    /// The command that deletes one by its id.
    pub(crate) delete: String,
    /// What it is called.
    what: &'static str,
    /// The flags with which a command on its id shows it again, where that can be done.
    again: Option<(&'static str, &'static str)>,
}

impl Kind {
    /// A key, which is shown this once.
    pub(crate) fn key(member: &'static str, delete: &str) -> Self {
        Self { member, delete: delete.to_owned(), what: "key", again: None }
    }

    /// The secret of a webhook, which is shown this once; another can be made.
    pub(crate) fn signing_secret() -> Self {
        Self { member: "secret", delete: "dl webhooks rotate-secret".to_owned(), what: "secret", again: None }
    }

    /// The address of a source, which can be shown again.
    pub(crate) fn address() -> Self {
        let again = Some(("dl sources get", "--reveal"));
        Self { member: "webhook_url", delete: "dl sources delete".to_owned(), what: "address", again }
    }
}

/// Ready to take a secret: from here on a signal waits for it.
pub(crate) struct Place<'a> {
    ctx: &'a Context,
    kind: Kind,
    file: Option<Empty>,
    _patient: Patient<'a>,
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
    pub(crate) fn prepare<'a>(&self, ctx: &'a Context, sheet: &Sheet<'_>, kind: Kind) -> Outcome<Place<'a>> {
        let shown = match &sheet.fields {
            Some(_) if kind.again.is_some() => true,
            Some(fields) => fields.iter().any(|field| field.name == kind.member),
            None => ctx.out.format != Format::Id || kind.again.is_some(),
        };
        let file = match &self.out_file {
            _ if ctx.global.dry_run => None,
            Some(path) => Some(make(path)?),
            None if shown => None,
            None => {
                let what = format!("the {} is shown this once, and this form of output leaves it out", kind.what);
                return Err(Failure::usage(what).hint("--out-file FILE keeps it").into());
            }
        };
        Ok(Place { ctx, kind, file, _patient: ctx.patience.begin() })
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
        let record = Record::read(&raw).unwrap_or_default();
        let id = record.cell(sheet.noun.id).unwrap_or_default();
        let lost = |why: Stop| match self.kind.again {
            Some((command, flag)) => unshown(why, &format!("{command} {id} {flag}")),
            None if self.kind.what == "secret" => lost_secret(self.ctx, &id, &self.kind.delete, why),
            None => lost(self.ctx, secret, &id, &format!("{} {id}", self.kind.delete), why),
        };
        let Some(mut empty) = self.file else { return sheet.created(&raw).map_err(lost) };
        if let Err(error) = write(&mut empty, secret) {
            print(self.ctx, secret).map_err(lost)?;
            let path = empty.path.display();
            let what = format!("cannot write {path}: {}; the {} is printed above, once", plain(&error), self.kind.what);
            return Err(Failure::new(Exit::Failure, what).into());
        }
        // The name must last as well as what it names; the key is there in any case.
        if let Err(error) = files::sync_dir(files::dir_of(&empty.path)) {
            self.ctx.console.warn(&format!("the folder of {} is not synced: {}", empty.path.display(), plain(&error)));
        }
        self.ctx.console.say(&format!("the {} is in {}", self.kind.what, empty.path.display()));
        match (self.ctx.out.format, &sheet.fields) {
            (Format::Table, None) => {
                self.ctx.out.line(&id)?;
                self.ctx.out.flush()
            }
            _ => sheet.one(&record.without(self.kind.member)),
        }
    }
}

fn write(empty: &mut Empty, secret: &str) -> std::io::Result<()> {
    empty.file.write_all(format!("{secret}\n").as_bytes())?;
    empty.file.sync_all()?;
    empty.filled = true;
    Ok(())
}

fn print(ctx: &Context, secret: &str) -> Outcome {
    ctx.out.line(secret)?;
    ctx.out.flush()
}

/// What can be shown again could not be shown now.
fn unshown(why: Stop, again: &str) -> Stop {
    match why {
        Stop::ClosedPipe => {
            let what = "it was made, and whoever read stdout has left";
            Failure::new(Exit::Failure, what).code("not_shown").hint(format!("{again} shows the address")).into()
        }
        other => other.hinting(&format!("it was made; {again} shows the address")),
    }
}

/// The one showing of a secret failed. A reader who left did not want this, so that is a failure here too.
fn lost(ctx: &Context, secret: &str, id: &str, delete: &str, why: Stop) -> Stop {
    match why {
        Stop::Failed(failure) => ctx.console.failure(&failure),
        Stop::ClosedPipe => ctx.console.warn("whoever read stdout has left"),
        other => return other,
    }
    let shown = SecretKey::new(secret).shown_prefix();
    let what = format!("the key {shown} ({id}) was made and could not be shown");
    Failure::new(Exit::Failure, what).code("key_lost").hint(format!("it still works; delete it: {delete}")).into()
}

/// The same of a secret, of which nothing may be shown.
fn lost_secret(ctx: &Context, id: &str, rotate: &str, why: Stop) -> Stop {
    match why {
        Stop::Failed(failure) => ctx.console.failure(&failure),
        Stop::ClosedPipe => ctx.console.warn("whoever read stdout has left"),
        other => return other,
    }
    let what = format!("the secret of {id} was made and could not be shown");
    Failure::new(Exit::Failure, what).code("secret_lost").hint(format!("another one: {rotate} {id}")).into()
}

/// A key that could not be kept, of which the one answer is all there is: better on the screen than lost.
pub(crate) fn print_instead(ctx: &Context, key: &SecretKey, id: &str, unkept: Unkept, what: &str) -> Stop {
    let what = match &unkept.stored {
        Some(source) => format!("the key is in {}, but the configuration does not say so", source.place()),
        None => what.to_owned(),
    };
    if let Stop::Failed(failure) = unkept.why {
        ctx.console.failure(&failure);
    }
    if let Err(stop) = print(ctx, key.expose()) {
        if unkept.stored.is_some() {
            return Failure::new(Exit::Failure, what).hint("dl login --with-key writes it").into();
        }
        let delete = format!("on the service's page /account, or with another key: dl keys delete {id}");
        return lost(ctx, key.expose(), id, &delete, stop);
    }
    let failure = Failure::new(Exit::Failure, format!("{what}; it is printed above, once"));
    failure.hint("dl login --with-key keeps it").into()
}
