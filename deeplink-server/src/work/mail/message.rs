//! The content of emails: encrypted while queued, rendered as plain text and HTML when they are sent.

use std::time::Duration;

use askama::Template;
use deeplink_core::domain::DomainName;
use deeplink_core::id::{MailId, TenantId};
use deeplink_core::secret::{ConfirmationCode, Token};
use deeplink_core::time::Timestamp;
use deeplink_core::user::{CONFIRM_PATH, Email};
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message};
use serde::{Deserialize, Serialize};

use super::SendError;
use crate::db::mails::Waiting;
use crate::state::App;
use crate::vault::Vault;

/// An email. It can hold a token, so it is stored encrypted and `Debug` does not print it.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct Mail {
    to: String,
    #[serde(flatten)]
    content: Content,
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[mail]")
    }
}

/// The content by kind. Stored emails have no tag: the fields identify the kind, so no two kinds have the same ones.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Content {
    /// A domain's TXT record is gone, so it is no longer verified.
    DomainLost {
        domain: String,
        txt_record: String,
        /// The value that the TXT record must have.
        verification_token: String,
        /// When the claim ends.
        until: Timestamp,
    },
    /// A webhook has failed for days and was paused.
    WebhookPaused {
        webhook_url: String,
        /// Since when no delivery has succeeded.
        failing_since: Timestamp,
    },
    /// The account will be deleted.
    AccountDeletion {
        /// The account's ID.
        account: String,
        /// The person who requested it; `None`: it was done with a secret key.
        requested_by: Option<String>,
        deletes_at: Timestamp,
    },
    /// Confirm the address of a new account.
    Signup {
        /// The token of the link.
        token: String,
        /// When the link expires.
        until: Timestamp,
    },
    /// Sign in.
    Signin { signin_token: String, until: Timestamp },
    /// Join a team.
    Invite {
        invite_token: String,
        /// Who invites, if their address is verified.
        from: Option<String>,
        until: Timestamp,
    },
    /// Confirm a new secret key.
    Code { code: String, until: Timestamp },
}

impl Mail {
    /// `None` if the address is not valid in email.
    fn of(to: &Email, content: Content) -> Option<Self> {
        to.as_str().parse::<Address>().ok()?;
        Some(Self { to: to.as_str().to_owned(), content })
    }

    /// Asks a new account's owner to confirm the address. `None` if the address is not valid in email.
    pub(crate) fn signup(to: &Email, token: &Token, until: Timestamp) -> Option<Self> {
        Self::of(to, Content::Signup { token: token.expose().to_owned(), until })
    }

    /// Sends a link to sign in with. `None` if the address is not valid in email.
    pub(crate) fn signin(to: &Email, token: &Token, until: Timestamp) -> Option<Self> {
        Self::of(to, Content::Signin { signin_token: token.expose().to_owned(), until })
    }

    /// Invites a person to a team, naming the sender if their address is verified. `None` if the address is not valid
    /// in email.
    pub(crate) fn invite(to: &Email, token: &Token, from: Option<String>, until: Timestamp) -> Option<Self> {
        Self::of(to, Content::Invite { invite_token: token.expose().to_owned(), from, until })
    }

    /// Sends the code that confirms a new secret key. `None` if the address is not valid in email.
    pub(crate) fn code(to: &Email, code: &ConfirmationCode, until: Timestamp) -> Option<Self> {
        Self::of(to, Content::Code { code: code.expose().to_owned(), until })
    }

    /// Tells an owner that a domain is no longer verified, and how to restore it.
    pub(crate) fn domain_lost(to: String, domain: &DomainName, token: &str, until: Timestamp) -> Self {
        let (domain, txt_record) = (domain.to_string(), domain.txt_record());
        Self { to, content: Content::DomainLost { domain, txt_record, verification_token: token.to_owned(), until } }
    }

    /// Tells an owner that a webhook was paused, and how to enable it.
    pub(crate) fn webhook_paused(to: String, url: &str, since: Timestamp) -> Self {
        Self { to, content: Content::WebhookPaused { webhook_url: url.to_owned(), failing_since: since } }
    }

    /// Tells an owner that the account will be deleted, and how to keep it.
    pub(crate) fn account_deletion(to: String, account: &TenantId, by: Option<String>, deletes_at: Timestamp) -> Self {
        let account = account.to_string();
        Self { to, content: Content::AccountDeletion { account, requested_by: by, deletes_at } }
    }

    /// The email as it is stored.
    pub(crate) fn seal(&self, vault: &Vault, id: &MailId) -> String {
        vault.seal("mails", id.as_str(), &serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn open(vault: &Vault, waiting: &Waiting) -> Result<Self, SendError> {
        let plain = vault.open("mails", &waiting.id, &waiting.sealed)?;
        serde_json::from_slice(&plain).map_err(SendError::Content)
    }

    /// The email as it is sent.
    pub(super) fn message(&self, app: &App, id: &str) -> Result<Message, SendError> {
        let host = app.public_url.host_str().unwrap_or("localhost");
        let Rendered { subject, text, html } = self.render(app.public_url.as_str().trim_end_matches('/'), host)?;
        let millis = u64::try_from(app.clock.now().as_millis()).unwrap_or(0);
        let message = Message::builder()
            .from(app.config.mail_from_at(&app.public_url).ok_or(SendError::NoSender)?)
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

    fn render(&self, base: &str, host: &str) -> askama::Result<Rendered> {
        let callback = |token: &str| format!("{base}/v1/auth/callback?token={token}");
        let confirm = |token: &str| format!("{base}{CONFIRM_PATH}?token={token}");
        let (subject, text, html) = match &self.content {
            Content::Signup { token, until } => {
                let (link, until) = (&confirm(token), &day(*until));
                let text = SignupText { host, link, until }.render()?;
                (format!("Your new account on {host}"), text, SignupHtml { host, link, until }.render()?)
            }
            Content::Signin { signin_token: token, until } => {
                let (link, until) = (&callback(token), &minute(*until));
                let text = SigninText { host, link, until }.render()?;
                (format!("Sign in to {host}"), text, SigninHtml { host, link, until }.render()?)
            }
            Content::Invite { invite_token: token, from, until } => {
                let (link, until) = (&format!("{base}/v1/auth/verify?token={token}"), &day(*until));
                let from = from.as_deref();
                let text = InviteText { host, link, until, from }.render()?;
                (format!("Join a team on {host}"), text, InviteHtml { host, link, until, from }.render()?)
            }
            Content::Code { code, until } => {
                let until = &minute(*until);
                let text = CodeText { host, code, until }.render()?;
                (format!("Your confirmation code for {host}"), text, CodeHtml { host, code, until }.render()?)
            }
            Content::DomainLost { domain, txt_record, verification_token: token, until } => {
                let until = &day(*until);
                let text = DomainLostText { host, domain, txt_record, token, until }.render()?;
                let html = DomainLostHtml { host, domain, txt_record, token, until }.render()?;
                (format!("{domain} is no longer verified"), text, html)
            }
            Content::WebhookPaused { webhook_url: url, failing_since } => {
                let (link, since) = (&format!("{base}{WEBHOOKS}"), &day(*failing_since));
                let text = WebhookPausedText { host, url, since, link }.render()?;
                let html = WebhookPausedHtml { host, url, since, link }.render()?;
                (format!("A webhook on {host} was paused"), text, html)
            }
            Content::AccountDeletion { account, requested_by, deletes_at } => {
                let (link, until) = (&format!("{base}{SETTINGS}"), &minute(*deletes_at));
                let by = requested_by.as_deref();
                let text = AccountDeletionText { host, account, by, until, link }.render()?;
                let html = AccountDeletionHtml { host, account, by, until, link }.render()?;
                (format!("Your account on {host} will be deleted"), text, html)
            }
        };
        Ok(Rendered { subject, text, html })
    }
}

/// The page with the account's settings.
const SETTINGS: &str = "/account/settings";

/// The page with the webhooks.
const WEBHOOKS: &str = "/account/webhooks";

/// An email's parts.
struct Rendered {
    subject: String,
    text: String,
    html: String,
}

/// For links that are valid for days: the date alone, since the time would need a zone.
fn day(moment: Timestamp) -> String {
    moment.to_string().chars().take(10).collect()
}

/// For links and codes that are valid for minutes: the time as well.
fn minute(moment: Timestamp) -> String {
    let text = moment.to_string();
    match text.get(11..16) {
        Some(time) => format!("{time} UTC on {}", day(moment)),
        None => day(moment),
    }
}

/// A part of an email without transfer encoding: quoted-printable would split links over two lines. ASCII lines of up
/// to 998 characters need none (RFC 5322, section 2.1.1).
fn part(kind: ContentType, text: String) -> SinglePart {
    let builder = SinglePart::builder().header(kind);
    if text.is_ascii() && text.lines().all(|line| line.len() <= 998) {
        let lines: String = text.lines().flat_map(|line| [line, "\r\n"]).collect();
        builder.body(Body::dangerous_pre_encoded(lines.into_bytes(), ContentTransferEncoding::SevenBit))
    } else {
        builder.body(text)
    }
}

/// The templates of each kind of email: plain text and HTML, with the same values.
macro_rules! templates {
    ($($text:ident $text_path:tt, $html:ident $html_path:tt { $($value:ident: $type:ty),+ })+) => {$(
        #[derive(Template)]
        #[template(path = $text_path)]
        struct $text<'a> {
            $($value: $type),+
        }

        #[derive(Template)]
        #[template(path = $html_path)]
        struct $html<'a> {
            $($value: $type),+
        }
    )+};
}

templates! {
    SignupText "mail/signup.txt", SignupHtml "mail/signup.html" { host: &'a str, link: &'a str, until: &'a str }
    SigninText "mail/signin.txt", SigninHtml "mail/signin.html" { host: &'a str, link: &'a str, until: &'a str }
    InviteText "mail/invite.txt", InviteHtml "mail/invite.html" {
        host: &'a str, link: &'a str, until: &'a str, from: Option<&'a str>
    }
    CodeText "mail/code.txt", CodeHtml "mail/code.html" { host: &'a str, code: &'a str, until: &'a str }
    DomainLostText "mail/domain_lost.txt", DomainLostHtml "mail/domain_lost.html" {
        host: &'a str, domain: &'a str, txt_record: &'a str, token: &'a str, until: &'a str
    }
    AccountDeletionText "mail/account_deletion.txt", AccountDeletionHtml "mail/account_deletion.html" {
        host: &'a str, account: &'a str, by: Option<&'a str>, until: &'a str, link: &'a str
    }
    WebhookPausedText "mail/webhook_paused.txt", WebhookPausedHtml "mail/webhook_paused.html" {
        host: &'a str, url: &'a str, since: &'a str, link: &'a str
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::secret::Random;

    use super::*;

    fn until() -> Timestamp {
        Timestamp::from_millis(1_795_167_000_000)
    }

    fn each() -> Vec<(Mail, &'static str)> {
        let to = "a@example.com".parse::<Email>().expect("an address");
        let token = Token::new("0".repeat(64));
        let code = ConfirmationCode::typed("AB12CZ").expect("a code");
        let domain = "go.example.com".parse::<DomainName>().expect("a name");
        let from = Some("b@example.com".to_owned());
        let account = "tnt_000000000000000000000000".parse::<TenantId>().expect("an id");
        vec![
            (Mail::signup(&to, &token, until()).expect("a mail"), r#""token":"T","until":"U"}"#),
            (Mail::signin(&to, &token, until()).expect("a mail"), r#""signin_token":"T","until":"U"}"#),
            (
                Mail::invite(&to, &token, from, until()).expect("a mail"),
                r#""invite_token":"T","from":"b@example.com","until":"U"}"#,
            ),
            (
                Mail::invite(&to, &token, None, until()).expect("a mail"),
                r#""invite_token":"T","from":null,"until":"U"}"#,
            ),
            (Mail::code(&to, &code, until()).expect("a mail"), r#""code":"AB12CZ","until":"U"}"#),
            (
                Mail::domain_lost("a@example.com".into(), &domain, token.expose(), until()),
                r#""domain":"go.example.com","txt_record":"_deeplink-verify.go.example.com","verification_token":"T","until":"U"}"#,
            ),
            (
                Mail::webhook_paused("a@example.com".into(), "https://hooks.example.com/in", until()),
                r#""webhook_url":"https://hooks.example.com/in","failing_since":"U"}"#,
            ),
            (
                Mail::account_deletion("a@example.com".into(), &account, Some("b@example.com".to_owned()), until()),
                r#""account":"tnt_000000000000000000000000","requested_by":"b@example.com","deletes_at":"U"}"#,
            ),
        ]
    }

    /// A mail that an older version stored is still sent after an update.
    #[test]
    fn stored_mails_keep_their_form() {
        for (mail, stored) in each() {
            let stored = stored.replace(":\"T\"", &format!(":\"{}\"", "0".repeat(64)));
            let stored =
                format!(r#"{{"to":"a@example.com",{}"#, stored.replace(":\"U\"", ":\"2026-11-20T09:30:00.000Z\""));
            assert_eq!(serde_json::to_string(&mail).expect("JSON"), stored);
            assert!(serde_json::from_str::<Mail>(&stored).expect("a mail") == mail, "{stored}");
        }
    }

    /// Links and codes can be copied as they are: alone on a line of the plain text, in full beside the button.
    #[test]
    fn what_is_typed_or_pasted_stands_alone() {
        let token = "0".repeat(64);
        let base = "https://links.example.com";
        for (mail, _) in each() {
            let Rendered { subject, text, html } = mail.render(base, "links.example.com").expect("it is written");
            let alone = match &mail.content {
                Content::Signup { .. } => format!("{base}/account/confirm?token={token}"),
                Content::Signin { .. } => format!("{base}/v1/auth/callback?token={token}"),
                Content::Invite { .. } => format!("{base}/v1/auth/verify?token={token}"),
                Content::Code { code, .. } => code.clone(),
                Content::DomainLost { verification_token, .. } => verification_token.clone(),
                Content::WebhookPaused { webhook_url, .. } => webhook_url.clone(),
                Content::AccountDeletion { .. } => format!("{base}{SETTINGS}"),
            };
            assert_eq!(text.lines().filter(|line| *line == alone).count(), 1, "{text}");
            assert!(html.contains(&format!(">{alone}<")), "{html}");
            assert!(text.is_ascii() && html.is_ascii() && !subject.contains(&token));
            assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("http://"), "{html}");
            assert!(text.contains("2026-11-20") && html.contains("2026-11-20"), "both say until when");
        }
    }

    /// An address may contain characters that have a meaning in HTML.
    #[test]
    fn who_invites_cannot_speak_in_html() {
        let to = "a@example.com".parse::<Email>().expect("an address");
        let from = Some("a&b'<i>@example.com".to_owned());
        let mail = Mail::invite(&to, &Token::generate(&mut Random::seeded(1)), from, until()).expect("a mail");
        let written = mail.render("https://links.example.com", "links.example.com").expect("it is written");
        assert!(!written.html.contains("<i>") && written.text.contains("a&b'<i>@example.com"));
    }
}
