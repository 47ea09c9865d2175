//! Sends the emails queued in the database: to an SMTP server, or as one `.eml` file each in the mail directory.
//!
//! An email is stored in the transaction that causes it and goes out after the reply, so no request waits for it and
//! none is lost. A file is named for its email and appears complete: sending the same email twice leaves one file.

mod message;
pub(crate) mod smtp;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::{MailId, TenantId};
use deeplink_core::time::Timestamp;
use futures_util::{FutureExt, StreamExt, stream};

pub(crate) use self::message::Mail;
use self::smtp::Smtp;
use crate::config::MailTransport;
use crate::db::mails::{self, Waiting};
use crate::db::{Conn, DbError, users};
use crate::private;
use crate::shares::Share;
use crate::state::App;

/// How long no other node tries a claimed email.
const LEASE_MILLIS: i64 = 30_000;
/// Emails sent concurrently. Sixteen are claimed at once, so two in a row must fit into the lease.
const MAX_CONCURRENT: usize = 8;
/// Interval between scans for unannounced emails: those of a node that died, and those due for another attempt.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// Seconds between attempts; the last one repeats until the email expires.
const RETRY_DELAYS: [i64; 6] = [1, 5, 30, 120, 600, 3_600];

/// Days within which an email to an account's owners must be sent.
const OWNERS_MAIL_DAYS: i64 = 3;

/// Queues an email to each of an account's owners, with `unverified` also to addresses that nobody has confirmed, for
/// what only the service causes. `false`: email is not set up.
pub(crate) async fn to_owners(
    app: &App,
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    unverified: bool,
    mail: impl Fn(String) -> Mail,
) -> Result<bool, DbError> {
    if app.config.mail_at(&app.public_url).is_none() {
        return Ok(false);
    }
    let now = app.clock.now();
    for owner in users::owners_of(tx, tenant, unverified).await? {
        let id = app.random(|random| MailId::new(now, random));
        let sealed = mail(owner).seal(&app.vault, &id);
        mails::insert(tx, &id, &sealed, now, now.plus_days(OWNERS_MAIL_DAYS)).await?;
    }
    Ok(true)
}

/// Why an attempt to send an email failed.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("stored email cannot be decrypted: {0}")]
    Sealed(#[from] crate::vault::DecryptError),
    #[error("stored email cannot be parsed: {0}")]
    Content(serde_json::Error),
    #[error("DEEPLINK_MAIL_FROM is needed with this public URL")]
    NoSender,
    #[error("email is not configured")]
    Off,
    #[error("the link or code in it has expired")]
    Expired,
    #[error("invalid recipient address: {0}")]
    Address(#[from] lettre::address::AddressError),
    #[error("cannot build the message: {0}")]
    Message(#[from] lettre::error::Error),
    #[error(transparent)]
    Smtp(#[from] smtp::SmtpError),
    #[error("cannot render the text: {0}")]
    Template(#[from] askama::Error),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
}

/// Sends queued emails, immediately when announced, for as long as the service runs.
pub(super) async fn run(app: Weak<App>) {
    let Some(smtp) = app.upgrade().map(|app| Smtp::of(&app.config, &app.public_url)) else { return };
    let mut first = true;
    loop {
        let Some(app) = app.upgrade() else { return };
        if std::mem::take(&mut first)
            && let Err(error) = release(&app).await
        {
            tracing::warn!(
                %error,
                "emails claimed by the previous run could not be released; they will be sent on the next attempt"
            );
        }
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        match round(&app, smtp.as_ref()).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "queued emails could not be read; will retry"),
        }
        drop(tokio::time::timeout(SCAN_INTERVAL, app.mail_waits.notified()).await);
    }
}

/// After a restart no other process has claimed an email, and the cause of failures may be fixed: everything is retried
/// now.
async fn release(app: &App) -> Result<(), DbError> {
    if !app.db.is_sqlite() || mails::next_due(&mut app.db.read().await?.conn()).await?.is_none() {
        return Ok(());
    }
    let now = app.clock.now();
    app.db.write(Share::Service, (), move |tx, ()| mails::release(tx, now).boxed()).await
}

/// Sends the emails that are due; `true` when there may be more.
async fn round(app: &App, smtp: Option<&Smtp>) -> Result<bool, DbError> {
    let now = app.clock.now();
    let due = mails::next_due(&mut app.db.read().await?.conn()).await?;
    if due.is_none_or(|due| due > now) {
        return Ok(false);
    }
    let lease = now.plus_millis(LEASE_MILLIS);
    let claimed = app.db.write(Share::Service, (), move |tx, ()| mails::claim(tx, now, lease).boxed()).await?;
    let any = !claimed.is_empty();
    // Concurrently, so that a stalled one does not delay the others, and all are done before the lease ends.
    let sent = stream::iter(claimed).map(|waiting| async move {
        let outcome = send(app, smtp, &waiting).await;
        settle(app, waiting, outcome).await
    });
    let settled: Vec<_> = sent.buffer_unordered(MAX_CONCURRENT).collect().await;
    settled.into_iter().collect::<Result<(), _>>()?;
    Ok(any)
}

async fn send(app: &App, smtp: Option<&Smtp>, waiting: &Waiting) -> Result<(), SendError> {
    if waiting.is_void() {
        return Ok(());
    }
    if waiting.expires_at <= app.clock.now().as_millis() {
        return Err(SendError::Expired);
    }
    let transport = app.config.mail_at(&app.public_url).ok_or(SendError::Off)?;
    let message = Mail::open(&app.vault, waiting)?.message(app, &waiting.id)?;
    let directory = match transport {
        MailTransport::Directory(directory) => directory,
        MailTransport::Smtp(_) => return Ok(smtp.ok_or(SendError::Off)?.send(message).await?),
    };
    let message = message.formatted();
    let path = directory.join(format!("{}.eml", waiting.id));
    let written = tokio::task::spawn_blocking({
        let path = path.clone();
        move || write(&path, &message)
    });
    let outcome = written.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
    outcome.map_err(|error| SendError::File { path, error })
}

/// Deletes an email that was sent; schedules another attempt for one that was not, until it expires.
async fn settle(app: &App, waiting: Waiting, outcome: Result<(), SendError>) -> Result<(), DbError> {
    let now = app.clock.now();
    let done = match &outcome {
        Ok(()) => true,
        Err(error) if waiting.expires_at <= now.as_millis() => {
            tracing::error!(mail = waiting.id, %error, "email expired before it could be sent; giving up");
            true
        }
        Err(error @ SendError::Smtp(rejected)) if rejected.is_permanent() => {
            tracing::error!(mail = waiting.id, %error, "email rejected permanently; giving up");
            true
        }
        Err(error) => {
            tracing::warn!(mail = waiting.id, attempts = waiting.attempts, %error, "email could not be sent; will retry");
            false
        }
    };
    // Due when it expires at the latest, so that an expired email is not kept for another hour.
    let again = now.plus_millis(1_000 * retry_delay(waiting.attempts)).as_millis().min(waiting.expires_at);
    let again = Timestamp::from_millis(again);
    app.db
        .write(Share::Service, waiting.id, move |tx, id| {
            if done { mails::delete(tx, id).boxed() } else { mails::put_off(tx, id, again).boxed() }
        })
        .await
}

/// Seconds until the next attempt.
fn retry_delay(attempts: i64) -> i64 {
    let index = usize::try_from(attempts - 1).unwrap_or(0).min(RETRY_DELAYS.len() - 1);
    RETRY_DELAYS[index]
}

/// Writes a file that appears complete or not at all, readable by its owner only: it can hold a sign-in link.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    private::create_dir(folder)?;
    let part = path.with_extension("part");
    let mut file = private::options().write(true).create(true).truncate(true).open(&part)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    File::open(folder)?.sync_all()
}
