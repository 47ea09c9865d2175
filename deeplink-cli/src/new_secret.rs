//! Secrets that are shown only once: on stdout, or in a file that is created before the request.

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
use crate::signals::HoldGuard;
use crate::store::KeepError;

/// Where a new secret goes.
#[derive(Debug, Args)]
pub(crate) struct SecretOut {
    /// Write the key, secret or URL to this new file instead of stdout
    #[arg(long, value_name = "FILE")]
    out_file: Option<PathBuf>,
}

/// A kind of secret that is about to be created.
pub(crate) struct Kind {
    /// Which member of the answer is the secret.
    pub(crate) member: &'static str,
    /// The command that deletes one by its id.
    pub(crate) delete: String,
    /// What it is called.
    what: &'static str,
    /// The command and flags that show it again by its id, if possible.
    again: Option<(&'static str, &'static str)>,
}

impl Kind {
    /// A key, which is shown only once.
    pub(crate) fn key(member: &'static str, delete: &str) -> Self {
        Self { member, delete: delete.to_owned(), what: "key", again: None }
    }

    /// The secret of a webhook, which is shown only once; another can be created.
    pub(crate) fn signing_secret() -> Self {
        Self { member: "secret", delete: "dl webhooks rotate-secret".to_owned(), what: "secret", again: None }
    }

    /// The URL of a source, which can be shown again.
    pub(crate) fn source_url() -> Self {
        let again = Some(("dl sources get", "--reveal"));
        Self { member: "webhook_url", delete: "dl sources delete".to_owned(), what: "URL", again }
    }
}

/// The destination of a new secret. While it exists, signals are deferred.
pub(crate) struct SecretSink<'a> {
    ctx: &'a Context,
    kind: Kind,
    file: Option<PendingFile>,
    _hold: HoldGuard<'a>,
}

/// A file created for a secret, and removed if none is written.
struct PendingFile {
    path: PathBuf,
    file: File,
    filled: bool,
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.filled {
            // It is ours and empty.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl SecretOut {
    /// Ensures, before the request, that the secret will not be lost.
    pub(crate) fn prepare<'a>(&self, ctx: &'a Context, sheet: &Sheet<'_>, kind: Kind) -> Outcome<SecretSink<'a>> {
        let shown = match &sheet.fields {
            _ if kind.again.is_some() => true,
            // Whether a program or a template prints it is known only when it is too late.
            _ if ctx.out.is_filtered() => false,
            Some(fields) => fields.iter().any(|field| field.name == kind.member),
            None => ctx.out.format != Format::Id,
        };
        let file = match &self.out_file {
            _ if ctx.global.dry_run => None,
            Some(path) => Some(make(path)?),
            None if shown => None,
            None => {
                let omits =
                    if ctx.out.is_filtered() { "--jq and --render may omit it" } else { "this output format omits it" };
                let what = format!("the {} is shown only once, and {omits}", kind.what);
                return Err(Failure::usage(what).hint("use --out-file FILE to save it").into());
            }
        };
        Ok(SecretSink { ctx, kind, file, _hold: ctx.signal_hold.begin() })
    }
}

fn make(path: &Path) -> Outcome<PendingFile> {
    match files::make_private(path) {
        Ok(file) => Ok(PendingFile { path: path.to_owned(), file, filled: false }),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let what = format!("{} already exists and will not be overwritten", path.display());
            Err(Failure::usage(what).code("file_exists").hint("--out-file requires the name of a new file").into())
        }
        Err(error) => Err(Failure::file("write", path.display(), &error).into()),
    }
}

impl SecretSink<'_> {
    /// Writes the secret of an answer to its destination, and prints the answer.
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
        let Some(mut pending) = self.file else { return sheet.created(&raw).map_err(lost) };
        if let Err(error) = write(&mut pending, secret) {
            print(self.ctx, secret).map_err(lost)?;
            let path = pending.path.display();
            let what = format!(
                "cannot write {path}: {}; the {} is printed above and will not be shown again",
                plain(&error),
                self.kind.what
            );
            return Err(Failure::new(Exit::Failure, what).into());
        }
        // The directory entry must be durable too; a failure leaves the key in the file.
        if let Err(error) = files::sync_dir(files::dir_of(&pending.path)) {
            self.ctx.console.warn(&format!(
                "the directory of {} could not be synced: {}",
                pending.path.display(),
                plain(&error)
            ));
        }
        self.ctx.console.say(&format!("the {} is in {}", self.kind.what, pending.path.display()));
        match (self.ctx.out.format, &sheet.fields) {
            (Format::Table, None) => {
                self.ctx.out.line(&id)?;
                self.ctx.out.flush()
            }
            _ => sheet.one(&record.without(self.kind.member)),
        }
    }
}

fn write(pending: &mut PendingFile, secret: &str) -> std::io::Result<()> {
    pending.file.write_all(format!("{secret}\n").as_bytes())?;
    pending.file.sync_all()?;
    pending.filled = true;
    Ok(())
}

fn print(ctx: &Context, secret: &str) -> Outcome {
    ctx.out.line(secret)?;
    ctx.out.flush()
}

/// A secret that can be shown again could not be printed.
fn unshown(why: Stop, again: &str) -> Stop {
    match why {
        Stop::ClosedPipe => {
            let what = "it was created, but stdout was closed before it was printed";
            Failure::new(Exit::Failure, what).code("not_shown").hint(format!("to show the URL: {again}")).into()
        }
        other => other.hinting(&format!("it was created; to show the URL: {again}")),
    }
}

/// A secret could not be printed, and is lost. Here a closed pipe is a failure too.
fn lost(ctx: &Context, secret: &str, id: &str, delete: &str, why: Stop) -> Stop {
    match why {
        Stop::Failed(failure) => ctx.console.failure(&failure),
        Stop::ClosedPipe => ctx.console.warn("stdout was closed"),
        other => return other,
    }
    let shown = SecretKey::new(secret).shown_prefix();
    let what = format!("the key {shown} ({id}) was created but could not be shown");
    Failure::new(Exit::Failure, what).code("key_lost").hint(format!("it still works; to delete it: {delete}")).into()
}

/// The same for a secret without a public prefix.
fn lost_secret(ctx: &Context, id: &str, rotate: &str, why: Stop) -> Stop {
    match why {
        Stop::Failed(failure) => ctx.console.failure(&failure),
        Stop::ClosedPipe => ctx.console.warn("stdout was closed"),
        other => return other,
    }
    let what = format!("the secret of {id} was created but could not be shown");
    Failure::new(Exit::Failure, what).code("secret_lost").hint(format!("to create another one: {rotate} {id}")).into()
}

/// Prints a key that could not be stored: it is only in this answer.
pub(crate) fn print_instead(ctx: &Context, key: &SecretKey, id: &str, error: KeepError, what: &str) -> Stop {
    let what = match &error.key_at {
        Some(source) => {
            format!("the key is stored in {}, but the configuration could not be updated", source.location())
        }
        None => what.to_owned(),
    };
    if let Stop::Failed(failure) = error.why {
        ctx.console.failure(&failure);
    }
    if let Err(stop) = print(ctx, key.expose()) {
        if error.key_at.is_some() {
            return Failure::new(Exit::Failure, what).hint("to update it, use dl login --with-key").into();
        }
        let delete = format!("on the service's page /account, or with another key: dl keys delete {id}");
        return lost(ctx, key.expose(), id, &delete, stop);
    }
    let failure = Failure::new(Exit::Failure, format!("{what}; it is printed above and will not be shown again"));
    failure.hint("to store it, use dl login --with-key").into()
}
