//! What mails say: kept sealed while they wait, written as plain text and HTML when they go out.

use std::time::Duration;

use askama::Template;
use deeplink_core::domain::DomainName;
use deeplink_core::id::MailId;
use deeplink_core::secret::{ConfirmationCode, Token};
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message};
use serde::{Deserialize, Serialize};

use super::Failed;
use crate::db::mails::Waiting;
use crate::state::App;
use crate::vault::Vault;

/// A mail. It can hold a token, so it is stored sealed and does not show itself.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct Mail {
    to: String,
    #[serde(flatten)]
    says: Says,
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[mail]")
    }
}

/// What a mail says. Stored mails have no word for their kind: the members tell it, so no two kinds share all of them.
#[derive(PartialEq, Serialize, Deserialize)]
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
    /// A webhook has failed for days and is switched off.
    WebhookPaused {
        webhook_url: String,
        /// Since when nothing has arrived.
        failing_since: Timestamp,
    },
    /// Confirm the address of a new account.
    Signup {
        /// The token of the link in it.
        token: String,
        /// Until when that link works.
        until: Timestamp,
    },
    /// Sign in.
    Signin { signin_token: String, until: Timestamp },
    /// Join a team.
    Invite {
        invite_token: String,
        /// Who invites, where that is somebody whose address is known to be theirs.
        from: Option<String>,
        until: Timestamp,
    },
    /// Confirm a new secret key.
    Code { code: String, until: Timestamp },
}

impl Mail {
    /// `None`: mail cannot carry such an address.
    fn of(to: &Email, says: Says) -> Option<Self> {
        to.as_str().parse::<Address>().ok()?;
        Some(Self { to: to.as_str().to_owned(), says })
    }

    /// Asks a new account's owner to confirm the address. `None`: mail cannot carry such an address.
    pub(crate) fn signup(to: &Email, token: &Token, until: Timestamp) -> Option<Self> {
        Self::of(to, Says::Signup { token: token.expose().to_owned(), until })
    }

    /// Gives somebody the link that signs them in. `None`: mail cannot carry such an address.
    pub(crate) fn signin(to: &Email, token: &Token, until: Timestamp) -> Option<Self> {
        Self::of(to, Says::Signin { signin_token: token.expose().to_owned(), until })
    }

    /// Invites somebody into a team, `from` whom if that is known for sure. `None`: mail cannot carry such an address.
    pub(crate) fn invite(to: &Email, token: &Token, from: Option<String>, until: Timestamp) -> Option<Self> {
        Self::of(to, Says::Invite { invite_token: token.expose().to_owned(), from, until })
    }

    /// Gives somebody the code that confirms a new secret key. `None`: mail cannot carry such an address.
    pub(crate) fn code(to: &Email, code: &ConfirmationCode, until: Timestamp) -> Option<Self> {
        Self::of(to, Says::Code { code: code.expose().to_owned(), until })
    }

    /// Tells an owner that a domain is no longer verified, and how to have it back.
    pub(crate) fn domain_lost(to: String, domain: &DomainName, token: &str, until: Timestamp) -> Self {
        let (domain, txt_record) = (domain.to_string(), domain.txt_record());
        Self { to, says: Says::DomainLost { domain, txt_record, verification_token: token.to_owned(), until } }
    }

    /// Tells an owner that a webhook is switched off, and how to have it back.
    pub(crate) fn webhook_paused(to: String, url: &str, since: Timestamp) -> Self {
        Self { to, says: Says::WebhookPaused { webhook_url: url.to_owned(), failing_since: since } }
    }

    /// The mail as it is stored.
    pub(crate) fn seal(&self, vault: &Vault, id: &MailId) -> String {
        vault.seal("mails", id.as_str(), &serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn open(vault: &Vault, waiting: &Waiting) -> Result<Self, Failed> {
        let plain = vault.open("mails", &waiting.id, &waiting.sealed)?;
        serde_json::from_slice(&plain).map_err(Failed::Content)
    }

    /// The mail as it goes out.
    pub(super) fn message(&self, app: &App, id: &str) -> Result<Message, Failed> {
        let host = app.public_url.host_str().unwrap_or("localhost");
        let Written { subject, text, html } = self.written(app.public_url.as_str().trim_end_matches('/'), host)?;
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

    fn written(&self, base: &str, host: &str) -> askama::Result<Written> {
        let callback = |token: &str| format!("{base}/v1/auth/callback?token={token}");
        let (subject, text, html) = match &self.says {
            Says::Signup { token, until } => {
                let (link, until) = (&callback(token), &day(*until));
                let text = SignupText { host, link, until }.render()?;
                (format!("Your new account at {host}"), text, SignupHtml { host, link, until }.render()?)
            }
            Says::Signin { signin_token: token, until } => {
                let (link, until) = (&callback(token), &minute(*until));
                let text = SigninText { host, link, until }.render()?;
                (format!("Sign in to {host}"), text, SigninHtml { host, link, until }.render()?)
            }
            Says::Invite { invite_token: token, from, until } => {
                let (link, until) = (&format!("{base}/v1/auth/verify?token={token}"), &day(*until));
                let from = from.as_deref();
                let text = InviteText { host, link, until, from }.render()?;
                (format!("Join a team at {host}"), text, InviteHtml { host, link, until, from }.render()?)
            }
            Says::Code { code, until } => {
                let until = &minute(*until);
                let text = CodeText { host, code, until }.render()?;
                (format!("Your confirmation code at {host}"), text, CodeHtml { host, code, until }.render()?)
            }
            Says::DomainLost { domain, txt_record, verification_token: token, until } => {
                let until = &day(*until);
                let text = DomainLostText { host, domain, txt_record, token, until }.render()?;
                let html = DomainLostHtml { host, domain, txt_record, token, until }.render()?;
                (format!("{domain} is no longer verified"), text, html)
            }
            Says::WebhookPaused { webhook_url: url, failing_since } => {
                let (link, since) = (&format!("{base}{WEBHOOKS}"), &day(*failing_since));
                let text = WebhookPausedText { host, url, since, link }.render()?;
                let html = WebhookPausedHtml { host, url, since, link }.render()?;
                (format!("A webhook at {host} is switched off"), text, html)
            }
        };
        Ok(Written { subject, text, html })
    }
}

/// Where people see to their webhooks.
const WEBHOOKS: &str = "/account/webhooks";

/// A mail's parts before they are put together.
struct Written {
    subject: String,
    text: String,
    html: String,
}

/// Where a link works for days, the day is enough for people; the time of day would need a zone.
fn day(moment: Timestamp) -> String {
    moment.to_string().chars().take(10).collect()
}

/// Where it works for minutes, they need both.
fn minute(moment: Timestamp) -> String {
    let text = moment.to_string();
    match text.get(11..16) {
        Some(time) => format!("{time} UTC on {}", day(moment)),
        None => day(moment),
    }
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
#[template(path = "mail/signin.txt")]
struct SigninText<'a> {
    host: &'a str,
    link: &'a str,
    until: &'a str,
}

#[derive(Template)]
#[template(path = "mail/signin.html")]
struct SigninHtml<'a> {
    host: &'a str,
    link: &'a str,
    until: &'a str,
}

#[derive(Template)]
#[template(path = "mail/invite.txt")]
struct InviteText<'a> {
    host: &'a str,
    link: &'a str,
    until: &'a str,
    from: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "mail/invite.html")]
struct InviteHtml<'a> {
    host: &'a str,
    link: &'a str,
    until: &'a str,
    from: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "mail/code.txt")]
struct CodeText<'a> {
    host: &'a str,
    code: &'a str,
    until: &'a str,
}

#[derive(Template)]
#[template(path = "mail/code.html")]
struct CodeHtml<'a> {
    host: &'a str,
    code: &'a str,
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

#[derive(Template)]
#[template(path = "mail/webhook_paused.txt")]
struct WebhookPausedText<'a> {
    host: &'a str,
    url: &'a str,
    since: &'a str,
    link: &'a str,
}

#[derive(Template)]
#[template(path = "mail/webhook_paused.html")]
struct WebhookPausedHtml<'a> {
    host: &'a str,
    url: &'a str,
    since: &'a str,
    link: &'a str,
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
            let Written { subject, text, html } = mail.written(base, "links.example.com").expect("it is written");
            let alone = match &mail.says {
                Says::Signup { .. } | Says::Signin { .. } => format!("{base}/v1/auth/callback?token={token}"),
                Says::Invite { .. } => format!("{base}/v1/auth/verify?token={token}"),
                Says::Code { code, .. } => code.clone(),
                Says::DomainLost { verification_token, .. } => verification_token.clone(),
                Says::WebhookPaused { webhook_url, .. } => webhook_url.clone(),
            };
            assert_eq!(text.lines().filter(|line| *line == alone).count(), 1, "{text}");
            assert!(html.contains(&format!(">{alone}<")), "{html}");
            assert!(text.is_ascii() && html.is_ascii() && !subject.contains(&token));
            assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("http://"), "{html}");
            assert!(text.contains("2026-11-20") && html.contains("2026-11-20"), "both say until when");
        }
    }

    /// An address may hold characters that mean something in HTML.
    #[test]
    fn who_invites_cannot_speak_in_html() {
        let to = "a@example.com".parse::<Email>().expect("an address");
        let from = Some("a&b'<i>@example.com".to_owned());
        let mail = Mail::invite(&to, &Token::generate(&mut Random::seeded(1)), from, until()).expect("a mail");
        let written = mail.written("https://links.example.com", "links.example.com").expect("it is written");
        assert!(!written.html.contains("<i>") && written.text.contains("a&b'<i>@example.com"));
    }
}
