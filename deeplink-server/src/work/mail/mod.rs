//! Sends the mails that wait in the database: to an SMTP server, or as one `.eml` file each in the mail directory.
//!
//! A mail is stored with the fact it tells of and goes out after the reply, so nobody waits for it and none is lost. A
//! file is named for its mail and appears complete: sending the same mail twice leaves one file.

mod letter;
pub(crate) mod smtp;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::time::Timestamp;
use futures_util::{FutureExt, StreamExt, stream};

pub(crate) use self::letter::Mail;
use crate::config::MailTransport;
use crate::db::DbError;
use crate::db::mails::{self, Waiting};
use crate::state::App;

/// How long nobody else tries a mail that was taken.
const LEASE_MILLIS: i64 = 30_000;
/// Mails that are sent at one time. Of the sixteen that are taken at once, two after each other must fit into the lease.
const AT_ONCE: usize = 8;
/// How often mails are looked for that nobody announced: those of a node that died, and those put off.
const LOOK: Duration = Duration::from_secs(5);
/// Waits between attempts, in seconds; the last one repeats until the mail expires.
const WAITS: [i64; 6] = [1, 5, 30, 120, 600, 3_600];

/// Why a mail did not go out this time.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("it cannot be opened: {0}")]
    Sealed(#[from] crate::vault::Unopened),
    #[error("it is not what was stored: {0}")]
    Content(serde_json::Error),
    #[error("DEEPLINK_MAIL_FROM is needed with this public URL")]
    NoSender,
    #[error("mail is switched off")]
    Off,
    #[error("what it says is over")]
    Over,
    #[error("it cannot be addressed: {0}")]
    Address(#[from] lettre::address::AddressError),
    #[error("it cannot be written as a mail: {0}")]
    Message(#[from] lettre::error::Error),
    #[error(transparent)]
    Smtp(#[from] smtp::Failed),
    #[error("its text cannot be made: {0}")]
    Template(#[from] askama::Error),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
}

/// Sends what waits, at once when it is announced, for as long as the service runs.
pub(super) async fn run(app: Weak<App>) {
    let mut first = true;
    loop {
        let Some(app) = app.upgrade() else { return };
        if std::mem::take(&mut first)
            && let Err(error) = release(&app).await
        {
            tracing::warn!(%error, "mails of the last run wait for their next attempt");
        }
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        match round(&app).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "waiting mails cannot be looked at; it is tried again"),
        }
        drop(tokio::time::timeout(LOOK, app.mail_waits.notified()).await);
    }
}

/// After a restart nobody else holds a mail, and what stood in the way may be mended: everything is tried at once.
async fn release(app: &App) -> Result<(), DbError> {
    if !app.db.is_sqlite() || mails::next_due(&mut app.db.read().await?.conn()).await?.is_none() {
        return Ok(());
    }
    let now = app.clock.now();
    app.db.write(move |mut tx| async move { mails::release(&mut tx, now).await }.boxed()).await
}

/// Sends the mails that are due; `true` when there may be more.
async fn round(app: &App) -> Result<bool, DbError> {
    let now = app.clock.now();
    let due = mails::next_due(&mut app.db.read().await?.conn()).await?;
    if due.is_none_or(|due| due > now) {
        return Ok(false);
    }
    let lease = now.plus_millis(LEASE_MILLIS);
    let claimed = app.db.write(move |mut tx| async move { mails::claim(&mut tx, now, lease).await }.boxed()).await?;
    let any = !claimed.is_empty();
    // A few at a time, so that one that hangs keeps no other waiting, and all are through before the lease ends.
    let sent = stream::iter(claimed).map(|waiting| async move {
        let outcome = send(app, &waiting).await;
        settle(app, waiting, outcome).await
    });
    let settled: Vec<_> = sent.buffer_unordered(AT_ONCE).collect().await;
    settled.into_iter().collect::<Result<(), _>>()?;
    Ok(any)
}

async fn send(app: &App, waiting: &Waiting) -> Result<(), Failed> {
    if waiting.expires_at <= app.clock.now().as_millis() {
        return Err(Failed::Over);
    }
    let transport = app.config.mail_at(&app.public_url).ok_or(Failed::Off)?;
    let message = Mail::open(&app.vault, waiting)?.message(app, &waiting.id)?;
    let directory = match transport {
        MailTransport::Directory(directory) => directory,
        MailTransport::Smtp(_) => return Ok(app.smtp.as_ref().ok_or(Failed::Off)?.send(message).await?),
    };
    let message = message.formatted();
    let path = directory.join(format!("{}.eml", waiting.id));
    let written = tokio::task::spawn_blocking({
        let path = path.clone();
        move || write(&path, &message)
    });
    let outcome = written.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
    outcome.map_err(|error| Failed::File { path, error })
}

/// Takes a mail that is out off the list; puts one off that is not, until it expires.
async fn settle(app: &App, waiting: Waiting, outcome: Result<(), Failed>) -> Result<(), DbError> {
    let now = app.clock.now();
    let done = match &outcome {
        Ok(()) => true,
        Err(error) if waiting.expires_at <= now.as_millis() => {
            tracing::error!(mail = waiting.id, %error, "a mail could not be sent in time and is given up");
            true
        }
        Err(error @ Failed::Smtp(refused)) if refused.is_for_good() => {
            tracing::error!(mail = waiting.id, %error, "a mail was refused for good and is given up");
            true
        }
        Err(error) => {
            tracing::warn!(mail = waiting.id, attempts = waiting.attempts, %error, "a mail could not be sent yet");
            false
        }
    };
    // Looked at once more at its end, so that what is over does not wait for another hour.
    let again = now.plus_millis(1_000 * wait_after(waiting.attempts)).as_millis().min(waiting.expires_at);
    let again = Timestamp::from_millis(again);
    app.db
        .write(move |mut tx| {
            let id = waiting.id.clone();
            async move {
                if done { mails::delete(&mut tx, &id).await } else { mails::put_off(&mut tx, &id, again).await }
            }
            .boxed()
        })
        .await
}

/// Seconds until the next attempt.
fn wait_after(attempts: i64) -> i64 {
    let place = usize::try_from(attempts - 1).unwrap_or(0).min(WAITS.len() - 1);
    WAITS[place]
}

/// Writes a file that appears complete or not at all, readable by its owner only: a mail can hold a way to sign in.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let part = path.with_extension("part");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&part)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    File::open(folder)?.sync_all()
}
