//! Where mails go: to an SMTP server, or into a directory.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use super::{BadSetting, Environment};

/// Where mails go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MailTransport {
    /// To an SMTP server.
    Smtp(SmtpUrl),
    /// Into a directory, each mail as one `.eml` file: for development and tests.
    Directory(PathBuf),
}

impl MailTransport {
    /// Reads the two variables, of which at most one can be set. `None`: neither is.
    pub(super) fn read(directory: Option<&str>, environment: &Environment) -> Result<Option<Self>, BadSetting> {
        const SMTP: &str = "DEEPLINK_SMTP_URL";
        let bad = |problem| BadSetting { variable: SMTP.into(), problem };
        let smtp = environment.secret(SMTP)?.map(|text| text.parse().map_err(bad)).transpose()?;
        match (smtp, directory.filter(|text| !text.is_empty())) {
            (Some(_), Some(_)) => Err(bad("cannot be combined with DEEPLINK_MAIL_DIR; set only one of them".into())),
            (Some(smtp), None) => Ok(Some(Self::Smtp(smtp))),
            (None, directory) => Ok(directory.map(|text| Self::Directory(PathBuf::from(text)))),
        }
    }
}

/// An SMTP server: `smtps://USER:PASSWORD@HOST[:PORT]` is TLS from the first byte (RFC 8314),
/// `smtp://USER:PASSWORD@HOST[:PORT]?tls=required` is STARTTLS (RFC 3207). Without TLS only a server on this machine is
/// allowed. It can hold a password, so `Debug` and `Display` omit it.
#[derive(Clone, PartialEq, Eq)]
pub struct SmtpUrl(Box<str>);

impl SmtpUrl {
    /// The whole URL, with the password if it has one.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The host that the certificate must name, and whether TLS is implicit (`smtps`); `None` without TLS.
    pub(crate) fn tls(&self) -> Option<(String, bool)> {
        let url = Url::parse(&self.0).ok()?;
        let is_implicit = url.scheme() == "smtps";
        let has_tls = is_implicit || url.query().is_some();
        url.host_str().filter(|_| has_tls).map(|host| (host.to_owned(), is_implicit))
    }
}

impl FromStr for SmtpUrl {
    type Err = String;

    // The invalid value may hold a password, so messages must not repeat it.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "not a URL of the form smtps://USER:PASSWORD@HOST or smtp://USER:PASSWORD@HOST?tls=required";
        let url = Url::parse(text).map_err(|_| form.to_owned())?;
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else { return Err(form.into()) };
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err("only ?tls=required may follow the host".into());
        }
        let local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        match (url.scheme(), url.query()) {
            ("smtps", None) | ("smtp", Some("tls=required")) => Ok(Self(text.into())),
            ("smtp", None) if local => Ok(Self(text.into())),
            ("smtp", None) => {
                Err("emails contain sign-in links and must be encrypted: use smtps://, or add ?tls=required".into())
            }
            _ => Err(form.into()),
        }
    }
}

/// Shows the server without user name and password.
impl fmt::Display for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = Url::parse(&self.0).ok();
        let part = |part: Option<String>| part.unwrap_or_default();
        let scheme = part(url.as_ref().map(|url| url.scheme().to_owned()));
        let host = part(url.as_ref().and_then(|url| url.host_str().map(str::to_owned)));
        let port = part(url.as_ref().and_then(|url| url.port().map(|port| format!(":{port}"))));
        write!(f, "{scheme}://{host}{port}")
    }
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smtp_urls() {
        for (text, shown) in [
            ("smtps://me:secret@mail.example.com", "smtps://mail.example.com"),
            ("smtps://mail.example.com:1465", "smtps://mail.example.com:1465"),
            ("smtp://me:secret@mail.example.com:587?tls=required", "smtp://mail.example.com:587"),
            ("smtp://127.0.0.1:2525", "smtp://127.0.0.1:2525"),
            ("smtp://localhost:25/", "smtp://localhost:25"),
        ] {
            let url = text.parse::<SmtpUrl>().expect(text);
            assert_eq!((format!("{url} {url:?}"), url.expose()), (format!("{shown} {shown}"), text));
            let tls = (!text.contains("127.0.0.1") && !text.contains("localhost"))
                .then(|| ("mail.example.com".to_owned(), text.starts_with("smtps:")));
            assert_eq!(url.tls(), tls, "{text}");
        }
        for text in [
            "",
            "mail.example.com",
            "https://me:secret@mail.example.com",
            "smtp://me:secret@mail.example.com",
            "smtp://me:secret@mail.example.com?tls=opportunistic",
            "smtps://me:secret@mail.example.com?tls=none",
            "smtps://me:secret@mail.example.com/path",
        ] {
            let refused = text.parse::<SmtpUrl>().expect_err(text);
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
