//! Sends the mails that wait in the database: one `.eml` file each, in the mail directory.
//!
//! A mail is stored with the fact it tells of and goes out after the reply, so nobody waits for it and none is lost. A
//! file is named for its mail and appears complete: sending the same mail twice leaves one file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use askama::Template;
use deeplink_core::domain::DomainName;
use deeplink_core::id::MailId;
use deeplink_core::secret::Token;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use futures_util::FutureExt;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde::{Deserialize, Serialize};

use crate::config::MailTransport;
use crate::db::DbError;
use crate::db::mails::{self, Waiting};
use crate::state::App;
use crate::vault::Vault;

/// How long nobody else tries a mail that was taken.
const LEASE_MILLIS: i64 = 30_000;
/// How often mails are looked for that nobody announced: those of a node that died, and those put off.
const LOOK: Duration = Duration::from_secs(5);
/// Waits between attempts, in seconds; the last one repeats until the mail expires.
const WAITS: [i64; 6] = [1, 5, 30, 120, 600, 3_600];

/// A mail. It can hold a token, so it is stored sealed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mail {
    to: String,
    #[serde(flatten)]
    says: Says,
}

/// What a mail says. Stored mails have no word for their kind: the members tell it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Says {
    /// A domain's proof is gone from DNS, so it is a claim again.
    DomainLost {
        domain: String,
        txt_record: String,
        /// What the TXT record must say again.
        verification_token: String,
        /// When the claim ends.
        until: Timestamp,
    },
    /// Confirm the address of a new account.
    Signup {
        /// The token of the link in it.
        token: String,
        /// Until when that link works.
        until: Timestamp,
    },
}

impl Mail {
    /// Asks a new account's owner to confirm the address. `None`: mail cannot carry such an address.
    pub(crate) fn signup(to: &Email, token: &Token, until: Timestamp) -> Option<Self> {
        to.as_str().parse::<Address>().ok()?;
        let says = Says::Signup { token: token.expose().to_owned(), until };
        Some(Self { to: to.as_str().to_owned(), says })
    }

    /// Tells an owner that a domain is no longer verified, and how to have it back.
    pub(crate) fn domain_lost(to: String, domain: &DomainName, token: &str, until: Timestamp) -> Self {
        let (domain, txt_record) = (domain.to_string(), domain.txt_record());
        Self { to, says: Says::DomainLost { domain, txt_record, verification_token: token.to_owned(), until } }
    }

    /// The mail as it is stored.
    pub(crate) fn seal(&self, vault: &Vault, id: &MailId) -> String {
        vault.seal("mails", id.as_str(), &serde_json::to_vec(self).unwrap_or_default())
    }

    fn open(vault: &Vault, waiting: &Waiting) -> Result<Self, Failed> {
        let plain = vault.open("mails", &waiting.id, &waiting.sealed)?;
        serde_json::from_slice(&plain).map_err(Failed::Content)
    }

    /// The mail as it goes out.
    fn message(&self, app: &App, id: &str) -> Result<Message, Failed> {
        let host = app.public_url.host_str().unwrap_or("localhost");
        let Written { subject, text, html } = match &self.says {
            Says::Signup { token, until } => {
                let base = app.public_url.as_str().trim_end_matches('/');
                let (link, until) = (format!("{base}/v1/auth/callback?token={token}"), day(*until));
                let text = SignupText { host, link: &link, until: &until }.render()?;
                let html = SignupHtml { host, link: &link, until: &until }.render()?;
                Written { subject: format!("Your new account at {host}"), text, html }
            }
            Says::DomainLost { domain, txt_record, verification_token: token, until } => {
                let until = &day(*until);
                let text = DomainLostText { host, domain, txt_record, token, until }.render()?;
                let html = DomainLostHtml { host, domain, txt_record, token, until }.render()?;
                Written { subject: format!("{domain} is no longer verified"), text, html }
            }
        };
        let millis = u64::try_from(app.clock.now().as_millis()).unwrap_or(0);
        let message = Message::builder()
            .from(app.config.mail_from_at(&app.public_url).ok_or(Failed::NoSender)?)
            .to(Mailbox::new(None, self.to.parse()?))
            .subject(subject)
            .date(std::time::UNIX_EPOCH + Duration::from_millis(millis))
            .message_id(Some(format!("<{id}@{host}>")))
            .multipart(
                MultiPart::alternative()
                    .singlepart(part(ContentType::TEXT_PLAIN, text))
                    .singlepart(part(ContentType::TEXT_HTML, html)),
            )?;
        Ok(message)
    }
}

/// A mail's parts before they are put together.
struct Written {
    subject: String,
    text: String,
    html: String,
}

/// The day is enough for people; the time of day would need a zone.
fn day(moment: Timestamp) -> String {
    moment.to_string().chars().take(10).collect()
}

/// A part of a mail as it is: quoted-printable would break the link over two lines of the file. ASCII lines of up to 998
/// characters may stand as they are (RFC 5322, section 2.1.1).
fn part(kind: ContentType, text: String) -> SinglePart {
    let builder = SinglePart::builder().header(kind);
    if text.is_ascii() && text.lines().all(|line| line.len() <= 998) {
        let lines: String = text.lines().flat_map(|line| [line, "\r\n"]).collect();
        builder.body(Body::dangerous_pre_encoded(lines.into_bytes(), ContentTransferEncoding::SevenBit))
    } else {
        builder.body(text)
    }
}

#[derive(Template)]
#[template(path = "mail/signup.txt")]
struct SignupText<'a> {
    host: &'a str,
    link: &'a str,
    until: &'a str,
}

#[derive(Template)]
#[template(path = "mail/signup.html")]
struct SignupHtml<'a> {
    host: &'a str,
    link: &'a str,
    until: &'a str,
}

#[derive(Template)]
#[template(path = "mail/domain_lost.txt")]
struct DomainLostText<'a> {
    host: &'a str,
    domain: &'a str,
    txt_record: &'a str,
    token: &'a str,
    until: &'a str,
}

#[derive(Template)]
#[template(path = "mail/domain_lost.html")]
struct DomainLostHtml<'a> {
    host: &'a str,
    domain: &'a str,
    txt_record: &'a str,
    token: &'a str,
    until: &'a str,
}

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
    #[error("it cannot be addressed: {0}")]
    Address(#[from] lettre::address::AddressError),
    #[error("it cannot be written as a mail: {0}")]
    Message(#[from] lettre::error::Error),
    #[error("the mail server did not take it: {0}")]
    Smtp(#[from] lettre::transport::smtp::Error),
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
    for waiting in claimed {
        let outcome = send(app, &waiting).await;
        settle(app, waiting, outcome).await?;
    }
    Ok(any)
}

async fn send(app: &App, waiting: &Waiting) -> Result<(), Failed> {
    let transport = app.config.mail_at(&app.public_url).ok_or(Failed::Off)?;
    let message = Mail::open(&app.vault, waiting)?.message(app, &waiting.id)?;
    let directory = match transport {
        MailTransport::Directory(directory) => directory,
        MailTransport::Smtp(server) => {
            let server = AsyncSmtpTransport::<Tokio1Executor>::from_url(server.expose())?.build();
            return Ok(server.send(message).await.map(drop)?);
        }
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
        Err(error) => {
            tracing::warn!(mail = waiting.id, attempts = waiting.attempts, %error, "a mail could not be sent yet");
            false
        }
    };
    let again = now.plus_millis(1_000 * wait_after(waiting.attempts));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A mail that an older version stored is still sent after an update.
    #[test]
    fn stored_mails_keep_their_form() {
        let until = Timestamp::from_millis(1_795_167_000_000);
        let signup = Mail { to: "a@example.com".into(), says: Says::Signup { token: "0".repeat(64), until } };
        let domain = "go.example.com".parse::<DomainName>().expect("a name");
        let lost = Mail::domain_lost("a@example.com".into(), &domain, &"1".repeat(64), until);
        for (mail, stored) in [
            (
                signup,
                format!(r#"{{"to":"a@example.com","token":"{}","until":"2026-11-20T09:30:00.000Z"}}"#, "0".repeat(64)),
            ),
            (
                lost,
                format!(
                    r#"{{"to":"a@example.com","domain":"go.example.com","txt_record":"_deeplink-verify.go.example.com","verification_token":"{}","until":"2026-11-20T09:30:00.000Z"}}"#,
                    "1".repeat(64)
                ),
            ),
        ] {
            assert_eq!(serde_json::to_string(&mail).expect("JSON"), stored);
            assert_eq!(serde_json::from_str::<Mail>(&stored).expect("a mail"), mail);
        }
    }
}
